"""The demo: every stage that exists, on two algorithms, with a page to look at."""

from pathlib import Path

from rich.console import Console
from rich.progress import track

from mechgap.report.drawing import draw_trace
from mechgap.report.page import Section, write_page
from mechgap.report.tables import cell, print_trace
from mechgap.report.walkthrough import sample_trace
from mechgap.trace import Stage, Trace

ALGORITHMS = {
    "bfs": "Breadth-first search. Yellow nodes are reached; a red arrow points from a node to its parent.",
    "bellman_ford": "Bellman-Ford. The number beside a node is its distance so far; a red arrow points to its parent.",
}


def run_demo(out: Path, n: int = 8, seed: int = 0) -> None:
    """Trace the demo's algorithms, print them, and write the page."""
    console = Console()
    traces = {name: sample_trace(name, n=n, seed=seed) for name in track(ALGORITHMS, description="tracing")}
    for name, trace in traces.items():
        print_trace(name, trace)
    write_page(out, "mechgap demo", [_section(name, trace, seed) for name, trace in traces.items()])
    console.print(f"[bold]wrote {out}[/bold]: open it in a browser")


def _section(name: str, trace: Trace, seed: int) -> Section:
    hints = trace.spec.at(Stage.HINT)
    rows = tuple((str(t), *(cell(v, trace.hints[v.name][t, 0]) for v in hints)) for t in range(int(trace.lengths[0])))
    return Section(
        heading=f"{name}, n = {trace.nodes}, seed {seed}",
        text=ALGORITHMS[name],
        header=("step", *(v.name for v in hints)),
        rows=rows,
        figure=draw_trace(trace),
    )
