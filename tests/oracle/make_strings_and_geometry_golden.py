"""Write tests/golden/strings_and_geometry from the real package. Run it in the oracle environment: `make golden`.

ALGORITHM_N.npz holds inputs, drawn and handmade, with the reference's traces of them; samplers.json holds digests of
what its samplers draw.
"""

import argparse
import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path

import reference  # before anything that imports numpy

# isort: split
import numpy as np
import repaired  # noqa: F401  the answers of naive_string_matcher
from clrs._src import samplers
from make_golden import RUN_SEED, SEED, digest

MATCHERS = ("naive_string_matcher", "kmp_matcher")
HULLS = ("graham_scan", "jarvis_march")
ALGORITHMS = (*MATCHERS, "segments_intersect", *HULLS)
SIZES = (4, 5, 11, 16, 64)
ORDER_IS_CONSTANT = (*MATCHERS, "jarvis_march")  # where the training script makes pred_h an input
LONGEST_NEEDLE = 8  # of the training script, which trains on 20 characters
TRAINING_CHARACTERS = 20


def main() -> None:
    """Write every file into the folder given on the command line."""
    warnings.simplefilter("ignore", DeprecationWarning)  # the samplers of hulls take the cross product of 2-vectors
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).parents[1] / "golden" / "strings_and_geometry"
    parser.add_argument("folder", nargs="?", type=Path, default=default)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in ALGORITHMS:
        for n in SIZES if name != "segments_intersect" else SIZES[:1]:
            rng = np.random.RandomState(SEED + n)
            samples = [*drawn(name, n), *handmade(name, n, rng)]
            np.savez_compressed(folder / f"{name}_{n}.npz", **reference.flat(reference.run(name, samples)))
        print(f"{name}: traces written", flush=True)
    digests = {name: {what: digest(feedback) for what, feedback in scenarios(name)} for name in ALGORITHMS}
    header = {"package": reference.PACKAGE, "numpy": np.__version__, "seed": SEED, "run_seed": RUN_SEED}
    (folder / "samplers.json").write_text(json.dumps({"header": header, **digests}, indent=1) + "\n")


def drawn(name: str, n: int) -> Iterator[reference.Sample]:
    """Samples as the reference draws them."""
    sampler = samplers.build_sampler(name, num_samples=1, length=n, seed=SEED + n)[0]
    for _ in range(2 if n == 64 else 8):
        yield sampler._sample_data(*sampler._args, **sampler._kwargs)


def handmade(name: str, n: int, rng: np.random.RandomState) -> Iterator[reference.Sample]:
    """What an implementation is likely to get wrong."""
    if name in MATCHERS:
        yield from strings(n, rng)
    elif name == "segments_intersect":
        yield from segments(rng)
    else:
        clouds = points(n, rng) if n < 64 else list(points(n, rng))[:2]
        yield from ([x, y] for x, y in clouds if name == "jarvis_march" or graham_scan_ends(x, y))


def strings(n: int, rng: np.random.RandomState) -> Iterator[reference.Sample]:
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


def segments(rng: np.random.RandomState) -> Iterator[reference.Sample]:
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


def scenarios(name: str) -> Iterator[tuple[str, samplers.Feedback]]:
    """What tests/test_strings_and_geometry.py repeats."""
    for part in ("train", "val", "test"):
        yield part, reference.split(name, part)
    endless = samplers.build_sampler(name, num_samples=-1, length=11, seed=SEED)[0]
    yield "endless, first", endless.next(32)
    yield "endless, second", endless.next(32)
    options = {"length_needle": -LONGEST_NEEDLE} if name in MATCHERS else {}
    length = TRAINING_CHARACTERS if name in MATCHERS else 16
    sampler, spec = samplers.build_sampler(name, num_samples=32, length=length, seed=SEED, **options)
    batches = samplers.process_random_pos(iter(lambda: sampler.next(16), None), np.random.RandomState(RUN_SEED))
    if name in ORDER_IS_CONSTANT:
        _, batches = samplers.process_pred_as_input(spec, batches)
    yield "as in training", next(batches)


if __name__ == "__main__":
    main()
