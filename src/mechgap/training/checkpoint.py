"""A run's folder: written atomically, resumed after a kill at any moment, skipped when finished.

config.json            what was asked for; its hash is the folder's name
manifest.json          versions, device, trace lengths, times
checkpoint.safetensors the whole state at some validation; gone when the run is finished
best.safetensors       the networks at their best validation, with a leading member axis
last.safetensors       the networks after the last step
history.safetensors    loss and validation score over time
metrics.json           one row per member; written last, so that a folder with it is finished
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mechgap.storage import read_tensors, writable_folder, write_tensors, write_text
from mechgap.training.config import TrainConfig, run_name
from mechgap.training.ensemble import State
from mechgap.training.result import Ensemble, Table
from mechgap.training.weights import load_networks, named, renamed, save_networks

CHECKPOINT, HISTORY = "mechgap.checkpoint/1", "mechgap.history/1"
SPARE = 2**24  # bytes beyond the arrays


def open_folder(parent: str | Path, configs: Sequence[TrainConfig], weights: str | None, state_bytes: int) -> Path:
    """The folder of a run, made where it is missing; an error where it cannot be written or would not fit."""
    folder = writable_folder(Path(parent) / run_name(configs, weights))
    for unfinished in folder.glob(".*.*.*"):  # what a killed run was about to write
        unfinished.unlink(missing_ok=True)
    # The old checkpoint and the new one exist for a moment; best and last are half of one.
    needed, free = 3 * state_bytes + SPARE, shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            f"Not enough space in {folder}: the run needs {needed / 2**20:.0f} MiB, {free / 2**20:.0f} MiB are free. "
            f"Free some, give another folder, or train fewer seeds at a time."
        )
    described = {"configs": [config.as_json() for config in configs], "weights": weights}
    if not (folder / "config.json").exists():
        write_json(folder / "config.json", described)
    return folder


def is_finished(folder: Path) -> bool:
    """Whether a run has written all its results."""
    return (folder / "metrics.json").exists()


def save_checkpoint(folder: Path, state: State, history: Mapping[str, Sequence[Any]]) -> None:
    """Write the state and what was measured so far, as one file."""
    tensors = {f"state/{name}": np.asarray(x) for name, x in named(state).items()}
    tensors |= {f"history/{name}": np.asarray(x) for name, x in history.items()}
    write_tensors(folder / "checkpoint.safetensors", tensors, {"format": CHECKPOINT})


def load_checkpoint(folder: Path, skeleton: State) -> tuple[State, dict[str, list]] | None:
    """The last checkpoint, if there is one: the state (on the host) and what was measured until then."""
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return None
    tensors, _ = read_tensors(path, CHECKPOINT)
    state = {k.removeprefix("state/"): x for k, x in tensors.items() if k.startswith("state/")}
    history = {k.removeprefix("history/"): list(x) for k, x in tensors.items() if k.startswith("history/")}
    return renamed(skeleton, state, f"The checkpoint {path}"), history


def save_result(folder: Path, ensemble: Ensemble) -> None:
    """Write everything that a finished run leaves, metrics last, and drop the checkpoint."""
    about = {"algorithm": ensemble.algorithm, "seeds": ensemble.metrics["seed"].tolist()}
    save_networks(folder / "best.safetensors", ensemble.networks, {**about, "which": "best validation"})
    save_networks(folder / "last.safetensors", ensemble.last, {**about, "which": "last step"})
    write_tensors(folder / "history.safetensors", ensemble.history, {"format": HISTORY})
    write_json(folder / "manifest.json", ensemble.manifest)
    write_json(folder / "metrics.json", rows(ensemble.metrics))
    (folder / "checkpoint.safetensors").unlink(missing_ok=True)


def load_result(folder: str | Path) -> Ensemble:
    """A finished run."""
    folder = Path(folder)
    if not is_finished(folder):
        raise FileNotFoundError(
            f"{folder} holds no finished run: metrics.json is missing. Run the training to its end."
        )
    described = read_json(folder / "config.json")
    history, _ = read_tensors(folder / "history.safetensors", HISTORY)
    return Ensemble(
        configs=tuple(TrainConfig.from_settings(c) for c in described["configs"]),
        networks=load_networks(folder / "best.safetensors")[0],
        last=load_networks(folder / "last.safetensors")[0],
        metrics=columns(read_json(folder / "metrics.json")),
        history=history,
        manifest=read_json(folder / "manifest.json"),
    )


def save_excerpt(folder: str | Path, ensemble: Ensemble) -> None:
    """A small copy of a result: all metrics, and the weights of the best, the median and the worst member only."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    order = np.argsort(np.where(ensemble.metrics["diverged"], -1.0, ensemble.metrics["test_best"]))[::-1]
    kept = np.unique(order[[0, len(order) // 2, -1]])
    about = {
        "algorithm": ensemble.algorithm,
        "seeds": ensemble.metrics["seed"][kept].tolist(),
        "members": kept.tolist(),
    }
    save_networks(folder / "excerpt.safetensors", jax.tree.map(lambda x: x[kept], ensemble.networks), about)
    write_json(folder / "config.json", {"configs": [config.as_json() for config in ensemble.configs]})
    write_tensors(folder / "history.safetensors", ensemble.history, {"format": HISTORY})
    write_json(folder / "manifest.json", ensemble.manifest)
    write_json(folder / "metrics.json", rows(ensemble.metrics))


def rows(table: Table) -> list[dict[str, Any]]:
    """A table of columns as one dictionary per row; JSON knows no NaN, so what is not finite (a loss) is None."""
    lists = {name: [x if np.isfinite(x) else None for x in column.tolist()] for name, column in table.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def columns(given: list[dict[str, Any]]) -> Table:
    """The inverse of `rows`, with NaN for None."""
    return {name: np.array([np.nan if row[name] is None else row[name] for row in given]) for name in given[0]}


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON, or an error that names the file."""
    if not path.is_file():
        raise FileNotFoundError(f"No file {path}.")
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not readable JSON ({error}); it may be truncated.") from error
