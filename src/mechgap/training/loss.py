"""The loss of a batch of predictions, masked and averaged as in the reference."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from mechgap.networks import Prediction
from mechgap.networks.padding import counted
from mechgap.trace import Kind, Spec, Stage, Values, Variable

NOT_ASKED = -1  # a truth of this value is not scored
ASKED = 1


class Losses(NamedTuple):
    """One number per variable, before any weight."""

    hints: dict[str, Float[Array, ""]]
    outputs: dict[str, Float[Array, ""]]

    def total(self, hint_weight: Array | float = 1.0, output_weight: Array | float = 1.0) -> Float[Array, ""]:
        """The weighted sum; each variable counts alike."""
        outputs = sum(self.outputs.values(), jnp.zeros(())) * output_weight
        return outputs + sum(self.hints.values(), jnp.zeros(())) * hint_weight


def losses(
    spec: Spec,
    prediction: Prediction,
    hints: Values,
    outputs: Values,
    lengths: Shaped[Array, " batch"],
    present: Bool[Array, "batch n"] | None = None,
) -> Losses:
    """What a batch of predictions cost.

    Args:
        spec: the variables.
        prediction: of a batch: outputs [B, ...], hints [B, T-1, ...] where decoded.
        hints: the truth, [T, B, ...]; prediction t is compared with frame t + 1 while that is before the length.
        outputs: the truth, [B, ...].
        lengths: the number of frames of each execution.
        present: which nodes there are, where graphs are padded; only these count. None for all.
    """
    of_outputs = {
        v.name: _output(v, outputs[v.name], prediction.outputs[v.name], present) for v in spec.at(Stage.OUTPUT)
    }
    of_hints = {
        v.name: _hint(v, hints[v.name], prediction.hints[v.name], lengths, present)
        for v in spec.at(Stage.HINT)
        if v.name in prediction.hints
    }
    return Losses(of_hints, of_outputs)


def _output(variable: Variable, truth: Array, logits: Array, present: Array | None) -> Float[Array, ""]:
    errors = _errors(variable, truth, logits)
    rows = jnp.ones(errors.shape, bool) if present is None else counted(variable, present)
    match variable.kind:
        case Kind.MASK:
            return _mean(errors, (truth != NOT_ASKED) & rows)
        case Kind.MASK_ONE | Kind.CATEGORICAL:
            asked = jnp.sum((truth == ASKED) & rows[..., None]).astype(errors.dtype)
            return jnp.sum(jnp.where(rows, errors, 0)) / asked
        case _:
            return jnp.mean(errors, where=None if present is None else rows)


def _hint(variable: Variable, truth: Array, logits: Array, lengths: Array, present: Array | None) -> Float[Array, ""]:
    following = truth[1:]
    errors = _errors(variable, following, jnp.moveaxis(logits, 1, 0)[: len(following)])
    frame = jnp.arange(1, len(following) + 1)[:, None]
    mask = (frame < lengths).reshape(*errors.shape[:2], *(1,) * (errors.ndim - 2))
    if variable.kind == Kind.MASK:
        mask = mask & (following != NOT_ASKED)
    if variable.kind == Kind.CATEGORICAL:
        mask = mask & jnp.any(following == ASKED, axis=-1)
    if present is not None:
        mask = mask & counted(variable, present)
    return _mean(errors, jnp.broadcast_to(mask, errors.shape))


def _errors(variable: Variable, truth: Array, logits: Array) -> Array:
    """The error at every place; an error of a one-hot row is one number."""
    match variable.kind:
        case Kind.SCALAR:
            return (logits - truth) ** 2
        case Kind.MASK:
            return jnp.maximum(logits, 0) - logits * truth + jnp.log1p(jnp.exp(-jnp.abs(logits)))
        case Kind.POINTER:
            chosen = truth.astype(jnp.int32)[..., None] == jnp.arange(logits.shape[-1], dtype=jnp.int32)
            return -jnp.sum(jnp.where(chosen, jax.nn.log_softmax(logits), 0), axis=-1)
        case Kind.PERMUTATION_POINTER:
            return -jnp.sum(truth * logits, axis=-1)
        case _:
            asked = jnp.where(truth == NOT_ASKED, 0, truth)
            return -jnp.sum(asked * jax.nn.log_softmax(logits), axis=-1)


def _mean(errors: Array, mask: Bool[Array, "..."]) -> Float[Array, ""]:
    count = jnp.maximum(jnp.sum(mask.astype(errors.dtype)), 1e-12)
    return jnp.sum(jnp.where(mask, errors, 0)) / count
