"""The reference package behind one small door: run it on given inputs, and flatten what it returns.

Everything beside this file runs in the oracle environment (`make oracle`), where dm-clrs is installed.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

# NumPy's vectorised argsort breaks ties as the processor's vector width pleases, and the reference takes the first
# element of an argsort as its queue's minimum. Without it, ties of up to 16 keys go to the lowest index everywhere.
if "numpy" in sys.modules:
    raise ImportError("numpy was imported before tests/oracle/reference.py; import reference first: it settles ties.")
os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V3 X86_V4 AVX512_ICL AVX512_SPR")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import repaired  # noqa: F401  the answers of naive_string_matcher
from clrs._src import algorithms, probing, samplers, specs

PACKAGE = f"dm-clrs {version('dm-clrs')}"
TRAIN_P = tuple(0.1 + 0.1 * i for i in range(9))  # the edge probabilities of the reference training script
HALF_P = tuple(p / 2 for p in TRAIN_P)  # and of those whose traces would be too long

Arrays = dict[str, np.ndarray]  # "input/A", "hint/pi_h", "output/pi", "lengths", in the reference's order
Sample = list  # an algorithm's positional arguments, as the reference's samplers draw them


class Traits(NamedTuple):
    """All that depends on the algorithm in these scripts.

    Attributes:
        takes: its function's arguments; see `ARGUMENTS`.
        train_p: the edge probabilities in the training script; empty where there are no edges.
        weighted: its edges have weights.
        pred_as_input: the training script makes its `pred_h` an input, which is constant.
        ties_up_to: with more nodes, equal numbers have no defined order: NumPy's argsort is stable up to 16 of them.
        least: with fewer nodes the reference fails.
        draws_from: with fewer nodes its sampler fails.
        large: how many handmade inputs of 64 nodes to ask for; None for all. Few where one takes seconds.
    """

    takes: str
    train_p: tuple[float, ...] = ()
    weighted: bool = False
    pred_as_input: bool = False
    ties_up_to: int = 64
    least: int = 1
    draws_from: int = 1
    large: int | None = None


ALGORITHMS = {
    "bfs": Traits("A source", TRAIN_P),
    "dfs": Traits("A", TRAIN_P),
    "bellman_ford": Traits("A source", TRAIN_P, weighted=True),
    "dijkstra": Traits("A source", TRAIN_P, weighted=True, ties_up_to=16),
    "mst_prim": Traits("A source", TRAIN_P, weighted=True, ties_up_to=16),
    "minimum": Traits("key", pred_as_input=True),
    "insertion_sort": Traits("key"),
    "bubble_sort": Traits("key"),
    "heapsort": Traits("key"),
    "quicksort": Traits("key", least=2),
    "quickselect": Traits("key"),
    "binary_search": Traits("target key", pred_as_input=True),
    "find_maximum_subarray_kadane": Traits("key", pred_as_input=True),
    "matrix_chain_order": Traits("p", pred_as_input=True, large=1),
    "optimal_bst": Traits("chances q", pred_as_input=True),
    "lcs_length": Traits("first second", pred_as_input=True, least=2),
    "activity_selector": Traits("s f", pred_as_input=True, ties_up_to=16),
    "task_scheduling": Traits("d w", pred_as_input=True, ties_up_to=16),
    "topological_sort": Traits("A", TRAIN_P),
    "articulation_points": Traits("A", HALF_P),
    "bridges": Traits("A", HALF_P),
    "strongly_connected_components": Traits("A", TRAIN_P, draws_from=4),  # four communities
    "dag_shortest_paths": Traits("A source", TRAIN_P, weighted=True),
    "floyd_warshall": Traits("A", TRAIN_P, weighted=True),
    "mst_kruskal": Traits("A", HALF_P, weighted=True, ties_up_to=6),  # it sorts edges: 6 nodes have 15 of them
    "naive_string_matcher": Traits("first second", pred_as_input=True, least=2, draws_from=3),
    "kmp_matcher": Traits("first second", pred_as_input=True, least=2, draws_from=3),
    "segments_intersect": Traits("x y", least=4),
    "graham_scan": Traits("x y", ties_up_to=16),
    "jarvis_march": Traits("x y", pred_as_input=True),
}
MATCHERS = ("naive_string_matcher", "kmp_matcher")

# The arguments that are not simply the inputs of that name.
ARGUMENTS: dict[str, Callable[[Arrays], object]] = {
    "source": lambda given: int(given["s"].argmax()),
    "target": lambda given: float(given["target"]),
    "chances": lambda given: given["p"][:-1],  # of n keys, which make n + 1 nodes
    "first": lambda given: given["key"].argmax(-1)[given["string"] == 0],
    "second": lambda given: given["key"].argmax(-1)[given["string"] == 1],
}


def samples(name: str, inputs: Arrays) -> list[Sample]:
    """The arguments of each execution, from inputs [B, ...] as the benchmark gives them to a network."""
    each = [{k: x[i] for k, x in inputs.items()} for i in range(len(next(iter(inputs.values()))))]
    takes = ALGORITHMS[name].takes.split()
    return [[ARGUMENTS[a](given) if a in ARGUMENTS else given[a] for a in takes] for given in each]


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


def traced(name: str, samples: list[Sample]) -> Arrays:
    """The reference's traces of the samples, flat, whatever the number of nodes."""
    arrays = flat(run(name, samples))
    return arrays if arrays["input/pos"].ndim == 2 else with_node_axes(name, arrays)


def with_node_axes(name: str, arrays: Arrays) -> Arrays:
    """Give the axes of length 1 back to a single node: the reference squeezes them out of inputs and outputs."""
    axes = {specs.Location.NODE: 1, specs.Location.EDGE: 2, specs.Location.GRAPH: 0}
    batch = len(arrays["lengths"])

    def restored(key: str, x: np.ndarray) -> np.ndarray:
        if not key.startswith(("input", "output")):
            return x
        _, location, kind = specs.SPECS[name][key.split("/")[1]]
        classes = (-1,) if kind == specs.Type.CATEGORICAL else ()
        return x.reshape(batch, *(1,) * axes[location], *classes)

    return {key: restored(key, x) for key, x in arrays.items()}


def sampler(name: str, **options: object) -> samplers.Sampler:
    """The reference's sampler; `p` is dropped for algorithms that draw no graph."""
    if not ALGORITHMS[name].train_p:
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
    for file in ("cases.py", "make_golden.py", "reference.py", "repaired.py"):
        digest.update(Path(__file__).with_name(file).read_bytes())
    return digest.hexdigest()
