"""On what networks are compared: executions, and what the program attends to in each of their steps."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from mechgap.algorithms import algorithm
from mechgap.compiler.to_gatv2 import Compiled
from mechgap.networks import predict
from mechgap.trace import Stage, Trace, Values
from mechgap.training.config import TrainConfig
from mechgap.training.data import TO_LOOK, TO_VALIDATE, Batch, as_batch, as_seen, member_key, source_of, test_trace

SPLITS = ("train", "validation", "test")
SPARE = 8  # times as many samples are drawn as kept, since some leave the domain of the compiled network


class Meant(eqx.Module):
    """What the program attends to by its meaning; time, sample and head in front.

    It is the interpreter's: a compiled network's own attention is the same wherever its choices are clear, and may be
    wrong where two numbers are closer than it can tell apart.

    Attributes:
        star: α*, each row of which sums to 1.
        decisive: the rows in which the algorithm moves information; in others α* is a convention.
        equivalents: name -> α* with other conventions there, as the program declares them.
    """

    star: Float[Array, "steps batch selects n n"]
    decisive: Bool[Array, "steps batch selects n"]
    equivalents: dict[str, Float[Array, "steps batch selects n n"]]


@dataclass(frozen=True)
class Probe:
    """Executions on which networks are compared.

    Attributes:
        name: "train", "validation" or "test".
        trace: the executions as the algorithm performs them and a network sees them, on the host.
        batch: the same on the device.
        meant: None where no program is compiled.
    """

    name: str
    trace: Trace
    batch: Batch
    meant: Meant | None

    @property
    def inside(self) -> Bool[Array, "steps batch"]:
        """Which steps belong to an execution: step t makes frame t + 1."""
        return jnp.arange(1, self.trace.steps)[:, None] < self.batch.lengths

    def head(self, samples: int) -> "Probe":
        """The first samples only."""
        return make_probe(
            self.name, self.trace.take(slice(0, samples)), None if self.meant is None else _first(self.meant, samples)
        )


def probe(
    config: TrainConfig, split: str, samples: int, compiled: Compiled | None = None, n: int | None = None
) -> Probe:
    """Draw executions.

    Args:
        config: what was trained; its distribution and sizes are used.
        split: "train" and "validation" draw graphs of the largest training size (the validation's are the first of
            those that networks were selected on), "test" takes the benchmark's own.
        samples: how many, at most.
        compiled: what to compare attention with. Graphs whose positions it cannot tell apart are left out.
        n: another number of nodes, for "train" and "validation".
    """
    if split not in SPLITS:
        raise ValueError(f"A probe is one of {', '.join(SPLITS)}; got {split!r}.")
    trace = test_trace(config) if split == "test" else _drawn(config, split, samples, n or max(config.sizes))
    kept = np.flatnonzero(np.asarray(trace.lengths) > 1)  # an execution of one frame has no step to look at
    if compiled is not None:
        kept = kept[_in_domain(compiled, trace.inputs)[kept]]
    if not len(kept):
        raise ValueError(
            f"No {split} sample of {trace.nodes} nodes can be compared: all end at once, or lie outside what the "
            f"compiled network is built for. Compile with more max_nodes and a smaller min_gap."
        )
    trace = trace.take(kept[:samples])
    trace = eqx.tree_at(lambda t: t.hints, trace, {k: x[: int(trace.lengths.max())] for k, x in trace.hints.items()})
    return make_probe(split, trace, None if compiled is None else _meant(compiled, trace))


def make_probe(name: str, trace: Trace, meant: Meant | None) -> Probe:
    """A probe of given executions."""
    return Probe(name, trace, as_batch(trace), meant)


def uniform_attention(trace: Trace) -> Float[Array, "steps batch one n n"]:
    """Every node looks equally at itself and at all its neighbours, in every step."""
    nobody = np.ones((trace.batch, trace.nodes, trace.nodes))  # in an array, all elements are neighbours
    joined = np.asarray(trace.inputs.get("adj", nobody)) > 0
    joined = joined | np.swapaxes(joined, 1, 2) | np.eye(trace.nodes, dtype=bool)
    rows = joined / joined.sum(-1, keepdims=True)
    return jnp.broadcast_to(
        jnp.asarray(rows, jnp.float32)[None, :, None], (trace.steps - 1, trace.batch, 1, *rows.shape[1:])
    )


def attention_of(network: Any, batch: Batch, steps: int) -> Float[Array, "steps batch heads n n"]:
    """What a network attends to; the k message-passing steps of a hint step are further heads."""
    network.config.check_attention("Looking at attention")
    prediction = predict(network, batch.inputs, batch.hints, batch.lengths, steps=steps)
    assert prediction.activations is not None
    assert prediction.activations.coefficients is not None
    return heads_in_front(prediction.activations.coefficients)


def heads_in_front(
    coefficients: Float[Array, "batch steps k heads n n"],
) -> Float[Array, "steps batch heads_and_k n n"]:
    """Attention as it is compared: time first, message-passing steps and heads as one axis."""
    x = jnp.moveaxis(coefficients, 0, 1)
    return x.reshape(*x.shape[:2], -1, *x.shape[-2:])


def _meant(compiled: Compiled, trace: Trace) -> Meant:
    names = compiled.program.spec.names(Stage.INPUT)
    meant = compiled.program.interpret(**{name: trace.inputs[name] for name in names})
    if not np.array_equal(np.asarray(meant.lengths), np.asarray(trace.lengths)):
        raise ValueError(
            f"Program {compiled.program.name!r} takes other numbers of steps than the algorithm on the same inputs, so "
            f"that their attention cannot be compared step by step. Compile the algorithm's own program."
        )
    at = compiled.compared
    late = trace.steps - meant.steps  # the interpreter's frames end with the longest execution

    def on_device(x: np.ndarray, dtype: Any) -> Array:
        return jnp.asarray(np.pad(x, [(0, late)] + [(0, 0)] * (x.ndim - 1)), dtype)

    def compared(attention: np.ndarray) -> Array:
        return on_device(attention[:, 0, :, at : at + 1], jnp.float32)

    decisive = np.moveaxis(np.asarray(meant.decisive)[:, [at]], 1, 2)
    equivalents = {name: compared(x) for name, x in meant.equivalents.items()}
    return Meant(compared(meant.attention), on_device(decisive, bool), equivalents)


def _first(meant: Meant, samples: int) -> Meant:
    cut = {name: x[:, :samples] for name, x in meant.equivalents.items()}
    return Meant(meant.star[:, :samples], meant.decisive[:, :samples], cut)


def _drawn(config: TrainConfig, split: str, samples: int, n: int) -> Trace:
    source = source_of(config)
    key = member_key(jnp.uint32(0), TO_VALIDATE) if split == "validation" else member_key(jnp.uint32(1), TO_LOOK, n)
    drawn: Values = jax.device_get(source.sample(key, n, SPARE * samples))
    return as_seen(
        algorithm(config.algorithm).trace(**{k: np.asarray(x, np.float64) for k, x in drawn.items()}), config
    )


def _in_domain(compiled: Compiled, inputs: Values) -> np.ndarray:
    pos = np.sort(np.asarray(inputs["pos"]), axis=-1)
    if pos.shape[-1] > compiled.numbers.max_nodes:
        return np.zeros(len(pos), bool)
    gaps = np.diff(pos, axis=-1, prepend=-1.0)
    return np.asarray(gaps.min(-1) >= compiled.numbers.min_gap * (1 - 1e-6))
