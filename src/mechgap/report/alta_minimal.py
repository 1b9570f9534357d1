"""Minimal programs in a terminal: what is left of a program, and how it generalises (ALTA Figure 4)."""

from rich.console import Console
from rich.table import Table

from mechgap.faithfulness.minimal_programs import generalisation
from mechgap.programs.library.scan_divergence import divergences
from mechgap.programs.tasks import task_of
from mechgap.report.alta_tables import alta_named

NAMED = 3  # of those that could go


def print_minimal(name: str, train_length: int | None = None, split: str | None = None) -> None:
    """Print what is left of a program, and how it generalises."""
    program, console = alta_named(name), Console()
    task = task_of(program, train_length, split)
    console.print(f"{name}: minimal for {len(task.train)} inputs ...", highlight=False)
    if task.name == "scan":
        ((slice_name, test),) = task.tests.items()
        apart = divergences(task.train, test)
        said = f"atoms {apart.atoms:.3f}, compounds {apart.compounds:.3f}"
        console.print(f"Training set and {slice_name} diverge: {said}.", highlight=False)
    with console.status("") as status:  # SCAN takes minutes
        found = generalisation(program, task, status.update)
    table = Table(title=f"{name}, right answers as interpreted", title_justify="left")
    for column in ("inputs", "whole program", "minimal program"):
        table.add_column(column)
    for where, share in found.small.items():
        table.add_row(where, f"{found.whole[where]:.1%}", f"{share:.1%}")
    console.print(table)
    layers = "1 layer" if found.layers == 1 else f"up to {found.layers} layers"
    took = f"It takes {layers} on the training set"
    console.print(f"{took}, and has {found.combinations:.1e} combinations of values.", highlight=False)
    of = "" if found.rules is None else f" of {found.rules}"
    console.print(f"{found.kept}{of} rules are left, counted with one value per test, and a reset per value of a head.")
    if found.removable is not None:
        console.print(f"{len(found.removable)} of their tests could still be removed (Definition 1).", highlight=False)
        for one in found.removable[:NAMED]:
            console.print(f"  {one}", highlight=False, soft_wrap=True)
        if len(found.removable) > NAMED:
            console.print(
                f"  and {len(found.removable) - NAMED} more; mechgap.programs.minimal.removable has them all."
            )
