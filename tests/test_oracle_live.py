"""Against the real package, live: it answers in its own environment (`make oracle`), as a subprocess.

dm-clrs never shares a process with these tests: its TensorFlow warns, and its pins are not ours.
"""

import filecmp
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mechgap as mg
from golden_files import GOLDEN, flat
from mechgap.algorithms import benchmark_names
from mechgap.algorithms.inputs import DERIVED
from mechgap.trace import Trace

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "tests" / "oracle"
PYTHON = ROOT / ".oracle" / "bin" / "python"
SAMPLES = {4: 128, 5: 128, 11: 128, 16: 128, 64: 32}  # nodes -> how many: 544 of them
FEWER = {"matrix_chain_order": 4, "bridges": 8, "mst_kruskal": 8}  # of 64: one takes seconds, or 70 megabytes
ONE_SIZE = {"segments_intersect": {4: 512}}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="no oracle environment; `make oracle` installs dm-clrs into it"),
]


def samples_of(name: str) -> dict[int, int]:
    """Nodes -> how many random inputs of an algorithm."""
    return ONE_SIZE.get(name) or SAMPLES | {64: FEWER.get(name, SAMPLES[64])}


def ask(script: str, *arguments: str | Path) -> str:
    """Run a script of tests/oracle in the oracle's environment."""
    command = [str(PYTHON), str(SCRIPTS / script), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def under(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays named prefix/..., by the rest of their names."""
    return {k.removeprefix(f"{prefix}/"): x for k, x in arrays.items() if k.startswith(f"{prefix}/")}


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


@pytest.mark.parametrize("name", benchmark_names())
def test_random_inputs_are_traced_as_the_reference_does(name: str, tmp_path: Path) -> None:
    samples, answer = samples_of(name), tmp_path / "answer.npz"
    assert sum(samples.values()) >= 500
    ask("answer.py", "traces", name, answer, *(f"{n}:{count}" for n, count in samples.items()))
    answers = dict(np.load(answer))
    answer.unlink()  # up to a few hundred megabytes
    found = {}
    for n, count in samples.items():
        theirs = under(str(n), answers)
        assert len(theirs["lengths"]) == count
        given = {k: x for k, x in under("input", theirs).items() if k not in DERIVED}
        found[n] = differences(mg.algorithm(name).trace(**given), theirs)
    assert found == {n: {} for n in samples}


@pytest.mark.parametrize("name", benchmark_names())
def test_splits_are_the_benchmarks(name: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer.npz"
    ask("answer.py", "splits", name, answer)
    with np.load(answer) as file:  # read part by part: the splits of one algorithm are up to a few gigabytes
        for part in ("train", "val", "test"):
            theirs = {k.removeprefix(f"{part}/"): file[k] for k in file.files if k.startswith(f"{part}/")}
            assert differences(mg.algorithm(name).split(part), theirs) == {}, part
    answer.unlink()


def test_feedback_and_trace_turn_into_each_other_without_loss() -> None:
    assert "our specs" in ask("round_trip.py")


def test_golden_files_are_made_again_byte_for_byte(tmp_path: Path) -> None:
    ask("make_golden.py", tmp_path)
    names = sorted(path.name for path in [*GOLDEN.glob("trace_*.npz"), GOLDEN / "samplers.json"])
    assert names == sorted(path.name for path in tmp_path.iterdir())
    same, different, unreadable = filecmp.cmpfiles(GOLDEN, tmp_path, names, shallow=False)
    assert (different, unreadable) == ([], [])
    assert len(same) == len(names)
