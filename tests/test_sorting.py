"""The sorts beside insertion sort: what they sort, and how many frames they take."""

import numpy as np
import pytest

import mechgap as mg

SORTS = ("bubble_sort", "heapsort", "quicksort")


@pytest.mark.parametrize("name", SORTS)
def test_the_order_is_sorted_in_the_frames_there_is_room_for(name: str) -> None:
    rng, n = np.random.RandomState(2), 8
    algorithm, key = mg.algorithm(name), np.stack([np.arange(n), np.arange(n)[::-1], *rng.uniform(size=(200, n))])
    trace = algorithm.trace(key=key)
    assert trace.lengths.max() <= algorithm.max_steps(n)
    for keys, pred in zip(key, trace.outputs["pred"], strict=True):
        order = np.argsort(keys)
        assert pred[order[0]] == order[0]
        np.testing.assert_array_equal(pred[order[1:]], order[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", SORTS)
def test_no_array_has_more_frames_than_there_is_room_for(name: str) -> None:
    algorithm, rng = mg.algorithm(name), np.random.RandomState(2)
    for n in (1, 2, 3, 8):
        key = np.stack([np.arange(n), np.arange(n)[::-1], *rng.uniform(size=(200, n))])
        room = algorithm.max_steps(n)
        assert algorithm.device_trace({"key": key}, room + 3).lengths.max() <= room


def test_one_element_is_sorted_by_quicksort_in_one_frame() -> None:
    """The benchmark has no trace of it."""
    trace = mg.algorithm("quicksort").trace(key=np.array([[0.5]]))
    assert trace.steps == 1
    np.testing.assert_array_equal(trace.outputs["pred"], [[0]])


def test_room_for_frames_is_made_as_needed() -> None:
    """Where executions differ much in length, a batch's frames are counted first; the longest are then not cut."""
    rng, n = np.random.RandomState(3), 8
    keys = np.stack([np.arange(n), *rng.uniform(size=(7, n))])
    together = mg.algorithm("quicksort").trace(key=keys)
    assert together.steps == together.lengths.max() == n * (n + 1) // 2 - 1
    apart = mg.algorithm("quicksort").trace(key=keys[1:])
    assert apart.steps < together.steps
    assert together.take(slice(1, None)).differences(apart) == {}
