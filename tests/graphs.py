"""Inputs for tests: the benchmark's, and graphs by Hypothesis at a few fixed sizes, so that few programs compile."""

import networkx as nx
import numpy as np
from hypothesis import strategies as st

import mechgap as mg

SIZES = (1, 4, 7)


@st.composite
def weighted_graphs(draw, directed: bool = False, sizes: tuple[int, ...] = SIZES) -> tuple[np.ndarray, int]:
    """A matrix of weights in (0, 1], with zeros for missing edges, and a source."""
    n = draw(st.sampled_from(sizes))
    # Sixteenths tie often and add up without rounding; the odd thirds keep rounding in play.
    weight = st.sampled_from([0.0, 0.0, *(k / 16 for k in range(1, 17)), 1 / 3, 2 / 3])
    A = np.array(draw(st.lists(weight, min_size=n * n, max_size=n * n))).reshape(n, n)
    A = A if directed else np.triu(A) + np.triu(A, 1).T
    return A, draw(st.integers(0, n - 1))


def one_hot(node: int, n: int) -> np.ndarray:
    return np.eye(n)[[node]]


def as_networkx(A: np.ndarray) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(A)))
    graph.add_weighted_edges_from((int(i), int(j), float(A[i, j])) for i, j in np.argwhere(A))
    return graph


def drawn(name: str, n: int, count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of the benchmark's sampler, without what follows from others."""
    name = "dfs" if name == "strongly_connected_components" and n < 4 else name  # it draws four communities
    inputs = mg.algorithm(name).benchmark_sampler(seed, n, -1, track_max_steps=False).next(count).inputs
    return {k: x for k, x in inputs.items() if k != "adj"}
