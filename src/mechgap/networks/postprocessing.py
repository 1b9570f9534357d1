"""From logits to values: decisions for a trace, or what is fed back to a network."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array

from mechgap.networks.encoders import expand
from mechgap.networks.sinkhorn import log_sinkhorn
from mechgap.trace import Kind, Spec, Variable

FEEDBACK_SINKHORN_STEPS = 25
RESULT_SINKHORN_STEPS = 50


def postprocess(spec: Spec, logits: Mapping[str, Array], hard: bool = True) -> dict[str, Array]:
    """The values that logits mean; leading axes (time, batch) are kept.

    | kind                | hard                        | soft                     |
    |---------------------|-----------------------------|--------------------------|
    | scalar              | itself, no gradient         | itself                   |
    | mask                | 1 above 0, else 0           | sigmoid                  |
    | mask_one, categorical | one-hot at the largest    | softmax                  |
    | pointer             | index of the largest        | softmax, [..., n]        |
    | permutation_pointer | one-hot rows after Sinkhorn | Sinkhorn's matrix        |

    Args:
        spec: where the names are described.
        logits: name -> raw predictions of hints or outputs.
        hard: decide, or keep probabilities.
    """
    return {name: _value(spec[name], x, hard, RESULT_SINKHORN_STEPS) for name, x in logits.items()}


def feedback(variable: Variable, logits: Array, hard: bool) -> Array:
    """A predicted hint in the form in which it is fed back: reals, pointers as rows."""
    value = _value(variable, logits, hard, FEEDBACK_SINKHORN_STEPS)
    if not hard or variable.kind != Kind.POINTER:
        return value
    return expand(variable, value, logits.shape[-1], logits.dtype)


def _value(variable: Variable, x: Array, hard: bool, sinkhorn_steps: int) -> Array:
    match variable.kind:
        case Kind.SCALAR:
            return jax.lax.stop_gradient(x) if hard else x
        case Kind.MASK:
            return (x > 0).astype(x.dtype) if hard else jax.nn.sigmoid(x)
        case Kind.POINTER:
            return jnp.argmax(x, axis=-1).astype(jnp.int32) if hard else jax.nn.softmax(x, axis=-1)
        case Kind.PERMUTATION_POINTER:
            x = jnp.exp(log_sinkhorn(x, sinkhorn_steps))
            return _one_hot(x) if hard else x
        case _:
            return _one_hot(x) if hard else jax.nn.softmax(x, axis=-1)


def _one_hot(x: Array) -> Array:
    return jax.nn.one_hot(jnp.argmax(x, axis=-1), x.shape[-1], dtype=x.dtype)
