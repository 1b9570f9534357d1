"""Traces as tables that a person can read in a terminal."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mechgap.trace import Kind, Location, Stage, Trace, Variable

NOTHING = "·"


def cell(variable: Variable, value: Any) -> str:
    """One variable's value in one frame.

    A mask is the list of its nodes, a pointer the list of targets per node (a dot where a node points to itself),
    an edge mask the list of its edges.
    """
    value = np.asarray(value)
    match variable.kind:
        case Kind.MASK_ONE:
            return str(int(np.argmax(value)))
        case Kind.MASK if variable.location == Location.NODE:
            return " ".join(str(i) for i in np.flatnonzero(value)) or NOTHING
        case Kind.MASK if variable.location == Location.EDGE:
            return " ".join(f"{i}-{j}" for i, j in np.argwhere(value)) or NOTHING
        case Kind.POINTER if variable.location == Location.NODE:
            return " ".join(NOTHING if int(j) == i else str(int(j)) for i, j in enumerate(value))
        case Kind.CATEGORICAL:
            return " ".join(str(c) for c in np.atleast_1d(np.argmax(value, axis=-1)))
        case _:
            return " ".join(f"{x:.3g}" if x else NOTHING for x in np.ravel(value))


def trace_table(trace: Trace, sample: int = 0, title: str | None = None) -> Table:
    """One execution, a row per frame, a column per hint."""
    table = Table(title=title, title_justify="left")
    table.add_column("step", justify="right", style="bold")
    hints = trace.spec.at(Stage.HINT)
    for variable in hints:
        table.add_column(f"{variable.name}\n[dim]{variable.kind}[/dim]", no_wrap=True)
    for t in range(int(trace.lengths[sample])):
        table.add_row(str(t), *(cell(v, trace.hints[v.name][t, sample]) for v in hints))
    return table


def change_table(trace: Trace, sample: int = 0, title: str | None = None) -> Table:
    """One execution, a row per frame that says what changed: for states too wide for a column each."""
    table = Table(title=title, title_justify="left")
    table.add_column("step", justify="right", style="bold")
    table.add_column("what changed (node:value)")
    for t in range(int(trace.lengths[sample])):
        changes = [_change(v, trace.hints[v.name][:, sample], t) for v in trace.spec.at(Stage.HINT)]
        table.add_row(str(t), "  ".join(c for c in changes if c) or NOTHING)
    return table


def _change(variable: Variable, frames: Any, t: int) -> str:
    new, old = np.asarray(frames[t]), np.asarray(frames[t - 1]) if t else None
    if variable.location != Location.NODE or variable.kind == Kind.MASK_ONE:
        said = cell(variable, new)
        return f"[bold]{variable.name}[/bold] {said}" if old is None or said != cell(variable, old) else ""
    if variable.kind == Kind.CATEGORICAL:
        new, old = np.argmax(new, -1), None if old is None else np.argmax(old, -1)
    start = np.arange(len(new)) if variable.kind == Kind.POINTER else np.zeros(len(new))
    nodes = np.flatnonzero(new != (start if old is None else old))
    said = " ".join(f"{i}:{new[i]:.3g}" for i in nodes)
    return f"[bold]{variable.name}[/bold] {said}" if said else ""


def print_trace(name: str, trace: Trace, sample: int = 0) -> None:
    """Print an execution: what was given, every frame, the result."""
    console = Console()
    for variable in trace.spec.at(Stage.INPUT):
        if variable.location == Location.EDGE and variable.kind == Kind.SCALAR:
            continue  # the matrix is in the edges below
        console.print(f"[bold]{variable.name}[/bold] {cell(variable, trace.inputs[variable.name][sample])}")
    if "A" in trace.inputs:
        A = np.asarray(trace.inputs["A"][sample])
        weights = " ".join(f"{i}-{j}:{A[i, j]:.3g}" for i, j in np.argwhere(A) if A.dtype.kind == "f")
        console.print(f"[bold]weights[/bold] {weights}" if weights else "unweighted")
    title = f"{name}: {int(trace.lengths[sample])} frames"
    table = trace_table(trace, sample, title)
    natural = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    fits = natural <= console.width
    console.print(table if fits else change_table(trace, sample, title))
    for variable in trace.spec.at(Stage.OUTPUT):
        console.print(
            f"[bold green]{variable.name}[/bold green] {cell(variable, trace.outputs[variable.name][sample])}"
        )
