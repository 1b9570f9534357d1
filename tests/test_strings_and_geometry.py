"""String matchers, crossing segments and convex hulls: against plain Python, scipy, and symmetry."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

import mechgap as mg
from mechgap.algorithms.geometry import _ascending

MATCHERS = ("naive_string_matcher", "kmp_matcher")
HULLS = ("graham_scan", "jarvis_march")


@pytest.mark.parametrize("name", MATCHERS)
def test_matchers_find_what_python_finds(name: str) -> None:
    """All texts of two letters and seven characters, with needles of one to three."""
    texts = ["".join(letters) for letters in product("01", repeat=7)]
    cuts = [(text[:-needle], text[-needle:]) for needle in (1, 2, 3) for text in texts]
    key = np.eye(4)[[[int(letter) for letter in haystack + needle] for haystack, needle in cuts]]
    string = np.array([[0.0] * len(haystack) + [1.0] * len(needle) for haystack, needle in cuts])
    found = mg.algorithm(name).trace(string=string, key=key).outputs["match"].argmax(-1)
    assert list(found) == [h.find(needle) if needle in h else len(h) for h, needle in cuts]


@pytest.mark.parametrize("name", HULLS)
@pytest.mark.parametrize("n", [8, pytest.param(3, marks=pytest.mark.slow), pytest.param(16, marks=pytest.mark.slow)])
def test_hulls_are_scipys(name: str, n: int) -> None:
    trace = mg.algorithm(name).benchmark_sampler(5, n, 32).next()
    for x, y, in_hull in zip(trace.inputs["x"], trace.inputs["y"], trace.outputs["in_hull"], strict=True):
        assert set(np.flatnonzero(in_hull)) == set(ConvexHull(np.stack([x, y], axis=1)).vertices)


@given(st.lists(st.sampled_from([0.0, 0.5, 0.75, 1.0]), min_size=9, max_size=9))
def test_points_in_the_order_of_their_angles(angles: list[float]) -> None:
    """Of equal angles the first comes first, as in a stable sort."""
    keys = np.array([angles, angles[::-1]])
    np.testing.assert_array_equal(_ascending(jnp.asarray(keys)), np.argsort(keys, axis=-1, kind="stable"))


@pytest.mark.parametrize("name", ["graham_scan", "jarvis_march"])
def test_a_point_on_the_edge_of_a_hull_is_not_of_it(name: str) -> None:
    """As the reference answers: the third point lies between the second and the fourth."""
    trace = mg.algorithm(name).trace(x=[[0.0, 2, 2, 2, 0]], y=[[0.0, 0, 1, 2, 2]])
    assert trace.outputs["in_hull"].tolist() == [[1, 1, 0, 1, 1]]


def test_a_scan_ends_where_all_points_lie_in_a_line() -> None:
    """The reference's does not."""
    along = np.arange(7.0)[None]
    assert mg.algorithm("graham_scan").trace(x=along, y=along).lengths[0] <= 2 * 7 + 1


@given(st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_segments_cross_whichever_way_they_are_given(numbers: list[int]) -> None:
    x, y = np.array(numbers, float).reshape(2, 1, 4)
    given_as = ([0, 1, 2, 3], [1, 0, 2, 3], [2, 3, 0, 1], [3, 2, 1, 0])
    trace = mg.algorithm("segments_intersect").trace(x=x[0, given_as], y=y[0, given_as])
    assert len(set(trace.outputs["intersect"])) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"string": np.array([[1.0, 0, 0, 1]])}, "0 along the first string and then 1"),
        ({"string": np.array([[0.0, 0, 0, 0]])}, "at least one of each"),
        ({"string": np.array([[0.0, 0, 0, 2]])}, "0 along the first string and then 1"),
        ({"string": np.array([[0.0, 1, 1, 1]])}, "must not be longer than the haystack"),
        ({"key": np.zeros((1, 4, 4))}, r"one-hot over its 4 classes, but is not at \[0, 0\]"),
    ],
)
def test_strings_that_mean_nothing_are_refused(change: dict[str, np.ndarray], says: str) -> None:
    good = {"string": np.array([[0.0, 0, 0, 1]]), "key": np.eye(4)[[[0, 1, 2, 2]]]}
    assert mg.algorithm("kmp_matcher").trace(**good).outputs["match"][0].argmax() == 2
    with pytest.raises(ValueError, match=says):
        mg.algorithm("kmp_matcher").trace(**{**good, **change})


def test_a_needle_needs_a_longer_haystack() -> None:
    with pytest.raises(ValueError, match="need n >= 3; got n = 2"):
        mg.algorithm("kmp_matcher").sample(jax.random.key(0), 2, 1)
