"""Write tests/golden from the real package. Run it in the oracle environment: `make golden`.

trace_ALGORITHM_N.npz holds a batch of inputs, and the reference's traces of them: digests of all arrays, in order, and
the small arrays themselves; of the rest there would be gigabytes. samplers.json holds digests of what its samplers
draw. The bytes depend on nothing but the package and the scripts in this folder.
"""

import argparse
import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import reference  # before anything that imports numpy

# isort: split
import cases
import numpy as np
from clrs._src import samplers

SIZES = (1, 2, 4, 5, 11, 16, 64)
DRAWN = {64: 2}  # samples of the reference's own sampler per file, 8 where not said
STORED = 8192  # bytes, the largest array that is stored besides the inputs
SEED = 20240
RUN_SEED = 77  # of the generator that a training run shares among its samplers
# Nodes of the samplers of a training run, small and large, and how many samples each prepares and gives.
SMALL, LARGE = (16, 32, 16), (64, 8, 4)
# The training script has needles of 1 to 8 characters, and more characters then.
SMALL_WITH_NEEDLE, NEEDLE = (20, 32, 16), -8


def main() -> None:
    """Write every golden file into the folder given on the command line."""
    warnings.simplefilter("ignore", DeprecationWarning)  # the samplers of hulls take the cross product of 2-vectors
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1] / "golden")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in reference.ALGORITHMS:
        for n in sizes(name):
            write_traces(folder / f"trace_{name}_{n}.npz", name, n)
        print(f"{name}: traces written", flush=True)
    write_digests(folder / "samplers.json")


def sizes(name: str) -> tuple[int, ...]:
    """The numbers of nodes that the reference has an answer for; two segments have four ends."""
    if name == "segments_intersect":
        return (4,)
    return tuple(n for n in SIZES if n >= reference.ALGORITHMS[name].least)


def write_traces(path: Path, name: str, n: int) -> None:
    """One file: a batch of drawn and of handmade inputs with the reference's traces."""
    samples = [*drawn(name, n), *cases.handmade(name, n, np.random.RandomState(SEED + n))]
    arrays = reference.traced(name, samples)
    digests = {key: digest(x) for key, x in arrays.items()}
    header = {**provenance(), "algorithm": name, "n": n, "seed": SEED + n, "digests": digests}
    stored = {key: x for key, x in arrays.items() if key.startswith("input/") or x.nbytes <= STORED}
    np.savez_compressed(path, header=np.array(json.dumps(header)), **stored)


def drawn(name: str, n: int) -> Iterator[reference.Sample]:
    """Samples as the reference draws them; of graphs, half with the default p and half with the training script's."""
    if n < reference.ALGORITHMS[name].draws_from:
        return
    p = reference.ALGORITHMS[name].train_p
    for options in ({}, {"p": p}) if p else ({},):
        sampler = reference.sampler(name, num_samples=1, length=n, seed=SEED + n, **options)
        for _ in range(DRAWN.get(n, 8) // (2 if p else 1)):
            yield sampler._sample_data(*sampler._args, **sampler._kwargs)


def write_digests(path: Path) -> None:
    """Digests of every array that the reference's samplers return, by algorithm and scenario."""
    train_p = {name: traits.train_p for name, traits in reference.ALGORITHMS.items()}
    digests: dict = {"header": {**provenance(), "seed": SEED, "run_seed": RUN_SEED, "train_p": train_p}}
    for name in reference.ALGORITHMS:
        digests[name] = {
            scenario: {key: digest(x) for key, x in reference.flat(feedback).items()}
            for scenario, feedback in scenarios(name)
        }
        print(f"{name}: samplers digested", flush=True)
    path.write_text(json.dumps(digests, indent=1) + "\n")


def scenarios(name: str) -> Iterator[tuple[str, samplers.Feedback]]:
    """Every way of sampling that a user of the benchmark meets; tests/test_golden.py repeats them."""
    for part in ("train", "val", "test"):
        yield part, reference.split(name, part)
    p = reference.ALGORITHMS[name].train_p
    endless = reference.sampler(name, num_samples=-1, length=16, seed=SEED, p=p)
    yield "endless, first", endless.next(32)
    yield "endless, second", endless.next(32)
    untracked = reference.sampler(name, num_samples=-1, length=16, seed=SEED, p=(0.3,), track_max_steps=False)
    yield "untracked", untracked.next(32)
    prepared = reference.sampler(name, num_samples=32, length=16, seed=SEED)
    yield "prepared, 16", prepared.next(16)
    yield "prepared, 5", prepared.next(5)
    yield from processed(name)


def processed(name: str) -> Iterator[tuple[str, samplers.Feedback]]:
    """What reaches a network in the training script: two samplers that share the run's generator."""
    run_rng = np.random.RandomState(RUN_SEED)
    small = as_in_training(name, run_rng, *(SMALL_WITH_NEEDLE if name in reference.MATCHERS else SMALL))
    large = as_in_training(name, run_rng, *LARGE)
    yield "processed, first", next(small)
    yield "processed, large", next(large)
    yield "processed, second", next(small)


def as_in_training(
    name: str, run_rng: np.random.RandomState, nodes: int, count: int, batch: int
) -> Iterator[samplers.Feedback]:
    """Random positions, then pred as an input, then permutations."""
    traits = reference.ALGORITHMS[name]
    options = {"length_needle": NEEDLE} if name in reference.MATCHERS else {"p": traits.train_p}
    sampler = reference.sampler(name, num_samples=count, length=nodes, seed=SEED + nodes, **options)
    spec, batches = sampler._spec, iter(lambda: sampler.next(batch), None)
    batches = samplers.process_random_pos(batches, run_rng)
    if traits.pred_as_input:
        spec, batches = samplers.process_pred_as_input(spec, batches)
    return samplers.process_permutations(spec, batches, enforce_permutations=True)[1]


def digest(x: np.ndarray) -> str:
    """One array as "dtype [shape] sha256 of the bytes in C order"."""
    return f"{x.dtype} {list(x.shape)} {hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}"


def provenance() -> dict[str, str]:
    """What the files were made from, in the header of each."""
    return {"package": reference.PACKAGE, "numpy": np.__version__, "sources_sha256": reference.sources_sha256()}


if __name__ == "__main__":
    main()
