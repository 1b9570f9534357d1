"""Inputs made by hand, one function per situation that an implementation is likely to get wrong."""

from collections.abc import Iterator

import numpy as np

# Two weights that are one in float32 but two in float64: which of them is smaller shows where the comparison is made.
NEAR = (0.5, 0.5 + 1e-12)
TIES_UP_TO = 16  # beyond it the reference's argsort is not stable, so equal keys have no defined winner


def graphs(n: int, rng: np.random.RandomState, weighted: bool) -> Iterator[np.ndarray]:
    """Matrices [n, n]; 0/1 integers, or weights without ties."""
    ids = np.arange(n)
    random = rng.binomial(1, 0.4, (n, n))
    sparse = rng.binomial(1, min(1.5 / n, 1.0), (n, n))
    blocks = np.array((ids[:, None] < n // 2) == (ids < n // 2), int)
    path = np.eye(n, k=1, dtype=int)
    shapes = {
        "empty": np.zeros((n, n), int),
        "self-loops only": np.eye(n, dtype=int),
        "complete": np.ones((n, n), int),
        "path": path + path.T,
        "one-way path": path,
        "path backwards": path.T,
        "two components": random * random.T * blocks,
        "one edge": np.outer(ids == 0, ids == n - 1).astype(int),
        "one edge back": np.outer(ids == n - 1, ids == 0).astype(int),
        "directed": random,
        "sparse, directed, with self-loops": np.maximum(sparse, np.eye(n, dtype=int)),
    }
    for shape in shapes.values():
        yield shape * rng.uniform(0.01, 1.0, (n, n)) if weighted else shape


def tied_weights(n: int, rng: np.random.RandomState) -> Iterator[np.ndarray]:
    """Weighted matrices where comparisons meet equal and nearly equal numbers."""
    random = np.maximum(rng.binomial(1, 0.5, (n, n)), np.eye(n, k=1, dtype=int))
    yield np.ones((n, n)) * 0.5
    yield random * rng.choice([0.25, 0.5], (n, n))  # dyadic: sums along different paths tie exactly
    yield random * 0.1  # not dyadic: 0.1 + 0.1 + 0.1 differs from 0.3 in the last place
    yield random * rng.choice(NEAR, (n, n))
    yield np.where(random * random.T, rng.choice(NEAR[::-1], (n, n)), 0.0)


def huge_weights(n: int, rng: np.random.RandomState) -> Iterator[np.ndarray]:
    """Weights above the penalty of 1e9 by which the reference keeps nodes out of its queue."""
    yield rng.binomial(1, 0.6, (n, n)) * rng.uniform(1e8, 5e9, (n, n))


def keys(n: int, rng: np.random.RandomState) -> Iterator[np.ndarray]:
    """Arrays [n]."""
    yield np.arange(n) / n
    yield np.arange(n)[::-1] / n
    yield np.zeros(n)
    yield np.full(n, 0.7)
    yield rng.choice([0.1, 0.2, 0.3], n)
    yield rng.choice(NEAR, n)
    yield np.where(np.arange(n) % 2, *NEAR)
    yield -rng.uniform(size=n)
    yield np.concatenate([np.ones(n - 1), np.zeros(1)])
