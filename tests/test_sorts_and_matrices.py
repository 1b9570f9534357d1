"""Bubble sort, heapsort, quicksort, Kruskal and Floyd-Warshall against the real package, and what must hold of them.

tests/oracle/make_sorts_and_matrices_golden.py writes the files.
"""

import hashlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mechgap as mg
from mechgap.algorithms import TRAIN_P
from mechgap.trace import Stage, Trace

GOLDEN = Path(__file__).with_name("golden")
DIGESTS = json.loads((GOLDEN / "sorts_and_matrices.json").read_text())
SEED = DIGESTS["header"]["seed"]
SORTS, ON_GRAPHS = ("bubble_sort", "heapsort", "quicksort"), ("mst_kruskal", "floyd_warshall")
HALF_P = {"mst_kruskal": tuple(p / 2 for p in TRAIN_P)}  # as the reference training script halves it


def _cases():
    """tests/oracle/cases.py: the inputs made by hand."""
    spec = importlib.util.spec_from_file_location("cases", Path(__file__).with_name("oracle") / "cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = _cases()


def flat(trace: Trace) -> dict[str, np.ndarray]:
    """The arrays of a trace, named and ordered as in the golden files."""
    arrays = {f"{v.stage}/{v.name}": trace.values(stage)[v.name] for stage in Stage for v in trace.spec.at(stage)}
    return {**arrays, "lengths": trace.lengths}


def digest(trace: Trace) -> dict[str, str]:
    return {
        name: f"{x.dtype} {list(x.shape)} {hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}"
        for name, x in flat(trace).items()
    }


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("sorts_and_matrices_*.npz")), ids=lambda path: path.stem)
def test_traces_are_the_references(path: Path) -> None:
    golden = dict(np.load(path))
    header = json.loads(str(golden.pop("header")))
    given = {name: golden[f"input/{name}"] for name in ("A", "key") if f"input/{name}" in golden}
    ours = flat(mg.algorithm(header["algorithm"]).trace(**given))
    assert list(ours) == list(golden)
    assert {k: (x.dtype, x.shape) for k, x in ours.items()} == {k: (x.dtype, x.shape) for k, x in golden.items()}
    different = {name: int(np.sum(ours[name] != golden[name])) for name in golden}
    assert different == dict.fromkeys(golden, 0)


def handmade(name: str, n: int) -> dict[str, np.ndarray]:
    """As the golden script makes them."""
    rng = np.random.RandomState(SEED + n)
    if name in SORTS:
        return {"key": np.stack(list(CASES.keys(n, rng)))}
    graphs = list(CASES.graphs(n, rng, weighted=True))
    if name != "mst_kruskal":  # its order of many equal edges is not defined
        graphs += CASES.tied_weights(n, rng)
    return {"A": np.stack([*graphs, *CASES.huge_weights(n, rng)])}


def scenarios(name: str) -> Iterator[tuple[str, Trace]]:
    algorithm = mg.algorithm(name)
    for n in (16,) if name == "mst_kruskal" else (16, 64):
        yield f"handmade {n}", algorithm.trace(**handmade(name, n))
    for part in ("train", "val", "test"):
        yield part, algorithm.split(part)
    p = HALF_P.get(name, TRAIN_P) if name in ON_GRAPHS else None
    endless = algorithm.benchmark_sampler(SEED, 16, -1, p=p)
    yield "endless, first", endless.next(32)
    yield "endless, second", endless.next(32)


@pytest.mark.parametrize("name", [*SORTS, *ON_GRAPHS])
def test_large_traces_and_samplers_are_the_references(name: str) -> None:
    seen = []
    for scenario, trace in scenarios(name):
        assert digest(trace) == DIGESTS[name][scenario], scenario
        seen.append(scenario)
    assert seen == list(DIGESTS[name])


@pytest.mark.parametrize("name", SORTS)
def test_the_order_is_sorted(name: str) -> None:
    trace = mg.algorithm(name).benchmark_sampler(6, 13, 8).next()
    for key, pred in zip(trace.inputs["key"], trace.outputs["pred"], strict=True):
        order = np.argsort(key)
        assert pred[order[0]] == order[0]
        np.testing.assert_array_equal(pred[order[1:]], order[:-1])


def test_floyd_warshall_finds_the_shortest_distances() -> None:
    """The distances of the last frame, through its last node too, satisfy the triangle inequality with equality."""
    trace = mg.algorithm("floyd_warshall").benchmark_sampler(6, 13, 8).next()
    edges = np.where(trace.inputs["A"] > 0, trace.inputs["A"], np.inf)
    best = np.minimum(edges, np.where(np.eye(13) > 0, edges, np.inf))
    for k in range(13):
        best = np.minimum(best, best[:, :, k, None] + best[:, None, k])
    D, reached = trace.hints["D"][-1], trace.hints["msk"][-1] > 0
    through_last = np.where(reached, D, np.inf)
    through_last = np.minimum(through_last, through_last[:, :, 12, None] + through_last[:, None, 12])
    pairs = ~np.eye(13, dtype=bool)
    np.testing.assert_allclose(through_last[:, pairs], best[:, pairs])


def test_kruskal_and_prim_find_the_same_tree() -> None:
    """Weights are different, so a connected graph has one minimum spanning tree."""
    A = mg.algorithm("mst_prim").benchmark_sampler(6, 13, 8, p=1.0).next().inputs["A"]
    pi = mg.algorithm("mst_prim").trace(A=A, s=np.eye(13)[np.zeros(8, int)]).outputs["pi"]
    tree = np.zeros_like(A)
    rows, nodes = np.nonzero(pi != np.arange(13))
    tree[rows, nodes, pi[rows, nodes]] = tree[rows, pi[rows, nodes], nodes] = 1
    np.testing.assert_array_equal(mg.algorithm("mst_kruskal").trace(A=A).outputs["in_mst"], tree)


@pytest.mark.parametrize("name", ["bubble_sort", "heapsort", "quicksort"])
def test_no_array_has_more_frames_than_there_is_room_for(name: str) -> None:
    algorithm = mg.algorithm(name)
    rng = np.random.RandomState(2)
    for n in (1, 2, 3, 8):
        key = np.stack([np.arange(n), np.arange(n)[::-1], *rng.uniform(size=(200, n))])
        room = algorithm.max_steps(n)
        assert algorithm.device_trace({"key": key}, room + 3).lengths.max() <= room


def test_one_element_is_sorted_by_quicksort_in_one_frame() -> None:
    """The benchmark has no trace of it."""
    trace = mg.algorithm("quicksort").trace(key=np.array([[0.5]]))
    assert trace.steps == 1
    np.testing.assert_array_equal(trace.outputs["pred"], [[0]])


def test_room_for_frames_is_made_as_needed() -> None:
    """Where executions differ much in length, a batch's frames are counted first; the longest are then not cut."""
    rng = np.random.RandomState(3)
    keys = np.stack([np.arange(16), *rng.uniform(size=(7, 16))])
    together = mg.algorithm("quicksort").trace(key=keys)
    assert together.steps == together.lengths.max() == 16 * 17 // 2 - 1
    apart = mg.algorithm("quicksort").trace(key=keys[1:])
    assert apart.steps < together.steps
    assert together.take(slice(1, None)).differences(apart) == {}
