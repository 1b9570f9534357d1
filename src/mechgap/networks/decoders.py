"""From hidden states to logits: the decoder of every location and kind, as in the reference.

A decoder is a tuple of layers. `layout` says what each of them reads and how wide its result is:

| variable      | layers                  | logits                                                                |
|---------------|-------------------------|-----------------------------------------------------------------------|
| node          | L0: node                | L0 h_i                                                                |
| node, pointer | L0, L1: node, L2: edge  | L3 max(L0 h_i, L1 h_j + L2 e_ji)                                      |
| edge          | L0, L1: node, L2: edge  | L0 h_i + L1 h_j + L2 e_ij                                             |
| edge, pointer | + L3: node              | L4 max(L0 h_i + L1 h_j + L2 e_ij, L3 h_k)                             |
| graph         | L0: pooled, L1: graph   | L0 max_i h_i + L1 g                                                   |
| graph, pointer| + L2: node              | L0 max_i h_i + L1 g + L2 h_i                                          |

with h = [node features | hidden before | hidden after], 3 s wide; e has an edge's features, and its hidden state where
the processor makes one. The logits of absent nodes (padding.py) are far below all others. Simplified decoders
(`NetConfig.simplify_decoders`) read no edge features: an edge is L0 h_i + L1 h_j, and a pointer is decoded by
position, -c |v - pos_j| (Eq. 31), where v is L0 h_i for a node and L0 h_i + L1 h_j for an edge.
"""

from enum import Enum
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mechgap.networks.config import NetConfig
from mechgap.networks.encoders import POINTERS, check_supported
from mechgap.networks.layers import Linear, fold
from mechgap.networks.padding import chooses_node, only_present
from mechgap.networks.pairwise import pointer_scores
from mechgap.networks.sinkhorn import log_sinkhorn
from mechgap.trace import Kind, Location, Variable

Decoders = dict[str, tuple[Linear, ...]]
SHARPNESS = 1e3  # c of Eq. 31, where a positional decoder starts
SINKHORN_STEPS = 10


class Reads(Enum):
    """What a decoder's layer reads."""

    NODE = "node"  # h_i, 3 s wide
    POOLED = "pooled"  # max_i h_i, 3 s wide
    EDGE = "edge"  # e_ij, s wide, or 2 s with hidden states of edges
    GRAPH = "graph"  # g, s wide
    LATENT = "latent"  # the decoder's own s numbers
    DISTANCE = "distance"  # |v - pos_j|, one number


class Readable(NamedTuple):
    """What decoders read; node, edge and graph features are still the collected numbers (decoders are folded)."""

    node: Float[Array, "n node_numbers_and_hiddens"]
    edge: Float[Array, "n n edge_numbers_and_hidden"]
    graph: Float[Array, " graph_numbers"]
    pooled: Float[Array, " triple"]
    pos: Float[Array, " n"]
    present: Bool[Array, " n"] | None


def layout(variable: Variable, config: NetConfig) -> tuple[tuple[Reads, int], ...]:
    """What each layer of a variable's decoder reads, and the width of its result."""
    check_supported(variable)
    width, s = variable.classes or 1, config.hidden
    pointer = variable.kind in POINTERS
    ends, latent_ends = ((Reads.NODE, width),) * 2, ((Reads.NODE, s),) * 2
    match variable.location, pointer, config.simplify_decoders:
        case Location.NODE, False, _:
            return ((Reads.NODE, width),)
        case Location.NODE, True, False:
            return (*latent_ends, (Reads.EDGE, s), (Reads.LATENT, 1))
        case Location.NODE, True, True:
            return ((Reads.NODE, 1), (Reads.DISTANCE, 1))
        case Location.EDGE, False, False:
            return (*ends, (Reads.EDGE, width))
        case Location.EDGE, False, True:
            return ends
        case Location.EDGE, True, False:
            return (*latent_ends, (Reads.EDGE, s), (Reads.NODE, s), (Reads.LATENT, 1))
        case Location.EDGE, True, True:
            return (*ends, (Reads.DISTANCE, 1))
        case Location.GRAPH, False, _:
            return ((Reads.POOLED, width), (Reads.GRAPH, width))
        case _:
            return ((Reads.POOLED, 1), (Reads.GRAPH, 1), (Reads.NODE, 1))


def make_decoder(variable: Variable, config: NetConfig, *, key: PRNGKeyArray) -> tuple[Linear, ...]:
    """The layers that decode one variable, with random weights."""
    s = config.hidden
    edge = 2 * s if config.has_triplets else s
    widths = {Reads.NODE: 3 * s, Reads.POOLED: 3 * s, Reads.EDGE: edge, Reads.GRAPH: s, Reads.LATENT: s}
    plan = layout(variable, config)
    return tuple(
        Linear(jnp.full((1, 1), -SHARPNESS), None)
        if reads == Reads.DISTANCE
        else Linear.init(widths[reads], outputs, key=k)
        for (reads, outputs), k in zip(plan, jax.random.split(key, len(plan)), strict=True)
    )


def fold_decoder(
    variable: Variable, layers: tuple[Linear, ...], config: NetConfig, node: Linear, edge: Linear, graph: Linear
) -> tuple[Linear, ...]:
    """The same decoder behind these encoders. (A maximum over nodes cannot be folded: pooled layers stay.)"""
    encoder = {Reads.NODE: node, Reads.EDGE: edge, Reads.GRAPH: graph}
    plan = zip(layout(variable, config), layers, strict=True)
    return tuple(fold(encoder[reads], layer) if reads in encoder else layer for (reads, _), layer in plan)


def decode(
    variable: Variable, layers: tuple[Linear, ...], x: Readable, config: NetConfig, key: PRNGKeyArray | None
) -> Array:
    """The logits of one variable by its folded decoder; a key adds the noise that permutations are trained with."""
    logits = _decode(variable, layers, x, config)
    if variable.kind == Kind.PERMUTATION_POINTER:
        return log_sinkhorn(logits, SINKHORN_STEPS, key, x.present)
    return only_present(logits, x.present) if chooses_node(variable) else logits


def _decode(variable: Variable, layers: tuple[Linear, ...], x: Readable, config: NetConfig) -> Array:
    if variable.location == Location.GRAPH:
        return _decode_graph(variable, layers, x)
    if variable.location == Location.EDGE:
        return _decode_edge(variable, layers, x, config)
    if variable.kind not in POINTERS:
        return _without_last(variable, layers[0](x.node))
    if config.simplify_decoders:
        return _by_position(layers[1], layers[0](x.node), x.pos)
    source, target, edge, head = layers
    logits = pointer_scores(source(x.node), _shifted(target(x.node), edge), x.edge, edge.weight, head.weight[:, 0])
    return logits if head.bias is None else logits + head.bias


def _decode_edge(variable: Variable, layers: tuple[Linear, ...], x: Readable, config: NetConfig) -> Array:
    both = layers[0](x.node)[:, None, :] + layers[1](x.node)[None, :, :]
    if not config.simplify_decoders:
        both = both + layers[2](x.edge)
    if variable.kind != Kind.POINTER:
        return _without_last(variable, both)
    if config.simplify_decoders:
        return _by_position(layers[2], both, x.pos)
    best = jnp.maximum(both[:, :, None, :], layers[3](x.node)[None, None, :, :])
    return layers[4](best)[..., 0]


def _decode_graph(variable: Variable, layers: tuple[Linear, ...], x: Readable) -> Array:
    whole = layers[0](x.pooled) + layers[1](x.graph)
    return _without_last(variable, whole) if variable.kind != Kind.POINTER else whole + layers[2](x.node)[:, 0]


def _by_position(distance: Linear, v: Float[Array, "*places 1"], pos: Float[Array, " n"]) -> Float[Array, "*places n"]:
    return distance(jnp.abs(v - pos)[..., None])[..., 0]


def _shifted(x: Float[Array, "n s"], edge: Linear) -> Float[Array, "n s"]:
    """The edge layer's bias, the same on every edge, is added to the nodes instead."""
    return x if edge.bias is None else x + edge.bias


def _without_last(variable: Variable, x: Array) -> Array:
    return x if variable.kind == Kind.CATEGORICAL else x[..., 0]
