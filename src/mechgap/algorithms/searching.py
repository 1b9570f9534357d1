"""Searching an array: the minimum, a place in a sorted array, the median."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import SortedKeysAndTarget, UniformKeys
from mechgap.algorithms.unroll import State, at, frames_before, one_hot, pointer, unroll
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


QUICKSELECT_SPEC = Spec(
    (
        *ARRAY_INPUTS,
        Variable("median", Stage.OUTPUT, Location.NODE, Kind.MASK_ONE),
        ORDER_HINT,
        node_mark("p"),
        node_mark("r"),
        node_mark("i"),
        node_mark("j"),
        Variable("i_rank", Stage.HINT, Location.GRAPH, Kind.SCALAR),
        Variable("target", Stage.HINT, Location.GRAPH, Kind.SCALAR),
        node_mark("pivot"),
    )
)


def quickselect(inputs: dict[str, Array], steps: int) -> Run:
    """Partition the places p..r by the key at r, and go on in the part that holds the target, until that is the pivot.

    A frame is one place j looked at, and j = r is the pivot's turn: it goes behind the i - p keys that are not greater.
    No frame comes before the first look. `target` and, in the pivot's turn, `i_rank` count from p, else from 0.
    """
    key, real = inputs["key"], inputs["pos"].dtype
    batch, n = key.shape
    places = jnp.arange(n, dtype=jnp.int32)

    share = jnp.asarray(np.arange(n) * 1.0 / n, real)  # looked up: XLA would multiply by 1/n, which rounds otherwise

    def look(order: Array, pred: Array, p: Array, r: Array, i: Array, j: Array, target: Array) -> State:
        """Frame j of a partition; i is the place behind the keys that are not greater, and moves on by one of them."""
        of_i, of_j, of_r = at(order, i), at(order, j), at(order, r)
        moves = at(key, of_j) <= at(key, of_r)  # the pivot always does
        swapped = jnp.where(places == i[:, None], of_j[:, None], order)
        swapped = jnp.where(places == j[:, None], of_i[:, None], swapped)
        order = jnp.where(moves[:, None], swapped, order)
        # The nodes at i and j, and those behind them, are all whose predecessor may be another now.
        for place in (i, i + 1, j, j + 1):
            place = jnp.minimum(place, n - 1)
            node, before = at(order, place), at(order, jnp.maximum(place - 1, 0))
            pred = jnp.where(places == node[:, None], before[:, None], pred)
        i = jnp.where(moves & (j < r), i + 1, i)
        return {"order": order, "pred": pred, "p": p, "r": r, "i": i, "j": j, "target": target}

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        p, r, i, j, target = (old[name] for name in ("p", "r", "i", "j", "target"))
        parted, below, found = j == r, target < i - p, target == i - p
        low, high = jnp.where(below, p, i + 1), jnp.where(below, i - 1, r)
        # Nothing is kept of a step beyond the end, but its places must exist.
        low, high = jnp.minimum(low, n - 1), jnp.maximum(high, 0)
        target = jnp.where(parted & ~below, target - (i - p) - 1, target)
        p, r = jnp.where(parted, low, p), jnp.where(parted, high, r)
        i, j = jnp.where(parted, p, i), jnp.where(parted, p, j + 1)
        return look(old["order"], old["pred"], p, r, i, j, target), ~(parted & found)

    zero = jnp.zeros(batch, jnp.int32)
    standing, pred = (jnp.broadcast_to(x, (batch, n)) for x in (places, jnp.maximum(places - 1, 0)))
    start = look(standing, pred, zero, zero + n - 1, zero, zero, zero + n // 2)

    def show(state: State) -> dict[str, Array]:
        order, p, r, i, j = (state[name] for name in ("order", "p", "r", "i", "j"))
        pivots_turn = j == r
        shown = {"p": p, "r": r, "i": i, "j": j, "pivot": jnp.where(pivots_turn, i, r)}
        return {
            "pred_h": pointer(state["pred"], real),
            **{name: at(order, place) for name, place in shown.items()},
            "i_rank": share[i - jnp.where(pivots_turn, p, 0)],
            "target": share[state["target"]],
        }

    record, last, lengths = unroll(step, start, steps, show)
    marks = {name: one_hot(record[name], n, real) for name in ("p", "r", "i", "j", "pivot")}
    median = one_hot(at(last["order"], last["i"]), n, real)
    return Run({**record, **frames_before(lengths, marks)}, {"median": median}, lengths)


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
