"""Our tracers and samplers against files made from the real package: every value, dtype and order the same.

`make golden` writes the files; tests/oracle/make_golden.py says how.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mechgap as mg
from mechgap.algorithms import TRAIN_P
from mechgap.algorithms.distributions import BenchmarkStream, ErdosRenyi
from mechgap.trace import Stage, Trace

GOLDEN = Path(__file__).with_name("golden")
ORACLE = Path(__file__).with_name("oracle")
DIGESTS = json.loads((GOLDEN / "samplers.json").read_text())
HEADER = DIGESTS["header"]
ALGORITHMS = [name for name in DIGESTS if name != "header"]


def flat(trace: Trace) -> dict[str, np.ndarray]:
    """The arrays of a trace, named and ordered as in the golden files."""
    arrays = {f"{v.stage}/{v.name}": trace.values(stage)[v.name] for stage in Stage for v in trace.spec.at(stage)}
    return {**arrays, "lengths": trace.lengths}


def digest(trace: Trace) -> dict[str, str]:
    """As make_golden.py writes it."""
    return {name: one_digest(np.asarray(x)) for name, x in flat(trace).items()}


def one_digest(x: np.ndarray) -> str:
    return f"{x.dtype} {list(x.shape)} {hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("trace_*.npz")), ids=lambda path: path.stem)
def test_traces_are_the_references(path: Path) -> None:
    golden = dict(np.load(path))
    header = json.loads(str(golden.pop("header")))
    given = {name: golden[f"input/{name}"] for name in ("A", "s", "key") if f"input/{name}" in golden}
    ours = flat(mg.algorithm(header["algorithm"]).trace(**given))
    assert list(ours) == list(golden)
    assert {k: (x.dtype, x.shape) for k, x in ours.items()} == {k: (x.dtype, x.shape) for k, x in golden.items()}
    different = {name: int(np.sum(ours[name] != golden[name])) for name in golden}
    assert different == dict.fromkeys(golden, 0)


def scenarios(name: str) -> Iterator[tuple[str, Trace]]:
    """The scenarios of make_golden.py, in our words."""
    algorithm, seed = mg.algorithm(name), HEADER["seed"]
    draws_graphs = "A" in algorithm.spec.names(Stage.INPUT)
    for part in ("train", "val", "test"):
        yield part, algorithm.split(part)
    endless = algorithm.benchmark_sampler(seed, 16, -1, p=TRAIN_P if draws_graphs else None)
    yield "endless, first", endless.next(32)
    yield "endless, second", endless.next(32)
    p = 0.3 if draws_graphs else None
    yield "untracked", algorithm.benchmark_sampler(seed, 16, -1, p=p, track_max_steps=False).next(32)
    prepared = algorithm.benchmark_sampler(seed, 16, 32)
    yield "prepared, 16", prepared.next(16)
    yield "prepared, 5", prepared.next(5)
    yield from processed(name, TRAIN_P if draws_graphs else None)


def processed(name: str, p: tuple[float, ...] | None) -> Iterator[tuple[str, Trace]]:
    """Two samplers that share the run's generator, so the order of the calls matters."""
    run_rng = np.random.RandomState(HEADER["run_seed"])
    options = {"p": p, "random_pos": run_rng, "pred_as_input": True, "permutations": True}
    small, large = (mg.algorithm(name).benchmark_sampler(HEADER["seed"] + n, n, 32, **options) for n in (16, 64))
    yield "processed 16, first", small.next(16)
    yield "processed 64", large.next(16)
    yield "processed 16, second", small.next(16)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_samplers_draw_what_the_references_draw(name: str) -> None:
    ours = {scenario: digest(trace) for scenario, trace in scenarios(name)}
    assert list(ours) == list(DIGESTS[name])
    for scenario, golden in DIGESTS[name].items():
        assert ours[scenario] == golden, scenario
        assert list(ours[scenario]) == list(golden), f"{scenario}: the order of the variables"


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
    for file in ("cases.py", "make_golden.py", "reference.py"):
        digest.update((ORACLE / file).read_bytes())
    headers = [json.loads(str(np.load(path)["header"])) for path in sorted(GOLDEN.glob("trace_*.npz"))]
    sources = {header["sources_sha256"] for header in [HEADER, *headers]}
    assert sources == {digest.hexdigest()}, "run `make golden` after a change in tests/oracle"


def test_the_golden_files_cover_every_algorithm_and_size() -> None:
    present = {path.stem for path in GOLDEN.glob("trace_*.npz")}
    assert present == {f"trace_{name}_{n}" for name in ALGORITHMS for n in (1, 2, 4, 5, 11, 16, 64)}
