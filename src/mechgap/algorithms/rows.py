"""Executions whose steps read and write single elements of their sample's rows.

A step of a whole batch takes what starting its operations takes, which is far more than their work. Where a step is a
few reads and writes of single elements, XLA compiles the steps of one sample, and the loop over the samples, into one
function, in which a step takes some nanoseconds: on a processor the samples go one by one, elsewhere all at once.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Shaped

from mechgap.algorithms.unroll import State, at

NOTHING = -1  # a record where there is no frame: its one-hot vector is zero


def short(most: int) -> np.dtype:
    """The smallest type of integers for numbers up to that: more of them go into one instruction, and into a cache."""
    return np.min_scalar_type(-most)


class Access(NamedTuple):
    """How a step reaches into arrays [B, n]: at an index of its sample, or at one index of every sample.

    Read what was written, not what will be: an array that is read and then written in one step is copied in between.
    """

    get: Callable[[Array, Array], Array]  # values, index
    put: Callable[[Array, Array, Array], Array]  # values, index, new value
    row: Callable[[Array], Array]  # values: [n], or of every sample [B, n]


Step = Callable[[State, State, Access, Array], tuple[State, State, State]]
More = Callable[[State], Bool[Array, "..."]]


def unroll_rows(
    step: Step, more: More, state: State, memory: State, record: dict[str, Shaped[Array, "steps batch ..."]], first: int
) -> tuple[dict[str, Shaped[Array, "steps batch ..."]], State, Int[Array, " batch"]]:
    """Apply `step` while there is `more`, and room in the record.

    Args:
        step: (state, memory, access, frame) -> (state, memory, what the record holds of the frame), for one sample or
            for all: it is written with operations that go element by element, or along the last axis.
        more: state -> whether there is another step.
        state: numbers of each sample, [B].
        memory: rows of each sample, [B, n].
        record: its values before the first step, and where there is none: numbers, or rows, of each sample.
        first: the frame that the first step makes.

    Returns:
        The record, the memory, and the lengths [B].
    """
    return jax.lax.platform_dependent(
        state,
        memory,
        record,
        cpu=partial(_one_by_one, step, more, first),
        default=partial(_all_at_once, step, more, first),
    )


def _one_by_one(step: Step, more: More, first: int, state: State, memory: State, record: State) -> tuple:
    steps, batch = next(iter(record.values())).shape[:2]

    def sample(k: Array, carry: tuple) -> tuple:
        access = Access(
            lambda values, index: _get(values, k, index),
            lambda values, index, new: _put(values, (k, index), new),
            lambda values: jax.lax.dynamic_index_in_dim(values, k, keepdims=False, allow_negative_indices=False),
        )

        def advance(carry: tuple) -> tuple:
            t, state, memory, record = carry
            state, memory, shown = step(state, memory, access, t)
            return t + 1, state, memory, {name: _put(record[name], (t, k), x) for name, x in shown.items()}

        memory, record, lengths = carry
        start = (jnp.int32(first), {name: x[k] for name, x in state.items()}, memory, record)
        t, _, memory, record = jax.lax.while_loop(lambda c: more(c[1]) & (c[0] < steps), advance, start)
        return memory, record, lengths.at[k].set(jnp.minimum(t, steps))

    carry = (memory, record, jnp.zeros(batch, jnp.int32))
    memory, record, lengths = jax.lax.fori_loop(jnp.int32(0), jnp.int32(batch), sample, carry)
    return record, memory, lengths


def _all_at_once(step: Step, more: More, first: int, state: State, memory: State, record: State) -> tuple:
    steps, batch = next(iter(record.values())).shape[:2]

    def advance(carry: tuple) -> tuple:
        t, old, memory, record, lengths = carry
        running = more(old)

        def put(values: Array, index: Array, new: Array) -> Array:
            here = running[:, None] & (index[:, None] == jnp.arange(values.shape[1], dtype=index.dtype))
            return jnp.where(here, jnp.broadcast_to(new, index.shape)[:, None].astype(values.dtype), values)

        def kept(new: Array, old: Array) -> Array:
            return jnp.where(running.reshape(batch, *[1] * (new.ndim - 1)), new, old)

        state, memory, shown = step(old, memory, Access(at, put, lambda values: values), t)
        state = {name: kept(x, old[name]) for name, x in state.items()}
        record = {name: x.at[t].set(kept(shown[name], x[t])) for name, x in record.items()}
        return t + 1, state, memory, record, lengths + running

    start = (jnp.int32(first), state, memory, record, jnp.full(batch, min(first, steps), jnp.int32))
    carry = jax.lax.while_loop(lambda c: jnp.any(more(c[1])) & (c[0] < steps), advance, start)
    _, _, memory, record, lengths = carry
    return record, memory, lengths


def _get(values: Array, row: Array, column: Array) -> Array:
    return jax.lax.dynamic_slice(values, (row, column), (1, 1), allow_negative_indices=False)[0, 0]


def _put(values: Array, index: tuple[Array, Array], new: Array) -> Array:
    start, new = (*index, *[jnp.int32(0)] * (values.ndim - 2)), new.astype(values.dtype)[None, None]
    return jax.lax.dynamic_update_slice(values, new, start, allow_negative_indices=False)
