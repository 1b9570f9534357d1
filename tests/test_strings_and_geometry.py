"""String matchers, crossing segments and convex hulls: against files made from the real package, and against laws.

tests/oracle/make_strings_and_geometry_golden.py writes the files.
"""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial import ConvexHull

import mechgap as mg
from mechgap.algorithms.distributions import NeedleInHaystack
from mechgap.trace import Trace
from test_golden import digest, flat

GOLDEN = Path(__file__).with_name("golden") / "strings_and_geometry"
DIGESTS = json.loads((GOLDEN / "samplers.json").read_text())
HEADER = DIGESTS.pop("header")
MATCHERS = ("naive_string_matcher", "kmp_matcher")
HULLS = ("graham_scan", "jarvis_march")
ALGORITHMS = (*MATCHERS, "segments_intersect", *HULLS)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.npz")), ids=lambda path: path.stem)
def test_traces_are_the_references(path: Path) -> None:
    golden = dict(np.load(path))
    inputs = {name: golden[f"input/{name}"] for name in ("string", "key", "x", "y") if f"input/{name}" in golden}
    ours = flat(mg.algorithm(path.stem.rsplit("_", 1)[0]).trace(**inputs))
    assert {k: (x.dtype, x.shape) for k, x in ours.items()} == {k: (x.dtype, x.shape) for k, x in golden.items()}
    assert list(ours) == list(golden)
    assert {name: int(np.sum(ours[name] != golden[name])) for name in golden} == dict.fromkeys(golden, 0)


def test_the_files_cover_every_algorithm_and_size() -> None:
    sized = {f"{name}_{n}" for name in (*MATCHERS, *HULLS) for n in (4, 5, 11, 16, 64)}
    assert {path.stem for path in GOLDEN.glob("*.npz")} == {*sized, "segments_intersect_4"}
    assert set(DIGESTS) == set(ALGORITHMS)


def scenarios(name: str) -> Iterator[tuple[str, Trace]]:
    """The scenarios of the golden script, in our words."""
    algorithm, seed = mg.algorithm(name), HEADER["seed"]
    for part in ("train", "val", "test"):
        yield part, algorithm.split(part)
    endless = algorithm.benchmark_sampler(seed, 11, -1)
    yield "endless, first", endless.next(32)
    yield "endless, second", endless.next(32)
    n = 16
    if name in MATCHERS:  # as in the reference training script: 20 characters, and needles of 1 to 8
        n, algorithm = 20, dataclasses.replace(algorithm, distribution=NeedleInHaystack(longest=8))
    run_rng = np.random.RandomState(HEADER["run_seed"])
    yield "as in training", algorithm.benchmark_sampler(seed, n, 32, random_pos=run_rng, pred_as_input=True).next(16)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_samplers_draw_what_the_references_draw(name: str) -> None:
    ours = {scenario: digest(trace) for scenario, trace in scenarios(name)}
    assert list(ours) == list(DIGESTS[name])
    for scenario, golden in DIGESTS[name].items():
        assert ours[scenario] == golden, scenario
        assert list(ours[scenario]) == list(golden), f"{scenario}: the order of the variables"


TEXTS = st.integers(1, 4).flatmap(
    lambda needle: st.tuples(
        st.lists(st.integers(0, 1), min_size=9 - needle, max_size=9 - needle),
        st.lists(st.integers(0, 1), min_size=needle, max_size=needle),
    )
)


@given(TEXTS)
def test_matchers_find_what_python_finds(text: tuple[list[int], list[int]]) -> None:
    haystack, needle = ("".join(map(str, part)) for part in text)
    string = np.repeat([0.0, 1.0], [len(haystack), len(needle)])[None]
    expected = haystack.find(needle) if needle in haystack else len(haystack)
    for name in MATCHERS:
        trace = mg.algorithm(name).trace(string=string, key=np.eye(4)[[*text[0], *text[1]]][None])
        assert trace.outputs["match"][0].argmax() == expected


@pytest.mark.parametrize("name", HULLS)
@pytest.mark.parametrize("n", [3, 8, 16])
def test_hulls_are_scipys(name: str, n: int) -> None:
    trace = mg.algorithm(name).benchmark_sampler(5, n, 32).next()
    for x, y, in_hull in zip(trace.inputs["x"], trace.inputs["y"], trace.outputs["in_hull"], strict=True):
        assert set(np.flatnonzero(in_hull)) == set(ConvexHull(np.stack([x, y], axis=1)).vertices)


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


COUNT = 1024


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_two_ways_to_draw_follow_one_distribution(name: str) -> None:
    algorithm = mg.algorithm(name)
    host = algorithm.benchmark_sampler(11, 16, COUNT).next()
    device = algorithm.device_trace(algorithm.sample(jax.random.key(11), 16, COUNT))
    assert {k: x.shape for k, x in host.inputs.items()} == {k: x.shape for k, x in device.inputs.items()}
    for field in {"x", "y"} & host.inputs.keys():
        mine, theirs = host.inputs[field].ravel(), np.asarray(device.inputs[field]).ravel()
        assert stats.ks_2samp(mine, theirs).pvalue > 1e-4
    if name != "segments_intersect":  # whose executions are all equally long
        assert stats.ks_2samp(host.lengths, np.asarray(device.lengths)).pvalue > 1e-4
    for output, x in host.outputs.items():
        difference = np.mean(x, axis=0) - np.mean(device.outputs[output], axis=0)
        assert np.all(np.abs(difference) < 5 * np.sqrt(0.5 / COUNT))


def test_random_positions_are_sorted_within_each_string() -> None:
    inputs = mg.algorithm("kmp_matcher").sample(jax.random.key(0), 16, 64, random_pos=True)
    pos, string = np.asarray(inputs["pos"]), np.asarray(inputs["string"])
    assert np.all((np.diff(pos) >= 0) | (np.diff(string) > 0))
    assert np.any(np.diff(pos)[np.diff(string) > 0] < 0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"string": np.array([[1.0, 0, 0, 1]])}, "haystack"),
        ({"string": np.array([[0.0, 0, 0, 0]])}, "not empty"),
        ({"string": np.array([[0.0, 0, 0, 2]])}, "0 and 1 only"),
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
        mg.algorithm("kmp_matcher").benchmark_sampler(0, 2, 1)
