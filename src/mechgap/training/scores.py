"""How good predictions are, as the reference scores them, by counts that may be added up over any split of the data.

| kind                  | score                                        | counts                               |
|-----------------------|----------------------------------------------|--------------------------------------|
| pointer               | the share of equal pointers                  | equal, all                           |
| permutation_pointer   | the same, after fusing it with its mask      | equal, all                           |
| mask                  | F1 over all places                           | true and false positives, misses     |
| mask_one, categorical | the share of rows with the right largest     | right, all without a -1              |
| scalar                | the mean squared error                       | sum, all                             |
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Shaped

from mechgap.networks.padding import counted
from mechgap.trace import Kind, Spec, Stage, Values, Variable
from mechgap.training.loss import NOT_ASKED

Counts = dict[str, Shaped[Array, "*members 3"]]  # by output; add them up


def count(spec: Spec, predicted: Values, truth: Values, present: Bool[Array, "batch n"] | None = None) -> Counts:
    """The counts of a batch.

    Args:
        spec: the variables.
        predicted: output -> decisions [B, ...], see `mechgap.networks.postprocess`.
        truth: output -> values [B, ...].
        present: which nodes there are, where graphs are padded; only these count. None for all.
    """
    scored = [v for v in spec.at(Stage.OUTPUT) if not _belongs_to_permutation(spec, v)]
    return {v.name: _count(v, _pointer(v, predicted), _pointer(v, truth), present) for v in scored}


def scores(spec: Spec, counts: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The score of every output, and `score`, their mean; leading axes of the counts are kept."""
    each = {name: np.asarray(score_of(spec[name], np.asarray(c, np.float64))) for name, c in counts.items()}
    return {**each, "score": np.asarray(np.mean(list(each.values()), axis=0))}


def traced_score(spec: Spec, counts: Counts) -> Array:
    """The mean score, inside a JAX program."""
    each = [score_of(spec[name], c.astype(jnp.float32), jnp) for name, c in counts.items()]
    return jnp.mean(jnp.stack(each), axis=0)


def _belongs_to_permutation(spec: Spec, variable: Variable) -> bool:
    names = {v.name for v in spec.at(Stage.OUTPUT) if v.kind == Kind.PERMUTATION_POINTER}
    return variable.name.endswith("_mask") and variable.name.removesuffix("_mask") in names


def _pointer(variable: Variable, values: Values) -> Array:
    x = jnp.asarray(values[variable.name])
    if variable.kind != Kind.PERMUTATION_POINTER:
        return x
    first = jnp.asarray(values[f"{variable.name}_mask"]) > 0.5
    return jnp.where(first, jnp.arange(x.shape[-1]), jnp.argmax(x, axis=-1))


def _count(variable: Variable, x: Array, truth: Array, present: Array | None) -> Shaped[Array, "3"]:
    here = jnp.ones((), bool) if present is None else counted(variable, present)
    match variable.kind:
        case Kind.SCALAR:
            rows = jnp.broadcast_to(here, x.shape)
            squares = jnp.sum((x - truth) ** 2, where=rows)
            return jnp.stack([squares, jnp.sum(rows).astype(x.dtype), jnp.zeros((), x.dtype)])
        case Kind.MASK:
            asked, found, true = here & (truth != NOT_ASKED), x > 0.5, truth > 0.5
            return _sums(asked & found & true, asked & found & ~true, asked & ~found & true)
        case Kind.MASK_ONE | Kind.CATEGORICAL:
            asked = here & jnp.all(truth != NOT_ASKED, axis=-1)
            return _sums(asked & (jnp.argmax(x, axis=-1) == jnp.argmax(truth, axis=-1)), asked)
        case _:
            equal = x.astype(jnp.int32) == truth.astype(jnp.int32)
            return _sums(here & equal, jnp.broadcast_to(here, equal.shape))


def _sums(*masks: Array) -> Shaped[Array, "3"]:
    sums = [jnp.sum(mask, dtype=jnp.int32) for mask in masks]
    return jnp.stack(sums + [jnp.zeros((), jnp.int32)] * (3 - len(sums)))


def score_of(variable: Variable, counts: Any, xp: Any = np) -> Any:
    """The score that counts [..., 3] give, see the table above."""
    a, b, c = (counts[..., i] for i in range(3))
    if variable.kind != Kind.MASK:
        return a / xp.maximum(b, 1)
    precision = xp.where(a + b > 0, a / xp.maximum(a + b, 1), 1.0)
    recall = xp.where(a + c > 0, a / xp.maximum(a + c, 1), 1.0)
    both = precision + recall
    return xp.where(both > 0, 2 * precision * recall / xp.where(both > 0, both, 1), 0.0)
