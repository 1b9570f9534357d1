"""Our network against the reference's, same parameters and same batch: logits, attention and hidden states.

tests/oracle/make_network_golden.py writes the files, in the oracle environment.
"""

import json
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import jax
import numpy as np
import pytest

import mechgap as mg
from mechgap.networks import ClrsNet, NetConfig, Prediction, from_reference, predict, to_reference
from mechgap.trace import Kind, Location, Spec, Stage, Variable

GOLDEN = Path(__file__).with_name("golden")
PATHS = sorted(GOLDEN.glob("network_*.npz"))
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}

PROCESSORS = ("bfs_gat", "bfs_mpnn", "bfs_pgn", "bfs_triplet_gmpnn")

Arrays = dict[str, np.ndarray]


def load(path: Path) -> tuple[dict, Arrays]:
    arrays = dict(np.load(path))
    return json.loads(str(arrays.pop("header"))), arrays


def under(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}


def spec_of(header: dict) -> Spec:
    words = {"stage": Stage, "location": Location, "kind": Kind}
    return Spec(tuple(Variable(**{k: words.get(k, lambda x: x)(x) for k, x in v.items()}) for v in header["spec"]))


def parameters(arrays: Arrays, dtype: str) -> dict[str, Arrays]:
    tree: dict[str, Arrays] = {}
    for name, x in under(arrays, "parameter/").items():
        module, key = name.split(" ")
        tree.setdefault(module, {})[key] = x.astype(dtype)
    return tree


# Each network runs once: compiling quickly beats running quickly.
@partial(jax.jit, static_argnames="steps", compiler_options={"xla_backend_optimization_level": 0})
def predicted(net: ClrsNet, inputs: Arrays, hints: Arrays, lengths: np.ndarray, steps: int) -> Prediction:
    return predict(net, inputs, hints, lengths, steps=steps)


def compute(path: Path, dtype: str) -> tuple[Arrays, Arrays]:
    """What the reference says and what we say, by name, batch axes as in the reference."""
    header, arrays = load(path)
    with jax.enable_x64(dtype == "float64"):
        net = from_reference(parameters(arrays, dtype), spec_of(header), NetConfig(**header["config"]))
        hints = under(arrays, "hint/")
        steps = next(iter(hints.values())).shape[0]
        prediction = predicted(net, under(arrays, "input/"), hints, arrays["lengths"], steps)
    assert prediction.activations is not None
    recorded = {name: x for name, x in prediction.activations._asdict().items() if x is not None}
    seen = {name: np.moveaxis(np.asarray(x), 0, 2) for name, x in recorded.items()}
    ours = {f"output/{name}": np.asarray(x) for name, x in prediction.outputs.items()}
    ours |= {f"hint/{name}": np.swapaxes(np.asarray(x), 0, 1) for name, x in prediction.hints.items()}
    return under(arrays, f"{dtype}/"), ours | seen


# `make test-all` compares every network in both precisions; these go quickly through every part.
QUICK = {
    "float32": (*("bfs_encoded_decoded_norm", "bfs_gat", "bfs_pgn", "bfs_triplet_gmpnn"),),
    "float64": (
        *("bfs_none_plain", "bfs_message_passing_steps_2", "bellman_ford_decoded_only_plain", "dfs_heads_2_hard"),
        *("floyd_warshall_default", "graham_scan_default", "insertion_sort_default", "segments_intersect_default"),
        "lcs_length_hard",
        *("bfs_gat_full_adjacency_heads_2_plain", "bfs_mpnn_hard"),
    ),
}


def compared() -> Iterator[object]:
    for path, dtype in product(PATHS, TOLERANCE):
        case = path.stem.removeprefix("network_")
        marks = [] if case in QUICK[dtype] else [pytest.mark.slow]
        yield pytest.param(path, dtype, id=f"{case}-{dtype}", marks=marks)


@pytest.mark.parametrize(("path", "dtype"), list(compared()))
def test_logits_and_attention_are_the_references(path: Path, dtype: str) -> None:
    theirs, ours = compute(path, dtype)
    names = [name for name in theirs if name != "loss" and not name.startswith("gradient/")]
    assert {name for name in names if "/" in name} == {name for name in ours if "/" in name}
    for name in names:
        assert ours[name].dtype == dtype
        np.testing.assert_allclose(ours[name], theirs[name], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=name)


@pytest.mark.parametrize("case", ["bfs_none_plain", "dfs_heads_2_hard", "floyd_warshall_default", *PROCESSORS])
def test_parameters_go_through_unchanged(case: str) -> None:
    header, arrays = load(GOLDEN / f"network_{case}.npz")
    tree = parameters(arrays, "float32")
    again = to_reference(from_reference(tree, spec_of(header), NetConfig(**header["config"])))
    assert {module: set(xs) for module, xs in again.items()} == {module: set(xs) for module, xs in tree.items()}
    assert all(np.array_equal(x, again[module][k]) for module, xs in tree.items() for k, x in xs.items())


@pytest.mark.parametrize("name", ["bfs", "dfs", "bellman_ford"])
def test_the_reference_describes_the_same_variables(name: str) -> None:
    header, _ = load(GOLDEN / f"network_{name}_none_plain.npz")
    theirs, ours = spec_of(header), mg.algorithm(name).spec
    assert [theirs.at(stage) for stage in Stage] == [ours.at(stage) for stage in Stage]
