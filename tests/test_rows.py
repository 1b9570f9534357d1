"""Executions that go sample by sample on a processor go all at once elsewhere: the same, frame by frame."""

import jax
import numpy as np
import pytest

import mechgap as mg
from mechgap.algorithms import rows

BY_ROWS = ("graham_scan", "jarvis_march", "quickselect", "quicksort")
N = 8


def inputs_of(name: str) -> dict:
    return mg.algorithm(name).sample(jax.random.key(3), N, 6)


@pytest.mark.parametrize("cut", [None, 20, 2])
@pytest.mark.parametrize("name", BY_ROWS)
def test_all_at_once_is_one_by_one(name: str, cut: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, inputs = mg.algorithm(name), inputs_of(name)
    one_by_one = algorithm.device_trace(inputs, cut)
    monkeypatch.setattr(rows, "_one_by_one", rows._all_at_once)
    all_at_once = algorithm.device_trace(inputs, cut)
    np.testing.assert_array_equal(one_by_one.lengths, all_at_once.lengths)
    for values, others in ((one_by_one.hints, all_at_once.hints), (one_by_one.outputs, all_at_once.outputs)):
        for variable, x in values.items():
            np.testing.assert_array_equal(x, others[variable], err_msg=variable)


@pytest.mark.parametrize("name", BY_ROWS)
def test_a_cut_execution_is_the_beginning_of_the_whole(name: str) -> None:
    algorithm, inputs, cut = mg.algorithm(name), inputs_of(name), 10
    whole, short = algorithm.device_trace(inputs), algorithm.device_trace(inputs, cut)
    np.testing.assert_array_equal(short.lengths, np.minimum(whole.lengths, cut))
    for variable, x in whole.hints.items():
        np.testing.assert_array_equal(x[:cut], short.hints[variable], err_msg=variable)
