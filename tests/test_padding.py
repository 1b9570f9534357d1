"""A graph padded with absent nodes: what is said of the others is the same, in every algorithm and processor."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mechgap as mg
from mechgap.algorithms import benchmark_names
from mechgap.networks import ClrsNet, NetConfig, Prediction, pad_nodes, postprocess, predict, run
from mechgap.networks.padding import ABSENT, counted, pad_value
from mechgap.networks.sinkhorn import log_sinkhorn
from mechgap.trace import Kind, Location, Spec, Stage, Trace, Variable, make_trace, to_numpy
from mechgap.training.data import as_batch
from mechgap.training.ensemble import answers
from mechgap.training.loss import losses
from mechgap.training.scores import count
from test_networks import PLACES, ZOO, some_net, some_value

NODES, PADDED, BATCH, FRAMES = 5, 7, 2, 3
# As in ZOO, and everything that hints can be is fed back.
FED = [where for where in PLACES[Stage.INPUT] if where != (Location.NODE, Kind.SCALAR)]
FULL_ZOO = Spec(
    (
        *ZOO,
        *(
            Variable(f"fed_{place}_{kind}", Stage.HINT, place, kind, classes=3 if kind == Kind.CATEGORICAL else None)
            for place, kind in FED
        ),
        Variable("output_node_permutation_pointer_mask", Stage.OUTPUT, Location.NODE, Kind.MASK_ONE),
    )
)


def wide(net: ClrsNet) -> ClrsNet:
    return jax.tree.map(lambda x: x.astype(jnp.float64), net)


def zoo_trace(spec: Spec, n: int) -> Trace:
    rng = np.random.RandomState(2)

    def values(stage: Stage, *leading: int) -> dict:
        shaped = {v.name: [some_value(v, rng, n) for _ in range(int(np.prod(leading)))] for v in spec.at(stage)}
        return {name: np.stack(xs).reshape(*leading, *xs[0].shape) for name, xs in shaped.items()}

    hints = values(Stage.HINT, FRAMES, BATCH)
    return make_trace(spec, values(Stage.INPUT, BATCH), hints, values(Stage.OUTPUT, BATCH), np.array([FRAMES, 2]))


def cut(trace: Trace, frames: int) -> Trace:
    """The first frames of executions: absent nodes are as absent in a beginning as in the whole."""
    hints = {name: x[:frames] for name, x in trace.hints.items()}
    return make_trace(trace.spec, trace.inputs, hints, trace.outputs, np.minimum(trace.lengths, frames))


# Each network runs once: compiling quickly beats running quickly.
quickly = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@partial(quickly, static_argnames=("steps", "learn"))
def told(net: ClrsNet, trace: Trace, present: jax.Array | None, steps: int, learn: bool) -> tuple:
    """Loss, logits, decisions, counts and, if asked for, the loss's gradient."""

    def objective(net: ClrsNet) -> tuple[jax.Array, Prediction]:
        hints, lengths = trace.hints, trace.lengths.astype(jnp.int32)
        prediction = predict(net, trace.inputs, hints, lengths, steps=steps, record=False, present=present)
        return losses(net.spec, prediction, hints, trace.outputs, lengths, present).total(), prediction

    gradient = None
    if learn:
        (loss, prediction), gradient = jax.value_and_grad(objective, has_aux=True)(net)
    else:
        loss, prediction = objective(net)
    outputs = postprocess(net.spec, prediction.outputs)
    counts = count(net.spec, outputs, trace.outputs, present)
    return (
        loss,
        prediction.hints | prediction.outputs,
        postprocess(net.spec, prediction.hints) | outputs,
        counts,
        gradient,
    )


def present_part(variable: Variable, x: np.ndarray, n: int, logits: bool) -> np.ndarray:
    """The values or logits of the first n nodes."""
    chosen = logits and variable.kind == Kind.POINTER
    axes = {Location.NODE: 1, Location.EDGE: 2, Location.GRAPH: 0}[variable.location] + chosen
    axes += variable.kind == Kind.PERMUTATION_POINTER
    last = x.ndim - (variable.kind == Kind.CATEGORICAL)
    return x[tuple(slice(0, n) if last - axes <= axis < last else slice(None) for axis in range(x.ndim))]


def check_padding(net: ClrsNet, trace: Trace, learn: bool, nodes: int = PADDED, tolerance: float = 1e-9) -> None:
    """Predictions, decisions, loss, gradient and counts of the padded graphs are those of the graphs themselves."""
    n, spec = trace.nodes, net.spec
    more, present = pad_nodes(trace, nodes)
    loss, logits, decided, counts, gradient = told(net, trace, None, trace.steps, learn)
    padded = told(net, more, jnp.asarray(present), trace.steps, learn)
    same = partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
    same(padded[0], loss)
    for name, x in logits.items():
        v, y = spec[name], np.asarray(padded[1][name])
        same(present_part(v, y, n, logits=True), x, err_msg=name)
        if v.kind in (Kind.POINTER, Kind.MASK_ONE):
            assert np.all(y[..., n:] == -ABSENT), name
        theirs = present_part(v, np.asarray(padded[2][name]), n, logits=False)
        (same if v.kind == Kind.SCALAR else np.testing.assert_array_equal)(theirs, decided[name], err_msg=name)
    jax.tree.map(same, padded[3], counts)
    jax.tree.map(same, padded[4], gradient)


@pytest.mark.parametrize(
    ("processor", "repred", "learn"),
    [
        *(pytest.param(kind, "soft", False, marks=pytest.mark.slow) for kind in ("triplet_gmpnn", "gatv2")),
        *(
            pytest.param(kind, repred, True, marks=pytest.mark.slow)
            for kind in ("triplet_gmpnn", "gatv2")
            for repred in ("soft", "hard")
        ),
        *(pytest.param(kind, "hard", True, marks=pytest.mark.slow) for kind in ("gat", "mpnn", "pgn")),
    ],
)
def test_every_kind_of_variable(processor: str, repred: str, learn: bool) -> None:
    with jax.enable_x64(True):
        net = wide(some_net(FULL_ZOO, NetConfig(hidden=4, processor=processor, hint_repred=repred)))
        check_padding(net, zoo_trace(FULL_ZOO, NODES), learn)


def algorithm_trace(name: str, n: int = NODES) -> Trace:
    alg = mg.algorithm(name)
    order = {"pred_as_input": True} if alg.order_is_constant else {}
    return alg.benchmark_sampler(7, n, BATCH, permutations=True, **order).next()


LEARNED = {("bfs", "gatv2"), *((name, "triplet_gmpnn") for name in ("mst_kruskal", "heapsort", "lcs_length"))}


@pytest.mark.slow
@pytest.mark.parametrize("name", benchmark_names())
@pytest.mark.parametrize("processor", ["gatv2", "triplet_gmpnn"])
def test_every_algorithm(name: str, processor: str) -> None:
    """Gradients are those of every kind of variable, above; here, where most time would go into them, of a few."""
    trace = cut(algorithm_trace(name), FRAMES)
    with jax.enable_x64(True):
        net = wide(some_net(trace.spec, NetConfig(hidden=4, processor=processor)))
        check_padding(net, trace, learn=(name, processor) in LEARNED, nodes=trace.nodes + 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", benchmark_names())
@pytest.mark.parametrize("processor", ["gat", "mpnn", "pgn"])
def test_every_algorithm_runs_with_the_other_processors(name: str, processor: str) -> None:
    trace = cut(algorithm_trace(name), 3)
    net = some_net(trace.spec, NetConfig(hidden=4, processor=processor))
    loss, logits, *_ = told(net, trace, None, trace.steps, learn=False)
    assert np.isfinite(loss)
    assert set(logits) == {*trace.spec.names(Stage.HINT), *trace.spec.names(Stage.OUTPUT)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bfs", "dijkstra", "heapsort", "lcs_length"])
@pytest.mark.parametrize("processor", ["gatv2", "triplet_gmpnn"])
def test_float32(name: str, processor: str) -> None:
    """What networks are run in: the first steps, before rounding grows."""
    trace = cut(algorithm_trace(name), 3)
    net = some_net(trace.spec, NetConfig(hidden=4, processor=processor))
    check_padding(net, trace, learn=False, nodes=trace.nodes + 2, tolerance=1e-6)


def test_graphs_of_different_sizes_in_one_batch() -> None:
    """Their counts add up, a trace holds zeros where there is nobody, and the loss is the mean over who is there."""
    spec = mg.algorithm("bfs").spec
    net = some_net(spec, NetConfig(hidden=4))
    small, large = (mg.algorithm("bfs").benchmark_sampler(3, n, 2, p=0.9).next().pad(4) for n in (3, 6))
    padded, present = pad_nodes(small, 6)
    both = jax.tree.map(
        lambda a, b: np.concatenate([a, b]), (padded.inputs, padded.outputs), (large.inputs, large.outputs)
    )
    hints = {name: np.concatenate([x, large.hints[name]], axis=1) for name, x in padded.hints.items()}
    mixed = make_trace(spec, *both[:1], hints, both[1], np.concatenate([small.lengths, large.lengths]))
    who = np.concatenate([present, np.ones((2, 6), bool)])
    whole = as_batch(mixed)
    whole = type(whole)(whole.inputs, whole.hints, whole.outputs, whole.lengths, jnp.asarray(who))
    apart = [quickly(answers)(net, as_batch(trace))["pi"] for trace in (small, large)]
    np.testing.assert_array_equal(quickly(answers)(net, whole)["pi"], sum(apart))
    first = {name: x[0] for name, x in mixed.hints.items()}
    ran = to_numpy(run(net, mixed.inputs, first, mixed.lengths, present=who))
    assert not any(np.any(x[1:, :2, 3:]) for x in ran.hints.values())
    assert not np.any(ran.outputs["pi"][:2, 3:])
    np.testing.assert_allclose(ran.attention[..., :3, 3:][:, :, :2], 0)


def test_a_single_number_has_nothing_to_pad() -> None:
    target = mg.algorithm("binary_search").spec["target"]
    assert pad_value(target, np.array(0.5), 8) == 0.5
    np.testing.assert_array_equal(pad_value(target, np.array([0.5, 1]), 8), [0.5, 1])


def test_absent_nodes_are_permuted_among_themselves() -> None:
    x = jax.random.normal(jax.random.key(0), (6, 6))
    present = jnp.array([True, False, True, True, False, True])
    inside = np.flatnonzero(present)
    matrix = np.exp(log_sinkhorn(x, 50, present=present))
    np.testing.assert_allclose(
        matrix[np.ix_(inside, inside)], np.exp(log_sinkhorn(x[inside][:, inside], 50)), atol=1e-6
    )
    assert not np.any(matrix[np.ix_(inside, [1, 4])])
    lonely = log_sinkhorn(x, 50, present=jnp.arange(6) < 5)
    assert np.all(np.isfinite(lonely))


def test_which_rows_count() -> None:
    present = jnp.array([[True, True, False]])
    meant = {
        (Location.NODE, Kind.POINTER): [[1, 1, 0]],
        (Location.NODE, Kind.MASK_ONE): [1],  # one choice per graph
        (Location.EDGE, Kind.MASK): [[[1, 1, 0], [1, 1, 0], [0, 0, 0]]],
        (Location.GRAPH, Kind.SCALAR): [1],
    }
    for (location, kind), rows in meant.items():
        np.testing.assert_array_equal(counted(Variable("x", Stage.HINT, location, kind), present), rows)


def test_padding_by_kind() -> None:
    def variable(location: Location, kind: Kind) -> Variable:
        return Variable("x", Stage.HINT, location, kind, classes=2 if kind == Kind.CATEGORICAL else None)

    assert pad_value(variable(Location.NODE, Kind.CATEGORICAL), np.ones((7, 3, 2)), 5).shape == (7, 5, 2)
    assert pad_value(variable(Location.EDGE, Kind.POINTER), np.ones((3, 3)), 5).shape == (5, 5)
    assert pad_value(variable(Location.NODE, Kind.PERMUTATION_POINTER), np.ones((1, 3, 3)), 5).shape == (1, 5, 5)
    assert pad_value(variable(Location.GRAPH, Kind.CATEGORICAL), np.ones((4, 2)), 5).shape == (4, 2)
    with pytest.raises(ValueError, match=r"Cannot pad to 4 nodes: 'pos' has 5\. Give 5"):
        pad_nodes(algorithm_trace("bfs"), 4)
