"""Training: the same result however it is cut into members, devices and processes; refusals before the first step."""

import json
import shutil
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mechgap as mg
from mechgap.algorithms import algorithm
from mechgap.algorithms.processing import as_permutations, closed_chain
from mechgap.networks import ClrsNet
from mechgap.trace import Kind, Stage
from mechgap.training import (
    Ensemble,
    TrainConfig,
    fit,
    load_networks,
    load_result,
    programs,
    save_excerpt,
    save_networks,
    train,
)
from mechgap.training.checkpoint import save_checkpoint
from mechgap.training.config import parse_assignments, run_name
from mechgap.training.data import as_batch, as_seen, draw, frames_for, source_of
from mechgap.training.ensemble import State, initial_state, plan_of, step
from mechgap.training.members import make_members
from mechgap.training.scores import count, scores
from mechgap.training.weights import named

QUICKLY = {"xla_backend_optimization_level": 0}
TINY = TrainConfig(
    algorithm="bfs",
    seeds=2,
    steps=12,
    eval_every=4,
    batch=4,
    sizes=(4, 5),
    validation_samples=8,
    length_generalize=False,
    hidden=8,
    learning_rate=1e-2,
)


@pytest.fixture(scope="module", autouse=True)
def compile_quickly() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "COMPILER_OPTIONS", QUICKLY)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def ensemble(folder: Path) -> Ensemble:
    """Two seeds at a sound learning rate and two at one that breaks them, as one ensemble."""
    return fit([TINY, replace(TINY, learning_rate=1e30)], folder=folder)


def same(a: Any, b: Any) -> bool:
    return all(jax.tree.leaves(jax.tree.map(lambda x, y: np.array_equal(x, y, equal_nan=True), a, b)))


def test_a_run_is_written_read_and_not_repeated(ensemble: Ensemble, folder: Path) -> None:
    place = folder / run_name(ensemble.configs, None)
    assert {p.name for p in place.iterdir()} == {
        *("config.json", "manifest.json", "metrics.json"),
        *("history.safetensors", "best.safetensors", "last.safetensors"),
    }
    written = (place / "metrics.json").stat().st_mtime_ns
    again = fit(ensemble.configs, folder=folder)
    assert (place / "metrics.json").stat().st_mtime_ns == written
    assert again.configs == ensemble.configs
    assert same((again.networks, again.last), (ensemble.networks, ensemble.last))
    assert same(again.metrics, ensemble.metrics)
    assert same(again.history, ensemble.history)
    assert load_result(place).manifest == ensemble.manifest
    assert ensemble.manifest["frames"] == {"4": 4, "5": 5}


def test_a_diverged_member_is_marked_and_left_alone(ensemble: Ensemble, folder: Path) -> None:
    assert ensemble.metrics["diverged"].tolist() == [False, False, True, True]
    assert ensemble.metrics["seed"].tolist() == [0, 1, 0, 1]
    assert ensemble.metrics["setting"].tolist() == [0, 0, 1, 1]
    assert ensemble.summary()["n"] == 2
    assert np.isfinite(ensemble.summary()["mean"])
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(ensemble.last))
    assert ensemble.history["loss"].shape == (3, 4)
    assert ensemble.history["step"].tolist() == [4, 8, 12]
    assert np.isnan(ensemble.metrics["loss"]).tolist() == [False, False, True, True]
    text = (folder / run_name(ensemble.configs, None) / "metrics.json").read_text()
    rows = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert [row["loss"] is None for row in rows] == [False, False, True, True]


def test_the_others_train_on_as_if_nothing_had_happened(ensemble: Ensemble) -> None:
    sound = fit([TINY, replace(TINY, learning_rate=1e-3)])
    assert not sound.metrics["diverged"].any()
    for name, x in named(sound.last).items():
        assert np.array_equal(x[:2], named(ensemble.last)[name][:2]), name
    assert np.array_equal(sound.history["loss"][:, :2], ensemble.history["loss"][:, :2])


def test_an_ensemble_runs_and_says_what_it_is(ensemble: Ensemble) -> None:
    inputs = {name: np.asarray(x) for name, x in algorithm("bfs").sample(jax.random.key(0), 5, 3).items()}
    traces = ensemble.run(A=inputs["A"], s=inputs["s"])
    truth = algorithm("bfs").trace(A=inputs["A"], s=inputs["s"])
    assert len(traces) == len(ensemble) == 4
    assert traces[0].outputs["pi"].shape == (3, 5)
    assert np.array_equal(traces[0].lengths, truth.lengths)
    assert traces[0].attention.shape == (truth.steps - 1, 1, 3, 1, 5, 5)
    assert "4 bfs networks" in repr(ensemble)
    assert "2 diverged" in repr(ensemble)
    with pytest.raises(IndexError, match="There are 4 members, 0 to 3; got 4"):
        ensemble.member(4)


def test_an_excerpt_keeps_three_members(ensemble: Ensemble, tmp_path: Path) -> None:
    save_excerpt(tmp_path / "small", ensemble)
    networks, about = load_networks(tmp_path / "small" / "excerpt.safetensors")
    assert networks.processor.skip.weight.shape[0] == len(about["members"]) <= 3
    assert len(json.loads((tmp_path / "small" / "metrics.json").read_text())) == 4


@pytest.fixture(scope="module")
def stepped() -> tuple:
    """One step's program for three members at once and for one alone, and the states before."""
    config = replace(TINY, seeds=3, sizes=(4,))
    plan = replace(plan_of(config), at_once=None)

    # In float64: Adam scales a gradient that is 0 but for rounding up to a full step, unless it is far below its ε.
    def program(config: TrainConfig) -> tuple:
        members = make_members([config])
        state = jax.jit(lambda: initial_state(plan, members, None), compiler_options=QUICKLY)()
        jitted = jax.jit(partial(step, plan, 4, 4))
        return jitted.lower(state, members).compile(QUICKLY), state, members

    with jax.enable_x64(True):
        return program(config), program(replace(config, seeds=1, first_seed=1))


@pytest.mark.slow
def test_seed_k_in_an_ensemble_is_seed_k_alone(stepped: tuple) -> None:
    (together, states, members), (alone, state, member) = stepped
    for _ in range(20):
        states, losses = together(states, members)
        state, loss = alone(state, member)
        np.testing.assert_allclose(losses.loss[1], loss.loss[0], rtol=1e-9)
    for name, x in named(state.network).items():
        np.testing.assert_allclose(named(states.network)[name][1], x[0], rtol=1e-6, atol=1e-6, err_msg=name)
    assert not np.allclose(losses.loss[0], losses.loss[1]), "different seeds see different data"


@pytest.mark.slow
def test_a_step_learns(stepped: tuple) -> None:
    (together, state, members), _ = stepped
    seen = []
    for _ in range(60):
        state, metrics = together(state, members)
        seen.append(metrics.loss)
    assert np.all(np.mean(seen[-10:], axis=0) < 0.8 * np.mean(seen[:10], axis=0))


@pytest.mark.parametrize("name", ["bfs", "insertion_sort", "minimum"])
def test_device_data_is_the_algorithms(name: str) -> None:
    """What is drawn on the device is what the host makes of the same inputs, processed as the reference does."""
    config = replace(TINY, algorithm=name)
    source = source_of(config)
    seeds, steps = jnp.arange(2, dtype=jnp.uint32), jnp.zeros(2, jnp.int32)
    frames = frames_for(source, 5)
    batch = jax.jit(lambda: draw(source, 5, frames, 3, seeds, steps), compiler_options=QUICKLY)()
    for member in range(2):
        inputs = {k: np.asarray(x[member], float) for k, x in batch.inputs.items() if k not in ("pred", "adj")}
        truth = as_batch(as_seen(algorithm(name).trace(**inputs), config))
        assert np.array_equal(batch.lengths[member], truth.lengths)
        assert set(batch.outputs) == set(source.spec.names(Stage.OUTPUT))
        for part in ("inputs", "outputs"):
            for key, x in getattr(truth, part).items():
                np.testing.assert_allclose(getattr(batch, part)[key][member], x, rtol=1e-6, err_msg=key)
        for key, x in truth.hints.items():
            np.testing.assert_allclose(batch.hints[key][member][: len(x)], x, rtol=1e-6, err_msg=key)
    kinds = {v.kind for v in source.spec.at(Stage.OUTPUT)}
    assert (Kind.PERMUTATION_POINTER in kinds) == (name == "insertion_sort")
    assert ("pred" in batch.inputs) == (name == "minimum")


def test_a_shared_stream_gives_all_members_the_same_data() -> None:
    config = replace(TINY, shared_data_stream=True)
    seeds, steps = jnp.arange(3, dtype=jnp.uint32), jnp.full(3, 7, jnp.int32)
    source = source_of(config)
    batch = jax.jit(lambda: draw(source, 4, 4, 2, seeds, steps), compiler_options=QUICKLY)()
    assert all(np.array_equal(x[0], x[2]) for x in jax.tree.leaves(batch))
    assert batch.hints["pi_h"].shape == (3, 4, 2, 4)


def test_weights_of_losses_follow_their_schedules() -> None:
    first = TINY.with_settings({"seeds": 1, "output_weight": [[0, 0], [10, 1.0]]})
    members = make_members([first, replace(TINY, seeds=1, output_weight=0.5)])
    weights = [jax.tree.map(lambda x, i=i: x[i], members.output_weight) for i in range(2)]
    assert [float(weights[0].at(jnp.int32(t))) for t in (0, 9, 10, 99)] == [0, 0, 1, 1]
    assert [float(weights[1].at(jnp.int32(t))) for t in (0, 10_000)] == [0.5, 0.5]
    assert members.dropout is None
    assert members.l1 is None
    with pytest.raises(ValueError, match="differ in numbers only"):
        make_members([TINY, replace(TINY, hidden=4)])


def test_scores_are_the_references_and_add_up() -> None:
    header = {
        "pi": ("node", "pointer"),
        "mark": ("node", "mask"),
        "first": ("node", "mask_one"),
        "d": ("node", "scalar"),
    }
    from mechgap.trace import Location, Spec, Variable

    spec = Spec(tuple(Variable(k, Stage.OUTPUT, Location(a), Kind(b)) for k, (a, b) in header.items()))
    truth = {
        "pi": np.array([[0, 1, 2], [1, 1, 0]]),
        "mark": np.array([[1.0, 0, -1], [1, 1, 0]]),
        "first": np.array([[0.0, 1, 0], [-1, -1, -1]]),
        "d": np.array([[1.0, 2, 3], [0, 0, 0]]),
    }
    predicted = {
        "pi": np.array([[0, 1, 1], [1, 0, 0]]),
        "mark": np.array([[1.0, 1, 1], [1, 0, 0]]),
        "first": np.array([[0.0, 1, 0], [1, 0, 0]]),
        "d": np.array([[1.0, 2, 5], [0, 1, 0]]),
    }
    whole = count(spec, predicted, truth)
    parts = [count(spec, *({k: x[i : i + 1] for k, x in v.items()} for v in (predicted, truth))) for i in range(2)]
    assert same(jax.tree.map(jnp.add, *parts), whole)
    result = scores(spec, whole)
    # mark: two found, one wrongly found, one missed, one not asked
    expected = {"pi": 4 / 6, "mark": 2 / 3, "first": 1.0, "d": 5 / 6}
    assert {k: pytest.approx(v) for k, v in expected.items()} == {k: result[k] for k in expected}
    assert result["score"] == pytest.approx(np.mean(list(expected.values())))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_chain_is_closed_alike_on_the_host_and_on_the_device(n: int) -> None:
    order = np.array([np.random.RandomState(seed).permutation(n) for seed in range(4)])
    pred = np.empty_like(order)
    for row, nodes in zip(pred, order, strict=True):
        row[nodes] = nodes[[0, *range(n - 1)]]  # each points to the one before it, the first to itself
    cycle, first = closed_chain(pred)
    for b, nodes in enumerate(order):
        assert np.array_equal(np.argmax(cycle[b], axis=-1)[nodes], np.roll(nodes, 1))
        assert np.flatnonzero(first[b]).tolist() == [nodes[0]]
    assert np.array_equal(cycle.sum(-1), np.ones_like(pred))
    assert np.array_equal(cycle.sum(-2), np.ones_like(pred))
    for ours, theirs in zip(jax.jit(lambda x: closed_chain(x, jnp))(pred), (cycle, first), strict=True):
        assert ours.dtype == theirs.dtype == np.float32
        assert np.array_equal(ours, theirs)


def test_permutations_are_scored_as_pointers() -> None:
    trace = as_permutations(algorithm("insertion_sort").trace(key=np.array([[0.3, 0.1, 0.2], [0.1, 0.2, 0.3]])))
    wrong = {"pred": trace.outputs["pred"][::-1], "pred_mask": trace.outputs["pred_mask"][::-1]}
    assert scores(trace.spec, count(trace.spec, trace.outputs, trace.outputs))["score"] == 1
    pointers = algorithm("insertion_sort").trace(key=np.array([[0.3, 0.1, 0.2], [0.1, 0.2, 0.3]])).outputs["pred"]
    expected = np.mean(pointers == pointers[::-1])
    assert scores(trace.spec, count(trace.spec, wrong, trace.outputs))["pred"] == pytest.approx(expected)


BAD = [
    ({"hiden": 4}, r"No setting 'hiden'. Did you mean 'hidden'"),
    ({"hidden_size": 4}, r"the reference's 'hidden_size' is 'hidden' here"),
    ({"algorithm": "bsf"}, r"No algorithm 'bsf'. Did you mean 'bfs'"),
    ({"steps": 0}, r"steps must be a whole number, 1 or more; got 0"),
    ({"seeds": 2.5}, r"seeds must be a whole number, 1 or more; got 2.5"),
    ({"seeds": True}, r"seeds must be a whole number"),
    ({"first_seed": -1}, r"first_seed must be a whole number from 0 on"),
    ({"sizes": []}, r"sizes must be a list of numbers of nodes, each 2 or more; got \(\)"),
    ({"sizes": [4, 1]}, r"sizes must be a list"),
    ({"p": [0.5, 1.5]}, r"p must be a list of probabilities"),
    ({"algorithm": "minimum", "p": [0.5]}, r"'minimum' draws no graph"),
    ({"learning_rate": -1e-4}, r"learning_rate must be a number above 0, e.g. 1e-4; got -0.0001"),
    ({"learning_rate": float("nan")}, r"learning_rate must be a number above 0"),
    ({"grad_clip": -1}, r"grad_clip must be a number of at least 0; 0 turns clipping off"),
    ({"dropout": 1}, r"dropout must be a probability below 1"),
    ({"teacher_forcing": 2}, r"teacher_forcing must be a probability; got 2.0"),
    ({"regularisation": "L3"}, r"regularisation must be one of none, L1, L2; got 'L3'"),
    ({"output_weight": [[1, 1.0]]}, r"output_weight must be a weight of at least 0, or \[\[0, weight\]"),
    ({"hint_mode": "soft"}, r"hint_mode must be one of 'encoded_decoded'"),
    ({"hidden": 6, "heads": 4}, r"heads must divide hidden; got heads = 4, hidden = 6. Set heads to one of 1, 2, 3, 6"),
    ({"pre_attention_bias": True}, r"pre_attention_bias ties a network to one size of graph"),
    ({"random_pos": 1}, r"random_pos must be true or false; got 1"),
    ({"steps": 0, "batch": 0}, r"steps must be .*\n  batch must be"),
]


@pytest.mark.parametrize(("settings", "message"), BAD, ids=lambda x: "-".join(x) if isinstance(x, dict) else "")
def test_bad_settings_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainConfig.from_settings(settings)


def test_settings_go_through_toml_json_and_the_command_line() -> None:
    config = TrainConfig.from_toml(
        'algorithm = "dfs"\nsizes = [4, 5]\nlearning_rate = 1\nhint_weight = [[0, 1], [9, 2]]'
    )
    assert config.sizes == (4, 5)
    assert config.learning_rate == 1.0
    assert TrainConfig.from_settings(json.loads(json.dumps(config.as_json()))) == config
    assert TINY.with_settings(parse_assignments(["hidden=4", "hint_mode=none", "sizes=[7, 11]"])) == replace(
        TINY, hidden=4, hint_mode="none", sizes=(7, 11)
    )
    with pytest.raises(ValueError, match="written name=value"):
        parse_assignments(["hidden"])
    with pytest.raises(ValueError, match="Cannot read these settings as TOML"):
        TrainConfig.from_toml("hidden = ")


def test_a_run_is_named_by_what_defines_it() -> None:
    assert run_name([TINY], None) == run_name([replace(TINY)], None)
    assert len({run_name([TINY], None), run_name([replace(TINY, steps=13)], None), run_name([TINY], "abc")}) == 3
    for whole, real in ((1, 1.0), ([[0, 0], [9, 1]], ((0, 0.0), (9, 1.0)))):
        one, other = (run_name([TINY.with_settings({"hint_weight": weight})], None) for weight in (whole, real))
        assert one == other


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"Cannot write into .*Give another folder"):
        fit([TINY], folder=tmp_path / "file")


def test_a_disk_without_space_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 9, 1))
    with pytest.raises(OSError, match=r"Not enough space in .*MiB are free. Free some"):
        fit([TINY], folder=tmp_path)


def state_of(config: TrainConfig) -> State:
    plan, members = plan_of(config), make_members([config])
    shapes = jax.eval_shape(lambda: initial_state(plan, members, None))
    return jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)


def test_a_checkpoint_that_does_not_fit_is_refused_and_kept(tmp_path: Path) -> None:
    place = tmp_path / run_name([TINY], None)
    place.mkdir()
    save_checkpoint(place, state_of(replace(TINY, hidden=16)), {"step": [np.int64(4)]})
    path = place / "checkpoint.safetensors"
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"does not fit:\n .*must be float32\[2, 1, 8\]; got float32\[2, 1, 16\]"):
        fit([TINY], folder=tmp_path)
    path.write_bytes(before[: len(before) // 2])
    with pytest.raises(ValueError, match="it may be truncated"):
        fit([TINY], folder=tmp_path)
    assert path.read_bytes() == before[: len(before) // 2], "nothing is overwritten"


def network(**changes: Any) -> ClrsNet:
    config = replace(TINY, **changes)
    plan = plan_of(config)
    return jax.jit(
        lambda: ClrsNet.init(plan.source.spec, plan.architecture, key=jax.random.key(0)), compiler_options=QUICKLY
    )()


def test_weights_to_start_from_must_fit(tmp_path: Path) -> None:
    start = network()
    save_networks(tmp_path / "start.safetensors", start)
    assert same(load_networks(tmp_path / "start.safetensors")[0], start)
    with pytest.raises(ValueError, match=r"another architecture .* set hidden = 8"):
        fit([replace(TINY, hidden=16)], init_from=start)
    with pytest.raises(ValueError, match=r"made for other variables .*reach_h"):
        fit([replace(TINY, algorithm="dfs")], init_from=start)
    with pytest.raises(TypeError, match="must be a file, a network or a compiled program; got int"):
        train("bfs", init_from=3)
    with pytest.raises(FileNotFoundError, match=r"No file .*nothing"):
        train("bfs", init_from=str(tmp_path / "nothing"))


def test_all_members_start_from_the_given_weights(ensemble: Ensemble, tmp_path: Path) -> None:
    start = network()
    settings = {**TINY.as_json(), "seeds": len(ensemble), "steps": 4, "learning_rate": 1e-30}
    for name in ("algorithm", "init_from", "hidden"):
        del settings[name]
    trained = train("bfs", init_from=start, folder=tmp_path, **settings)
    assert trained.configs[0].hidden == 8, "the architecture is taken over"
    for name, x in named(start).items():
        np.testing.assert_allclose(named(trained.last)[name], np.stack([x] * 4), atol=1e-20, err_msg=name)
    (place,) = tmp_path.iterdir()
    assert json.loads((place / "config.json").read_text())["weights"], "the weights are part of the run's name"


@pytest.mark.slow
def test_training_starts_from_a_compiled_program() -> None:
    compiled = mg.compile("bfs", hidden=8, max_nodes=8, hint_mode="none", certify="none")
    taken_over = ("hidden", "use_layer_norm", "hint_mode")
    settings = {k: v for k, v in TINY.as_json().items() if k not in ("algorithm", "init_from", *taken_over)}
    settings |= {"sizes": [4], "steps": 2}
    # 1e-60 is 0 in float32, so that nothing moves, not even a 0.
    still = train("bfs", init_from=compiled, **settings | {"learning_rate": 1e-60})
    for kind in (still.networks, still.last):
        for name, x in named(compiled.network).items():
            assert np.array_equal(named(kind)[name], np.stack([x] * 2)), name
    assert still.metrics["test_last"].tolist() == [1, 1], "it has nothing to learn"
    moved = train("bfs", init_from=compiled, **settings)
    assert not np.array_equal(*(named(x.last)["processor.value.weight"] for x in (still, moved)))


def test_weights_are_read_in_the_precision_they_were_written_in(tmp_path: Path) -> None:
    with jax.enable_x64(True):
        precise = network(hidden=4)
    rounded = jax.tree.map(lambda x: np.asarray(x, np.float32), precise)
    assert not same(precise, rounded), "float32 cannot hold these"
    for kind, written in (("float64", precise), ("float32", rounded)):
        save_networks(tmp_path / kind, written)
        for x64 in (False, True):
            with jax.enable_x64(x64):
                read, _ = load_networks(tmp_path / kind)
            assert {str(x.dtype) for x in jax.tree.leaves(read)} == {kind}
            assert same(read, written)
    message = r"init_from has float64 weights, and networks are trained in float32 here.*Compile with dtype='float32'"
    for given in (tmp_path / "float64", precise):
        with pytest.raises(ValueError, match=message):
            fit([replace(TINY, hidden=4)], init_from=given)
