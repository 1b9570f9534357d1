"""The networks by themselves: every cited equation by hand, laws, and what is refused."""

from functools import partial
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mechgap as mg
from mechgap.networks import (
    ClrsNet,
    GATv2,
    LayerNorm,
    Linear,
    NetConfig,
    Prediction,
    from_reference,
    postprocess,
    predict,
    run,
    to_reference,
)
from mechgap.networks.decoders import make_decoder
from mechgap.networks.gatv2 import AttentionVectors
from mechgap.networks.layers import fold
from mechgap.networks.sinkhorn import log_sinkhorn
from mechgap.trace import Kind, Location, Spec, Stage, Trace, Variable, to_numpy

# Distinct widths, so that no two axes can be confused: n nodes, d heads of m channels each.
N, NODE, EDGE, GRAPH, HEADS, M = 3, 7, 11, 13, 2, 5
WIDTH = HEADS * M


def normal(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def processor(info: bool, bias: bool, norm: bool, full: bool = False) -> GATv2:
    def linear(seed: int, inputs: int, with_bias: bool = True) -> Linear:
        return Linear(normal(seed, inputs, WIDTH), normal(seed + 50, WIDTH) if with_bias else None)

    both = NODE + WIDTH
    return GATv2(
        value=linear(1, both),
        skip=linear(2, both),
        sender=linear(3, both),
        receiver=linear(4, both),
        edge=linear(5, EDGE),
        graph=linear(6, GRAPH),
        attention=AttentionVectors(normal(7, HEADS, M), normal(8, HEADS)),
        info=linear(9, EDGE, with_bias=False) if info else None,
        bias=normal(10, N, N) if bias else None,
        norm=LayerNorm(normal(11, WIDTH), normal(12, WIDTH)) if norm else None,
        full_adjacency=full,
    )


NODES, EDGES, GRAPHS, HIDDEN = normal(21, N, NODE), normal(22, N, N, EDGE), normal(23, GRAPH), normal(24, N, WIDTH)
ADJACENCY = jnp.array([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]])


def by_hand(p: GATv2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eq. 4-14 one number at a time, in the paper's order: hidden state, attention logits, coefficients."""

    def affine(layer: Linear, x: np.ndarray) -> np.ndarray:
        W, b = np.asarray(layer.weight, float), 0.0 if layer.bias is None else np.asarray(layer.bias, float)
        return np.array([sum(x[k] * W[k, q] for k in range(len(x))) for q in range(WIDTH)]) + b

    V, E, g, A, H = (np.asarray(x, float) for x in (NODES, EDGES, GRAPHS, ADJACENCY, HIDDEN))
    C = np.concatenate([V, H], axis=1)  # Eq. 4
    nu = [affine(p.value, C[i]) for i in range(N)]  # Eq. 4
    z_in, z_out = ([affine(layer, C[i]) for i in range(N)] for layer in (p.sender, p.receiver))  # Eq. 5
    omega, b = np.asarray(p.attention.weight, float), np.asarray(p.attention.bias, float)
    a = np.zeros((HEADS, N, N))
    for i, j in product(range(N), range(N)):
        zeta = z_in[j] + z_out[i] + affine(p.edge, E[i, j]) + affine(p.graph, g)  # Eq. 5, 6
        zeta = zeta if p.bias is None else zeta + float(p.bias[i, j])  # Eq. 14
        leaky = np.where(zeta > 0, zeta, 0.01 * zeta)
        for h in range(HEADS):
            a[h, i, j] = sum(omega[h, o] * leaky[h * M + o] for o in range(M)) + b[h]  # Eq. 7
    beta = 1e9 * ((np.ones((N, N)) if p.full_adjacency else A) - 1)  # Eq. 8
    alpha = np.zeros_like(a)
    for h, i in product(range(HEADS), range(N)):
        e = np.exp(a[h, i] + beta[i] - np.max(a[h, i] + beta[i]))
        alpha[h, i] = e / e.sum()  # Eq. 9
    result = np.zeros((N, WIDTH))
    for i, c in product(range(N), range(WIDTH)):
        selected = sum(alpha[c // M, i, j] * nu[j][c] for j in range(N))  # Eq. 10
        info = 0.0
        if p.info is not None:
            info = sum(alpha[c // M, i, j] * affine(p.info, E[i, j])[c] for j in range(N))  # Eq. 11, 12
        result[i, c] = max(0.0, selected + affine(p.skip, C[i])[c] + info)  # Eq. 10, 13: the ReLU is on the sum
    return (result if p.norm is None else normed(p.norm, result)), a, alpha


def normed(norm: LayerNorm, x: np.ndarray) -> np.ndarray:
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    return (x - x.mean(axis=-1, keepdims=True)) / deviation * np.asarray(norm.scale) + np.asarray(norm.offset)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("info", "bias", "norm"), list(product([False, True], repeat=3)))
def test_equations_4_to_14_by_hand(info: bool, bias: bool, norm: bool, full: bool) -> None:
    p = processor(info, bias, norm, full)
    hidden, _, attention = p(NODES, EDGES, GRAPHS, ADJACENCY, HIDDEN)
    assert attention is not None
    expected, logits, coefficients = by_hand(p)
    np.testing.assert_allclose(attention.logits, logits, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(attention.coefficients, coefficients, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(hidden, expected, rtol=1e-3, atol=1e-3)


def test_folding_changes_nothing_but_the_cost() -> None:
    first, second = Linear(normal(1, 2, 3), normal(2, 3)), Linear(normal(3, 3 + 5, 7), None)
    x, rest = normal(4, 11, 2), normal(5, 11, 5)
    expected = second(jnp.concatenate([first(x), rest], axis=-1))
    np.testing.assert_allclose(fold(first, second)(jnp.concatenate([x, rest], axis=-1)), expected, rtol=1e-4, atol=1e-5)


# One variable of every kind at every location where it can be; what is fed back, of every location.
KINDS = (Kind.SCALAR, Kind.MASK, Kind.CATEGORICAL, Kind.POINTER)
EVERYWHERE = [
    *product(Location, KINDS),
    *((location, Kind.MASK_ONE) for location in (Location.NODE, Location.EDGE)),
    (Location.NODE, Kind.PERMUTATION_POINTER),
]
PLACES = {
    Stage.INPUT: EVERYWHERE,
    Stage.HINT: list(product(Location, (Kind.POINTER,))),
    Stage.OUTPUT: EVERYWHERE,
}


def variable(stage: Stage, location: Location, kind: Kind) -> Variable:
    name = f"{stage}_{location}_{kind}"
    return Variable(name, stage, location, kind, classes=3 if kind == Kind.CATEGORICAL else None)


ZOO = Spec(
    (
        Variable("pos", Stage.INPUT, Location.NODE, Kind.SCALAR),
        *(variable(stage, *where) for stage in Stage for where in PLACES[stage]),
    )
)
ZOO_NODES = 5


def some_value(v: Variable, rng: np.random.RandomState, n: int) -> np.ndarray:
    shape = v.shape(n)
    if v.kind == Kind.POINTER:
        return np.asarray(rng.randint(n, size=shape))
    if v.kind in (Kind.CATEGORICAL, Kind.MASK_ONE, Kind.PERMUTATION_POINTER):
        return np.eye(shape[-1])[rng.randint(shape[-1], size=shape[:-1])]
    return np.asarray(rng.rand(*shape) if v.kind == Kind.SCALAR else (rng.rand(*shape) > 0.7) * 1.0)


def relabelled(v: Variable, x: np.ndarray, order: np.ndarray, values: bool = False) -> np.ndarray:
    """What x becomes when node order[i] is called i. Logits of a pointer have a node axis at the end."""
    for axis in range({Location.NODE: 1, Location.EDGE: 2, Location.GRAPH: 0}[v.location]):
        x = np.take(x, order, axis)
    if v.kind == Kind.PERMUTATION_POINTER or (v.kind == Kind.POINTER and not values):
        return np.take(x, order, -1)
    return np.argsort(order)[x] if v.kind == Kind.POINTER else x


# Each network runs once or twice: compiling quickly beats running quickly.
quickly = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@partial(quickly, static_argnames=("steps", "record"))
def predicted(
    net: ClrsNet, inputs: dict, hints: dict, length: int, steps: int, record: bool = True, **options: object
) -> Prediction:
    return net(inputs, hints, length, steps=steps, record=record, **options)


@quickly
def batch_predicted(net: ClrsNet, inputs: dict, hints: dict, lengths: np.ndarray) -> Prediction:
    return predict(net, inputs, hints, lengths, steps=STEPS)


def some_net(spec: Spec, config: NetConfig) -> ClrsNet:
    """A network with random weights, biases too, made without compiling anything."""
    rng = np.random.RandomState(0)
    shapes = jax.eval_shape(lambda: ClrsNet.init(spec, config, key=jax.random.key(0)))
    return jax.tree.map(lambda x: jnp.asarray(0.3 * rng.randn(*x.shape).astype(x.dtype)), shapes)


@pytest.mark.parametrize("simplify", [False, True])
def test_relabelling_nodes_relabels_everything(simplify: bool) -> None:
    rng = np.random.RandomState(1)
    config = NetConfig(hidden=6, heads=2, simplify_decoders=simplify, edge_info=True)
    net = some_net(ZOO, config)
    inputs = {v.name: some_value(v, rng, ZOO_NODES) for v in ZOO.at(Stage.INPUT)}
    hints = {v.name: some_value(v, rng, ZOO_NODES) for v in ZOO.at(Stage.HINT)}
    order = rng.permutation(ZOO_NODES)
    moved = [
        {name: relabelled(ZOO[name], x, order, values=True) for name, x in values.items()} for values in (inputs, hints)
    ]
    here, there = (
        predicted(net, given, {name: x[None] for name, x in state.items()}, 3, 3)
        for given, state in ((inputs, hints), moved)
    )
    for stage in ("outputs", "hints"):
        for name, x in getattr(here, stage).items():
            steps = np.asarray(x)[None] if stage == "outputs" else np.asarray(x)
            expected = np.stack([relabelled(ZOO[name], step, order) for step in steps])
            theirs = np.asarray(getattr(there, stage)[name])
            np.testing.assert_allclose(theirs, expected if stage == "hints" else expected[0], rtol=1e-3, atol=1e-3)
    assert here.activations is not None
    assert there.activations is not None
    alpha = np.asarray(here.activations.coefficients)[..., order, :][..., order]
    np.testing.assert_allclose(there.activations.coefficients, alpha, atol=1e-4)


BFS = mg.algorithm("bfs")
STEPS = 4


@pytest.fixture(scope="module")
def trace() -> Trace:
    return BFS.benchmark_sampler(3, 5, 7, p=0.75).next().pad(STEPS)


@pytest.fixture(scope="module")
def net() -> ClrsNet:
    return some_net(BFS.spec, NetConfig(hidden=6, heads=2, message_passing_steps=3))


def sample(trace: Trace, index: int) -> tuple[dict, dict]:
    return {k: x[index] for k, x in trace.inputs.items()}, {k: x[:, index] for k, x in trace.hints.items()}


def test_shapes_of_a_prediction(net: ClrsNet, trace: Trace) -> None:
    prediction = predicted(net, *sample(trace, 0), 3, STEPS)
    assert {k: x.shape for k, x in prediction.hints.items()} == {"reach_h": (3, 5), "pi_h": (3, 5, 5)}
    assert {k: x.shape for k, x in prediction.outputs.items()} == {"pi": (5, 5)}
    assert prediction.activations is not None
    shapes = [x.shape for x in prediction.activations]
    assert shapes == [(3, 3, 5, 6), (3, 3, 2, 5, 5), (3, 3, 2, 5, 5)]
    silent = predicted(net, *sample(trace, 0), 3, STEPS, record=False)
    assert silent.activations is None
    np.testing.assert_allclose(silent.outputs["pi"], prediction.outputs["pi"], rtol=1e-5)


@pytest.mark.parametrize(("length", "step"), [(1, 0), (2, 0), (3, 1), (4, 2), (9, 2)])
def test_the_output_is_read_at_the_executions_own_last_step(net: ClrsNet, trace: Trace, length: int, step: int) -> None:
    # bfs decodes `pi` and `pi_h` alike; with the same weights the output must be the hint of that step.
    twin = eqx.tree_at(lambda n: n.decoders["pi"], net, net.decoders["pi_h"])
    prediction = predicted(twin, *sample(trace, 0), length, STEPS)
    np.testing.assert_allclose(prediction.outputs["pi"], prediction.hints["pi_h"][step], rtol=1e-5, atol=1e-6)


def test_teacher_forcing(net: ClrsNet, trace: Trace) -> None:
    inputs, hints = sample(trace, 0)
    other = {k: x.copy() for k, x in hints.items()}
    other["pi_h"][1] = (other["pi_h"][1] + 1) % 5
    options = {"key": jax.random.key(5)}
    own = predicted(net, inputs, hints, 4, STEPS, **options)
    never, always, elsewhere = (
        predicted(net, inputs, given, 4, STEPS, teacher_forcing=jnp.asarray(p), **options)
        for given, p in ((hints, 0.0), (hints, 1.0), (other, 1.0))
    )
    np.testing.assert_allclose(never.hints["pi_h"], own.hints["pi_h"], rtol=1e-5)
    differs = [float(jnp.max(jnp.abs(always.hints["pi_h"][t] - elsewhere.hints["pi_h"][t]))) > 1e-4 for t in range(3)]
    assert differs == [False, True, True]  # frame 1 is fed at step 1, and remembered


def test_dropout(net: ClrsNet, trace: Trace) -> None:
    inputs, hints = sample(trace, 0)
    options = {"key": jax.random.key(6)}
    without = predicted(net, inputs, hints, 4, STEPS, **options)
    none, all_of_it = (
        predicted(net, inputs, hints, 4, STEPS, dropout=jnp.asarray(p), **options) for p in (0.0, 1 - 1e-6)
    )
    np.testing.assert_allclose(none.outputs["pi"], without.outputs["pi"], rtol=1e-5)
    # With every new state dropped, a node's logits for all targets depend on the features alone, step after step.
    assert not np.allclose(all_of_it.outputs["pi"], without.outputs["pi"])


def test_run_returns_a_trace(net: ClrsNet, trace: Trace) -> None:
    first = {name: x[0] for name, x in trace.hints.items()}
    result = run(net, trace.inputs, first, trace.lengths, steps=STEPS)
    assert result.attention.shape == (STEPS - 1, 3, 7, 2, 5, 5)
    np.testing.assert_allclose(np.asarray(result.attention).sum(-1), 1, rtol=1e-5)
    raw = batch_predicted(net, trace.inputs, {k: x[None] for k, x in first.items()}, trace.lengths)
    decided = {k: np.asarray(x) for k, x in postprocess(net.spec, raw.hints).items()}
    for name, x in to_numpy(result).hints.items():
        np.testing.assert_array_equal(x[0], first[name])
        for b, length in enumerate(trace.lengths.astype(int)):
            np.testing.assert_array_equal(x[1:length, b], decided[name][b, : length - 1])
            assert not np.any(x[length:, b])
    np.testing.assert_array_equal(result.outputs["pi"], np.argmax(raw.outputs["pi"], axis=-1))
    assert run(net, trace.inputs, first, trace.lengths).steps == int(trace.lengths.max())


def test_a_network_without_hint_decoders_says_so_by_nan(trace: Trace) -> None:
    net = some_net(BFS.spec, NetConfig(hidden=6, heads=2, hint_mode="none"))
    first = {name: x[0] for name, x in trace.hints.items()}
    result = to_numpy(run(net, trace.inputs, first, np.full(7, STEPS), steps=STEPS))
    assert all(np.all(np.isnan(x[1:])) and not np.any(np.isnan(x[0])) for x in result.hints.values())


def test_a_set_of_networks_is_a_map_over_them(net: ClrsNet, trace: Trace) -> None:
    nets = jax.tree.map(lambda x: np.stack([x, 2 * x]), net)
    many = quickly(jax.vmap(lambda net: net(*sample(trace, 0), 3, steps=STEPS).outputs["pi"]))(nets)
    second = predicted(jax.tree.map(lambda x: x[1], nets), *sample(trace, 0), 3, STEPS).outputs["pi"]
    np.testing.assert_allclose(many[1], second, rtol=1e-4, atol=1e-5)


def test_weights_start_as_in_the_reference() -> None:
    spec, config = mg.algorithm("dfs").spec, NetConfig(hidden=2048)
    make = eqx.filter_jit(
        lambda init: ClrsNet.init(spec, NetConfig(2048, encoder_init=init), key=jax.random.key(9)).encoders
    )
    soft, default = make("xavier_on_scalars"), make("default")
    cut = 0.8796  # the standard deviation of a standard normal cut at two
    spread = {name: float(jnp.std(soft[name][0].weight)) for name in ("pos", "d", "u")}
    expected = {"pos": cut, "d": cut / np.sqrt(config.hidden), "u": cut}
    assert spread == pytest.approx(expected, rel=0.05)
    assert float(jnp.std(default["d"][0].weight)) == pytest.approx(cut, rel=0.05)
    assert not np.any(soft["pos"][0].bias)


@pytest.mark.parametrize("precision", ["highest", None])
def test_highest_precision_reaches_every_product(trace: Trace, precision: str | None) -> None:
    net = some_net(BFS.spec, NetConfig(hidden=4, edge_info=True, precision=precision))
    text = str(jax.make_jaxpr(lambda: net(*sample(trace, 0), 3, steps=STEPS))())
    products = text.count("dot_general[")
    assert products > 10
    assert text.count("HIGHEST") == (0 if precision is None else 2 * products)  # one per operand


def test_positional_decoders_point_at_the_nearest_position(trace: Trace) -> None:
    """Eq. 31: v = 0.2 among the positions 0, 0.2, ... 0.8."""
    config = NetConfig(hidden=6, heads=2, simplify_decoders=True)
    value, sharpness = make_decoder(BFS.spec["pi"], config, key=jax.random.key(0))
    decoder = (Linear(jnp.zeros_like(value.weight), jnp.array([0.2])), sharpness)
    net = eqx.tree_at(lambda n: n.decoders["pi"], some_net(BFS.spec, config), decoder)
    logits = predicted(net, *sample(trace, 0), 2, 2).outputs["pi"]
    np.testing.assert_allclose(logits, np.tile(-1e3 * np.array([0.2, 0, 0.2, 0.4, 0.6]), (5, 1)), rtol=1e-5, atol=1e-3)


def test_sinkhorn_gives_rows_and_columns_that_sum_to_one() -> None:
    matrix = np.exp(log_sinkhorn(0.1 * normal(13, 2, 5, 5), 50))
    np.testing.assert_allclose(matrix.sum(-1), 1, atol=1e-4)
    np.testing.assert_allclose(matrix.sum(-2), 1, atol=1e-5)
    assert np.all(np.diagonal(matrix, axis1=-2, axis2=-1) == 0)
    noisy = log_sinkhorn(0.1 * normal(13, 2, 5, 5), 50, jax.random.key(1))
    assert not np.allclose(np.exp(noisy), matrix)


def test_postprocess_by_kind() -> None:
    logits = {
        "input_node_scalar": jnp.array([0.5, -2.0]),
        "input_node_mask": jnp.array([0.1, -0.1]),
        "input_node_mask_one": jnp.array([0.0, 1.0]),
        "input_node_categorical": jnp.array([[0.0, 1.0, 3.0], [2.0, 0.0, 0.0]]),
        "input_node_pointer": jnp.array([[0.0, 1.0], [1.0, 0.0]]),
        "input_node_permutation_pointer": jnp.array([[9.0, 0.0], [0.0, 9.0]]),
    }
    hard, soft = postprocess(ZOO, logits), postprocess(ZOO, logits, hard=False)
    expected = [[0.5, -2.0], [1, 0], [0, 1], [[0, 0, 1], [1, 0, 0]], [1, 0], [[0, 1], [1, 0]]]
    for (name, x), value in zip(hard.items(), expected, strict=True):
        np.testing.assert_array_equal(x, np.array(value, np.float32), err_msg=name)
    assert hard["input_node_pointer"].dtype == jnp.int32
    np.testing.assert_allclose(soft["input_node_mask"], 1 / (1 + np.exp([-0.1, 0.1])), rtol=1e-5)
    np.testing.assert_allclose(soft["input_node_pointer"].sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize("mode", ["encoded_decoded", "decoded_only", "none"])
@pytest.mark.parametrize("norm", [False, True])
def test_reference_names_both_ways(mode: str, norm: bool) -> None:
    config = NetConfig(hidden=6, heads=3, hint_mode=mode, use_layer_norm=norm)
    spec = mg.algorithm("dfs").spec
    net = some_net(spec, config)
    tree = to_reference(net)
    again = from_reference(tree, spec, config)
    assert jax.tree.structure(again) == jax.tree.structure(net)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool(jnp.all(a == b)), net, again)))
    assert tree["net/gatv2_aggr_clrs_processor/linear_6"]["w"].shape == (2, 1)
    assert tree["net/~_construct_encoders_decoders/algo_0_pi_dec_linear_3"]["w"].shape == (6, 1)
    assert ("net/~_construct_encoders_decoders/algo_0_d_enc_linear" in tree) == (mode == "encoded_decoded")


def test_a_tree_that_does_not_fit_is_refused_whole() -> None:
    config = NetConfig(hidden=6)
    tree = to_reference(some_net(BFS.spec, config))
    del tree["net/gatv2_aggr_clrs_processor/layer_norm"]
    tree["net/other"] = {"w": np.zeros(1)}
    tree["net/gatv2_aggr_clrs_processor/linear"]["w"] = np.zeros((12, 5), np.float32)
    with pytest.raises(ValueError, match="do not fit") as error:
        from_reference(tree, BFS.spec, config)
    assert "missing: net/gatv2_aggr_clrs_processor/layer_norm scale, of shape (6,)" in str(error.value)
    assert "unexpected: net/other w" in str(error.value)
    assert "net/gatv2_aggr_clrs_processor/linear w must have shape (12, 6); got (12, 5)" in str(error.value)


@pytest.mark.parametrize("extra", [{"edge_info": True}, {"pre_attention_bias": 5}, {"simplify_decoders": True}])
def test_what_the_reference_has_not_has_no_names_there(extra: dict) -> None:
    net = some_net(BFS.spec, NetConfig(hidden=6, **extra))
    with pytest.raises(ValueError, match=f"The reference network has no {next(iter(extra))}.*Leave it off"):
        to_reference(net)


BAD_CONFIGS = [
    (
        {"hidden": 10, "heads": 4},
        r"heads must divide hidden; got heads = 4, hidden = 10\. Set heads to one of 1, 2, 5, 10",
    ),
    ({"hidden": 0}, "hidden must be a whole number of at least 1; got 0"),
    ({"heads": 1.5}, "heads must be a whole number of at least 1; got 1.5"),
    ({"message_passing_steps": -1}, "message_passing_steps must be a whole number of at least 1; got -1"),
    ({"pre_attention_bias": True}, "pre_attention_bias must be a whole number of at least 1; got True"),
    ({"hint_mode": "encoded"}, "hint_mode must be one of 'encoded_decoded', 'decoded_only', 'none'; got 'encoded'"),
    ({"hint_repred": "softly"}, "hint_repred must be one of 'soft', 'hard', 'hard_on_eval'; got 'softly'"),
    ({"encoder_init": "xavier"}, "encoder_init must be one of 'default', 'xavier_on_scalars'; got 'xavier'"),
    ({"precision": "exact"}, "precision must be one of None, 'default', 'high', 'highest'; got 'exact'"),
    ({"use_layer_norm": 1}, "use_layer_norm must be True or False; got 1"),
    ({"hidden": 0, "hint_mode": "x"}, r"(?s)hidden must be.*hint_mode must be"),
]


@pytest.mark.parametrize(("fields", "message"), BAD_CONFIGS, ids=lambda x: str(x) if isinstance(x, dict) else "")
def test_bad_configs_say_what_to_do(fields: dict, message: str) -> None:
    config = object.__new__(NetConfig)  # past the type checker of the tests, which users do not have
    for name, value in fields.items():
        object.__setattr__(config, name, value)
    with pytest.raises(ValueError, match=message):
        config.__post_init__()


def test_an_unknown_setting_is_an_error() -> None:
    with pytest.raises(TypeError, match="layer_norm"):
        NetConfig(layer_norm=True)  # type: ignore[call-arg]


def bad_call(net: ClrsNet, inputs: dict, hints: dict, options: dict) -> None:
    net(inputs, hints, 3, **{"steps": STEPS, **options})


def test_bad_calls_say_what_to_do(net: ClrsNet, trace: Trace) -> None:
    inputs, hints = sample(trace, 0)
    lacking, key = {k: x for k, x in inputs.items() if k != "s"}, jax.random.key(0)
    short = {k: x[:2] for k, x in hints.items()}
    cases = [
        (lacking, hints, {}, "needs the inputs pos, s, A, adj; missing: s"),
        (inputs, {"pi_h": hints["pi_h"]}, {}, "needs the hints reach_h, pi_h; missing: reach_h"),
        (inputs, hints, {"steps": 0}, "steps must be at least 1.*got 0"),
        (inputs, hints, {"dropout": 0.1}, "draw at random: give a key"),
        (inputs, short, {"teacher_forcing": 1.0, "key": key}, "reads 3 frames of every hint; 'reach_h' has 2"),
    ]
    for given, state, options, message in cases:
        with pytest.raises(ValueError, match=message):
            bad_call(net, given, state, options)
    tied = some_net(BFS.spec, NetConfig(hidden=4, pre_attention_bias=9))
    with pytest.raises(ValueError, match="bias is for graphs of 9 nodes; got 5"):
        bad_call(tied, inputs, hints, {})


@pytest.mark.parametrize(
    ("location", "kind", "message"),
    [
        (Location.EDGE, Kind.PERMUTATION_POINTER, "permutation pointer on the edge; only nodes"),
        (Location.GRAPH, Kind.MASK_ONE, "mask_one on the graph.*Use kind mask"),
    ],
)
def test_variables_without_a_decoder_are_refused(location: Location, kind: Kind, message: str) -> None:
    spec = Spec((BFS.spec["pos"], Variable("x", Stage.OUTPUT, location, kind)))
    with pytest.raises(ValueError, match=message):
        ClrsNet.init(spec, NetConfig(hidden=4), key=jax.random.key(0))


def test_heads_must_divide_the_processors_width() -> None:
    with pytest.raises(ValueError, match="heads must divide hidden; got heads = 3, hidden = 4"):
        GATv2.init(4, heads=3, key=jax.random.key(0))
