"""Points in the plane."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from mechgap.algorithms.distributions.stream import BenchmarkStream

DISK_RADIUS = 2.0
ATTEMPTS = 1_000  # refused draws for every accepted one, after which the benchmark gives up
IN_A_LINE = 1e-12  # three points are in a line where the cross product of their differences is below this


@dataclass(frozen=True)
class TwoSegments:
    """Two segments in the unit square, given by four points whatever n is; a fair coin says whether they cross."""

    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample in the benchmark's order: the coin, and then points until they fall as the coin did.

        Where a sample starts depends on the ones before, so every place of the stream is tried as a start at once.
        """
        points: list[np.ndarray] = []
        missing, per_sample = count, 32
        while missing:
            uniform = stream.uniforms_ahead(per_sample * missing + 256)
            per_sample *= 2  # a sample that needs more than this is seen whole in the end
            windows = np.lib.stride_tricks.sliding_window_view(uniform, 8).reshape(-1, 2, 4)
            crosses, heads = _segments_cross(windows[:, 0], windows[:, 1]).tolist(), (uniform > 0.5).tolist()
            starts, used = _accepted_starts(crosses, heads, missing)
            stream.skip_words(2 * used)
            points.append(windows[starts])
            missing -= len(starts)
        x, y = np.concatenate(points).swapaxes(0, 1)
        return {"x": np.ascontiguousarray(x), "y": np.ascontiguousarray(y)}

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        of_coin, of_points = jax.random.split(key)
        coin = jax.random.bernoulli(of_coin, 0.5, (batch,))

        def wrong(points: Array) -> Array:
            return _segments_cross(points[:, 0], points[:, 1]) != coin

        def again(state: tuple[PRNGKeyArray, Array]) -> tuple[PRNGKeyArray, Array]:
            key, points = state
            key, now = jax.random.split(key)
            return key, jnp.where(wrong(points)[:, None, None], jax.random.uniform(now, points.shape), points)

        first = jax.random.uniform(of_points, (batch, 2, 4))
        _, points = jax.lax.while_loop(lambda state: jnp.any(wrong(state[1])), again, (of_points, first))
        return {"x": points[:, 0], "y": points[:, 1]}


def _segments_cross(x: Any, y: Any) -> Any:
    """Whether segment 0-1 crosses segment 2-3; points in a line do not count. [B, 4] -> [B]"""

    def left(a: int, b: int, c: int) -> Any:
        return (y[:, c] - y[:, a]) * (x[:, b] - x[:, a]) > (y[:, b] - y[:, a]) * (x[:, c] - x[:, a])

    return (left(0, 2, 3) != left(1, 2, 3)) & (left(0, 1, 2) != left(0, 1, 3))


def _accepted_starts(crosses: list[bool], heads: list[bool], missing: int) -> tuple[list[int], int]:
    """Where the accepted points of up to `missing` samples start, as far as the numbers reach; how many were used."""
    starts: list[int] = []
    used = 0
    while len(starts) < missing:
        coin, start = heads[used], used + 1
        while start < len(crosses) and crosses[start] != coin:
            start += 8
        if start >= len(crosses) - 8:  # the next coin must be in sight, too
            break
        starts.append(start)
        used = start + 8
    return starts, used


@dataclass(frozen=True)
class PointsInDisk:
    """Points spread evenly over a disk of radius 2, no three of them in a line.

    Attributes:
        decimals: cut the benchmark's draws to as many before looking for three points in a line, as for CLRS-Text.
    """

    decimals: int | None = None
    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample in the benchmark's order: angles, radii, and again where three points are nearly in a line."""
        accepted, refused = np.empty((0, 2, n)), 0
        while len(accepted) < count:
            if refused > ATTEMPTS * (len(accepted) + 1):
                raise ValueError(
                    f"Of {refused} draws of {n} points{self._as_cut} only {len(accepted)} have no three in a line; "
                    f"ask for fewer nodes or more decimals."
                )
            uniform = np.empty((count - len(accepted), 2, n))
            stream.fill(uniform)
            angle, radius = 2.0 * np.pi * uniform[:, 0], DISK_RADIUS * np.sqrt(uniform[:, 1])
            points = self._cut(np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1))
            fine = ~_three_in_a_line(points)
            accepted, refused = np.concatenate([accepted, points[fine]]), refused + int(np.sum(~fine))
        accepted = self._cut(accepted)  # the benchmark cuts twice, which is not the same: 1.001 becomes 1.0
        return {"x": np.ascontiguousarray(accepted[:, 0]), "y": np.ascontiguousarray(accepted[:, 1])}

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        """Without drawing again: that happens to one sample of 64 points in ten million, and float32 cannot tell."""
        angle, radius = jax.random.uniform(key, (2, batch, n))
        angle, radius = 2.0 * jnp.pi * angle, DISK_RADIUS * jnp.sqrt(radius)
        return {"x": radius * jnp.cos(angle), "y": radius * jnp.sin(angle)}

    @property
    def _as_cut(self) -> str:
        return "" if self.decimals is None else f" with {self.decimals} decimals"

    def _cut(self, points: np.ndarray) -> np.ndarray:
        return points if self.decimals is None else np.trunc(points * 10**self.decimals) / 10**self.decimals


def _three_in_a_line(points: np.ndarray) -> np.ndarray:
    """Whether some three points span an area below the benchmark's limit: [B, 2, n] -> [B]."""
    found = np.zeros(len(points), bool)
    for first in range(points.shape[-1] - 2):
        dx, dy = np.moveaxis(points[..., first + 1 :] - points[..., first, None], 1, 0)
        product = dx[:, :, None] * dy[:, None, :]
        area = np.abs(np.subtract(product, product.mT))
        area[:, np.arange(dx.shape[-1]), np.arange(dx.shape[-1])] = np.inf
        found |= area.min(axis=(1, 2)) < IN_A_LINE
    return found
