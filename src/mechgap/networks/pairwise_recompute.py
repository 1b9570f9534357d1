"""Scores of pairs of nodes in plain jax.numpy, with a backward pass that makes the [n, n, m] tile again.

The tile is written once, behind a barrier, and every sum over it is a matrix product: on a CPU, XLA would otherwise make
the tile again inside each of the five sums, one number at a time.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

LEAK = 0.01  # slope of the leaky ReLU below 0

Gradients = tuple[Array, Array, Array, Array, Array]  # of left, right, edge, weight and vectors


class Combine(NamedTuple):
    """How the two sides of a pair meet: score[h, i, j] = vector_h · value(left_i, right_j + edge_ij weight)_h."""

    value: Callable[[Array, Array], Array]
    slopes: Callable[[Array, Array], tuple[Array, Array]]  # the derivatives of `value` by its two arguments


def _leaky_slopes(left: Array, right: Array) -> tuple[Array, Array]:
    slope = jnp.where(left + right >= 0, jnp.ones_like(left), jnp.full_like(left, LEAK))
    return slope, slope


def _max_slopes(left: Array, right: Array) -> tuple[Array, Array]:
    """Where both are equal, each takes half, as in jnp.maximum."""
    half = jnp.full_like(left, 0.5)
    of_left = jnp.where(left > right, jnp.ones_like(left), jnp.where(left == right, half, jnp.zeros_like(left)))
    return of_left, 1 - of_left


def _leaky_value(left: Array, right: Array) -> Array:
    total = left + right
    return jnp.where(total >= 0, total, LEAK * total)


LEAKY_SUM = Combine(_leaky_value, _leaky_slopes)
MAXIMUM = Combine(jnp.maximum, _max_slopes)


def on_pairs(edge: Float[Array, "n n K"], weight: Float[Array, "K s"]) -> Float[Array, "#n #n s"]:
    """edge W as a sum of K outer products, which stays inside one fused loop; K is small."""
    terms = [edge[:, :, k, None] * weight[k] for k in range(weight.shape[0])]
    return sum(terms[1:], terms[0]) if terms else jnp.zeros((1, 1, weight.shape[1]), weight.dtype)


def forward(combine: Combine, left: Array, right: Array, edge: Array, weight: Array, vectors: Array) -> Array:
    """The scores [heads, n, n]."""
    first, second = _sides(left, right, edge, weight)
    tile = jax.lax.optimization_barrier(combine.value(first, second))
    return jnp.einsum("ijhm,hm->hij", _split(tile, vectors), vectors)


def backward(
    combine: Combine, left: Array, right: Array, edge: Array, weight: Array, vectors: Array, scores: Array
) -> Gradients:
    """The gradients, from those of the scores."""
    first, second = _sides(left, right, edge, weight)
    pull = jnp.einsum("hij,hm->ijhm", scores, vectors).reshape(*scores.shape[1:], -1)
    of_first, of_second = (pull * slope for slope in combine.slopes(first, second))
    tiles = (combine.value(first, second), of_first, of_second)
    value, of_first, of_second = jax.lax.optimization_barrier(tiles)
    ones = jnp.ones(left.shape[0], left.dtype)
    return (
        jnp.einsum("ijs,j->is", of_first, ones),
        jnp.einsum("ijs,i->js", of_second, ones),
        jnp.einsum("ijs,ks->ijk", of_second, weight),
        jnp.einsum("ijs,ijk->ks", of_second, edge),
        jnp.einsum("ijhm,hij->hm", _split(value, vectors), scores),
    )


def _sides(left: Array, right: Array, edge: Array, weight: Array) -> tuple[Array, Array]:
    second = right[None, :, :] + on_pairs(edge, weight)
    return jnp.broadcast_to(left[:, None, :], second.shape), second


def _split(tile: Array, vectors: Array) -> Array:
    return tile.reshape(*tile.shape[:2], *vectors.shape)
