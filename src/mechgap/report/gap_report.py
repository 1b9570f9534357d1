"""The report on the mechanistic gap: result folders in, one HTML file that works offline out (`mechgap report`)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.faithfulness.clusters import COLOUR_SHARE, OVERLAP, RESAMPLES
from mechgap.faithfulness.landscape import FILE as LANDSCAPE
from mechgap.faithfulness.mechanistic_gap import FILE as GAP
from mechgap.faithfulness.mechanistic_gap import Gap
from mechgap.faithfulness.study import CAUSAL
from mechgap.report.gap_data import page_data
from mechgap.report.gap_tables import (
    Analysis,
    Paper,
    analyse,
    causal_tables,
    cluster_table,
    correlation_tables,
    headline_table,
    measure_tables,
    settings_tables,
    sharpness_table,
)
from mechgap.report.gap_words import interval, number
from mechgap.report.page import render_page, script_json
from mechgap.report.result_folder import CONFIG, HISTORY, MANIFEST, ResultFolder, read_folder
from mechgap.storage import check_folder, write_text

SCRIPTS = ("page_base/arrays", "core", "charts", "scatter", "page_base/graph", "viewer_draw", "viewer", "heat", "start")
FEW = 16  # networks; below this the page warns of its intervals
CONTENTS = {
    "headline": "Headline",
    "scatter": "Accuracy and faithfulness",
    "viewer": "Attention viewer",
    "time": "Over time",
    "clusters": "Clusters",
    "landscapes": "Landscapes",
    "causal": "Causal check",
    "correlations": "Correlations",
    "measures": "All measures",
    "learning": "Learning curves",
    "settings": "Settings",
}
# Which files a section is made from.
SOURCES = {
    "scatter": (GAP,),
    "viewer": (GAP,),
    "time": (GAP,),
    "clusters": (GAP,),
    "landscapes": (LANDSCAPE,),
    "causal": (CAUSAL,),
    "learning": (HISTORY,),
    "settings": (CONFIG, MANIFEST),
}


def write_report(
    folders: Sequence[str | Path],
    out: str | Path,
    figures: str | Path | None = None,
    paper: Mapping[str, Any] | None = None,
    note: str | None = None,
) -> list[str]:
    """Write one page about one or more runs of an algorithm, and say what is wrong with their files.

    Args:
        folders: of results; runs stand side by side, in this order.
        out: the HTML file.
        figures: also draw the figures into this folder, as SVG, PNG and PDF.
        paper: numbers to print beside ours: by the name of a measure, "correlation/MEASURE" or "causal/CONDITION".
        note: what a reader must know first, such as that these are quick runs.

    Returns:
        One line per problem; empty where all is well. The page shows the same lines.
    """
    if not folders:
        raise ValueError("A report needs at least one result folder.")
    check_folder(out)
    runs = _of_one_algorithm([read_folder(path, label) for path, label in _labelled(folders)])
    analyses = [analyse(run) for run in runs]
    problems = [problem for run in runs for problem in run.problems]
    shown = [a for a in analyses if a.run.algorithm is not None or a.run.gap is not None or a.run.history]
    write_text(out, render(shown, problems, paper or {}, note))
    if figures is not None:
        from mechgap.report.gap_figures import save_figures

        save_figures(shown, figures)
    return problems


def render(runs: Sequence[Analysis], problems: Sequence[str], paper: Paper, note: str | None = None) -> str:
    """The page as text."""
    data = page_data(runs)
    has = _sections(data.values["runs"])
    values: dict[str, Any] = {
        "title": _title(runs),
        "subtitle": _subtitle(runs),
        "note": note,
        "data": script_json(data.values),
        "blobs": data.blobs,
        "problems": list(problems),
        "cards": [_card(a) for a in runs if a.headlines],
        "single": len(runs) == 1,
        "headline": headline_table(runs, paper),
        "has": has,
        "missing": _missing(runs, data.values["runs"]),
        "cluster_tables": [t for a in runs if (t := cluster_table(a)) is not None],
        "clustering": {"cut": COLOUR_SHARE, "stable": OVERLAP, "draws": RESAMPLES},
        "sharpness": sharpness_table(runs),
        "causal": causal_tables(runs, paper),
        "correlations": correlation_tables(runs, paper),
        "measures": measure_tables(runs, paper),
        "settings": settings_tables(runs),
        "folders": [str(a.run.path) for a in runs],
    }
    there = has | {name: bool(values[name]) for name in ("causal", "correlations", "measures")}
    there |= {"headline": bool(values["cards"]), "settings": True}
    values["contents"] = [(name, words) for name, words in CONTENTS.items() if there[name]]
    return render_page("gap_page", SCRIPTS, values)


def _labelled(folders: Sequence[str | Path]) -> list[tuple[Path, str]]:
    """A folder's own name, with its parent's where two are called the same."""
    paths = [Path(f) for f in folders]
    names = [p.resolve().name or str(p) for p in paths]
    often = Counter(names)
    longer = [f"{p.resolve().parent.name}/{n}" if often[n] > 1 else n for p, n in zip(paths, names, strict=True)]
    seen: Counter[str] = Counter()
    labels = []
    for label in longer:
        seen[label] += 1
        labels.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return list(zip(paths, labels, strict=True))


def _of_one_algorithm(runs: Sequence[ResultFolder]) -> list[ResultFolder]:
    """Leave out runs of another algorithm than the first: their numbers do not stand side by side."""
    first = next((run for run in runs if run.algorithm is not None), None)
    kept = []
    for run in runs:
        if first is None or run.algorithm in (None, first.algorithm):
            kept.append(run)
            continue
        file = run.path / (GAP if run.gap is not None else CONFIG)
        problem = (
            f"{file} is of the algorithm {run.algorithm!r}, but {first.path} of {first.algorithm!r}; runs on one page "
            f"must be of one algorithm, so that this one is left out. Make a page of its own for it."
        )
        kept.append(ResultFolder(run.path, run.label, problems=(*run.problems, problem)))
    return kept


def _title(runs: Sequence[Analysis]) -> str:
    name = next((a.run.algorithm for a in runs if a.run.algorithm), None)
    return f"The mechanistic gap: {name}" if name else "The mechanistic gap"


def _subtitle(runs: Sequence[Analysis]) -> str:
    counts = [len(a.run.gap.members["seed"]) for a in runs if a.run.gap is not None]
    if not counts:
        return "nothing could be read"
    networks = f"{sum(counts)} network{'s' if sum(counts) != 1 else ''}"
    return f"{networks} in {len(counts)} runs, side by side" if len(counts) > 1 else networks


def _card(analysis: Analysis) -> dict[str, Any]:
    numbers = []
    for h in analysis.headlines:
        name = f"{h.label}: {h.detail}" if h.detail else h.label
        name = name if h.split in name else f"{name} ({h.split})"
        numbers.append((name, number(h.mean), f"95 %: {interval(h.interval)}"))
    return {
        "label": analysis.run.label,
        "verdict": analysis.verdict,
        "numbers": numbers,
        "caveats": _caveats(analysis.run),
    }


def _differences(compiled: Mapping[str, Any], about: Mapping[str, Any]) -> list[str]:
    """How the architecture of the compiled network differs; older results do not speak of its lack of a layer norm."""
    lacked = {"use_layer_norm": False} if about.get("settings", {}).get("use_layer_norm") else {}
    needs, differs = (
        ", ".join(f"{name} = {value}" for name, value in values.items())
        for values in (compiled.get("needs", {}), compiled.get("differs", lacked))
    )
    said = []
    if needs:
        said.append(
            f"The compiled network has capabilities that the trained ones lack: {needs}. They may be part of the gap."
        )
    if differs:
        said.append(f"The compiled network also differs from the trained ones in its architecture: {differs}.")
    return said


def _older_star(gap: Gap) -> list[str]:
    """What to know of a file from before α* was the interpreter's."""
    if gap.about.get("star") is not None or not _may_be_unclear(gap):
        return []
    return [
        "Attention was compared with the compiled network's own, as in all older results. It differs from the "
        "program's α* where choices are unclear: where two numbers are closer than the compiled network can tell apart."
    ]


def _may_be_unclear(gap: Gap) -> bool:
    """Whether a program has several micro-steps, or numbers to tell apart; yes where a file does not show its hints."""
    settings, needs = gap.about.get("settings", {}), gap.about["compiled"].get("needs", {})
    steps = {"message_passing_steps": 1, **settings, **needs}["message_passing_steps"]
    hints = [x for name, x in gap.shown.items() if name.startswith("hints/")]
    return steps > 1 or not hints or any(np.issubdtype(x.dtype, np.floating) for x in hints)  # only numbers are floats


def _caveats(run: ResultFolder) -> list[str]:
    gap = run.gap
    if gap is None:
        return []
    said = []
    compiled = gap.about.get("compiled")
    if compiled is None:
        said.append(f"No program was compiled for {gap.algorithm}, so that attention is not compared; only traces are.")
    else:
        said += _differences(compiled, gap.about) + _older_star(gap)
    if {"best_step", "test_last"} <= set(gap.members) and gap.sound.any():
        step, last = (np.asarray(gap.members[name], float)[gap.sound] for name in ("best_step", "test_last"))
        said.append(
            f"The weights are those of the best validation, as in the paper, at step {np.median(step):.0f} in the "
            f"median; after the last step the test score is {number(float(last.mean()))}. Who reaches it later has "
            f"trained for longer, which explains part of any correlation of score and faithfulness."
        )
    lost = int((~gap.sound).sum())
    if lost:
        said.append(f"{lost} of {len(gap.sound)} networks diverged and are left out of all numbers.")
    if gap.sound.sum() < FEW:
        said.append(f"Only {int(gap.sound.sum())} networks: intervals and correlations are wide.")
    return said


def _sections(runs: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    """Which of the drawn sections any run has data for."""
    drawn = ("scatter", "viewer", "time", "clusters", "landscapes", "learning")
    return {section: any(_has(section, run) for run in runs) for section in drawn}


def _has(section: str, run: Mapping[str, Any]) -> bool:
    field = {"scatter": "score", "time": "curves", "learning": "history"}.get(section, section)
    return bool(run.get(field))


def _missing(runs: Sequence[Analysis], data: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """For every section, a line per run that is not in it: which file is missing or cannot be used."""
    lines: dict[str, list[str]] = {name: [] for name in SOURCES}
    for analysis, values in zip(runs, data, strict=True):
        run = analysis.run
        for section, sources in SOURCES.items():
            there = {"causal": bool(run.causal), "settings": False}.get(section, _has(section, values))
            if there:
                continue
            absent = [name for name in sources if name in run.missing or not (run.path / name).exists()]
            where = f" of {run.label}" if len(runs) > 1 else ""
            if absent:
                lines[section].append(f"{CONTENTS[section]}{where}: left out, {', '.join(absent)} is missing.")
            elif section != "settings":
                lines[section].append(f"{CONTENTS[section]}{where}: left out, {sources[0]} {_why(section, run)}.")
    return lines


def _why(section: str, run: ResultFolder) -> str:
    """Why a file that is there gives a section nothing."""
    if any(str(run.path / name) in problem for problem in run.problems for name in SOURCES[section]):
        return "cannot be used, see the problems above"
    if section == "clusters":
        return "holds fewer than three networks to compare"
    return "holds nothing to show there"
