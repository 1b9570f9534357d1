"""The algorithms on a depth-first search: networkx as an independent judge, and executions that are cut."""

from functools import cache

import jax
import networkx as nx
import numpy as np
import pytest

import mechgap as mg
from golden_files import golden_traces
from graphs import as_networkx
from mechgap.trace import Trace

ALGORITHMS = (
    "topological_sort",
    "articulation_points",
    "bridges",
    "strongly_connected_components",
    "dag_shortest_paths",
)


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
    trace = drawn("bridges", count=256)
    is_cut = mg.algorithm("articulation_points").trace(A=trace.inputs["A"]).outputs["is_cut"]
    for A, cut, bridge in zip(trace.inputs["A"], is_cut, trace.outputs["is_bridge"], strict=True):
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


@cache
def on_device(name: str, steps: int) -> Trace:
    """Of the drawn and handmade graphs of five nodes, as far as that many frames go."""
    return jax.jit(mg.algorithm(name).device_trace, static_argnums=1)(golden_traces(name, 5).inputs, steps)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [9, 17])  # in the first phase, in the second
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_cut_execution_is_the_beginning_of_the_whole(name: str, steps: int) -> None:
    whole, cut = on_device(name, 30), on_device(name, steps)
    np.testing.assert_array_equal(cut.lengths, np.minimum(whole.lengths, steps))
    for hint in whole.hints:
        np.testing.assert_array_equal(cut.hints[hint], whole.hints[hint][:steps], hint)
    last = np.asarray(cut.lengths).astype(int) - 1
    for output in cut.outputs:  # as far as the execution came
        shown = np.asarray(cut.hints[f"{output}_h"])[last, np.arange(len(last))]
        np.testing.assert_array_equal(cut.outputs[output], shown)


def test_too_few_nodes_for_the_communities_are_refused() -> None:
    algorithm = mg.algorithm("strongly_connected_components")
    for draw in (lambda: algorithm.benchmark_sampler(1, 3, 2), lambda: algorithm.sample(jax.random.key(0), 3, 2)):
        with pytest.raises(ValueError, match=r"4 communities need at least 4 nodes; got n = 3"):
            draw()
