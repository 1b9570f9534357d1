"""Studies of text models: what sets models apart, whom they look at, who teaches them, and what they are asked."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import mechgap.training.transnar.distillation as distillation
import mechgap.training.transnar.evaluation as asking
import mechgap.training.transnar.loop as loop
import mechgap.training.transnar.reasoner as thinking
from mechgap.algorithms import text
from mechgap.cli import app
from mechgap.compiler import compile as compile_program
from mechgap.networks.slots import without_empty_slots
from mechgap.report import text_models
from mechgap.training.transnar import CompiledReasoner, EvaluationConfig, SharedReasoner, TextModels, TextTrainingConfig
from mechgap.training.transnar.data import (
    Group,
    Plan,
    batch_of,
    corpus_of,
    draw_groups,
    in_batches,
    kept_groups,
    positions_for,
)
from mechgap.training.transnar.distillation import answered, examples_of, share_right, taught_groups
from mechgap.training.transnar.evaluation import (
    _by_room,
    check_unseen,
    evaluate_growing,
    most_said,
    positions_to_answer,
)
from mechgap.training.transnar.exam import exam_file, exam_for, growing_exam, tokens_of
from mechgap.training.transnar.loop import Pair, initial_model, loss_of, memory_of, train_text_models, with_states
from mechgap.training.transnar.presets import read_study
from mechgap.training.transnar.reasoner import questions_asked
from mechgap.training.transnar.result import HALF, load_reasoner, save_reasoner
from mechgap.training.transnar.shared_reasoner import stand_in
from mechgap.training.transnar.study import load_study, notes_of, run_study, save_study
from mechgap.training.weights import named
from small_text_models import CONFIG, PLAIN, SMALL, made_reasoner


@pytest.fixture(scope="module")
def groups() -> tuple[Group, ...]:
    return draw_groups(CONFIG, quiet=True)


@pytest.fixture(scope="module")
def reasoner() -> SharedReasoner:
    return made_reasoner("minimum", "bfs")


@pytest.fixture(scope="module")
def exact() -> CompiledReasoner:
    names = ("minimum", "bfs")  # not as JAX would sort them
    return CompiledReasoner.of({n: compile_program(n, hidden=64, max_nodes=8, certify="none") for n in names}, frames=8)


# States that are kept


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shared", "compiled"])
def test_kept_states_are_those_that_are_asked_for(
    kind: str, groups: tuple[Group, ...], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinking, "QUESTIONS_AT_ONCE", 4)  # of 6 in a group: the last ones are filled up
    reasoner = request.getfixturevalue({"shared": "reasoner", "compiled": "exact"}[kind])
    asked = corpus_of(CONFIG, groups, reasoner)
    kept = with_states(CONFIG, asked, reasoner)
    pair, losses = Pair(initial_model(CONFIG, reasoner, 0), reasoner), []
    opened = jnp.ones_like(pair.model.crosses.gates)
    pair = pair._replace(model=replace(pair.model, crosses=replace(pair.model.crosses, gates=opened)))
    for corpus in (asked, kept):
        batch = batch_of(CONFIG, corpus, Plan(CONFIG, asked, 0).at(1), np.random.default_rng(0), reasoner)
        losses.append(float(loss_of(CONFIG, pair, batch, corpus.kept)))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert kept.kept is not None
    assert kept.kept.nodes.shape[0] == 24


def test_controls_are_what_they_are_called(reasoner: SharedReasoner, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model is given: whose states, at which positions, and whether it may look."""
    examples = [e for name in ("bfs", "minimum") for e in text.sample(name, 4, 4, seed=5)]
    of_question = {tuple(text.encode(e.question)): i for i, e in enumerate(examples)}
    own = thinking.question_states(reasoner, [text.parse(e.question) for e in examples], None)
    whose = asking._of_others(8, 0)
    seen: list[dict[str, Any]] = []

    def greedy(model: Any, ids: Any, lengths: Any, positions: Any, memory: Any, **more: Any) -> np.ndarray:
        rows = [of_question[tuple(row[1:n].tolist())] for row, n in zip(np.asarray(ids), lengths, strict=True)]
        seen.append(
            {"rows": rows, "positions": np.asarray(positions), "memory": memory, "opened": bool(more["opened"])}
        )
        return np.full((len(rows), 4), text.EOS)

    monkeypatch.setattr(asking, "greedy", greedy)
    model = initial_model(CONFIG, reasoner, 0)
    for name, control in asking.CONTROLS.items():
        seen.clear()
        asking.answers(model, CONFIG, reasoner, examples, EvaluationConfig(together=8), control)
        (given,) = seen
        assert sorted(given["rows"]) == list(range(8))
        shown = whose[given["rows"]] if name == "shuffled" else given["rows"]
        np.testing.assert_array_equal(given["memory"].nodes, own.nodes[shown])
        np.testing.assert_array_equal(given["memory"].edges, own.edges[shown])
        assert given["opened"] == (name != "gates shut")
        counted = given["positions"] == np.arange(given["positions"].shape[1])
        assert counted.all() == (name == "plain positions")
    seen.clear()
    asking.answers(model, replace(CONFIG, memory="shuffled"), reasoner, examples, EvaluationConfig(together=1))
    assert len(seen) == 8
    for given in seen:  # one at a time, and others' states all the same
        np.testing.assert_array_equal(given["memory"].nodes, own.nodes[whose[given["rows"]]])


@pytest.mark.parametrize("count", [2, 3, 4, 5, 64])
def test_everybody_sees_the_states_of_another_question(count: int) -> None:
    whose = asking._of_others(count, 0)
    assert sorted(whose.tolist()) == list(range(count))
    assert (whose != np.arange(count)).all()


def test_one_question_has_no_others(reasoner: SharedReasoner) -> None:
    (example,) = text.sample("bfs", 4)
    shuffled = asking.CONTROLS["shuffled"]
    with pytest.raises(ValueError, match="Shuffled states are those of another question; ask at least two"):
        asking.answers(initial_model(CONFIG, reasoner, 0), CONFIG, reasoner, [example], control=shuffled)
    assert asking.answers(initial_model(CONFIG, reasoner, 0), CONFIG, reasoner, []) == []
    assert asking.reasoner_answers(reasoner, []) == []


def test_a_model_of_shuffled_states_is_trained_on_those_of_others(
    groups: tuple[Group, ...], reasoner: SharedReasoner
) -> None:
    config = replace(CONFIG, memory="shuffled")
    corpus = with_states(config, corpus_of(config, groups, reasoner), reasoner)
    asked = jnp.array([3, 5, 1])
    shown = memory_of(config, reasoner, asked, corpus.kept)
    np.testing.assert_array_equal(shown.nodes, corpus.kept.nodes[jnp.array([5, 1, 3])])
    own = memory_of(CONFIG, reasoner, asked, corpus.kept)
    np.testing.assert_array_equal(own.nodes, corpus.kept.nodes[asked])


@pytest.mark.parametrize("kind", ["none", "last", pytest.param("all", marks=pytest.mark.slow)])
def test_how_far_gradients_go_into_a_reasoner(kind: str, reasoner: SharedReasoner) -> None:
    """Not at all; into its last step, so that what came before is a constant; or into all steps."""
    asked = questions_asked(reasoner, [text.parse(e.question) for e in text.sample("bfs", 4, 2)])
    weights, fixed = eqx.partition(reasoner, eqx.is_inexact_array)

    def total(learned: Any, other: Any, gradients: str) -> Any:
        """Of all steps but the last by some weights, and of the last by others."""
        one, before = (eqx.combine(w, fixed) for w in (learned, other))
        if gradients != "by hand":
            return jnp.sum(one.memory(asked, None, gradients).nodes ** 2)

        def states(number: Any, inputs: Any, size: Any) -> Any:
            present = jnp.arange(inputs["pos"].shape[-1]) < size
            hidden = before._states(before.net, number, inputs, present, one.frames - 1).nodes[-1]
            return one._states(one.net, number, inputs, present, 2, hidden).nodes[0]

        nodes = jax.vmap(states)(asked.numbers, asked.inputs, asked.sizes)
        return jnp.sum(nodes**2)

    gradient = eqx.filter_jit(jax.grad(total))
    found = jax.tree.leaves(gradient(weights, weights, kind))
    by_hand = jax.tree.leaves(gradient(weights, weights, "by hand"))
    alike = all(np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(found, by_hand, strict=True))
    assert alike == (kind == "last")
    assert any(np.abs(x).max() > 0 for x in found) == (kind != "none")


def test_every_question_is_thought_about_by_the_network_of_its_algorithm(
    groups: tuple[Group, ...], exact: CompiledReasoner, tmp_path: Path
) -> None:
    save_reasoner(tmp_path / "exact", exact)
    again = load_reasoner(tmp_path / "exact")
    assert again.algorithms == exact.algorithms == ("minimum", "bfs")
    assert [one.name for one in again.programs] == ["minimum", "bfs"]
    parts = {part.algorithm: part.at(np.arange(2)) for part in corpus_of(CONFIG, groups, exact).parts}
    places = {"bfs": np.array([0, 3]), "minimum": np.array([1, 2])}
    asked = exact.together([(parts[name], where) for name, where in places.items()], 4, nodes=6)
    found, *own = eqx.filter_jit(lambda r: [r.memory(asked), *(r.memory_of_one(name, asked) for name in places)])(exact)
    for where, one in zip(places.values(), own, strict=True):
        assert np.abs(found.nodes[where]).max() > 0
        np.testing.assert_allclose(found.nodes[where], one.nodes[where], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found.edges[where], one.edges[where], rtol=1e-5, atol=1e-5)


def test_states_that_learn_or_are_too_many_are_not_kept(
    groups: tuple[Group, ...], reasoner: SharedReasoner, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = corpus_of(CONFIG, groups, reasoner)
    assert with_states(replace(CONFIG, train_reasoner="all"), corpus, reasoner).kept is None
    assert with_states(CONFIG, corpus, reasoner).kept is not None
    monkeypatch.setattr(loop, "KEPT_BYTES", 1)
    assert with_states(CONFIG, corpus, reasoner).kept is None


@pytest.mark.parametrize(
    ("memory", "room"), [(None, 16), ({}, 16), ({"bytes_limit": 2**33}, 2), ({"bytes_limit": 2**37}, 16)]
)
def test_states_are_kept_in_a_quarter_of_the_device(memory: Any, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 GiB at most, and of a device of 8 GiB 2."""
    monkeypatch.setattr(jax, "local_devices", lambda: [SimpleNamespace(memory_stats=lambda: memory)])
    assert loop.room_for_states() == room * 2**30


# Algorithms that a reasoner never saw


def test_an_unseen_algorithm_is_thought_about_as_another_one() -> None:
    knows = made_reasoner("minimum", "bfs", "bellman_ford").with_stand_ins(["dfs", "bfs", "mst_prim"])
    assert knows.stand_ins == (("dfs", "bellman_ford"), ("mst_prim", "bellman_ford"))
    (prim,) = text.sample("mst_prim", 4)
    question = text.parse(prim.question)
    asked = questions_asked(knows, [question])
    twin = questions_asked(knows, [text.parse(prim.question.replace("mst_prim", "bellman_ford"))])
    assert jax.tree.all(jax.tree.map(np.array_equal, asked, twin))
    # Depth-first search has no source.
    (dfs,) = text.sample("dfs", 4)
    source = knows.slots.names["bellman_ford"]["s"]
    assert not questions_asked(knows, [text.parse(dfs.question)]).inputs[source].any()


def test_who_stands_in_has_all_inputs_and_few_more() -> None:
    slots = made_reasoner("bfs", "bellman_ford", "minimum").slots
    assert [stand_in(slots, name) for name in ("insertion_sort", "dijkstra", "dfs")] == [
        "minimum",
        "bellman_ford",
        "bellman_ford",
    ]
    with pytest.raises(
        ValueError, match=r"never saw 'graham_scan', and none .* \(pos, x, y\), so that none can stand in"
    ):
        stand_in(slots, "graham_scan")


def test_stand_ins_are_kept_with_the_reasoner(tmp_path: Path) -> None:
    knows = made_reasoner("bfs").with_stand_ins(["dfs"])
    save_reasoner(tmp_path / "r.safetensors", knows)
    again = load_reasoner(tmp_path / "r.safetensors")
    assert isinstance(again, SharedReasoner)
    assert again.stand_ins == (("dfs", "bfs"),)
    assert loop.digest(again) == loop.digest(knows)
    assert loop.digest(knows) != loop.digest(made_reasoner("bfs"))
    with pytest.raises(ValueError, match="does not know 'dfs'"):
        loop.check_pair(replace(CONFIG, algorithms=("dfs",)), made_reasoner("bfs"))


# Distillation

STUDENT = replace(PLAIN, sizes=(4,), extra_sizes=(5,), extra_samples=3, extra_answers="teacher")


def plain_teacher() -> TextModels:
    return TextModels(PLAIN, (initial_model(PLAIN, None, 0),), (None,), {}, {})


def test_a_student_learns_what_its_teacher_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def says(model: Any, config: Any, reasoner: Any, examples: list, evaluation: Any) -> list[str]:
        asked.append(len(examples))
        return [e.answer if e.algorithm == "bfs" else "7\n\n" for e in examples]

    monkeypatch.setattr(distillation, "answers", says)
    right = draw_groups(STUDENT, quiet=True)
    taught = taught_groups(STUDENT, right, plain_teacher(), "somebody", tmp_path)
    assert [(g.algorithm, g.size) for g in taught] == [("bfs", 4), ("minimum", 4), ("bfs", 5), ("minimum", 5)]
    by_kind = {(g.algorithm, g.size): g for g in right}
    for group in taught:
        same = [np.array_equal(a, b) for a, b in zip(group.ids, by_kind[group.algorithm, group.size].ids, strict=True)]
        assert all(same) or (group.algorithm, group.size) == ("minimum", 5)
    assert {e.answer for e in examples_of(taught[-1])} == {"7\n\n"}
    extra = [by_kind["bfs", 5], by_kind["minimum", 5]]
    assert share_right(taught[2:], extra) == {"5": pytest.approx(0.5)}
    again = taught_groups(STUDENT, right, plain_teacher(), "somebody", tmp_path)  # from the file
    assert asked == [6]
    assert all(map(np.array_equal, again[-1].ids, taught[-1].ids))


@pytest.mark.slow
def test_an_untrained_teacher_teaches_as_well(groups: tuple[Group, ...]) -> None:
    teacher = plain_teacher()
    (taught,) = answered(groups[:1], teacher)
    assert len(taught.ids) == len(groups[0].ids)
    said = asking.answers(teacher.models[0], teacher.config, None, examples_of(groups[0]))
    for ids, start, answer in zip(taught.ids, taught.starts, said, strict=True):
        assert ids[start:].tolist() == [*text.encode(answer), text.EOS]


def test_a_student_needs_its_questions() -> None:
    with pytest.raises(ValueError, match="the questions must be given: let a teacher answer them first"):
        train_text_models(STUDENT)


def test_extra_questions_are_all_learned_from() -> None:
    config = replace(STUDENT, extra_answers="right", train_share=0.5)
    corpus = corpus_of(config, draw_groups(config, quiet=True), None)
    assert len(corpus.train[64]) == 2 * 3 + 2 * 3  # half of six, and all of three, twice
    assert len(corpus.validation[64]) == 2 * 3


# What is asked


def test_an_exam_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = EvaluationConfig(sizes=(4,), count=2)
    drawn = exam_for(asked, ["minimum"], tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [exam_file(asked, ["minimum"])]
    monkeypatch.setattr(text, "sample", None)
    again = exam_for(asked, ["minimum"], tmp_path)
    assert again.examples == drawn.examples
    assert again.exact == drawn.exact
    assert drawn.exact["by_size"]["4"][-1]["clrs"] == 1


@pytest.mark.slow
def test_n_grows_until_the_context_is_full() -> None:
    asked = EvaluationConfig(sizes=(4, 5, 8, 16), count=2)
    config = replace(PLAIN, context=64, buckets=(64,))
    exam = growing_exam(asked, config.algorithms, config.context)
    assert all(sum(tokens_of(e)) <= 64 for e in exam.examples)
    assert {e.length for e in exam.examples if e.algorithm == "bfs"} == {4, 5}
    result = TextModels(config, (initial_model(config, None, 0),), (None,), {}, {})
    found = evaluate_growing(result, asked, exam=exam)
    assert found["last"] == {"bfs": 5, "minimum": 8}
    assert found["too_long"] == {"bfs": 8, "minimum": 16}
    assert {n: [row["name"] for row in rows] for n, rows in found["models"][0]["by_size"].items()} == {
        "4": ["bfs", "minimum", "mean"],
        "5": ["bfs", "minimum", "mean"],
        "8": ["minimum", "mean"],
    }


@pytest.mark.parametrize("context", [64, 128, 300, 1024])
def test_there_is_room_for_every_answer_that_fits(context: int) -> None:
    examples = [e for n in (4, 5) for name in ("bfs", "minimum") for e in text.sample(name, n)]
    for (room, new), places in _by_room(examples, context).items():
        assert room + new <= context
        for asked, said in (tokens_of(examples[i]) for i in places):
            assert asked <= room
            assert said <= new


def test_positions_of_questions_lie_as_far_apart_as_in_training() -> None:
    """Whatever else is asked: drawn for the bucket, by the question alone, and none twice."""
    config = replace(CONFIG, random_positions=True, buckets=(64, 128, 256), context=512, max_position=8192)
    examples = [e for name, n in (("minimum", 4), ("bfs", 8)) for e in text.sample(name, n, count=20)]
    buckets = [config.bucket(sum(tokens_of(e))) for e in examples]
    assert len(set(buckets)) > 1
    at = positions_to_answer(config, examples, 300, seed=0)
    assert at.shape == (40, 300)
    assert (at.min() >= 0, at.max()) == (True, config.max_position - 1)
    for row, bucket, example in zip(at, buckets, examples, strict=True):
        used = max(bucket, tokens_of(example)[0] + most_said(example))
        assert np.all(np.diff(row[:used]) > 0)
        assert np.all(row[used:] == config.max_position - 1)  # padding
    rng = np.random.default_rng(1)
    for bucket in set(buckets):
        ours = np.diff(at[np.equal(buckets, bucket)][:, :bucket]).mean()
        trained = np.diff(positions_for(config, rng, bucket, 100)).mean()
        assert ours == pytest.approx(trained, rel=0.02), bucket
    assert np.any(positions_to_answer(config, examples[-1:], 300, seed=1) != at[-1])
    counted = positions_to_answer(config, examples, 300, seed=0, drawn=False)
    np.testing.assert_array_equal(counted, np.tile(np.arange(300), (40, 1)))


@pytest.mark.parametrize("length", [40, 160, 512, 1024])
def test_positions_are_those_of_the_question_alone(length: int) -> None:
    """However much room answers are given, which other questions of a call decide."""
    config = replace(CONFIG, random_positions=True, buckets=(64, 128, 256), context=1024, max_position=1024)
    for name, n in (("minimum", 4), ("bfs", 8), ("insertion_sort", 16)):
        examples = text.sample(name, n, count=3)
        at, other = (positions_to_answer(config, examples, size, seed=0) for size in (length, 300))
        some = min(length, 300)
        np.testing.assert_array_equal(at[:, :some], other[:, :some])
        alone = positions_to_answer(config, examples[1:2], length, seed=0)
        np.testing.assert_array_equal(alone[0], at[1])


def test_answers_to_questions_together_are_those_to_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model with random weights, which says something else at other positions."""
    config = replace(PLAIN, random_positions=True, buckets=(32, 64), context=192, max_position=512)
    rng, shapes = np.random.default_rng(4), initial_model(config, None, 0)
    model = jax.tree.map(lambda w: jnp.asarray(rng.normal(size=w.shape), jnp.float32), shapes)
    examples = [*text.sample("minimum", 4, seed=5), *text.sample("bfs", 5, seed=5)]
    monkeypatch.setattr(asking, "ANSWERS", (10, 20, 40))
    assert len({asking.room_for(e, config.context) for e in examples}) == 2  # together both have that of the longer one
    together = asking.answers(model, config, None, examples)
    alone = [asking.answers(model, config, None, [example])[0] for example in examples]
    assert together == alone
    elsewhere = asking.answers(model, config, None, examples, EvaluationConfig(position_seed=1))
    assert together != elsewhere


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7])
def test_behind_every_question_of_a_batch_stands_another(count: int) -> None:
    """A model of shuffled states learns from those of the next question, which must not be the same one."""
    rows = {64: np.stack([np.zeros(count, int), np.arange(count)], axis=1)}
    batches = in_batches(replace(CONFIG, tokens=4 * 64), rows)
    asked = [int(row) for batch in batches for row in batch.rows[batch.counted, 1]]
    assert asked == list(range(count))
    for batch in batches:
        own, seen = batch.rows[:, 1], np.roll(batch.rows[:, 1], -1)  # as `shuffled` does
        assert (own != seen)[batch.counted].all()


def test_a_bucket_with_one_question_cannot_be_shuffled(groups: tuple[Group, ...]) -> None:
    few = tuple(replace(group, ids=group.ids[:1]) for group in groups[:1])
    shuffled, said = (
        replace(CONFIG, memory="shuffled"),
        r"in the bucket of 64 one stands alone. Raise tokens to at least 128",
    )
    with pytest.raises(ValueError, match=said):
        corpus_of(shuffled, few, None)
    with pytest.raises(ValueError, match=said):
        corpus_of(replace(shuffled, tokens=127), groups, None)
    assert len(corpus_of(CONFIG, few, None).train[64]) == 1
    held = replace(groups[0], ids=groups[0].ids[:3])
    assert len(corpus_of(replace(CONFIG, train_share=0.7), (held,), None).validation[64]) == 1
    assert not corpus_of(replace(shuffled, train_share=0.7), (held,), None).validation


def test_one_question_is_refused_before_training() -> None:
    asked = {"algorithms": "bfs", "evaluation.sizes": 6, "evaluation.count": 1}
    with pytest.raises(ValueError, match=r"The model 'transnar' is asked one question, .* raise count of the eval"):
        read_study("tiny", asked)


@pytest.mark.slow
def test_a_model_that_diverges_does_not_end_its_study(tmp_path: Path) -> None:
    """The others are trained and asked, and what is missing is said at the end."""
    written = """
[training]
algorithms = ["bfs"]
sizes = [4]
samples = 4
buckets = [64]
tokens = 256
steps = 2
schedule = "constant"
warmup = 0
width = 8
layers = 1
heads = 2
hidden = 8
context = 128
cross_attention = "none"
[models.lost]
learning_rate = 1e30
[models.student]
teacher = "lost"
extra_answers = "teacher"
extra_sizes = [5]
extra_samples = 2
[models.sound]
[evaluation]
sizes = [5]
count = 2
"""
    (tmp_path / "my.toml").write_text(written)
    with pytest.raises(ValueError, match=r"(?s)lost: Transformer, seed 0, diverged.*student has no teacher: lost div"):
        run_study(read_study(str(tmp_path / "my.toml")), tmp_path / "runs", quiet=True)
    assert list(load_study(tmp_path / "runs")) == ["sound"]


def test_what_was_trained_on_is_not_asked() -> None:
    trained = TextTrainingConfig(algorithms=("bfs",), sizes=(4, 5), data_seed=3)
    with pytest.raises(ValueError, match=r"Questions of n = 5 from the seed 3 are those of training. Give another"):
        check_unseen(trained, EvaluationConfig(sizes=(5, 6), seed=3))
    check_unseen(trained, EvaluationConfig(sizes=(6,), seed=3))
    check_unseen(trained, EvaluationConfig(sizes=(5,), seed=4))


@pytest.mark.parametrize("table", ["evaluation", "growing"])
def test_questions_of_training_are_refused_before_it(table: str) -> None:
    asked = {f"{table}.sizes": [5], f"{table}.seed": 0}
    grown = {"growing.models": "transnar"} if table == "growing" else {}
    with pytest.raises(ValueError, match=r"Questions of n = 5 from the seed 0 are those of training"):
        read_study("tiny", {"sizes": 5, **asked, **grown})


def test_a_teacher_has_no_teacher(tmp_path: Path) -> None:
    taught = 'extra_answers = "teacher"\nextra_sizes = [9]\n'
    models = f'[models.one]\n[models.two]\nteacher = "one"\n{taught}[models.three]\nteacher = "two"\n{taught}'
    (tmp_path / "my.toml").write_text(models)
    with pytest.raises(ValueError, match=r"The teacher of 'three', 'two', has a teacher itself. .* name one of one\."):
        read_study(str(tmp_path / "my.toml"))
    (tmp_path / "my.toml").write_text(f'[models.one]\nteacher = "one"\n{taught}')
    with pytest.raises(ValueError, match=r"The teacher of 'one', 'one', has a teacher itself"):
        read_study(str(tmp_path / "my.toml"))


def test_a_reasoner_that_knows_none_of_the_questions_is_not_asked(reasoner: SharedReasoner) -> None:
    config = replace(CONFIG, algorithms=("dfs",), unseen="stand_in")
    stands_in = reasoner.with_stand_ins(config.algorithms)
    result = TextModels(config, (initial_model(config, stands_in, 0),), (stands_in,), {}, {})
    scores = asking.evaluate(result, EvaluationConfig(sizes=(6,), count=2))
    assert "reasoner" not in scores
    assert scores["models"]["as trained"][0]["by_size"]["6"][0]["name"] == "dfs"


# Studies


def test_the_quick_study_is_the_large_one_made_small() -> None:
    quick, large = read_study("quick"), read_study("h200")
    assert list(quick.models) == list(large.models)
    assert quick.teachers == large.teachers == {"student": "transnar"}
    assert quick.looks_at["transnar_compiled"] == large.looks_at["transnar_compiled"] == "compiled"
    assert [quick.models[n].seeds for n in quick.models] == [large.models[n].seeds for n in large.models]
    assert large.models["transnar_eight"] == large.models["transnar_compiled"]  # alike but for the reasoner


def test_a_student_comes_with_its_teacher() -> None:
    assert list(read_study("quick", models=["student"]).models) == ["transnar", "student"]


BAD_STUDIES = [
    ('[models.a]\nreasoner = "compild"', "has no reasoner 'compild'. Did you mean 'compiled'"),
    ('[models.a]\nteacher = "b"\nextra_answers = "teacher"\nextra_sizes = [9]', "has no model 'b'"),
    ('[models.a]\n[models.b]\nteacher = "a"', 'must have both a teacher and extra_answers = "teacher"'),
    ('[models.a]\nextra_answers = "teacher"\nextra_sizes = [9]', "must have both a teacher"),
    ('[growing]\nmodels = ["b"]\nsizes = [16]\n[models.a]', "has no model 'b'"),
    ("[grow]\nsizes = [16]", "A study has the tables .*; got 'grow'"),
]


@pytest.mark.parametrize(("written", "says"), BAD_STUDIES)
def test_impossible_studies_are_refused(written: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(f'[training]\nalgorithms = ["bfs"]\n{written}\n')
    with pytest.raises(ValueError, match=says):
        read_study(str(tmp_path / "my.toml"))


BAD = [
    ({"extra_sizes": (3,)}, "extra_sizes must be rising whole numbers of at least 4"),
    ({"extra_sizes": (5, 6)}, "extra_sizes must be none of sizes; got 5 in both"),
    ({"extra_samples": 0}, "extra_samples must be a whole number of at least 1; got 0"),
    ({"extra_answers": "techer"}, "extra_answers must be one of 'right', 'teacher'; got 'techer'"),
    ({"extra_answers": "teacher"}, 'extra_answers = "teacher" needs extra_sizes'),
    ({"unseen": "guess"}, "unseen must be one of 'refuse', 'stand_in'; got 'guess'"),
    (
        {"cross_attention": "none", "unseen": "stand_in"},
        "sees no reasoner: leave train_reasoner, memory and unseen out",
    ),
]


@pytest.mark.parametrize(("change", "says"), BAD)
def test_impossible_settings_are_refused(change: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TextTrainingConfig.from_settings({**SMALL, **change})


# Models that are kept beside the source


@pytest.fixture
def packed(tmp_path: Path, reasoner: SharedReasoner) -> Path:
    done = {}
    for name, config in (("transformer", PLAIN), ("transnar", CONFIG)):
        mine = reasoner if config.looks else None
        done[name] = TextModels(config, (initial_model(config, mine, 0),), (mine,), {}, {"parameters": 1})
    save_study(tmp_path / "study", done)
    return tmp_path / "study"


def test_a_reasoner_of_half_the_size_thinks_the_same(tmp_path: Path) -> None:
    reasoner = made_reasoner("minimum", "bfs", hidden=32)
    save_reasoner(tmp_path / "full", reasoner)
    save_reasoner(tmp_path / "half", reasoner, HALF)
    weights = sum(x.nbytes for x in without_empty_slots(named(reasoner), reasoner.slots).values())
    full, half = ((tmp_path / name).stat().st_size for name in ("full", "half"))
    assert weights < full < weights + 10_000  # the header
    assert abs(full - half - weights // 2) < 100
    rounded, same = (load_reasoner(tmp_path / name) for name in ("half", "full"))
    for one, tolerance in ((rounded, 2**-8), (same, 0)):
        assert isinstance(one, SharedReasoner)
        for number in range(2):
            nets = [jax.tree.leaves(found.net.network(number)) for found in (one, reasoner)]
            assert all(np.allclose(a, b, rtol=tolerance, atol=0) for a, b in zip(*nets, strict=True))


def test_packed_models_are_small_and_come_with_questions(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = EvaluationConfig(sizes=(4,), count=1)
    monkeypatch.setattr(text_models, "DEMO_ASKED", asked)
    run, out = CliRunner().invoke, tmp_path / "demo"
    said = run(app, ["transnar", "pack", str(packed), str(out)], catch_exceptions=False).output
    assert "packed transformer, transnar" in " ".join(said.split())
    assert {p.name for p in out.iterdir()} == {
        *("transformer", "transnar", "study-transformer.json", "study-transnar.json"),
        exam_file(asked, CONFIG.algorithms),
    }
    assert list(load_study(out)) == ["transformer", "transnar"]
    assert json.loads((out / "transnar" / "manifest.json").read_text())["weights"] == HALF
    assert [note["number"] for note in notes_of(out).values()] == [0, 1]
    with pytest.raises(ValueError, match="holds something; give a folder that is new or empty"):
        text_models.pack_and_print(packed, out, None)
    with pytest.raises(ValueError, match=r"has no model 'transnr'. Did you mean 'transnar'"):
        text_models.pack_and_print(packed, tmp_path / "other", "transnr")
    monkeypatch.setattr(text_models, "MOST_MIB", 0)
    with pytest.raises(ValueError, match=r"take 0\.\d MiB in half precision, and 0 MiB may be kept"):
        text_models.pack_and_print(packed, tmp_path / "third", "transformer")
    assert not (tmp_path / "third").exists()


def test_the_models_that_come_along_are_those_of_the_preset() -> None:
    place = text_models.demo_folder()
    assert place is not None
    assert sum(p.stat().st_size for p in place.rglob("*") if p.is_file()) <= text_models.MOST_MIB * 2**20
    study, done = read_study("demo"), load_study(place)
    assert {name: result.config for name, result in done.items()} == study.models
    assert (place / exam_file(text_models.DEMO_ASKED, study.models["transnar"].algorithms)).exists()


@pytest.mark.parametrize("ways", [1, 4])
def test_scores_fit_into_eighty_columns(
    ways: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every word and number whole, and one score per line."""
    monkeypatch.setenv("COLUMNS", "80")
    place = text_models.demo_folder()
    assert place is not None
    metrics = {name: json.loads((place / name / "metrics.json").read_text()) for name in ("transformer", "transnar")}
    scores = {name: found["scores"] for name, found in metrics.items()}
    for found in scores.values():
        (runs,) = found["models"].values()
        found["models"] = dict.fromkeys(list(asking.CONTROLS)[:ways], runs)
    manifest = {"parameters": 1_119_450}
    done = {name: TextModels(PLAIN, (), (), {}, manifest) for name in scores}
    text_models.print_scores(scores, done)
    said = capsys.readouterr().out
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= 80
    rows = [line.replace("│", " ").split() for line in said.splitlines()]
    means = [[scores[name]["models"]["as trained"][0]["by_size"][n][-1] for n in ("10", "12", "14")] for name in scores]
    for key, label in (("clrs", "CLRS"), ("shape", "shape"), ("parse", "parse")):
        for three in means:
            cells = [label, *(f"{100 * row[key]:.1f}" for row in three)]
            assert any(" ".join(cells) in " ".join(row) for row in rows), cells
    for words in ("transformer", "1.12 M weights", "best constant answer", "n = 10", "n = 14"):
        assert words in said
    assert ("asked" in said) == (ways > 1)


@pytest.mark.slow
def test_the_demonstration_shows_questions_answers_and_scores() -> None:
    said = CliRunner().invoke(app, ["transnar", "demo"], catch_exceptions=False).output
    for name in read_study("demo").models["transnar"].algorithms:
        assert f"{name}:" in said
    for shown in ("transformer", "transnar", "reasoner", "best", "n = 14"):
        assert shown in said


@pytest.mark.slow
def test_answers_about_what_was_never_learned_are_called_so() -> None:
    (bfs,) = text.sample("bfs", 4)
    for question, learned in ((bfs.question, False), ("minimum:\nkey: [0.5 0.25 0.75]\nmin:\n", True)):
        words = ["transnar", "answer", "results/transnar-demo"]
        done = CliRunner(env={"COLUMNS": "200"}).invoke(app, words, input=question)
        assert done.exit_code == 0, done.output
        assert ("None of these models learned bfs: their answers say nothing." in done.output) != learned


def test_questions_are_shared_by_studies_of_fewer_algorithms(tmp_path: Path) -> None:
    kept_groups(CONFIG, tmp_path, quiet=True)
    before = sorted(p.name for p in tmp_path.iterdir())
    fewer = kept_groups(replace(CONFIG, algorithms=("minimum",)), tmp_path, quiet=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert {g.algorithm for g in fewer} == {"minimum"}
