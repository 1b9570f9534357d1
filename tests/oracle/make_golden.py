"""Write tests/golden from the real package. Run it in the oracle environment: `make golden`.

trace_ALGORITHM_N.npz holds inputs and the reference's traces of them; samplers.json holds digests of what its samplers
draw. The bytes depend on nothing but the package and the scripts in this folder.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import reference  # before anything that imports numpy

# isort: split
import cases
import numpy as np
from clrs._src import samplers

SIZES = (1, 2, 4, 5, 11, 16, 64)
DRAWN = {64: 6}  # samples of the reference's own sampler per file, 8 where not said
SEED = 20240
RUN_SEED = 77  # of the generator that a training run shares among its samplers


def main() -> None:
    """Write every golden file into the folder given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1] / "golden")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in reference.ALGORITHMS:
        for n in SIZES:
            write_traces(folder / f"trace_{name}_{n}.npz", name, n)
        print(f"{name}: traces written", flush=True)
    write_digests(folder / "samplers.json")


def write_traces(path: Path, name: str, n: int) -> None:
    """One file: a batch of drawn and of handmade inputs with the reference's traces."""
    rng = np.random.RandomState(SEED + n)
    samples = [*drawn(name, n), *handmade(name, n, rng)]
    arrays = reference.with_node_axes(reference.flat(reference.run(name, samples)))
    header = {**provenance(), "algorithm": name, "n": n, "seed": SEED + n}
    np.savez_compressed(path, header=np.array(json.dumps(header, sort_keys=True)), **arrays)


def drawn(name: str, n: int) -> Iterator[reference.Sample]:
    """Samples as the reference draws them, half with the default p and half with the training script's."""
    for p in ((0.5,), reference.TRAIN_P):
        sampler = reference.sampler(name, num_samples=1, length=n, seed=SEED + n, p=p)
        for _ in range(DRAWN.get(n, 8) // 2):
            yield sampler._sample_data(*sampler._args, **sampler._kwargs)


def handmade(name: str, n: int, rng: np.random.RandomState) -> Iterator[reference.Sample]:
    """The situations of cases.py; graphs get a source in turn from the first, the last and a random node."""
    if name in reference.ON_ARRAYS:
        yield from ([key] for key in cases.keys(n, rng))
        return
    for number, A in enumerate(handmade_graphs(name, n, rng)):
        source = [0, n - 1, rng.randint(n)][number % 3]
        yield [A, source] if name in reference.WITH_SOURCE else [A]


def handmade_graphs(name: str, n: int, rng: np.random.RandomState) -> Iterator[np.ndarray]:
    """The matrices of cases.py that this algorithm has a defined answer for."""
    weighted = name in reference.WEIGHTED
    yield from cases.graphs(n, rng, weighted)
    if weighted and n <= cases.TIES_UP_TO:
        yield from cases.tied_weights(n, rng)
        yield from cases.huge_weights(n, rng)


def write_digests(path: Path) -> None:
    """Digests of every array that the reference's samplers return, by algorithm and scenario."""
    digests: dict = {"header": {**provenance(), "seed": SEED, "run_seed": RUN_SEED}}
    for name in reference.ALGORITHMS:
        digests[name] = {scenario: digest(feedback) for scenario, feedback in scenarios(name)}
        print(f"{name}: samplers digested", flush=True)
    path.write_text(json.dumps(digests, indent=1) + "\n")


def scenarios(name: str) -> Iterator[tuple[str, samplers.Feedback]]:
    """Every way of sampling that a user of the benchmark meets; tests/test_golden.py repeats them."""
    for part in ("train", "val", "test"):
        yield part, reference.split(name, part)
    endless = reference.sampler(name, num_samples=-1, length=16, seed=SEED, p=reference.TRAIN_P)
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
    small, large = (as_in_training(name, n, run_rng) for n in (16, 64))
    yield "processed 16, first", next(small)
    yield "processed 64", next(large)
    yield "processed 16, second", next(small)


def as_in_training(name: str, n: int, run_rng: np.random.RandomState) -> Iterator[samplers.Feedback]:
    """Random positions, then pred as an input, then permutations."""
    sampler = reference.sampler(name, num_samples=32, length=n, seed=SEED + n, p=reference.TRAIN_P)
    spec, batches = sampler._spec, iter(lambda: sampler.next(16), None)
    batches = samplers.process_random_pos(batches, run_rng)
    if name == "minimum":  # the training script does so where pred_h is constant
        spec, batches = samplers.process_pred_as_input(spec, batches)
    return samplers.process_permutations(spec, batches, enforce_permutations=True)[1]


def digest(feedback: samplers.Feedback) -> dict[str, str]:
    """Name -> "dtype [shape] sha256 of the bytes in C order"."""
    return {name: one_digest(x) for name, x in reference.flat(feedback).items()}


def one_digest(x: np.ndarray) -> str:
    """The digest of one array."""
    return f"{x.dtype} {list(x.shape)} {hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}"


def provenance() -> dict[str, str]:
    """What the files were made from, in the header of each."""
    return {"package": reference.PACKAGE, "numpy": np.__version__, "sources_sha256": reference.sources_sha256()}


if __name__ == "__main__":
    main()
