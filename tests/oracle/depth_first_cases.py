"""Graphs for the algorithms that search depth first, the same in the oracle's environment and in ours."""

from collections.abc import Iterator

import cases
import numpy as np

ALGORITHMS = (
    "topological_sort",
    "articulation_points",
    "bridges",
    "strongly_connected_components",
    "dag_shortest_paths",
)
SIZES = (1, 2, 4, 5, 11, 16, 64)
SEED = 4711
COUNTS = {64: 1}  # random graphs of each kind, 24 where not said


def batch(name: str, n: int) -> dict[str, np.ndarray]:
    """Inputs [B, ...]: directed, undirected and acyclic graphs of every density, and the situations of cases.py."""
    rng = np.random.RandomState(SEED + n)
    weighted = name == "dag_shortest_paths"
    matrices = [*random_graphs(n, COUNTS.get(n, 24), rng, weighted), *cases.graphs(n, rng, weighted)]
    if weighted:
        matrices += cases.tied_weights(n, rng)
    A = np.stack(matrices)
    return {"A": A, "s": np.eye(n)[rng.randint(n, size=len(A))]} if weighted else {"A": A}


def random_graphs(n: int, count: int, rng: np.random.RandomState, weighted: bool) -> Iterator[np.ndarray]:
    """Matrices [n, n]; self-loops are as likely as other edges, but for acyclic graphs."""
    for _ in range(count):
        directed = rng.binomial(1, rng.uniform() ** 1.5, (n, n))
        order = rng.permutation(n)
        for edges in (directed, directed * directed.T, np.triu(directed, 1)[order][:, order]):
            yield edges * rng.uniform(size=(n, n)) if weighted else edges
