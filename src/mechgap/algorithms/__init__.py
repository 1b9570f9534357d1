"""Stage 1: the source algorithms, with samplers and step-by-step tracers in pure JAX. One file per family."""

import importlib

from mechgap.algorithms.definition import TRAIN_P as TRAIN_P
from mechgap.algorithms.definition import Algorithm as Algorithm
from mechgap.algorithms.inputs import nearest

# To add an algorithm: write its tracer in its family's file, and add its line here (docs/algorithms.md).
REGISTRY = {
    "activity_selector": "greedy.ACTIVITY_SELECTOR",
    "articulation_points": "depth_first.ARTICULATION_POINTS",
    "bellman_ford": "shortest_paths.BELLMAN_FORD",
    "bfs": "graph_search.BFS",
    "bfs_sequential": "graph_search.BFS_SEQUENTIAL",
    "binary_search": "searching.BINARY_SEARCH",
    "bridges": "depth_first.BRIDGES",
    "bubble_sort": "sorting.BUBBLE_SORT",
    "dag_shortest_paths": "depth_first.DAG_SHORTEST_PATHS",
    "dfs": "graph_search.DFS",
    "dfs_simplified": "graph_search.DFS_SIMPLIFIED",
    "dijkstra": "shortest_paths.DIJKSTRA",
    "find_maximum_subarray_kadane": "divide_and_conquer.FIND_MAXIMUM_SUBARRAY_KADANE",
    "floyd_warshall": "shortest_paths.FLOYD_WARSHALL",
    "graham_scan": "geometry.GRAHAM_SCAN",
    "heapsort": "sorting.HEAPSORT",
    "insertion_sort": "sorting.INSERTION_SORT",
    "jarvis_march": "geometry.JARVIS_MARCH",
    "kmp_matcher": "strings.KMP_MATCHER",
    "lcs_length": "dynamic_programming.LCS_LENGTH",
    "matrix_chain_order": "dynamic_programming.MATRIX_CHAIN_ORDER",
    "minimum": "searching.MINIMUM",
    "mst_kruskal": "spanning_trees.MST_KRUSKAL",
    "mst_prim": "spanning_trees.MST_PRIM",
    "naive_string_matcher": "strings.NAIVE_STRING_MATCHER",
    "optimal_bst": "dynamic_programming.OPTIMAL_BST",
    "quickselect": "searching.QUICKSELECT",
    "quicksort": "sorting.QUICKSORT",
    "segments_intersect": "geometry.SEGMENTS_INTERSECT",
    "strongly_connected_components": "depth_first.STRONGLY_CONNECTED_COMPONENTS",
    "task_scheduling": "greedy.TASK_SCHEDULING",
    "topological_sort": "depth_first.TOPOLOGICAL_SORT",
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


def benchmark_names() -> tuple[str, ...]:
    """The names of the benchmark's own thirty algorithms: all but the variants."""
    return tuple(name for name in REGISTRY if algorithm(name).variant_of is None)
