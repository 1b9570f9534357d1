"""Clip, Adam, scale: the reference's chain of optax, with the two numbers as traced values.

The chain runs on all parameters as one vector: the same numbers, in a few large operations instead of many small ones.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from mechgap.networks import ClrsNet

Number = Float[Array, ""] | float


def optimiser(learning_rate: Number, grad_clip: Number) -> optax.GradientTransformation:
    """Clip by the global norm (0: not at all), Adam (0.9, 0.999, 1e-8), times -learning_rate."""
    limit = jnp.where(jnp.asarray(grad_clip) > 0, grad_clip, jnp.inf)
    return optax.chain(optax.clip_by_global_norm(limit), optax.scale_by_adam(), optax.scale(-learning_rate))


def initial(network: ClrsNet) -> Any:
    """The optimiser's state before the first step; it does not depend on the two numbers."""
    return optimiser(0.0, 0.0).init(ravel_pytree(network)[0])


def regularised(gradient: ClrsNet, network: ClrsNet, l1: Number | None, l2: Number | None) -> ClrsNet:
    """The gradient of loss + l1 Σ|w| + l2 Σw², from that of the loss."""
    if l1 is not None:
        gradient = jax.tree.map(lambda g, w: g + l1 * jnp.sign(w), gradient, network)
    if l2 is not None:
        gradient = jax.tree.map(lambda g, w: g + 2 * l2 * w, gradient, network)
    return gradient


def apply(
    network: ClrsNet,
    gradient: ClrsNet,
    state: Any,
    *,
    learning_rate: Number,
    grad_clip: Number,
    freeze_processor: bool = False,
    stays: Bool[Array, ""] | bool = False,
) -> tuple[ClrsNet, Any, Float[Array, ""]]:
    """One step of the optimiser: the new network, the new state, and the gradient's norm before it was clipped.

    A frozen processor still counts in the norm, as in the reference. Nothing moves where `stays` holds or where the
    gradient is not finite.
    """
    flat, unravel = ravel_pytree(gradient)
    norm = jnp.sqrt(jnp.sum(flat * flat))
    updates, following = optimiser(learning_rate, grad_clip).update(flat, state)
    stays = stays | ~jnp.isfinite(norm)
    moved = jax.tree.map(lambda w, u: w + u, network, unravel(jnp.where(stays, 0, updates)))
    if freeze_processor:
        moved = eqx.tree_at(lambda net: net.processor, moved, network.processor)
    return moved, jax.tree.map(lambda new, old: jnp.where(stays, old, new), following, state), norm
