"""The samples that one network learns many algorithms from: drawn once, by slot, and padded to one size when read."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, Shaped
from rich.console import Console
from rich.progress import track

from mechgap.algorithms import algorithm
from mechgap.networks.slots import Slots
from mechgap.trace import Kind, Stage, Values, Variable
from mechgap.training.config import TrainConfig
from mechgap.training.data import Batch, Source, run_once, samples_of, source_of, without_empty_frames
from mechgap.training.multi_task.config import MultiTaskConfig

T = TypeVar("T")
TO_FILL, TO_VALIDATE = range(2)  # what a key is for
NOWHERE = -1  # where the rows of an algorithm begin that has none


class Samples(eqx.Module):
    """Samples in slots: [*places, ...]; hints [*places, T, ...], none where no network reads them.

    Attributes:
        lengths: the number of frames of each execution.
        sizes: the number of nodes of each graph, the others being padding.
    """

    inputs: Values
    hints: Values
    outputs: Values
    lengths: Int[Array, "*places"]
    sizes: Int[Array, "*places"]

    def present(self) -> Bool[Array, "*places nodes"]:
        """Which nodes are not padding."""
        return jnp.arange(self.inputs["pos"].shape[-1]) < self.sizes[..., None]

    def as_batch(self) -> Batch:
        """The samples of one algorithm [S, ...] as `losses` and `count` expect them."""
        hints = {name: jnp.moveaxis(x, 0, 1) for name, x in self.hints.items()}
        return Batch(self.inputs, hints, self.outputs, self.lengths, self.present())


class Rows(eqx.Module):
    """The values of one slot: only of the algorithms that have it, and in as few bytes as they need.

    Attributes:
        values: one row per value, one algorithm's after another's.
        start: where the rows of each algorithm begin; `NOWHERE` where it does not have the slot.
        blank: what is read where nothing is kept, in the type that networks read.
    """

    values: Shaped[Array, "rows *shape"]
    start: Int[Array, " algorithms"]
    blank: Shaped[Array, "*shape"]

    def at(self, number: Array, row: Array, exists: Array) -> Array:
        """Rows of algorithms, [*places, ...], by the number of the algorithm and counted from its first row."""
        start = self.start[number]
        found = self.values[jnp.where(exists, start + row, 0)].astype(self.blank.dtype)
        kept = exists & (start != NOWHERE)
        return jnp.where(kept.reshape(*kept.shape, *(1,) * self.blank.ndim), found, self.blank)


class Pool(eqx.Module):
    """Samples of every algorithm, equally many of each.

    An algorithm has few of the slots, and most executions are far shorter than the longest. What there is has a row: an
    input or an output of a sample, a hint at a frame. The rest is made when it is read.

    Attributes:
        lengths: the number of frames of each execution.
        sizes: the number of nodes of each graph.
        nodes: N, which all graphs are padded to.
        frames: T, which all executions are padded to.
    """

    inputs: dict[str, Rows]
    hints: dict[str, Rows]
    outputs: dict[str, Rows]
    lengths: Int[Array, "algorithms samples"]
    sizes: Int[Array, "algorithms samples"]
    nodes: int = eqx.field(static=True)
    frames: int = eqx.field(static=True)

    def at(self, number: Array | int, sample: Array | None = None) -> Samples:
        """Some samples of some algorithms (the two are broadcast), or all samples of one."""
        of_one = jnp.arange(self.lengths.shape[1])
        number, sample = jnp.broadcast_arrays(number, of_one if sample is None else sample)
        lengths, frame = self.lengths[number, sample], jnp.arange(self.frames)
        before = (jnp.cumsum(self.lengths, axis=1) - self.lengths)[number, sample]
        always = jnp.ones(number.shape, bool)
        return Samples(
            {slot: rows.at(number, sample, always) for slot, rows in self.inputs.items()},
            {
                slot: rows.at(number[..., None], before[..., None] + frame, frame < lengths[..., None])
                for slot, rows in self.hints.items()
            },
            {slot: rows.at(number, sample, always) for slot, rows in self.outputs.items()},
            lengths,
            self.sizes[number, sample],
        )


def sources_of(config: MultiTaskConfig) -> tuple[Source, ...]:
    """Where the samples of each algorithm come from."""
    shared = {name: getattr(config, name) for name in ("sizes", "random_pos", "permutations", "pred_as_input")}

    def source(name: str) -> Source:
        p = {"p": config.p} if algorithm(name).distribution.p else {}
        return source_of(TrainConfig.from_settings({"algorithm": name, **shared, **p}))

    return tuple(source(name) for name in config.algorithms)


def slots_of(sources: tuple[Source, ...]) -> Slots:
    """Room for the variables of all of them."""
    return Slots(tuple((source.algorithm.name, source.spec) for source in sources))


def nodes_of(config: MultiTaskConfig, sources: tuple[Source, ...]) -> int:
    """N, the number of nodes that every graph is padded to: some algorithms have more nodes than their size says."""
    key = jax.random.key(0)
    shapes = [jax.eval_shape(lambda key, s=s: s.sample(key, max(config.sizes), 1), key) for s in sources]
    return max(shape["pos"].shape[-1] for shape in shapes)


def training_pool(config: MultiTaskConfig, slots: Slots, sources: tuple[Source, ...], quiet: bool | None) -> Pool:
    """`config.pool` samples of every algorithm and size."""
    parts = [(n, config.pool) for n in config.sizes]
    return _filled(config, slots, sources, parts, TO_FILL, quiet)


def validation_pool(config: MultiTaskConfig, slots: Slots, sources: tuple[Source, ...], quiet: bool | None) -> Pool:
    """`config.validation` samples of every algorithm at the largest size, from the training distribution."""
    return _filled(config, slots, sources, [(max(config.sizes), config.validation)], TO_VALIDATE, quiet)


class _Part(NamedTuple):
    """Some samples of one algorithm: by slot, a row for each of them, or for each of their frames."""

    rows: Values
    lengths: np.ndarray
    sizes: np.ndarray


def _filled(
    config: MultiTaskConfig,
    slots: Slots,
    sources: tuple[Source, ...],
    parts: list[tuple[int, int]],
    use: int,
    quiet: bool | None,
) -> Pool:
    key = jax.random.fold_in(jax.random.key(config.first_seed), use)
    nodes = nodes_of(config, sources)

    def draw(number: int) -> list[_Part]:
        of_algorithm, source = jax.random.fold_in(key, number), sources[number]
        batches = (_draw(source, jax.random.fold_in(of_algorithm, i), *part) for i, part in enumerate(parts))
        return [_part(config, slots, source.algorithm.name, batch, nodes) for batch in batches]

    # Nearly all of the time goes into compiling, which threads do side by side.
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        drawn = list(_watched(threads.map(draw, range(len(sources))), len(sources), quiet))
    lengths, sizes = (
        np.stack([np.concatenate([getattr(part, name) for part in of_one]) for of_one in drawn])
        for name in ("lengths", "sizes")
    )
    hints = config.network.hint_mode != "none"
    by_stage = {
        stage: {v.name: _rows(slots, v, drawn, nodes) for v in slots.spec.at(stage) if stage != Stage.HINT or hints}
        for stage in Stage
    }
    return Pool(
        by_stage[Stage.INPUT],
        by_stage[Stage.HINT],
        by_stage[Stage.OUTPUT],
        jnp.asarray(lengths),
        jnp.asarray(sizes),
        nodes=nodes,
        frames=config.frames or int(lengths.max()),
    )


def _watched(drawn: Iterable[T], total: int, quiet: bool | None) -> Iterable[T]:
    console = Console(stderr=True)
    hidden = not console.is_terminal if quiet is None else quiet
    return track(drawn, "drawing samples", total=total, console=console, disable=hidden, transient=True)


def _draw(source: Source, key: PRNGKeyArray, n: int, count: int) -> Batch:
    """Samples of one algorithm and size, traced on the device."""
    return without_empty_frames(run_once(lambda key: samples_of(source, source.sample(key, n, count)), key))


def _part(config: MultiTaskConfig, slots: Slots, name: str, batch: Batch, nodes: int) -> _Part:
    """A batch by slot, without the frames after an execution's end."""
    lengths = np.minimum(np.asarray(batch.lengths), config.frames or np.inf).astype(np.int32)
    values = {**batch.inputs, **batch.outputs}
    if config.network.hint_mode != "none":
        exists = np.arange(len(next(iter(batch.hints.values())))) < lengths[:, None]
        values |= {k: np.moveaxis(np.asarray(x), 1, 0)[exists] for k, x in batch.hints.items()}
    by_slot = slots.put(name, values, nodes)
    narrow = {slot: x.astype(_kept_as(slots.spec[slot])) for slot, x in by_slot.items()}
    return _Part(narrow, lengths, np.full(len(lengths), batch.inputs["pos"].shape[-1], np.int32))


def _rows(slots: Slots, variable: Variable, drawn: Sequence[Sequence[_Part]], nodes: int) -> Rows:
    slot = variable.name
    each = [[part.rows.pop(slot) for part in parts if slot in part.rows] for parts in drawn]
    counts = np.array([sum(len(x) for x in of_one) for of_one in each])
    start = np.where(counts > 0, np.cumsum(counts) - counts, NOWHERE).astype(np.int32)
    values = np.concatenate([x for of_one in each for x in of_one])
    blank = slots.blank(slot, nodes).astype(np.int32 if variable.kind == Kind.POINTER else np.float32)
    return Rows(jnp.asarray(values), jnp.asarray(start), jnp.asarray(blank))


def _kept_as(variable: Variable) -> type:
    """The narrowest type that holds every value: masks and rows of one-hots are -1, 0 or 1."""
    return {Kind.SCALAR: np.float32, Kind.POINTER: np.int16}.get(variable.kind, np.int8)
