"""Stage 2: programs, frozen values with a meaning: graph programs and their interpreter, and a library of them."""

import importlib
import inspect
from typing import Any

from mechgap.algorithms.inputs import nearest

# Name -> the function that writes the program; its arguments are the program's parameters.
REGISTRY = {
    "bellman_ford": "relaxation.bellman_ford",
    "bfs": "spreading.bfs",
    "connected_components": "relaxation.connected_components",
    "k_hop": "relaxation.k_hop",
    "widest_path": "relaxation.widest_path",
}


def program(name: str, **parameters: Any) -> Any:
    """The program of that name; parameters such as `max_distance` have defaults."""
    if name not in REGISTRY:
        raise ValueError(f"No program {name!r}. {nearest(name, REGISTRY)}")
    module, function = REGISTRY[name].split(".")
    write = getattr(importlib.import_module(f"mechgap.programs.library.{module}"), function)
    known = tuple(inspect.signature(write).parameters)
    for given in parameters:
        if given not in known:
            raise ValueError(f"Program {name!r} has no parameter {given!r}. {nearest(given, known) if known else ''}")
    return write(**parameters)


def program_names() -> tuple[str, ...]:
    """The names that `program` knows."""
    return tuple(REGISTRY)
