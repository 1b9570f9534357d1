"""What holds of the traces of every algorithm, at one small size.

Every shape is compiled anew, which is most of the time: the tests share one batch per algorithm, the golden files'
inputs, drawn and made by hand.
"""

from functools import cache

import jax
import numpy as np
import pytest

import mechgap as mg
from golden_files import GoldenTraces, assert_same, golden_traces
from mechgap.algorithms import benchmark_names
from mechgap.trace import Kind, Stage, Trace

NODES = 5
DRAWN = 8  # the first samples of a golden file, which the benchmark's sampler drew

# The hint that grows into an output, where it is not called OUTPUT_h; None where no frame holds the output.
LAST: dict[tuple[str, str], str | None] = {
    ("binary_search", "return"): "high",
    ("find_maximum_subarray_kadane", "end"): "best_high",
    ("find_maximum_subarray_kadane", "start"): "best_low",
    ("floyd_warshall", "Pi"): None,  # each frame is the state before one more round
    ("kmp_matcher", "match"): "s",
    ("lcs_length", "b"): None,  # the sweep that finds no length changed may still change a direction
    ("naive_string_matcher", "match"): "s",
    ("quickselect", "median"): "i",
    ("segments_intersect", "intersect"): None,
}


@cache
def golden(name: str) -> GoldenTraces:
    """A variant has the inputs of the algorithm that it varies; two segments have four ends."""
    return golden_traces(mg.algorithm(name).variant_of or name, 4 if name == "segments_intersect" else NODES)


@cache
def traced(name: str) -> Trace:
    return mg.algorithm(name).trace(**golden(name).inputs)


def given(trace: Trace) -> dict[str, np.ndarray]:
    return {name: x for name, x in trace.inputs.items() if name != "adj"}


@pytest.mark.parametrize("name", benchmark_names())
def test_traces_are_the_references(name: str) -> None:
    assert_same(traced(name), golden(name))


@pytest.mark.parametrize("name", mg.algorithm_names())
def test_the_last_frame_agrees_with_the_outputs(name: str) -> None:
    """Of drawn inputs: a string that is not found has no frame of its own, for example."""
    trace = traced(name).take(slice(DRAWN))
    for output in trace.spec.names(Stage.OUTPUT):
        hint = LAST.get((name, output), f"{output}_h")
        if hint is not None:
            last = trace.hints[hint][trace.lengths.astype(int) - 1, np.arange(DRAWN)]
            np.testing.assert_array_equal(last, trace.outputs[output])


@pytest.mark.parametrize("name", mg.algorithm_names())
def test_a_sample_does_not_depend_on_the_others(name: str) -> None:
    """Every other sample becomes the longest one, for which there is room."""
    trace = traced(name)
    ids = np.arange(len(trace.lengths))
    changed = trace.take(np.where(ids % 2, ids, trace.lengths.argmax()))
    assert mg.algorithm(name).trace(**given(changed)).differences(changed) == {}


# One of each family; the training path of the others is compiled in `make test-all`.
FAMILIES = (
    "bellman_ford",
    "bfs",
    "binary_search",
    "dfs",
    "dijkstra",
    "graham_scan",
    "heapsort",
    "kmp_matcher",
    "lcs_length",
)


@pytest.mark.parametrize(
    "name", [n if n in FAMILIES else pytest.param(n, marks=pytest.mark.slow) for n in mg.algorithm_names()]
)
def test_float32_with_room_to_spare_decides_as_float64_on_a_grid(name: str) -> None:
    """Where no comparison is a near-tie, the training path agrees with the conformance path, frame by frame."""
    algorithm, trace = mg.algorithm(name), traced(name)
    order = np.arange(len(trace.lengths)) % DRAWN
    order[-1] = trace.lengths.argmax()  # as much room is needed as before, so nothing is compiled for it
    inputs = on_grid(trace.take(order))
    room = algorithm.max_steps(inputs["pos"].shape[-1]) + 5
    ours = algorithm.trace(**inputs).pad(room).take(slice(DRAWN))
    device = jax.jit(algorithm.device_trace, static_argnums=1)({k: x[:DRAWN] for k, x in inputs.items()}, room)
    assert device.steps == room
    np.testing.assert_array_equal(device.lengths, ours.lengths)
    for variable in ours.spec:
        if variable.kind != Kind.SCALAR:
            mine, theirs = (t.values(variable.stage)[variable.name] for t in (ours, device))
            np.testing.assert_array_equal(theirs, mine, variable.name)


def on_grid(trace: Trace) -> dict[str, np.ndarray]:
    """The inputs with their reals as whole numbers of 1/1024, which float32 holds, so that there are no near-ties."""
    reals = {v.name for v in trace.spec.at(Stage.INPUT) if v.kind == Kind.SCALAR} - {"pos", "d"}
    return {name: np.ceil(x * 1024) / 1024 if name in reals else x for name, x in given(trace).items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", mg.algorithm_names())
def test_a_batch_is_its_samples(name: str) -> None:
    for sample in range(5):
        one = traced(name).take([sample])
        assert mg.algorithm(name).trace(**given(one)).differences(one) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", mg.algorithm_names())
def test_more_room_for_frames_changes_nothing(name: str) -> None:
    algorithm = mg.algorithm(name)
    inputs = algorithm.benchmark_sampler(4, 7, 32).next().inputs
    exact = algorithm.max_steps(inputs["pos"].shape[-1])
    short, long = algorithm.device_trace(inputs, exact), algorithm.device_trace(inputs, exact + 5)
    assert long.steps == exact + 5
    assert short.differences(long) == {}
