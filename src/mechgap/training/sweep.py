"""Many settings: a TOML file becomes a list of chunks, each one ensemble; machines share the list.

name = "regularisation"          # optional
chunk = 128                      # members per ensemble, at most; optional
[settings]                       # of all runs, see TrainConfig
seeds = 128
[grid]                           # every combination
algorithm = ["bfs", "bellman_ford"]
regularisation_weight = [1e-3, 1e-4]
[[variants]]                     # optional: each replaces settings, and is combined with the grid
regularisation = "L2"
[slurm]                          # optional: parameters of submitit's executor
timeout_min = 120
slurm_gres = "gpu:1"
"""

import importlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax

from mechgap.algorithms.inputs import nearest
from mechgap.training.config import TrainConfig, parse_toml, run_name
from mechgap.training.loop import fit
from mechgap.training.parts import write_part
from mechgap.training.result import Ensemble

CHUNK = 128
SECTIONS = ("name", "about", "chunk", "settings", "grid", "variants", "slurm")

Chunk = tuple[TrainConfig, ...]  # of equal shape: one ensemble


@dataclass(frozen=True)
class Sweep:
    """All runs of a study.

    Attributes:
        name: of the study.
        configs: what to train, in order.
        chunk: how many members an ensemble has at most.
        slurm: what a job asks for, as pairs of submitit's names and values.
    """

    name: str
    configs: tuple[TrainConfig, ...]
    chunk: int = CHUNK
    slurm: tuple[tuple[str, Any], ...] = ()

    def chunks(self) -> list[Chunk]:
        """The runs packed into ensembles: configs of equal shape together, cut by seeds where there are too many."""
        groups: dict[tuple, list[TrainConfig]] = {}
        for config in self.configs:
            groups.setdefault(config.shape(), []).append(config)
        return [chunk for group in groups.values() for chunk in _packed(group, self.chunk)]


def read_sweep(source: str | Path, changes: Mapping[str, Any] | None = None) -> Sweep:
    """A sweep from a TOML file, or the preset of that name.

    Args:
        source: a file, or one of `preset_names()`.
        changes: settings that replace those of the file, e.g. {"seeds": 8, "steps": 300}.
    """
    path = Path(source)
    if path.is_file():
        return make_sweep(parse_toml(path.read_text(), str(path)), path.stem, changes)
    presets = preset_names()
    if str(source) not in presets:
        raise ValueError(f"No file and no preset {str(source)!r}. {nearest(str(source), presets)}")
    text = (files("mechgap") / "experiments" / f"{source}.toml").read_text()
    return make_sweep(parse_toml(text, f"the preset {source}"), str(source), changes)


def preset_names() -> tuple[str, ...]:
    """The sweeps that come with the package: the papers' settings."""
    folder = files("mechgap") / "experiments"
    return tuple(sorted(x.name.removesuffix(".toml") for x in folder.iterdir() if x.name.endswith(".toml")))


def make_sweep(document: Mapping[str, Any], name: str, changes: Mapping[str, Any] | None = None) -> Sweep:
    """A sweep from the values of a TOML document."""
    unknown = [key for key in document if key not in SECTIONS]
    if unknown:
        raise ValueError(
            f"A sweep has no {unknown[0]!r}. {nearest(unknown[0], SECTIONS)} Settings go below [settings]."
        )
    chunk, grid = document.get("chunk", CHUNK), document.get("grid", {})
    if not isinstance(chunk, int) or isinstance(chunk, bool) or chunk < 1:
        raise ValueError(f"chunk must be a whole number of members, 1 or more; got {chunk!r}.")
    scalar = [key for key, values in grid.items() if not isinstance(values, list) or not values]
    if scalar:
        raise ValueError(f"[grid] lists the values of each setting; {scalar[0]} is {grid[scalar[0]]!r}. Write [value].")
    changes = dict(changes or {})
    grid = {key: values for key, values in grid.items() if key not in changes}
    configs = []
    for variant in document.get("variants", [{}]):
        for values in itertools.product(*grid.values()):
            settings = {**document.get("settings", {}), **variant, **dict(zip(grid, values, strict=True)), **changes}
            configs.append(TrainConfig.from_settings(settings))
    return Sweep(document.get("name", name), tuple(configs), chunk, tuple(document.get("slurm", {}).items()))


def run_sweep(
    sweep: Sweep,
    folder: str | Path,
    *,
    shard: str = "1/1",
    devices: Sequence[jax.Device] | None = None,
    quiet: bool | None = None,
) -> list[Ensemble]:
    """Train this machine's share of a sweep; finished chunks are read, not repeated.

    Args:
        sweep: what to train.
        folder: for the runs; tables of results land in folder/parts.
        shard: "i/N": this is machine i of N, counted from 1.
        devices: to share each ensemble's members among; by default all local ones.
        quiet: no progress bars.
    """
    ensembles = []
    for chunk in my_share(sweep.chunks(), shard):
        ensemble = fit(chunk, folder=folder, devices=devices, quiet=quiet)
        write_part(Path(folder) / "parts", run_name(chunk, None), chunk, ensemble.metrics)
        ensembles.append(ensemble)
    return ensembles


def submit_sweep(sweep: Sweep, folder: str | Path, shards: int, **slurm: Any) -> list[Any]:
    """Hand a sweep to SLURM, one job per shard; needs the extra mechgap[slurm].

    Args:
        sweep: what to train.
        folder: for runs and logs, on a disk that all machines see.
        shards: how many jobs.
        slurm: parameters of submitit's executor beside those of the sweep, e.g. timeout_min=60, slurm_gres="gpu:1".
            Without a timeout_min, submitit asks for five minutes.
    """
    try:
        submitit = importlib.import_module("submitit")
    except ImportError as error:
        raise ImportError("Submitting to SLURM needs submitit: pip install 'mechgap[slurm]'.") from error
    executor = submitit.AutoExecutor(folder=str(Path(folder) / "slurm"))
    executor.update_parameters(**dict(sweep.slurm) | slurm)
    names = [f"{i + 1}/{shards}" for i in range(shards)]
    return executor.map_array(lambda shard: len(run_sweep(sweep, folder, shard=shard)), names)


def my_share(chunks: Sequence[Chunk], shard: str) -> Sequence[Chunk]:
    """The chunks of machine i of N."""
    index, slash, count = shard.partition("/")
    if not slash or not index.isdigit() or not count.isdigit() or not 1 <= int(index) <= int(count):
        raise ValueError(f"shard must be i/N with i from 1 to N, e.g. 1/4; got {shard!r}.")
    return chunks[int(index) - 1 :: int(count)]


def _packed(group: Sequence[TrainConfig], room: int) -> list[Chunk]:
    """Fill ensembles of at most `room` members, in order; a config's seeds may be split."""
    chunks: list[list[TrainConfig]] = [[]]
    left = room
    for config in group:
        seed, end = config.first_seed, config.first_seed + config.seeds
        while seed < end:
            if not left:
                chunks.append([])
                left = room
            taken = min(left, end - seed)
            chunks[-1].append(replace(config, first_seed=seed, seeds=taken))
            seed, left = seed + taken, left - taken
    return [tuple(chunk) for chunk in chunks]
