"""Trace supervision: an MLP is trained to do what the rules of a program do, the rest is compiled (ALTA C.1)."""

import math
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, PRNGKeyArray

from mechgap.networks.layers import Linear
from mechgap.networks.transformer import Transformer
from mechgap.programs.alta import AltaProgram
from mechgap.programs.tasks import Task
from mechgap.training.many import Recipe, Trained, train_many
from mechgap.training.sequences.traces import Traces, left_undefined, trace_vectors

PRECISIONS = ("default", "highest")


@dataclass(frozen=True)
class MlpSize:
    """Hidden layers of ReLUs, and the noise on what they are given in training (ALTA Table 1).

    Attributes:
        noise: its standard deviation, on every channel. Values of a variable must be further apart, see `scale` of
            `parity_sum_mod_2_intermediate`.
        precision: of products in training; on a CPU both are float32. "default" rounds operands to 11 binary digits on
            an NVIDIA GPU (TF32), which a number of 1000 loses up to 0.25 by.
        undefined: what a head leaves undefined is drawn from so far below 0 to so far above it, in training; 10 in
            ALTA's own code. With 0 it is 0, as it is wherever a compiled network runs.
        sharpness: of the compiled heads that the MLP learns from and works with, see `gentler`; 1 as they are compiled.
    """

    layers: int = 2
    hidden: int = 128
    noise: float = 0.1
    precision: str = "default"
    undefined: float = 0.0
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision of an MLP must be {' or '.join(PRECISIONS)}; got {self.precision!r}.")
        if not self.sharpness > 0:
            raise ValueError(f"sharpness must be a number above 0, 1 for heads as compiled; got {self.sharpness!r}.")
        for name in ("noise", "undefined"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be a number of at least 0; got {getattr(self, name)!r}.")


class Mlp(eqx.Module):
    """What is added to the stream: affine layers with ReLUs between them."""

    layers: tuple[Linear, ...]

    @classmethod
    def init(cls, width: int, size: MlpSize, *, key: PRNGKeyArray) -> "Mlp":
        """Random weights, for ReLUs."""
        widths = [width, *[size.hidden] * size.layers, width]
        keys = jax.random.split(key, len(widths) - 1)
        pairs = zip(keys, widths[:-1], widths[1:], strict=True)
        return cls(tuple(Linear.init(a, b, key=k, stddev=math.sqrt(2 / a)) for k, a, b in pairs))

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


def supervise(
    network: Transformer,
    program: AltaProgram,
    task: Task,
    size: MlpSize,
    recipe: Recipe,
    **options: Any,
) -> tuple[Trained, Traces]:
    """Train MLPs on the traces of a program.

    Args:
        network: compiled from the program, with the heads and embeddings that the MLP will work with.
        program: what gives the traces.
        task: its training set gives the traces.
        size: of the MLP.
        recipe: how it is trained; `batch` is of pairs of vectors, drawn as often as they occur.
        options: see `train_many`.
    """
    traces = trace_vectors(network, program, task.train)
    share = np.asarray(traces.counts / traces.counts.sum(), np.float32)
    arrays = (traces.before, traces.after, share, left_undefined(program, traces.before))

    def draw(arrays: tuple[Array, ...], key: PRNGKeyArray) -> tuple[Array, Array]:
        before, after, share, vague = arrays
        which, shake, invent = jax.random.split(key, 3)
        at = jax.random.choice(which, len(before), (recipe.batch,), p=share)
        given = before[at]
        if size.undefined > 0:
            drawn = jax.random.uniform(invent, given.shape, minval=-1.0, maxval=1.0)
            given = jnp.where(vague[at], size.undefined * drawn, given)
        return given + size.noise * jax.random.normal(shake, given.shape), after[at]

    def loss(mlp: Mlp, batch: tuple[Array, Array]) -> Array:
        given, wanted = batch
        with jax.default_matmul_precision(size.precision):
            return jnp.mean(jnp.sum((given + mlp(given) - wanted) ** 2, axis=-1))  # it also takes the noise away

    drawn, width = Partial(draw, tuple(map(jnp.asarray, arrays))), traces.before.shape[1]
    return train_many(lambda key: Mlp.init(width, size, key=key), loss, drawn, recipe, **options), traces


def with_mlp(network: Transformer, mlp: Mlp) -> Transformer:
    """The compiled Transformer with a trained MLP."""
    config = replace(network.config, activation="relu")  # what is compiled keeps the precision that it needs
    return replace(network, block=replace(network.block, mlp=mlp.layers), config=config)


def gentler(network: Transformer, sharpness: float) -> Transformer:
    """A compiled Transformer whose heads have logits that are smaller by a factor.

    As compiled, what is selected is 256 nats ahead of all else, and 128 of the null slot: an exact network looks at
    nothing else at all. But a trained MLP is a little off, and where it is off by e on a query or a key, a place is
    looked at by a factor of about exp(256 e) more or less than others that are selected, too: 13 for e = 0.01.
    """
    heads = network.block.heads
    if heads is None or sharpness == 1:
        return network
    products = {name: math.sqrt(sharpness) * getattr(heads, name) for name in ("query", "key")}
    heads = replace(heads, **products, relative=sharpness * heads.relative, null=sharpness * heads.null)
    return replace(network, block=replace(network.block, heads=heads))


def vector_accuracy(mlp: Mlp, traces: Traces, within: float = 0.1) -> float:
    """How many vectors come out right in all their numbers, weighted by how often they occur."""
    with jax.default_matmul_precision("highest"):  # as the whole network runs
        made = traces.before + np.asarray(mlp(jnp.asarray(traces.before)))
    return float(np.average(np.all(np.abs(made - traces.after) < within, axis=1), weights=traces.counts))
