"""Searches, tables and greedy choices against digests of the real package's traces: every value, dtype and order.

tests/oracle/make_searches_and_tables.py writes the digests and says what they are of.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

import mechgap as mg
from mechgap.trace import Stage, Trace

GOLDEN = dict(np.load(Path(__file__).with_name("golden") / "searches_and_tables.npz"))
SAID = json.loads(str(GOLDEN.pop("said")))
SEED = SAID["header"]["seed"]


def digests(trace: Trace) -> dict[str, str]:
    arrays = {f"{v.stage}/{v.name}": trace.values(stage)[v.name] for stage in Stage for v in trace.spec.at(stage)}
    arrays["lengths"] = trace.lengths
    return {
        k: f"{x.dtype} {list(x.shape)} {hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}"
        for k, x in arrays.items()
    }


@pytest.mark.parametrize("case", SAID["traces"])
def test_traces_are_the_references(case: str) -> None:
    given = {k.removeprefix(f"{case}/"): x for k, x in GOLDEN.items() if k.startswith(f"{case}/")}
    ours = digests(mg.algorithm(case.split("/")[0]).trace(**given))
    assert ours == SAID["traces"][case]
    assert list(ours) == list(SAID["traces"][case]), "the order of the variables"


def scenarios(name: str) -> Iterator[tuple[str, Trace]]:
    """The scenarios of make_searches_and_tables.py, in our words."""
    algorithm = mg.algorithm(name)
    yield "train", algorithm.split("train")
    yield "val", algorithm.split("val")
    endless = algorithm.benchmark_sampler(SEED, 11, -1)
    yield "endless, first", endless.next(8)
    yield "endless, second", endless.next(8)
    options = {"random_pos": np.random.RandomState(SEED), "pred_as_input": True}
    yield "processed", algorithm.benchmark_sampler(SEED, 16, 16, **options).next(16)


@pytest.mark.parametrize("name", SAID["sampled"])
def test_samplers_draw_what_the_references_draw(name: str) -> None:
    ours = {scenario: digests(trace) for scenario, trace in scenarios(name)}
    for scenario, golden in SAID["sampled"][name].items():
        assert ours[scenario] == golden, scenario


@pytest.mark.parametrize("name", SAID["sampled"])
def test_device_inputs_are_distributed_as_the_benchmarks(name: str) -> None:
    algorithm = mg.algorithm(name)
    ours = algorithm.sample(jax.random.key(0), 8, 4000)
    theirs = algorithm.benchmark_sampler(0, 8, 4000).next().inputs
    for variable in algorithm.spec.at(Stage.INPUT):
        mine, golden = np.asarray(ours[variable.name]), theirs[variable.name]
        assert mine.shape == golden.shape
        np.testing.assert_allclose(mine.mean(0), golden.mean(0), atol=0.05 * max(1.0, golden.std()))
        np.testing.assert_allclose(mine.std(0), golden.std(0), atol=0.05 * max(1.0, golden.std()))


def test_random_positions_are_sorted_in_every_string_apart() -> None:
    pos = np.asarray(mg.algorithm("lcs_length").sample(jax.random.key(1), 9, 50, random_pos=True)["pos"])
    for string in (pos[:, :5], pos[:, 5:]):
        assert np.all(np.diff(string) > 0)
    assert np.any(pos[:, 4] > pos[:, 5])


def test_an_unusually_long_execution_is_traced_whole() -> None:
    """Quickselect has room for 6n frames at first; of sorted keys every partition takes away one, the greatest."""
    n = 32
    trace = mg.algorithm("quickselect").trace(key=np.arange(n)[None] / n)
    assert trace.lengths[0] == sum(range(n // 2 + 1, n + 1)) > 6 * n
    assert trace.outputs["median"][0].argmax() == n // 2


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("lcs_length", {"string": [[0, 1, 0]], "key": [np.eye(4)[[0, 1, 2]]]}, "first string's characters 0"),
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
        mg.algorithm("lcs_length").benchmark_sampler(0, 1, 4)
