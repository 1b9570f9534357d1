"""The demo: every stage that exists, on two algorithms, with a page to look at."""

from pathlib import Path

from rich.console import Console
from rich.progress import track

from mechgap.compiler import compile as compile_program
from mechgap.compiler.to_gatv2 import Compiled
from mechgap.report.drawing import draw_trace
from mechgap.report.page import Section, write_page
from mechgap.report.parameters import draw_attention, draw_parameters
from mechgap.report.tables import cell, print_trace
from mechgap.report.walkthrough import sample_trace
from mechgap.storage import check_folder
from mechgap.trace import Kind, Stage, Trace

ALGORITHMS = {
    "bfs": "Breadth-first search. Yellow nodes are reached; a red arrow points from a node to its parent.",
    "bellman_ford": "Bellman-Ford. The number beside a node is its distance so far; a red arrow points to its parent.",
}


def run_demo(out: Path, n: int = 8, seed: int = 0) -> None:
    """Trace the demo's algorithms, compile and certify them, and write the page."""
    check_folder(out)
    console = Console()
    sections: list[Section] = []
    for name in track(ALGORITHMS, description="tracing and compiling", console=console):
        trace = sample_trace(name, n=n, seed=seed)
        compiled = compile_program(name, hidden=None)
        print_trace(name, trace)
        console.print(str(compiled.certificate), markup=False, highlight=False)
        sections += [_traced(name, trace, seed), *_compiled(name, compiled, trace)]
    write_page(out, "mechgap demo", sections)
    console.print(f"[bold]wrote {out}[/bold]: open it in a browser")


def _traced(name: str, trace: Trace, seed: int) -> Section:
    hints = trace.spec.at(Stage.HINT)
    rows = tuple((str(t), *(cell(v, trace.hints[v.name][t, 0]) for v in hints)) for t in range(int(trace.lengths[0])))
    return Section(
        heading=f"{name}, n = {trace.nodes}, seed {seed}",
        text=ALGORITHMS[name],
        header=("step", *(v.name for v in hints)),
        rows=rows,
        figure=draw_trace(trace),
    )


def _compiled(name: str, compiled: Compiled, trace: Trace) -> tuple[Section, Section]:
    ran = compiled.run(**trace.inputs)
    scalars = {f"{v.stage}/{v.name}" for v in trace.spec if v.kind == Kind.SCALAR}
    wrong = sum(count for place, count in ran.differences(trace).items() if place not in scalars)
    certificate = Section(
        heading=f"{name}, compiled into {compiled.network.config.hidden} channels: the weights and their certificate",
        text="The weights are written, not trained. What was checked, and the domain for which it holds:",
        rows=tuple(tuple(line.strip().split(maxsplit=1)) for line in str(compiled.certificate).splitlines()[1:]),
        figure=draw_parameters(compiled),
    )
    attention = Section(
        heading=f"{name}, what the compiled network attends to",
        text=f"Row i is whom node i listens to in that step. {wrong} of its hints and outputs differ from the trace.",
        figure=draw_attention(ran),
    )
    return certificate, attention
