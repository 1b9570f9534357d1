"""Text models in training: what they learn from, whom they look at, and that a small one learns at all."""

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import mechgap.training.transnar.loop as loop
from mechgap.algorithms import algorithm, text
from mechgap.cli import app
from mechgap.compiler import compile as compile_program
from mechgap.networks.clrs_net import STATES
from mechgap.networks.cross_attention import Memory
from mechgap.networks.slots import without_empty_slots
from mechgap.report import text_models
from mechgap.storage import read_tensors, write_tensors
from mechgap.trace import Kind, Location, Stage, Variable
from mechgap.training.data import processed
from mechgap.training.multi_task import MultiTaskConfig
from mechgap.training.multi_task.pool import sources_of
from mechgap.training.state import save_state
from mechgap.training.transnar import (
    CompiledReasoner,
    EvaluationConfig,
    Reasoner,
    SharedReasoner,
    TextModels,
    TextTrainingConfig,
    load_text_models,
    save_text_models,
    train_text_models,
)
from mechgap.training.transnar.data import (
    Corpus,
    Group,
    Plan,
    batch_of,
    corpus_of,
    draw_groups,
    load_groups,
    save_groups,
)
from mechgap.training.transnar.evaluation import CONTROLS, answers, evaluate, reasoner_answers, written
from mechgap.training.transnar.exam import score_by_size
from mechgap.training.transnar.loop import Pair, initial_model, learns, loss_of
from mechgap.training.transnar.presets import PRESETS, read_study
from mechgap.training.transnar.reasoner import Asked, layer_steps, questions_asked, shuffled
from mechgap.training.transnar.shared_reasoner import standing_order
from mechgap.training.transnar.study import ASKED, ask_reasoner, load_study, places_of
from mechgap.training.transnar.summary import read_reasoners, write_summary
from mechgap.training.weights import named
from small_text_models import CONFIG, PLAIN, SMALL, made_reasoner


@pytest.fixture
def compile_well() -> Iterator[None]:
    """For what runs longer than a moment."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def reasoner() -> SharedReasoner:
    return made_reasoner("minimum", "bfs")


@pytest.fixture(scope="module", params=["triplet_gmpnn", "gatv2"])
def any_reasoner(request: pytest.FixtureRequest) -> SharedReasoner:
    """With states of edges, and without: there tokens look at encoded features."""
    return made_reasoner("minimum", "bfs", processor=request.param)


@pytest.fixture(scope="module")
def groups() -> tuple[Group, ...]:
    return draw_groups(CONFIG, quiet=True)


@pytest.fixture(scope="module")
def corpus(groups: tuple[Group, ...], reasoner: SharedReasoner) -> Corpus:
    return corpus_of(CONFIG, groups, reasoner)


# What is learned from


def test_the_questions_are_those_of_the_text_generator(groups: tuple[Group, ...], reasoner: SharedReasoner) -> None:
    for group in groups:
        examples = text.sample(group.algorithm, group.size, CONFIG.samples)
        assert [text.decode(ids) for ids in group.ids] == [e.text for e in examples]
        parsed = [text.parse(e.question) for e in examples]
        together = reasoner.together([(reasoner.part(group.algorithm, group.inputs), np.arange(6))], 6)
        again = questions_asked(reasoner, parsed)
        assert jax.tree.all(jax.tree.map(np.array_equal, together, again))


def test_drawn_questions_are_kept(tmp_path: Path, groups: tuple[Group, ...]) -> None:
    save_groups(tmp_path / "questions.safetensors", groups)
    for again, group in zip(load_groups(tmp_path / "questions.safetensors"), groups, strict=True):
        assert (again.algorithm, again.size) == (group.algorithm, group.size)
        np.testing.assert_array_equal(again.starts, group.starts)
        assert all(map(np.array_equal, again.ids, group.ids))
        assert list(again.inputs) == list(group.inputs)
        assert all(np.array_equal(again.inputs[k], x) for k, x in group.inputs.items())


def test_every_question_is_seen_once_in_an_epoch(corpus: Corpus) -> None:
    plan = Plan(CONFIG, corpus, seed=3)
    assert plan.per_epoch == 6  # 24 questions of at most 64 tokens, 4 at a time
    seen = [tuple(row) for step in range(6) for row in plan.at(step).rows[plan.at(step).counted].tolist()]
    assert len(seen) == len(set(seen)) == 24
    assert [c.rows.tolist() for c in plan.epoch(0)] != [c.rows.tolist() for c in plan.epoch(1)]


def test_batches_hold_the_same_number_of_tokens(groups: tuple[Group, ...]) -> None:
    config = replace(CONFIG, buckets=(24, 32, 64), tokens=192)
    corpus = corpus_of(config, groups, None)
    lengths = set()
    for chosen in Plan(config, corpus, 0).epoch(0):
        batch = batch_of(config, corpus, chosen, np.random.default_rng(0), None)
        assert batch.ids.size <= 192
        lengths.add(batch.ids.shape[1])
        assert not batch.wanted[~chosen.counted].any()
        for ids, wanted in zip(batch.ids[chosen.counted], batch.wanted[chosen.counted], strict=True):
            question, answer = text.split(text.decode(ids))
            assert text.decode(ids[wanted]) == answer
            assert ids[wanted][-1] == text.EOS
            assert len(text.encode(question)) + 1 == np.argmax(wanted)
        assert all(np.all(np.diff(row) > 0) for row in batch.positions)
    assert lengths == {24, 32, 64}


def test_some_questions_are_held_out(groups: tuple[Group, ...]) -> None:
    corpus = corpus_of(replace(CONFIG, train_share=0.7), groups, None)
    assert {k: len(x) for k, x in corpus.train.items()} == {64: 16}  # 4 of 6, four times
    assert {k: len(x) for k, x in corpus.validation.items()} == {64: 8}


# Whom they look at


@eqx.filter_jit
def memory_of(reasoner: Reasoner, asked: Any, layers: int | None = None) -> Memory:
    return reasoner.memory(asked, layers)


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_padding_changes_no_memory(any_reasoner: SharedReasoner) -> None:
    reasoner = any_reasoner
    (example,) = text.sample("bfs", 4)
    question = text.parse(example.question)
    alone = memory_of(reasoner, questions_asked(reasoner, [question]))
    padded = memory_of(reasoner, questions_asked(reasoner, [question], nodes=7))
    close(padded.nodes[:, :4], alone.nodes)
    close(padded.edges[:, :4, :4], alone.edges)
    assert not padded.nodes[:, 4:].any()
    assert padded.present.tolist() == [[True] * 4 + [False] * 3]
    assert int(padded.pairs.sum()) == 16


def test_other_questions_of_a_batch_change_no_memory(any_reasoner: SharedReasoner) -> None:
    reasoner = any_reasoner
    examples = [*text.sample("minimum", 4), *text.sample("bfs", 4, 2, seed=1)]
    questions = [text.parse(e.question) for e in examples]
    together = memory_of(reasoner, questions_asked(reasoner, questions))
    alone = memory_of(reasoner, questions_asked(reasoner, questions[2:]))
    close(together.nodes[2:], alone.nodes)
    close(together.edges[2:], alone.edges)
    close(shuffled(together).nodes[0], together.nodes[1])


def renamed_nodes(asked: Asked, variables: Iterable[Variable], order: np.ndarray) -> Asked:
    """The same question about nodes in another order: node k is what was order[k]. Values that name nodes follow."""
    place, of_slot = np.argsort(order), {variable.name: variable for variable in variables}

    def moved(slot: str, x: np.ndarray) -> np.ndarray:
        if of_slot[slot].location == Location.GRAPH:
            return x
        x = x[:, order][:, :, order] if of_slot[slot].location == Location.EDGE else x[:, order]
        return place[x].astype(x.dtype) if of_slot[slot].kind == Kind.POINTER else x

    parts = ({slot: moved(slot, x) for slot, x in values.items()} for values in (asked.inputs, asked.hints))
    return replace(asked, **dict(zip(("inputs", "hints"), parts, strict=True)))


@cache
def reasoner_that(thinks: str) -> Reasoner:
    names = ("minimum", "bfs")
    if thinks != "exactly":
        return made_reasoner(*names, processor=thinks)
    return CompiledReasoner.of({n: compile_program(n, hidden=64, max_nodes=8, certify="none") for n in names}, frames=8)


@pytest.mark.parametrize("name", ["bfs", "minimum"])
@pytest.mark.parametrize("thinks", ["triplet_gmpnn", "gatv2", "exactly"])
def test_permuted_nodes_permute_the_memory(thinks: str, name: str) -> None:
    reasoner = reasoner_that(thinks)
    (example,) = text.sample(name, 5)
    order = np.array([3, 0, 4, 1, 2])
    asked = questions_asked(reasoner, [text.parse(example.question)])
    moved = renamed_nodes(asked, reasoner.slots.spec, order)
    own = set(reasoner.slots.names[name].values())
    pointers = [(given, slot) for given in ("inputs", "hints") for slot in own & getattr(asked, given).keys()]
    names = [np.any(getattr(moved, k)[slot] != getattr(asked, k)[slot][:, order]) for k, slot in pointers]
    assert any(names) or (name == "bfs" and thinks != "exactly")  # there no value names a node
    before, after = memory_of(reasoner, asked), memory_of(reasoner, moved)
    assert np.abs(after.nodes - before.nodes).max() > 1e-3
    close(after.nodes, before.nodes[:, order])
    close(after.edges, before.edges[:, order][:, :, order])


def test_the_last_of_the_states_is_the_final_one(reasoner: SharedReasoner) -> None:
    asked = questions_asked(reasoner, [text.parse(e.question) for e in text.sample("bfs", 4, 2)])
    final, layers = memory_of(reasoner, asked), memory_of(reasoner, asked, 3)
    assert layers.nodes.shape == (2, 3, 4, 8)
    close(layers.nodes[:, -1], final.nodes)
    close(layers.edges[:, -1], final.edges)


@pytest.mark.parametrize(
    ("steps", "layers", "at"),
    [(32, 6, [5, 10, 15, 21, 26, 31]), (3, 3, [0, 1, 2]), (2, 4, [0, 0, 1, 1]), (1, 2, [0, 0])],
)
def test_states_are_spread_over_layers(steps: int, layers: int, at: list[int]) -> None:
    assert layer_steps(steps, layers).tolist() == at


SOME = ("insertion_sort", "minimum")
ALL_OF_THEM = pytest.param(text.ALGORITHMS, marks=pytest.mark.slow, id="all")


@pytest.mark.parametrize("names", [pytest.param(SOME, id="some"), ALL_OF_THEM])
def test_the_order_that_text_does_not_say_is_known(names: tuple[str, ...]) -> None:
    constant = [name for name in names if algorithm(name).order_is_constant]
    assert "minimum" in constant
    for name in constant:
        trace = algorithm(name).benchmark_sampler(0, 8, 2).next()
        np.testing.assert_array_equal(standing_order(trace.inputs["pos"]), trace.hints["pred_h"][0], err_msg=name)


@pytest.mark.parametrize("train", ["none", *(pytest.param(some, marks=pytest.mark.slow) for some in ("last", "all"))])
def test_gradients_reach_a_reasoner_only_where_it_learns(train: str, corpus: Corpus, reasoner: SharedReasoner) -> None:
    config = replace(CONFIG, train_reasoner=train)
    batch = batch_of(config, corpus, Plan(config, corpus, 0).at(0), np.random.default_rng(0), reasoner)
    model = initial_model(config, reasoner, 0)
    opened = eqx.tree_at(lambda m: m.crosses.gates, model, jnp.ones((2, 2)))
    pair = Pair(opened, reasoner)
    weights, fixed = eqx.partition(pair, eqx.is_inexact_array)
    gradient = eqx.filter_jit(jax.grad(lambda w: loss_of(config, eqx.combine(w, fixed), batch)))(weights)
    sizes = [float(jnp.abs(x).sum()) for x in jax.tree.leaves(gradient.reasoner.net.networks.processor)]
    assert all(np.isfinite(sizes))
    assert (sum(sizes) > 0) == (train != "none")
    learning = jax.tree.leaves(learns(config, pair).reasoner)
    assert any(learning) == (train != "none")


def test_a_compiled_reasoner_is_as_wide_as_its_widest_program_needs() -> None:
    assert text_models.compiled_reasoner(("bfs",)).widths == (128, 128)
    assert text_models.compiled_reasoner(("bfs", "strongly_connected_components")).widths == (256, 256)


@pytest.mark.slow
def test_a_compiled_reasoner_ends_in_the_answer() -> None:
    compiled = compile_program("bfs", hidden=16, max_nodes=16, certify="none")
    reasoner = CompiledReasoner.of({"bfs": compiled}, frames=8)
    examples = [e for n in (4, 6) for e in text.sample("bfs", n, 3)]
    questions = [text.parse(e.question) for e in examples]
    asked = questions_asked(reasoner, questions)
    memory = memory_of(reasoner, asked)
    assert memory.nodes.shape == (6, 6, 16)
    alone = memory_of(reasoner, questions_asked(reasoner, questions[:3]))
    close(memory.nodes[:3, :4], alone.nodes)
    network, slots = reasoner.networks["bfs"], reasoner.slots.names["bfs"]
    inputs = {v.name: asked.inputs[slots[v.name]] for v in network.spec.at(Stage.INPUT)}
    first = {v.name: asked.hints[slots[v.name]][:, None] for v in network.spec.at(Stage.HINT)}
    present = jnp.arange(6) < asked.sizes[:, None]
    run = lambda i, h, length, there: network(i, h, length, steps=8, present=there, record=STATES)  # noqa: E731
    made = jax.vmap(run)(inputs, first, asked.lengths, present)
    assert len(set(np.asarray(asked.lengths).tolist())) > 1
    for row, length in enumerate(asked.lengths):  # of an execution of T states, T - 1 steps lead to the last
        close(memory.nodes[row], np.where(present[row, :, None], made.states.nodes[row, length - 2], 0))
    said = np.argmax(made.outputs["pi"], axis=-1)
    for example, pi in zip(examples, said, strict=True):
        assert f"[{' '.join(map(str, pi[: example.length]))}]" == example.answer.strip()


# Training


@pytest.mark.usefixtures("compile_well")
def test_a_small_model_learns_sixteen_questions_by_heart(tmp_path: Path) -> None:
    reasoner = made_reasoner("bfs", hidden=16)
    config = TextTrainingConfig.from_settings(
        {
            **{"algorithms": ("bfs",), "sizes": (4,), "samples": 16, "buckets": (48,), "tokens": 768, "steps": 300},
            **{"width": 32, "layers": 2, "heads": 4, "hidden": 64, "context": 128, "max_position": 256},
            **{"learning_rate": 1e-2, "warmup": 20},
        }
    )
    result = train_text_models(config, reasoner, folder=tmp_path, quiet=True)
    assert result.metrics["loss"][0] < 0.05
    examples = text.sample("bfs", 4, 16)
    said = answers(result.models[0], config, reasoner, examples, EvaluationConfig(together=16))
    (rows,) = score_by_size(said, examples).values()
    assert rows[-1].clrs > 0.9
    assert np.abs(result.models[0].crosses.gates).min() > 0  # they start closed, and have learned


@pytest.mark.slow
def test_a_resumed_training_equals_an_unbroken_one(
    tmp_path: Path, groups: tuple[Group, ...], reasoner: SharedReasoner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHUNK", 2)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    unbroken = train_text_models(CONFIG, reasoner, groups=groups, quiet=True)
    made = loop.batch_of

    def stops_in_the_middle(*given: Any) -> Any:
        if given[2].rows.tolist() == Plan(CONFIG, given[1], 0).at(4).rows.tolist():
            raise KeyboardInterrupt
        return made(*given)

    monkeypatch.setattr(loop, "batch_of", stops_in_the_middle)
    with pytest.raises(KeyboardInterrupt):
        train_text_models(CONFIG, reasoner, groups=groups, folder=tmp_path, quiet=True)
    monkeypatch.setattr(loop, "batch_of", made)
    (state,) = tmp_path.glob("*/state-0.safetensors")
    tensors, about = read_tensors(state, loop.FORMAT)
    write_tensors(state, tensors, {**about, "seconds": 1000.0})
    resumed = train_text_models(CONFIG, reasoner, groups=groups, folder=tmp_path, quiet=True)
    assert 1000 < resumed.manifest["times"]["train_s"][0] < 2000  # of both parts
    assert resumed.metrics["curve"] == unbroken.metrics["curve"]
    assert jax.tree.all(jax.tree.map(np.array_equal, resumed.models, unbroken.models))
    (place,) = tmp_path.iterdir()
    assert not list(place.glob("state-*"))
    again = train_text_models(CONFIG, reasoner, groups=(), folder=tmp_path, quiet=True)  # not trained again
    assert jax.tree.all(jax.tree.map(np.array_equal, again.models, resumed.models))
    read, given = (without_empty_slots(named(one), reasoner.slots) for one in (*again.reasoners, reasoner))
    assert read.keys() == given.keys()
    assert all(np.array_equal(x, given[name]) for name, x in read.items())


@pytest.fixture(scope="module")
def trained(groups: tuple[Group, ...], reasoner: SharedReasoner) -> TextModels:
    return train_text_models(replace(CONFIG, steps=3), reasoner, groups=groups, quiet=True)


@pytest.mark.slow
def test_weights_of_half_the_size(tmp_path: Path, trained: TextModels) -> None:
    save_text_models(tmp_path, trained, "bfloat16")
    again = load_text_models(tmp_path)
    for a, b in zip(jax.tree.leaves(again.models), jax.tree.leaves(trained.models), strict=True):
        np.testing.assert_allclose(a, b, rtol=2**-8, atol=0)


# Answers


@pytest.mark.slow
def test_an_evaluation_has_scores_floors_and_controls(trained: TextModels) -> None:
    scores = evaluate(trained, EvaluationConfig(sizes=(4, 5), count=3, together=12), list(CONTROLS))
    assert set(scores["models"]) == set(CONTROLS)
    for found in (*scores["models"]["shuffled"], scores["reasoner"], scores["exact"]):
        for rows in found["by_size"].values():
            assert [row["name"] for row in rows] == ["bfs", "minimum", "mean"]
            assert all(0 <= row[k] <= 1 for row in rows for k in ("shape", "parse", "clrs", "floor"))
    assert all(row["clrs"] == 1 for rows in scores["exact"]["by_size"].values() for row in rows)
    assert all(row["shape"] == 1 for rows in scores["reasoner"]["by_size"].values() for row in rows)


@pytest.mark.parametrize("names", [pytest.param(SOME, id="some"), ALL_OF_THEM])
def test_a_reasoner_that_knows_answers_as_the_text_does(names: tuple[str, ...]) -> None:
    """The right outputs, in slots and padded, are written as the right answers."""
    reasoner = made_reasoner(*names)
    sources = sources_of(MultiTaskConfig.from_settings({"algorithms": names}))
    for source in sources:
        name = source.algorithm.name
        examples = text.sample(name, 5, 2)
        for example in examples:
            question = text.parse(example.question)
            trace = source.algorithm.trace(**question.inputs)
            seen = processed(trace, source.algorithm.order_is_constant, True)
            decided = reasoner.slots.put(name, seen.outputs, 9)
            assert written(reasoner, question, {k: x[0] for k, x in decided.items()}) == example.answer, name


def test_an_untrained_reasoner_answers_in_the_right_shape(reasoner: SharedReasoner) -> None:
    examples = [*text.sample("bfs", 5, 2), *text.sample("minimum", 4, 1)]
    said = reasoner_answers(reasoner, [text.parse(e.question) for e in examples], together=4)
    assert all(text.score(a, e).shape == 1 for a, e in zip(said, examples, strict=True))


# Commands


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_can_be_read(preset: str) -> None:
    study = read_study(preset, {"reasoner.hidden": 24, "evaluation.count": 3, "grad_clip": 5.0})
    assert study.reasoners["trained"].network.hidden == 24
    assert study.reasoners["trained"].network.hint_mode == "none"
    assert study.evaluation.count == 3
    assert {"transformer", "transnar"} <= set(study.models)
    for config in study.models.values():
        assert config.grad_clip == 5
        assert set(config.algorithms) <= set(study.reasoners["trained"].algorithms)
        assert max(config.sizes) <= max(study.reasoners["trained"].sizes)


def test_the_paper_recipe_is_the_papers() -> None:
    config = read_study("paper").models["transnar"]
    recipe = (config.learning_rate, config.epochs, config.samples, config.train_share, config.seeds, config.batch(128))
    assert recipe == (1e-4, 7, 10_000, 0.7, 4, 256)
    assert len(config.algorithms) == 30


def test_unknown_studies_and_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"No preset 'tiney'. Did you mean 'tiny'"):
        read_study("tiney")
    with pytest.raises(ValueError, match=r"has no model 'transformre'. Did you mean 'transformer'"):
        read_study("tiny", models=["transformre"])
    with pytest.raises(ValueError, match=r"'h200' has no reasoner 'sevn'. Did you mean 'seven'"):
        text_models.train_reasoners_and_print("h200", "trained,sevn", tmp_path, {})
    (tmp_path / "my.toml").write_text("[trainig]\nsteps = 3\n")
    with pytest.raises(ValueError, match=r"A study has the tables .*; got 'trainig'"):
        read_study(str(tmp_path / "my.toml"))
    with pytest.raises(FileNotFoundError, match="holds neither a study nor trained text models"):
        load_study(tmp_path)


TWO_REASONERS = """
[reasoner]
algorithms = ["minimum"]
algorithms_per_step = 1
sizes = [4]
steps = 2
pool = 4
batch = 2
validation = 2
processor = "mpnn"
hint_mode = "none"
frames = 3
hidden = 4

[reasoners.other]
first_seed = 1

[training]
algorithms = ["minimum"]

[models.transnar]

[evaluation]
sizes = [4]
count = 3
"""


@pytest.mark.slow
def test_reasoners_are_trained_and_asked_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where `transnar train` finds them. What they answer is kept, and asked again where other questions are."""
    (tmp_path / "two.toml").write_text(TWO_REASONERS)
    study = read_study(str(tmp_path / "two.toml"))
    text_models.train_reasoners_and_print(str(tmp_path / "two.toml"), None, tmp_path, {})
    places = {name: tmp_path / config.name() / ASKED for name, config in study.reasoners.items()}
    found = {name: json.loads(place.read_text()) for name, place in places.items()}
    scores = [f"{100 * asked['by_size']['4'][0]['clrs']:.1f}" for asked in found.values()]
    floor = f"{100 * found['trained']['by_size']['4'][0]['floor']:.1f}"
    rows = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    assert ["minimum", *scores, floor] in rows
    reasoner = SharedReasoner.of(places["other"].parent)
    examples = text.sample("minimum", 4, 3, seed=study.evaluation.seed)
    said = reasoner_answers(reasoner, [text.parse(e.question) for e in examples])
    right = np.mean([answer == e.answer for answer, e in zip(said, examples, strict=True)])
    assert found["other"]["by_size"]["4"][0]["clrs"] == pytest.approx(right)
    assert list(write_summary(study, tmp_path, tmp_path / "kept")) == []
    kept = read_reasoners(tmp_path / "kept")
    assert kept["other"]["asked"]["by_size"]["4"][0]["clrs"] == pytest.approx(right, abs=1e-4)
    places["other"].write_text(json.dumps({**found["other"], "seconds": -1.0}))
    assert ask_reasoner(study, "other", tmp_path)["seconds"] == -1, "not asked again"
    more = read_study(str(tmp_path / "two.toml"), {"evaluation.count": 4})
    assert ask_reasoner(more, "other", tmp_path)["seconds"] > 0


def test_the_demonstration_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_models, "demo_folder", lambda: None)
    with pytest.raises(FileNotFoundError, match="mechgap transnar train --preset demo"):
        text_models.demo_and_print(None)


@pytest.mark.slow
@pytest.mark.usefixtures("compile_well")
def test_the_commands_train_ask_and_answer(tmp_path: Path) -> None:
    small = ["reasoner.steps=2", "reasoner.pool=4", "steps=4", "warmup=1", "samples=4", "evaluation.count=2"]
    settings = [word for setting in small for word in ("--set", setting)]
    run = partial(CliRunner().invoke, app, catch_exceptions=False)
    trained = run(["transnar", "train", "--folder", str(tmp_path), *settings])
    assert trained.exit_code == 0
    for said in ("transformer", "transnar", "gates shut", "the reasoner alone", "constant"):
        assert said in trained.output
    asked = run(["transnar", "eval", str(tmp_path), "--set", "sizes=[4]", "--set", "count=2"])
    assert asked.exit_code == 0
    assert "n = 4" in asked.output
    assert "the scores of other questions stay where they were" in asked.output
    for place in places_of(tmp_path).values():  # nothing that was measured is lost
        scores = json.loads((place / "metrics.json").read_text())["scores"]
        assert (scores["evaluation"]["sizes"], scores["evaluation"]["count"]) == ([5, 6, 7], 2)
        (other,) = place.glob("scores-*.json")
        assert json.loads(other.read_text())["evaluation"]["sizes"] == [4]
    question = "minimum:\nkey: [0.5 0.25 0.75]\nmin:\n"
    answered = run(["transnar", "answer", str(tmp_path)], input=question)
    assert answered.exit_code == 0
    assert "right" in answered.output
    assert "reasoner" in answered.output


# What is refused

BAD = [
    ({"algorithms": ("bsf",)}, "no algorithm 'bsf'. Did you mean 'bfs'"),
    ({"algorithms": ()}, "algorithms must be different names, at least one"),
    ({"sizes": (3,)}, "sizes must be rising whole numbers of at least 4"),
    ({"buckets": (64, 32)}, "buckets must be rising"),
    ({"buckets": (64, 128)}, "buckets must not exceed context = 64; got 128"),
    ({"steps": 0}, "Give steps or epochs, and 0 for the other; got steps = 0, epochs = 0"),
    ({"epochs": 2}, "Give steps or epochs"),
    ({"warmup": 6}, "warmup must be below steps = 6; got 6"),
    ({"schedule": "linear"}, "schedule must be one of 'constant', 'cosine'; got 'linear'"),
    ({"precision": "bf16"}, "precision must be one of 'float32', 'bfloat16'; got 'bf16'"),
    ({"train_reasoner": "first"}, "train_reasoner must be one of 'none', 'last', 'all'; got 'first'"),
    ({"train_reasoner": "last", "reads": "per_layer"}, 'train_reasoner = "last" needs reads = "final"'),
    ({"cross_attention": "none", "memory": "shuffled"}, "leave train_reasoner, memory and unseen out"),
    ({"max_position": 40_000}, "max_position must be at most 32768, up to which angles are exact; got 40000"),
    ({"train_share": 0.0}, "train_share must be a number above 0 and at most 1; got 0.0"),
    ({"samples": 0}, "samples must be a whole number of at least 1; got 0"),
    ({"learning_rate": -1.0}, "learning_rate must be a number above 0, e.g. 3e-4; got -1.0"),
    ({"heads": 3}, "width must be an even multiple of heads"),
    ({"widht": 8}, "No setting 'widht'. Did you mean 'width'"),
]


BAD_TYPED = [
    ("train --set learning_rate=abc", "learning_rate must be a number above 0, e.g. 3e-4; got 'abc'."),
    ("train --set train_share=most", "train_share must be a number above 0 and at most 1; got 'most'."),
    ("train --set grad_clip=-1", "grad_clip must be a number of at least 0; 0 turns clipping off; got -1."),
    ("train --set random_positions=1", "random_positions must be true or false; got 1."),
    ("train --set first_seed=x", "first_seed must be a whole number of at least 0; got 'x'."),
    ("train --set rotary_base=x", "rotary_base must be a number above 1; got 'x'."),
    ("train --set context=x", "context must be a whole number of at least 1; got 'x'."),
    ("train --set sizes=abc", "sizes must be rising whole numbers of at least 4; got 'abc'."),
    ("train --set sizes=3", "sizes must be rising whole numbers of at least 4; got (3,)."),
    ("train --set buckets=0", "buckets must be rising whole numbers of at least 1; got (0,)."),
    ("train --set extra_sizes=[[9]]", "extra_sizes must be rising whole numbers of at least 4; got ([9],)."),
    ("train --set algorithms=bfs,bsf", "CLRS-Text has no algorithm 'bsf'. Did you mean 'bfs'?"),
    ("train --set algorithms=5", "algorithms must be names, e.g. bfs,dfs; got 5."),
    ("train --set evaluation.sizes=3", "sizes must be whole numbers of at least 4; got (3,)."),
    ("train --set evaluation.seed=x", "seed must be a whole number of at least 0; got 'x'."),
    ("train --models transformr,", "has no model 'transformr'. Did you mean 'transformer'"),
    ("train --models ,", "Give names with commas between them, or leave the option out; got ','."),
    ("train --preset nope.toml", "No file nope.toml. Give the path of a TOML file, or a preset: tiny, quick, demo,"),
    (
        "train --set growing.sizes=[5]",
        "Settings of growing (sizes) mean nothing where no model is asked at rising n. Say which: "
        "growing.models=transformer,transnar",
    ),
    (
        "train --set algorithms=bfs,dfs",
        "The model 'transnar' is asked about dfs, and its reasoner learns bfs, minimum, insertion_sort. Add to "
        'reasoner.algorithms, ask about fewer (algorithms), or set unseen = "stand_in".',
    ),
    (
        "train --set algorithms=bfs,graham_scan,heapsort --reasoner compiled",
        "The model 'transnar' looks at compiled networks. No program 'graham_scan'. It is not expressible: angles, "
        "products of values. See docs/expressivity.md. No program 'heapsort'. It would need: slots, a match of slot "
        "2 i + 1. See docs/expressivity.md. Ask about fewer (algorithms), or let it look at a trained reasoner "
        '(reasoner = "trained").',
    ),
    ("train --set growing.models=transnr", "has no model 'transnr'. Did you mean 'transnar'"),
    ("eval results/transnar-demo --set sizes=ten", "sizes must be whole numbers of at least 4; got 'ten'."),
    ("eval results/transnar-demo --set evaluation.sizes=5", "No setting 'evaluation.sizes'. Valid: count, "),
]


@pytest.mark.parametrize(("typed", "says"), BAD_TYPED, ids=lambda x: x if "--" in x else "")
def test_what_is_typed_wrong_is_refused_in_words(typed: str, says: str) -> None:
    done = CliRunner().invoke(app, ["transnar", *typed.split()])
    assert isinstance(done.exception, ValueError | OSError)  # which end in their message
    assert says in str(done.exception)


def test_only_a_trained_reasoner_must_have_learned_what_is_asked() -> None:
    changes = {"algorithms": "bfs,dfs"}
    for study in (
        read_study("tiny", changes, looks_at="compiled"),
        read_study("tiny", changes, models=["transformer"]),
        read_study("tiny", {**changes, "reasoner.algorithms": "bfs,dfs", "reasoner.algorithms_per_step": 2}),
    ):
        assert all(config.algorithms == ("bfs", "dfs") for config in study.models.values())
    assert set(read_study("tiny", changes, looks_at="compiled").looks_at.values()) == {"compiled"}


def test_a_model_with_stand_ins_may_be_asked_about_more(tmp_path: Path) -> None:
    written = '[training]\nalgorithms = ["bfs", "dfs"]\n[reasoner]\nalgorithms = ["bfs"]\n[models.transnar]\n'
    (tmp_path / "my.toml").write_text(written)
    with pytest.raises(ValueError, match="is asked about dfs, and its reasoner learns bfs"):
        read_study(str(tmp_path / "my.toml"))
    (tmp_path / "my.toml").write_text(written + 'unseen = "stand_in"\n')
    assert list(read_study(str(tmp_path / "my.toml")).models) == ["transnar"]


def test_a_damaged_state_says_what_to_do(tmp_path: Path, groups: tuple[Group, ...]) -> None:
    place = tmp_path / PLAIN.name()
    place.mkdir()
    (place / loop.FILE.format(seed=0)).write_bytes(b"half of a")
    with pytest.raises(ValueError, match=r"state-0\.safetensors .* may be truncated\. Delete it to start again"):
        train_text_models(PLAIN, groups=groups, folder=tmp_path, quiet=True)
    save_state(place / loop.FILE.format(seed=0), loop.FORMAT, jnp.zeros(3), [0.5], step=2)
    with pytest.raises(ValueError, match=r"state-0\.safetensors is of another model; delete it to start again"):
        train_text_models(PLAIN, groups=groups, folder=tmp_path, quiet=True)


def test_a_model_that_diverges_is_named_and_not_kept(tmp_path: Path, groups: tuple[Group, ...]) -> None:
    config = replace(PLAIN, learning_rate=1e30, warmup=0, schedule="constant")
    said = r"Transformer, seed 0, diverged: after 6 steps with a learning rate of 1e\+30 .* --set learning_rate=1e\+29"
    with pytest.raises(ValueError, match=said):
        train_text_models(config, groups=groups, folder=tmp_path, quiet=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_held_out_tokens_count_alike(groups: tuple[Group, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch with few tokens of answers counts for few in the validation loss."""
    config = replace(PLAIN, train_share=0.5, tokens=64)  # one sequence in each batch
    corpus = corpus_of(config, groups, None)
    tokens: list[int] = []

    def loss(config: Any, pair: Any, batch: Any, kept: Any) -> Any:
        return jnp.sum(jnp.asarray(batch.wanted)[:, 1:]).astype(float)

    def batch(*given: Any) -> Any:
        made = batch_of(*given)
        tokens.append(int(made.wanted[:, 1:].sum()))
        return made

    monkeypatch.setattr(loop, "loss_of", loss)
    monkeypatch.setattr(loop, "batch_of", batch)
    found = loop.validation_loss(config, corpus, loop.Pair(loop.initial_model(config, None, 0), None))
    assert len({*tokens}) > 1
    assert found == pytest.approx(np.square(tokens).sum() / np.sum(tokens))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_somebody_at_a_terminal_is_told_what_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("minimum:\n"))
    with pytest.raises(ValueError, match="A question must be three lines"):
        text_models.answer_and_print(Path("nowhere"), None)
    said = capsys.readouterr()
    assert "a question of CLRS-Text, three lines, and end it with Ctrl-D" in said.err
    assert text.parse(said.err.partition("For example:\n")[2]).algorithm == "minimum"
    assert said.out == ""
    monkeypatch.setattr("sys.stdin", io.StringIO("minimum:\n"))
    with pytest.raises(ValueError, match="A question must be three lines"):
        text_models.answer_and_print(Path("nowhere"), None)
    assert capsys.readouterr().err == ""


def test_questions_are_answered_one_at_a_time() -> None:
    several = "".join(e.text for e in text.sample("minimum", 4, 2))
    done = CliRunner().invoke(app, ["transnar", "answer", "nowhere"], input=several)
    assert str(done.exception).startswith("One question at a time, which is three lines; got 2: minimum: minimum:")


def test_a_lone_value_stands_for_itself() -> None:
    """On the command line and in TOML alike."""
    changes = {"sizes": 5, "extra_sizes": 9, "buckets": 64, "algorithms": "bfs, minimum", "evaluation.sizes": 10}
    study = read_study("tiny", {**changes, "growing.sizes": 16, "growing.models": "transnar"})
    config = study.models["transnar"]
    assert (config.sizes, config.extra_sizes, config.buckets) == ((5,), (9,), (64,))
    assert config.algorithms == ("bfs", "minimum")
    assert (study.evaluation.sizes, study.grown) == ((10,), ("transnar",))
    assert study.growing == EvaluationConfig(sizes=(16,))
    assert TextTrainingConfig.from_settings({**SMALL, "algorithms": "bfs"}).algorithms == ("bfs",)
    listed = config.from_settings({**config.as_json()})
    assert (listed, listed.name()) == (config, config.name())


@pytest.mark.parametrize(("change", "says"), BAD)
def test_impossible_settings_are_refused(change: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TextTrainingConfig.from_settings({**SMALL, **change})


def test_what_does_not_fit_together_is_refused(groups: tuple[Group, ...], reasoner: SharedReasoner) -> None:
    with pytest.raises(ValueError, match="cross_attention = 'all' needs a reasoner; got none"):
        train_text_models(CONFIG)
    with pytest.raises(ValueError, match="cross_attention = 'none' needs no reasoner; got one"):
        train_text_models(PLAIN, reasoner)
    with pytest.raises(ValueError, match=r"does not know 'dfs'. Did you mean 'bfs'"):
        train_text_models(replace(CONFIG, algorithms=("dfs",)), reasoner)
    with pytest.raises(ValueError, match=r"has .* tokens, and the longest bucket is 24"):
        corpus_of(replace(CONFIG, buckets=(24,)), groups, None)
    with pytest.raises(ValueError, match="at least 4; got \\(3,\\)"):
        EvaluationConfig(sizes=(3,))
    with pytest.raises(FileNotFoundError, match="holds no trained text models"):
        load_text_models("nowhere")
