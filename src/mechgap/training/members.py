"""Who is trained: every network of an ensemble has a seed and its own numbers, all of them traced values."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

from mechgap.training.config import Schedule, TrainConfig

NEVER = 2**31 - 1  # a step that is not reached: fills up shorter schedules


class Weights(eqx.Module):
    """A loss weight by step: `values[i]` from step `since[i]` on."""

    since: Int[Array, "*members knots"]
    values: Float[Array, "*members knots"]

    def at(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """The weight of one member at a step."""
        return self.values[jnp.sum(self.since <= step) - 1]


class Members(eqx.Module):
    """One row per network. What no member uses is None, and costs nothing."""

    seed: UInt32[Array, "*members"]
    learning_rate: Float[Array, "*members"]
    grad_clip: Float[Array, "*members"]
    hint_weight: Weights
    output_weight: Weights
    dropout: Float[Array, "*members"] | None
    teacher_forcing: Float[Array, "*members"] | None
    l1: Float[Array, "*members"] | None
    l2: Float[Array, "*members"] | None


def make_members(configs: Sequence[TrainConfig]) -> Members:
    """All seeds of the first config, then all of the next; the configs must be of equal shape."""
    if len({config.shape() for config in configs}) != 1:
        raise ValueError("One ensemble trains configs that differ in numbers only; split these into several ensembles.")
    rows = [(config, seed) for config in configs for seed in config.seed_range]

    def column(name: str) -> Float[Array, " members"]:
        return jnp.asarray([getattr(config, name) for config, _ in rows], jnp.float32)

    def used(values: Float[Array, " members"]) -> Float[Array, " members"] | None:
        return values if np.any(np.asarray(values)) else None

    def regularised(kind: str) -> Float[Array, " members"]:
        return jnp.asarray([c.regularisation_weight * (c.regularisation == kind) for c, _ in rows], jnp.float32)

    return Members(
        seed=jnp.asarray([seed for _, seed in rows], jnp.uint32),
        learning_rate=column("learning_rate"),
        grad_clip=column("grad_clip"),
        hint_weight=_weights([config.hint_weight for config, _ in rows]),
        output_weight=_weights([config.output_weight for config, _ in rows]),
        dropout=used(column("dropout")),
        teacher_forcing=used(column("teacher_forcing")),
        l1=used(regularised("L1")),
        l2=used(regularised("L2")),
    )


def _weights(schedules: Sequence[Schedule]) -> Weights:
    pairs = [schedule if isinstance(schedule, tuple) else ((0, schedule),) for schedule in schedules]
    knots = max(len(p) for p in pairs)
    filled = [(*p, *((NEVER, 0.0),) * (knots - len(p))) for p in pairs]
    since = jnp.asarray([[step for step, _ in p] for p in filled], jnp.int32)
    return Weights(since, jnp.asarray([[weight for _, weight in p] for p in filled], jnp.float32))
