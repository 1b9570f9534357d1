"""Run a batch of executions step by step and record every frame."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Num, Shaped

State = dict[str, Array]  # every leaf has a leading batch axis
Show = Callable[[State], dict[str, Array]]

NEVER = 2**30  # the frame of what has not happened


def unroll(
    step: Callable[[State], tuple[State, Bool[Array, " batch"]]],
    state: State,
    steps: int,
    show: Show,
) -> tuple[dict[str, Array], State, Int[Array, " batch"]]:
    """Apply `step` until every execution has ended or `steps` frames are recorded.

    The batch is one loop with one exit: a loop per sample under vmap would carry the whole record through a select at
    every step. An execution that has ended keeps its state while the others go on, and its frames are zero from then
    on, as in the benchmark. Frames are written once, in their final form: at 64 nodes that is most of the work.

    Args:
        step: state -> (next state, whether that next state is a frame of the execution).
        state: frame 0; keep it compact (indices, not one-hot vectors).
        steps: T, the number of frames there is room for (static).
        show: state -> the hints of its frame.

    Returns:
        The hints [T, B, ...], the last state, and the lengths [B].
    """
    batch = jax.tree.leaves(state)[0].shape[0]
    record = jax.tree.map(lambda x: jnp.zeros((steps, *x.shape), x.dtype).at[0].set(x), show(state))

    def more(carry: tuple) -> Bool[Array, ""]:
        t, _, _, _, running = carry
        return (t < steps) & jnp.any(running)

    def advance(carry: tuple) -> tuple:
        t, state, record, lengths, running = carry
        following, goes_on = step(state)
        running = running & goes_on
        state = jax.tree.map(lambda new, old: jnp.where(_like(running, new), new, old), following, state)
        frame = {k: jnp.where(_like(running, x), x, jnp.zeros((), x.dtype)) for k, x in show(state).items()}
        record = {k: jax.lax.dynamic_update_index_in_dim(record[k], x, t, 0) for k, x in frame.items()}
        return t + 1, state, record, lengths + running, running

    start = (1, state, record, jnp.ones(batch, jnp.int32), jnp.ones(batch, bool))
    _, state, record, lengths, _ = jax.lax.while_loop(more, advance, start)
    return record, state, lengths


def pointer(index: Int[Array, "..."], real: jnp.dtype) -> Array:
    """A pointer hint: the benchmark stores it as a float64; in float32 it stays a whole number."""
    return index.astype(real) if real == jnp.float64 else index


def frames_before(lengths: Int[Array, " batch"], values: dict[str, Array]) -> dict[str, Array]:
    """Zero every frame [T, B, ...] from each execution's length on: the benchmark pads with zeros."""

    def cut(x: Array) -> Array:
        inside = jnp.arange(x.shape[0])[:, None] < lengths
        return jnp.where(inside.reshape(inside.shape + (1,) * (x.ndim - 2)), x, jnp.zeros((), x.dtype))

    return {name: cut(x) for name, x in values.items()}


def one_hot(index: Int[Array, "..."], classes: int, dtype: jnp.dtype) -> Array:
    """[...] -> [..., classes]; where no class is the index, zeros."""
    return marks(index[..., None] == jnp.arange(classes, dtype=index.dtype), dtype)


def marks(mask: Bool[Array, "..."], dtype: jnp.dtype) -> Array:
    """A mask as ones and zeros: chosen, since to convert it takes a fifth longer."""
    return jnp.where(mask, jnp.ones((), dtype), jnp.zeros((), dtype))


def expanded(
    record: dict[str, Array], lengths: Int[Array, " batch"], classes: dict[str, int], real: jnp.dtype
) -> dict[str, Array]:
    """The recorded hints, those of `classes` turned from indices [T, B] into one-hot vectors.

    Made at once, after the loop: that writes each of them once, where `unroll` first makes room and then fills it.
    """
    vectors = {name: one_hot(record[name], count, real) for name, count in classes.items()}
    return {**record, **frames_before(lengths, vectors)}


def at(values: Shaped[Array, "batch n"], index: Int[Array, " batch"]) -> Shaped[Array, " batch"]:
    """The value at each sample's own index."""
    return jnp.take_along_axis(values, index[:, None], axis=-1)[:, 0]


def lowest(mask: Bool[Array, "... n"], axis: int = -1) -> Int[Array, "..."]:
    """The lowest index where the mask holds, n where it holds nowhere (XLA's argmax over a mask is slow)."""
    n = mask.shape[axis]
    ids = jnp.arange(n, dtype=jnp.int32)
    if axis == -1:
        return smallest(jnp.where(mask, ids, n))[..., 0]
    return jnp.min(jnp.where(mask, ids[:, None], n), axis=axis)


def smallest(x: Num[Array, "... n"]) -> Num[Array, "... 1"]:
    """The minimum over the last axis, of halves first: XLA goes through one long row in windows, at half the speed."""
    while x.shape[-1] > 8 and x.shape[-1] % 2 == 0:
        half = x.shape[-1] // 2
        x = jnp.minimum(x[..., :half], x[..., half:])
    return jnp.min(x, axis=-1, keepdims=True)


def _like(flag: Bool[Array, " batch"], x: Array) -> Array:
    return flag.reshape(flag.shape + (1,) * (x.ndim - 1))
