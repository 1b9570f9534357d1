"""The tables and figures of ALTA on learnability: what the paper prints, and what ours come to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.algorithms.inputs import nearest
from mechgap.faithfulness.minimal_programs import generalisation, read_minimal
from mechgap.faithfulness.sequence_presets import (
    check_settings_are_used,
    scan_study,
    sequence_studies,
)
from mechgap.faithfulness.sequence_result import SequenceResult, read_result
from mechgap.faithfulness.sequence_study import run_missing
from mechgap.programs import program
from mechgap.programs.tasks import PARITY_TESTS, task_of
from mechgap.report.alta_shares import OVER_TEXTS, tested_on
from mechgap.report.alta_simplicity import simplicity_table
from mechgap.report.alta_summary import (
    finished,
    how_training_went,
    study_table,
)
from mechgap.report.paper.alta_claims import claim_lines
from mechgap.report.paper.alta_rows import has_data, planned_studies, row_lines
from mechgap.report.paper.catalogue import Item
from mechgap.report.paper.lines import Comparison
from mechgap.report.paper.verdicts import DIFFERS, NEVER, NO_REASON, REPRODUCED, SMALL, Details, Line
from mechgap.storage import writable_folder
from mechgap.training.checkpoint import write_json
from mechgap.training.config import parse_toml
from mechgap.training.sequences.scan import WORD

PREFIX, FOLDER, MINIMAL = "alta-", "alta", "minimal.json"
IN_CELLS = "in brackets 95 % intervals, of one network over so many texts"
QUICK = "quick: few steps and small networks, which say nothing about the paper."
Say = Callable[[str], None]
Results = Mapping[str, SequenceResult]  # by study


def is_alta(name: str) -> bool:
    """Whether an item is one of ALTA's."""
    return name.startswith(PREFIX)


def alta_items() -> list[str]:
    """Their names, e.g. alta-table2."""
    return [f"{PREFIX}{name}" for name in _document()]


def check_alta(name: str) -> str:
    """The name, if there is such an item."""
    _entry(name)
    return name


def run_alta_item(
    name: str, preset: str, folder: Path, *, runs: Path, changes: Mapping[str, Any] | None = None, say: Say = print
) -> None:
    """Run what an item needs and a folder lacks."""
    entry, place, studies = _entry(name), folder / FOLDER, sequence_studies(preset, changes)
    wanted = [studies[name] for name in _studies(entry)]
    if wanted:
        check_settings_are_used(changes or {}, wanted)
    elif changes:
        raise ValueError(
            f"{name} trains nothing, so that --set {next(iter(changes))} means nothing to it. Leave it out."
        )
    if "minimal" in entry:
        _make_minimal([row["program"] for row in entry["minimal"]], writable_folder(place) / MINIMAL, say)
    if "simplicity" in entry and not (place / MINIMAL).exists():
        by = next(other for other, of in _document().items() if "minimal" in of)
        say(f"Minimal programs are not there yet: mechgap paper {PREFIX}{by} makes them.")
    run_missing([study for study in wanted if has_data(study)], place, runs / FOLDER, say)
    if "curves" in entry:
        folders = [place / study for study in entry["curves"]["studies"]]
        _write_page(folders, runs / f"{name}.html", QUICK if preset == "quick" else "", say)


def _write_page(folders: Sequence[Path], out: Path, note: str, say: Say) -> None:
    """The figure itself, in a page that can be opened in a browser; without jinja2 there are tables only."""
    from mechgap.report.alta_curves import write_curves

    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_curves(folders, out, note)
    except ImportError as error:
        say(str(error))
    else:
        say(f"drawn in {out}")


def alta_table(name: str, folder: str | Path) -> Comparison:
    """Compare one table or figure with the results in a folder."""
    entry, place = _entry(name), Path(folder) / FOLDER
    everything, wanted = bool(entry.get("everything")), _studies(entry)
    cells = [cell["study"] for cell in _cells(entry)]
    names = finished(place, None if everything else [*wanted, *cells])
    results = {name: read_result(place / name) for name in names}
    minimal = read_minimal(place / MINIMAL) if {"minimal", "simplicity"} & entry.keys() else {}
    lines = [line for row in _rows(entry) for line in row_lines(row, results.get(row["study"]))]
    lines += [*_minimal_lines(entry.get("minimal", ()), minimal), *claim_lines(entry.get("claims", {}), results)]
    run = {name: result for name, result in results.items() if everything or name in wanted}
    details = [table for table in _details(entry, results, run, minimal) if table.rows]
    if not lines and not details:
        lines = [Line(entry["title"], verdict=NEVER)]
    seeds = [len(result.metrics) for result in run.values()]
    date = max((result.manifest["date"] for result in run.values()), default="-")
    networks = ", ".join(dict.fromkeys(str(n) for n in seeds)) or "-"
    item = Item(name, entry["title"], {}, about=entry.get("about", ""))
    return Comparison(item, tuple(lines), tuple(details), networks, date, any(SMALL in x.verdict for x in lines))


def _details(entry: Mapping[str, Any], results: Results, run: Results, minimal: Mapping[str, Any]) -> Iterator[Details]:
    """The tables of an item, empty ones among them."""
    if "minimal" in entry:
        yield _minimal_table(entry["minimal"], minimal)
    if "curves" in entry:
        yield from (_curves(kind, entry["curves"]["studies"], results) for kind in entry["curves"]["kinds"])
    if "grid" in entry:
        yield _grid(entry["grid"], results)
    if "simplicity" in entry:
        yield simplicity_table(entry["simplicity"], minimal)
    if entry.get("everything"):
        yield study_table(run.values())
    if _rows(entry):
        yield _trainings(run)


def _rows(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What is compared line by line: rows as they are, and those networks of a grid that are asked for."""
    return [*entry.get("rows", ()), *(cell for cell in _cells(entry) if cell["run"])]


def _cells(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every network of a grid as a row of its own."""
    return [
        {
            "label": f"{row['label']}, {layers} layers, {_weights(row)}, {row['positions']}",
            "study": _study_in(row, layers),
            "paper": [paper] if paper is not None else [],
            "run": layers in row.get("run", ()),
            **({"because": row["because"]} if "because" in row else {}),
        }
        for row in entry.get("grid", ())
        for layers, paper in _printed(row).items()
    ]


def _printed(row: Mapping[str, Any]) -> dict[int, float | None]:
    """Layers -> what the paper prints, for the networks that there are studies of."""
    layers = [n for n in _depths() if _study_in(row, n) in planned_studies()]
    return dict(zip(layers, row.get("paper") or [None] * len(layers), strict=True))


def _study_in(row: Mapping[str, Any], layers: int) -> str:
    """The study of a row of a grid."""
    return scan_study(row["split"], layers, row["shared"], row["positions"], row.get("tokens", WORD))


def _grid(rows: Sequence[Mapping[str, Any]], results: Results) -> Details:
    """As the paper prints it, a column per number of layers; ours below the paper's."""
    found = []
    for row in rows:
        printed, cells = _printed(row), _cells({"grid": [row]})
        ours = {n: row_lines(cell, results.get(cell["study"]))[0] for n, cell in zip(printed, cells, strict=True)}
        about = (row["label"], _weights(row), row["positions"])
        if "paper" in row:
            found.append((*about, "paper", *(str(printed.get(n, "–")) for n in _depths())))
        said = {n: _cell(line) for n, line in ours.items()}
        found.append((*about, "ours", *(said.get(n, "–") for n in _depths())))
    header = ("split", "weights", "positions", "", *(str(n) for n in _depths()))
    return Details(f"Right answers on the test set in percent, by number of layers ({IN_CELLS})", header, tuple(found))


def _cell(line: Line) -> str:
    """A share of right answers, and how sure it is."""
    if line.verdict == SMALL or not line.ours:
        return line.verdict
    sure = line.interval.replace(f" {OVER_TEXTS}", f" of {line.texts}")
    return f"{line.ours} ({sure})" if sure else line.ours


def _weights(row: Mapping[str, Any]) -> str:
    return "shared" if row["shared"] else "separate"


def _trainings(run: Results) -> Details:
    rows = []
    for study, result in run.items():
        manifest = result.manifest
        times = manifest.get("times", {})
        seconds = times["train_s"] - times.get("of_which_paused_s", 0) if "train_s" in times else None
        device = str(manifest.get("device", {}).get("kind", ""))
        rows.append((study, how_training_went(result), device, "" if seconds is None else f"{seconds:.0f}"))
    return Details("How training went", ("study", "training", "device", "s to train"), tuple(rows))


def _minimal_lines(rows: Sequence[Mapping[str, Any]], minimal: Mapping[str, Any]) -> list[Line]:
    lines = []
    for row in rows:
        known = minimal.get(row["program"])
        if known is None:
            lines.append(Line(row["label"], str(row.get("rules", "")), verdict=NEVER))
        elif "rules" in row:
            verdict = REPRODUCED if known["kept"] == row["rules"] else f"{DIFFERS}: {NO_REASON}"
            lines.append(Line(f"{row['label']}, rules", str(row["rules"]), str(known["kept"]), verdict=verdict))
    return lines


def _minimal_table(rows: Sequence[Mapping[str, Any]], minimal: Mapping[str, Any]) -> Details:
    """A row per program and slice."""
    known = [(row["label"], minimal[row["program"]]) for row in rows if row["program"] in minimal]
    table = [
        (
            *(label, str(of["rules"] or ""), str(of["kept"]), f"{where}{tested_on(where, of)}"),
            *(f"{of['whole'][where]:.1%}", f"{share:.1%}"),
        )
        for label, of in known
        for where, share in of["small"].items()
    ]
    header = ("program", "rules", "minimal", "inputs", "whole program right", "minimal program right")
    return Details("What is left, and how it generalises", header, tuple(table))


def _curves(kind: str, studies: Sequence[str], results: Results) -> Details:
    """A row per length or number of ones, a column per study that was run; the mean over seeds."""
    known = {study: results[study].curves[kind] for study in studies if study in results}
    groups = sorted({group for curve in known.values() for group in curve})
    rows = [(str(g), *(f"{np.mean(curve[g]):.2f}" if g in curve else "" for curve in known.values())) for g in groups]
    names = (f"{study}{tested_on('length >', results[study].manifest)}" for study in known)
    return Details(kind, (kind.split(" by ")[1], *names), tuple(rows))


def _make_minimal(names: Sequence[str], file: Path, say: Say) -> None:
    """Make programs minimal that a file lacks, or that were tested otherwise; each is kept as soon as it is done."""
    known = read_minimal(file)
    for name in names:
        if known.get(name, {}).get("tests") != PARITY_TESTS:
            say(f"{name}: making it minimal")
            found = program(name)
            known[name] = asdict(generalisation(found, task_of(found))) | {"tests": PARITY_TESTS}
            write_json(file, {name: known[name] for name in [*names, *known] if name in known})


def _studies(entry: Mapping[str, Any]) -> list[str]:
    drawn = [study for part in ("curves", "claims") for study in entry.get(part, {}).get("studies", ())]
    return list(dict.fromkeys([*(row["study"] for row in _rows(entry)), *drawn]))


def _entry(name: str) -> Mapping[str, Any]:
    found = _document().get(name.removeprefix(PREFIX))
    if found is None:
        raise ValueError(f"ALTA has no {name!r} here. {nearest(name, alta_items())}")
    return found


@cache
def _depths() -> list[int]:
    """Every number of layers for SCAN."""
    sizes = [study.transformer for study in planned_studies().values() if study.kind == "scan"]
    return sorted({size.layers for size in sizes if size is not None})


@cache
def _document() -> dict[str, Any]:
    found = parse_toml((files("mechgap.experiments") / "alta" / "items.toml").read_text(), "alta/items.toml")
    return {name: _whole(entry, found) for name, entry in found.items()}


def _whole(entry: Mapping[str, Any], others: Mapping[str, Any]) -> Mapping[str, Any]:
    """An entry that shows some rows of another's grid, with these rows."""
    if "of" not in entry:
        return entry
    rows = others[entry["of"]]["grid"]
    return {**entry, "grid": [row for row in rows if all(row[k] == v for k, v in entry["where"].items())]}
