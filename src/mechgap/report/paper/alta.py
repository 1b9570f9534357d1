"""The tables and figures of ALTA on learnability: what the paper prints, and what ours come to."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.algorithms.inputs import nearest
from mechgap.faithfulness.correlation import mean_interval
from mechgap.faithfulness.sequence_presets import sequence_studies
from mechgap.faithfulness.sequence_study import run_missing
from mechgap.programs import program
from mechgap.programs.tasks import task_of
from mechgap.report.alta_minimal import generalisation
from mechgap.report.paper.catalogue import Item
from mechgap.report.paper.lines import Comparison
from mechgap.report.paper.verdicts import DIFFERS, NEVER, NO_REASON, REPRODUCED, SMALL, Details, Line
from mechgap.training.checkpoint import read_json, write_json
from mechgap.training.config import parse_toml

PREFIX, FOLDER, MINIMAL = "alta-", "alta", "minimal.json"
NEAR = 5.0  # points
Say = Callable[[str], None]


def is_alta(name: str) -> bool:
    """Whether an item is one of ALTA's."""
    return name.startswith(PREFIX)


def alta_items() -> list[str]:
    """Their names, e.g. alta-table2."""
    return [f"{PREFIX}{name}" for name in _document()]


def printed_numbers(study: str) -> list[float]:
    """What the paper prints of a study, in percent."""
    rows = (row for entry in _document().values() for row in entry.get("rows", ()))
    return next((row["paper"] for row in rows if row["study"] == study), [])


def run_alta_item(
    name: str, preset: str, folder: Path, *, runs: Path, changes: Mapping[str, Any] | None = None, say: Say = print
) -> None:
    """Run what an item needs and a folder lacks."""
    entry, place = _entry(name), folder / FOLDER
    if "minimal" in entry and not (place / MINIMAL).exists():
        place.mkdir(parents=True, exist_ok=True)
        write_json(place / MINIMAL, {row["program"]: _minimal(row["program"], say) for row in entry["minimal"]})
    studies = sequence_studies(preset, changes)
    run_missing([studies[name] for name in _studies(entry)], place, runs / FOLDER, say)


def alta_table(name: str, folder: str | Path) -> Comparison:
    """Compare one table or figure with the results in a folder."""
    entry, place = _entry(name), Path(folder) / FOLDER
    lines = [line for row in entry.get("rows", ()) for line in _row(row, place)]
    details = []
    if "minimal" in entry:
        more, table = _minimal_lines(entry["minimal"], place / MINIMAL)
        lines += more
        details += table
    if "curves" in entry:
        details.append(_curves(entry["curves"], place))
        lines += [Line("curves", verdict=NEVER)] if not details[-1].rows else []
    manifests = [read_json(place / s / "manifest.json") for s in _studies(entry) if (place / s).exists()]
    seeds = [len(read_json(place / s / "metrics.json")) for s in _studies(entry) if (place / s).exists()]
    date = max((m["date"] for m in manifests), default="-")
    networks = ", ".join(dict.fromkeys(str(n) for n in seeds)) or "-"
    item = Item(name, entry["title"], {}, about=entry.get("about", ""))
    return Comparison(item, tuple(lines), tuple(details), networks, date, any(SMALL in x.verdict for x in lines))


def _row(row: Mapping[str, Any], place: Path) -> list[Line]:
    """A line per slice of the test set."""
    folder = place / row["study"]
    planned = sequence_studies()[row["study"]]
    slices = ("test",) if planned.kind == "scan" else tuple(planned.task.tests)
    if not (folder / "metrics.json").exists():
        labels = [f"{row['label']}, {name}" for name in slices]
        return [Line(x, f"{paper}", verdict=NEVER) for x, paper in zip(labels, row["paper"], strict=True)]
    metrics, config = read_json(folder / "metrics.json"), read_json(folder / "config.json")
    same = all(config[k] == asdict(planned)[k] for k in ("mlp", "transformer", "train_length"))
    lines = []
    for name, paper in zip(slices, row["paper"], strict=True):
        if name not in metrics[0]:  # shorter texts than the paper's
            lines.append(Line(f"{row['label']}, {name}", f"{paper}", verdict=SMALL))
            continue
        ours = 100 * np.array([seed[name] for seed in metrics])
        low, high = mean_interval(ours)
        spread = f" ± {ours.std(ddof=1):.1f}" if len(ours) > 1 else ""
        verdict = REPRODUCED if abs(ours.mean() - paper) <= NEAR else f"{DIFFERS}: {row.get('because', NO_REASON)}"
        interval = f"{low:.1f} to {high:.1f}" if len(ours) > 1 else ""
        said = (f"{paper}", f"{ours.mean():.1f}{spread}", interval, str(len(ours)))
        lines.append(Line(f"{row['label']}, {name}", *said, verdict=verdict if same else SMALL))
    return lines


def _minimal_lines(rows: list[Mapping[str, Any]], path: Path) -> tuple[list[Line], list[Details]]:
    found = read_json(path) if path.exists() else {}
    lines, table = [], []
    for row in rows:
        known = found.get(row["program"])
        if known is None:
            lines.append(Line(row["label"], str(row.get("rules", "")), verdict=NEVER))
            continue
        if "rules" in row:
            verdict = REPRODUCED if known["kept"] == row["rules"] else f"{DIFFERS}: {NO_REASON}"
            lines.append(Line(f"{row['label']}, rules", str(row["rules"]), str(known["kept"]), verdict=verdict))
        whole = "" if known["rules"] is None else str(known["rules"])
        for where, share in known["small"].items():
            cells = (row["label"], whole, str(known["kept"]), where, f"{known['whole'][where]:.1%}", f"{share:.1%}")
            table.append(cells)
    header = ("program", "rules", "minimal", "inputs", "whole program right", "minimal program right")
    return lines, [Details("What is left, and how it generalises", header, tuple(table))] if table else []


def _curves(entry: Mapping[str, Any], place: Path) -> Details:
    """A row per length or number of ones, a column per study that was run; the mean over seeds."""
    known = {
        study: read_json(place / study / "curves.json")[entry["kind"]]
        for study in entry["studies"]
        if (place / study / "curves.json").exists()
    }
    groups = sorted({int(group) for curve in known.values() for group in curve})
    rows = [
        (str(g), *(f"{np.mean(curve[str(g)]):.2f}" if str(g) in curve else "" for curve in known.values()))
        for g in groups
    ]
    return Details(entry["kind"], (entry["kind"].split(" by ")[1], *known), tuple(rows))


def _minimal(name: str, say: Say) -> dict[str, Any]:
    say(f"{name}: making it minimal")
    found = program(name)
    return asdict(generalisation(found, task_of(found)))


def _studies(entry: Mapping[str, Any]) -> list[str]:
    return [row["study"] for row in entry.get("rows", ())] + list(entry.get("curves", {}).get("studies", ()))


def _entry(name: str) -> Mapping[str, Any]:
    found = _document().get(name.removeprefix(PREFIX))
    if found is None:
        raise ValueError(f"ALTA has no {name!r} here. {nearest(name, alta_items())}")
    return found


@cache
def _document() -> dict[str, Any]:
    return parse_toml((files("mechgap.experiments") / "alta" / "items.toml").read_text(), "alta/items.toml")
