"""Random graphs, directed or not, acyclic, weighted, or in communities."""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from mechgap.algorithms.distributions.stream import BenchmarkStream

WEIGHT_FLOOR = 1e-3  # undirected weights are sqrt(w wᵀ + floor), so that an edge's weight is never 0


@dataclass(frozen=True)
class ErdosRenyi:
    """Random graphs with self-loops.

    Attributes:
        directed: without it an edge must be drawn in both directions, so it exists with probability p².
        acyclic: only edges from lower to higher nodes, which are then shuffled; there are no self-loops.
        weighted: uniform weights; an undirected edge has the geometric mean of its two draws.
        source: also draw a source node.
        p: edge probabilities, of which each sample draws one.
    """

    directed: bool = False
    acyclic: bool = False
    weighted: bool = False
    source: bool = False
    p: tuple[float, ...] = (0.5,)

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample in the benchmark's order: p, edges, order, weights, source."""
        uniform = np.empty((count, 1 + self.weighted, n, n))
        chosen, orders, sources = [], [], []
        for rows in uniform:
            chosen.append(stream.below(len(p)))
            if self.acyclic:
                stream.fill(rows[:1])
                orders.append(stream.rng.permutation(n))
                stream.fill(rows[1:])
            else:
                stream.fill(rows)  # of the edges and then of the weights
            if self.source:
                sources.append(stream.below(n))
        edges = _binomial(uniform[:, 0], p, chosen)
        if self.acyclic:
            edges = _shuffled(np.triu(edges, 1), np.stack(orders), np)
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
        of_order = jax.random.fold_in(key, 4)
        chosen = p[jax.random.randint(of_p, (batch, 1, 1), 0, len(p))]
        A = jax.random.bernoulli(of_edges, chosen, (batch, n, n)).astype(chosen.dtype)
        if not self.directed:
            A = A * A.mT
        if self.acyclic:
            A = _shuffled(jnp.triu(A, 1), _orders(of_order, n, batch), jnp)
        if self.weighted:
            weights = jax.random.uniform(of_weights, (batch, n, n))
            if not self.directed:
                weights = jnp.sqrt(weights * weights.mT + WEIGHT_FLOOR)
            A = A * weights
        if not self.source:
            return {"A": A}
        return {"A": A, "s": jax.nn.one_hot(jax.random.randint(of_source, (batch,), 0, n), n, dtype=A.dtype)}


@dataclass(frozen=True)
class Communities:
    """Directed random graphs within each of k groups of nodes, and a few changes; then the nodes are shuffled.

    Attributes:
        k: the number of communities; the last one takes the nodes that are left over.
        flipped: with this probability an edge is added where there is none, or removed where there is one; but none is
            added from a later to an earlier community, so that no cycle joins two of them.
        p: edge probabilities within a community, of which each sample draws one.
    """

    k: int = 4
    flipped: float = 0.01
    p: tuple[float, ...] = (0.5,)

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample in the benchmark's order: p, the edges of one community after the other, changes, order."""
        group = self._groups(n)
        within = [np.flatnonzero(group == g) for g in range(self.k)]
        uniform = np.empty((count, sum(len(nodes) ** 2 for nodes in within) + n * n))
        chosen, orders = [], []
        for row in uniform:
            chosen.append(stream.below(len(p)))
            stream.fill(row)
            orders.append(stream.rng.permutation(n))
        edges, start = np.zeros((count, n, n), bool), 0
        for nodes in within:
            size = len(nodes)
            block = uniform[:, start : start + size * size].reshape(count, size, size)
            edges[:, nodes[0] : nodes[0] + size, nodes[0] : nodes[0] + size] = _binomial(block, p, chosen)
            start += size * size
        flips = _binomial(uniform[:, start:].reshape(count, n, n), (self.flipped,), [0] * count)
        edges ^= flips & (group[:, None] <= group)
        return {"A": _shuffled(edges, np.stack(orders), np).astype(float)}

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        group = self._groups(n)
        of_p, of_edges, of_flips, of_order = jax.random.split(key, 4)
        chosen = p[jax.random.randint(of_p, (batch, 1, 1), 0, len(p))]
        edges = jax.random.bernoulli(of_edges, chosen, (batch, n, n)) & (group[:, None] == group)
        flips = jax.random.bernoulli(of_flips, self.flipped, (batch, n, n)) & (group[:, None] <= group)
        return {"A": _shuffled(edges ^ flips, _orders(of_order, n, batch), jnp).astype(chosen.dtype)}

    def _groups(self, n: int) -> np.ndarray:
        """The community of each node."""
        if n < self.k:
            raise ValueError(f"{self.k} communities need at least {self.k} nodes; got n = {n}.")
        return np.minimum(np.arange(n) // (n // self.k), self.k - 1)


def _binomial(uniform: np.ndarray, p: tuple[float, ...], chosen: list[int]) -> np.ndarray:
    """rng.binomial(1, p) [count, n, n] from the uniform numbers that it draws: inversion, mirrored for p above 1/2.

    The benchmark's would draw again where rounding carries a number within 1e-15 of 1 past the last outcome; that
    happens about once in 1e16 numbers, and not here.
    """
    mirrored = np.array([q > 0.5 for q in p])
    none = np.array([math.exp(math.log(1.0 - (1.0 - q if q > 0.5 else q))) for q in p])  # the probability of a 0
    return (uniform > none[chosen, None, None]) ^ mirrored[chosen, None, None]


def _shuffled(A: Any, order: Any, xp: ModuleType) -> Any:
    """Graphs [B, n, n] with node order[i] as node i."""
    rows = xp.take_along_axis(A, order[:, :, None], axis=1)
    return xp.take_along_axis(rows, order[:, None, :], axis=2)


def _orders(key: PRNGKeyArray, n: int, batch: int) -> Int[Array, "batch n"]:
    return jnp.argsort(jax.random.uniform(key, (batch, n)), axis=-1)
