"""Sorting an array: insertion sort."""

import jax.numpy as jnp
from jaxtyping import Array, Bool

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import UniformKeys
from mechgap.algorithms.searching import ARRAY_INPUTS, ORDER_HINT
from mechgap.algorithms.unroll import State, one_hot, pointer, unroll
from mechgap.trace import Kind, Location, Spec, Stage, Variable

INSERTION_SORT_SPEC = Spec(
    (
        *ARRAY_INPUTS,
        Variable("pred", Stage.OUTPUT, Location.NODE, Kind.POINTER, permutation=True),
        ORDER_HINT,
        Variable("i", Stage.HINT, Location.NODE, Kind.MASK_ONE),
        Variable("j", Stage.HINT, Location.NODE, Kind.MASK_ONE),
    )
)


def insertion_sort(inputs: dict[str, Array], steps: int) -> Run:
    """Element j joins the sorted prefix behind the last element that is not greater.

    The order is a chain of predecessors over all elements: the sorted prefix first, then the rest as it stands. In
    frame j, `i` marks the element that j was put in front of, j itself where it stayed in place.
    """
    n, real = inputs["key"].shape[-1], inputs["pos"].dtype
    ids = jnp.arange(n, dtype=jnp.int32)
    order = jnp.argsort(inputs["key"], axis=-1, stable=True).astype(jnp.int32)
    rank = jnp.argsort(order, axis=-1).astype(jnp.int32)  # an element's place in the fully sorted array

    def element(place: Array) -> Array:
        return jnp.take_along_axis(order, jnp.clip(place, 0, n - 1), axis=-1)

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        j = old["j"][:, None] + 1
        here = jnp.take_along_axis(rank, jnp.minimum(j, n - 1), axis=-1)
        prefix = ids < j
        before = jnp.max(jnp.where(prefix & (rank < here), rank, -1), axis=-1, keepdims=True)
        after = jnp.min(jnp.where(prefix & (rank > here), rank, n), axis=-1, keepdims=True)
        largest = element(jnp.max(jnp.where(prefix, rank, -1), axis=-1, keepdims=True))
        moves = after < n
        pred = jnp.where(ids == j, jnp.where(before < 0, j, element(before)), old["pred"])
        pred = jnp.where(moves & (ids == element(after)), j, pred)
        pred = jnp.where(moves & (ids == j + 1), largest, pred)  # the rest now hangs on the prefix's last element
        i = jnp.where(moves, element(after), j)[:, 0]
        return {"pred": pred, "i": i, "j": j[:, 0]}, j[:, 0] < n

    batch = inputs["key"].shape[0]
    zero = jnp.zeros(batch, jnp.int32)
    start = {"pred": jnp.broadcast_to(jnp.maximum(ids - 1, 0), (batch, n)), "i": zero, "j": zero}

    def show(state: State) -> dict[str, Array]:
        marks = {name: one_hot(state[name], n, real) for name in ("i", "j")}
        return {"pred_h": pointer(state["pred"], real), **marks}

    hints, last, lengths = unroll(step, start, steps, show)
    return Run(hints, {"pred": last["pred"]}, lengths)


INSERTION_SORT = Algorithm("insertion_sort", INSERTION_SORT_SPEC, insertion_sort, UniformKeys(), max_steps=lambda n: n)
