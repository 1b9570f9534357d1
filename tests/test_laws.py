"""Laws that every trace obeys, on graphs drawn by Hypothesis, with networkx as an independent judge."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mechgap as mg
from graphs import as_networkx, one_hot, weighted_graphs
from mechgap.trace import Kind, Stage

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


# The hint that grows into an output, where it is not called OUTPUT_h; None where no frame holds the output.
LAST: dict[tuple[str, str], str | None] = {
    ("binary_search", "return"): "high",
    ("find_maximum_subarray_kadane", "end"): "best_high",
    ("find_maximum_subarray_kadane", "start"): "best_low",
    ("floyd_warshall", "Pi"): None,  # each frame is the state before one more round
    ("kmp_matcher", "match"): "s",
    ("lcs_length", "b"): None,  # the sweep that finds no length changed may still change a direction
    ("naive_string_matcher", "match"): "s",
    ("quickselect", "median"): "i",
    ("segments_intersect", "intersect"): None,
}


@pytest.mark.parametrize("name", mg.algorithm_names())
def test_the_last_frame_agrees_with_the_outputs(name: str) -> None:
    trace = mg.algorithm(name).benchmark_sampler(3, 7, 32).next()
    for output in trace.spec.names(Stage.OUTPUT):
        hint = LAST.get((name, output), f"{output}_h")
        if hint is None:
            continue
        frames = trace.hints[hint]
        last = frames[trace.lengths.astype(int) - 1, np.arange(32)]
        np.testing.assert_array_equal(last, trace.outputs[output])


@pytest.mark.parametrize("name", mg.algorithm_names())
def test_more_room_for_frames_changes_nothing(name: str) -> None:
    algorithm = mg.algorithm(name)
    inputs = algorithm.benchmark_sampler(4, 7, 32).next().inputs
    exact = algorithm.max_steps(inputs["pos"].shape[-1])  # optimal_bst has a node more than keys
    short, long = algorithm.device_trace(inputs, exact), algorithm.device_trace(inputs, exact + 5)
    assert long.steps == exact + 5
    assert short.differences(long) == {}


@pytest.mark.parametrize("name", mg.algorithm_names())
def test_float32_decides_as_float64_on_a_grid(name: str) -> None:
    """Where no comparison is a near-tie, the training path agrees with the conformance path."""
    algorithm = mg.algorithm(name)
    inputs = dict(algorithm.benchmark_sampler(4, 7, 32).next().inputs)
    grid = {v.name for v in algorithm.spec.at(Stage.INPUT) if v.kind == Kind.SCALAR and v.name not in ("pos", "d")}
    for real in grid:
        inputs[real] = np.ceil(inputs[real] * 1024) / 1024
    inputs.pop("adj", None)
    ours, device = algorithm.trace(**inputs), algorithm.device_trace(inputs)
    for variable in ours.spec:
        if variable.kind != Kind.SCALAR:
            mine, theirs = ours.values(variable.stage)[variable.name], device.values(variable.stage)[variable.name]
            steps = slice(0, ours.steps) if variable.stage == Stage.HINT else slice(None)
            np.testing.assert_array_equal(np.asarray(theirs)[steps], mine)


@pytest.mark.parametrize("name", mg.algorithm_names())
def test_a_batch_is_its_samples(name: str) -> None:
    batch = mg.algorithm(name).benchmark_sampler(8, 7, 5).next()
    for sample in range(5):
        one = batch.take([sample])
        alone = mg.algorithm(name).trace(**one.inputs)
        assert alone.differences(one) == {}
