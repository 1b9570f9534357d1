"""Steps per second of our training loop and of the reference's, in one run on the same processor.

One seed, breadth-first search, the five lengths 4, 7, 11, 13, 16 in turn, batch 32, hidden size 128, the paper's
settings; drawing and tracing fresh samples is part of every step. The two sides take turns, a few cycles each, so that
other work on the machine meets both. The median over the turns is reported, by the wall clock and in processor seconds.
"""

import argparse
import json
import resource
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

import mechgap
from mechgap.training import TrainConfig
from mechgap.training.data import frames_for, run_once
from mechgap.training.ensemble import initial_state, plan_of
from mechgap.training.members import make_members
from mechgap.training.programs import make_mesh, spread, step_programs

ROOT = Path(__file__).parents[1]
ORACLE = ROOT / ".oracle" / "bin" / "python"
CONFIG = TrainConfig(algorithm="bfs", seeds=1)


class Reference:
    """The oracle process, asked for some cycles at a time."""

    def __init__(self) -> None:
        script = ROOT / "benchmarks" / "oracle_training.py"
        self._process = subprocess.Popen(
            [ORACLE, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.about = self._answer()

    def run(self, cycles: int) -> dict[str, float]:
        """Train for some cycles."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"cycles": cycles}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"The oracle ended with status {self._process.wait()}. Run `make oracle` and try again.")
        return json.loads(line)


class Ours:
    """The programs that `mechgap.training.fit` runs."""

    def __init__(self) -> None:
        begun = time.perf_counter()
        plan, members = plan_of(CONFIG), make_members([CONFIG])
        mesh = make_mesh(1, jax.local_devices()[:1])
        self.members = spread(members, mesh)
        self.state = spread(run_once(lambda: initial_state(plan, members, None)), mesh)
        self.programs = step_programs(plan, CONFIG.sizes, self.state, self.members, mesh)
        self.run(1)
        self.about = {
            "package": f"mechgap {mechgap.__version__}",
            "setup_s": time.perf_counter() - begun,
            "frames": {str(n): frames_for(plan.source, n) for n in CONFIG.sizes},
        }

    def run(self, cycles: int) -> dict[str, float]:
        """Train for some cycles."""
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(cycles):
            for n in CONFIG.sizes:
                self.state, _ = self.programs[n](self.state, self.members)
        jax.block_until_ready(self.state.step)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {
            "wall": time.perf_counter() - wall,
            "processor": time.process_time() - processor,
            "peak_mib": peak,
        }


def measure(side: Ours | Reference, answers: list[dict[str, float]], cycles: int) -> dict[str, Any]:
    """One side's numbers."""
    steps = cycles * len(CONFIG.sizes)
    return {
        **side.about,
        "steps_per_s": steps / statistics.median(a["wall"] for a in answers),
        "steps_per_processor_s": steps / statistics.median(a["processor"] for a in answers),
        "peak_mib": max(a["peak_mib"] for a in answers),
    }


def main() -> None:
    """Measure both sides, print the table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--cycles", type=int, default=4, help="of five steps, per turn")
    options = parser.parse_args()
    if not ORACLE.exists():
        parser.error(f"the reference is not installed: {ORACLE.relative_to(ROOT)} is missing. Run `make oracle` first.")
    console = Console(width=None if Console().is_terminal else 140)
    with console.status("the reference compiles"):
        reference = Reference()
    with console.status("ours compiles"):
        ours = Ours()
    if set(reference.about["frames"]) != set(ours.about["frames"]):
        raise RuntimeError(f"The two sides train on other sizes: {reference.about['frames']}, {ours.about['frames']}.")
    answers: dict[str, list] = {"ours": [], "reference": []}
    with console.status("taking turns"):
        for _ in range(options.turns):
            answers["reference"].append(reference.run(options.cycles))
            answers["ours"].append(ours.run(options.cycles))
    reference.close()
    rows = [measure(ours, answers["ours"], options.cycles), measure(reference, answers["reference"], options.cycles)]
    table = Table(title="BFS, one seed, five lengths in turn, batch 32, hidden 128, samples included")
    for column in (
        "",
        "steps/s",
        "steps per processor second",
        "set-up to the end of the first cycle, s",
        "peak memory, MiB",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        numbers = (row["steps_per_s"], row["steps_per_processor_s"], row["setup_s"], row["peak_mib"])
        table.add_row(row["package"], *(f"{x:,.1f}" for x in numbers))
    names = ("steps_per_s", "steps_per_processor_s", "setup_s", "peak_mib")
    table.add_row("ratio", *(f"{rows[0][name] / rows[1][name]:.2f}x" for name in names))
    console.print(table)
    for row in rows:
        console.print(f"{row['package']}: frames by size {row['frames']}")
    console.print(f"{jax.local_devices()[0].device_kind}, jax {jax.__version__}")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "turns": answers}, indent=1) + "\n")


if __name__ == "__main__":
    main()
