"""Searching an array: the minimum, a place in a sorted array, the median."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import SortedKeysAndTarget, UniformKeys
from mechgap.algorithms.partition import beginning, compared, nodes_at, standing
from mechgap.algorithms.rows import NOTHING, Access, short, unroll_rows
from mechgap.algorithms.unroll import State, frames_before, one_hot, pointer, unroll
from mechgap.algorithms.variables import ORDER_HINT, POSITION, node_mark
from mechgap.trace import Kind, Location, Spec, Stage, Variable

ARRAY_INPUTS = (
    POSITION,
    Variable("key", Stage.INPUT, Location.NODE, Kind.SCALAR),
)

MINIMUM_SPEC = Spec(
    (
        *ARRAY_INPUTS,
        ORDER_HINT,
        node_mark("min_h"),
        node_mark("i"),
        Variable("min", Stage.OUTPUT, Location.NODE, Kind.MASK_ONE),
    )
)


def standing_order(shape: tuple[int, ...], real: jnp.dtype) -> Array:
    """The hint `pred_h` of an array whose order never changes, [T, B, n]."""
    return pointer(jnp.broadcast_to(jnp.maximum(jnp.arange(shape[-1], dtype=jnp.int32) - 1, 0), shape), real)


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
        "pred_h": standing_order((steps, batch, n), real),
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


BINARY_SEARCH_SPEC = Spec(
    (
        *ARRAY_INPUTS,
        Variable("target", Stage.INPUT, Location.GRAPH, Kind.SCALAR),
        Variable("return", Stage.OUTPUT, Location.NODE, Kind.MASK_ONE),
        ORDER_HINT,
        node_mark("low"),
        node_mark("high"),
        node_mark("mid"),
    )
)


def binary_search(inputs: dict[str, Array], steps: int) -> Run:
    """Halve the range until one place is left: the first key that is not below the target, or the last place."""
    key, target, real = inputs["key"], inputs["target"], inputs["pos"].dtype
    batch, n = key.shape

    def middle(state: State) -> Array:
        return (state["low"] + state["high"]) // 2

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        mid = middle(old)
        in_lower_half = target <= jnp.take_along_axis(key, mid[:, None], axis=-1)[:, 0]
        low, high = jnp.where(in_lower_half, old["low"], mid + 1), jnp.where(in_lower_half, mid, old["high"])
        return {"low": low, "high": high}, old["low"] < old["high"]

    start = {"low": jnp.zeros(batch, jnp.int32), "high": jnp.full(batch, n - 1, jnp.int32)}
    record, last, lengths = unroll(step, start, steps, lambda state: state)
    marks = {name: one_hot(at, n, real) for name, at in {**record, "mid": middle(record)}.items()}
    hints = {"pred_h": standing_order((steps, batch, n), real), **marks}
    return Run(frames_before(lengths, hints), {"return": one_hot(last["high"], n, real)}, lengths)


QUICKSELECT_MARKS = ("p", "r", "i", "j", "pivot")
QUICKSELECT_SPEC = Spec(
    (
        *ARRAY_INPUTS,
        Variable("median", Stage.OUTPUT, Location.NODE, Kind.MASK_ONE),
        ORDER_HINT,
        *(node_mark(name) for name in QUICKSELECT_MARKS[:-1]),
        Variable("i_rank", Stage.HINT, Location.GRAPH, Kind.SCALAR),
        Variable("target", Stage.HINT, Location.GRAPH, Kind.SCALAR),
        node_mark(QUICKSELECT_MARKS[-1]),
    )
)


def quickselect(inputs: dict[str, Array], steps: int) -> Run:
    """Partition the places p..r by the key at r, and go on in the part that holds the target, until that is the pivot.

    A frame is one place j looked at, and j = r is the pivot's turn: it goes behind the i - p keys that are not greater.
    No frame comes before the first look. `target` and, in the pivot's turn, `i_rank` count from p, else from 0.
    """
    key, real = inputs["key"], inputs["pos"].dtype
    batch, n = key.shape

    def step(here: State, memory: State, rows: Access, t: Array) -> tuple[State, State, State]:
        p, r, j, target = (here[name] for name in ("p", "r", "j", "target"))
        memory, i = compared(here, memory, rows, key)
        order, parted, smaller = memory["order"], j == r, i - p
        shown = {
            "pred_h": rows.row(memory["pred"]),
            **{name: rows.get(order, place) for name, place in (("p", p), ("r", r), ("i", i), ("j", j))},
            "pivot": rows.get(order, jnp.where(parted, i, r)),
            "i_rank": jnp.where(parted, smaller, i),
            "target": target,
        }
        below, found = target < smaller, parted & (target == smaller)
        p, r = jnp.where(parted & ~below, i + 1, p), jnp.where(parted & below, i - 1, r)
        new = {
            **{"p": p, "r": r, "i": jnp.where(parted, p, i), "j": jnp.where(parted, p, j + 1)},
            "target": jnp.where(parted & ~below, target - smaller - 1, target),
            "found": found,
        }
        return {**new, **nodes_at(new, order, rows)}, memory, shown

    record, _, lengths = unroll_rows(
        step,
        lambda state: ~state["found"],
        beginning(batch, n) | {"target": jnp.full(batch, n // 2, jnp.int32), "found": jnp.zeros(batch, bool)},
        standing(batch, n),
        {
            "pred_h": jnp.zeros((steps, batch, n), short(n)),
            **dict.fromkeys(QUICKSELECT_MARKS, jnp.full((steps, batch), NOTHING, jnp.int32)),
            **dict.fromkeys(("i_rank", "target"), jnp.zeros((steps, batch), jnp.int32)),
        },
        first=0,
    )
    share = jnp.asarray(np.arange(n) * 1.0 / n, real)  # looked up: XLA would multiply by 1/n, which rounds otherwise
    hints = {
        "pred_h": pointer(record["pred_h"].astype(jnp.int32), real),
        **{name: one_hot(record[name], n, real) for name in QUICKSELECT_MARKS},
        **{name: share[record[name]] for name in ("i_rank", "target")},
    }
    median = jnp.take_along_axis(record["i"], lengths[None] - 1, axis=0)[0]
    return Run(hints, {"median": one_hot(median, n, real)}, lengths)


BINARY_SEARCH = Algorithm(
    "binary_search",
    BINARY_SEARCH_SPEC,
    binary_search,
    SortedKeysAndTarget(),
    max_steps=lambda n: 1 + (n - 1).bit_length(),
    samples_multiplier=64,
    order_is_constant=True,
)
QUICKSELECT = Algorithm(
    "quickselect",
    QUICKSELECT_SPEC,
    quickselect,
    UniformKeys(),
    max_steps=lambda n: n * (n + 1) // 2,
    counts_first=True,
    samples_multiplier=64,
)
