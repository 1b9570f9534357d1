"""Partitioning a part of an array by its last key, one comparison a frame: quicksort's step, and quickselect's.

The state has the part's ends p and r, the place i behind the keys that are not greater than the pivot's, the place j
that is looked at, and the nodes at i, j and r, read ahead (`Access` says why). The memory has the node of each place,
and the predecessor of each node, which is the node one place before it.
"""

import jax.numpy as jnp
from jaxtyping import Array

from mechgap.algorithms.rows import Access, short
from mechgap.algorithms.unroll import State


def standing(batch: int, n: int) -> State:
    """The memory of an array in which nothing has moved yet, in small integers: a frame has a copy of a row."""
    order = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32), (batch, n))
    return {"order": order, "pred": jnp.maximum(order - 1, 0).astype(short(n))}


def beginning(batch: int, n: int) -> State:
    """The state before the first comparison of the whole array."""
    zero, last = jnp.zeros(batch, jnp.int32), jnp.full(batch, n - 1, jnp.int32)
    return {"p": zero, "r": last, "i": zero, "j": zero, "of_i": zero, "of_j": zero, "of_r": last}


def compared(here: State, memory: State, rows: Access, key: Array) -> tuple[State, Array]:
    """Look at place j: what is there and not greater than the pivot goes to i, and i moves on; at r, the pivot itself
    goes there, and i stays."""
    n, (i, j) = key.shape[-1], (here["i"], here["j"])
    moves = rows.get(key, here["of_j"]) <= rows.get(key, here["of_r"])  # the pivot always does
    order = rows.put(memory["order"], i, jnp.where(moves, here["of_j"], here["of_i"]))
    order = rows.put(order, j, jnp.where(moves, here["of_i"], here["of_j"]))
    pred = memory["pred"]
    for place in (i, i + 1, j, j + 1):  # all where the node, or the one before it, may be another now
        there = jnp.minimum(place, n - 1)
        pred = rows.put(pred, rows.get(order, there), rows.get(order, jnp.maximum(there - 1, 0)))
    return {**memory, "order": order, "pred": pred}, jnp.where(moves & (j < here["r"]), i + 1, i)


def nodes_at(following: State, order: Array, rows: Access) -> State:
    """The nodes at i, j and r; at the end of an execution, when there is no next place, any ones."""
    last = order.shape[-1] - 1
    return {f"of_{name}": rows.get(order, jnp.clip(following[name], 0, last)) for name in ("i", "j", "r")}
