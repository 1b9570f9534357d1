"""One network trained on several algorithms, at sizes that take seconds."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from jaxtyping import PRNGKeyArray
from typer.testing import CliRunner

from mechgap.algorithms import benchmark_names
from mechgap.cli import app
from mechgap.networks import NetConfig, Prediction, postprocess
from mechgap.networks.slots import SharedNet
from mechgap.report.ensembles import train_together_and_print
from mechgap.trace import Kind, Stage
from mechgap.training import many
from mechgap.training.data import Batch, Source, run_once, samples_of
from mechgap.training.loss import losses
from mechgap.training.many import Recipe, Trained
from mechgap.training.multi_task import MultiTask, MultiTaskConfig, load_multi_task, loop, train_together
from mechgap.training.multi_task import pool as pool_module
from mechgap.training.multi_task.loop import draw, loss_of, predict, recipe_of
from mechgap.training.multi_task.pool import Pool, Samples, slots_of, sources_of, training_pool, validation_pool
from mechgap.training.scores import count, scores
from own_networks import own_network
from test_slots import random_network

SETTINGS = {
    "sizes": [4, 5],
    "steps": 200,
    "batch": 2,
    "algorithms_per_step": 2,
    "pool": 4,
    "validation": 4,
    "hidden": 8,
    "learning_rate": 0.003,
}
TWO, FOUR = "bfs,segments_intersect", "bfs,insertion_sort,optimal_bst,segments_intersect"
WITHOUT_HINTS = {"hint_mode": "none", "frames": 4}  # compiled in a fraction of the time


@pytest.fixture(scope="module", autouse=True)
def draw_once() -> Iterator[None]:
    """Equal draws are made once: each is a program of its own, most of whose time goes into compiling it."""
    drawn: dict[tuple, Batch] = {}

    def draw(source: Source, key: PRNGKeyArray, n: int, count: int) -> Batch:
        wanted = (source, *jax.random.key_data(key).tolist(), n, count)
        if wanted not in drawn:
            drawn[wanted] = make(source, key, n, count)
        return drawn[wanted]

    make = pool_module._draw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_module, "_draw", draw)
        yield


def config_of(algorithms: str, **changes: Any) -> MultiTaskConfig:
    return MultiTaskConfig.from_settings({**SETTINGS, "algorithms": algorithms, **changes})


@cache
def pool_of(config: MultiTaskConfig) -> Pool:
    sources = sources_of(config)
    return training_pool(config, slots_of(sources), sources, quiet=True)


@cache
def held_out_of(config: MultiTaskConfig) -> Pool:
    sources = sources_of(config)
    return validation_pool(config, slots_of(sources), sources, quiet=True)


def smallest(pool: Pool, number: int) -> Samples:
    """An algorithm's training samples of the smallest size, which is padded."""
    return pool.at(number, jnp.arange(SETTINGS["pool"]))


@cache
def untrained_of(config: MultiTaskConfig) -> SharedNet:
    slots, seed = slots_of(sources_of(config)), config.first_seed
    return eqx.filter_jit(lambda key: SharedNet.init(slots, config.network, key=key))(jax.random.key(seed))


@cache
def loss_with(frames: int) -> Callable[..., jax.Array]:
    """The loss of one algorithm's samples, as `jitted(network, number, samples)`; compiled once."""

    def loss(net: SharedNet, number: jax.Array, samples: Samples) -> jax.Array:
        one = jax.tree.map(lambda x: x[None], samples)
        return loss_of(net, (number[None], one, None), frames=frames, hint_weight=2.0)

    return eqx.filter_jit(loss)


@cache
def run_own(frames: int) -> Callable[..., Prediction]:
    """Networks of single algorithms, as `jitted(network, inputs, hints, lengths)`."""

    def run(net: Any, inputs: dict, hints: dict, lengths: jax.Array) -> Prediction:
        return jax.vmap(lambda i, h, n: net(i, h, n, steps=frames, record=False))(inputs, hints, lengths)

    return eqx.filter_jit(run)


@contextmanager
def compilations() -> Iterator[list[str]]:
    """The names of the functions that are compiled meanwhile, one for every time."""
    names: list[str] = []

    def listen(event: str, _: float, **what: str) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(what["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


@contextmanager
def kept_programs(folder: Path) -> Iterator[None]:
    """What is compiled meanwhile is kept in a folder, and read from there where it was compiled before."""

    def choose(settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            jax.config.update(name, value)
        reset_cache()  # it remembers whether there was a folder

    chosen = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in chosen}
    choose(chosen)
    try:
        yield
    finally:
        choose(before)


def without_padding(net: SharedNet, name: str, samples: Samples) -> Batch:
    """An algorithm's own variables, on graphs of their own size."""
    names, spec, n = net.slots.names[name], dict(net.slots.specs)[name], int(samples.sizes[0])

    def cut(stage: Stage, values: dict) -> dict:
        leading = 2 if stage == Stage.HINT else 1
        shapes = {v.name: v.shape(n) for v in spec.at(stage)} if values else {}
        return {k: values[names[k]][(slice(None),) * leading + tuple(map(slice, shape))] for k, shape in shapes.items()}

    batch = samples.as_batch()
    stages = ((Stage.INPUT, batch.inputs), (Stage.HINT, batch.hints), (Stage.OUTPUT, batch.outputs))
    return Batch(*(cut(stage, values) for stage, values in stages), samples.lengths)


def alone(net: SharedNet, name: str, batch: Batch, frames: int) -> Prediction:
    """What an algorithm's own network says of its own samples."""
    by_sample = {k: jnp.moveaxis(x, 1, 0) for k, x in batch.hints.items()}
    lengths = batch.lengths if batch.hints else jnp.full_like(batch.lengths, frames)
    return run_own(frames)(own_network(net, name), batch.inputs, by_sample, lengths)


@pytest.fixture(scope="module")
def config() -> MultiTaskConfig:
    return config_of(TWO, **WITHOUT_HINTS)


class Run(NamedTuple):
    """A finished training, what it printed and compiled, and its folder as it was when some of the steps were done.

    Its programs are kept: whoever trains alike need not compile them again.
    """

    result: MultiTask
    printed: str
    compiled: list[str]
    folder: Path
    halfway: Path
    programs: Path


@pytest.fixture(scope="module")
def run(config: MultiTaskConfig, tmp_path_factory: pytest.TempPathFactory) -> Run:
    parent, save = tmp_path_factory.mktemp("together"), many._save
    folder, halfway, programs = parent / "whole", parent / "halfway", parent / "programs"

    def save_and_copy(*arguments: Any) -> None:
        save(*arguments)
        if not halfway.exists():
            shutil.copytree(folder, halfway)

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(many, "CHECKPOINT_SECONDS", 0.0)
        patch.setattr(many, "_save", save_and_copy)
        with kept_programs(programs), compilations() as compiled:
            result = train_together_and_print(TWO, folder, {**SETTINGS, **WITHOUT_HINTS})
    return Run(result, printed.getvalue(), compiled, folder, halfway, programs)


def test_all_means_the_benchmark() -> None:
    assert len(MultiTaskConfig().algorithms) == 30


def test_algorithms_are_written_as_on_the_command_line() -> None:
    assert config_of("bfs, dfs").algorithms == config_of(["bfs", "dfs"]).algorithms == ("bfs", "dfs")
    assert config_of("bfs", algorithms_per_step=1, sizes=16, p=0.5) == config_of(
        ("bfs",), algorithms_per_step=1, sizes=[16], p=(0.5,)
    )


def test_every_algorithm_has_a_score(run: Run, config: MultiTaskConfig) -> None:
    assert tuple(run.result.scores) == config.algorithms
    assert all(scores.shape == (1,) and 0 <= scores[0] <= 1 for scores in run.result.scores.values())
    for name, score in run.result.scores.items():
        assert [name, "1", "0", f"{score[0]:.4f} ± 0.0000 ({score[0]:.4f})"] in [
            [cell.strip() for cell in line.strip("│").split("│")] for line in run.printed.splitlines()
        ]


def test_what_was_written_is_read_back(run: Run, config: MultiTaskConfig) -> None:
    place = run.folder / config.name()
    again = load_multi_task(place)
    assert again.config == config
    assert jax.tree.all(jax.tree.map(np.array_equal, again.networks, run.result.networks))
    assert json.dumps(again.manifest) == json.dumps(run.result.manifest)
    assert sorted(path.name for path in place.iterdir()) == ["manifest.json", "network.safetensors", "scores.json"]


def test_the_command_reads_a_finished_run(run: Run, config: MultiTaskConfig) -> None:
    given = {**SETTINGS, **WITHOUT_HINTS}
    words = [word for name, value in given.items() if name != "steps" for word in ("--set", f"{name}={value}")]
    command = ["train", "--algorithms", TWO, "--steps", "200", *words, "--folder", str(run.folder)]
    said = CliRunner().invoke(app, command, catch_exceptions=False)
    assert said.output == run.printed
    assert [path.name for path in run.folder.iterdir()] == [config.name()]


def test_a_killed_run_ends_as_an_unbroken_one(run: Run, config: MultiTaskConfig) -> None:
    assert [path.name for path in (run.halfway / config.name()).iterdir()] == [many.FILE]
    with kept_programs(run.programs):
        resumed = train_together(config, folder=run.halfway, quiet=True)
    assert jax.tree.all(jax.tree.map(np.array_equal, resumed.networks, run.result.networks))
    assert resumed.scores == run.result.scores
    assert resumed.manifest["loss"] == run.result.manifest["loss"]


def test_a_member_is_one_of_the_networks(run: Run) -> None:
    weights, others = (jax.tree.leaves(net) for net in (run.result.member(), run.result.networks))
    assert all(np.array_equal(x, all_[0]) for x, all_ in zip(weights, others, strict=True))
    with pytest.raises(IndexError, match="There are 1 members, 0 to 0; got 5"):
        run.result.member(5)


def test_training_lowers_the_loss(run: Run, config: MultiTaskConfig) -> None:
    def loss(net: SharedNet) -> float:
        each = (loss_with(config.frames)(net, jnp.array(i), smallest(pool_of(config), i)) for i in range(2))
        return float(sum(each))

    assert loss(run.result.member()) < 0.5 * loss(untrained_of(config))


def test_the_recipe_is_that_of_the_settings() -> None:
    chosen = {"learning_rate": 0.5, "grad_clip": 0.25, "seeds": 3, "first_seed": 7, "batch": 5, "steps": 11}
    recipe = recipe_of(config_of(TWO, **chosen))
    assert recipe == Recipe(11, 5, 0.5, optimiser="adam", seeds=3, first_seed=7, chunk=1, clip=0.25)
    assert [recipe_of(config_of(TWO, steps=steps)).chunk for steps in (300, 10_000)] == [15, 100]


def test_one_program_serves_every_algorithm_and_size() -> None:
    config = config_of(f"{TWO},minimum", **WITHOUT_HINTS)
    pool, net = pool_of(config), random_network(slots_of(sources_of(config)), config.network)
    first = [jnp.array([[0]]) + start for start in (0, config.pool)]  # a sample of each size
    each = [(jnp.array([i]), pool.at(jnp.array([[i]]), row), None) for i in range(3) for row in first]
    assert [samples.sizes.item() for _, samples, _ in each] == [4, 5, 4, 4, 4, 5]  # two segments have four ends
    step = jax.jit(jax.value_and_grad(partial(loss_of, frames=pool.frames, hint_weight=1.0)))
    with compilations() as compiled:
        found = jax.block_until_ready([step(net, batch) for batch in each])
    assert len(compiled) == 1
    assert len({loss.item() for loss, _ in found}) == len(each)


def test_training_compiles_its_steps_once(run: Run, config: MultiTaskConfig) -> None:
    """All chunks of steps, whatever they draw."""
    assert config.steps > recipe_of(config).chunk
    assert len([name for name in run.compiled if "advance" in name]) == 1


@pytest.mark.slow
def test_with_hints_a_network_is_trained_as_well() -> None:
    result = train_together(config_of(FOUR, processor="triplet_gmpnn", steps=4), quiet=True)
    assert np.isfinite(result.manifest["loss"]).all()


@pytest.mark.slow
def test_the_command_trains_one_network_on_all_thirty(tmp_path: Path) -> None:
    given = {**SETTINGS, **WITHOUT_HINTS, "sizes": [4], "pool": 2, "validation": 2}
    words = [word for name, value in given.items() if name != "steps" for word in ("--set", f"{name}={value}")]
    command = ["train", "--algorithms", "all", "--steps", "2", *words, "--folder", str(tmp_path)]
    said = CliRunner().invoke(app, command, catch_exceptions=False).output
    (folder,) = tmp_path.iterdir()
    found = load_multi_task(folder).scores
    assert list(found) == list(benchmark_names())
    assert all(np.isfinite(score).all() for score in found.values())
    assert [line.split()[0] for line in said.replace("│", " ").splitlines() if "topological" in line]


CASES = [
    pytest.param(TWO, "bfs", {}, id="with hints", marks=pytest.mark.slow),
    pytest.param(TWO, "bfs", WITHOUT_HINTS, id="without hints"),
    pytest.param(TWO, "segments_intersect", WITHOUT_HINTS, id="without hints, the second"),
    *(pytest.param(FOUR, name, {}, id=f"{name} of four", marks=pytest.mark.slow) for name in FOUR.split(",")),
]


@pytest.mark.parametrize(("algorithms", "name", "change"), CASES)
def test_the_loss_is_that_of_the_algorithms_own_network(algorithms: str, name: str, change: dict) -> None:
    """Slots and padding change nothing: each algorithm's loss is what its network alone says on its own size."""
    config = config_of(algorithms, **change)
    number, pool, net = config.algorithms.index(name), pool_of(config), untrained_of(config)
    samples = smallest(pool, number)
    assert pool.nodes > int(samples.sizes.max())
    together = loss_with(pool.frames)(net, jnp.array(number), samples)
    batch = without_padding(net, name, samples)
    prediction = alone(net, name, batch, pool.frames)
    each = losses(dict(net.slots.specs)[name], prediction, batch.hints, batch.outputs, batch.lengths)
    np.testing.assert_allclose(together, each.total(hint_weight=2.0), rtol=1e-5)


def test_the_scores_are_those_of_the_algorithms_own_networks(run: Run, config: MultiTaskConfig) -> None:
    net, held_out = run.result.member(), held_out_of(config)
    for number, name in enumerate(config.algorithms):
        batch, spec = without_padding(net, name, held_out.at(number)), dict(net.slots.specs)[name]
        decided = postprocess(spec, alone(net, name, batch, config.frames).outputs)
        mine = scores(spec, count(spec, decided, batch.outputs))["score"]
        np.testing.assert_allclose(run.result.scores[name], mine, err_msg=name)


def test_without_hints_a_network_is_not_told_how_long_an_execution_is(config: MultiTaskConfig) -> None:
    pool, net = pool_of(config), untrained_of(config)
    assert pool.hints == {}
    run = jax.jit(lambda samples: predict(net, 0, samples, 4).outputs)
    samples = pool.at(0)
    other = run(eqx.tree_at(lambda samples: samples.lengths, samples, samples.lengths * 0 + 2))
    for slot, x in run(samples).items():
        np.testing.assert_array_equal(x, other[slot])


EVERY = [pytest.param(name, marks=pytest.mark.slow) for name in MultiTaskConfig().algorithms]


@pytest.mark.parametrize("algorithms", [TWO, *EVERY])
def test_the_pool_holds_executions(algorithms: str) -> None:
    """What is read from the pool is what the algorithm does on these inputs, in every slot and frame."""
    config = config_of(algorithms, algorithms_per_step=1)
    pool, net = pool_of(config), untrained_of(config)
    for number, source in enumerate(sources_of(config)):
        held = without_padding(net, source.algorithm.name, smallest(pool, number))
        given = {k: x for k, x in held.inputs.items() if k in source.algorithm.spec.names(Stage.INPUT)}
        meant = run_once(partial(samples_of, source), given)
        np.testing.assert_array_equal(held.lengths, meant.lengths)
        assert held.hints.keys() == meant.hints.keys()
        for name, x in {**meant.inputs, **meant.outputs}.items():
            np.testing.assert_array_equal({**held.inputs, **held.outputs}[name], x, err_msg=name)
        for name, x in meant.hints.items():
            for i, length in enumerate(held.lengths):
                np.testing.assert_array_equal(held.hints[name][:length, i], x[:length, i], err_msg=name)


def test_the_pool_keeps_only_what_there_is() -> None:
    """A row for every frame of the algorithms that have a slot; the others read a blank."""
    config = config_of(TWO)
    pool, slots = pool_of(config), slots_of(sources_of(config))
    for variable in slots.spec.at(Stage.HINT):
        rows, filled = pool.hints[variable.name], slots.filled[variable.name] > 0
        assert len(rows.values) == pool.lengths[filled].sum()
        assert rows.values.dtype == {Kind.SCALAR: np.float32, Kind.POINTER: np.int16}.get(variable.kind, np.int8)
        for number in np.flatnonzero(~filled):
            read = pool.at(int(number)).hints[variable.name]
            assert read.dtype == (np.int32 if variable.kind == Kind.POINTER else np.float32)
            np.testing.assert_array_equal(read, np.broadcast_to(slots.blank(variable.name, pool.nodes), read.shape))


def test_a_draw_takes_any_samples_of_any_algorithms(config: MultiTaskConfig) -> None:
    pool = pool_of(config)
    numbers, samples, _ = jax.jit(jax.vmap(partial(draw, config, pool)))(jax.random.split(jax.random.key(0), 32))
    assert numbers.shape == (32, 2)
    assert {tuple(pair) for pair in np.asarray(numbers).tolist()} == {(0, 1), (1, 0)}
    for number in range(2):
        mine, drawn = pool.at(number), jax.tree.map(lambda x, n=number: x[numbers == n], samples)  # [32, batch, ...]
        same = np.all(np.asarray(drawn.inputs["pos"])[:, :, None] == np.asarray(mine.inputs["pos"]), axis=-1)
        assert (same.sum(-1) == 1).all()
        row = same.argmax(-1)
        assert set(row.flat) == set(range(len(mine.lengths)))
        assert not (row[:, 0] == row[:, 1]).all()
        for x, meant in zip(jax.tree.leaves(drawn), jax.tree.leaves(mine), strict=True):
            np.testing.assert_array_equal(x, meant[row])


def test_validation_samples_are_not_trained_on() -> None:
    """Not even where both have equally many of one size."""
    config = config_of("bfs", algorithms_per_step=1, sizes=4, **WITHOUT_HINTS)
    trained_on, held_out = (np.asarray(pool.at(0).inputs["pos"]) for pool in (pool_of(config), held_out_of(config)))
    assert trained_on.shape == held_out.shape
    assert not (trained_on[:, None] == held_out).all(-1).any()


@pytest.mark.parametrize("hint_mode", [pytest.param("none", marks=pytest.mark.slow), "encoded_decoded"])
@pytest.mark.parametrize(
    "processor", ["gatv2", "triplet_gmpnn", *(pytest.param(other, marks=pytest.mark.slow) for other in ("gat", "pgn"))]
)
def test_no_message_between_two_nodes_is_kept_for_a_gradient(hint_mode: str, processor: str) -> None:
    """Of a step is kept what it hands to the next, and where it decodes no hints, what nodes compute in it."""
    config = config_of("bfs", algorithms_per_step=1, sizes=16, processor=processor, hint_mode=hint_mode)
    pool, net = pool_of(config), untrained_of(config)
    batch = (jnp.array([0]), jax.tree.map(lambda x: x[None], pool.at(0)), None)

    def numbers_kept(frames: int) -> int:
        loss = partial(loss_of, batch=batch, frames=frames, hint_weight=1.0)
        _, gradient = jax.eval_shape(lambda net: jax.vjp(loss, net), net)
        return sum(x.size for x in jax.tree.leaves(gradient))

    messages = pool.lengths.shape[1] * pool.nodes**2 * config.network.hidden
    assert numbers_kept(21) - numbers_kept(20) < messages


def test_networks_that_diverge_are_told_apart(
    config: MultiTaskConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = np.array([[1.0, 1.0, 1.0], [0.5, np.nan, np.inf]])
    networks = jax.tree.map(lambda x: jnp.stack([x] * 3), untrained_of(config))
    monkeypatch.setattr(loop, "train_many", lambda *_, **__: Trained(networks, 200, outcome, 1.0, many.ALL_STEPS))
    monkeypatch.setattr(loop, "evaluate", lambda *_: dict.fromkeys(config.algorithms, np.array([0.25, 0.5, 0.75])))
    with redirect_stdout(StringIO()) as printed:
        result = train_together_and_print(TWO, tmp_path, {**SETTINGS, **WITHOUT_HINTS, "seeds": 3})
    (place,) = tmp_path.iterdir()
    for each in (result, load_multi_task(place)):
        assert each.diverged.tolist() == [False, True, True]
        np.testing.assert_array_equal(each.scores["bfs"], [0.25, np.nan, np.nan])
    assert json.loads((place / "manifest.json").read_text())["loss"] == [0.5, None, None]
    assert "│ bfs                │ 3        │ 2        │ 0.2500 ± 0.0000 (0.2500)" in printed.getvalue()


DAMAGED = [
    ("scores.json", "is not readable JSON .* The run is damaged; delete .* to train again"),
    ("manifest.json", "is not readable JSON .* The run is damaged; delete .* to train again"),
    ("network.safetensors", "is not a readable safetensors file .* The run is damaged; delete .* to train again"),
]


@pytest.mark.parametrize(("file", "says"), DAMAGED)
def test_a_damaged_result_is_named(run: Run, config: MultiTaskConfig, tmp_path: Path, file: str, says: str) -> None:
    damaged = shutil.copytree(run.folder / config.name(), tmp_path / config.name()) / file
    damaged.write_bytes(damaged.read_bytes()[:20])
    with pytest.raises(ValueError, match=f"{damaged} {says}"):
        train_together(config, folder=tmp_path, quiet=True)


def test_a_missing_file_is_named(run: Run, config: MultiTaskConfig, tmp_path: Path) -> None:
    place = shutil.copytree(run.folder / config.name(), tmp_path / "copy")
    (place / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"No file .*manifest.json. The run is damaged; delete .*copy to train again"):
        load_multi_task(place)
    (place / "scores.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"holds no finished run: scores.json is missing. Run the training"):
        load_multi_task(place)


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    (tmp_path / many.FILE).write_bytes(b"cut")
    with pytest.raises(ValueError, match=r"state.safetensors is not a readable .* Delete it to start again"):
        many.train_many(lambda key: jnp.zeros(()), lambda x, _: x, lambda key: None, Recipe(1, 1, 0.1), folder=tmp_path)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_drawn(
    config: MultiTaskConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "training_pool", None)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"Cannot write into .*file.*: Not a directory. Give another folder"):
        train_together(config, folder=tmp_path / "file", quiet=True)


BAD = [
    ({"algorithms": ("bsf",)}, "No algorithm 'bsf'. Did you mean 'bfs'"),
    ({"algorithms": "bfs,bfs"}, "algorithms must be different names, at least one, or 'all' alone; got bfs, bfs"),
    ({"algorithms": "all,bfs"}, "'all' alone; got all, bfs"),
    ({"algorithms": ()}, "'all' alone; got none"),
    ({"sizes": [3]}, r"sizes must be different whole numbers of at least 4, .*; got \(3,\)"),
    ({"sizes": [4, 4]}, r"sizes must be different whole numbers .*; got \(4, 4\)"),
    ({"sizes": []}, r"sizes must be different whole numbers .*; got \(\)"),
    ({"sizes": "16"}, r"sizes must be different whole numbers .*; got '16'"),
    ({"p": 1.5}, r"p must be a list of probabilities; got \(1.5,\)"),
    ({"frames": 1}, r"frames must be 0 \(as many as needed\) or a whole number of at least 2; got 1"),
    ({"algorithms_per_step": 5}, "algorithms_per_step must not be above the number of algorithms, 2; got 5"),
    ({"algorithms_per_step": "x"}, "algorithms_per_step must be a whole number, 1 or more; got 'x'"),
    ({"pool": 0}, "pool must be a whole number, 1 or more; got 0"),
    ({"validation": 2.5}, "validation must be a whole number, 1 or more; got 2.5"),
    ({"steps": True}, "steps must be a whole number, 1 or more; got True"),
    ({"first_seed": "z"}, "first_seed must be a whole number from 0 on, .*; got 'z'"),
    ({"learning_rate": float("nan")}, "learning_rate must be a number above 0, e.g. 1e-4; got nan"),
    ({"learning_rate": -1}, "learning_rate must be a number above 0, e.g. 1e-4; got -1.0"),
    ({"learning_rate": "abc"}, "learning_rate must be a number above 0, e.g. 1e-4; got 'abc'"),
    ({"grad_clip": -1}, "grad_clip must be a number of at least 0; 0 turns clipping off; got -1.0"),
    ({"hint_weight": -3}, "hint_weight must be a number of at least 0; got -3.0"),
    ({"hint_weight": "x"}, "hint_weight must be a number of at least 0; got 'x'"),
    ({"random_pos": 1}, "random_pos must be true or false; got 1"),
    ({"hiden": 4}, "No setting 'hiden'. Did you mean 'hidden'"),
    ({"pre_attention_bias": 5}, "pre_attention_bias is for one size of graph"),
]


@pytest.mark.parametrize(("change", "says"), BAD)
def test_impossible_settings_are_refused(change: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        MultiTaskConfig.from_settings({**SETTINGS, "algorithms": TWO, **change})


def test_the_defaults_are_a_network_config() -> None:
    assert MultiTaskConfig().network == NetConfig()


def test_adam_forgets_nothing_about_what_a_step_says_nothing_about() -> None:
    """Every row has moments of its own, which stay while others are drawn; the steps are counted for all."""
    recipe, rate = Recipe(8, 1, 0.1, chunk=8), 0.1

    def loss(model: dict, batch: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(model["rows"][batch] + model["all"]))

    def which(key: PRNGKeyArray) -> jax.Array:
        return jax.random.randint(key, (), 0, 3)

    def rows_without(gradient: dict) -> dict:
        return {"rows": jnp.all(gradient["rows"] == 0, axis=1, keepdims=True), "all": jnp.zeros((1,), bool)}

    def start(key: PRNGKeyArray) -> dict:
        return {"rows": jnp.zeros((3, 2)), "all": jnp.zeros(2)}

    found = many.train_many(start, loss, which, recipe, unchanged=rows_without, quiet=True).models
    keys = [jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 1), i) for i in range(recipe.steps)]
    drawn = [int(which(key)) for key in keys]
    assert 1 < len(set(drawn)) < recipe.steps
    weights = {name: np.zeros(2) for name in (0, 1, 2, "all")}
    first, second = ({name: np.zeros(2) for name in weights} for _ in range(2))
    for step, number in enumerate(drawn, 1):
        gradient = np.cos(weights[number] + weights["all"])
        for name in (number, "all"):
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.999 * second[name] + 0.001 * gradient**2
            mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
            weights[name] = weights[name] - rate * mean / (np.sqrt(square) + 1e-8)
    for name, expected in weights.items():
        ours = found["all"][0] if name == "all" else found["rows"][0, name]
        np.testing.assert_allclose(ours, expected, rtol=1e-4)


def test_what_is_not_drawn_stays_in_the_networks() -> None:
    config = config_of(TWO, **WITHOUT_HINTS)
    slots = slots_of(sources_of(config))
    shapes = eqx.filter_eval_shape(lambda key: SharedNet.init(slots, config.network, key=key), jax.random.key(0))
    gradient = jax.tree.map(lambda x: jnp.zeros(x.shape), eqx.filter(shapes, lambda x: hasattr(x, "shape")))
    gradient = eqx.tree_at(
        lambda g: g.networks.encoders, gradient, replace_fn=lambda e: jax.tree.map(lambda x: x.at[1, 0].set(1.0), e)
    )
    still = loop.unchanged(gradient)
    for x in jax.tree.leaves(still.networks.encoders):
        assert x.reshape(len(x)).tolist() == [True, False]
    assert all(bool(jnp.all(x)) for x in jax.tree.leaves(still.networks.decoders))
    assert not any(bool(jnp.any(x)) for x in jax.tree.leaves(still.networks.processor))
