"""The algorithms on a depth-first search, against digests of what the real package returns, and against networkx.

tests/oracle/make_depth_first_golden.py writes the digests.
"""

import hashlib
import json
import sys
from pathlib import Path

import jax
import networkx as nx
import numpy as np
import pytest
from scipy import stats

import mechgap as mg
from graphs import as_networkx
from mechgap.algorithms import TRAIN_P
from mechgap.trace import Stage, Trace

sys.path.append(str(Path(__file__).with_name("oracle")))
import depth_first_cases as questions

DIGESTS = json.loads((Path(__file__).with_name("golden") / "depth_first.json").read_text())


def digest(trace: Trace) -> dict[str, str]:
    """As make_depth_first_golden.py writes it."""
    arrays = {f"{v.stage}/{v.name}": trace.values(stage)[v.name] for stage in Stage for v in trace.spec.at(stage)}
    return {name: one_digest(np.asarray(x)) for name, x in {**arrays, "lengths": trace.lengths}.items()}


def one_digest(x: np.ndarray) -> str:
    return f"{x.dtype} {list(x.shape)} {hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}"


def assert_same(trace: Trace, golden: dict[str, str]) -> None:
    ours = digest(trace)
    assert list(ours) == list(golden), "the order of the variables"
    assert {k for k in golden if ours[k] != golden[k]} == set()


@pytest.mark.parametrize("n", [n if n < 64 else pytest.param(n, marks=pytest.mark.slow) for n in questions.SIZES])
@pytest.mark.parametrize("name", questions.ALGORITHMS)
def test_given_graphs_are_traced_as_the_reference_does(name: str, n: int) -> None:
    assert_same(mg.algorithm(name).trace(**questions.batch(name, n)), DIGESTS[name][f"given {n}"])


@pytest.mark.parametrize(
    "part", [pytest.param("train", marks=pytest.mark.slow), "val", pytest.param("test", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", questions.ALGORITHMS)
def test_splits_are_the_benchmarks(name: str, part: str) -> None:
    assert_same(mg.algorithm(name).split(part), DIGESTS[name][part])


@pytest.mark.parametrize("name", questions.ALGORITHMS)
def test_samplers_draw_what_the_references_draw(name: str) -> None:
    algorithm = mg.algorithm(name)
    endless = algorithm.benchmark_sampler(questions.SEED, 11, -1, p=TRAIN_P)
    assert_same(endless.next(32), DIGESTS[name]["endless, first"])
    assert_same(endless.next(32), DIGESTS[name]["endless, second"])
    prepared = algorithm.benchmark_sampler(questions.SEED, 11, 32, p=TRAIN_P)
    assert_same(prepared.next(16), DIGESTS[name]["prepared, 16"])
    assert_same(prepared.next(5), DIGESTS[name]["prepared, 5"])


def drawn(name: str, n: int = 7, count: int = 64) -> Trace:
    return mg.algorithm(name).benchmark_sampler(5, n, count).next()


def test_the_order_puts_every_edge_forward() -> None:
    trace = drawn("topological_sort")
    for A, topo, head in zip(*(trace.inputs["A"], trace.outputs["topo"], trace.outputs["topo_head"]), strict=True):
        order = [int(head.argmax())]
        while topo[order[-1]] != order[-1]:
            order.append(int(topo[order[-1]]))
        assert sorted(order) == list(range(7))
        assert not np.tril(A[np.ix_(order, order)]).any()


def test_cut_nodes_and_bridges_agree_with_networkx() -> None:
    inputs = {"A": drawn("bridges", count=256).inputs["A"]}
    is_cut = mg.algorithm("articulation_points").trace(**inputs).outputs["is_cut"]
    is_bridge = mg.algorithm("bridges").trace(**inputs).outputs["is_bridge"]
    for A, cut, bridge in zip(inputs["A"], is_cut, is_bridge, strict=True):
        graph = as_networkx(A * (1 - np.eye(7))).to_undirected()
        assert set(np.flatnonzero(cut)) == set(nx.articulation_points(graph))
        found = {frozenset(map(int, pair)) for pair in np.argwhere(bridge == 1)}
        assert found == {frozenset(edge) for edge in nx.bridges(graph)}


def test_components_agree_with_networkx() -> None:
    trace = drawn("strongly_connected_components")
    for A, component in zip(trace.inputs["A"], trace.outputs["scc_id"], strict=True):
        found = {frozenset(np.flatnonzero(component == c).tolist()) for c in set(component)}
        assert found == {frozenset(c) for c in nx.strongly_connected_components(as_networkx(A))}


def test_distances_agree_with_networkx() -> None:
    trace = drawn("dag_shortest_paths")
    for sample, (A, s) in enumerate(zip(trace.inputs["A"], trace.inputs["s"], strict=True)):
        distance = nx.single_source_dijkstra_path_length(as_networkx(A), int(s.argmax()))
        last = int(trace.lengths[sample]) - 1
        np.testing.assert_allclose(trace.hints["d"][last, sample], [distance.get(v, 0.0) for v in range(7)])
        assert last == 3 * len(distance)


@pytest.mark.parametrize("name", questions.ALGORITHMS)
def test_no_execution_is_longer_than_the_longest(name: str) -> None:
    algorithm = mg.algorithm(name)
    for n in (1, 2, 5):
        lengths = algorithm.trace(**questions.batch(name, n)).lengths
        assert lengths.max() <= algorithm.max_steps(n)


@pytest.mark.parametrize("steps", [9, pytest.param(17, marks=pytest.mark.slow)])  # in the first phase, in the second
@pytest.mark.parametrize("name", questions.ALGORITHMS)
def test_a_cut_execution_is_the_beginning_of_the_whole(name: str, steps: int) -> None:
    trace = jax.jit(mg.algorithm(name).device_trace, static_argnums=1)
    inputs = questions.batch(name, 5)
    whole, cut = trace(inputs, 30), trace(inputs, steps)
    np.testing.assert_array_equal(cut.lengths, np.minimum(whole.lengths, steps))
    for hint in whole.hints:
        np.testing.assert_array_equal(cut.hints[hint], whole.hints[hint][:steps], hint)
    last = np.asarray(cut.lengths).astype(int) - 1
    for output in cut.outputs:  # as far as the execution came
        shown = np.asarray(cut.hints[f"{output}_h"])[last, np.arange(len(last))]
        np.testing.assert_array_equal(cut.outputs[output], shown)


@pytest.mark.parametrize("name", questions.ALGORITHMS)
def test_the_two_ways_to_draw_follow_one_distribution(name: str) -> None:
    algorithm, count, n = mg.algorithm(name), 1024, 9
    host = algorithm.benchmark_sampler(11, n, count).next().inputs["A"] != 0
    device = np.asarray(algorithm.sample(jax.random.key(11), n, count)["A"]) != 0
    for statistic in (
        lambda A: A.sum((1, 2)),
        lambda A: (A & A.mT).sum((1, 2)),
        lambda A: np.trace(A, axis1=1, axis2=2),
        lambda A: A[:, 0].sum(-1),
        lambda A: (A.astype(int) @ A).sum((1, 2)),
    ):
        assert stats.ks_2samp(statistic(host), statistic(device)).pvalue > 1e-4


def test_too_few_nodes_for_the_communities_are_refused() -> None:
    algorithm = mg.algorithm("strongly_connected_components")
    for draw in (lambda: algorithm.benchmark_sampler(1, 3, 2), lambda: algorithm.sample(jax.random.key(0), 3, 2)):
        with pytest.raises(ValueError, match=r"4 communities need at least 4 nodes; got n = 3"):
            draw()
