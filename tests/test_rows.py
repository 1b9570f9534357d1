"""Executions that go sample by sample on a processor go all at once elsewhere: the same, frame by frame."""

import jax
import numpy as np
import pytest

import mechgap as mg
from mechgap.trace import Trace

BY_ROWS = ("graham_scan", "jarvis_march", "quickselect", "quicksort")
WHOLE, CUT = 44, 3


def traced(name: str, steps: int) -> Trace:
    """Of drawn inputs, and of the same with ties."""
    algorithm = mg.algorithm(name)
    drawn = algorithm.benchmark_sampler(7, 6, 8).next().inputs
    inputs = {k: np.concatenate([x, np.round(3 * x)]).astype(np.float32) for k, x in drawn.items()}
    return jax.jit(lambda given: algorithm.device_trace(given, steps))(inputs)


@pytest.mark.parametrize(
    "name", [name if name == "graham_scan" else pytest.param(name, marks=pytest.mark.slow) for name in BY_ROWS]
)
def test_samples_one_by_one_all_at_once_and_where_there_is_little_room(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = traced(name, WHOLE), traced(name, CUT)
    assert whole.lengths.max() < WHOLE
    np.testing.assert_array_equal(cut.lengths, np.minimum(whole.lengths, CUT))
    for variable, x in whole.hints.items():
        np.testing.assert_array_equal(x[:CUT], cut.hints[variable], err_msg=variable)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *given, cpu, default: default(*given))
    for one_by_one, all_at_once in ((whole, traced(name, WHOLE)), (cut, traced(name, CUT))):
        assert one_by_one.differences(all_at_once) == {}
        assert jax.tree.map(lambda x: x.dtype, one_by_one) == jax.tree.map(lambda x: x.dtype, all_at_once)
