"""docs/reproduction.md: the whole comparison with the paper, made from result files alone."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mechgap.report.paper.alta import PREFIX, alta_items, alta_table, is_alta
from mechgap.report.paper.catalogue import FILES, Item, contradictions, load_items, load_studies
from mechgap.report.paper.correlations import implied_by_all, implied_ranges
from mechgap.report.paper.lines import Comparison, between, largest_graph, paper_table, rows
from mechgap.report.paper.results import Result
from mechgap.report.paper.transnar import PREFIX as TRANSNAR_PREFIX
from mechgap.report.paper.transnar import is_transnar, transnar_items, transnar_table
from mechgap.report.paper.verdicts import NEVER, Line
from mechgap.storage import read_tensors, write_text
from mechgap.training.weights import FORMAT as WEIGHTS

OPENING = """\
# The tables and figures of *Mind the Gap*, *ALTA* and *TransNAR*, and ours

Made by `mechgap paper doc` from the files under `results/`; a test makes it again and compares. Do not edit it.

`mechgap paper table10` runs what an item needs in a few minutes on two cores (`--preset quick`: few seeds and steps,
small networks, which says nothing about the paper), `--preset full` with the paper's budget. `mechgap paper list` is
the first table below, for the results at hand. The paper's settings and ours are in [training.md](training.md).

Scores are percentages of the benchmark's test split at 64 nodes unless said otherwise, as mean ± standard deviation
(maximum) over networks that did not diverge, at the best validation, as in the paper; beside it stands the score
after the last step. Intervals are 95 % bootstrap intervals of the mean. Verdicts:

- **reproduced**: our mean is within two of the printed standard deviations of the printed one; a printed
  correlation lies in our interval; a curve rises or falls as described, by more than 0.02. The distances of Eq. 24
  are printed without a deviation: there, it is within two of ours.
- **differs**: it is not so; what is known to be unlike the paper follows, which need not be the cause.
- **cannot be as printed**: whatever is trained.
- **never run**: there is no result yet, or the measurement is missing.
- **shown**: the paper draws or asks, and prints no number to compare with.
- **too small to compare**: our settings are not the paper's, or training ended too early.
- **not comparable**: two models of ours were trained or asked in different ways; a difference says nothing.
- **data not available**: the paper's data is not here.
"""
ALTA = """\
Learnability of parity and SCAN, `mechgap paper alta-table2` and so on. How it is done is in
[learnability.md](learnability.md), the theorems are in [theory.md](theory.md).
"""
TRANSNAR = """\
A text model with and without a reasoner on ten algorithms, `mechgap paper transnar-grid` and so on, or all at once:
`mechgap transnar train --preset h200`. What is trained, on what, and what the paper leaves open is in
[transnar.md](transnar.md). No score is shown without what the best constant answer gets on the same questions.
All of this is much smaller than the paper's study (ten algorithms, few steps, no pretrained model), so that verdicts
are on the sign of a difference: it is reproduced where it exceeds two standard errors over algorithms in the direction
that the paper has. Intervals are those of Student's t over algorithms, and a little wider. Graham scan and Jarvis'
march have the same answers: they count as one algorithm, with the mean of both, before any mean over algorithms or its
error is taken.
"""
SECTIONS = {"Tables": "table", "Figures": "figure"}
LINE_HEADER = ("", "paper", "ours", "95 % interval", "networks", "texts", "after the last step", "verdict")


def write_document(folder: str | Path, out: str | Path) -> None:
    """Write the comparison of all items with the results in a folder."""
    write_text(out, document(folder))


def document(folder: str | Path) -> str:
    """The comparison as Markdown."""
    compared = [paper_table(item, folder) for item in load_items().values()]
    alta = [alta_table(name, folder) for name in alta_items()]
    transnar = [transnar_table(name, folder) for name in transnar_items()]
    others = [c for c in compared if not c.item.name.startswith(tuple(SECTIONS.values()))]
    parts = [OPENING, "## Overview\n", _overview([*compared, *alta, *transnar])]
    for title, start in SECTIONS.items():
        parts += [f"## {title}\n", *(_section(c) for c in compared if c.item.name.startswith(start))]
        if title == "Tables":
            parts += ["## Beside the tables\n", *(_section(c) for c in others)]
    parts += ["## What the paper says in two ways, or cannot hold\n", _contradictions(Path(folder))]
    parts += ["## ALTA\n", ALTA, *map(_section, alta)]
    parts += ["## TransNAR\n", TRANSNAR, *map(_section, transnar)]
    parts += ["## The runs\n", _runs(Path(folder))]
    return "\n".join(parts)


def table(header: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    """A Markdown table; columns that are empty throughout are left out."""
    body = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    shown = [i for i in range(len(header)) if i == 0 or any(row[i] for row in body)]
    lines = [[header[i] for i in shown], ["---"] * len(shown), *([row[i] for i in shown] for row in body)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def line_cells(line: Line) -> tuple[str, ...]:
    """A line in the order of `LINE_HEADER`."""
    return line.label, line.paper, line.ours, line.interval, line.networks, line.texts, line.last, line.verdict


def heading(item: Item) -> str:
    """E.g. Table 10: Baselines."""
    if is_transnar(item.name):
        return f"TransNAR, {item.name.removeprefix(TRANSNAR_PREFIX)}: {item.title}"
    paper, name = ("ALTA, ", item.name.removeprefix(PREFIX)) if is_alta(item.name) else ("", item.name)
    for start in SECTIONS.values():
        if name.startswith(start):
            return f"{paper}{start.title()} {name.removeprefix(start)}: {item.title}"
    return item.title


def _overview(compared: Sequence[Comparison]) -> str:
    cells = [
        (f"`{c.item.name}`", c.item.title, c.networks, c.date, c.verdict if c.verdict != NEVER else f"*{NEVER}*")
        for c in compared
    ]
    return table(("item", "shows", "networks", "run on", "verdict"), cells)


def _section(compared: Comparison) -> str:
    item = compared.item
    parts = [f"### {heading(item)}\n"]
    if item.about:
        parts.append(f"{item.about.strip()}\n")
    if compared.lines:
        parts.append(table(LINE_HEADER, [line_cells(line) for line in compared.lines]))
    for details in compared.details:
        parts.append(f"{details.title}:\n\n{table(details.header, details.rows)}")
        if details.note:
            parts.append(f"{details.note}\n")
    if item.section:
        pages = " or ".join(f"`mechgap report results/{study}`" for study in item.studies)
        drawn = f"; with `--figures`, in the files `{item.figures}`" if item.figures else ""
        parts.append(f"Drawn in the section *{item.section}* of the page that {pages} writes{drawn}.\n")
    if item.drawn:
        program = item.drawn.removeprefix("compiled_").removesuffix(".png")
        command = f"`mechgap inspect {program} --minimal --plot weights.png`"
        parts.append(f"Ours, all weights of the smallest network, by {command}: [{item.drawn}]({item.drawn}).\n")
    return "\n".join(parts)


def _contradictions(folder: Path) -> str:
    known = numbers(folder)
    return "\n".join(f"- **{c['title']}.** {c['text'].strip().format_map(known)}" for c in contradictions()) + "\n"


def numbers(folder: Path) -> dict[str, str]:
    """Our numbers that the list of contradictions names."""
    items, studies = load_items(), load_studies()
    table1, eq24 = items["table1"].parts["correlations"], items["eq24"].parts["scale"][0]
    bfs = Result(studies["bfs"], folder / "bfs")
    named = {name: _score(Result(studies[name], folder / name)) for name in ("bellman_ford", "bellman_ford_minimal")}
    ranges = [f"{low:.1f} to {high:.1f}" for low, high in implied_ranges(table1).values()]
    return {
        **named,
        "implied_ranges": f"{', '.join(ranges[:-1])} and {ranges[-1]} networks",
        "implied": f"only {implied_by_all(table1)}",
        "largest_n": str(largest_graph(eq24)),
        **_distances(bfs),
        **_parameters(folder / "bfs" / "excerpt.safetensors"),
    }


def _score(result: Result) -> str:
    if not result.configs:
        return NEVER
    (line, *_), _ = rows({"label": result.study.name}, result)
    return f"{line.ours} over {line.networks} networks"


def _distances(bfs: Result) -> dict[str, str]:
    gap = bfs.gap
    if gap is None:
        return dict.fromkeys(("closest_rows", "closest_rows_validation", "between"), NEVER)
    return {
        "closest_rows": f"{gap.values('internal/rows', 'train').min():.3f}",
        "closest_rows_validation": f"{gap.values('internal/rows', 'validation').min():.3f}",
        "between": f"{between(bfs).mean() * 2 / gap.about['splits']['validation']['n']:.4f}",
    }


def _parameters(excerpt: Path) -> dict[str, str]:
    """How many numbers one network of a file holds, those of the layer norm apart."""
    if not excerpt.exists():
        return dict.fromkeys(("parameters", "parameters_plain", "parameters_norm"), NEVER)
    tensors, _ = read_tensors(excerpt, WEIGHTS)
    sizes = {name: x[0].size for name, x in tensors.items()}
    norm = sum(size for name, size in sizes.items() if ".norm." in name)
    total = sum(sizes.values())
    return {"parameters": f"{total:,}", "parameters_plain": f"{total - norm:,}", "parameters_norm": f"{norm:,}"}


def _runs(folder: Path) -> str:
    cells = []
    for study in load_studies().values():
        planned, result = study.configs("full"), Result(study, folder / study.name)
        meant = f"{sum(c.seeds for c in planned)} x {planned[0].steps}"
        cells.append((f"`{study.name}`", meant, *_run(result)))
    header = ("study", "planned: networks x steps", "run", "measured", "device", "s to train", "jax", "run on")
    return table(header, cells)


def _run(result: Result) -> tuple[str, ...]:
    if not result.configs:
        return f"*{NEVER}*", "", "", "", "", ""
    about: Mapping[str, Any] = result.manifest
    seconds = about.get("times", {}).get("train_s")
    return (
        f"{result.networks} x {result.configs[0].steps}{'' if result.comparable else ', other settings'}",
        ", ".join(("scores", *(what for what, file in FILES.items() if (result.folder / file).exists()))),
        str(about.get("device", {}).get("kind", "")),
        "" if seconds is None else f"{seconds:.0f}",
        str(about.get("versions", {}).get("jax", "")),
        result.date,
    )
