"""TransNAR's text model: what must hold whatever its weights are."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mechgap.networks.cross_attention import CrossBlock, Memory
from mechgap.networks.generation import greedy, prefill, step
from mechgap.networks.rotary import plain_positions, randomised_positions, rotation
from mechgap.networks.transnar import TransNAR, parameter_count
from mechgap.networks.transnar_config import CROSS_ATTENTION, TransNARConfig

CONFIG = TransNARConfig(
    vocabulary=13, width=12, layers=3, heads=3, hidden=17, context=32, max_position=64, node_width=7, edge_width=5
)
NODES, LENGTH, ROOM, NEW = 4, 11, 6, 5


def shapes(config: TransNARConfig) -> TransNAR:
    """A model of shapes."""
    return jax.eval_shape(partial(TransNAR.init, config), key=jax.random.key(0))


def parts(net: TransNAR) -> tuple:
    return net.tokens, net.blocks, net.crosses, net.norm, net.output


@cache
def model(**changes: str) -> TransNAR:
    """A model with random numbers everywhere, gates included; models share what they have in common."""
    rng, config = np.random.default_rng(10), replace(CONFIG, **changes)
    full = jax.tree.map(lambda w: jnp.asarray(0.5 * rng.normal(size=w.shape), jnp.float32), shapes(CONFIG))
    full = eqx.tree_at(lambda m: (m.tokens, m.output.bias), full, replace_fn=lambda w: 4 * w if w.ndim > 1 else 0 * w)
    some = jax.tree.map(lambda w: w[jnp.array(config.looking)], full.crosses) if config.looking else None
    return eqx.tree_at(parts, shapes(config), (*parts(full)[:2], some, *parts(full)[3:]), is_leaf=lambda x: x is None)


def memory_of(seed: int, nodes: int = NODES, leading: tuple[int, ...] = ()) -> Memory:
    rng = np.random.default_rng(seed)
    return Memory.of(
        jnp.asarray(rng.normal(size=(*leading, nodes, CONFIG.node_width)), jnp.float32),
        jnp.asarray(rng.normal(size=(*leading, nodes, nodes, CONFIG.edge_width)), jnp.float32),
    )


@eqx.filter_jit
def logits_of(net: TransNAR, ids: jax.Array, at: jax.Array, memory: Memory | None, opened: jax.Array) -> jax.Array:
    return net(ids, at, memory, opened=opened)


IDS = jnp.asarray(np.random.default_rng(1).integers(0, CONFIG.vocabulary, LENGTH), jnp.int32)
POSITIONS = jnp.asarray(randomised_positions(np.random.default_rng(2), LENGTH, 40, 1)[0])
MEMORY = memory_of(3)
OPEN, SHUT = jnp.array(True), jnp.array(False)


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a program, with those of the programs within."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            if hasattr(inner, "eqns"):
                yield from equations(getattr(inner, "jaxpr", inner))


def logits(
    net: TransNAR,
    ids: jax.Array = IDS,
    at: jax.Array = POSITIONS,
    memory: Memory | None = MEMORY,
    opened: jax.Array = OPEN,
) -> np.ndarray:
    return np.asarray(logits_of(net, ids, at, memory, opened))


def by_hand(net: TransNAR, ids: np.ndarray, at: np.ndarray, memory: Memory) -> np.ndarray:
    """The equations of the module, in plain NumPy and float64, one head and one query at a time."""
    net, memory = jax.tree.map(lambda x: np.asarray(x, np.float64), (net, memory))
    heads, k = net.config.heads, net.config.width // net.config.heads
    frequency = net.config.rotary_base ** (-2 * np.arange(k // 2) / k)

    def norm(layer, x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * layer.scale + layer.offset

    def mlp(layer, x):
        u = norm(layer.norm, x) @ layer.first.weight + layer.first.bias
        u = 0.5 * u * (1 + np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
        return u @ layer.second.weight + layer.second.bias

    def turned(x, p):
        z = (x[: k // 2] + 1j * x[k // 2 :]) * np.exp(1j * p * frequency)
        return np.concatenate([z.real, z.imag])

    def attention(query, key, value, causal):
        out = np.zeros_like(query)
        for h in range(heads):
            part = slice(h * k, (h + 1) * k)
            for i in range(len(query)):
                last = i + 1 if causal else len(key)
                if causal:
                    turn = [turned(key[j, part], at[j]) @ turned(query[i, part], at[i]) for j in range(last)]
                score = np.array(turn if causal else key[:, part] @ query[i, part]) / math.sqrt(k)
                alpha = np.exp(score - score.max())
                out[i, part] = alpha / alpha.sum() @ value[:last, part]
        return out

    x, looked = net.tokens[ids], 0
    for t in range(net.config.layers):
        block = jax.tree.map(lambda w, t=t: w[t], net.blocks)
        mixed = np.split(norm(block.norm, x) @ block.mixed.weight, 3, axis=-1)
        x = x + attention(*mixed, True) @ block.out.weight + block.out.bias
        x = x + mlp(block.mlp, x)
        if t in net.config.looking:
            cross = jax.tree.map(lambda w, i=looked: w[i], net.crosses)
            edges, found, looked = memory.edges.reshape(-1, CONFIG.edge_width), [], looked + 1
            for look, places in ((cross.nodes, memory.nodes), (cross.edges, edges)):
                key, value = np.split(norm(look.norm, places) @ look.mixed.weight, 2, axis=-1)
                found.append(attention(norm(cross.norm, x) @ look.query.weight, key, value, False))
            a, b = np.tanh(cross.gates)
            x = x + a * (np.concatenate(found, -1) @ cross.out.weight + cross.out.bias)
            x = x + b * mlp(cross.mlp, x)
    return norm(net.norm, x) @ net.output.weight + net.output.bias


@pytest.mark.parametrize("where", ["all", "every_second"])
def test_the_equations_are_what_is_computed(where: str) -> None:
    expected = by_hand(model(cross_attention=where), np.asarray(IDS), np.asarray(POSITIONS), MEMORY)
    np.testing.assert_allclose(logits(model(cross_attention=where)), expected, atol=2e-5)


LOOKING = {"all": (0, 1, 2), "first": (0,), "last": (2,), "every_second": (1,), "none": ()}


@pytest.mark.parametrize("where", CROSS_ATTENTION)
def test_shut_gates_leave_the_plain_transformer(where: str) -> None:
    net, layers = model(cross_attention=where), LOOKING[where]
    assert net.config.looking == layers
    plain = logits(net.plain(), memory=None)
    if where == "all":
        np.testing.assert_array_equal(logits(net, memory=None), plain)
    if layers:
        assert len(net.crosses.gates) == len(layers)
        np.testing.assert_array_equal(logits(net, opened=SHUT), plain)
        assert np.abs(logits(net) - plain).max() > 0.01


@cache
def untrained() -> TransNAR:
    config, key = replace(CONFIG, cross_attention="last"), jax.random.key(5, impl="rbg")  # which compiles fast
    return eqx.filter_jit(TransNAR.init)(config, key=key)


def test_gates_are_shut_before_training() -> None:
    np.testing.assert_array_equal(untrained().crosses.gates, 0)
    np.testing.assert_array_equal(logits(untrained()), logits(untrained().plain(), memory=None))


def test_later_tokens_never_matter_to_earlier_ones() -> None:
    before = logits(model())
    for t in range(LENGTH):
        after = logits(model(), IDS.at[t].set((IDS[t] + 1) % CONFIG.vocabulary), POSITIONS.at[t:].add(7))
        np.testing.assert_array_equal(after[:t], before[:t])
        assert np.abs(after[t] - before[t]).max() > 1e-3


def test_randomised_positions_rise_below_the_maximum() -> None:
    drawn = randomised_positions(np.random.default_rng(0), 30, 64, 200)
    assert drawn.shape == (200, 30)
    assert drawn.dtype == np.int32
    assert np.all(np.diff(drawn, axis=1) > 0)
    assert drawn.min() == 0
    assert drawn.max() == 63
    assert len(np.unique(drawn, axis=0)) == 200
    np.testing.assert_array_equal(randomised_positions(np.random.default_rng(1), 5, 5, 2), plain_positions(5, 2))
    with pytest.raises(ValueError, match="6 different positions cannot be drawn from 5; raise max_position"):
        randomised_positions(np.random.default_rng(0), 6, 5, 1)


def test_only_distances_of_positions_count() -> None:
    shifted = logits(model(), at=POSITIONS + 8100)  # queries and keys are turned alike
    np.testing.assert_allclose(shifted, logits(model()), atol=2e-5)
    assert np.abs(logits(model(), at=POSITIONS.at[5:].add(1)) - logits(model())).max() > 1e-3


def test_angles_are_right_at_large_positions() -> None:
    at = np.array([0, 1, 4095, 8191])
    turned = rotation(jnp.asarray(at), 64)
    angle = at[:, None] * 10_000.0 ** (-np.arange(32) / 32)
    np.testing.assert_allclose(turned.cos, np.cos(angle), atol=4e-6)
    np.testing.assert_allclose(turned.sin, np.sin(angle), atol=4e-6)


def test_memory_is_a_set() -> None:
    order = np.random.default_rng(4).permutation(NODES)
    moved = MEMORY._replace(nodes=MEMORY.nodes[order], edges=MEMORY.edges[order][:, order])
    np.testing.assert_allclose(logits(model(), memory=moved), logits(model()), atol=1e-5)
    torn = MEMORY._replace(nodes=MEMORY.nodes.at[0].set(MEMORY.nodes[1]))
    assert np.abs(logits(model(), memory=torn) - logits(model())).max() > 1e-3


def padded(memory: Memory, nodes: int, fill: float) -> Memory:
    more = nodes - len(memory.present)
    place = jnp.pad(memory.nodes, [(0, more), (0, 0)], constant_values=fill)
    edges = jnp.pad(memory.edges, [(0, more), (0, more), (0, 0)], constant_values=fill)
    return Memory.of(place, edges, jnp.arange(nodes) < len(memory.present))


@pytest.mark.parametrize("fill", [0.0, 1e3])
def test_absent_nodes_and_edges_change_nothing(fill: float) -> None:
    more = padded(MEMORY, 7, fill).nodes.at[NODES:, 0].add(1)  # not the same everywhere, which the norm would undo
    memory = padded(MEMORY, 7, fill)._replace(nodes=more)
    np.testing.assert_allclose(logits(model(), memory=memory), logits(model()), atol=1e-5)


def test_no_edges_at_all_is_no_error() -> None:
    nothing = MEMORY._replace(pairs=jnp.zeros((NODES, NODES), bool))
    one, other = (logits(model(), memory=nothing._replace(edges=c * MEMORY.edges)) for c in (1, -3))
    assert np.isfinite(one).all()
    np.testing.assert_array_equal(one, other)


def test_per_layer_reads_are_final_reads_where_all_states_are_equal() -> None:
    net, final = model(cross_attention="every_second", reads="per_layer"), model(cross_attention="every_second")
    stacked = Memory.of(jnp.stack([MEMORY.nodes] * CONFIG.layers), jnp.stack([MEMORY.edges] * CONFIG.layers))
    same = logits(net, memory=stacked)
    np.testing.assert_allclose(same, logits(final), atol=1e-6)
    for layer in range(CONFIG.layers):
        other = stacked._replace(nodes=stacked.nodes.at[layer].multiply(-2))
        assert (np.abs(logits(net, memory=other) - same).max() > 1e-3) == (layer in net.config.looking)


def test_gradients_reach_shut_gates_and_no_frozen_memory() -> None:
    @eqx.filter_jit
    def gradients(crosses: CrossBlock, free: tuple, frozen: tuple) -> tuple[CrossBlock, tuple, tuple]:
        def loss(given: tuple) -> jax.Array:
            crosses, free, frozen = given
            nodes, edges = jax.tree.map(jnp.add, free, jax.lax.stop_gradient(frozen))
            net = eqx.tree_at(lambda m: m.crosses, untrained(), crosses)
            return jnp.sum(net(IDS, POSITIONS, Memory.of(nodes, edges))[:, 0])

        return jax.grad(loss)((crosses, free, frozen))

    states = MEMORY.nodes, MEMORY.edges
    for net, opened in ((untrained(), False), (model(cross_attention="last"), True)):
        of_crosses, free, frozen = gradients(net.crosses, states, states)
        assert all(np.abs(x).max() == 0 for x in frozen)
        assert all((np.abs(x).max() > 0) == opened for x in free)
        assert np.all(np.abs(of_crosses.gates) > 0)
        assert (np.abs(of_crosses.out.weight).max() > 0) == opened


def test_where_tokens_looked_is_recorded() -> None:
    net = model(cross_attention="every_second")
    memory = padded(MEMORY, 7, 0.0)
    seen, weights = eqx.filter_jit(TransNAR.watch)(net, IDS, POSITIONS, memory)
    np.testing.assert_allclose(seen, logits(net), atol=1e-5)
    assert weights.nodes.shape == (1, CONFIG.heads, LENGTH, 7)
    assert weights.edges.shape == (1, CONFIG.heads, LENGTH, 49)
    for one, there in ((weights.nodes, memory.present), (weights.edges, memory.pairs.reshape(-1))):
        np.testing.assert_allclose(np.sum(one, axis=-1), 1, atol=1e-6)
        assert np.all(np.asarray(one)[..., ~np.asarray(there)] == 0)


BATCH = 3
PROMPTS = jnp.asarray(np.random.default_rng(6).integers(1, CONFIG.vocabulary, (BATCH, ROOM)), jnp.int32)
LENGTHS = jnp.array([ROOM, 2, 4])
PLACES = jnp.asarray(randomised_positions(np.random.default_rng(7), ROOM + NEW, CONFIG.max_position, BATCH))
MEMORIES = jax.tree.map(lambda *of: jnp.stack(of), *(memory_of(seed) for seed in range(BATCH)))


def decoded_in_full(net: TransNAR, i: int, memory: Memory | None, eos: int) -> tuple[list[int], list[np.ndarray]]:
    """One answer by whole forward passes."""
    ids, answer, rows = np.zeros(LENGTH, np.int32), [], []
    at, length = PLACES[i], int(LENGTHS[i])
    ids[:length] = PROMPTS[i, :length]
    while len(answer) < NEW and eos not in answer:
        rows.append(logits(net, jnp.asarray(ids), at, memory)[length - 1])
        answer.append(int(np.argmax(rows[-1])))
        ids[length] = answer[-1]
        length += 1
    return answer, rows


@pytest.mark.parametrize("where", ["every_second", "none"])
def test_cached_decoding_is_the_full_forward_pass(where: str) -> None:
    net = model(cross_attention=where)
    memory = None if where == "none" else MEMORIES
    full = [decoded_in_full(net, i, jax.tree.map(lambda x, i=i: x[i], memory), -1) for i in range(BATCH)]
    eos = full[0][0][2]  # the first answer ends after three tokens at the latest
    tokens = np.asarray(greedy(net, PROMPTS, LENGTHS, PLACES, memory, max_new=NEW, eos=eos))
    for answer, (expected, _) in zip(tokens, full, strict=True):
        end = expected.index(eos) if eos in expected else NEW
        np.testing.assert_array_equal(answer, expected[:end] + [eos] * (NEW - end))
    assert len(np.unique(tokens)) > 2


def test_gates_stay_shut_while_an_answer_is_written() -> None:
    """Shut for the prompt and for every token after it: what is said is what the Transformer within says."""
    net, nobody = model(), -1
    assert np.abs(np.tanh(net.crosses.gates)).min() > 1e-3
    asked = (PROMPTS, LENGTHS, PLACES)
    shut = np.asarray(greedy(net, *asked, MEMORIES, max_new=NEW, eos=nobody, opened=SHUT))
    plain = np.asarray(greedy(net.plain(), *asked, max_new=NEW, eos=nobody))
    np.testing.assert_array_equal(shut, plain)
    opened = np.asarray(greedy(net, *asked, MEMORIES, max_new=NEW, eos=nobody, opened=OPEN))
    assert np.any(opened != plain)


def test_cached_logits_are_those_of_the_full_forward_pass() -> None:
    net, advance = model(), eqx.filter_jit(step)
    memory = memory_of(1)
    answer, rows = decoded_in_full(net, 1, memory, -1)
    at, length = PLACES[1], LENGTHS[1]
    seen, held = eqx.filter_jit(prefill)(net, PROMPTS[1], length, at[:ROOM], memory, slots=ROOM + NEW)
    for token, expected in zip(answer, rows, strict=True):
        np.testing.assert_allclose(seen, expected, atol=1e-5)
        seen, held = advance(net, jnp.int32(token), at[held.length], held)
    assert held.length == length + NEW


def test_in_bfloat16_layers_multiply_bfloat16_and_the_stream_is_float32() -> None:
    def low(net: TransNAR) -> jax.Array:
        return net.in_bfloat16()(IDS, POSITIONS, MEMORY)

    net = model()
    assert net.in_bfloat16().crosses.gates.dtype == jnp.float32
    every = list(equations(jax.make_jaxpr(low)(net).jaxpr))
    assert {e.invars[0].aval.dtype for e in every if e.primitive.name == "exp"} == {np.dtype("float32")}  # of softmax
    dots = [e for e in every if e.primitive.name == "dot_general"]
    exact = [e for e in dots if any(v.aval.dtype != jnp.bfloat16 for v in e.invars)]
    assert len(dots) > len(exact) == 1  # the last one, to the logits
    one, other = np.asarray(jax.jit(low)(net)), logits(net)
    assert one.dtype == np.float32
    assert 0 < np.abs(one - other).max() < 0.05 * np.abs(other).max()
    gradient = jax.eval_shape(jax.grad(lambda net: low(net).sum()), net)
    assert {x.dtype for x in jax.tree.leaves(gradient)} == {np.dtype("float32")}


def test_parameters_are_counted() -> None:
    config = TransNARConfig(vocabulary=102)
    d, hidden, v, k, w = config.width, config.hidden, config.vocabulary, config.layers, config.node_width
    mlp = 2 * d + 2 * d * hidden + hidden + d
    plain = v * d + k * (2 * d + 3 * d * d + d * d + d + mlp) + 2 * d + d * v + v
    cross = k * (2 * d + 2 * (2 * w + d * d + 2 * w * d) + 2 * d * d + d + mlp + 2)
    assert parameter_count(replace(config, cross_attention="none")) == plain
    assert parameter_count(config) == plain + cross
    assert parameter_count(model()) == parameter_count(model().config)


BAD = [
    ({"vocabulary": 0}, "vocabulary must be a whole number of at least 1; got 0"),
    ({"layers": True}, "layers must be a whole number of at least 1; got True"),
    ({"heads": 5}, "even multiple of heads; got width = 12, heads = 5. Set heads to one of 1, 2, 3, 6"),
    ({"width": 9, "heads": 3}, "even multiple of heads; got width = 9, heads = 3. Set width to an even number"),
    ({"context": 65}, "context must not exceed max_position; got context = 65, max_position = 64"),
    ({"cross_attention": "some"}, "cross_attention must be one of 'all', 'first', .*; got 'some'"),
    ({"cross_attention": "every_second", "layers": 1}, "needs at least 2 layers; got layers = 1"),
    ({"reads": "all"}, "reads must be one of 'final', 'per_layer'; got 'all'"),
    ({"rotary_base": 0.5}, "rotary_base must be above 1; got 0.5"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=lambda x: "" if isinstance(x, str) else "-".join(x))
def test_bad_configs_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match='cross_attention = "none" and sees no memory; call it with memory=None'):
        model(cross_attention="none").project(MEMORY)
    with pytest.raises(ValueError, match=r"reads = 'per_layer': nodes are \[4, 7\], expected \[3, 4, 7\]; edges"):
        model(cross_attention="every_second", reads="per_layer").project(MEMORY)
    long = jnp.zeros(CONFIG.context + 1, jnp.int32)
    with pytest.raises(
        ValueError, match=r"at most context = 32 tokens, question and answer together; got 33\. Ask about"
    ):
        model()(long, long)
    with pytest.raises(ValueError, match="got 11 tokens and 6 positions"):
        greedy(model(cross_attention="none"), PROMPTS, LENGTHS, PLACES[:, :ROOM], max_new=NEW, eos=0)
