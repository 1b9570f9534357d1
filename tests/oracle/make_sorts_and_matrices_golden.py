"""Write tests/golden/sorts_and_matrices* from the real package. Run it in the oracle environment.

sorts_and_matrices_ALGORITHM_N.npz holds inputs, drawn and made by hand, and the reference's traces of them.
sorts_and_matrices.json holds digests of traces too large to store, of the benchmark's splits, and of endless samplers.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import reference  # before anything that imports numpy

# isort: split
import cases
import make_golden
import numpy as np
from clrs._src import samplers

ON_ARRAYS = ("bubble_sort", "heapsort", "quicksort")
ON_GRAPHS = ("mst_kruskal", "floyd_warshall")
STORED, DIGESTED = (1, 2, 4, 5, 11), (16, 64)
DRAWN = 8
SEED = 30240
EDGE_TIES_UP_TO = 6  # 15 pairs: mst_kruskal sorts its edges, and beyond 16 of them equal ones have no defined order
HANDMADE_UP_TO = {"mst_kruskal": 16}  # the complete graph on 64 nodes has thousands of frames of 64 x 64 values
TRAIN_P = {"mst_kruskal": tuple(p / 2 for p in reference.TRAIN_P)}  # as in the training script


def main() -> None:
    """Write every file into the folder given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1] / "golden")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    digests: dict = {"header": {**make_golden.provenance(), "seed": SEED}}
    for name in (*ON_ARRAYS, *ON_GRAPHS):
        for n in STORED:
            if (name, n) != ("quicksort", 1):  # the reference fails: it has no frame of it
                write_traces(folder / f"sorts_and_matrices_{name}_{n}.npz", name, n)
        digests[name] = {what: make_golden.digest(feedback) for what, feedback in scenarios(name)}
        print(f"{name}: written", flush=True)
    (folder / "sorts_and_matrices.json").write_text(json.dumps(digests, indent=1) + "\n")


def write_traces(path: Path, name: str, n: int) -> None:
    """One file: a batch of drawn and of handmade inputs with the reference's traces."""
    samples = [*drawn(name, n), *handmade(name, n)]
    arrays = reference.flat(reference.run(name, samples))
    if n == 1:
        arrays = with_node_axes(arrays)
    header = {**make_golden.provenance(), "algorithm": name, "n": n, "seed": SEED + n}
    np.savez_compressed(path, header=np.array(json.dumps(header, sort_keys=True)), **arrays)


def with_node_axes(arrays: reference.Arrays) -> reference.Arrays:
    """Give the axes of length 1 back to a single node: the reference squeezes them out of inputs and outputs."""
    edges = ("A", "adj", "in_mst", "Pi")
    batch = len(arrays["lengths"])
    shapes = {
        k: (batch, 1, 1) if k.split("/")[1] in edges else (batch, 1)
        for k in arrays
        if k.startswith(("input", "output"))
    }
    return {k: x.reshape(shapes.get(k, x.shape)) for k, x in arrays.items()}


def drawn(name: str, n: int) -> Iterator[reference.Sample]:
    """Samples as the reference draws them."""
    sampler = build(name, num_samples=1, length=n, seed=SEED + n)
    for _ in range(DRAWN):
        yield sampler._sample_data(*sampler._args, **sampler._kwargs)


def handmade(name: str, n: int) -> Iterator[reference.Sample]:
    """The situations of cases.py that this algorithm has a defined answer for."""
    rng = np.random.RandomState(SEED + n)
    if name in ON_ARRAYS:
        yield from ([key] for key in cases.keys(n, rng))
        return
    yield from ([A] for A in cases.graphs(n, rng, weighted=True))
    if name != "mst_kruskal" or n <= EDGE_TIES_UP_TO:
        yield from ([A] for A in cases.tied_weights(n, rng))
    yield from ([A] for A in cases.huge_weights(n, rng))


def scenarios(name: str) -> Iterator[tuple[str, samplers.Feedback]]:
    """tests/test_sorts_and_matrices.py repeats them."""
    for n in DIGESTED:
        if n <= HANDMADE_UP_TO.get(name, n):
            yield f"handmade {n}", reference.run(name, list(handmade(name, n)))
    for part in ("train", "val", "test"):
        yield part, reference.split(name, part)
    options = {"p": TRAIN_P.get(name, reference.TRAIN_P)} if name in ON_GRAPHS else {}
    endless = build(name, num_samples=-1, length=16, seed=SEED, **options)
    yield "endless, first", endless.next(32)
    yield "endless, second", endless.next(32)


def build(name: str, **options: object) -> samplers.Sampler:
    """The reference's sampler."""
    return samplers.build_sampler(name, **options)[0]


if __name__ == "__main__":
    main()
