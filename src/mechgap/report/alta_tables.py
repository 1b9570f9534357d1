"""ALTA programs in a terminal: what they are, their rules, and the residual stream layer by layer (Figure 3)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from mechgap.programs import program, program_names
from mechgap.programs.alta import AltaProgram, SetOf, Variable
from mechgap.programs.alta_interpreter import AltaTrace, members_of
from mechgap.programs.library.scan import ACCEPT, DEPTH, EXECUTE, SHIFT, S
from mechgap.programs.library.scan_grammar import REDUCTIONS, WORDS
from mechgap.storage import check_folder

UNDEFINED = "∅"


def alta_named(name: str) -> AltaProgram:
    """The ALTA program of that name."""
    found = program(name)
    if not isinstance(found, AltaProgram):
        raise ValueError(f"{name!r} is a graph program; ALTA programs are {', '.join(program_names('alta'))}.")
    return found


def list_programs() -> None:
    """Every ALTA program, in a line each."""
    table = Table(title="ALTA programs", title_justify="left")
    for column in ("program", "does", "variables", "heads", "rules", "ends"):
        table.add_column(column)
    for name in program_names("alta"):
        p = alta_named(name)
        ends = f"{p.halt[0]} = {p.halt[1]}" if p.halt else f"after {p.layers} layers"
        table.add_row(name, p.description, str(len(p.variables)), str(len(p.heads)), str(len(p.rules)), ends)
    Console().print(table)


def print_rules(name: str) -> None:
    """A program's variables, heads and all its rules."""
    p, console = alta_named(name), Console()
    console.print(str(p).split("\n")[0], style="bold", highlight=False)
    for line in (*p.variables, *(f"head {h}" for h in p.heads), *p.rules):
        console.print(f"  {line}", markup=False, highlight=False)


def run_and_print(name: str, words: Sequence[str], names: Sequence[str] = (), html: Path | None = None) -> None:
    """Run a program on a text, or on input ids where it has no text, and print the residual stream of every layer.

    Args:
        name: of the program.
        words: a text as the program reads it, e.g. 789+456, or input ids.
        names: variables to show; by default all.
        html: also write a page about the execution here.
    """
    p, console = alta_named(name), Console()
    if html is not None:
        check_folder(html)
    ids = _ids(p, words)
    trace = p.interpret([ids])
    shown = [v for v in p.readable.values() if not names or v.name in names]
    unknown = [n for n in names if n not in p.readable]
    if unknown:
        raise ValueError(f"{name!r} has no variable {unknown[0]!r}; there are {', '.join(p.readable)}.")
    for position in range(len(ids)):
        console.print(stream_table(trace, position, shown))
    if name == "scan_parser":
        console.print(parse_table(trace))
    if html is not None:
        from mechgap.report.alta_page import write_page

        write_page(trace, " ".join(words), html, names)
        console.print(f"wrote {html}", highlight=False)
    trace.check()
    answer = f", {p.decode(trace.outputs[0])!r}" if p.text is not None else ""
    console.print(f"{p.output} = {trace.outputs[0]}{answer}, after {int(trace.layers[0])} layers", highlight=False)


def stream_table(trace: AltaTrace, position: int, variables: Sequence[Variable]) -> Table:
    """One position: a row per variable, a column before the first layer, and two per layer: attention, then rules."""
    table = Table(title=f"position {position}", title_justify="left")
    table.add_column("variable", style="bold")
    table.add_column("start")
    frames = [trace.streams[0]]
    for layer, (attended, after) in enumerate(zip(trace.attended, trace.streams[1:], strict=True), 1):
        table.add_column(f"{layer}: attention")
        table.add_column("rules")
        frames += [attended, after]
    for variable in variables:
        cells, last = [], None
        for frame in frames:
            cell = cell_text(variable, frame[variable.name][0, position]) if variable.name in frame else UNDEFINED
            cells.append(cell if cell == last or last is None else f"[bold cyan]{cell}[/bold cyan]")
            last = cell
        table.add_row(variable.name, *cells)
    return table


class ParseStep(NamedTuple):
    """A layer in which the parser of SCAN acts (a row of Table 4 of the paper)."""

    layer: int
    action: str
    stack: str
    tree: str
    buffer: str


def parse_steps(trace: AltaTrace) -> list[ParseStep]:
    """What the parser of SCAN does: its actions, and after each the stack, the tree so far and the buffer."""
    words = [WORDS[i] for i in trace.streams[0]["word"][0]]
    trees: list[str] = []
    steps = []
    for layer, stream in enumerate(trace.streams[1:], 1):
        action = int(trace.streams[layer - 1]["action"][0, 0])
        if int(trace.streams[layer - 1]["phase"][0, 0]) != EXECUTE or action == ACCEPT:
            continue
        at = int(np.argmax(stream["at_next"][0]))
        if action == SHIFT:
            trees.append(words[at - 1])
        else:
            taken = len(REDUCTIONS[action - 1].split())
            trees[-taken:] = [f"({' '.join(trees[-taken:])})"]
        stack = [int(stream[f"top_{i}"][0, 0]) for i in range(DEPTH)]
        shown = " ".join("S" if x == S else WORDS[x - 1] for x in reversed(stack) if x)
        said = "shift" if action == SHIFT else f"reduce {REDUCTIONS[action - 1]}"
        left = " ".join(words[at : int(trace.lengths[0]) - 1])
        steps.append(ParseStep(layer, said, shown, " ".join(trees), left))
    return steps


def parse_table(trace: AltaTrace) -> Table:
    """The steps of the parser of SCAN, a row each."""
    table = Table(title="shift-reduce parse", title_justify="left")
    for column in ParseStep._fields:
        table.add_column(column)
    for step in parse_steps(trace):
        table.add_row(*map(str, step))
    return table


def compile_and_save(name: str, out: Path | None) -> None:
    """Compile a program, print its certificate, and write its weights."""
    from mechgap.compiler import compile as compile_program
    from mechgap.compiler.alta_files import save_transformer

    if out is not None:
        check_folder(out)
    compiled = compile_program(alta_named(name))
    Console().print(str(compiled.certificate), markup=False, highlight=False)
    if compiled.certificate is not None and not compiled.certificate.ok:
        raise ValueError(f"{name} does not compute what it should, see above; nothing is written.")
    if out is not None:
        save_transformer(out, compiled)
        Console().print(f"wrote {out}", highlight=False)


def _ids(p: AltaProgram, words: Sequence[str]) -> list[int]:
    text = " ".join(words)
    if p.text is None:
        return [int(word) for word in words]
    return p.encode(text)


def cell_text(variable: Variable, value: Any) -> str:
    """A value of the residual stream in a few letters."""
    if members_of(variable, np.asarray(value)).item() < 0:
        return UNDEFINED
    if isinstance(variable, SetOf):
        return "{" + ", ".join(map(str, sorted(variable.sets[int(value)]))) + "}"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
