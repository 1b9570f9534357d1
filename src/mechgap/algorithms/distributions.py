"""The benchmark's input distributions, each drawn two ways: by NumPy's RandomState and by JAX keys."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

WEIGHT_FLOOR = 1e-3  # undirected weights are sqrt(w wᵀ + floor), so that an edge's weight is never 0


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

    def draw(self, rng: np.random.RandomState, n: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        # randint(len(p)) is the draw inside rng.choice(p), at a fraction of its cost; likewise for the source.
        A = rng.binomial(1, p[rng.randint(len(p))], size=(n, n))
        if not self.directed:
            A = A * A.T
        if self.weighted:
            weights = rng.uniform(size=(n, n))
            if not self.directed:
                weights = np.sqrt(weights * weights.T + WEIGHT_FLOOR)
            return self._with_source({"A": A.astype(float) * weights}, rng)
        return self._with_source({"A": A}, rng)

    def _with_source(self, inputs: dict[str, np.ndarray], rng: np.random.RandomState) -> dict[str, np.ndarray]:
        if not self.source:
            return inputs
        n = inputs["A"].shape[-1]
        s = np.zeros(n)
        s[rng.randint(n)] = 1
        return {**inputs, "s": s}

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

    def draw(self, rng: np.random.RandomState, n: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        return {"key": rng.uniform(size=n)}

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        return {"key": jax.random.uniform(key, (batch, n))}
