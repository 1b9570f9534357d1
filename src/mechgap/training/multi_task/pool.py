"""The samples that one network learns many algorithms from: drawn once, by slot, and padded to one size."""

from collections.abc import Iterable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray
from rich.console import Console
from rich.progress import track

from mechgap.networks.slots import Slots
from mechgap.trace import Kind, Stage, Values, Variable
from mechgap.training.config import TrainConfig
from mechgap.training.data import Batch, Source, run_once, samples_of, source_of, without_empty_frames
from mechgap.training.multi_task.config import MultiTaskConfig

TO_FILL, TO_VALIDATE = range(2)  # what a key is for


class Pool(eqx.Module):
    """Samples of every algorithm: [A, S, ...] by slot; hints [A, S, T, ...], none where no network reads them.

    Attributes:
        lengths: the number of frames of each execution.
        sizes: the number of nodes of each graph, the others being padding.
    """

    inputs: Values
    hints: Values
    outputs: Values
    lengths: Int[Array, "*places"]
    sizes: Int[Array, "*places"]

    @property
    def nodes(self) -> int:
        """N, padding included."""
        return int(self.inputs["pos"].shape[-1])

    def present(self) -> Bool[Array, "*places nodes"]:
        """Which nodes are not padding."""
        return jnp.arange(self.nodes) < self.sizes[..., None]

    def at(self, *index: Array | int) -> "Pool":
        """Some of the samples."""
        return jax.tree.map(lambda x: x[index], self)

    def as_batch(self) -> Batch:
        """The samples of one algorithm [S, ...] as `losses` and `count` expect them."""
        hints = {name: jnp.moveaxis(x, 0, 1) for name, x in self.hints.items()}
        return Batch(self.inputs, hints, self.outputs, self.lengths, self.present())


def sources_of(config: MultiTaskConfig) -> tuple[Source, ...]:
    """Where the samples of each algorithm come from."""
    shared = {name: getattr(config, name) for name in ("p", "random_pos", "permutations", "pred_as_input")}
    settings = shared | {"sizes": config.sizes}
    return tuple(source_of(TrainConfig.from_settings({"algorithm": name, **settings})) for name in config.algorithms)


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


def _filled(
    config: MultiTaskConfig,
    slots: Slots,
    sources: tuple[Source, ...],
    parts: list[tuple[int, int]],
    use: int,
    quiet: bool | None,
) -> Pool:
    key = jax.random.fold_in(jax.random.key(config.first_seed), use)
    drawn = []
    for number, source in enumerate(_watched(sources, quiet)):
        of_algorithm = jax.random.fold_in(key, number)
        drawn.append([_draw(source, jax.random.fold_in(of_algorithm, i), *part) for i, part in enumerate(parts)])
    longest = max(int(batch.lengths.max()) for batches in drawn for batch in batches)
    frames = config.frames or longest
    nodes = nodes_of(config, sources)
    together = partial(_together, config=config, slots=slots, frames=frames, nodes=nodes)
    each = [together(s.algorithm.name, batches) for s, batches in zip(sources, drawn, strict=True)]
    return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *each)


def _watched(sources: tuple[Source, ...], quiet: bool | None) -> Iterable[Source]:
    console = Console(stderr=True)
    hidden = not console.is_terminal if quiet is None else quiet
    return track(sources, "drawing samples", console=console, disable=hidden, transient=True)


def _draw(source: Source, key: PRNGKeyArray, n: int, count: int) -> Batch:
    """Samples of one algorithm and size, traced on the device."""
    return without_empty_frames(run_once(lambda key: samples_of(source, source.sample(key, n, count)), key))


def _together(
    name: str, batches: list[Batch], *, config: MultiTaskConfig, slots: Slots, frames: int, nodes: int
) -> Pool:
    """The samples of one algorithm in slots; [S, ...]."""
    count = sum(len(b.lengths) for b in batches)
    sizes = np.concatenate([np.full(len(b.lengths), b.inputs["pos"].shape[-1], np.int32) for b in batches])
    stages: dict[Stage, Values] = {}
    for stage in Stage:
        leading = (count, frames) if stage == Stage.HINT else (count,)
        variables = slots.spec.at(stage) if stage != Stage.HINT or config.network.hint_mode != "none" else ()
        put = [slots.put(name, _by_sample(b, stage, frames), nodes) for b in batches]
        stages[stage] = {
            v.name: np.concatenate([p[v.name] for p in put]).astype(_dtype(v))
            if v.name in put[0]
            else np.broadcast_to(slots.blank(v.name, nodes), leading + v.shape(nodes)).astype(_dtype(v))
            for v in variables
        }
    lengths = jnp.minimum(jnp.concatenate([b.lengths for b in batches]), frames)
    return Pool(stages[Stage.INPUT], stages[Stage.HINT], stages[Stage.OUTPUT], lengths, jnp.asarray(sizes))


def _by_sample(batch: Batch, stage: Stage, frames: int) -> Values:
    if stage != Stage.HINT:
        return batch.inputs if stage == Stage.INPUT else batch.outputs
    cut = {name: np.moveaxis(np.asarray(x[:frames]), 1, 0) for name, x in batch.hints.items()}
    missing = frames - min(frames, next(iter(batch.hints.values())).shape[0])
    return {name: np.pad(x, [(0, 0), (0, missing)] + [(0, 0)] * (x.ndim - 2)) for name, x in cut.items()}


def _dtype(variable: Variable) -> type:
    return np.int32 if variable.kind == Kind.POINTER else np.float32
