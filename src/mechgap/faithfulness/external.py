"""External faithfulness: whether a network's predicted hints are those of the algorithm, step by step (Eq. 25).

A prediction matches where |ŷ - y*| < ε: masks on the sigmoid, scalars raw, pointers and classes on the largest. The
paper prints the margins ε = {0.5, 0.1, 1e-6} for numbers, masks and classes; a mask within 0.1 and a number within 0.5
are evidently swapped, so both readings are measured. Eq. 25 lacks the absolute value, without which any prediction that
is too small would match; it is put in.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from mechgap.trace import Kind, Spec, Stage, Variable
from mechgap.training.scores import score_of

MARGINS = {
    "printed": {"number": 0.5, "mask": 0.1, "class": 1e-6},
    "meant": {"number": 0.1, "mask": 0.5, "class": 1e-6},
}


def matches(variable: Variable, logits: Array, truth: Array, order: str) -> Float[Array, "steps batch places"]:
    """1 where a prediction matches: at every node, edge or graph, or for every class.

    Args:
        variable: a hint.
        logits: [steps, B, ...], of frames 1 and later.
        truth: [steps, B, ...], the same frames.
        order: "printed" or "meant", see `MARGINS`.
    """
    margin = MARGINS[order]
    match variable.kind:
        case Kind.SCALAR:
            right = jnp.abs(logits - truth) < margin["number"]
        case Kind.MASK:
            right = jnp.abs(jax.nn.sigmoid(logits) - truth) < margin["mask"]
        case Kind.POINTER:
            right = jnp.abs(jnp.argmax(logits, axis=-1) - truth) < margin["class"]
        case _:
            right = jnp.argmax(logits, axis=-1) == jnp.argmax(truth, axis=-1)
    return right.reshape(*right.shape[:2], -1).astype(jnp.float32)


def hint_scores(
    spec: Spec, logits: Mapping[str, Array], truth: Mapping[str, Array], inside: Bool[Array, "steps batch"]
) -> dict[str, Array]:
    """The benchmark's own score of every hint: of each step over its batch, then the mean over steps.

    Masks are scored by F1, scalars by the mean squared error, all others by the share of right places.
    """
    return {
        v.name: _benchmark_score(v, logits[v.name], truth[v.name], inside)
        for v in spec.at(Stage.HINT)
        if v.name in logits
    }


def _benchmark_score(variable: Variable, logits: Array, truth: Array, inside: Array) -> Float[Array, ""]:
    steps = jnp.any(inside, axis=1)
    places = jnp.broadcast_to(inside[..., None], (*inside.shape, 1))

    def total(x: Array) -> Array:
        return jnp.sum(jnp.where(places, x.reshape(*x.shape[:2], -1), 0), axis=(1, 2))

    if variable.kind == Kind.MASK:
        found, true = logits > 0, truth > 0.5
        counts = [total(found & true), total(found & ~true), total(~found & true)]
    elif variable.kind == Kind.SCALAR:
        error = (logits - truth) ** 2
        counts = [total(error), total(jnp.ones_like(error)), jnp.zeros(len(steps))]
    else:
        right = matches(variable, logits, truth, "meant")
        counts = [total(right), total(jnp.ones_like(right)), jnp.zeros(len(steps))]
    score = score_of(variable, jnp.stack(counts, axis=-1).astype(jnp.float32), jnp)
    return jnp.sum(jnp.where(steps, score, 0)) / jnp.maximum(jnp.sum(steps), 1)
