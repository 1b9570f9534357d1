"""Searches, tables and greedy choices against plain Python, and the inputs that they refuse."""

from bisect import bisect_left
from functools import cache
from itertools import combinations

import jax
import numpy as np
import pytest

import mechgap as mg
from mechgap.trace import Trace

N, COUNT = 7, 32


@cache
def drawn(name: str) -> Trace:
    return mg.algorithm(name).benchmark_sampler(5, N, COUNT).next()


def last(trace: Trace, hint: str) -> np.ndarray:
    """The hint in every execution's last frame."""
    return trace.hints[hint][trace.lengths.astype(int) - 1, np.arange(COUNT)]


def test_binary_search_finds_the_place_of_the_target() -> None:
    trace = drawn("binary_search")
    for key, target, place in zip(trace.inputs["key"], trace.inputs["target"], trace.outputs["return"], strict=True):
        assert place.argmax() == min(bisect_left(list(key), target), N - 1)


def test_quickselect_finds_the_median() -> None:
    trace = drawn("quickselect")
    for key, median in zip(trace.inputs["key"], trace.outputs["median"], strict=True):
        assert median.argmax() == np.argsort(key)[N // 2]


def test_kadane_finds_the_largest_sum() -> None:
    trace = drawn("find_maximum_subarray_kadane")
    for key, start, end in zip(trace.inputs["key"], trace.outputs["start"], trace.outputs["end"], strict=True):
        sums = [key[i : j + 1].sum() for i in range(N) for j in range(i, N)]
        np.testing.assert_allclose(key[start.argmax() : end.argmax() + 1].sum(), max(sums))


def test_matrix_chains_cost_the_least() -> None:
    trace = drawn("matrix_chain_order")

    for p, split, costs in zip(trace.inputs["p"], trace.outputs["s"], last(trace, "m"), strict=True):

        @cache
        def least(i: int, j: int, p=p) -> float:
            return min((least(i, k) + least(k + 1, j) + p[i - 1] * p[k] * p[j] for k in range(i, j)), default=0.0)

        def cost(i: int, j: int, p=p, split=split) -> float:
            k = int(split[i, j])
            return 0.0 if i == j else cost(i, k) + cost(k + 1, j) + p[i - 1] * p[k] * p[j]

        np.testing.assert_allclose([cost(1, N - 1), costs[1, N - 1]], least(1, N - 1))


def test_common_subsequences_are_as_long_as_they_can_be() -> None:
    trace = drawn("lcs_length")
    for string, key, lengths in zip(trace.inputs["string"], trace.inputs["key"], last(trace, "c"), strict=True):
        first, second = (tuple(key.argmax(-1)[string == which]) for which in (0, 1))
        assert lengths.max() == longest_common(first, second)


def longest_common(one: tuple, other: tuple) -> int:
    if not one or not other:
        return 0
    if one[0] == other[0]:
        return 1 + longest_common(one[1:], other[1:])
    return max(longest_common(one[1:], other), longest_common(one, other[1:]))


def test_search_trees_cost_the_least() -> None:
    trace = drawn("optimal_bst")
    for p, q, costs in zip(trace.inputs["p"], trace.inputs["q"], last(trace, "e"), strict=True):

        @cache
        def least(i: int, j: int, p=p, q=q) -> float:
            """Of the keys i to j - 1 and the gaps i to j."""
            here = p[i:j].sum() + q[i : j + 1].sum()
            return min((least(i, r) + least(r + 1, j) for r in range(i, j)), default=0.0) + here

        np.testing.assert_allclose(costs[0, N], least(0, N))


def test_as_many_activities_as_can_be_are_selected() -> None:
    trace = drawn("activity_selector")
    for s, f, selected in zip(trace.inputs["s"], trace.inputs["f"], trace.outputs["selected"], strict=True):

        def apart(some: tuple, s=s, f=f) -> bool:
            return all(f[i] <= s[j] or f[j] <= s[i] for i, j in combinations(some, 2))

        chosen = tuple(np.flatnonzero(selected))
        assert apart(chosen)
        assert not any(apart(some) for some in combinations(range(N), len(chosen) + 1))


def test_the_heaviest_tasks_are_taken_first_as_long_as_they_are_in_time() -> None:
    """The benchmark's greedy choice, which is not always the best one."""
    trace = drawn("task_scheduling")
    for d, w, selected in zip(trace.inputs["d"], trace.inputs["w"], trace.outputs["selected"], strict=True):
        taken: list[int] = []
        for task in np.argsort(-w):
            taken += [task] if len(taken) < d[task] else []
        assert sorted(taken) == list(np.flatnonzero(selected))


def test_an_unusually_long_execution_is_traced_whole() -> None:
    """Of sorted keys every partition of quickselect takes away one, the greatest."""
    n = 16
    trace = mg.algorithm("quickselect").trace(key=np.arange(n)[None] / n)
    assert trace.lengths[0] == sum(range(n // 2 + 1, n + 1)) > 6 * n
    assert trace.outputs["median"][0].argmax() == n // 2


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("lcs_length", {"string": [[0, 1, 0]], "key": [np.eye(4)[[0, 1, 2]]]}, "0 along the first string and then 1"),
        ("lcs_length", {"string": [[0, 0, 0]], "key": [np.eye(4)[[0, 1, 2]]]}, "at least one of each"),
        ("lcs_length", {"string": [[0, 0, 1]], "key": [np.ones((3, 4))]}, "one-hot over its 4 classes"),
        ("binary_search", {"key": [[0.1, 0.2]], "target": [[0.1, 0.1]]}, "'target' must have shape"),
        ("task_scheduling", {"d": [[1, 2]]}, "needs the inputs 'w'"),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, given: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        mg.algorithm(name).trace(**{k: np.asarray(x) for k, x in given.items()})


def test_one_character_is_not_two_strings() -> None:
    with pytest.raises(ValueError, match="at least 2 characters"):
        mg.algorithm("lcs_length").sample(jax.random.key(0), 1, 4)
