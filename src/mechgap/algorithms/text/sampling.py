"""The reference generator's questions: the same seed gives the same text."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mechgap.algorithms.distributions import BenchmarkStream, PointsInDisk
from mechgap.algorithms.inputs import completed
from mechgap.algorithms.text.layout import layout
from mechgap.algorithms.text.writing import DECIMALS, Example, check_decimals, short_inputs, written_pairs
from mechgap.trace import Trace

MOST_AT_ONCE = {16: 256, 64: 32}  # up to this many nodes -> how many executions are held in memory


def sample(
    algorithm: str,
    n: int,
    count: int = 1,
    *,
    seed: int = 0,
    hints: bool = False,
    decimals: int | None = DECIMALS,
) -> list[Example]:
    """The first questions and answers of the reference generator's sampler of that seed.

    Args:
        algorithm: one of the thirty.
        n: the number of nodes, for most algorithms; docs/algorithms.md has the others.
        count: how many.
        seed: of NumPy's RandomState.
        hints: write the execution, too.
        decimals: of the inputs, which are cut before they are traced; None keeps them all.
    """
    return list(stream(algorithm, n, count, seed=seed, hints=hints, decimals=decimals))


def stream(
    algorithm: str, n: int, count: int, *, seed: int = 0, hints: bool = False, decimals: int | None = DECIMALS
) -> Iterator[Example]:
    """`sample`, a batch at a time."""
    written = layout(algorithm, hints)
    for trace, few in traces(algorithm, n, count, seed=seed, decimals=decimals):
        yield from (Example(*pair, algorithm, n, hints) for pair in written_pairs(written, trace, few))


def traces(
    algorithm: str, n: int, count: int, *, seed: int = 0, decimals: int | None = DECIMALS
) -> Iterator[tuple[Trace, int]]:
    """The executions behind `stream`, a batch at a time, and how many of a batch count."""
    _check_count("count", count)
    _check_count("n", n)
    traced, random = layout(algorithm).algorithm, BenchmarkStream(seed)
    most = next((some for size, some in MOST_AT_ONCE.items() if n <= size), 4)
    batch = min(most, 1 << (count - 1).bit_length())  # always the same, since every size is compiled
    while count > 0:
        yield traced.trace_checked(inputs_of(algorithm, n, batch, random, decimals)), min(count, batch)
        count -= batch


def inputs_of(
    algorithm: str, n: int, count: int, random: BenchmarkStream, decimals: int | None
) -> dict[str, np.ndarray]:
    """A batch of inputs as the reference generator draws and cuts them."""
    _check_count("n", n)
    check_decimals(decimals)
    written = layout(algorithm)
    distribution = written.algorithm.distribution
    if isinstance(distribution, PointsInDisk):
        distribution = replace(distribution, decimals=decimals)
    drawn = distribution.draw(random, n, count, written.algorithm.probabilities(None))
    return short_inputs(written, completed(written.algorithm.spec, drawn, np), decimals)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
