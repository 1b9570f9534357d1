"""Internal faithfulness: how far a network's attention is from the program's, α*, step by step.

| measure  | definition                                                                       | range   |
|----------|----------------------------------------------------------------------------------|---------|
| eq24     | Σ |α - α*| / (t n n), Eq. 24 to the letter; rows sum to 1, so it is at most 2/n    | 0 .. 2/n |
| rows     | the mean over rows of the total variation ½ Σ_j |α_ij - α*_ij|; Eq. 24 times n/2  | 0 .. 1  |
| decisive | the same over the rows in which the algorithm moves information                  | 0 .. 1  |

α* is not unique on other rows, so `rows` is also measured against the equivalent α* that the program declares. Where a
network has several heads, α is its best one (`best_head`), or their mean, or their best convex mixture.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

MIXTURE_STEPS = 300
MIXTURE_RATE = 0.5
Rows = Float[Array, "steps batch n"]


def row_distance(a: Float[Array, "*#places n"], b: Float[Array, "*#places n"]) -> Float[Array, "*places"]:
    """The total variation between two rows of attention: half the sum of the absolute differences."""
    return 0.5 * jnp.sum(jnp.abs(a - b), axis=-1)


def eq24(distance: Rows, inside: Bool[Array, "steps batch"]) -> Float[Array, ""]:
    """Eq. 24 from the distances of rows: Σ |α - α*| / (t n n) of every execution, averaged over executions."""
    n = distance.shape[-1]
    steps = jnp.maximum(jnp.sum(inside, axis=0), 1)
    total = jnp.sum(jnp.where(inside[..., None], 2 * distance, 0), axis=(0, 2))
    return jnp.mean(total / (steps * n * n))


def masked_mean(x: Float[Array, "*shape"], mask: Bool[Array, "*shape"], axis: tuple[int, ...] | None = None) -> Array:
    """The mean where the mask holds; NaN where it never does."""
    count = jnp.sum(mask, axis=axis)
    return jnp.where(count > 0, jnp.sum(jnp.where(mask, x, 0), axis=axis) / jnp.maximum(count, 1), jnp.nan)


def on_timescale(x: Rows, mask: Bool[Array, "steps batch n"], lengths: Array, points: int) -> Float[Array, " points"]:
    """The mean over rows at `points` moments between the start and the end of every execution (a uniform timescale)."""
    progress = (jnp.arange(points) + 0.5) / points
    at = jnp.floor(progress[:, None] * jnp.maximum(lengths - 1, 1)).astype(jnp.int32)  # the step under way
    at = jnp.minimum(at, x.shape[0] - 1)[..., None]
    there = jnp.take_along_axis(x, jnp.broadcast_to(at, (*at.shape[:2], x.shape[2])), axis=0)
    known = jnp.take_along_axis(mask, jnp.broadcast_to(at, (*at.shape[:2], x.shape[2])), axis=0)
    return masked_mean(there, known, axis=(1, 2))


def distances_to(
    alpha: Float[Array, "steps batch heads n n"],
    star: Float[Array, "steps batch selects n n"],
    mask: Bool[Array, "steps batch n"],
) -> tuple[Rows, dict[str, Float[Array, ""]]]:
    """The distance of every row from α*, by the head that fits best, and the three ways to read several heads.

    Where α* has several heads (one per select), each is compared with all heads of the network, and the mean is taken.
    """
    apart = row_distance(alpha[:, :, None], star[:, :, :, None])  # [steps, batch, selects, heads, n]
    means = masked_mean(apart, jnp.broadcast_to(mask[:, :, None, None], apart.shape), axis=(0, 1, 4))
    best = jnp.argmin(means, axis=1)[None, None, :, None, None]
    rows = jnp.mean(jnp.take_along_axis(apart, best, axis=3)[:, :, :, 0], axis=2)
    averaged = row_distance(jnp.mean(alpha, axis=2, keepdims=True), star)
    by_select = jnp.moveaxis(star, 2, 0)
    readings = {
        "best_head": jnp.mean(jnp.min(means, axis=1)),
        "mean_head": masked_mean(averaged, jnp.broadcast_to(mask[:, :, None], averaged.shape)),
        "mixture": jnp.mean(jax.vmap(lambda one: mixture_distance(alpha, one, mask))(by_select)),
    }
    return rows, readings


def mixture_distance(
    alpha: Float[Array, "steps batch heads n n"],
    star: Float[Array, "steps batch n n"],
    mask: Bool[Array, "steps batch n"],
) -> Float[Array, ""]:
    """The smallest distance that a convex mixture of the heads can have, the same mixture everywhere.

    The distance is convex in the weights (and linear where α* is one-hot, so that a single head is best there): descend
    it by exponentiated gradients and keep the best weights met, corners and centre included.
    """
    heads = alpha.shape[2]

    def distance(weights: Float[Array, " heads"]) -> Array:
        return masked_mean(row_distance(jnp.einsum("tbhij,h->tbij", alpha, weights), star), mask)

    corners = jnp.min(jax.vmap(distance)(jnp.eye(heads)))
    if heads == 1:
        return corners
    return jnp.minimum(corners, _descended(distance, heads))


def _descended(distance: Callable[[Array], Array], heads: int) -> Array:
    def step(state: tuple[Array, Array], i: Array) -> tuple[tuple[Array, Array], None]:
        logits, best = state
        value, slope = jax.value_and_grad(lambda x: distance(jax.nn.softmax(x)))(logits)
        return (logits - MIXTURE_RATE * heads * slope, jnp.minimum(best, value)), None

    start = (jnp.zeros(heads), jnp.asarray(jnp.inf))
    (_, best), _ = jax.lax.scan(step, start, jnp.arange(MIXTURE_STEPS))
    return best
