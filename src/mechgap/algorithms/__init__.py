"""Stage 1: the source algorithms, with samplers and step-by-step tracers in pure JAX. One file per family."""

import importlib

from mechgap.algorithms.definition import TRAIN_P as TRAIN_P
from mechgap.algorithms.definition import Algorithm as Algorithm
from mechgap.algorithms.inputs import nearest

# To add an algorithm: write its tracer in its family's file, and add its line here (docs/algorithms.md).
REGISTRY = {
    "bellman_ford": "shortest_paths.BELLMAN_FORD",
    "bfs": "graph_search.BFS",
    "bfs_sequential": "graph_search.BFS_SEQUENTIAL",
    "dfs": "graph_search.DFS",
    "dfs_simplified": "graph_search.DFS_SIMPLIFIED",
    "dijkstra": "shortest_paths.DIJKSTRA",
    "graham_scan": "geometry.GRAHAM_SCAN",
    "insertion_sort": "sorting.INSERTION_SORT",
    "jarvis_march": "geometry.JARVIS_MARCH",
    "kmp_matcher": "strings.KMP_MATCHER",
    "minimum": "searching.MINIMUM",
    "mst_prim": "spanning_trees.MST_PRIM",
    "naive_string_matcher": "strings.NAIVE_STRING_MATCHER",
    "segments_intersect": "geometry.SEGMENTS_INTERSECT",
}


def algorithm(name: str) -> Algorithm:
    """The algorithm of that name.

    >>> algorithm("bfs")
    <Algorithm bfs>
    """
    if name not in REGISTRY:
        raise ValueError(f"No algorithm {name!r}. {nearest(name, REGISTRY)}")
    family, constant = REGISTRY[name].split(".")
    return getattr(importlib.import_module(f"mechgap.algorithms.{family}"), constant)


def algorithm_names() -> tuple[str, ...]:
    """The names that `algorithm` knows."""
    return tuple(REGISTRY)
