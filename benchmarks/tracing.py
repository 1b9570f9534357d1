"""Samples per second of our tracers and of the reference's, in one run, each on the same single processor core.

    A  tracing given inputs: `alg.trace(**inputs)` against the reference's algorithm and batching
    B  drawing the benchmark's own inputs from NumPy's RandomState and tracing them: both samplers' `next(batch)`
    C  ours alone: drawing with JAX keys and tracing in float32, one jitted function

Run `make bench`. A second is one of processor time, so that other work on the machine counts for neither side.
Compilation is excluded; each number is a median; the two sides are timed in turn, five times, so that a neighbour that
takes memory bandwidth for a while slows both. It slows us more, since most of our work is writing: for A, the fastest
repetitions of both sides are compared as well. Every algorithm has two new processes, ours and the reference's: what is
left of others in a heap makes writing slower. `--quick` is for seeing that everything runs: its numbers mean little.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

# glibc hands the pages of a freed batch back to the system, or not, by where they lie; fetching them again can cost
# more than the work. Both sides keep them, in one arena for all threads, and in large pages where the system has them:
# most of our work is writing. Only a new process reads these settings.
KEEP_PAGES = {
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "MALLOC_ARENA_MAX": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
if not KEEP_PAGES.items() <= os.environ.items():
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_PAGES})
# Before jax is imported, which sizes its thread pool by it; the reference's process inherits it.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax  # noqa: E402

import mechgap as mg  # noqa: E402
from mechgap.algorithms import benchmark_names  # noqa: E402
from mechgap.trace import Stage, Trace  # noqa: E402
from mechgap.training.manifest import made_with  # noqa: E402

ROOT = Path(__file__).parents[1]
ORACLE = ROOT / ".oracle" / "bin" / "python"
ALGORITHMS = benchmark_names()
SIZES = (16, 64)
SEED = 0
# By nodes, the largest batch; fewer samples where their traces would not suit the caches. (A trace on 64 nodes is from
# a few kilobytes to tens of megabytes.) The reference goes through samples one by one, whatever the batch.
BATCHES = {16: 256, 64: 32}
BYTES_OF_BATCH = 25e6
PATIENCE = 2.0  # seconds of processor time after which a job is not repeated again


class Effort(NamedTuple):
    """How often to do what is timed."""

    rounds: int = 5
    repeats: int = 40
    repeats_of_reference: int = 3


class Rates(NamedTuple):
    """Samples per second."""

    algorithm: str
    nodes: int
    batch: int
    frames: int
    trace: float
    reference_trace: float
    draw: float
    reference_draw: float
    device: float
    trace_fastest: float
    reference_trace_fastest: float


class Reference:
    """The oracle process, asked one question at a time."""

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats
        script = ROOT / "benchmarks" / "oracle_tracing.py"
        self._process = subprocess.Popen(
            [ORACLE, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.package = self._answer()

    def seconds(self, **question: Any) -> list[float]:
        """How long one job takes, repeated; see oracle_tracing.py for the jobs."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**question, "repeats": self._repeats, "patience": PATIENCE}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"The oracle ended with status {self._process.wait()}. Run `make oracle` and try again.")
        return json.loads(line)


def seconds(work: Callable[[], object], repeats: int) -> list[float]:
    """How long it takes, repeated, after a warm-up that compiles. (Traces in NumPy arrays are there when they come.)"""
    for _ in range(min(3, repeats)):
        work()
    found: list[float] = []
    while len(found) < repeats and sum(found) < PATIENCE:
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return found


def measure(reference: Reference, name: str, nodes: int, folder: Path, effort: Effort) -> Rates:
    """One row: ours and the reference's, on the same inputs and from the same distribution."""
    algorithm = mg.algorithm(name)
    sampler = algorithm.benchmark_sampler(SEED, nodes, -1, track_max_steps=False)
    batch = batch_size(sampler.next(8), nodes)
    drawn = sampler.next(batch)
    inputs = {k: x for k, x in drawn.inputs.items() if k not in ("pos", "adj")}
    np.savez(folder / "inputs.npz", **inputs)
    oracle, draw_and_trace = partial(reference.seconds, algorithm=name), on_device(algorithm, nodes, batch, drawn.steps)
    ours = partial(seconds, repeats=effort.repeats)
    jobs = {
        "trace": lambda: ours(lambda: algorithm.trace(**inputs)),
        "reference_trace": lambda: oracle(mode="trace", inputs=str(folder / "inputs.npz")),
        "draw": lambda: ours(lambda: sampler.next(batch)),
        "reference_draw": lambda: oracle(mode="draw", nodes=nodes, samples=batch, seed=SEED),
        "device": lambda: ours(draw_and_trace),
    }
    taken: dict[str, list[float]] = {job: [] for job in jobs}
    for _ in range(effort.rounds):
        for job, work in jobs.items():
            taken[job] += work()
    rates = {job: batch / statistics.median(found) for job, found in taken.items()}
    fastest = {f"{job}_fastest": batch / min(taken[job]) for job in ("trace", "reference_trace")}
    return Rates(name, nodes, batch, drawn.steps, **rates, **fastest)


def batch_size(some: Trace, nodes: int) -> int:
    """The largest power of two, up to the size's own, whose traces suit the caches."""
    bytes_each = sum(x.nbytes for x in some.hints.values()) / len(some.lengths)
    batch = BATCHES[nodes]
    while batch > 1 and batch * bytes_each > BYTES_OF_BATCH:
        batch //= 2
    return batch


def on_device(algorithm: Any, nodes: int, batch: int, usual: int) -> Callable[[], tuple]:
    """Draws and traces; nothing leaves the device.

    Where executions are usually far shorter than the longest, there is room for a quarter more frames than usual.
    """
    steps = min(algorithm.max_steps(nodes), -(-5 * usual // 4)) if algorithm.counts_first else None

    @jax.jit
    def draw_and_trace(key: jax.Array) -> tuple:
        drawn, following = jax.random.split(key)
        trace = algorithm.device_trace(algorithm.sample(drawn, nodes, batch), steps)
        return [trace.values(stage) for stage in Stage], trace.lengths, following

    state = {"key": jax.random.key(SEED)}

    def work() -> tuple:
        values, lengths, state["key"] = jax.block_until_ready(draw_and_trace(state["key"]))
        return values, lengths

    return work


def table(rows: list[Rates], package: str) -> Table:
    """The measured rates with their ratios."""
    heading = f"samples per CPU second: mechgap {mg.__version__} (jax {jax.__version__}) and {package}"
    result = Table("algorithm", "n", "batch", title=heading)
    columns = (
        "A ours",
        "A reference",
        "A ratio",
        "A fastest",
        "B ours",
        "B reference",
        "B ratio",
        "C ours",
        "C / B reference",
    )
    for column in columns:
        result.add_column(column, justify="right")
    for row in rows:
        a, b, c = row.trace / row.reference_trace, row.draw / row.reference_draw, row.device / row.reference_draw
        fastest = row.trace_fastest / row.reference_trace_fastest
        numbers = (row.trace, row.reference_trace, a, fastest, row.draw, row.reference_draw, b, row.device, c)
        ratios = (2, 3, 6, 8)
        result.add_row(
            row.algorithm,
            str(row.nodes),
            str(row.batch),
            *(f"{x:,.0f}{'x' if i in ratios else ''}" for i, x in enumerate(numbers)),
        )
    return result


def main() -> None:
    """Measure every algorithm and size, print the table, and write the rows as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--algorithms", nargs="+", default=ALGORITHMS, choices=ALGORITHMS)
    parser.add_argument("--quick", action="store_true", help="time everything once, to see that it runs")
    options = parser.parse_args()
    effort = Effort(1, 1, 1) if options.quick else Effort()
    if not ORACLE.exists():
        parser.error(f"the reference is not installed: {ORACLE.relative_to(ROOT)} is missing. Run `make oracle` first.")
    console = Console(width=None if Console().is_terminal else 140)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    found: list[dict[str, Any]] = []
    with Progress(*columns, console=console) as progress, tempfile.TemporaryDirectory() as folder:
        task = progress.add_task("starting", total=len(options.algorithms))
        for name in options.algorithms:
            progress.update(task, description=name)
            if len(options.algorithms) == 1:
                found.append(measure_all_sizes(name, Path(folder), effort))
            else:
                found.append(in_new_process(name, options.quick))
            progress.advance(task)
    rows = [Rates(**row) for part in found for row in part["rows"]]
    console.print(table(rows, found[0]["made"]["reference"]))
    if options.json:
        made = {**found[0]["made"], "date": f"{date.today()}"}
        options.json.write_text(json.dumps({"made": made, "rows": [row._asdict() for row in rows]}, indent=1) + "\n")


def measure_all_sizes(name: str, folder: Path, effort: Effort) -> dict[str, Any]:
    """The rows of one algorithm, and what they were made with."""
    reference = Reference(effort.repeats_of_reference)
    rows = [measure(reference, name, nodes, folder, effort)._asdict() for nodes in SIZES]
    reference.close()
    return {"made": {**made_with(), "reference": reference.package, "processor": processor()}, "rows": rows}


def in_new_process(name: str, quick: bool) -> dict[str, Any]:
    """`measure_all_sizes`, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        command = [sys.executable, __file__, "--algorithms", name, "--json", path, *(["--quick"] if quick else [])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(path.read_text())


def processor() -> str:
    """What the system calls it."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
