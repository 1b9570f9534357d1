"""Numbers: keys to sort and to search, probabilities, activities and tasks."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from mechgap.algorithms.distributions.stream import BenchmarkStream


@dataclass(frozen=True)
class UniformKeys:
    """An array of numbers that are uniform from `low` to 1.

    Attributes:
        name: of the input they are.
    """

    low: float = 0.0
    name: str = "key"
    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """All keys of all samples are consecutive numbers of the stream."""
        key = np.empty((count, n))
        stream.fill(key)
        return {self.name: self.low + (1.0 - self.low) * key if self.low else key}

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        return {self.name: jax.random.uniform(key, (batch, n), minval=self.low)}


@dataclass(frozen=True)
class SortedKeysAndTarget:
    """A sorted array of uniform keys, and a uniform number to look for."""

    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample: keys, target."""
        uniform = np.empty((count, n + 1))
        stream.fill(uniform)
        return {"key": np.sort(uniform[:, :n], axis=-1), "target": uniform[:, n]}

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        uniform = jax.random.uniform(key, (batch, n + 1))
        return {"key": jnp.sort(uniform[:, :n], axis=-1), "target": uniform[:, n]}


@dataclass(frozen=True)
class SearchProbabilities:
    """How often each of n keys is searched for (p), and each of the n + 1 gaps between them (q); together they are 1.

    There is one node per gap, so that n keys make n + 1 nodes; p is 0 at the last one.
    """

    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample: the keys' numbers, then the gaps'."""
        uniform = np.empty((count, 2 * n + 1))
        stream.fill(uniform)
        return self._split(uniform / uniform.sum(axis=-1, keepdims=True), n, np)

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        uniform = jax.random.uniform(key, (batch, 2 * n + 1))
        return self._split(uniform / uniform.sum(axis=-1, keepdims=True), n, jnp)

    def _split(self, numbers: Any, n: int, xp: ModuleType) -> dict[str, Any]:
        return {"p": xp.pad(numbers[:, :n], ((0, 0), (0, 1))), "q": numbers[:, n:]}


@dataclass(frozen=True)
class Activities:
    """Activities from the smaller (s) to the larger (f) of two uniform numbers."""

    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample: one number of every activity, then the other."""
        ends = np.empty((count, 2, n))
        stream.fill(ends)
        return {"s": ends.min(axis=1), "f": ends.max(axis=1)}

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        ends = jax.random.uniform(key, (batch, 2, n))
        return {"s": ends.min(axis=1), "f": ends.max(axis=1)}


@dataclass(frozen=True)
class Tasks:
    """Tasks with a deadline (d) that is one of 1..n and a uniform value (w)."""

    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample: deadlines, values."""
        d, w = np.empty((count, n), int), np.empty((count, n))
        for deadlines, values in zip(d, w, strict=True):
            deadlines[:] = stream.rng.randint(n, size=n)
            stream.fill(values)
        return {"d": d + 1, "w": w}

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        of_deadlines, of_values = jax.random.split(key)
        w = jax.random.uniform(of_values, (batch, n))
        return {"d": jax.random.randint(of_deadlines, (batch, n), 1, n + 1).astype(w.dtype), "w": w}
