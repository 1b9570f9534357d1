"""Scores of pairs of nodes in plain jax.numpy, with a backward pass that makes the [n, n, s] tile again.

On a CPU, XLA left alone makes the tile anew inside each of the five sums over it, one number at a time. Here it is
written once, behind a barrier, and the sums are matrix products wherever they are weighted.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

LEAK = 0.01  # slope of the leaky ReLU below 0
FEW = 16  # values on an edge up to which their products are fused; hidden states of edges are multiplied as a matrix


class Operands(NamedTuple):
    """What scores are made of, or the gradients of these."""

    left: Float[Array, "n s"]
    right: Float[Array, "n s"]
    edge: Float[Array, "n n K"]
    weight: Float[Array, "K s"]
    vectors: Float[Array, "heads m"]


class Combine(NamedTuple):
    """How the sides of a pair meet: scores[h, i, j] = vectors_h · value(left_i, right_j + edge_ij weight)_h."""

    value: Callable[[Array, Array], Array]
    slopes: Callable[[Array, Array], tuple[Array, Array]]  # the derivatives of `value` by its two arguments


def _leaky_value(left: Array, right: Array) -> Array:
    total = left + right
    return jnp.where(total >= 0, total, LEAK * total)


def _leaky_slopes(left: Array, right: Array) -> tuple[Array, Array]:
    total = left + right
    slope = jnp.where(total >= 0, jnp.ones_like(total), jnp.full_like(total, LEAK))
    return slope, slope


def _max_slopes(left: Array, right: Array) -> tuple[Array, Array]:
    """Where both are equal each takes half, as in jnp.maximum."""
    zero = jnp.zeros_like(left + right)
    of_left = jnp.where(left > right, zero + 1, jnp.where(left == right, zero + 0.5, zero))
    return of_left, 1 - of_left


LEAKY_SUM = Combine(_leaky_value, _leaky_slopes)
MAXIMUM = Combine(jnp.maximum, _max_slopes)


def on_pairs(edge: Float[Array, "n n K"], weight: Float[Array, "K s"]) -> Float[Array, "#n #n s"]:
    """edge W as a sum of K outer products, which stays inside one fused loop, where K is small."""
    if weight.shape[0] > FEW:
        return edge @ weight
    terms = [edge[:, :, k, None] * weight[k] for k in range(weight.shape[0])]
    return sum(terms[1:], terms[0]) if terms else jnp.zeros((1, 1, weight.shape[1]), weight.dtype)


def forward(combine: Combine, x: Operands) -> Float[Array, "heads n n"]:
    """The scores."""
    tile = _written(combine.value(*_sides(x)))
    return jnp.einsum("ijhm,hm->hij", _split(tile, x), x.vectors)


def backward(combine: Combine, x: Operands, scores: Float[Array, "heads n n"]) -> Operands:
    """The gradients, from the gradient of the scores."""
    sides, pairs = _sides(x), (scores.shape[1] ** 2, -1)
    pull = jnp.einsum("hij,hm->ijhm", scores, x.vectors).reshape(*scores.shape[1:], -1)
    to_left, to_right = combine.slopes(*sides)
    of_right = _written(pull * to_right)
    of_left = of_right if to_left is to_right else _written(pull * to_left)
    value = _written(combine.value(*sides))
    return Operands(
        left=jnp.sum(of_left, axis=1),
        right=jnp.sum(of_right, axis=0),
        edge=(of_right.reshape(pairs) @ x.weight.T).reshape(x.edge.shape),
        weight=x.edge.reshape(pairs).T @ of_right.reshape(pairs),
        vectors=jnp.einsum("hx,xhm->hm", scores.reshape(len(scores), -1), value.reshape(-1, *x.vectors.shape)),
    )


def _sides(x: Operands) -> tuple[Float[Array, "n 1 s"], Float[Array, "n n s"]]:
    return x.left[:, None, :], x.right[None, :, :] + on_pairs(x.edge, x.weight)


def _split(tile: Float[Array, "n n s"], x: Operands) -> Float[Array, "n n heads m"]:
    return tile.reshape(*tile.shape[:2], *x.vectors.shape)


def _written(tile: Float[Array, "n n s"]) -> Float[Array, "n n s"]:
    return jax.lax.optimization_barrier(tile)
