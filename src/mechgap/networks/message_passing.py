"""PGN, MPNN and Triplet-GMPNN: every node hears the largest of the messages that are sent to it, number by number.

A pointer graph network (pgn) hears its neighbours, a message passing network (mpnn) all nodes; the benchmark's best
processor (triplet_gmpnn) adds hidden states of edges, made from triples of nodes, and a gate.

| field                                             | reference parameter                           |
|---------------------------------------------------|-----------------------------------------------|
| receiver, sender, edge, graph                     | linear (`m_1`), linear_1, linear_2, linear_3  |
| message                                           | mlp/~/linear_0, mlp/~/linear_1                |
| skip, heard                                       | linear_4 (`o1`), linear_5 (`o2`)              |
| triplets: first, second, third                    | linear_6, linear_7, linear_8                  |
| triplets: first_second, first_third, second_third | linear_9, linear_10, linear_11                |
| triplets: graph, out                              | linear_12, linear_13 (`o3`)                   |
| gate: own, heard, out                             | linear_14, linear_15, linear_16               |
| norm                                              | layer_norm                                    |

A message at [i, j] goes from node i to node j, the other way round than attention is written.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mechgap.networks.config import NetConfig
from mechgap.networks.layers import LayerNorm, Linear, fold
from mechgap.networks.padding import ABSENT
from mechgap.networks.pairwise_recompute import on_pairs
from mechgap.networks.processor import Given, Round, joined

NOT_SENT = -1e6  # stands for a message between nodes that are not joined
CLOSED = -3.0  # a gate's bias at first: hidden states are mostly kept


class Triplets(eqx.Module):
    """Hidden states of edges: edge_jk = relu(out max_i t_ijk), where t_ijk is a sum over the nodes, edges and graph.

    t_ijk = first z_i + second z_j + third z_k + first_second e_ij + first_third e_ik + second_third e_jk + graph g
    """

    first: Linear
    second: Linear
    third: Linear
    first_second: Linear
    first_third: Linear
    second_third: Linear
    graph: Linear
    out: Linear

    @classmethod
    def init(cls, hidden: int, features: int, *, key: PRNGKeyArray) -> "Triplets":
        """Random weights; `features` is the width of t."""
        keys = jax.random.split(key, 8)
        shapes = [(2 * hidden, features)] * 3 + [(hidden, features)] * 4 + [(features, hidden)]
        return cls(*(Linear.init(*shape, key=k) for shape, k in zip(shapes, keys, strict=True)))

    @jax.checkpoint  # [n, n, n, features] is never kept for the backward pass
    def __call__(self, z: Array, edge: Array, graph: Array, present: Array | None) -> Float[Array, "n n s"]:
        """The hidden states of all edges. What is the same for all i waits until the maximum is taken."""
        ij = self.first(z)[:, None, :] + self.first_second(edge)
        if present is not None:
            ij = jnp.where(present[:, None, None], ij, -ABSENT)
        best = largest(ij[:, :, None, :] + self.first_third(edge)[:, None, :, :])
        rest = self.second(z)[:, None, :] + self.third(z)[None, :, :] + self.second_third(edge) + self.graph(graph)
        return jax.nn.relu(self.out(best + rest))

    def folded(self, node: Linear, edge: Linear, graph: Linear) -> "Triplets":
        """The same behind these encoders."""
        return Triplets(
            **{name: fold(node, getattr(self, name)) for name in ("first", "second", "third")},
            **{name: fold(edge, getattr(self, name)) for name in ("first_second", "first_third", "second_third")},
            graph=fold(graph, self.graph),
            out=self.out,
        )


class Gate(eqx.Module):
    """How much of a new hidden state is let in: sigmoid(out relu(own z_j + heard m_j))."""

    own: Linear
    heard: Linear
    out: Linear

    @classmethod
    def init(cls, hidden: int, *, key: PRNGKeyArray) -> "Gate":
        """Random weights, and nearly closed."""
        keys = jax.random.split(key, 3)
        out = replace(Linear.init(hidden, hidden, key=keys[2]), bias=jnp.full(hidden, CLOSED))
        return cls(Linear.init(2 * hidden, hidden, key=keys[0]), Linear.init(hidden, hidden, key=keys[1]), out)

    def __call__(self, z: Float[Array, "n both"], heard: Float[Array, "n s"]) -> Float[Array, "n s"]:
        return jax.nn.sigmoid(self.out(jax.nn.relu(self.own(z) + self.heard(heard))))


class MessagePassing(eqx.Module):
    """One round of messages.

    z = [node | hidden]
    m_j = max_i message(relu(receiver z_j + sender z_i + edge e_ij + graph g))     over joined i, j
    new_j = norm(relu(skip z_j + heard m_j))
    hidden' = new, or with a gate: gate new + (1 - gate) hidden
    """

    receiver: Linear
    sender: Linear
    edge: Linear
    graph: Linear
    message: tuple[Linear, Linear]  # with a ReLU between the two
    skip: Linear
    heard: Linear
    norm: LayerNorm | None
    triplets: Triplets | None
    gate: Gate | None
    full_adjacency: bool = eqx.field(static=True)

    @classmethod
    def of(cls, config: NetConfig, *, key: PRNGKeyArray) -> "MessagePassing":
        """A processor with random weights."""
        s, keys = config.hidden, jax.random.split(key, 10)
        return cls(
            receiver=Linear.init(2 * s, s, key=keys[0]),
            sender=Linear.init(2 * s, s, key=keys[1]),
            edge=Linear.init(s, s, key=keys[2]),
            graph=Linear.init(s, s, key=keys[3]),
            message=(Linear.init(s, s, key=keys[4]), Linear.init(s, s, key=keys[5])),
            skip=Linear.init(2 * s, s, key=keys[6]),
            heard=Linear.init(s, s, key=keys[7]),
            norm=LayerNorm.init(s) if config.use_layer_norm else None,
            triplets=Triplets.init(s, config.triplet_features, key=keys[8]) if config.has_triplets else None,
            gate=Gate.init(s, key=keys[9]) if config.processor == "triplet_gmpnn" else None,
            full_adjacency=config.processor != "pgn",
        )

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
        """See `Processor`."""
        if given is not None:
            raise ValueError("There is no attention in message passing that could be replaced.")
        z = jnp.concatenate([node, hidden], axis=-1)
        heard = self._heard(z, edge, graph, joined(adjacency, self.full_adjacency, present))
        following = jax.nn.relu(self.skip(z) + self.heard(heard))
        following = following if self.norm is None else self.norm(following)
        if self.gate is not None:
            gate = self.gate(z, heard)
            following = following * gate + hidden * (1 - gate)
        return Round(following, None if self.triplets is None else self.triplets(z, edge, graph, present))

    @jax.checkpoint  # no [n, n, s] array is kept for the backward pass
    def _heard(self, z: Array, edge: Array, graph: Array, pairs: Array) -> Float[Array, "n s"]:
        """m: the largest message to every node."""
        constant = self.graph(graph)  # and the edge layer's bias: the same for every pair
        constant = constant if self.edge.bias is None else constant + self.edge.bias
        sent = self.sender(z)[:, None, :] + (self.receiver(z) + constant)[None, :, :]
        first, second = self.message
        messages = second(jax.nn.relu(first(jax.nn.relu(sent + on_pairs(edge, self.edge.weight)))))
        return largest(jnp.where(pairs[:, :, None], messages, NOT_SENT))

    def folded(self, node: Linear, edge: Linear, graph: Linear) -> "MessagePassing":
        """The same processor behind these encoders: it takes what they take."""
        return replace(
            self,
            receiver=fold(node, self.receiver),
            sender=fold(node, self.sender),
            skip=fold(node, self.skip),
            edge=fold(edge, self.edge),
            graph=fold(graph, self.graph),
            triplets=None if self.triplets is None else self.triplets.folded(node, edge, graph),
            gate=None if self.gate is None else replace(self.gate, own=fold(node, self.gate.own)),
        )


def largest(x: Float[Array, "n *rest"]) -> Float[Array, "*rest"]:
    """The maximum over the first axis, of which the gradient goes to the first place that has it.

    The gradient of jnp.max goes where x equals the maximum. A compiler may make x twice, in two fused loops that round
    in two ways: then x equals its maximum nowhere, and the gradient is 0/0 (this was seen). A place cannot be missed.
    """
    first = jnp.argmax(jax.lax.stop_gradient(x), axis=0)
    here = jnp.arange(len(x), dtype=first.dtype).reshape(-1, *(1,) * first.ndim) == first
    return jnp.sum(jnp.where(here, x, jnp.zeros((), x.dtype)), axis=0)
