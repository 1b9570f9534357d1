"""Right answers by length and by number of ones, trainings over one another: one HTML page (ALTA Figures 5, 9 to 11).

The curves are drawn here, not by a script: the page shows them, and their numbers, without one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.faithfulness.sequence_presets import KINDS, sequence_studies
from mechgap.faithfulness.sequence_result import CONFIG, CURVES, SCAN, Curve, SequenceResult, is_result, read_result
from mechgap.report.alta_summary import study_table
from mechgap.report.page import render_page, script_json
from mechgap.storage import check_folder, write_text
from mechgap.training.checkpoint import read_json

CONTENTS = {"curves": "Curves", "table": "Right answers", "numbers": "Numbers"}
WORDED = ("training", "compared with")  # columns of the table that hold words
# What curves.json holds -> how the figure is called, and what it says.
FIGURES = {
    "right by length": ("Right answers by length", "length of the text"),
    "right by ones": ("Right answers by number of ones", "ones in the text"),
    "mean prediction by ones": ("Mean prediction by number of ones", "ones in the text"),
}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 250, 42, 12, 12, 40
COLOURS = 6  # see page_base/base.css
DASHES = ("", "7 4", "2 3", "10 3 2 3")  # a further one for every six trainings
STEPS = (1, 2, 5, 10, 20, 50, 100)
MOST_TICKS = 7


@dataclass(frozen=True)
class Training:
    """A result folder with curves.

    Attributes:
        label: its name, and its place where several have that name.
        trained_to: the longest text, and the most ones, of the training set.
        curves: kind -> group -> the mean of every network.
    """

    folder: Path
    label: str
    trained_to: int
    curves: Mapping[str, Curve]


def trainings(places: Sequence[Path]) -> list[Path]:
    """The folders with curves among these and right inside them, these in the paper's order; empty for none."""
    order = list(sequence_studies())

    def rank(folder: Path) -> tuple[int, str]:
        return order.index(folder.name) if folder.name in order else len(order), folder.name

    for place in places:
        if _kind(place) == SCAN:
            raise ValueError(
                f"{place} is a training on SCAN, which has no curves. Its numbers: mechgap alta summary, or "
                f"mechgap paper alta-table5."
            )
    whole = [[inner for inner in place.glob("*") if is_result(inner) and _is_on_parity(inner)] for place in places]
    inside = [sorted(folders, key=rank) for folders in whole]
    found = [[place] if _is_on_parity(place) else more for place, more in zip(places, inside, strict=True)]
    without = [place for place, folders in zip(places, found, strict=True) if not folders]
    if without and any(found):
        raise ValueError(
            f"{without[0]} holds no {CURVES}, as other folders do: a page is about trainings on parity or about "
            f"results on graphs. Write one page for each."
        )
    return [folder for folders in found for folder in folders]


def _is_on_parity(place: Path) -> bool:
    """Whether a folder is of a training on parity, even one that lacks its curves."""
    return (place / CURVES).exists() or _kind(place) in set(KINDS) - {SCAN}


def _kind(place: Path) -> str:
    """The kind of training that a folder is of; what is wrong with a file is for others to say."""
    try:
        return str(read_json(place / CONFIG).get("kind"))
    except (FileNotFoundError, ValueError, AttributeError):
        return ""


def write_curves(folders: Sequence[Path], out: str | Path, note: str = "") -> None:
    """Write a page about trainings on parity, from their result folders alone.

    Args:
        folders: each a whole result, see `read_result`.
        out: the HTML file.
        note: to stand above everything, e.g. that these runs are small.
    """
    check_folder(out)
    write_text(out, render(folders, note))


def render(folders: Sequence[Path], note: str = "") -> str:
    """The page as text."""
    missing = [folder for folder in folders if not _is_on_parity(folder)]
    if missing or not folders:
        given = f"{missing[0]} has none" if missing else "got no folder"
        raise ValueError(
            f"Curves are drawn from folders with {CURVES}, which trainings on parity write (mechgap alta train, "
            f"mechgap alta supervise); {given}."
        )
    results = [read_result(folder) for folder in folders]
    known, table = _read(results), study_table(results).cropped()
    values = {
        "title": "Trained on short texts, tested on longer ones",
        "note": note,
        "names": [(training.label, *_style(i)) for i, training in enumerate(known)],
        "header": table.header,
        "rows": table.rows,
        "worded": WORDED,
        "figures": [_figure(kind, known) for kind in FIGURES],
        "numbers": [_numbers(kind, known) for kind in FIGURES],
        "contents": list(CONTENTS.items()),
        "data": script_json({}),
    }
    return render_page("curves_page", ("start",), values)


def _read(results: Sequence[SequenceResult]) -> list[Training]:
    times = Counter(result.folder.name for result in results)
    return [
        Training(
            result.folder,
            result.folder.name if times[result.folder.name] == 1 else "/".join(result.folder.parts[-2:]),
            result.study.train_length,
            result.curves,
        )
        for result in results
    ]


def _style(index: int) -> tuple[int, str]:
    """The colour and the dashes of a training."""
    return index % COLOURS, DASHES[index // COLOURS % len(DASHES)]


def _figure(kind: str, known: Sequence[Training]) -> dict[str, Any]:
    """What the template draws: lines as paths, ticks and marks by where they stand."""
    title, across = FIGURES[kind]
    groups = sorted({group for training in known for group in training.curves[kind]})
    low, high = groups[0], max(groups[-1], groups[0] + 1)

    def x(group: float) -> float:
        return round(LEFT + (group - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    def y(share: float) -> float:
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    lines = []
    for i, training in enumerate(known):
        curve = sorted(training.curves[kind].items())
        means = [f"{x(group)},{y(float(np.mean(values)))}" for group, values in curve]
        lowest = [f"{x(group)},{y(min(values))}" for group, values in curve]
        highest = [f"{x(group)},{y(max(values))}" for group, values in curve]
        several = len(curve[0][1]) > 1
        colour, dashes = _style(i)
        band = "M" + "L".join(highest + lowest[::-1]) + "Z" if several else ""
        lines.append({"index": i, "colour": colour, "dashes": dashes, "path": "M" + "L".join(means), "band": band})
    step = next((s for s in STEPS if (high - low) / s <= MOST_TICKS), high - low)
    return {
        "title": title,
        "across": across,
        "said": f"{title}. {'; '.join(_said(kind, training) for training in known)}.",
        "lines": lines,
        "x_ticks": [(x(t), t) for t in range(-(-low // step) * step, high + 1, step)],
        "y_ticks": [(y(share), f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)],
        "marks": [(x(t), t) for t in sorted({training.trained_to for training in known}) if low <= t <= high],
        "frame": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "bottom": y(0)},
    }


def _said(kind: str, training: Training) -> str:
    """A curve for those who do not see it: the mean of its groups, up to what was trained and beyond."""
    ends = training.trained_to
    parts = []
    for where, holds in ((f"up to {ends}", lambda g: g <= ends), (f"beyond {ends}", lambda g: g > ends)):
        means = [np.mean(values) for group, values in training.curves[kind].items() if holds(group)]
        parts += [f"{np.mean(means):.0%} {where}"] if means else []
    return f"{training.label}: {', '.join(parts)}"


def _numbers(kind: str, known: Sequence[Training]) -> dict[str, Any]:
    groups = sorted({group for training in known for group in training.curves[kind]})
    curves = [training.curves[kind] for training in known]
    rows = [(g, [f"{np.mean(curve[g]):.1%}" if g in curve else "" for curve in curves]) for g in groups]
    return {"title": FIGURES[kind][0], "across": FIGURES[kind][1], "rows": rows}
