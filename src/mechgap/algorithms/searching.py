"""Searching an array: the minimum."""

import jax.numpy as jnp
from jaxtyping import Array

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import UniformKeys
from mechgap.algorithms.unroll import frames_before, one_hot, pointer
from mechgap.trace import Kind, Location, Spec, Stage, Variable

ARRAY_INPUTS = (
    Variable("pos", Stage.INPUT, Location.NODE, Kind.SCALAR),
    Variable("key", Stage.INPUT, Location.NODE, Kind.SCALAR),
)
ORDER_HINT = Variable("pred_h", Stage.HINT, Location.NODE, Kind.POINTER)

MINIMUM_SPEC = Spec(
    (
        *ARRAY_INPUTS,
        ORDER_HINT,
        Variable("min_h", Stage.HINT, Location.NODE, Kind.MASK_ONE),
        Variable("i", Stage.HINT, Location.NODE, Kind.MASK_ONE),
        Variable("min", Stage.OUTPUT, Location.NODE, Kind.MASK_ONE),
    )
)


def minimum(inputs: dict[str, Array], steps: int) -> Run:
    """One pass from the left; the smallest key so far changes hands only for a strictly smaller one."""
    key, real = inputs["key"], inputs["pos"].dtype
    batch, n = key.shape
    ids = jnp.arange(n, dtype=jnp.int32)
    seen = ids <= jnp.arange(steps, dtype=jnp.int32)[:, None, None]  # [T, 1, n]: frame t has looked at 0..t
    smallest = jnp.min(jnp.where(seen, key, jnp.inf), axis=-1, keepdims=True)
    best = jnp.min(jnp.where(seen & (key == smallest), ids, n), axis=-1)
    frame = jnp.broadcast_to(jnp.arange(steps, dtype=jnp.int32)[:, None], (steps, batch))
    lengths = jnp.full(batch, min(n, steps), jnp.int32)
    hints = {
        "pred_h": pointer(jnp.broadcast_to(jnp.maximum(ids - 1, 0), (steps, batch, n)), real),
        "min_h": one_hot(best, n, real),
        "i": one_hot(frame, n, real),
    }
    overall = jnp.min(jnp.where(key == jnp.min(key, axis=-1, keepdims=True), ids, n), axis=-1)
    return Run(frames_before(lengths, hints), {"min": one_hot(overall, n, real)}, lengths)


MINIMUM = Algorithm(
    "minimum",
    MINIMUM_SPEC,
    minimum,
    UniformKeys(),
    max_steps=lambda n: n,
    samples_multiplier=64,
    order_is_constant=True,
)
