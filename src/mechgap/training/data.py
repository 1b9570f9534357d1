"""What networks are trained, validated and tested on. Training data is drawn and traced on the device, step by step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt32

from mechgap.algorithms import TRAIN_P, Algorithm, algorithm
from mechgap.algorithms.benchmark import SPLITS
from mechgap.algorithms.processing import as_permutations, closed_chain, pred_as_input
from mechgap.networks import pad_nodes
from mechgap.networks.device import CPU, present_platform
from mechgap.trace import Kind, Spec, Stage, Trace, Values
from mechgap.training.config import TrainConfig
from mechgap.training.rules import SMALLEST

# Which use of a seed a key is for: the weights, the data, and the network's own draws (dropout, forcing).
TO_INIT, TO_DRAW, TO_RUN, TO_VALIDATE, TO_LOOK = range(5)
LOOKS = 1000  # samples that decide how many frames there is room for, as in the reference


class Batch(eqx.Module):
    """Executions to learn from: [B, ...], hints [T, B, ...]; of several members with their axis in front.

    `present` says which nodes there are, where graphs are padded to one size; None for all.
    """

    inputs: Values
    hints: Values
    outputs: Values
    lengths: Int[Array, "*members batch"]
    present: Bool[Array, "*members batch n"] | None = None


@dataclass(frozen=True)
class Source:
    """Where a run's data comes from.

    Attributes:
        algorithm: what is learned.
        spec: its variables as the network sees them.
        p: edge probabilities in training.
        random_pos: random positions in training.
        shared: all members see the same samples.
    """

    algorithm: Algorithm
    spec: Spec
    p: tuple[float, ...] | None
    random_pos: bool
    shared: bool

    def sample(self, key: PRNGKeyArray, n: int, count: int) -> Values:
        """Inputs [count, ...] from the training distribution."""
        return self.algorithm.sample(key, n, count, p=self.p, random_pos=self.random_pos)


def source_of(config: TrainConfig) -> Source:
    """The data of a config; where graphs must be sparser, the default p is halved, as in the reference script."""
    alg = algorithm(config.algorithm)
    p = config.p if alg.distribution.p else None
    if p == TRAIN_P and alg.is_sparse:
        p = tuple(value / 2 for value in TRAIN_P)
    spec = _spec(config.algorithm, config.pred_as_input, config.permutations)
    return Source(alg, spec, p, config.random_pos, config.shared_data_stream)


def member_key(seed: UInt32[Array, ""], use: int, step: Int[Array, ""] | int = 0) -> PRNGKeyArray:
    """A key of one seed for one use at one step: a resumed run draws what an unbroken one draws."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), use), step)


def draw(
    source: Source,
    n: int,
    frames: int,
    batch: int,
    seeds: UInt32[Array, " members"],
    steps: Int[Array, " members"],
) -> Batch:
    """A fresh batch for every member; all members' samples are traced as one batch.

    Args:
        source: where from.
        n: the number of nodes.
        frames: T; a longer execution is cut there.
        batch: samples per member.
        seeds: of the members.
        steps: how many steps each has made.
    """
    drawn = jnp.zeros_like(seeds[:1]) if source.shared else seeds
    members = len(drawn)
    keys = jax.vmap(lambda seed, step: member_key(seed, TO_DRAW, step))(drawn, steps[:members])
    inputs = jax.vmap(lambda key: source.sample(key, n, batch))(keys)
    folded = {name: x.reshape(members * batch, *x.shape[2:]) for name, x in inputs.items()}
    samples = samples_of(source, folded, frames)
    unfold = partial(_unfold, members=members)
    apart = Batch(
        inputs=unfold(samples.inputs, axis=0),
        hints=unfold(samples.hints, axis=1),
        outputs=unfold(samples.outputs, axis=0),
        lengths=samples.lengths.reshape(members, batch),
    )
    return apart if members == len(seeds) else _repeated(apart, len(seeds))


def run_once(function: Callable[..., Any], *arguments: Any) -> Any:
    """Compile quickly rather than well, and run: for what runs once. (Only the processor's compiler is slow.)"""
    options = {"xla_backend_optimization_level": 0} if present_platform() == CPU else None
    return jax.jit(function, compiler_options=options)(*arguments)


def frames_for(source: Source, n: int) -> int:
    """T: the longest of 1000 executions, as the reference makes room for (and for ever longer ones as they come)."""
    return _longest(source, n)


def validation_batch(source: Source, n: int, count: int) -> Batch:
    """The samples on which all members are validated, from the training distribution."""

    def draw_once() -> Batch:
        inputs = source.sample(member_key(jnp.uint32(0), TO_VALIDATE), n, count)
        return samples_of(source, inputs)

    return without_empty_frames(run_once(draw_once))


def test_batch(config: TrainConfig) -> Batch:
    """The benchmark's test split; of another size, what the benchmark would draw for it."""
    return as_batch(test_trace(config))


def test_trace(config: TrainConfig) -> Trace:
    """The same on the host."""
    alg, split = algorithm(config.algorithm), SPLITS["test"]
    options = {"pred_as_input": config.pred_as_input, "permutations": config.permutations}
    samples = split.samples * alg.samples_multiplier
    return alg.benchmark_sampler(split.seed, config.test_size, samples, **options).next()


def as_batch(trace: Trace, nodes: int | None = None) -> Batch:
    """A trace of the host as float32 arrays of the device, padded to `nodes` nodes if that is given."""
    if nodes is not None:
        padded, present = pad_nodes(trace, nodes)
        return replace(as_batch(padded), present=jnp.asarray(present))
    inputs, hints, outputs = ({name: _narrow(x) for name, x in trace.values(stage).items()} for stage in Stage)
    return Batch(inputs, hints, outputs, jnp.asarray(trace.lengths, jnp.int32))


def processed(trace: Trace, with_pred: bool, with_permutations: bool) -> Trace:
    """A trace of the host as the network sees it."""
    trace = pred_as_input(trace) if with_pred else trace
    return as_permutations(trace) if with_permutations else trace


def as_seen(trace: Trace, config: TrainConfig) -> Trace:
    """A trace of the host as a config's networks see it."""
    constant = algorithm(config.algorithm).order_is_constant
    return processed(trace, config.pred_as_input and constant, config.permutations)


def sample_chunks(batch: Batch, size: int) -> Sequence[Batch]:
    """The same samples in parts of at most `size`."""
    ends = range(0, batch.lengths.shape[0], size)
    return [
        Batch(
            inputs={k: x[i : i + size] for k, x in batch.inputs.items()},
            hints={k: x[:, i : i + size] for k, x in batch.hints.items()},
            outputs={k: x[i : i + size] for k, x in batch.outputs.items()},
            lengths=batch.lengths[i : i + size],
            present=None if batch.present is None else batch.present[i : i + size],
        )
        for i in ends
    ]


@lru_cache(maxsize=64)
def _spec(name: str, with_pred: bool, with_permutations: bool) -> Spec:
    alg = algorithm(name)
    tiny = alg.benchmark_sampler(0, SMALLEST, 1).next()
    return processed(tiny, with_pred and alg.order_is_constant, with_permutations).spec


def samples_of(source: Source, inputs: Values, frames: int | None = None) -> Batch:
    """Trace inputs on the device and shape them as the network sees them; see `Algorithm.device_trace`."""
    trace = source.algorithm.device_trace(inputs, frames)
    inputs, hints, outputs = dict(trace.inputs), dict(trace.hints), dict(trace.outputs)
    if "pred" in source.spec.names(Stage.INPUT):
        inputs["pred"] = hints.pop("pred_h")[0]
    for variable in source.spec.at(Stage.OUTPUT):
        if variable.kind == Kind.PERMUTATION_POINTER:
            matrix, first = closed_chain(outputs[variable.name], jnp)
            outputs |= {variable.name: matrix, f"{variable.name}_mask": first}
    return Batch(inputs, hints, outputs, trace.lengths)


def _unfold(values: Values, members: int, axis: int) -> Values:
    """Split the batch axis into members and samples, and bring the members to the front."""
    split = {name: x.reshape(*x.shape[:axis], members, -1, *x.shape[axis + 1 :]) for name, x in values.items()}
    return {name: jnp.moveaxis(x, axis, 0) for name, x in split.items()}


def _repeated(batch: Batch, members: int) -> Batch:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (members, *x.shape[1:])), batch)


@lru_cache(maxsize=64)
def _longest(source: Source, n: int) -> int:
    def longest() -> Array:
        inputs = source.sample(member_key(jnp.uint32(0), TO_LOOK, n), n, LOOKS)
        return jnp.max(source.algorithm.device_trace(inputs).lengths)

    return max(2, int(run_once(longest)))


def without_empty_frames(batch: Batch) -> Batch:
    """The same executions with room for the longest of them only."""
    frames = max(2, int(jnp.max(batch.lengths)))
    return replace(batch, hints={name: x[:frames] for name, x in batch.hints.items()})


def _narrow(x: np.ndarray) -> Array:
    return jnp.asarray(x, jnp.int32 if x.dtype.kind in "iu" else jnp.float32)
