"""Train on sequences from the command line, and print what came of all trainings so far."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mechgap.algorithms.inputs import nearest
from mechgap.faithfulness.sequence_presets import check_settings_are_used, sequence_studies
from mechgap.faithfulness.sequence_result import read_result
from mechgap.faithfulness.sequence_study import run_missing
from mechgap.report.alta_summary import GAP_COLUMNS, SLICES, study_table
from mechgap.report.paper.alta import FOLDER, QUICK, alta_table
from mechgap.report.paper.verdicts import Details

SHORT = 25  # characters of a cell of numbers, at most
GAPS = "alta-gap"
SUMMARIES = ("alta-simplicity", GAPS)


def learn(
    kinds: Sequence[str],
    names: Sequence[str],
    preset: str = "quick",
    folder: Path = Path("runs/alta"),
    changes: Mapping[str, object] | None = None,
    stop_after: float | None = None,
) -> None:
    """Run studies of some kinds that a folder lacks, all of the first kind by default, and print them."""
    if stop_after is not None and not stop_after > 0:
        raise ValueError(f"--stop-after takes seconds, more than 0; got {stop_after:g}. Leave it out for all steps.")
    studies = {name: study for name, study in sequence_studies(preset, changes).items() if study.kind in kinds}
    for name in names:
        if name not in studies:
            raise ValueError(f"There is no {kinds[0].replace('_', '-')} study {name!r}. {nearest(name, list(studies))}")
    place, console = folder / preset, Console()
    chosen = [study for name, study in studies.items() if (name in names if names else study.kind == kinds[0])]
    check_settings_are_used(changes or {}, chosen)
    run_missing(chosen, place, place / ".state", lambda said: console.print(said, highlight=False), stop_after)
    for part in narrower(study_table(read_result(place / study.name) for study in chosen)):
        console.print(rich_table(part))
    if preset == "quick":
        console.print(QUICK, highlight=False)


def print_summary(folder: Path) -> None:
    """All trainings in a folder of results, and how simple the programs are."""
    if not (folder / FOLDER).is_dir():
        raise FileNotFoundError(
            f"There is no {folder / FOLDER}: give a folder of results, as `mechgap paper` keeps them."
        )
    console = Console()
    for name in SUMMARIES:
        for found in alta_table(name, folder).details:
            for part in narrower(found) if name == GAPS else [found]:
                console.print(rich_table(part))


def narrower(found: Details) -> list[Details]:
    """The table of all trainings as three or four that fit into a terminal: training, answers, the gap."""
    heads, heads_there, variables, variables_there = GAP_COLUMNS
    parts = {
        "How training went": ("learns from", "networks", "training"),
        "Right answers in percent": tuple(SLICES.values()),
        f"The gap to a program. Heads: {heads}. Variables: {variables}": (heads, variables),
        "The same from and at the answering place": (heads_there, variables_there),
    }
    tables = []
    for title, columns in parts.items():
        compared = heads in columns or heads_there in columns
        rows = []
        for row in found.rows:
            cell = dict(zip(found.header, row, strict=True))
            cells = tuple(cell[name] for name in columns)
            program = f": {cell['compared with']}" if compared else ""
            rows += [(f"{cell['study']}{program}", *cells)] if any(cells) else []
        names = ("heads", "variables") if compared else columns
        tables.append(Details(title, ("study: program" if compared else "study", *names), tuple(rows)).cropped())
    return [table for table in tables if table.rows]


def rich_table(found: Details) -> Table:
    """A table for a terminal; columns that are empty throughout are left out, and numbers stay in one line."""
    found = found.cropped()
    table = Table(title=found.title, title_justify="left")
    for i, name in enumerate(found.header):
        is_words = any(len(row[i]) > SHORT or not row[i][:1].isdigit() for row in found.rows if row[i])
        table.add_column(name if is_words else name.replace(" ", "\n"), overflow="fold", no_wrap=not is_words)
    for row in found.rows:
        table.add_row(*row)
    return table
