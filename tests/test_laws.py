"""Laws of searches, paths, trees and sorts, on graphs drawn by Hypothesis, with networkx as an independent judge."""

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import mechgap as mg
from graphs import as_networkx, one_hot, weighted_graphs

SOURCED = ("bfs", "bfs_sequential", "bellman_ford", "dijkstra", "mst_prim")
KEYS = st.sampled_from((1, 4, 7)).flatmap(
    lambda n: st.lists(st.sampled_from([k / 8 for k in range(9)] + [1 / 3]), min_size=n, max_size=n)
)


def run(name: str, A: np.ndarray, s: int) -> mg.Trace:
    source = {"s": one_hot(s, len(A))} if name in SOURCED else {}
    return mg.algorithm(name).trace(A=A[None], **source)


def last_frame(trace: mg.Trace, hint: str) -> np.ndarray:
    return trace.hints[hint][int(trace.lengths[0]) - 1, 0]


@given(weighted_graphs(), st.randoms(use_true_random=False))
def test_relabelled_nodes_give_relabelled_reachability(graph: tuple[np.ndarray, int], random) -> None:
    A, s = graph
    order = list(range(len(A)))
    random.shuffle(order)  # new node i was node order[i]
    for name, hint in (("bfs", "reach_h"), ("bellman_ford", "msk"), ("dijkstra", "mark")):
        before = run(name, A, s).hints[hint][:, 0]
        after = run(name, A[np.ix_(order, order)], order.index(s)).hints[hint][:, 0]
        if name == "dijkstra":  # equal distances are taken in index order, so only the end is the same set
            before, after = before[-1:], after[-1:]
        np.testing.assert_array_equal(after, before[:, order])


@given(weighted_graphs(directed=True))
def test_reachability_and_levels_agree_with_networkx(graph: tuple[np.ndarray, int]) -> None:
    A, s = graph
    levels = nx.single_source_shortest_path_length(as_networkx(A), s)
    trace = run("bfs", A, s)
    for t in range(int(trace.lengths[0])):
        reached = set(np.flatnonzero(trace.hints["reach_h"][t, 0]))
        assert reached == {v for v, level in levels.items() if level <= t}
    assert int(trace.lengths[0]) == max(levels.values()) + 1


@given(weighted_graphs(directed=True))
def test_distances_agree_with_networkx(graph: tuple[np.ndarray, int]) -> None:
    A, s = graph
    distance = nx.single_source_dijkstra_path_length(as_networkx(A), s)
    expected = [distance.get(v, 0.0) for v in range(len(A))]
    for name in ("bellman_ford", "dijkstra"):
        trace = run(name, A, s)
        np.testing.assert_allclose(last_frame(trace, "d"), expected, atol=1e-12)
        for v, parent in enumerate(trace.outputs["pi"][0]):
            if v != parent:
                assert A[parent, v] > 0
                np.testing.assert_allclose(expected[parent] + A[parent, v], expected[v], atol=1e-12)


@given(weighted_graphs())
def test_tree_weight_agrees_with_networkx(graph: tuple[np.ndarray, int]) -> None:
    A, s = graph
    undirected = as_networkx(A).to_undirected()
    component = undirected.subgraph(nx.node_connected_component(undirected, s))
    expected = nx.minimum_spanning_tree(component).size(weight="weight")
    pi = run("mst_prim", A, s).outputs["pi"][0]
    tree = [(v, int(p)) for v, p in enumerate(pi) if v != p]
    assert len(tree) == len(component) - 1
    np.testing.assert_allclose(sum(A[p, v] for v, p in tree), expected, atol=1e-12)


def test_all_pairs_distances_agree_with_networkx() -> None:
    """Each frame is the state before one more round, so the last round is done here."""
    n = 7
    trace = mg.algorithm("floyd_warshall").benchmark_sampler(6, n, 8).next()
    known = np.where(trace.hints["msk"][-1] > 0, trace.hints["D"][-1], np.inf)
    known = np.minimum(known, known[:, :, -1, None] + known[:, None, -1])
    for A, found in zip(trace.inputs["A"], known, strict=True):
        for s, distance in nx.all_pairs_dijkstra_path_length(as_networkx(A)):
            expected = [distance.get(v, np.inf) for v in range(n) if v != s]
            np.testing.assert_allclose(np.delete(found[s], s), expected)


def test_kruskal_and_prim_find_the_same_tree() -> None:
    """Weights are different, so a connected graph has one minimum spanning tree."""
    n = 7
    A = mg.algorithm("mst_prim").benchmark_sampler(6, n, 8, p=1.0).next().inputs["A"]
    pi = mg.algorithm("mst_prim").trace(A=A, s=np.eye(n)[np.zeros(8, int)]).outputs["pi"]
    tree = np.zeros_like(A)
    rows, nodes = np.nonzero(pi != np.arange(n))
    tree[rows, nodes, pi[rows, nodes]] = tree[rows, pi[rows, nodes], nodes] = 1
    np.testing.assert_array_equal(mg.algorithm("mst_kruskal").trace(A=A).outputs["in_mst"], tree)


@given(weighted_graphs(directed=True))
def test_depth_first_times_nest_like_parentheses(graph: tuple[np.ndarray, int]) -> None:
    A, _ = graph
    trace = run("dfs", A, 0)
    d, f = last_frame(trace, "d"), last_frame(trace, "f")
    assert int(trace.lengths[0]) == 3 * len(A)
    assert np.all(d < f)
    for v, parent in enumerate(trace.outputs["pi"][0]):
        if v != parent:
            assert A[parent, v] > 0
            assert d[parent] < d[v] < f[v] < f[parent]
        else:  # a root was reachable from no earlier root
            earlier = [u for u in range(len(A)) if d[u] < d[v]]
            assert not any(nx.has_path(as_networkx(A), u, v) for u in earlier)


@given(KEYS)
def test_arrays_are_sorted_and_searched(keys: list[float]) -> None:
    key = np.array(keys)[None]
    pred = mg.algorithm("insertion_sort").trace(key=key).outputs["pred"][0]
    order = sorted(range(len(keys)), key=lambda i: (keys[i], i))
    assert list(pred[order]) == [order[0], *order[:-1]]
    assert np.argmax(mg.algorithm("minimum").trace(key=key).outputs["min"][0]) == int(np.argmin(keys))


@given(weighted_graphs(directed=True))
def test_the_variants_keep_the_promise(graph: tuple[np.ndarray, int]) -> None:
    A, s = graph
    parallel, sequential = run("bfs", A, s), run("bfs_sequential", A, s)
    np.testing.assert_array_equal(parallel.outputs["pi"], sequential.outputs["pi"])
    joined = sequential.hints["reach_h"][: int(sequential.lengths[0]), 0].sum(-1)
    np.testing.assert_array_equal(joined, np.arange(1, len(joined) + 1))  # one node per frame
    levels = (1 - parallel.hints["reach_h"][:, 0]).sum(0)
    newcomers = [int(np.flatnonzero(b - a)[0]) for a, b in zip(*_pairs(sequential), strict=True)]
    assert newcomers == sorted(newcomers, key=lambda v: (levels[v], v))
    full, simplified = run("dfs", A, s), run("dfs_simplified", A, s)
    for name in simplified.hints:
        np.testing.assert_array_equal(simplified.hints[name], full.hints[name])


def _pairs(trace: mg.Trace) -> tuple[np.ndarray, np.ndarray]:
    frames = trace.hints["reach_h"][: int(trace.lengths[0]), 0]
    return frames[:-1], frames[1:]
