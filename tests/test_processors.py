"""The processors beside GATv2: one number at a time by hand, where weights start, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mechgap as mg
from mechgap.faithfulness.probes import attention_of
from mechgap.networks import GAT, ClrsNet, LayerNorm, Linear, MessagePassing, NetConfig, Processor, Replacement, run
from mechgap.networks.config import PROCESSORS
from mechgap.networks.message_passing import Gate, Triplets
from mechgap.networks.processor import Round
from mechgap.training import TrainConfig
from mechgap.training.config import run_name
from mechgap.training.data import as_batch
from test_networks import (
    ADJACENCY,
    BFS,
    EDGE,
    EDGES,
    GRAPH,
    GRAPHS,
    HIDDEN,
    NODE,
    NODES,
    WIDTH,
    N,
    normal,
    normed,
    quickly,
    some_net,
)

FEATURES, HEADS = 3, 2
BOTH = NODE + WIDTH


def layer(seed: int, inputs: int, outputs: int = WIDTH) -> Linear:
    return Linear(normal(seed, inputs, outputs), normal(seed + 50, outputs))


def message_passing(full: bool, norm: bool, with_triplets: bool) -> MessagePassing:
    places = [BOTH] * 3 + [EDGE] * 3 + [GRAPH]
    triplets = Triplets(*(layer(20 + i, w, FEATURES) for i, w in enumerate(places)), layer(27, FEATURES))
    return MessagePassing(
        receiver=layer(1, BOTH),
        sender=layer(2, BOTH),
        edge=layer(3, EDGE),
        graph=layer(4, GRAPH),
        message=(layer(5, WIDTH), layer(6, WIDTH)),
        skip=layer(7, BOTH),
        heard=layer(8, WIDTH),
        norm=LayerNorm(normal(9, WIDTH), normal(10, WIDTH)) if norm else None,
        triplets=triplets if with_triplets else None,
        gate=Gate(layer(11, BOTH), layer(12, WIDTH), layer(13, WIDTH)) if with_triplets else None,
        full_adjacency=full,
    )


def affine(of: Linear, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(of.weight, float) + np.asarray(of.bias, float)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


@quickly
def one_round(p: MessagePassing | GAT, *given: jax.Array) -> Round:
    return p(*given)


V, E, G, H = (np.asarray(x, float) for x in (NODES, EDGES, GRAPHS, HIDDEN))
Z = np.concatenate([V, H], axis=1)


def messages_by_hand(p: MessagePassing) -> tuple[np.ndarray, np.ndarray | None]:
    result, heard = np.zeros((N, WIDTH)), np.zeros((N, WIDTH))
    for j in range(N):
        sent = []
        for i in range(N):
            if p.full_adjacency or ADJACENCY[i, j]:
                first = affine(p.receiver, Z[j]) + affine(p.sender, Z[i]) + affine(p.edge, E[i, j]) + affine(p.graph, G)
                sent.append(affine(p.message[1], relu(affine(p.message[0], relu(first)))))
        heard[j] = np.max(sent, axis=0)
        result[j] = relu(affine(p.skip, Z[j]) + affine(p.heard, heard[j]))
    result = result if p.norm is None else normed(p.norm, result)
    if p.gate is None or p.triplets is None:
        return result, None
    raw = affine(p.gate.out, relu(affine(p.gate.own, Z) + affine(p.gate.heard, heard)))
    gate, t = (1 + np.tanh(raw / 2)) / 2, p.triplets
    edges = np.zeros((N, N, WIDTH))
    for j in range(N):
        for k in range(N):
            of_nodes = [affine(t.first, Z[i]) + affine(t.second, Z[j]) + affine(t.third, Z[k]) for i in range(N)]
            of_edges = [
                affine(t.first_second, E[i, j]) + affine(t.first_third, E[i, k]) + affine(t.second_third, E[j, k])
                for i in range(N)
            ]
            best = np.max(np.add(of_nodes, of_edges), axis=0) + affine(t.graph, G)
            edges[j, k] = relu(affine(t.out, best))
    return gate * result + (1 - gate) * H, edges


@pytest.mark.parametrize(("full", "norm", "triplets"), [(False, True, False), (True, False, False), (True, True, True)])
def test_messages_by_hand(full: bool, norm: bool, triplets: bool) -> None:
    p = message_passing(full, norm, triplets)
    assert isinstance(p, Processor)
    hidden, edge, attention = one_round(p, NODES, EDGES, GRAPHS, ADJACENCY, HIDDEN)
    expected, edges = messages_by_hand(p)
    assert attention is None
    np.testing.assert_allclose(hidden, expected, rtol=1e-3, atol=1e-3)
    assert (edge is None) == (edges is None)
    if edge is not None and edges is not None:
        np.testing.assert_allclose(edge, edges, rtol=1e-3, atol=1e-3)


def test_attention_by_hand() -> None:
    p = GAT(
        *(layer(i, BOTH) for i in (1, 2)),
        *(layer(i, BOTH, HEADS) for i in (3, 4)),
        edge=layer(5, EDGE, HEADS),
        graph=layer(6, GRAPH, HEADS),
        norm=None,
        full_adjacency=False,
    )
    hidden, edge, attention = one_round(p, NODES, EDGES, GRAPHS, ADJACENCY, HIDDEN)
    assert edge is None
    assert attention is not None
    expected, m = np.zeros((N, WIDTH)), WIDTH // HEADS
    for i in range(N):
        near = np.flatnonzero(ADJACENCY[i])
        total = [affine(p.receiver, Z[i]) + affine(p.sender, Z[j]) + affine(p.edge, E[i, j]) for j in near]
        logits = np.array(total) + affine(p.graph, G)
        logits = np.where(logits > 0, logits, 0.01 * logits)
        alpha = np.exp(logits) / np.exp(logits).sum(0)
        np.testing.assert_allclose(attention.coefficients[:, i, near].T, alpha, rtol=1e-3, atol=1e-5)
        values = affine(p.value, Z)[near].reshape(len(near), HEADS, m)
        expected[i] = relu(np.einsum("jh,jhm->hm", alpha, values).ravel() + affine(p.skip, Z[i]))
    np.testing.assert_allclose(hidden, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", PROCESSORS)
def test_weights_start_as_in_the_reference(kind: str) -> None:
    """Deviations of 1/sqrt(inputs), biases of 0, except that a gate is nearly closed."""
    net = jax.eval_shape(lambda: ClrsNet.init(BFS.spec, NetConfig(hidden=8, processor=kind), key=jax.random.key(0)))
    assert isinstance(net.processor, Processor)
    edge_widths = {layers[2].weight.shape[0] for name, layers in net.decoders.items() if name in ("pi", "pi_h")}
    assert edge_widths == {16 if kind == "triplet_gmpnn" else 8}
    if kind == "triplet_gmpnn":
        made = MessagePassing.of(NetConfig(hidden=64, processor=kind), key=jax.random.key(1))
        assert made.gate is not None
        assert made.triplets is not None
        assert np.all(made.gate.out.bias == -3)
        assert not np.any(made.gate.own.bias)
        assert made.triplets.out.weight.shape == (8, 64)
        assert float(jnp.std(made.sender.weight)) == pytest.approx(0.8796 / np.sqrt(128), rel=0.05)


MEANINGLESS = [
    ({"processor": "mpnn", "heads": 2}, "heads means nothing for the processor 'mpnn', only for gatv2 and gat; got 2"),
    ({"processor": "gat", "edge_info": True}, "edge_info means nothing for the processor 'gat', only for gatv2"),
    ({"processor": "pgn", "full_adjacency": True}, "With all pairs of nodes, 'pgn' is 'mpnn'"),
    ({"triplet_features": 4}, "triplet_features means nothing for the processor 'gatv2', only for triplet_gmpnn"),
    ({"processor": "triplet_gmpnn", "simplify_decoders": True}, "triplets of 'triplet_gmpnn' would do nothing"),
    ({"processor": "gnn"}, "processor must be one of 'gatv2', 'gat', 'mpnn', 'pgn', 'triplet_gmpnn'; got 'gnn'"),
]


@pytest.mark.parametrize(("settings", "message"), MEANINGLESS, ids=lambda x: str(x) if isinstance(x, dict) else "")
def test_settings_that_mean_nothing_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetConfig(**settings)
    with pytest.raises(ValueError, match=message):
        TrainConfig.from_settings(settings)


def test_a_bias_before_attention_is_gatv2s() -> None:
    settings = {"processor": "mpnn", "pre_attention_bias": True, "sizes": [4], "length_generalize": False}
    with pytest.raises(ValueError, match="pre_attention_bias means nothing for the processor 'mpnn'"):
        TrainConfig.from_settings(settings)


def test_the_references_names_of_settings_are_known() -> None:
    with pytest.raises(ValueError, match="'processor_type' is 'processor' here"):
        TrainConfig.from_settings({"processor_type": "mpnn"})
    with pytest.raises(ValueError, match="'nb_triplet_fts' is 'triplet_features' here"):
        TrainConfig.from_settings({"nb_triplet_fts": 8})


def test_a_run_with_gatv2_has_the_name_it_had() -> None:
    """Before there were others; the hash is of then."""
    assert run_name([TrainConfig()], None) == "bfs-af7c34a4e0c3a719"
    assert run_name([TrainConfig(processor="mpnn")], None) != run_name([TrainConfig()], None)


@pytest.fixture(scope="module")
def without_attention() -> ClrsNet:
    return some_net(BFS.spec, NetConfig(hidden=4, processor="mpnn"))


def test_what_needs_attention_refuses_others(without_attention: ClrsNet) -> None:
    trace = BFS.benchmark_sampler(3, 5, 1).next().pad(3)
    inputs, hints = ({k: x[0] for k, x in trace.inputs.items()}, {k: x[:, 0] for k, x in trace.hints.items()})
    swap = Replacement(jnp.zeros((2, 1, 1, 5, 5)), jnp.zeros((2, 1, 1, 5), bool))
    why = "needs attention, and the processor 'mpnn' has none. Use a network whose processor is gatv2 or gat"
    with pytest.raises(ValueError, match=f"A replacement of attention {why}"):
        without_attention(inputs, hints, 3, steps=3, replacement=swap)
    with pytest.raises(ValueError, match=f"A record of single heads {why}"):
        without_attention(inputs, hints, 3, steps=3, record=((0, 0),))
    with pytest.raises(ValueError, match=f"The mechanistic gap {why}"):
        mg.gap(without_attention, config=TrainConfig(processor="mpnn", hidden=4))
    with pytest.raises(ValueError, match=f"Looking at attention {why}"):
        attention_of(without_attention, as_batch(trace), 3)
    with pytest.raises(ValueError, match="whose processor is 'gatv2'; got 'mpnn'"):
        _ = without_attention.gatv2


def test_a_trace_of_a_network_without_attention_has_none(without_attention: ClrsNet) -> None:
    trace = BFS.benchmark_sampler(3, 5, 2, p=0.9).next()
    ran = run(without_attention, trace.inputs, {k: x[0] for k, x in trace.hints.items()}, trace.lengths)
    assert ran.attention is None
    assert ran.outputs["pi"].shape == (2, 5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gat", "mpnn", "pgn", "triplet_gmpnn"])
def test_every_processor_learns(kind: str) -> None:
    small = {"seeds": 1, "steps": 60, "hidden": 16, "sizes": (5,), "length_generalize": False, "eval_every": 20}
    ensemble = mg.train("bfs", processor=kind, learning_rate=3e-3, quiet=True, **small)
    assert ensemble.history["loss"][-1, 0] < 0.7 * ensemble.history["loss"][0, 0]
    assert ensemble.configs[0].processor == kind
