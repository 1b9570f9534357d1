"""The reference package behind one small door: run it on given inputs, and flatten what it returns.

Everything beside this file runs in the oracle environment (`make oracle`), where dm-clrs is installed.
"""

import hashlib
import os
import sys
from importlib.metadata import version
from pathlib import Path

# NumPy's vectorised argsort breaks ties as the processor's vector width pleases, and the reference takes the first
# element of an argsort as its queue's minimum. Without it, ties of up to 16 keys go to the lowest index everywhere.
if "numpy" in sys.modules:
    raise ImportError("numpy was imported before tests/oracle/reference.py; import reference first: it settles ties.")
os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V3 X86_V4 AVX512_ICL AVX512_SPR")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
from clrs._src import algorithms, probing, samplers, specs

ALGORITHMS = ("bfs", "dfs", "bellman_ford", "dijkstra", "mst_prim", "minimum", "insertion_sort")
WITH_SOURCE = ("bfs", "bellman_ford", "dijkstra", "mst_prim")
ON_ARRAYS = ("minimum", "insertion_sort")
WEIGHTED = ("bellman_ford", "dijkstra", "mst_prim")
TRAIN_P = tuple(0.1 + 0.1 * i for i in range(9))  # the edge probabilities of the reference training script

PACKAGE = f"dm-clrs {version('dm-clrs')}"

Arrays = dict[str, np.ndarray]  # "input/A", "hint/pi_h", "output/pi", "lengths", in the reference's order
Sample = list  # an algorithm's positional arguments, as the reference's samplers draw them


def run(name: str, samples: list[Sample]) -> samplers.Feedback:
    """Execute the reference on every sample and batch the traces as its samplers do."""
    spec = specs.SPECS[name]
    stages = [_stages(name, spec, sample) for sample in samples]
    inputs, outputs, hints = (list(stage) for stage in zip(*stages, strict=True))
    batched_hints, lengths = samplers._batch_hints(hints, 0)
    features = samplers.Features(samplers._batch_io(inputs), batched_hints, lengths)
    return samplers.Feedback(features, samplers._batch_io(outputs))


def _stages(name: str, spec: specs.Spec, sample: Sample) -> tuple:
    # insertion_sort sorts its argument in place.
    arguments = [np.copy(x) if isinstance(x, np.ndarray) else x for x in sample]
    _, probes = getattr(algorithms, name)(*arguments)
    return probing.split_stages(probes, spec)


def flat(feedback: samplers.Feedback) -> Arrays:
    """All arrays of a feedback under one level of names."""
    features = feedback.features
    stages = {"input": features.inputs, "hint": features.hints, "output": feedback.outputs}
    arrays = {f"{stage}/{x.name}": np.asarray(x.data) for stage, points in stages.items() for x in points}
    return {**arrays, "lengths": np.asarray(features.lengths)}


def with_node_axes(arrays: Arrays) -> Arrays:
    """Give the axes of length 1 back to graphs of one node: the reference squeezes them out of inputs and outputs."""
    if arrays["input/pos"].ndim == 2:
        return arrays
    batch = len(arrays["lengths"])
    edges = ("input/A", "input/adj")
    shapes = {k: (batch, 1, 1) if k in edges else (batch, 1) for k in arrays if k.startswith(("input", "output"))}
    return {k: x.reshape(shapes.get(k, x.shape)) for k, x in arrays.items()}


def sampler(name: str, **options: object) -> samplers.Sampler:
    """The reference's sampler; `p` is dropped for algorithms that draw no graph."""
    if name in ON_ARRAYS:
        options.pop("p", None)
    return samplers.build_sampler(name, **options)[0]


def split(name: str, part: str) -> samplers.Feedback:
    """One of the benchmark's splits, whole and in order."""
    settings = samplers.CLRS30[part]
    times = 1 if part == "train" else specs.CLRS_30_ALGS_SETTINGS[name]["num_samples_multiplier"]
    count = settings["num_samples"] * times
    return sampler(name, num_samples=count, length=settings["length"], seed=settings["seed"]).next()


def sources_sha256() -> str:
    """A digest of the scripts that golden files come from."""
    digest = hashlib.sha256()
    for file in ("cases.py", "make_golden.py", "reference.py"):
        digest.update(Path(__file__).with_name(file).read_bytes())
    return digest.hexdigest()
