"""What a processor is: one round of messages between the nodes of a graph. Each kind is a file of its own.

| `NetConfig.processor` | file               | a node hears                              | has                       |
|-----------------------|--------------------|-------------------------------------------|---------------------------|
| gatv2                 | gatv2.py           | neighbours, weighted by attention         | attention                 |
| gat                   | gat.py             | the same, with a simpler attention        | attention                 |
| pgn                   | message_passing.py | the largest message of its neighbours     |                           |
| mpnn                  | message_passing.py | the largest message of all nodes          |                           |
| triplet_gmpnn         | message_passing.py | the same, behind a gate                   | hidden states of edges    |
"""

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from mechgap.networks.layers import Linear

MASK = 1e9  # c of Eq. 8

Given = tuple[Float[Array, "heads n n"], Bool[Array, "heads n"]]


class Attention(NamedTuple):
    """What one round of attention saw; [h, i, j] is how head h of node i looks at node j."""

    logits: Float[Array, "heads n n"]  # a, before the adjacency mask
    coefficients: Float[Array, "heads n n"]  # α: each row sums to 1


class Round(NamedTuple):
    """What one round of messages leaves behind."""

    hidden: Float[Array, "n s"]
    edge: Float[Array, "n n s"] | None = None  # hidden states of edges, which decoders read
    attention: Attention | None = None


@runtime_checkable
class Processor(Protocol):
    """From features, adjacency and hidden state to the next hidden state. There is no batch axis: map over it."""

    def __call__(
        self,
        node: Float[Array, "n node_width"],
        edge: Float[Array, "n n edge_width"],
        graph: Float[Array, " graph_width"],
        adjacency: Bool[Array, "n n"] | Float[Array, "n n"],
        hidden: Float[Array, "n s"],
        present: Bool[Array, " n"] | None = None,
        given: Given | None = None,
    ) -> Round:
        """One round.

        Args:
            node: V.
            edge: E.
            graph: g.
            adjacency: A; 1 where two nodes exchange messages.
            hidden: H.
            present: which nodes there are, where a graph is padded; nothing is heard of the others. None for all.
            given: attention coefficients to use instead of its own, and at which rows i of which heads.
        """
        ...

    def folded(self, node: Linear, edge: Linear, graph: Linear) -> "Processor":
        """The same processor behind these encoders: it takes what they take."""
        ...


def joined(
    adjacency: Bool[Array, "n n"] | Float[Array, "n n"], full: bool, present: Bool[Array, " n"] | None
) -> Bool[Array, "n n"]:
    """Which pairs exchange messages: neighbours, or all; an absent node has only itself."""
    pairs = jnp.ones(adjacency.shape, bool) if full else adjacency.astype(bool)
    if present is None:
        return pairs
    return (pairs & present[:, None] & present[None, :]) | jnp.eye(len(present), dtype=bool)


def attend(
    logits: Float[Array, "heads n n"], pairs: Bool[Array, "n n"], given: Given | None
) -> Float[Array, "heads n n"]:
    """α = softmax_j(a_ij + 1e9 (A_ij - 1)) (Eq. 8, 9), or what is given instead."""
    coefficients = jax.nn.softmax(logits + MASK * (pairs.astype(logits.dtype) - 1), axis=-1)
    if given is None:
        return coefficients
    return jnp.where(given[1][..., None], given[0].astype(logits.dtype), coefficients)
