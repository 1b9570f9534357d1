"""Against the real package, live: it answers in its own environment (`make oracle`), as a subprocess.

dm-clrs never shares a process with these tests: its TensorFlow warns, and its pins are not ours.
"""

import filecmp
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mechgap as mg
from mechgap.trace import Stage, Trace

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "tests" / "oracle"
PYTHON = ROOT / ".oracle" / "bin" / "python"
ALGORITHMS = ("bfs", "dfs", "bellman_ford", "dijkstra", "mst_prim", "minimum", "insertion_sort")
WEIGHTED = ("bellman_ford", "dijkstra", "mst_prim")
BATCHES = {4: 128, 7: 256, 16: 128, 64: 16}  # nodes -> how many graphs: 528 of them
SEED = 9090

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="no oracle environment; `make oracle` installs dm-clrs into it"),
]


def ask(script: str, *arguments: str | Path) -> str:
    """Run a script of tests/oracle in the oracle's environment."""
    command = [str(PYTHON), str(SCRIPTS / script), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def under(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays named prefix/..., by the rest of their names."""
    return {k.removeprefix(f"{prefix}/"): x for k, x in arrays.items() if k.startswith(f"{prefix}/")}


def flat(trace: Trace) -> dict[str, np.ndarray]:
    arrays = {f"{v.stage}/{v.name}": trace.values(stage)[v.name] for stage in Stage for v in trace.spec.at(stage)}
    return {**arrays, "lengths": trace.lengths}


def differences(ours: Trace, theirs: dict[str, np.ndarray]) -> dict[str, str]:
    """By array: what differs, empty where the two are the same."""
    arrays = flat(ours)
    assert list(arrays) == list(theirs)
    return {name: said for name, x in arrays.items() if (said := difference(x, theirs[name]))}


def difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return f"{ours.dtype}{ours.shape} here, {theirs.dtype}{theirs.shape} there"
    different = int(np.sum(ours != theirs))
    return f"{different} of {ours.size} values" if different else ""


def questions(name: str) -> Iterator[dict[str, np.ndarray]]:
    """Batches of inputs that no sampler of the benchmark draws: directed, every density, real-valued."""
    rng = np.random.RandomState(SEED + ALGORITHMS.index(name))
    for n, count in BATCHES.items():
        if name in ("minimum", "insertion_sort"):
            # Rounded keys tie often.
            yield {"key": np.round(rng.normal(size=(count, n)), rng.randint(1, 3))}
            continue
        edges = rng.uniform(size=(count, n, n)) < rng.uniform(size=(count, 1, 1))
        A = edges * rng.uniform(size=edges.shape) if name in WEIGHTED or n == 7 else edges.astype(int)
        yield {"A": A} if name == "dfs" else {"A": A, "s": np.eye(n)[rng.randint(n, size=count)]}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_random_inputs_are_traced_as_the_reference_does(name: str, tmp_path: Path) -> None:
    asked = list(questions(name))
    assert sum(len(next(iter(inputs.values()))) for inputs in asked) >= 500
    np.savez(tmp_path / "question.npz", **{f"{i}/{k}": x for i, inputs in enumerate(asked) for k, x in inputs.items()})
    ask("answer.py", "trace", name, tmp_path / "question.npz", tmp_path / "answer.npz")
    answers = dict(np.load(tmp_path / "answer.npz"))
    for i, inputs in enumerate(asked):
        assert differences(mg.algorithm(name).trace(**inputs), under(str(i), answers)) == {}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_splits_are_the_benchmarks(name: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer.npz"
    ask("answer.py", "splits", name, answer)
    answers = dict(np.load(answer))
    answer.unlink()  # the splits of one algorithm are up to a hundred megabytes
    for part in ("train", "val", "test"):
        assert differences(mg.algorithm(name).split(part), under(part, answers)) == {}


def test_feedback_and_trace_turn_into_each_other_without_loss() -> None:
    assert "our specs" in ask("round_trip.py")


def test_golden_files_are_made_again_byte_for_byte(tmp_path: Path) -> None:
    golden = ROOT / "tests" / "golden"
    ask("make_golden.py", tmp_path)
    names = sorted(path.name for path in [*golden.glob("trace_*.npz"), golden / "samplers.json"])
    assert names == sorted(path.name for path in tmp_path.iterdir())
    same, different, unreadable = filecmp.cmpfiles(golden, tmp_path, names, shallow=False)
    assert (different, unreadable) == ([], [])
    assert len(same) == len(names)
