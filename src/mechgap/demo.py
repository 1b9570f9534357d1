"""The demo: every stage on the simplest algorithms, with a page to look at."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from mechgap.compiler import compile as compile_program
from mechgap.report.gap_study import measure_and_report
from mechgap.report.tables import print_trace
from mechgap.report.walkthrough import sample_trace
from mechgap.storage import check_folder
from mechgap.trace import Kind

ALGORITHMS = ("bfs", "bellman_ford")


def run_demo(out: Path, folder: Path, changes: Mapping[str, Any] | None = None) -> None:
    """Trace, compile and certify the demo's algorithms, then train and measure the first, and write the page.

    Args:
        out: the page.
        folder: for the results.
        changes: settings of the training that replace those of the preset `small`.
    """
    check_folder(out)
    console = Console()
    for name in ALGORITHMS:
        trace = sample_trace(name, n=8, seed=0)
        print_trace(name, trace)
        compiled = compile_program(name, hidden=None)
        differences = compiled.run(**trace.inputs).differences(trace)
        console.print(str(compiled.certificate), markup=False, highlight=False)
        rounded = {f"{v.stage}/{v.name}" for v in trace.spec if v.kind == Kind.SCALAR}  # equal but for the last bits
        wrong = sum(count for place, count in differences.items() if place not in rounded)
        console.print(f"{wrong} of the compiled network's hints and outputs differ from the trace\n", highlight=False)
    measure_and_report(ALGORITHMS[0], out, folder, "small", changes)
