"""The benchmark's input distributions, each drawn two ways: by NumPy's RandomState and by JAX keys."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

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
