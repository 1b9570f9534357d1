"""Specs and traces: the vocabulary, the checks, and a file that loses nothing."""

import dataclasses
import os
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mechgap as mg
from mechgap.trace import Kind, Location, Spec, Stage, Trace, Variable, make_trace

NODE_MASK = Variable("m", Stage.HINT, Location.NODE, Kind.MASK)
POSITION = Variable("pos", Stage.INPUT, Location.NODE, Kind.SCALAR)
RESULT = Variable("out", Stage.OUTPUT, Location.NODE, Kind.POINTER)
TINY = Spec((POSITION, NODE_MASK, RESULT))


def tiny(**changes: np.ndarray) -> Trace:
    values = {"pos": np.zeros((2, 3)), "m": np.zeros((5, 2, 3)), "out": np.zeros((2, 3), int), "lengths": np.ones(2)}
    values |= changes
    attention = values.get("attention")
    return make_trace(
        TINY, {"pos": values["pos"]}, {"m": values["m"]}, {"out": values["out"]}, values["lengths"], attention
    )


QUICK = ("bfs", "bridges", "heapsort", "lcs_length", "graham_scan")  # all locations and kinds among them


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in mg.algorithm_names()]
)
def test_a_saved_trace_loads_without_loss(name: str, tmp_path: Path) -> None:
    trace = mg.algorithm(name).benchmark_sampler(5, 4, 3).next()
    trace.save(tmp_path / "trace.safetensors")
    loaded = Trace.load(tmp_path / "trace.safetensors")
    assert loaded.spec == trace.spec
    assert eqx.tree_equal(loaded, trace, typematch=False)
    for mine, theirs in zip(jax.tree.leaves(trace), jax.tree.leaves(loaded), strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.tobytes() == theirs.tobytes()


def test_a_transposed_array_and_attention_survive_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    transposed = rng.normal(size=(3, 2, 5)).T
    trace = tiny(m=transposed, attention=rng.normal(size=(4, 1, 2, 1, 3, 3)).astype(np.float32))
    trace.save(tmp_path / "t")
    loaded = Trace.load(tmp_path / "t")
    np.testing.assert_array_equal(loaded.hints["m"], transposed)
    np.testing.assert_array_equal(loaded.attention, trace.attention)


def test_equal_traces_give_equal_bytes_and_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    tiny().save(tmp_path / "a")
    tiny().save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    bad = eqx.tree_at(lambda t: t.lengths, tiny(), np.array([object(), object()]))
    with pytest.raises(ValueError, match="Only arrays of numbers can be saved; 'lengths'"):
        bad.save(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: f.write_bytes(b"short"), "may be truncated"),
        (lambda f: (tiny().save(f), f.write_bytes(f.read_bytes()[:-8])), "may be truncated"),
        (lambda f: __import__("safetensors.numpy").numpy.save_file({"x": np.ones(2)}, f), "not a mechgap.trace/1 file"),
        (lambda f: None, "No file"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(make, message: str, tmp_path: Path) -> None:
    make(tmp_path / "f")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        Trace.load(tmp_path / "f")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"m": np.zeros((5, 2, 4))}, r"'m' \(node mask\) must have shape \(5, 2, 3\); got \(5, 2, 4\)"),
        ({"out": np.zeros((3, 3))}, r"'out' .* must have shape \(2, 3\); got \(3, 3\)"),
        ({"lengths": np.ones((2, 1))}, r"lengths must have shape \[B\]; got \(2, 1\)"),
        ({"attention": np.zeros((4, 2, 1, 3, 3))}, r"attention must have shape \[T-1, k, B, heads, 3, 3\]"),
    ],
)
def test_a_trace_of_the_wrong_shape_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiny(**changes)


def test_names_must_match_the_spec() -> None:
    with pytest.raises(ValueError, match=r"hints must be \['m'\]; missing \['m'\], unexpected \['n'\]"):
        make_trace(TINY, {"pos": np.zeros((1, 2))}, {"n": np.zeros(1)}, {"out": np.zeros((1, 2))}, np.ones(1))


def test_specs_are_values() -> None:
    assert Spec((POSITION, NODE_MASK, RESULT)) == TINY
    assert hash(TINY) == hash(Spec((POSITION, NODE_MASK, RESULT)))
    assert "m: hint node mask" in str(TINY)
    with pytest.raises(dataclasses.FrozenInstanceError):
        TINY.variables = ()
    with pytest.raises(KeyError, match="No variable 'nope'; this spec has pos, m, out"):
        TINY["nope"]
    with pytest.raises(ValueError, match="more than once: m"):
        Spec((NODE_MASK, NODE_MASK))
    with pytest.raises(ValueError, match="must be a Python identifier; got 'a b'"):
        dataclasses.replace(NODE_MASK, name="a b")
    with pytest.raises(ValueError, match="give `classes` for categorical"):
        dataclasses.replace(NODE_MASK, kind=Kind.CATEGORICAL)


def test_a_trace_is_a_pytree_that_vmap_can_rebuild() -> None:
    doubled = jax.vmap(lambda t: jax.tree.map(lambda x: 2 * x, t))(
        jax.tree.map(lambda x: jnp.ones((7, *x.shape)), tiny())
    )
    assert doubled.hints["m"].shape == (7, 5, 2, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        tiny().lengths = np.ones(2)


def test_padding_adds_only_zero_frames_and_differences_ignores_it() -> None:
    trace = mg.algorithm("bfs").benchmark_sampler(5, 4, 3).next()
    longer = trace.pad(trace.steps + 4)
    assert longer.steps == trace.steps + 4
    assert not np.any(longer.hints["reach_h"][trace.steps :])
    assert trace.differences(longer) == {}
    with pytest.raises(ValueError, match="Cannot pad to 1 frames"):
        trace.pad(1)


def test_differences_counts_by_variable() -> None:
    trace = mg.algorithm("bfs").benchmark_sampler(5, 4, 3).next()
    other = eqx.tree_at(lambda t: t.outputs["pi"], trace, (trace.outputs["pi"] + 1) % 4)
    assert trace.differences(other) == {"output/pi": 12}
    assert trace.take([0]).batch == 1
