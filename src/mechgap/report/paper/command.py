"""What `mechgap paper` does: run, compare, list, and write the document."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mechgap.report.paper.alta import alta_items, alta_table, check_alta, is_alta, run_alta_item
from mechgap.report.paper.catalogue import Item, find_items, load_items, paper_numbers
from mechgap.report.paper.document import LINE_HEADER, heading, line_cells, write_document
from mechgap.report.paper.lines import Comparison, paper_table
from mechgap.report.paper.runs import FOLDERS, results_folder, run_item
from mechgap.report.paper.transnar import is_transnar, run_transnar_item, transnar_items, transnar_table
from mechgap.report.paper.verdicts import NEVER

QUICK = (
    "QUICK: a few small networks, trained briefly on small graphs. This shows that everything runs; it is not the "
    "paper's budget, and says nothing about the paper. For that: --preset full, on an accelerator."
)
WIDE = 130  # characters of a terminal in which everything fits
COLOURS = {"reproduced": "green", "differs": "yellow", "cannot": "magenta", "never": "dim", "too": "dim", "not": "dim"}


def answer(
    words: Sequence[str],
    preset: str,
    folder: Path | None,
    runs: Path,
    out: Path,
    changes: Mapping[str, Any],
) -> None:
    """Do what the words of `mechgap paper` say.

    Args:
        words: "list", "doc", "all", or names of items.
        preset: "quick" or "full", for what is run.
        folder: of the results; by default runs/paper-quick for quick runs, and results for everything else.
        runs: where training keeps checkpoints, and where pages of figures go.
        out: the file that "doc" writes.
        changes: settings that replace those of the preset.
    """
    console = Console()
    if list(words) == ["list"]:
        print_list(folder or FOLDERS["full"], console)
    elif list(words) == ["doc"]:
        write_document(folder or FOLDERS["full"], out)
        console.print(f"wrote {out}", highlight=False)
    else:
        on_sequences = [check_alta(word) for word in words if is_alta(word)]
        on_text = [word for word in words if is_transnar(word)]
        on_graphs = [word for word in words if not is_alta(word) and not is_transnar(word)]
        items = find_items(on_graphs) if on_graphs else []
        place = results_folder(preset, folder)
        if changes and folder is None and place == FOLDERS["full"]:
            raise ValueError(
                f"Results of other settings ({', '.join(changes)}) would take the place of those in {place}, which are "
                f"of the paper's. Give them a folder of their own, e.g. --folder runs/paper-changed."
            )
        options: dict[str, Any] = {"runs": runs, "changes": changes, "say": lambda said: console.print(f"[dim]{said}")}
        for name in on_sequences:
            run_alta_item(name, preset, place, **options)
            print_comparison(alta_table(name, place), console)
        for name in on_text:
            run_transnar_item(name, preset, place, **options)
            print_comparison(transnar_table(name, place), console)
        for item in items:
            run_item(item.name, preset, place, **options)
            compared = paper_table(item, place)
            print_comparison(compared, console)
            if compared.small:
                console.print(f"[bold yellow]{QUICK}")
            if item.section:
                _write_pages(item, place, runs, console, compared.small)


def print_list(folder: Path, console: Console) -> None:
    """Every item: what it needs, and how it stands; a narrow terminal has less of it."""
    found = [paper_table(item, folder) for item in load_items().values()]
    found += map(partial(alta_table, folder=folder), alta_items())
    found += map(partial(transnar_table, folder=folder), transnar_items())
    wide = console.width >= WIDE
    table = Table(
        title=f"Tables and figures of Mind the Gap, ALTA and TransNAR, results in {folder}", title_justify="left"
    )
    table.add_column("item", no_wrap=True)  # what other commands are given
    for column in ("shows", *(["studies", "networks"] if wide else []), "run on", "verdict"):
        table.add_column(column, overflow="fold", no_wrap=column == "run on")
    for compared in found:
        item, verdict = compared.item, f"[italic]{NEVER}" if compared.verdict == NEVER else compared.verdict
        trained = [", ".join(item.studies), compared.networks] if wide else []
        table.add_row(item.name, item.title, *trained, compared.date, verdict)
    console.print(table)


def print_comparison(compared: Comparison, console: Console) -> None:
    """One item beside the paper, as tables."""
    item = compared.item
    if compared.lines:
        cells = [line_cells(line) for line in compared.lines]
        shown = [i for i in range(len(LINE_HEADER)) if i == 0 or any(row[i] for row in cells)]
        table = Table(title=heading(item), title_justify="left")
        for i in shown:
            table.add_column(LINE_HEADER[i])
        for line, row in zip(compared.lines, cells, strict=True):
            first = line.verdict.split(" ")[0].rstrip(":") if line.verdict else ""
            table.add_row(*(row[i] for i in shown), style=COLOURS.get(first))
        console.print(table)
    for details in compared.details:
        table = Table(title=details.title, title_justify="left")
        for name in details.header:
            table.add_column(name)
        for values in details.rows:
            table.add_row(*values)
        console.print(table)
        if details.note:
            console.print(details.note, highlight=False)
    if item.drawn:
        console.print(f"{heading(item)}: mechgap inspect draws it; ours is docs/{item.drawn}", highlight=False)


def _write_pages(item: Item, folder: Path, runs: Path, console: Console, quick: bool) -> None:
    """The figure itself, in a page that can be opened in a browser; without jinja2 there are tables only."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        console.print("[dim]no page: writing one needs jinja2 (pip install 'mechgap[report]')")
        return
    from mechgap.report.gap_report import write_report

    runs.mkdir(parents=True, exist_ok=True)
    for study in item.studies:
        out = runs / f"{item.name}_{study}.html"
        for problem in write_report([folder / study], out, paper=paper_numbers(study), note=QUICK if quick else None):
            console.print(f"[red]{problem}", highlight=False)
        console.print(f"drawn in the section '{item.section}' of {out}", highlight=False)
