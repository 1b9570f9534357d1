"""Train on sequences from the command line, and print what came of all trainings so far."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mechgap.algorithms.inputs import nearest
from mechgap.faithfulness.sequence_presets import check_settings_are_used, sequence_studies
from mechgap.faithfulness.sequence_study import run_missing
from mechgap.report.alta_summary import study_table
from mechgap.report.paper.alta import FOLDER, QUICK, alta_table
from mechgap.report.paper.verdicts import Details

SUMMARIES = ("alta-simplicity", "alta-gap")


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
    console.print(rich_table(study_table(place / study.name for study in chosen)))
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
            console.print(rich_table(found))


def rich_table(found: Details) -> Table:
    """A table for a terminal; columns that are empty throughout are left out."""
    found = found.cropped()
    table = Table(title=found.title, title_justify="left")
    for name in found.header:
        table.add_column(name, overflow="fold")
    for row in found.rows:
        table.add_row(*row)
    return table
