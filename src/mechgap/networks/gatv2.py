"""GATv2, the processor: one round of attention-weighted messages between the nodes of a graph.

| field     | paper                    | equation | reference parameter           |
|-----------|--------------------------|----------|-------------------------------|
| value     | W_val                    | 4        | linear                        |
| skip      | W_skip                   | 10       | linear_1                      |
| sender    | W_in (node j, attended)  | 5        | linear_2 (`w_1`)              |
| receiver  | W_out (node i, attends)  | 5        | linear_3 (`w_2`)              |
| edge      | W_edge                   | 5        | linear_4 (`w_e`)              |
| graph     | W_meta                   | 5        | linear_5 (`w_g`)              |
| attention | ω                        | 7        | linear_6, linear_7, ... heads |
| info      | W_info (an extension)    | 11       | none                          |
| bias      | B (an extension)         | 14       | none                          |
| norm      | layer norm               | after 10 | layer_norm                    |

The symbols are in docs/notation.md. Where paper and reference code differ, the code is followed: the ReLU is on the
sum, and `edge`, `info` and the adjacency are read at [i, j] by the receiver i.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mechgap.networks.config import NetConfig
from mechgap.networks.layers import LayerNorm, Linear, fold
from mechgap.networks.pairwise import attention_scores
from mechgap.networks.processor import Attention, Given, Round, attend, joined


class AttentionVectors(eqx.Module):
    """ω: one vector and one bias per head."""

    weight: Float[Array, "heads m"]
    bias: Float[Array, " heads"]


class GATv2(eqx.Module):
    """One round of graph attention.

        z = [node | hidden]                                                     Eq. 4
        ζ_ij = sender z_j + receiver z_i + edge e_ij + graph g (+ B_ij)         Eq. 5, 6 (14)
        α_i = softmax_j(ω leaky(ζ_ij) + 1e9 (A_ij - 1))                         Eq. 7-9
        hidden' = norm(relu(Σ_j α_ij value z_j + skip z_i (+ Σ_j α_ij info e_ij)))  Eq. 10 (11-13)

    Every layer has a bias, except `info`. There is no batch axis: map over it.
    """

    value: Linear
    skip: Linear
    sender: Linear
    receiver: Linear
    edge: Linear
    graph: Linear
    attention: AttentionVectors
    info: Linear | None
    bias: Float[Array, "n n"] | None
    norm: LayerNorm | None
    full_adjacency: bool = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        hidden: int,
        *,
        key: PRNGKeyArray,
        heads: int = 1,
        use_layer_norm: bool = True,
        edge_info: bool = False,
        pre_attention_bias: int | None = None,
        full_adjacency: bool = False,
    ) -> "GATv2":
        """A processor with random weights whose node, edge and graph features are `hidden` wide.

        Args:
            hidden: s, the width.
            key: a JAX key.
            heads: d; must divide `hidden`.
            use_layer_norm: normalise the result.
            edge_info: add the attended edges' features to the result (Eq. 11-13).
            pre_attention_bias: n, to add the learned n x n matrix B to ζ (Eq. 14); such a network serves graphs of n
                nodes only. B starts at 0.
            full_adjacency: every node may attend every node.
        """
        if hidden % heads:
            raise ValueError(f"heads must divide hidden; got heads = {heads}, hidden = {hidden}.")
        keys = jax.random.split(key, 8)
        vectors = Linear.init(hidden // heads, heads, key=keys[6])
        return cls(
            **{
                name: Linear.init(2 * hidden, hidden, key=k)
                for name, k in zip(("value", "skip", "sender", "receiver"), keys[:4], strict=True)
            },
            edge=Linear.init(hidden, hidden, key=keys[4]),
            graph=Linear.init(hidden, hidden, key=keys[5]),
            attention=AttentionVectors(vectors.weight.T, jnp.zeros(heads)),
            info=Linear.init(hidden, hidden, key=keys[7], bias=False) if edge_info else None,
            bias=None if pre_attention_bias is None else jnp.zeros((pre_attention_bias, pre_attention_bias)),
            norm=LayerNorm.init(hidden) if use_layer_norm else None,
            full_adjacency=full_adjacency,
        )

    @classmethod
    def of(cls, config: NetConfig, *, key: PRNGKeyArray) -> "GATv2":
        """The processor of a config, with random weights."""
        return cls.init(
            config.hidden,
            key=key,
            heads=config.heads,
            use_layer_norm=config.use_layer_norm,
            edge_info=config.edge_info,
            pre_attention_bias=config.pre_attention_bias,
            full_adjacency=config.full_adjacency,
        )

    @property
    def heads(self) -> int:
        """d, the number of attention heads."""
        return self.attention.bias.shape[-1]

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
        """The next hidden state, and the attention that made it.

        Args:
            node: V.
            edge: E; node i sees the features at [i, j] when it looks at node j.
            graph: g.
            adjacency: A; 1 where node i may attend node j.
            hidden: H.
            present: which nodes there are; None for all.
            given: coefficients to use instead of its own, and at which rows i of which heads.
        """
        z = jnp.concatenate([node, hidden], axis=-1)
        logits = self._logits(z, edge, graph)
        coefficients = attend(logits, joined(adjacency, self.full_adjacency, present), given)
        total = self._attended(coefficients, z, edge) + self.skip(z)
        following = jax.nn.relu(total)
        following = following if self.norm is None else self.norm(following)
        return Round(following, attention=Attention(logits, coefficients))

    def _logits(self, z: Array, edge: Array, graph: Array) -> Float[Array, "heads n n"]:
        constant = self.graph(graph)  # and the edge layer's bias: the same for every pair
        constant = constant if self.edge.bias is None else constant + self.edge.bias
        weight = self.edge.weight
        if self.bias is not None:  # B is one more value on every edge, read with weight 1
            edge = jnp.concatenate([edge, self.bias[:, :, None]], axis=-1)
            weight = jnp.concatenate([weight, jnp.ones_like(weight[:1])])
        scores = attention_scores(self.sender(z), self.receiver(z) + constant, edge, weight, self.attention.weight)
        return scores + self.attention.bias[:, None, None]

    def _attended(self, coefficients: Array, z: Array, edge: Array) -> Float[Array, "n s"]:
        n, heads = z.shape[0], self.heads
        values = self.value(z).reshape(n, heads, -1)
        total = jnp.einsum("hij,jhm->ihm", coefficients, values)
        if self.info is not None:
            # Attend the edges first, then map them: the same sum, without an [n, n, s] array.
            attended = jnp.einsum("hij,ijk->ihk", coefficients, edge)
            weight = self.info.weight.reshape(-1, heads, values.shape[-1])
            total = total + jnp.einsum("ihk,khm->ihm", attended, weight)
            total = total if self.info.bias is None else total + self.info.bias.reshape(heads, -1)
        return total.reshape(n, -1)

    def folded(self, node: Linear, edge: Linear, graph: Linear) -> "GATv2":
        """The same processor behind these encoders: it takes what they take."""
        on_nodes = {name: fold(node, getattr(self, name)) for name in ("value", "skip", "sender", "receiver")}
        return GATv2(
            **on_nodes,
            edge=fold(edge, self.edge),
            graph=fold(graph, self.graph),
            attention=self.attention,
            info=None if self.info is None else fold(edge, self.info),
            bias=self.bias,
            norm=self.norm,
            full_adjacency=self.full_adjacency,
        )
