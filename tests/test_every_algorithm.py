"""Laws that the traces of every algorithm obey.

One small size, and one batch of inputs per algorithm, since every shape is compiled anew.
"""

from functools import cache

import jax
import numpy as np
import pytest

import mechgap as mg
from mechgap.trace import Kind, Stage, Trace

NODES, BATCH = 5, 32

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
def drawn(name: str) -> Trace:
    return mg.algorithm(name).benchmark_sampler(4, NODES, BATCH).next()


def given(trace: Trace) -> dict[str, np.ndarray]:
    return {name: x for name, x in trace.inputs.items() if name != "adj"}


@pytest.mark.parametrize("name", mg.algorithm_names())
def test_the_last_frame_agrees_with_the_outputs(name: str) -> None:
    trace = drawn(name)
    for output in trace.spec.names(Stage.OUTPUT):
        hint = LAST.get((name, output), f"{output}_h")
        if hint is None:
            continue
        last = trace.hints[hint][trace.lengths.astype(int) - 1, np.arange(BATCH)]
        np.testing.assert_array_equal(last, trace.outputs[output])


@pytest.mark.parametrize("name", mg.algorithm_names())
def test_a_sample_does_not_depend_on_the_others(name: str) -> None:
    """Every other sample becomes the longest one, for which there is room."""
    trace = drawn(name)
    order = np.where(np.arange(BATCH) % 2, np.arange(BATCH), trace.lengths.argmax())
    inputs = {k: x[order] for k, x in given(trace).items()}
    assert mg.algorithm(name).trace(**inputs).differences(trace.take(order)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", mg.algorithm_names())
def test_a_batch_is_its_samples(name: str) -> None:
    for sample in range(5):
        one = drawn(name).take([sample])
        assert mg.algorithm(name).trace(**given(one)).differences(one) == {}


@pytest.mark.parametrize("name", mg.algorithm_names())
def test_float32_with_room_to_spare_decides_as_float64_on_a_grid(name: str) -> None:
    """Where no comparison is a near-tie, the training path agrees with the conformance path, frame by frame."""
    algorithm, inputs = mg.algorithm(name), given(drawn(name))
    reals = {v.name for v in algorithm.spec.at(Stage.INPUT) if v.kind == Kind.SCALAR}
    for real in reals - {"pos", "d"}:
        inputs[real] = np.ceil(inputs[real] * 1024) / 1024
    room = algorithm.max_steps(inputs["pos"].shape[-1]) + 5  # optimal_bst has a node more than keys
    ours, device = algorithm.trace(**inputs), jax.jit(algorithm.device_trace, static_argnums=1)(inputs, room)
    assert device.steps == room
    np.testing.assert_array_equal(device.lengths, ours.lengths)
    padded = ours.pad(room)
    for variable in ours.spec:
        mine, theirs = (np.asarray(t.values(variable.stage)[variable.name]) for t in (padded, device))
        if variable.kind != Kind.SCALAR:
            np.testing.assert_array_equal(theirs, mine, variable.name)


@pytest.mark.slow
@pytest.mark.parametrize("name", mg.algorithm_names())
def test_more_room_for_frames_changes_nothing(name: str) -> None:
    algorithm = mg.algorithm(name)
    inputs = algorithm.benchmark_sampler(4, 7, BATCH).next().inputs
    exact = algorithm.max_steps(inputs["pos"].shape[-1])
    short, long = algorithm.device_trace(inputs, exact), algorithm.device_trace(inputs, exact + 5)
    assert long.steps == exact + 5
    assert short.differences(long) == {}
