"""Write tests/golden/searches_and_tables.npz from the real package. Run it in the oracle environment.

The file holds inputs, drawn and made by hand, and digests of the reference's traces of them and of what its samplers
draw: the traces themselves would be a hundred megabytes.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import reference  # before anything that imports numpy

# isort: split
import cases
import numpy as np
from clrs._src import samplers

GOLDEN = Path(__file__).parents[1] / "golden" / "searches_and_tables.npz"
ALGORITHMS = (
    "binary_search",
    "quickselect",
    "find_maximum_subarray_kadane",
    "matrix_chain_order",
    "lcs_length",
    "optimal_bst",
    "activity_selector",
    "task_scheduling",
)
SIZES = (2, 4, 5, 11, 16, 64)
LARGE = 64  # only drawn inputs, and few: its ties have no defined order, and its traces take seconds
SEED = 4040


def main(path: Path) -> None:
    """Write the file."""
    arrays, traces, sampled = {}, {}, {}
    for name in ALGORITHMS:
        for n in SIZES:
            rng = np.random.RandomState(SEED + n)
            by_hand = () if n == LARGE else handmade(name, n, rng)
            feedback = reference.flat(reference.run(name, [*drawn(name, n), *by_hand]))
            traces[f"{name}/{n}"] = digests(feedback)
            given = {k.removeprefix("input/"): x for k, x in feedback.items() if k.startswith("input/")}
            arrays |= {f"{name}/{n}/{k}": x for k, x in given.items() if k != "pos"}
        sampled[name] = {scenario: digests(reference.flat(feedback)) for scenario, feedback in scenarios(name)}
        print(f"{name}: written", flush=True)
    source = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    header = {"package": reference.PACKAGE, "numpy": np.__version__, "source_sha256": source, "seed": SEED}
    said = json.dumps({"header": header, "traces": traces, "sampled": sampled})
    np.savez_compressed(path, said=np.array(said), **arrays)


def drawn(name: str, n: int) -> Iterator[reference.Sample]:
    """Samples as the reference draws them."""
    sampler = reference.sampler(name, num_samples=1, length=n, seed=SEED + n)
    for _ in range(2 if n == LARGE else 8):
        yield sampler._sample_data(*sampler._args, **sampler._kwargs)


def handmade(name: str, n: int, rng: np.random.RandomState) -> Iterator[reference.Sample]:
    """Ties, zeros, numbers that differ in float64 only, and numbers above the reference's constants."""
    arrays = [*cases.keys(n, rng), rng.choice([0.0, 0.25, 0.5], n), rng.choice([0.0, 1e9, 5e9], n)]
    match name:
        case "binary_search":
            yield from ([x, key] for key in arrays for x in (-1.0, 0.2, key[0], key[-1], cases.NEAR[1], 2.0))
        case "quickselect" | "matrix_chain_order":
            yield from ([key] for key in arrays)
        case "find_maximum_subarray_kadane":
            for key in arrays:
                # A negative sum too small to change the next key is carried on.
                yield from ([x] for x in (key, -key, key - 0.2, key * rng.choice([-1e-17, -1.0, 1.0], n)))
        case "lcs_length":
            for first in sorted({1, n // 2, n - 1}):
                for letters in (1, 2, 4):
                    yield [rng.randint(0, letters, first), rng.randint(0, letters, n - first)]
                yield [np.zeros(first, int), np.ones(n - first, int)]
                yield [np.arange(first) % 4, np.arange(n - first)[::-1] % 4]
        case "optimal_bst":
            gaps = (rng.choice([0.25, 0.5], n + 1), np.zeros(n + 1), rng.uniform(size=n + 1))
            yield from ([abs(key), gap] for key in arrays for gap in gaps)
        case "activity_selector":
            lasts = (0.0, 0.1, rng.choice([0.0, 0.1, 0.2], n))
            yield from ([key, key + lasting] for key in arrays for lasting in lasts)
        case "task_scheduling":
            deadlines = (np.ones(n, int), np.arange(n) + 1, rng.randint(1, n + 1, n), rng.randint(0, 3, n))
            yield from ([deadline, key] for key in arrays for deadline in deadlines)


def scenarios(name: str) -> Iterator[tuple[str, samplers.Feedback]]:
    """Ways of sampling; tests/test_searches_and_tables.py repeats them."""
    yield "train", reference.split(name, "train")
    yield "val", reference.split(name, "val")
    endless = reference.sampler(name, num_samples=-1, length=11, seed=SEED)
    yield "endless, first", endless.next(8)
    yield "endless, second", endless.next(8)
    sampler = reference.sampler(name, num_samples=16, length=16, seed=SEED)
    batches = samplers.process_random_pos(iter(lambda: sampler.next(16), None), np.random.RandomState(SEED))
    if name != "quickselect":  # its order changes
        _, batches = samplers.process_pred_as_input(sampler._spec, batches)
    yield "processed", next(batches)


def digests(arrays: reference.Arrays) -> dict[str, str]:
    """Name -> "dtype [shape] sha256 of the bytes in C order"."""
    return {
        k: f"{x.dtype} {list(x.shape)} {hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}"
        for k, x in arrays.items()
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN)
