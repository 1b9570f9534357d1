"""Exactness at size: one weight set, every family, up to a thousand nodes. Long, so marked slow."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

import mechgap as mg
from mechgap.algorithms.families import FAMILIES, draw_family
from mechgap.compiler.certificate import Comparison, _positions, compare
from mechgap.programs.graph_interpreter import RangeError

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def forget_compiled_programs() -> Iterator[None]:
    """Every graph here has its own number of frames, and so its own program."""
    yield
    jax.clear_caches()


LONG = ("path", "cycle", "grid", "tree")
SHORT = tuple(f for f in FAMILIES if f not in LONG)
GRAPHS = {4: 16, 16: 8, 64: 4, 256: 1, 1024: 1}


def check(compiled: mg.Compiled, family: str, n: int, weighted: bool, gap: float | None = None) -> Comparison:
    """Compare on a few graphs of a family, with random positions at least `gap` apart where one is given."""
    total = Comparison()
    for seed in range(GRAPHS[n]):
        inputs = draw_family(family, n, 1, 31 * n + seed, weighted=weighted)
        if gap is not None:
            inputs["pos"] = _positions(n, 2, gap, seed)[1:]
        try:
            meant = compiled.program.interpret(**inputs)
        except RangeError:
            continue
        total += compare(compiled, meant, compiled.run_like(meant))
    return total


@pytest.fixture(scope="module")
def bfs() -> mg.Compiled:
    return mg.compile("bfs", hidden=128, max_nodes=1024, min_gap=1e-6)


@pytest.mark.parametrize("n", [4, 16, 64, 256, 1024])
@pytest.mark.parametrize("family", FAMILIES)
def test_bfs(bfs: mg.Compiled, family: str, n: int) -> None:
    if n > 256 and family in LONG:
        pytest.skip("long diameters are checked to n = 256")
    for gap in (None, 1e-6):
        result = check(bfs, family, n, weighted=False, gap=gap)
        print(f"bfs {family} n={n} gap={gap}: {result.wrong} wrong of {result.values}")
        assert result.values > 0
        assert (result.wrong, result.near) == (0, 0), result.failures


@pytest.fixture(scope="module")
def near() -> mg.Compiled:
    return mg.compile(mg.program("bellman_ford", max_distance=8.0), hidden=128, max_nodes=1024)


@pytest.mark.parametrize("n", [4, 16, 64, 256, 1024])
@pytest.mark.parametrize("family", SHORT)
def test_bellman_ford_on_short_distances(near: mg.Compiled, family: str, n: int) -> None:
    result = check(near, family, n, weighted=True)
    print(
        f"bellman_ford {family} n={n}: {result.wrong} wrong of {result.values}, near {result.near}, {result.error:.1e}"
    )
    assert result.values > 0
    assert result.wrong == 0, result.failures
    assert result.error <= 1e-5


@pytest.mark.parametrize("n", [16, 64, 256])
@pytest.mark.parametrize("family", LONG)
def test_bellman_ford_on_long_distances(family: str, n: int) -> None:
    compiled = mg.compile(mg.program("bellman_ford", max_distance=float(n)), hidden=32, max_nodes=256, certify="none")
    result = check(compiled, family, n, weighted=True)
    print(
        f"bellman_ford D={n} {family}: {result.wrong} wrong of {result.values}, near {result.near}, {result.error:.1e}"
    )
    assert result.values > 0
    assert result.wrong == 0, result.failures
    assert result.error <= 16 * 2.0**-24 * n


@pytest.mark.parametrize("n", [4, 16, 64, 256])
@pytest.mark.parametrize("family", FAMILIES)
def test_bellman_ford_in_double_precision(family: str, n: int) -> None:
    distance = 8.0 if family in SHORT else float(max(n, 8))
    program = mg.program("bellman_ford", max_distance=distance)
    compiled = mg.compile(program, hidden=16, max_nodes=256, dtype="float64", certify="none")
    result = check(compiled, family, n, weighted=True)
    print(f"float64 {family} n={n}: {result.wrong} wrong of {result.values}, near {result.near}, {result.error:.1e}")
    assert result.values > 0
    assert (result.wrong, result.near_wrong) == (0, 0), result.failures


@pytest.mark.parametrize("n", [4, 16, 64])
@pytest.mark.parametrize("family", FAMILIES)
def test_bfs_under_a_layer_norm(family: str, n: int) -> None:
    compiled = mg.compile("bfs", hidden=128, max_nodes=64, layer_norm=True, certify="none")
    result = check(compiled, family, n, weighted=False)
    assert result.values > 0
    assert (result.wrong, result.near) == (0, 0), result.failures


@pytest.mark.parametrize("n", [4, 16, 64])
@pytest.mark.parametrize("family", ["erdos_renyi_0.1", "erdos_renyi_0.3", "erdos_renyi_0.5", "erdos_renyi_0.9"])
def test_bellman_ford_under_a_layer_norm(family: str, n: int) -> None:
    program = mg.program("bellman_ford", max_distance=4.0)
    compiled = mg.compile(program, hidden=128, max_nodes=64, layer_norm=True, certify="none")
    result = check(compiled, family, n, weighted=True)
    print(f"layer norm {family} n={n}: {result.wrong} wrong of {result.values}, near {result.near}, {result.error:.1e}")
    assert result.values > 0
    assert result.wrong == 0, result.failures
    assert result.error <= 2e-4


@pytest.mark.parametrize("name", mg.program_names("graph"))
def test_full_certificates(name: str) -> None:
    nodes = 16 if mg.program(name).full else 64  # larger ones of several micro-steps: test_circuits.py
    certificate = mg.compile(name, hidden=None, max_nodes=nodes, certify="full").certificate
    print(certificate)
    assert certificate.ok, str(certificate)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from /proc")
def test_a_batch_at_256_nodes_stays_below_two_gigabytes() -> None:
    code = """
import mechgap as mg
from pathlib import Path
from mechgap.algorithms.families import draw_family
compiled = mg.compile("bfs", hidden=128, max_nodes=256, certify="none")
compiled.run(**draw_family("erdos_renyi_0.3", 256, 8, 0, weighted=False))
print(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
"""
    # Not ru_maxrss: a child begins with its parent's, and the parent is a long run of tests.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak = int(done.stdout.split()[-2]) * 1024
    print(f"peak {peak / 2**30:.2f} GiB")
    assert peak < 2 * 10**9
