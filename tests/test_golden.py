"""Our tracers and samplers against files made from the real package: every value, dtype and order the same.

`make golden` writes the files; tests/oracle/make_golden.py says how.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mechgap as mg
from golden_files import GOLDEN, assert_same, digests, golden_traces
from mechgap.algorithms import TRAIN_P, benchmark_names
from mechgap.algorithms.distributions import BenchmarkStream, ErdosRenyi, NeedleInHaystack
from mechgap.trace import Trace

ORACLE = Path(__file__).with_name("oracle")
DIGESTS = json.loads((GOLDEN / "samplers.json").read_text())
HEADER = DIGESTS.pop("header")
ALGORITHMS = tuple(DIGESTS)
SIZES = (1, 2, 4, 5, 11, 16, 64)
STEMS = (path.stem.removeprefix("trace_").rsplit("_", 1) for path in GOLDEN.glob("trace_*.npz"))
FILES = sorted((name, int(n)) for name, n in STEMS)
# Of a few nodes the reference has no trace; two segments always have four ends.
UNANSWERED = {"quicksort": (1,), "lcs_length": (1,), "naive_string_matcher": (1,), "kmp_matcher": (1,)}
UNANSWERED["segments_intersect"] = tuple(n for n in SIZES if n != 4)
# Every algorithm and size is compiled anew, which is most of the time: the other sizes wait for `make test-all`, and
# the inputs of five nodes are compared in test_every_algorithm.py.
ALWAYS = (16,)


def sized(name: str, n: int):
    return pytest.param(name, n, marks=() if n in ALWAYS else pytest.mark.slow)


@pytest.mark.parametrize(("name", "n"), [sized(name, n) for name, n in FILES])
def test_traces_are_the_references(name: str, n: int) -> None:
    golden = golden_traces(name, n)
    assert_same(mg.algorithm(name).trace(**golden.inputs), golden)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_validation_split_is_the_benchmarks(name: str) -> None:
    assert digests(mg.algorithm(name).split("val")) == DIGESTS[name]["val"]


def scenarios(name: str) -> Iterator[tuple[str, Trace]]:
    """The scenarios of make_golden.py, in our words."""
    algorithm, seed, p = mg.algorithm(name), HEADER["seed"], HEADER["train_p"][name] or None
    for part in ("train", "val", "test"):
        yield part, algorithm.split(part)
    endless = algorithm.benchmark_sampler(seed, 16, -1, p=p)
    yield "endless, first", endless.next(32)
    yield "endless, second", endless.next(32)
    yield "untracked", algorithm.benchmark_sampler(seed, 16, -1, p=p and 0.3, track_max_steps=False).next(32)
    prepared = algorithm.benchmark_sampler(seed, 16, 32)
    yield "prepared, 16", prepared.next(16)
    yield "prepared, 5", prepared.next(5)
    yield from processed(name, p)


def processed(name: str, p: tuple[float, ...] | None) -> Iterator[tuple[str, Trace]]:
    """Two samplers that share the run's generator, so the order of the calls matters."""
    algorithm, nodes, seed = mg.algorithm(name), 16, HEADER["seed"]
    if isinstance(algorithm.distribution, NeedleInHaystack):  # the training script's needles, among more characters
        algorithm, nodes = dataclasses.replace(algorithm, distribution=NeedleInHaystack(longest=8)), 20
    run_rng = np.random.RandomState(HEADER["run_seed"])
    options = {"p": p, "random_pos": run_rng, "pred_as_input": True, "permutations": True}
    small = algorithm.benchmark_sampler(seed + nodes, nodes, 32, **options)
    large = algorithm.benchmark_sampler(seed + 64, 64, 8, **options)
    yield "processed, first", small.next(16)
    yield "processed, large", large.next(4)
    yield "processed, second", small.next(16)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_samplers_draw_what_the_references_draw(name: str) -> None:
    seen = []
    for scenario, trace in scenarios(name):
        ours, golden = digests(trace), DIGESTS[name][scenario]
        assert ours == golden, scenario
        assert list(ours) == list(golden), f"{scenario}: the order of the variables"
        seen.append(scenario)
    assert seen == list(DIGESTS[name])


@pytest.mark.parametrize("p", [(0.5,), (0.0, 1.0), (0.1, 0.7, 0.5000001), TRAIN_P])
@pytest.mark.parametrize("n", [1, 7, 16])
def test_graphs_drawn_in_bulk_are_those_drawn_one_call_at_a_time(p: tuple[float, ...], n: int) -> None:
    stream, rng = BenchmarkStream(3), np.random.RandomState(3)
    drawn = ErdosRenyi(directed=True, weighted=True, source=True).draw(stream, n, 20, p)
    for A, s in zip(drawn["A"], drawn["s"], strict=True):
        edges = rng.binomial(1, rng.choice(p), (n, n))
        np.testing.assert_array_equal(A, edges * rng.uniform(size=(n, n)))
        assert s.argmax() == rng.choice(n)
    assert stream.rng.uniform() == rng.uniform()


def test_the_golden_files_belong_to_the_scripts_beside_them() -> None:
    digest = hashlib.sha256()
    for file in ("cases.py", "make_golden.py", "reference.py", "repaired.py"):
        digest.update((ORACLE / file).read_bytes())
    sources = {golden_traces(name, n).header["sources_sha256"] for name, n in FILES} | {HEADER["sources_sha256"]}
    assert sources == {digest.hexdigest()}, "run `make golden` after a change in tests/oracle"


def test_the_golden_files_cover_every_algorithm_and_size() -> None:
    assert len(ALGORITHMS) == 30
    assert set(ALGORITHMS) == set(benchmark_names())
    answered = {(name, n) for name in ALGORITHMS for n in SIZES if n not in UNANSWERED.get(name, ())}
    assert set(FILES) == answered
