"""Rotary positions: queries and keys are turned by angles that grow with their positions, so only distances count.

The turning is that of Su et al. 2021 (RoFormer). Positions are whole numbers that rise along a sequence. Plain ones
count tokens; randomised ones are a sorted draw from a longer range, so that long sequences meet no distance that short
ones never had.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

STEPS_PER_TURN = 2048
MOST_POSITIONS = 2**15  # for which the angles are exact, see `rotation`


class Rotation(NamedTuple):
    """The angles of every position, by pair of channels."""

    cos: Float[Array, "length pairs"]
    sin: Float[Array, "length pairs"]


def rotation(positions: Int[Array, " length"], width: int, base: float = 10_000.0) -> Rotation:
    """The angles p base^(-2i/width) of positions p and pairs of channels i, in float32.

    A product p f of thousands has an error of 1e-4 in float32. So the whole turns are taken off first: f / 2π is split
    into a multiple of 1/2048, whose product with p < `MOST_POSITIONS` is exact, and a rest below 1/4096. The error is
    then 1e-6.
    """
    turns = base ** (-2 * np.arange(width // 2) / width) / (2 * np.pi)
    coarse = np.round(turns * STEPS_PER_TURN) / STEPS_PER_TURN
    p = positions[:, None].astype(jnp.float32)
    exact = p * coarse.astype(np.float32)
    angle = 2 * np.pi * (exact - jnp.floor(exact) + p * (turns - coarse).astype(np.float32))
    return Rotation(jnp.cos(angle), jnp.sin(angle))


def rotate(x: Float[Array, "heads length width"], by: Rotation) -> Float[Array, "heads length width"]:
    """Turn channel i against channel i + width/2."""
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * by.cos - b * by.sin, a * by.sin + b * by.cos], axis=-1).astype(x.dtype)


def plain_positions(length: int, count: int) -> Int[np.ndarray, "count length"]:
    """0, 1, 2, ... for every sequence."""
    return np.tile(np.arange(length, dtype=np.int32), (count, 1))


def randomised_positions(
    rng: np.random.Generator, length: int, max_position: int, count: int
) -> Int[np.ndarray, "count length"]:
    """One sorted draw without replacement from 0 .. max_position - 1 for every sequence (Ruoss et al. 2023).

    A sequence that is decoded token by token takes its positions, answer included, from one draw.
    """
    if length > max_position:
        raise ValueError(f"{length} different positions cannot be drawn from {max_position}; raise max_position.")
    draws = [rng.choice(max_position, length, replace=False, shuffle=False) for _ in range(count)]
    return np.sort(np.array(draws, np.int32).reshape(count, length), axis=1)
