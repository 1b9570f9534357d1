"""Stage 2: programs, frozen values with a meaning: graph and ALTA programs, their interpreters, and a library."""

import importlib
import inspect
from typing import Any

from mechgap.algorithms.inputs import nearest

# Kind -> name -> the function that writes the program; its arguments are the program's parameters.
REGISTRY = {
    "graph": {
        "activity_selector": "greedy.activity_selector",
        "bellman_ford": "relaxation.bellman_ford",
        "bfs": "spreading.bfs",
        "binary_search": "arrays.binary_search",
        "bubble_sort": "exchanges.bubble_sort",
        "connected_components": "relaxation.connected_components",
        "dfs": "depth_first.dfs",
        "dijkstra": "queues.dijkstra",
        "find_maximum_subarray_kadane": "arrays.find_maximum_subarray_kadane",
        "insertion_sort": "arrays.insertion_sort",
        "k_hop": "relaxation.k_hop",
        "minimum": "arrays.minimum",
        "mst_prim": "queues.mst_prim",
        "strongly_connected_components": "depth_first.strongly_connected_components",
        "task_scheduling": "greedy.task_scheduling",
        "topological_sort": "depth_first.topological_sort",
        "widest_path": "relaxation.widest_path",
    },
    "alta": {
        "addition": "addition.addition",
        "dyck_1": "brackets.dyck_1",
        "dyck_2": "brackets.dyck_2",
        "histogram": "sequences.histogram",
        "most_frequent": "sequences.most_frequent",
        "parity_sequential_absolute": "parity.parity_sequential_absolute",
        "parity_sequential_relative": "parity.parity_sequential_relative",
        "parity_sum_mod_2": "parity.parity_sum_mod_2",
        "parity_sum_mod_2_intermediate": "parity.parity_sum_mod_2_intermediate",
        "reverse": "sequences.reverse",
        "scan": "scan.scan",
        "scan_parser": "scan.scan_parser",
        "sort": "sequences.sort",
        "sort_unique": "sequences.sort_unique",
        "subleq": "subleq.subleq",
    },
}

# Why the other algorithms of the benchmark have no program: what it would use, or what stands against it, in the words
# of docs/expressivity.md.
MISSING = {
    "would need": {
        "articulation_points": "dfs, the lowest discovery time below, and a count of children",
        "bridges": "as articulation_points, and a mask on edges, both directions at once, through hints fed back",
        "dag_shortest_paths": "dfs, then offers along `back_edge`, which a receiver does not see: the token must "
        "collect them",
        "heapsort": "slots, a match of slot 2 i + 1",
        "kmp_matcher": "as naive_string_matcher, and a pointer that is followed",
        "mst_kruskal": "the next edge by two selects; components by pointers; a mask on edges, both directions at "
        "once, through hints fed back",
        "naive_string_matcher": "three tokens; letters are compared class by class",
        "quickselect": "as quicksort, one segment",
        "quicksort": "slots and segment ends instead of a stack",
    },
    "is not expressible": {
        "floyd_warshall": "the state is on edges, and its minimum is not linear in them",
        "graham_scan": "angles, products of values",
        "jarvis_march": "a product of the sender's and the receiver's values in a logit",
        "lcs_length": "a maximum on edges (its pointers alone could be had through hints fed back)",
        "matrix_chain_order": "a minimum on edges, and products of values",
        "optimal_bst": "a minimum on edges",
        "segments_intersect": "products of values",
    },
}


def program(name: str, **parameters: Any) -> Any:
    """The program of that name; parameters such as `max_distance` have defaults."""
    known = program_parameters(name)
    for given in parameters:
        if given not in known:
            raise ValueError(f"Program {name!r} has no parameter {given!r}. {nearest(given, known) if known else ''}")
    return _writer(name)(**parameters)


def program_parameters(name: str) -> tuple[str, ...]:
    """The names of a program's parameters."""
    return tuple(inspect.signature(_writer(name)).parameters)


def _writer(name: str) -> Any:
    homes = {known: home for group in REGISTRY.values() for known, home in group.items()}
    for status, reasons in MISSING.items():
        if name in reasons:
            raise ValueError(f"No program {name!r}. It {status}: {reasons[name]}. See docs/expressivity.md.")
    if name not in homes:
        raise ValueError(f"No program {name!r}. {nearest(name, homes)}")
    module, function = homes[name].split(".")
    return getattr(importlib.import_module(f"mechgap.programs.library.{module}"), function)


def program_names(kind: str | None = None) -> tuple[str, ...]:
    """The names that `program` knows; of one kind, "graph" or "alta", or of all."""
    if kind is not None and kind not in REGISTRY:
        raise ValueError(f"Programs are of the kinds {', '.join(REGISTRY)}; got {kind!r}.")
    return tuple(name for known, group in REGISTRY.items() if kind in (None, known) for name in group)
