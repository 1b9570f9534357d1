"""The Sinkhorn operator: logits of a matrix to the logarithm of a doubly stochastic one."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mechgap.networks.padding import ABSENT

TEMPERATURE = 0.1
NOT_ITSELF = 1e6  # taken from the diagonal: no node follows itself in a cyclic order
TINY = 1e-12  # keeps the noise's logarithms finite


def log_sinkhorn(
    x: Float[Array, "*batch n n"],
    steps: int,
    key: PRNGKeyArray | None = None,
    present: Bool[Array, " n"] | None = None,
) -> Float[Array, "*batch n n"]:
    """Normalise rows, then columns, `steps` times, in logarithms.

    Args:
        x: logits.
        steps: how often.
        key: adds Gumbel noise, as in training; None for none.
        present: which nodes there are; absent ones are permuted among themselves. None for all.
    """
    if key is not None:
        uniform = jax.random.uniform(key, x.shape, x.dtype)
        x = x - jnp.log(-jnp.log(uniform + TINY) + TINY)
    x = x / TEMPERATURE - NOT_ITSELF * jnp.eye(x.shape[-1], dtype=x.dtype)
    if present is not None:
        x = jnp.where(present[:, None] == present[None, :], x, -ABSENT)

    def normalise(x: Array, _: None) -> tuple[Array, None]:
        return jax.nn.log_softmax(jax.nn.log_softmax(x, axis=-1), axis=-2), None

    return jax.lax.scan(normalise, x, None, length=steps)[0]
