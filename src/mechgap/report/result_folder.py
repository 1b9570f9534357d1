"""A result folder as the report reads it: every file is optional, and what is wrong with one is said, not raised."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.faithfulness.landscape import FILE as LANDSCAPE
from mechgap.faithfulness.landscape import FORMAT as LANDSCAPE_FORMAT
from mechgap.faithfulness.landscape import Landscape
from mechgap.faithfulness.mechanistic_gap import FILE as GAP
from mechgap.faithfulness.mechanistic_gap import Gap, load_gap
from mechgap.faithfulness.study import CAUSAL
from mechgap.report.gap_checks import checked_gap
from mechgap.report.gap_words import without_repeats
from mechgap.storage import read_tensors
from mechgap.training.checkpoint import HISTORY as HISTORY_FORMAT
from mechgap.training.checkpoint import read_json

CONFIG, MANIFEST, METRICS, HISTORY, NUMBERS = (
    "config.json",
    "manifest.json",
    "metrics.json",
    "history.safetensors",
    "gap.json",
)
COLUMNS = ("seed", "diverged", "validation", "test_best")  # of metrics.json
CURVES = ("step", "loss", "validation")  # of history.safetensors
Causal = dict[str, dict[str, dict[str, np.ndarray]]]  # split -> condition -> "score" or "hints" -> [members]


@dataclass(frozen=True)
class ResultFolder:
    """What one run left.

    Attributes:
        path: the folder.
        label: what the page calls it.
        gap: with every tensor that can be shown; None where there is none.
        configs: of the training, as in config.json.
        causal: the score of every network under every swap of attention; `conditions` says what they are.
        missing: names of files that are not there.
        problems: what is wrong, each with the file's name.
    """

    path: Path
    label: str
    gap: Gap | None = None
    configs: tuple[dict[str, Any], ...] = ()
    manifest: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    history: dict[str, np.ndarray] = field(default_factory=dict)
    causal: Causal = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)
    landscapes: tuple[Landscape, ...] = ()
    missing: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def algorithm(self) -> str | None:
        """What was learned, as far as a file says so."""
        if self.gap is not None:
            return self.gap.algorithm
        return self.configs[0].get("algorithm") if self.configs else None

    def without(self, problem: str, *parts: str) -> "ResultFolder":
        """The same folder with some parts left out, and why."""
        nothing: dict[str, Any] = {name: getattr(ResultFolder(self.path, ""), name) for name in parts}
        return replace(self, problems=(*self.problems, problem), **nothing)


def read_folder(path: str | Path, label: str | None = None) -> ResultFolder:
    """Read all that a folder holds; a file that cannot be used becomes a line of `problems`."""
    path = Path(path)
    label = label or path.resolve().name
    if not path.is_dir():
        return ResultFolder(path, label, problems=(f"{path}: there is no such folder.",))
    reader = _Reader(path)
    found, spoiled = reader.take(GAP, lambda file: checked_gap(load_gap(file.parent), file), (None, ()))
    reader.problems += spoiled
    if not (path / GAP).exists():
        reader.problems.append(f"{path / GAP} is missing: measure the gap of this run to show it.")
    causal, conditions = reader.take(CAUSAL, _read_causal, ({}, {}))
    run = ResultFolder(
        path=path,
        label=label,
        gap=None if found is None else without_repeats(found),
        configs=reader.take(CONFIG, _read_configs, ()),
        manifest=reader.take(MANIFEST, _read_object, {}),
        metrics=reader.take(METRICS, _read_metrics, {}),
        history=reader.take(HISTORY, _read_history, {}),
        causal=causal,
        conditions=conditions,
        landscapes=reader.take(LANDSCAPE, _read_landscapes, ()),
        missing=tuple(reader.missing),
        problems=tuple(reader.problems),
    )
    numbers = reader.take(NUMBERS, _read_object, {})
    run = replace(run, problems=tuple(reader.problems), missing=tuple(m for m in reader.missing if m != GAP))
    return run if run.gap is None else _consistent(run, run.gap, numbers)


class _Reader:
    """Reads the files of a folder and collects what is missing and what is wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.missing: list[str] = []
        self.problems: list[str] = []

    def take(self, name: str, read: Callable[[Path], Any], otherwise: Any) -> Any:
        file = self.folder / name
        if not file.exists():
            self.missing.append(name)
            return otherwise
        try:
            return read(file)
        except (ValueError, OSError, KeyError, TypeError, AttributeError) as error:
            # The last three: a field that a header or a JSON file lacks, or has as something else.
            said = f"lacks {error}." if isinstance(error, KeyError) else str(error)
            self.problems.append(said if str(file) in said else f"{file}: {said}")
            return otherwise


def _read_object(file: Path) -> dict[str, Any]:
    value = read_json(file)
    if not isinstance(value, dict):
        raise ValueError(f"{file} should hold a JSON object; it holds a {type(value).__name__}.")
    return value


def _read_configs(file: Path) -> tuple[dict[str, Any], ...]:
    configs = _read_object(file).get("configs")
    if not isinstance(configs, list) or not configs or not all(isinstance(c, dict) for c in configs):
        raise ValueError(f"{file} lacks 'configs', the list of settings.")
    return tuple(configs)


def _read_metrics(file: Path) -> dict[str, np.ndarray]:
    rows = read_json(file)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{file} should hold a list of rows, one per network.")
    for name in COLUMNS:
        lacking = [i for i, row in enumerate(rows) if name not in row]
        if lacking:
            raise ValueError(f"{file} lacks the column {name!r} in {len(lacking)} of {len(rows)} rows.")
    kinds: dict[str, Any] = {"seed": np.int64, "diverged": bool}
    return {name: _numbers(file, name, [row[name] for row in rows], kinds.get(name, float)) for name in COLUMNS}


def _read_history(file: Path) -> dict[str, np.ndarray]:
    tensors, _ = read_tensors(file, HISTORY_FORMAT)
    lacking = [name for name in CURVES if name not in tensors]
    if lacking:
        raise ValueError(f"{file} lacks {', '.join(lacking)}.")
    steps = len(tensors["step"])
    for name in CURVES[1:]:
        if tensors[name].ndim != 2 or len(tensors[name]) != steps:
            raise ValueError(f"{file}: {name} has shape {tensors[name].shape}; {steps} steps x networks was expected.")
    return tensors


def _read_causal(file: Path) -> tuple[Causal, dict[str, str]]:
    value = _read_object(file)
    splits = value.get("splits")
    if not isinstance(splits, dict):
        raise ValueError(f"{file} lacks 'splits'.")
    found: Causal = {}
    for split, conditions in splits.items():
        for name, table in conditions.items():
            if not isinstance(table, dict) or "score" not in table:
                raise ValueError(f"{file} lacks the 'score' of {name!r} on {split}.")
            known = {k: _numbers(file, f"{name}/{k}", x, float) for k, x in table.items() if x is not None}
            found.setdefault(split, {})[name] = known
    return found, dict(value.get("about") or {})


def _read_landscapes(file: Path) -> tuple[Landscape, ...]:
    tensors, header = read_tensors(file, LANDSCAPE_FORMAT)
    found = []
    for about in header.get("entries", ()):
        place = f"{about['name']}/{about['scale']}"
        lacking = [name for name in (f"{place}/axis", f"{place}/loss") if name not in tensors]
        if lacking:
            raise ValueError(f"{file} lacks {', '.join(lacking)}.")
        axis, loss = tensors[f"{place}/axis"], tensors[f"{place}/loss"]
        if loss.shape != (len(axis), len(axis)):
            raise ValueError(f"{file}: {place}/loss has shape {loss.shape}; {len(axis)} x {len(axis)} was expected.")
        rises, noise = (dict(about.get(what) or {}) for what in ("sharpness", "noise"))
        found.append(Landscape(about["name"], about["scale"], axis, loss, rises, noise))
    return tuple(found)


def _numbers(file: Path, name: str, values: Sequence[Any], dtype: Any) -> np.ndarray:
    try:
        return np.array([float("nan") if x is None and dtype is float else x for x in values], dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file}: {name!r} holds something that is not a number ({error}).") from error


def _consistent(run: ResultFolder, gap: Gap, numbers: Mapping[str, Any]) -> ResultFolder:
    """Leave out what was made by other networks than the gap was measured of."""
    members, owner = len(gap.members["seed"]), f"{run.path / GAP} was measured of {gap.algorithm}"
    told = [config.get("algorithm") for config in run.configs]
    if any(name != gap.algorithm for name in told):
        problem = f"{run.path / CONFIG} is of the algorithm {told[0]!r}, but {owner}; the settings are left out."
        run = run.without(problem, "configs")
    if numbers.get("algorithm", gap.algorithm) != gap.algorithm:
        run = run.without(f"{run.path / NUMBERS} is of the algorithm {numbers['algorithm']!r}, but {owner}.")
    if run.metrics and not np.array_equal(run.metrics["seed"], gap.members["seed"]):
        problem = f"{run.path / METRICS} is not of the {members} seeds that {GAP} was measured of."
        run = run.without(problem, "metrics")
    if run.history and run.history["loss"].shape[1] != members:
        problem = f"{run.path / HISTORY} is of {run.history['loss'].shape[1]} networks, but {GAP} of {members}."
        run = run.without(problem, "history")
    counts = {len(x) for conditions in run.causal.values() for table in conditions.values() for x in table.values()}
    if counts - {members}:
        problem = f"{run.path / CAUSAL} is of {min(counts - {members})} networks, but {GAP} of {members}."
        run = run.without(problem, "causal")
    return run
