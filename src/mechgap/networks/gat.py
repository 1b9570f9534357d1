"""GAT, the first graph attention: its logits are a sum of one number per node, neighbour, edge and graph.

| field    | reference parameter                            |
|----------|------------------------------------------------|
| value    | linear (`m`)                                   |
| skip     | linear_1                                       |
| receiver | linear_2 (`a_1`: node i, which attends)        |
| sender   | linear_3 (`a_2`: node j, which is attended)    |
| edge     | linear_4 (`a_e`)                               |
| graph    | linear_5 (`a_g`)                               |
| norm     | layer_norm                                     |
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mechgap.networks.config import NetConfig
from mechgap.networks.layers import LayerNorm, Linear, fold
from mechgap.networks.pairwise_recompute import LEAK
from mechgap.networks.processor import Attention, Given, Round, attend, joined


class GAT(eqx.Module):
    """One round of graph attention.

        z = [node | hidden]
        α_i = softmax_j(leaky(receiver z_i + sender z_j + edge e_ij + graph g) + 1e9 (A_ij - 1))
        hidden' = norm(relu(Σ_j α_ij value z_j + skip z_i))

    with one α per head.
    """

    value: Linear
    skip: Linear
    receiver: Linear
    sender: Linear
    edge: Linear
    graph: Linear
    norm: LayerNorm | None
    full_adjacency: bool = eqx.field(static=True)

    @classmethod
    def of(cls, config: NetConfig, *, key: PRNGKeyArray) -> "GAT":
        """A processor with random weights."""
        s, heads, keys = config.hidden, config.heads, jax.random.split(key, 6)
        return cls(
            value=Linear.init(2 * s, s, key=keys[0]),
            skip=Linear.init(2 * s, s, key=keys[1]),
            receiver=Linear.init(2 * s, heads, key=keys[2]),
            sender=Linear.init(2 * s, heads, key=keys[3]),
            edge=Linear.init(s, heads, key=keys[4]),
            graph=Linear.init(s, heads, key=keys[5]),
            norm=LayerNorm.init(s) if config.use_layer_norm else None,
            full_adjacency=config.full_adjacency,
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
        z = jnp.concatenate([node, hidden], axis=-1)
        total = self.receiver(z)[:, None, :] + self.sender(z)[None, :, :] + self.edge(edge) + self.graph(graph)
        logits = jnp.moveaxis(jax.nn.leaky_relu(total, LEAK), -1, 0)
        coefficients = attend(logits, joined(adjacency, self.full_adjacency, present), given)
        values = self.value(z).reshape(len(z), len(logits), -1)
        heard = jnp.einsum("hij,jhm->ihm", coefficients, values).reshape(len(z), -1)
        following = jax.nn.relu(heard + self.skip(z))
        following = following if self.norm is None else self.norm(following)
        return Round(following, attention=Attention(logits, coefficients))

    def folded(self, node: Linear, edge: Linear, graph: Linear) -> "GAT":
        """The same processor behind these encoders: it takes what they take."""
        return GAT(
            **{name: fold(node, getattr(self, name)) for name in ("value", "skip", "receiver", "sender")},
            edge=fold(edge, self.edge),
            graph=fold(graph, self.graph),
            norm=self.norm,
            full_adjacency=self.full_adjacency,
        )
