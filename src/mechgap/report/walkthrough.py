"""One drawn input and its trace, for the commands that show an algorithm at work."""

import numpy as np

from mechgap.algorithms import algorithm
from mechgap.trace import Stage, Trace


def sample_trace(name: str, n: int, seed: int, p: float | None = None, source: int | None = None) -> Trace:
    """Trace one input that the benchmark's sampler of that seed draws, from another source if one is given."""
    chosen = algorithm(name)
    drawn = chosen.benchmark_sampler(seed, n, 1, p=p).next()
    if source is None:
        return drawn
    if "s" not in chosen.spec.names(Stage.INPUT):
        raise ValueError(f"{name!r} has no source node; leave the source out.")
    if not 0 <= source < n:
        raise ValueError(f"Source {source} is out of range: with n = {n} the nodes are 0..{n - 1}.")
    return chosen.trace(A=drawn.inputs["A"], s=np.eye(n)[[source]])
