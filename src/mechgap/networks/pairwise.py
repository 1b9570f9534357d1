"""The two operations on every pair of nodes: attention scores and pointer scores.

They hold nearly all of a network's arithmetic. Neither ever keeps an [n, n, hidden] array for the backward pass: it is
made again from [n, hidden] and [n, n, K] ones, K being the few values that live on an edge.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

LEAK = 0.01  # slope of the leaky ReLU below 0


@jax.checkpoint
def attention_scores(
    sender: Float[Array, "n s"],
    receiver: Float[Array, "n s"],
    edge: Float[Array, "n n K"],
    weight: Float[Array, "K s"],
    vectors: Float[Array, "heads m"],
) -> Float[Array, "heads n n"]:
    """a[h, i, j] = ω_h · leaky(ζ_ij)_h with ζ_ij = receiver_i + sender_j + edge_ij W, split into heads (Eq. 6, 7)."""
    zeta = receiver[:, None, :] + sender[None, :, :] + _on_pairs(edge, weight)
    split = jax.nn.leaky_relu(zeta, LEAK).reshape(*zeta.shape[:2], *vectors.shape)
    return jnp.einsum("ijhm,hm->hij", split, vectors)


@jax.checkpoint
def pointer_scores(
    source: Float[Array, "n s"],
    target: Float[Array, "n s"],
    edge: Float[Array, "n n K"],
    weight: Float[Array, "K s"],
    vector: Float[Array, " s"],
) -> Float[Array, "n n"]:
    """y[i, j] = w · max(source_i, target_j + edge_ji W): the edge is read from j to i (Eq. 27-29)."""
    reversed_edge = jnp.swapaxes(edge, 0, 1)
    best = jnp.maximum(source[:, None, :], target[None, :, :] + _on_pairs(reversed_edge, weight))
    return best @ vector


def _on_pairs(edge: Float[Array, "n n K"], weight: Float[Array, "K s"]) -> Float[Array, "#n #n s"]:
    """edge W as a sum of K outer products, which stays inside one fused loop; K is small."""
    terms = [edge[:, :, k, None] * weight[k] for k in range(weight.shape[0])]
    return sum(terms[1:], terms[0]) if terms else jnp.zeros((1, 1, weight.shape[1]), weight.dtype)
