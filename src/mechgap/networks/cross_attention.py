"""Attention over sources of keys and values, and the gated block through which tokens look at a reasoner's states."""

import math
from itertools import accumulate
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mechgap.networks.layers import LayerNorm, Linear
from mechgap.networks.transformer import NEVER
from mechgap.networks.transnar_config import TransNARConfig


class Memory(NamedTuple):
    """The states of the reasoner that tokens look at, as sets: nothing depends on the order of nodes.

    Attributes:
        nodes: with a leading layer axis where every layer sees a state of its own.
        edges: of pairs of nodes; a leading layer axis as well.
        present: the nodes that exist; the others are padding.
        pairs: the edges that exist.
    """

    nodes: Float[Array, "*layers n node_width"]
    edges: Float[Array, "*layers n n edge_width"]
    present: Bool[Array, " n"]
    pairs: Bool[Array, "n n"]

    @classmethod
    def of(
        cls,
        nodes: Float[Array, "*layers n node_width"],
        edges: Float[Array, "*layers n n edge_width"],
        present: Bool[Array, " n"] | None = None,
    ) -> "Memory":
        """All nodes, or those present, and all pairs of them."""
        there = jnp.ones(nodes.shape[-2], bool) if present is None else present
        return cls(nodes, edges, there, there[:, None] & there[None, :])


class Source(NamedTuple):
    """What queries look at: places with keys and values, and which query sees which place."""

    keys: Float[Array, "*layers heads places k"]
    values: Float[Array, "*layers heads places k"]
    visible: Bool[Array, "*layers #queries places"]


class Weights(NamedTuple):
    """Where tokens looked; edges (i, j) are at i n + j. Rows sum to 1, or to 0 where nothing is there."""

    nodes: Float[Array, "*layers heads length n"]
    edges: Float[Array, "*layers heads length n*n"]


def attend(
    query: Float[Array, "heads length k"], *sources: Source
) -> tuple[Float[Array, "length d"], tuple[Float[Array, "heads length _"], ...]]:
    """What all heads read, side by side, and their weights over the places of every source: one softmax over all."""
    length, sizes = query.shape[1], [source.keys.shape[1] for source in sources]
    query = query / math.sqrt(query.shape[2])
    seen = jnp.concatenate(
        [jnp.broadcast_to(source.visible, (length, size)) for source, size in zip(sources, sizes, strict=True)], axis=-1
    )
    exact = jnp.promote_types(query.dtype, jnp.float32)
    products = [jnp.einsum("hlk,hsk->hls", query, s.keys, preferred_element_type=exact) for s in sources]
    logits = jnp.concatenate(products, axis=-1)
    # Where nothing is visible the softmax is even; the second mask makes it nothing.
    weights = jnp.where(seen, jax.nn.softmax(jnp.where(seen, logits, NEVER), axis=-1), 0)
    parts = tuple(jnp.split(weights, list(accumulate(sizes))[:-1], axis=-1))
    read = sum(
        jnp.einsum("hls,hsk->lhk", w.astype(s.values.dtype), s.values) for w, s in zip(parts, sources, strict=True)
    )
    return jnp.reshape(read, (length, -1)), parts


def split_heads(x: Float[Array, "places d"], heads: int) -> Float[Array, "heads places k"]:
    """The channels of each head."""
    return jnp.moveaxis(x.reshape(len(x), heads, -1), 1, 0)


class FeedForward(eqx.Module):
    """W2 gelu(W1 LN x)."""

    norm: LayerNorm
    first: Linear
    second: Linear

    @classmethod
    def init(cls, config: TransNARConfig, *, key: PRNGKeyArray) -> "FeedForward":
        """Random weights; what is added to the stream starts small, the more layers the smaller."""
        first, second = jax.random.split(key)
        small = 1 / math.sqrt(2 * config.layers * config.hidden)
        return cls(
            LayerNorm.init(config.width),
            Linear.init(config.width, config.hidden, key=first),
            Linear.init(config.hidden, config.width, key=second, stddev=small),
        )

    def __call__(self, x: Float[Array, "length d"]) -> Float[Array, "length d"]:
        return self.second(jax.nn.gelu(self.first(self.norm(x))))


class Look(eqx.Module):
    """One cross-attention: queries from tokens, keys and values from places of a memory."""

    norm: LayerNorm
    query: Linear
    mixed: Linear
    heads: int = eqx.field(static=True)

    @classmethod
    def init(cls, config: TransNARConfig, source: int, *, key: PRNGKeyArray) -> "Look":
        """Random weights for a memory of the given width."""
        query, mixed = jax.random.split(key)
        return cls(
            LayerNorm.init(source),
            Linear.init(config.width, config.width, key=query, bias=False),
            Linear.init(source, 2 * config.width, key=mixed, bias=False),
            config.heads,
        )

    def source(self, places: Float[Array, "places width"], visible: Bool[Array, " places"]) -> Source:
        """The keys and values of a memory."""
        both = split_heads(self.mixed(self.norm(places)), 2 * self.heads)
        return Source(both[: self.heads], both[self.heads :], visible[None, :])

    def __call__(
        self, x: Float[Array, "length d"], source: Source
    ) -> tuple[Float[Array, "length d"], Float[Array, "heads length places"]]:
        read, (weights,) = attend(split_heads(self.query(x), self.heads), source)
        return read, weights


class CrossBlock(eqx.Module):
    """A gated cross-attention block, as Flamingo has it.

    Attributes:
        out: W, on what nodes gave beside what edges gave.
        gates: a and b.
    """

    norm: LayerNorm
    nodes: Look
    edges: Look
    out: Linear
    mlp: FeedForward
    gates: Float[Array, "*layers 2"]

    @classmethod
    def init(cls, config: TransNARConfig, key: PRNGKeyArray) -> "CrossBlock":
        """Random weights behind shut gates."""
        d, (nodes, edges, out, mlp) = config.width, jax.random.split(key, 4)
        return cls(
            LayerNorm.init(d),
            Look.init(config, config.node_width, key=nodes),
            Look.init(config, config.edge_width, key=edges),
            Linear.init(2 * d, d, key=out),
            FeedForward.init(config, key=mlp),
            jnp.zeros(2),
        )

    def sources(self, memory: Memory) -> tuple[Source, Source]:
        """The keys and values of nodes and edges."""
        edges = memory.edges.reshape(-1, memory.edges.shape[-1])
        return self.nodes.source(memory.nodes, memory.present), self.edges.source(edges, memory.pairs.reshape(-1))

    def __call__(
        self, x: Float[Array, "length d"], sources: tuple[Source, Source], opened: Bool[Array, ""] | bool
    ) -> tuple[Float[Array, "length d"], Weights]:
        a, b = jnp.where(opened, jnp.tanh(self.gates), 0)
        asking = self.norm(x)
        from_nodes, node_weights = self.nodes(asking, sources[0])
        from_edges, edge_weights = self.edges(asking, sources[1])
        x = x + a * self.out(jnp.concatenate([from_nodes, from_edges], axis=-1))
        return x + b * self.mlp(x), Weights(node_weights, edge_weights)
