"""Divide and conquer: the maximum subarray, by Kadane's one pass."""

import jax.numpy as jnp
from jaxtyping import Array, Bool

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import UniformKeys
from mechgap.algorithms.searching import ARRAY_INPUTS, standing_order
from mechgap.algorithms.unroll import State, frames_before, one_hot, unroll
from mechgap.algorithms.variables import ORDER_HINT, node_mark
from mechgap.trace import Kind, Location, Spec, Stage, Variable

KADANE_SPEC = Spec(
    (
        *ARRAY_INPUTS,
        Variable("start", Stage.OUTPUT, Location.NODE, Kind.MASK_ONE),
        Variable("end", Stage.OUTPUT, Location.NODE, Kind.MASK_ONE),
        ORDER_HINT,
        node_mark("best_low"),
        node_mark("best_high"),
        Variable("best_sum", Stage.HINT, Location.GRAPH, Kind.SCALAR),
        node_mark("i"),
        node_mark("j"),
        Variable("sum", Stage.HINT, Location.GRAPH, Kind.SCALAR),
    )
)


def find_maximum_subarray_kadane(inputs: dict[str, Array], steps: int) -> Run:
    """The best sum that ends at j extends the best one that ends before j, or starts anew at j where that is less."""
    key, real = inputs["key"], inputs["pos"].dtype
    batch, n = key.shape

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        j = old["j"] + 1
        x = jnp.take_along_axis(key, jnp.minimum(j, n - 1)[:, None], axis=-1)[:, 0]
        extends = old["sum"] + x >= x  # as written: after rounding this may hold for a negative sum
        i, sum_ = jnp.where(extends, old["i"], j), jnp.where(extends, old["sum"] + x, x)
        better = sum_ > old["best_sum"]
        new = {
            "best_low": jnp.where(better, i, old["best_low"]),
            "best_high": jnp.where(better, j, old["best_high"]),
            "best_sum": jnp.where(better, sum_, old["best_sum"]),
            "i": i,
            "j": j,
            "sum": sum_,
        }
        return new, j < n

    zero = jnp.zeros(batch, jnp.int32)
    start = {"best_low": zero, "best_high": zero, "best_sum": key[:, 0], "i": zero, "j": zero, "sum": key[:, 0]}
    record, last, lengths = unroll(step, start, steps, lambda state: state)
    marks = {name: one_hot(record[name], n, real) for name in ("best_low", "best_high", "i", "j")}
    hints = {**record, **frames_before(lengths, {**marks, "pred_h": standing_order((steps, batch, n), real)})}
    ends = {"start": one_hot(last["best_low"], n, real), "end": one_hot(last["best_high"], n, real)}
    return Run(hints, ends, lengths)


FIND_MAXIMUM_SUBARRAY_KADANE = Algorithm(
    "find_maximum_subarray_kadane",
    KADANE_SPEC,
    find_maximum_subarray_kadane,
    UniformKeys(low=-1.0),
    max_steps=lambda n: n,
    samples_multiplier=32,
    order_is_constant=True,
)
