"""The benchmark's input distributions, each drawn two ways: by NumPy's RandomState and by JAX keys."""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

CHARACTERS = 4  # the benchmark's alphabet
DISK_RADIUS = 2.0
IN_A_LINE = 1e-12  # three points are in a line where the cross product of their differences is below this
WEIGHT_FLOOR = 1e-3  # undirected weights are sqrt(w wᵀ + floor), so that an edge's weight is never 0


class BenchmarkStream:
    """The random numbers of the benchmark: those of NumPy's RandomState, at a fraction of its cost per call.

    Attributes:
        rng: the RandomState itself; it and the methods here draw from one sequence.
    """

    def __init__(self, seed: int | None) -> None:
        self._bits = np.random.MT19937()
        self.rng = np.random.RandomState(self._bits)
        self.rng.seed(seed)
        self._generator = np.random.Generator(self._bits)

    def fill(self, uniform: np.ndarray) -> None:
        """Fill a contiguous array with what rng.uniform would return."""
        self._generator.random(out=uniform)

    def below(self, bound: int) -> int:
        """What rng.randint(bound) and rng.choice(bound) return: 32-bit words, masked, until one is below the bound."""
        if bound == 1:
            return 0
        mask = (1 << (bound - 1).bit_length()) - 1
        while (value := self._bits.random_raw() & mask) >= bound:
            pass
        return value

    def uniforms_ahead(self, count: int) -> np.ndarray:
        """The uniform numbers that come next, without drawing them."""
        here = self._bits.state
        uniform = self._generator.random(count)
        self._bits.state = here
        return uniform

    def words_ahead(self, count: int) -> np.ndarray:
        """The random words of 32 bits that come next, which rng.randint masks, without drawing them."""
        here = self._bits.state
        words = self._bits.random_raw(count)
        self._bits.state = here
        return words

    def skip_words(self, count: int) -> None:
        """Draw random words of 32 bits; a uniform number takes two."""
        self._bits.random_raw(count, output=False)


def _binomial(uniform: np.ndarray, p: tuple[float, ...], chosen: list[int]) -> np.ndarray:
    """rng.binomial(1, p) [count, n, n] from the uniform numbers that it draws: inversion, mirrored for p above 1/2.

    The benchmark's would draw again where rounding carries a number within 1e-15 of 1 past the last outcome; that
    happens about once in 1e16 numbers, and not here.
    """
    mirrored = np.array([q > 0.5 for q in p])
    none = np.array([math.exp(math.log(1.0 - (1.0 - q if q > 0.5 else q))) for q in p])  # the probability of a 0
    return (uniform > none[chosen, None, None]) ^ mirrored[chosen, None, None]


@dataclass(frozen=True)
class ErdosRenyi:
    """Random graphs with self-loops.

    Attributes:
        directed: without it an edge must be drawn in both directions, so it exists with probability p².
        weighted: uniform weights; an undirected edge has the geometric mean of its two draws.
        source: also draw a source node.
        p: edge probabilities, of which each sample draws one.
    """

    directed: bool = False
    weighted: bool = False
    source: bool = False
    p: tuple[float, ...] = (0.5,)

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample in the benchmark's order: p, edges, weights, source."""
        uniform = np.empty((count, 1 + self.weighted, n, n))
        chosen, sources = [], []
        for rows in uniform:
            chosen.append(stream.below(len(p)))
            stream.fill(rows)  # of the edges and then of the weights
            if self.source:
                sources.append(stream.below(n))
        edges = _binomial(uniform[:, 0], p, chosen)
        A = self._weighted(edges, uniform[:, 1]) if self.weighted else self._symmetric(edges).astype(int)
        return {"A": A, "s": np.eye(n)[sources]} if self.source else {"A": A}

    def _weighted(self, edges: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if not self.directed:
            weights = np.sqrt(weights * weights.mT + WEIGHT_FLOOR)
        return self._symmetric(edges) * weights

    def _symmetric(self, edges: np.ndarray) -> np.ndarray:
        return edges if self.directed else edges & edges.mT

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        of_p, of_edges, of_weights, of_source = jax.random.split(key, 4)
        chosen = p[jax.random.randint(of_p, (batch, 1, 1), 0, len(p))]
        A = jax.random.bernoulli(of_edges, chosen, (batch, n, n)).astype(chosen.dtype)
        if not self.directed:
            A = A * A.mT
        if self.weighted:
            weights = jax.random.uniform(of_weights, (batch, n, n))
            if not self.directed:
                weights = jnp.sqrt(weights * weights.mT + WEIGHT_FLOOR)
            A = A * weights
        if not self.source:
            return {"A": A}
        return {"A": A, "s": jax.nn.one_hot(jax.random.randint(of_source, (batch,), 0, n), n, dtype=A.dtype)}


@dataclass(frozen=True)
class UniformKeys:
    """An array of uniform keys."""

    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """All keys of all samples are consecutive numbers of the stream."""
        key = np.empty((count, n))
        stream.fill(key)
        return {"key": key}

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        return {"key": jax.random.uniform(key, (batch, n))}


def _below(bound: int, words: list[int], used: int) -> tuple[int, int]:
    """`BenchmarkStream.below` on words drawn ahead: the number, and how many words are used then."""
    if bound == 1:
        return 0, used
    mask = (1 << (bound - 1).bit_length()) - 1
    while (value := words[used] & mask) >= bound:
        used += 1
    return value, used + 1


@dataclass(frozen=True)
class NeedleInHaystack:
    """Two random strings over four characters, the needle copied to a random place of the haystack.

    The benchmark leaves out the haystack's last place.

    Attributes:
        longest: the needle's length is drawn from 1 ... longest, as in the reference training script (8); without it,
            it is a fifth of all characters.
    """

    longest: int | None = None
    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample in the benchmark's order: the needle's length, the needle, the haystack, the place."""
        self._check(n)
        per_sample = n + 8
        while True:
            words = stream.words_ahead(per_sample * count + 64)
            try:
                needle, start, place, used = self._places(words.tolist(), n, count)
                break
            except IndexError:  # numbers out of a range, which are drawn again, were more than expected
                per_sample *= 2
        stream.skip_words(used)
        characters = words[start + (np.arange(n) + needle) % n]  # the needle is drawn first and stands last
        return self._strings(characters.astype(np.int64) & (CHARACTERS - 1), needle, place, np)

    def _places(self, words: list[int], n: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Of each sample: the needle's length, where its characters start in the stream, its place in the haystack."""
        samples, used = [], 0
        needle = max(n // 5, 1)
        for _ in range(count):
            if self.longest is not None:
                longer, used = _below(self.longest, words, used)
                needle = 1 + longer
            start = used
            place, used = _below(n - 2 * needle, words, start + n)
            samples.append((needle, start, place))
        needles, starts, places = np.array(samples).T[..., None]
        return needles, starts, places, used

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        self._check(n)
        of_needle, of_characters, of_place = jax.random.split(key, 3)
        needle = jnp.full((batch, 1), max(n // 5, 1))
        if self.longest is not None:
            needle = jax.random.randint(of_needle, (batch, 1), 1, self.longest + 1)
        characters = jax.random.randint(of_characters, (batch, n), 0, CHARACTERS)
        place = jax.random.randint(of_place, (batch, 1), 0, n - 2 * needle)
        return self._strings(characters, needle, place, jnp)

    def _check(self, n: int) -> None:
        longest = max(n // 5, 1) if self.longest is None else self.longest
        if n <= 2 * longest:
            raise ValueError(f"A needle of {longest} and a longer haystack need n >= {2 * longest + 1}; got n = {n}.")

    @staticmethod
    def _strings(characters: Any, needle: Any, place: Any, xp: ModuleType) -> dict[str, Any]:
        """The inputs, from the characters of the haystack and then of the needle."""
        ids = xp.arange(characters.shape[-1])
        head = len(ids) - needle
        copied = (place <= ids) & (ids < place + needle)
        characters = xp.take_along_axis(characters, xp.where(copied, ids - place + head, ids), axis=-1)
        return {"string": (ids >= head) * 1.0, "key": (characters[..., None] == xp.arange(CHARACTERS)) * 1.0}


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
    """Points spread evenly over a disk of radius 2, no three of them in a line."""

    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample in the benchmark's order: angles, radii, and again where three points are nearly in a line."""
        accepted = np.empty((0, 2, n))
        while len(accepted) < count:
            uniform = np.empty((count - len(accepted), 2, n))
            stream.fill(uniform)
            angle, radius = 2.0 * np.pi * uniform[:, 0], DISK_RADIUS * np.sqrt(uniform[:, 1])
            points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
            accepted = np.concatenate([accepted, points[~_three_in_a_line(points)]])
        return {"x": np.ascontiguousarray(accepted[:, 0]), "y": np.ascontiguousarray(accepted[:, 1])}

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        """Without drawing again: that happens to one sample of 64 points in ten million, and float32 cannot tell."""
        angle, radius = jax.random.uniform(key, (2, batch, n))
        angle, radius = 2.0 * jnp.pi * angle, DISK_RADIUS * jnp.sqrt(radius)
        return {"x": radius * jnp.cos(angle), "y": radius * jnp.sin(angle)}


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
