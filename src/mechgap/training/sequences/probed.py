"""Supervision without compiled weights: after every layer, linear probes must read the program's variables (ALTA C.1).

The paper suggests it and does not try it. The Transformer is free to encode the variables as it likes, as long as one
linear map per variable, the same for all layers, finds them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Int, PRNGKeyArray

from mechgap.networks.layers import Linear
from mechgap.networks.transformer import Transformer, TransformerConfig, TransformerSize, room_for, watch_layers
from mechgap.programs.alta import AltaProgram, Categorical
from mechgap.programs.alta_interpreter import batched
from mechgap.programs.tasks import Task
from mechgap.training.many import Recipe, Trained, train_many


@dataclass(frozen=True)
class ProbedSize:
    """A Transformer of shared layers with relative positions, of which programs that loop need no others.

    Attributes:
        span: the largest distance with a bias of its own. Programs look at neighbours or anywhere, and few biases are
            all seen in training, whatever its length.
    """

    width: int = 64
    hidden: int = 256
    heads: int = 4
    head_width: int = 16
    span: int = 2


class Probed(eqx.Module):
    """A Transformer, and a probe for every categorical variable of a program."""

    network: Transformer
    probes: dict[str, Linear]

    @classmethod
    def init(cls, program: AltaProgram, size: ProbedSize, layers: int, *, key: PRNGKeyArray) -> "Probed":
        """Random weights."""
        net_key, *keys = jax.random.split(key, 1 + len(program.variables))
        whole = TransformerSize(
            inputs=program.input_size,
            outputs=1,  # the answer is read by the probe of the program's output
            width=size.width,
            hidden=size.hidden,
            heads=size.heads,
            head_width=size.head_width,
            layers=layers,
            biases=2 * size.span + 1,
        )
        network = Transformer.init(whole, TransformerConfig(shared=True, activation="gelu"), key=net_key)
        probes = {
            v.name: Linear.init(size.width, v.size, key=k)
            for v, k in zip(program.variables, keys, strict=True)
            if isinstance(v, Categorical)
        }
        return cls(network, probes)

    def read(self, ids: Int[Array, " length"], length: Int[Array, ""], layers: int) -> dict[str, Array]:
        """Variable -> logits [layers, length, values], after every layer."""
        streams = watch_layers(self.network, ids, length, layers=layers).stream
        assert self.network.norm is not None
        seen = self.network.norm(streams)
        return {name: probe(seen) for name, probe in self.probes.items()}


@dataclass(frozen=True)
class Executions:
    """Executions of a program: ids [N, L], lengths [N], and of every categorical variable its values [N, layers, L]."""

    ids: np.ndarray
    lengths: np.ndarray
    values: dict[str, np.ndarray]

    @classmethod
    def of(cls, program: AltaProgram, texts: Sequence[str], layers: int) -> "Executions":
        """Run a program; an execution that has ended stays as it is."""
        given = [program.encode(text) for text in texts]
        ids, lengths = batched(program, given)
        streams = program.interpret(given).streams[1:]
        steps = [streams[min(layer, len(streams) - 1)] for layer in range(layers)]
        names = [v.name for v in program.variables if isinstance(v, Categorical)]
        return cls(ids, lengths, {name: np.stack([s[name] for s in steps], axis=1) for name in names})


def train_probed(program: AltaProgram, task: Task, size: ProbedSize, recipe: Recipe, **options: Any) -> Trained:
    """Train Transformers whose layers hold a program's variables; options as for `train_many`."""
    layers = int(program.interpret([program.encode(max(task.train, key=len))]).layers[0])
    shown = Executions.of(program, task.train, layers)
    arrays = (jnp.asarray(shown.ids), jnp.asarray(shown.lengths), jax.tree.map(jnp.asarray, shown.values))

    def draw(arrays: Any, key: PRNGKeyArray) -> Any:
        at = jax.random.randint(key, (recipe.batch,), 0, len(shown.ids))
        return jax.tree.map(lambda x: x[at], arrays)

    def loss(model: Probed, batch: Any) -> Array:
        ids, lengths, values = batch
        inside = (jnp.arange(ids.shape[1]) < lengths[:, None])[:, None, :]  # [B, 1, L]
        logits = jax.vmap(lambda i, n: model.read(i, n, layers))(ids, lengths)
        total = jnp.zeros(())
        for name, wanted in values.items():
            chosen = jnp.take_along_axis(jax.nn.log_softmax(logits[name]), wanted[..., None], axis=-1)[..., 0]
            total += -jnp.sum(jnp.where(inside, chosen, 0)) / (layers * jnp.sum(inside))
        return total

    drawn = Partial(draw, arrays)
    return train_many(lambda key: Probed.init(program, size, layers, key=key), loss, drawn, recipe, **options)


def run_probed(model: Probed, program: AltaProgram, inputs: Sequence[Sequence[int]], layers: int) -> list[list[int]]:
    """The program's output at every position, read off the stream after so many layers."""
    ids, lengths = batched(program, inputs)
    room = room_for(len(ids)), room_for(ids.shape[1])
    wide = np.zeros(room, int)
    wide[: len(ids), : ids.shape[1]] = ids
    said = _said(model, jnp.asarray(wide), jnp.asarray(np.resize(lengths, room[0])), program.output, layers)
    return [row[:length].tolist() for row, length in zip(np.asarray(said), lengths, strict=False)]


@eqx.filter_jit
def _said(model: Probed, ids: Array, lengths: Array, output: str, layers: int) -> Int[Array, "batch length"]:
    logits = jax.vmap(lambda i, n: model.read(i, n, layers)[output][-1])(ids, lengths)
    return jnp.argmax(logits, axis=-1)
