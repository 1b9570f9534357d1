"""Inputs made by hand, one function per family: situations that an implementation is likely to get wrong.

At the end, random inputs of every family that no sampler of the benchmark draws.
"""

import math
from collections.abc import Iterator

import numpy as np
from reference import ALGORITHMS, MATCHERS, Sample

# Two weights that are one in float32 but two in float64: which of them is smaller shows where the comparison is made.
NEAR = (0.5, 0.5 + 1e-12)
LARGE = 64


def handmade(name: str, n: int, rng: np.random.RandomState) -> Iterator[Sample]:
    """The situations that the algorithm has a defined answer for."""
    traits = ALGORITHMS[name]
    if traits.train_p:
        yield from sourced(name, n, rng)
    elif name in MATCHERS:
        yield from needles(n, rng)
    elif name == "segments_intersect":
        yield from segments(rng)
    elif traits.takes == "x y":
        clouds = list(points(n, rng))[: 2 if n == LARGE else None]
        yield from ([x, y] for x, y in clouds if name != "graham_scan" or graham_scan_ends(x, y))
    elif n <= traits.ties_up_to:
        yield from on_arrays(name, n, rng)


def sourced(name: str, n: int, rng: np.random.RandomState) -> Iterator[Sample]:
    """Graphs, with a source in turn from the first, the last and a random node where the algorithm takes one."""
    traits = ALGORITHMS[name]
    matrices = [*graphs(n, rng, traits.weighted), *random_graphs(n, 2, rng, traits.weighted)]
    if traits.weighted and n <= traits.ties_up_to:
        matrices += [*tied_weights(n, rng), *huge_weights(n, rng)]
    for number, A in enumerate(matrices):
        source = [0, n - 1, rng.randint(n)][number % 3]
        yield [A, source] if "source" in traits.takes else [A]


def graphs(n: int, rng: np.random.RandomState, weighted: bool) -> Iterator[np.ndarray]:
    """Matrices [n, n]; 0/1 integers, or weights without ties."""
    ids = np.arange(n)
    random = rng.binomial(1, min(0.4, 6.4 / n), (n, n))
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
    if n == LARGE:  # a trace of it has thousands of frames of 64 x 64 values
        del shapes["complete"]
    for shape in shapes.values():
        yield shape * rng.uniform(0.01, 1.0, (n, n)) if weighted else shape


def random_graphs(n: int, count: int, rng: np.random.RandomState, weighted: bool) -> Iterator[np.ndarray]:
    """Directed, undirected and acyclic ones of every density, as many of each."""
    for _ in range(count):
        directed = rng.binomial(1, rng.uniform() ** 1.5 / (4 if n == LARGE else 1), (n, n))
        order = rng.permutation(n)
        for edges in (directed, directed * directed.T, np.triu(directed, 1)[order][:, order]):
            yield edges * rng.uniform(size=(n, n)) if weighted else edges


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
    yield rng.choice([0.0, 0.25, 0.5], n)
    yield rng.choice([0.0, 1e9, 5e9], n)


def on_arrays(name: str, n: int, rng: np.random.RandomState) -> Iterator[Sample]:
    """Ties, zeros, numbers that differ in float64 only, and numbers above the reference's constants."""
    arrays = list(keys(n, rng))[: ALGORITHMS[name].large if n == LARGE else None]
    match name:
        case "binary_search":
            yield from ([x, key] for key in arrays for x in (-1.0, 0.2, key[0], key[-1], NEAR[1], 2.0))
        case "find_maximum_subarray_kadane":
            for key in arrays:
                # A negative sum too small to change the next key is carried on.
                yield from ([x] for x in (key, -key, key - 0.2, key * rng.choice([-1e-17, -1.0, 1.0], n)))
        case "lcs_length":
            yield from two_strings(n, rng)
        case "optimal_bst":
            gaps = (rng.choice([0.25, 0.5], n + 1), np.zeros(n + 1), rng.uniform(size=n + 1))
            yield from ([abs(key), gap] for key in arrays for gap in gaps)
        case "activity_selector":
            lasts = (0.0, 0.1, rng.choice([0.0, 0.1, 0.2], n))
            yield from ([key, key + lasting] for key in arrays for lasting in lasts)
        case "task_scheduling":
            deadlines = (np.ones(n, int), np.arange(n) + 1, rng.randint(1, n + 1, n), rng.randint(0, 3, n))
            yield from ([deadline, key] for key in arrays for deadline in deadlines)
        case _:
            yield from ([key] for key in arrays)


def two_strings(n: int, rng: np.random.RandomState) -> Iterator[Sample]:
    """Strings to compare: few letters, many, nothing in common, and one backwards."""
    for first in sorted({1, n // 2, n - 1}):
        for letters in (1, 2, 4):
            yield [rng.randint(0, letters, first), rng.randint(0, letters, n - first)]
        yield [np.zeros(first, int), np.ones(n - first, int)]
        yield [np.arange(first) % 4, np.arange(n - first)[::-1] % 4]


def needles(n: int, rng: np.random.RandomState) -> Iterator[Sample]:
    """[haystack, needle]; needles of every length up to half."""
    for needle in sorted({1, max(n // 5, 1), n // 2}):
        rest = n - needle
        yield [np.zeros(rest, int), np.ones(needle, int)]  # nothing agrees
        yield [np.zeros(rest, int), np.zeros(needle, int)]  # matches everywhere
        yield [np.zeros(rest, int), (np.arange(needle) == needle - 1) * 1]  # the naive matcher's longest execution
        yield [(np.arange(rest) == rest - 1) * 1, (np.arange(needle) == needle - 1) * 1]  # the last place matches
        yield [np.arange(rest) % 2, np.arange(needle) % 2]  # several matches
        yield [np.arange(rest) % 2, np.arange(needle) // 2 % 2]  # long falls
        yield [rng.randint(2, size=rest), rng.randint(2, size=needle)]


def segments(rng: np.random.RandomState) -> Iterator[Sample]:
    """[x, y] of two segments, on grids where they touch and lie in one line, and where products are rounded."""
    for scale in (1.0, 0.1, 1 / 3):
        for _ in range(12):
            yield list(rng.randint(4, size=(2, 4)) * scale)
    for along in ([0, 2, 1, 3], [0, 1, 2, 3], [0, 1, 1, 2], [0, 3, 1, 2], [1, 1, 0, 2], [1, 1, 1, 1]):
        yield [np.array(along) * 0.1, np.array(along) * 0.3]


def points(n: int, rng: np.random.RandomState) -> Iterator[np.ndarray]:
    """[2, n]: equal points, points in a line, and all of them on the hull."""
    circle = 2 * np.pi * rng.permutation(n) / n
    yield np.stack([np.cos(circle), np.sin(circle)])
    yield rng.randint(5, size=(2, n)) * 1.0
    yield rng.randint(9, size=(2, n)) * 0.1
    yield np.stack([rng.normal(size=n), np.round(rng.uniform(size=n), 1)])
    yield np.stack([np.arange(n) * 0.1, np.arange(n) * 0.3])
    yield np.stack([np.zeros(n), -np.arange(n) * 1.0])
    yield np.zeros((2, n))


def graham_scan_ends(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether the lowest point stays on the stack; where it does not, the reference never returns."""
    lowest = np.lexsort((x, y))[0]
    angle = [-1.0 if i == lowest else math.atan2(y[i] - y[lowest], x[i] - x[lowest]) for i in range(len(x))]
    order = np.argsort(angle, kind="stable")
    stack = list(order[:3])
    for c in order[3:]:
        while len(stack) > 1 and is_inside(x, y, stack[-2], stack[-1], c):
            stack.pop()
        if len(stack) == 1:
            return False
        stack.append(c)
    return True


def is_inside(x: np.ndarray, y: np.ndarray, a: int, b: int, c: int) -> bool:
    """Whether the way from a over b to c does not turn left."""
    return (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a]) <= 0


def random(name: str, n: int, count: int, rng: np.random.RandomState) -> list[Sample]:
    """Inputs that no sampler of the benchmark draws: graphs of every kind and density, ties where they are defined."""
    traits = ALGORITHMS[name]
    if traits.train_p:
        # Real-valued edges must not matter where there are no weights.
        matrices = list(random_graphs(n, -(-count // 3), rng, traits.weighted or n == 5))[:count]
        return [[A, rng.randint(n)] if "source" in traits.takes else [A] for A in matrices]
    found: list[Sample] = []
    while len(found) < count:
        drawn = one_random(name, n, rng)
        if name != "graham_scan" or graham_scan_ends(*drawn):
            found.append(drawn)
    return found


def one_random(name: str, n: int, rng: np.random.RandomState) -> Sample:
    """One such input of an algorithm that takes no graph."""
    decimals = rng.randint(1, 3) if n <= ALGORITHMS[name].ties_up_to else 12
    key, other = np.round(rng.normal(size=(2, n)), decimals)
    match ALGORITHMS[name].takes:
        case "key" | "p":
            return [key]
        case "target key":
            return [rng.choice([key[0], key[-1], *other]), np.sort(key) if rng.randint(4) else key]
        case "chances q":
            return [abs(key), abs(np.append(other, rng.uniform()))]
        case "first second":
            longest = n // 2 if name in MATCHERS else n - 1
            second, letters = rng.randint(1, longest + 1), rng.randint(1, 5)
            return [rng.randint(letters, size=n - second), rng.randint(letters, size=second)]
        case "s f":
            return [key, key + abs(other)]
        case "d w":
            return [rng.randint(0, n + 1, n), key]
        case "x y":
            return [key, other] if name != "segments_intersect" else list(rng.randint(7, size=(2, 4)) * 0.1)
    raise ValueError(f"No random inputs for {name!r}.")
