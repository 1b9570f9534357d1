"""Training on sequences: trace supervision, end to end, and the gap of Transformers; all at tiny sizes."""

import json
import math
import random
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import mechgap as mg
from mechgap.cli import app
from mechgap.faithfulness import sequence_study, sequences
from mechgap.faithfulness.minimal_programs import generalisation
from mechgap.faithfulness.sequence_networks import NETWORKS, load_sequence_networks
from mechgap.faithfulness.sequence_presets import SequenceStudy, sequence_studies
from mechgap.faithfulness.sequence_result import SHARPNESSES, read_result, with_heads
from mechgap.faithfulness.sequence_study import (
    PROGRAMS,
    measured_texts,
    parity_program,
    run_missing,
    run_sequence_study,
    with_start,
)
from mechgap.faithfulness.sequences import (
    HeadDistances,
    Meant,
    Probes,
    measure_gap,
    observe_transformer,
)
from mechgap.networks import transformer
from mechgap.networks.encoder_decoder import EncoderDecoder
from mechgap.networks.transformer import (
    BUCKETS,
    EACH,
    Transformer,
    TransformerConfig,
    TransformerSize,
    attend,
    by_distance,
    places_of_distances,
    run_batch,
    run_layers,
)
from mechgap.programs.alta_stream import StreamLayout
from mechgap.programs.library.scan_divergence import Composition, chernoff_divergence, divergence_split, divergences
from mechgap.programs.library.scan_grammar import (
    REDUCTIONS,
    Derivation,
    actions,
    all_commands,
    derivation,
    length_split,
    random_split,
)
from mechgap.programs.tasks import PARITY_TESTS, addition_task, answers, bits, parity_task, right, scan_task, task_of
from mechgap.report.alta_curves import trainings
from mechgap.report.alta_learning import learn
from mechgap.report.alta_summary import how_training_went
from mechgap.report.paper import alta
from mechgap.report.paper.alta import alta_items, alta_table, run_alta_item
from mechgap.report.paper.document import document
from mechgap.training.checkpoint import write_json
from mechgap.training.many import ENOUGH, Recipe, Trained, learning_rate, optimiser_of, train_many
from mechgap.training.sequences.end_to_end import (
    START,
    ParitySize,
    draw_bits,
    of_layers,
    parity_logits,
    predictions,
    train_parity,
)
from mechgap.training.sequences.probed import Executions, ProbedSize, run_probed, train_probed
from mechgap.training.sequences.rules import RULES
from mechgap.training.sequences.scan import WRITINGS, Commands, ScanSize, action_logits, scan_right, train_scan
from mechgap.training.sequences.supervise import MlpSize, gentler, supervise, vector_accuracy, with_mlp
from mechgap.training.sequences.traces import left_undefined, trace_vectors
from sequence_folders import curves, gap, write_result

RESULTS = Path(__file__).parents[1] / "results"
TINY = {"width": 32, "hidden": 64, "heads": 2, "head_width": 16, "train_length": 3, "test_length": 6}


# Tasks


def test_bits_have_every_number_of_ones_equally_often() -> None:
    drawn = bits(random.Random(0), 6, 5)
    assert [sum(t.count("1") == k for t in drawn) for k in range(7)] == [5] * 7
    assert max(map(len, drawn)) <= 6
    task = parity_task(6, 12, each=5)
    assert all(len(t) <= 6 for t in task.train)
    assert all(len(t) > 6 for t in task.tests["length > 6"])
    assert all(t.count("1") > 6 for t in task.tests["ones > 6"])
    assert task.answer("0110") == "0"


def test_longer_texts_have_every_number_of_ones_equally_often() -> None:
    """Figure 4: lengths 21 to 40. A part of all tests would have more ones in most of them: these need more room."""
    longer = parity_task(each=10).tests["length > 20"]
    assert {len(text) for text in longer} == set(range(21, 41))
    assert Counter(text.count("1") for text in longer) == dict.fromkeys(range(41), 10)


def test_what_the_minimal_sum_program_can_get_of_longer_texts() -> None:
    """Up to 20 ones, and, of more, the even ones, since parity starts as 0: 21 + 10 of 41 numbers of ones."""
    task = parity_task(each=3)
    small = mg.minimal(mg.program("parity_sum_mod_2", ones=40), task.train)
    share = right(small, task, task.tests["length > 20"]).mean()
    assert share == pytest.approx(31 / 41)
    documented = (Path(__file__).parents[1] / "docs/learnability.md").read_text()
    assert f"{share:.1%}".replace("%", " %") in documented


def test_other_tasks() -> None:
    task = addition_task(2, 5, count=20)
    assert len(task.train) == 20
    assert all(len(number) <= 2 for t in task.train for number in t.split("+"))
    assert task.answer("99+1") == "100"
    assert len(scan_task("length").train) == 16_990
    assert right(mg.program("addition"), task, task.tests["digits 3 to 5"]).all()


# Splits of SCAN


def test_divergence_by_hand() -> None:
    """p = (3/4, 1/4, 0), q = (1/4, 1/4, 1/2)."""
    train, test = np.array([3.0, 1.0, 0.0]), np.array([1.0, 1.0, 2.0])
    assert chernoff_divergence(train, test, 0.5) == pytest.approx(1 - (3**0.5 / 4 + 1 / 4))
    assert chernoff_divergence(train, test, 0.1) == pytest.approx(1 - (0.75**0.1 * 0.25**0.9 + 0.25))
    assert chernoff_divergence(train, 7 * train, 0.1) == pytest.approx(0)


def test_atoms_and_compounds_by_hand() -> None:
    texts = ["walk twice", "walk left twice", "run left", "walk"]
    made = Composition.of(texts)
    assert made.names == ("((walk) left) twice", "(S left) twice", "(run) left", "(walk) left", "(walk) twice")
    # rules in order: S left, S twice, run, walk
    np.testing.assert_array_equal(made.atoms, [[0, 1, 0, 1], [1, 1, 0, 1], [1, 0, 1, 0], [0, 0, 0, 1]])
    called = np.array([*made.names, ""])[made.compounds]
    weighed = [dict(zip(names, w, strict=True)) for names, w in zip(called, made.weights, strict=True)]
    assert weighed[0] == {"(walk) twice": 1.0, "": 0.0}
    # "(walk) left" and "(S left) twice" occur once, inside the larger one: what they are worth is in that.
    assert weighed[1] == {"((walk) left) twice": 1.0, "(S left) twice": 0.0, "(walk) left": 0.0}
    assert weighed[2] == {"(run) left": 1.0, "": 0.0}
    apart = made.divergences([0, 1], [2, 3])
    # atoms (1, 2, 0, 2) / 5 and (1, 0, 1, 1) / 3; compounds have nothing in common
    assert apart.atoms == pytest.approx(1 - ((1 / 15) ** 0.5 + (2 / 15) ** 0.5))
    assert apart.compounds == 1.0
    # compounds (1/2, 1/2) and (0, 1), of "(walk) twice" and the larger one
    assert made.divergences([0, 1], [1]).compounds == pytest.approx(1 - 0.5**0.1)


def test_what_a_compound_weighs_is_what_it_has_of_its_own() -> None:
    """Half of "(S left) twice" is inside "((walk) left) twice", a third of "(walk) left" is."""
    texts = ["walk left twice", "run left twice", "walk left", "walk left thrice"]
    made = Composition.of(texts)
    of_first = {made.names[n]: w for n, w in zip(made.compounds[0], made.weights[0], strict=True)}
    assert of_first["(S left) twice"] == pytest.approx(1 / 2)
    assert of_first["(walk) left"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("command", ["jump", "turn opposite left", "run around right thrice after look left"])
def test_a_derivation_makes_its_command(command: str) -> None:
    def written(made: Derivation) -> str:
        assert made.rule in REDUCTIONS
        texts = iter(written(child) for child in made.children)
        return " ".join(next(texts) if word == "S" else word for word in made.rule.split())

    assert written(derivation(command)) == command


@pytest.mark.slow
def test_our_divergence_split() -> None:
    """Atoms are alike and compounds are not; a random split of the same size has both alike."""
    task = scan_task("divergence")
    (name, test), train = *task.tests.items(), task.train
    assert name == "test of the divergence split"
    assert (len(set(train)), len(set(test)), len({*train, *test})) == (8365, 1045, 9410)
    assert {*train, *test} <= all_commands()
    words = {word for command in train for word in command.split()}
    assert words == {word for command in all_commands() for word in command.split()}
    apart = divergences(train, test)
    assert apart.atoms < 0.02
    drawn, others = random_split(0)
    alike = divergences(drawn[: len(train)], others[: len(test)])
    assert alike.compounds < 0.01 < 0.5 < apart.compounds
    documented = (Path(__file__).parents[1] / "docs/learnability.md").read_text()
    assert f"| divergence (ours) | 8 365 | 1 045 | {apart.atoms:.3f} | {apart.compounds:.3f} |" in documented
    length = divergences(*length_split())
    assert f"| length | 16 990 | 3 920 | {length.atoms:.3f} | {length.compounds:.3f} |" in documented
    whole = divergences(drawn, others)
    assert f"| random | 16 728 | 4 182 | {whole.atoms:.3f} | {whole.compounds:.3f} |" in documented


@pytest.mark.slow
def test_the_split_depends_on_its_seed_alone() -> None:
    first, other = divergence_split(0), divergence_split(1)
    divergence_split.cache_clear()
    assert divergence_split(0) == first != other
    assert divergences(*other).atoms < 0.02
    assert divergences(*other).compounds > 0.5


def test_a_published_split_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"No file data/scan/mcd2.json: .* tasks.txt that it numbers beside it"):
        scan_task("mcd2")
    (tmp_path / "data/scan").mkdir(parents=True)
    (tmp_path / "data/scan/tasks.txt").write_text("IN: jump OUT: I_JUMP\nIN: turn left OUT: I_TURN_LEFT\n")
    (tmp_path / "data/scan/mcd2.json").write_text('{"trainIdxs": [1], "testIdxs": [0]}')
    for split in ("mcd2", str(tmp_path / "data/scan/mcd2.json")):
        task = scan_task(split)
        assert (task.train, dict(task.tests)) == (("turn left",), {"test of the mcd2 split": ("jump",)})
        assert task.answer("turn left") == "LTURN"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: parity_task(5, 5), "1 <= train < test; got 5 and 5"),
        (lambda: parity_task(1, 2, each=1), "With 1 texts for every number of ones none has length <= 1. Give more"),
        (lambda: addition_task(0), "1 <= train < test; got 0 and 50"),
        (lambda: scan_task("mcd"), "random, divergence, or as published: mcd1, .*; got 'mcd'"),
        (lambda: task_of(mg.program("reverse")), "no task with a training set for 'reverse'"),
        (lambda: ParitySize(positions="sinusoidal"), "relative or absolute; got 'sinusoidal'"),
        (lambda: ParitySize(train_length=9, test_length=9), "1 <= train < test; got 9 and 9"),
        (lambda: ParitySize(distances="all"), "distances must be buckets or each; got 'all'"),
        (lambda: ScanSize(precision="half"), "one of bfloat16, BF16_BF16_F32, default, highest; got 'half'"),
        (lambda: Recipe(0, 1, 0.1), "steps must be at least 1; got 0"),
        (lambda: ScanSize(tokens="bytes"), "tokens must be words or pieces; got 'bytes'"),
        (lambda: Recipe(1, 1, 0.1, optimiser="sgd"), "one of adam, adafactor; got 'sgd'"),
        (lambda: Recipe(1, 1, 0.1, schedule="cosine"), "schedule must be constant or decay; got 'cosine'"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# The network that gets trained


@pytest.mark.parametrize(("shared", "causal"), [(True, False), pytest.param(False, True, marks=pytest.mark.slow)])
def test_both_ways_to_run_a_transformer_agree(shared: bool, causal: bool) -> None:
    size = TransformerSize(5, 3, 16, 32, 2, 8, layers=3, positions=7, biases=5)
    config = TransformerConfig(shared=shared, causal=causal, activation="gelu", precision="highest")
    net = Transformer.init(size, config, key=jax.random.key(0))
    ids, lengths = jnp.array([[1, 2, 3, 4, 0], [4, 4, 0, 0, 0]]), jnp.array([5, 2])
    one = jax.jit(jax.vmap(lambda i, n: run_layers(net, i, n, layers=3)))(ids, lengths)
    other = jax.jit(lambda: run_batch(net, ids, lengths, layers=3).stream)()
    np.testing.assert_allclose(one, other, atol=1e-5)
    longer = jax.vmap(lambda i, n: run_layers(net, i, n, layers=3))(jnp.pad(ids, ((0, 0), (0, 2))), lengths)
    np.testing.assert_allclose(longer[1, :2], one[1, :2], atol=1e-5)  # what lies beyond a length is not looked at
    changed = jax.vmap(lambda i, n: run_layers(net, i, n, layers=3))(ids.at[0, 4].set(1), lengths)
    assert np.allclose(changed[0, :4], one[0, :4], atol=1e-5) == causal


FAR = (0, 1, 7, 8, 11, 12, 15, 16, 22, 23, 31, 32, 64, 127, 500)


def test_buckets_of_distances_are_t5s() -> None:
    """By hand: 8 + floor(8 ln(n / 8) / ln 16), and of the past alone 16 + floor(16 ln(n / 16) / ln 8)."""
    far = np.array(FAR)
    before = np.array([0, 1, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 14, 15, 15])
    behind = before + 16 * (far > 0)  # keys behind the query have the other half
    assert places_of_distances(-far, 32, BUCKETS, causal=False).tolist() == before.tolist()
    assert places_of_distances(far, 32, BUCKETS, causal=False).tolist() == behind.tolist()
    past = [0, 1, 7, 8, 11, 12, 15, 16, 18, 18, 21, 21, 26, 31, 31]
    assert places_of_distances(-far, 32, BUCKETS, causal=True).tolist() == past
    assert not places_of_distances(far, 32, BUCKETS, causal=True).any()  # what is behind is not looked at


def test_which_longer_texts_use_biases_that_were_trained() -> None:
    """START and 20 bits are up to 20 apart, which is in the bucket from 16 to 22; those beyond are not trained."""
    trained = set(places_of_distances(np.arange(-20, 21), 32, BUCKETS, causal=False).tolist())
    longer = {n: set(places_of_distances(np.arange(-n, n + 1), 32, BUCKETS, causal=False).tolist()) for n in (22, 23)}
    assert longer[22] == trained
    assert longer[23] - trained == {11, 27}
    written = set(places_of_distances(-np.arange(23), 32, BUCKETS, causal=True).tolist())
    assert max(written) == 18
    assert set(places_of_distances(-np.arange(49), 32, BUCKETS, causal=True).tolist()) - written == set(range(19, 25))


def test_exact_distances_end_at_their_span() -> None:
    assert places_of_distances(np.array([-9, -2, -1, 0, 1, 2, 9]), 5, EACH, causal=False).tolist() == [
        0,
        0,
        1,
        2,
        3,
        4,
        4,
    ]
    for distances in (EACH, BUCKETS):
        assert not places_of_distances(np.array([-9, 0, 9]), 1, distances, causal=False).any()
    np.testing.assert_array_equal(by_distance(jnp.array([[1.0, 2.0, 3.0]]), 3), [[[2, 3, 3], [1, 2, 3], [1, 1, 2]]])


@pytest.mark.parametrize("positions", ["relative", "absolute"])
def test_trained_networks_have_buckets(positions: str) -> None:
    small = {"width": 8, "hidden": 8, "heads": 2, "head_width": 4, "positions": positions}
    parity = ParitySize(**small, layers=3).transformer(jax.random.key(0))
    scan = ScanSize(**small).network(jax.random.key(0))
    biases = 32 if positions == "relative" else 1
    assert parity.block.heads.relative.shape == (3, 2, biases)
    assert (scan.encoder.block.heads.relative.shape, scan.block.own.relative.shape) == ((2, biases), (2, 32))
    assert parity.config.distances == scan.config.distances == BUCKETS
    before = ParitySize(**small, layers=3, distances=EACH).transformer(jax.random.key(0))
    assert before.block.heads.relative.shape == (3, 2, 41 if positions == "relative" else 1)


@pytest.mark.slow
def test_actions_that_fill_up_change_nothing() -> None:
    """Training leaves them out; a decoder that does not look ahead says the same before them."""
    size = ScanSize(layers=2, width=8, hidden=8, heads=2, head_width=4)
    task = scan_task("length")
    given, net = Commands.of(task, task.train[:5]), size.network(jax.random.key(0))
    assert max(len(task.answer(text).split()) + 2 for text in task.train) == 24
    read, lengths, written = (jnp.asarray(x) for x in (given.read, given.lengths, given.written))
    whole, cut = (action_logits(net, (read, lengths, w), 2) for w in (written, written[:, :24]))
    np.testing.assert_allclose(cut, whole[:, :23], atol=1e-5)


def test_actions_in_pieces_are_read_back() -> None:
    """Right answers fit, and can be told apart as before."""
    writing = WRITINGS["pieces"]
    names = [writing.tokens[token] for token in writing.of_action["LTURN"]]
    assert names == ["I", "_", "TURN", "_", "LEFT"]
    meant = {tuple(actions(command)) for command in all_commands()}
    written = {tuple(writing.write(answer)) for answer in meant}
    assert len(written) == len(meant)
    assert max(map(len, written)) == writing.longest + 2
    assert all(tuple(writing.read(writing.write(answer))) == answer for answer in sorted(meant)[::10])
    with pytest.raises(ValueError, match="No action is written 'I _ TURN'"):
        writing.read(writing.write(["LTURN"])[:4])


def test_what_distances_pieces_show() -> None:
    """By words, no test answer of the length split has distances of training alone; by pieces, half of them have."""
    train, test = length_split()

    def known(tokens: str) -> tuple[int, float, float]:
        lengths = {command: len(WRITINGS[tokens].write(actions(command))) - 2 for command in (*train, *test)}
        longest = max(lengths[command] for command in train)
        buckets = places_of_distances(-np.arange(longest + 1), 32, BUCKETS, causal=True)
        far = [places_of_distances(np.array(-lengths[command]), 32, BUCKETS, causal=True) for command in test]
        return longest, np.mean(far <= buckets.max()), np.mean([lengths[command] <= longest for command in test])

    assert known("words") == (22, 0.0, 0.0)
    longest, trained, as_long = known("pieces")
    assert (longest, round(100 * trained), round(100 * as_long)) == (100, 51, 10)
    documented = (Path(__file__).parents[1] / "docs/learnability.md").read_text()
    assert "51 % of the test answers" in documented
    assert "10 % of them are no longer" in documented


def test_a_network_of_pieces() -> None:
    size = ScanSize(layers=1, width=8, hidden=8, heads=2, head_width=4, tokens="pieces", distances=EACH)
    task = scan_task("length")
    longest = max(task.tests["test of the length split"], key=lambda text: len(task.answer(text)))
    given, net = Commands.of(task, [longest, "turn left"], "pieces"), size.network(jax.random.key(0))
    assert given.written.shape == (2, 194)
    assert np.count_nonzero(given.written, axis=1).tolist() == [194, 7]
    assert net.block.own.relative.shape == (2, 2 * 192 + 1)
    arrays = tuple(jnp.asarray(x) for x in (given.read, given.lengths, given.written))
    said = eqx.filter_eval_shape(action_logits, net, arrays, 1)
    assert said.shape == (2, 193, 12)
    written, meant = size.writing.read(given.written[0].tolist()), task.answer(longest).split()
    assert written == meant


def test_several_seeds_train_as_one_does_and_go_on_where_they_were_killed(tmp_path: Path) -> None:
    def train(**more: Any) -> Any:
        recipe = Recipe(
            more.pop("steps", 6), 4, 0.1, chunk=2, **{k: more.pop(k) for k in ("seeds", "first_seed") if k in more}
        )
        return train_many(
            lambda key: {"w": jax.random.normal(key, (3,))},
            lambda model, batch: jnp.sum((model["w"] - batch) ** 2),
            lambda key: jax.random.normal(key, (3,)),
            recipe,
            quiet=True,
            **more,
        )

    both, second = train(seeds=2), train(first_seed=1)
    np.testing.assert_allclose(both.models["w"][1], second.models["w"][0], rtol=1e-6)
    before = train(seeds=2, steps=4, folder=tmp_path / "run")
    resumed = train(seeds=2, folder=tmp_path / "run")
    np.testing.assert_array_equal(resumed.models["w"], both.models["w"])
    assert resumed.losses.shape == (3, 2)
    assert resumed.seconds > before.seconds  # of both parts
    assert resumed.before == before.seconds
    with pytest.raises(ValueError, match="is of another model"):
        train(seeds=3, folder=tmp_path / "run")
    stopped = train(seeds=2, folder=tmp_path / "stopped", stop_after=0)
    assert (stopped.steps, stopped.ended) == (2, "stopped before all steps")
    went_on = train(seeds=2, folder=tmp_path / "stopped", stop_after=3600)
    assert (went_on.steps, went_on.ended) == (6, "all steps")
    np.testing.assert_array_equal(went_on.models["w"], both.models["w"])


def test_gradients_are_clipped() -> None:
    """Adam takes steps of the size of the learning rate, unless gradients are small beside its 1e-8."""

    def way(clip: float) -> float:
        recipe = Recipe(5, 1, 0.1, chunk=5, clip=clip)
        trained = train_many(
            lambda key: jnp.zeros(3),
            lambda model, batch: jnp.sum((model - batch) ** 2),
            lambda key: jnp.full(3, 100.0),
            recipe,
            quiet=True,
        )
        return float(jnp.max(jnp.abs(trained.models)))

    assert way(clip=0.0) > 0.4
    assert way(clip=1e-12) < 1e-3


@pytest.mark.parametrize("layers", [40, 64, 256])
def test_moments_are_factored_within_a_layer_and_never_across_layers(layers: int) -> None:
    """[rows, columns] of the moments that Adafactor keeps of networks of the paper's sizes."""
    parity = jax.eval_shape(ParitySize(layers=layers).transformer, jax.random.key(0))
    scan = jax.eval_shape(ScanSize(layers=layers, shared=False).network, jax.random.key(0))

    def kept(net: Any) -> tuple[Any, Any]:
        weights = eqx.filter(net, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
        optimiser = optimiser_of(Recipe(1, 1, 0.1, "adafactor"), of_layers(weights))
        of_layer, of_others = jax.eval_shape(optimiser.init, weights)
        return tuple(
            next(x for x in jax.tree.leaves(state, is_leaf=lambda x: hasattr(x, "v_row")) if hasattr(x, "v_row"))
            for state in (of_layer, of_others)
        )

    def shapes(moments: Any, which: Any) -> list[tuple[int, ...]]:
        return sorted([which(moments.v_row).shape, which(moments.v_col).shape])

    of_layer, of_others = kept(parity)
    assert of_layer.v_row.tokens is None
    assert of_others.v_row.block.mlp[0].weight is None
    for i in (0, 1):
        assert shapes(of_layer, lambda net, i=i: net.block.mlp[i].weight) == [(layers, 512), (layers, 2048)]
        assert of_layer.v.block.norms[i].scale.shape == (layers, 512)
    for name in ("query", "out"):
        assert shapes(of_layer, lambda net, n=name: getattr(net.block.heads, n)) == [(layers, 6, 64), (layers, 6, 512)]
    assert of_layer.v.block.heads.relative.shape == (layers, 6, 32)
    of_layer, of_others = kept(scan)
    assert shapes(of_layer, lambda net: net.block.own.query) == [(layers, 8, 128)] * 2
    assert shapes(of_layer, lambda net: net.encoder.block.mlp[0].weight) == [(layers, 128), (layers, 512)]
    assert of_others.v.output.bias.shape == (23,)


def test_adafactor_sees_every_layer_by_itself() -> None:
    """As if the layers of a stack were trees of their own; what is no stack is changed as before."""
    rng = np.random.default_rng(0)
    stack = jnp.asarray(rng.normal(size=(3, 70, 65)) * np.array([0.1, 1, 10])[:, None, None], jnp.float32)
    gradient = jnp.asarray(rng.normal(size=stack.shape), jnp.float32)
    recipe = Recipe(1, 1, 0.1, "adafactor")
    both = optimiser_of(recipe, {"stack": True, "other": False})
    weights, gradients = {"stack": stack, "other": stack[0]}, {"stack": gradient, "other": gradient[0]}
    change, _ = both.update(gradients, both.init(weights), weights)
    alone = optimiser_of(recipe)
    for i in range(3):
        one, _ = alone.update(gradient[i], alone.init(stack[i]), stack[i])
        np.testing.assert_allclose(change["stack"][i], one, rtol=1e-5)
    np.testing.assert_array_equal(change["other"], change["stack"][0])


@pytest.mark.slow
def test_layers_of_their_own_are_trained() -> None:
    """The optimiser's state has an axis of seeds and, within it, one of layers."""
    size = ParitySize(layers=2, shared=False, **TINY)
    trained = train_parity(size, Recipe(2, 8, 1e-3, "adafactor", chunk=2, seeds=2), quiet=True)
    before = eqx.filter_vmap(size.transformer)(jax.vmap(jax.random.key)(jnp.arange(2)))
    first, now = (np.asarray(net.block.mlp[0].weight) for net in (before, trained.models))
    moved = np.abs(now - first).max(axis=(-2, -1))
    assert moved.shape == (2, 2)
    assert (moved > 0).all()


def test_the_schedule_of_the_learning_rate() -> None:
    rate = learning_rate(Recipe(1000, 1, 0.5, schedule="decay"))
    assert [float(rate(step)) for step in (0, 50, 100)] == pytest.approx([0.0, 0.25, 0.5])
    assert float(rate(600)) == pytest.approx(0.05)  # half of the way, in logarithms
    assert [float(rate(step)) for step in (1100, 5000)] == pytest.approx([0.005, 0.005])
    assert learning_rate(Recipe(1000, 1, 0.5)) == 0.5


def test_training_ends_where_it_is_enough_and_does_not_go_on(tmp_path: Path) -> None:
    """A look is taken every ten chunks; a training that had enough has it after a kill, too."""

    def train(shares: list[float], **options: Any) -> Any:
        return train_many(
            lambda key: {"w": jax.random.normal(key, (3,))},
            lambda model, batch: jnp.sum((model["w"] - batch) ** 2),
            lambda key: jax.random.normal(key, (3,)),
            Recipe(50, 4, 0.1, seeds=2, chunk=1, enough=1.0),
            accuracy=lambda models: np.array([1.0, shares.pop(0)]),
            quiet=True,
            **options,
        )

    first = train([0.9, 0.99, 1.0], folder=tmp_path)
    assert (first.steps, first.ended) == (30, "enough")
    again = train([], folder=tmp_path)
    assert (again.steps, again.ended) == (30, "enough")
    np.testing.assert_array_equal(again.models["w"], first.models["w"])
    never = train([0.9] * 5)
    assert (never.steps, never.ended) == (50, "all steps")


def products(compute: Any) -> list[str]:
    """What every matrix product of a computation asks for."""
    lines = jax.jit(compute).lower().as_text().splitlines()
    return [line for line in lines if "dot_general" in line]


def small_sums(precision: str) -> list[tuple[Any, Any]]:
    """Small networks of both kinds, in two layers with shared weights, and a sum of what each says."""
    small = {"width": 8, "hidden": 8, "heads": 2, "head_width": 4, "layers": 2, "shared": True, "precision": precision}
    net, both = ParitySize(**small).transformer(jax.random.key(0)), ScanSize(**small).network(jax.random.key(0))
    ids, length = jnp.array([2, 1, 0]), jnp.array(3)
    task = scan_task("length")
    given = Commands.of(task, task.train[:2])
    arrays = tuple(jnp.asarray(x) for x in (given.read, given.lengths, given.written))
    return [
        (net, lambda w: jnp.sum(parity_logits(w, ids, length, 2)[0])),
        (both, lambda w: jnp.sum(action_logits(w, arrays, 2)[..., 0])),
    ]


@pytest.mark.parametrize("precision", ["BF16_BF16_F32", "highest"])
def test_all_products_have_the_precision_of_the_size(precision: str) -> None:
    """Of both networks, and of their gradients."""
    sign = "lhs_precision_type = bf16" if precision.startswith("BF16") else "precision = [HIGHEST, HIGHEST]"
    for model, total in small_sums(precision):
        weights, fixed = eqx.partition(model, eqx.is_inexact_array)
        found = products(lambda f=total, w=weights, x=fixed: jax.grad(lambda v: f(eqx.combine(v, x)))(w))
        assert len(found) > 10
        assert [line for line in found if sign not in line] == []


@pytest.mark.slow
def test_on_an_accelerator_layers_compute_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """All their products are of bfloat16; answers and gradients are those of float32, but for rounding."""
    for model, total in small_sums("bfloat16"):
        weights, fixed = eqx.partition(model, eqx.is_inexact_array)
        alike = lambda v, f=total, x=fixed: f(eqx.combine(v, x))  # noqa: E731
        monkeypatch.setattr(transformer, "on_accelerator", lambda: False)
        exact = jax.jit(jax.value_and_grad(alike))(weights)
        assert [line for line in products(lambda g=alike, w=weights: g(w)) if "bf16" in line] == []
        monkeypatch.setattr(transformer, "on_accelerator", lambda: True)
        narrow = jax.jit(jax.value_and_grad(alike))(weights)
        found = products(lambda g=alike, w=weights: g(w))
        assert len([line for line in found if "bf16" not in line]) == 1  # what reads the answer
        assert len(found) > 8
        assert {leaf.dtype for leaf in jax.tree.leaves(narrow)} == {jnp.dtype(jnp.float32)}
        assert not jnp.array_equal(narrow[0], exact[0])
        assert float(abs(narrow[0] - exact[0])) < 0.02 * (1 + float(abs(exact[0])))
        for one, other in zip(*(jax.tree.leaves(found[1]) for found in (narrow, exact)), strict=True):
            assert float(jnp.linalg.norm(one - other)) <= 0.03 * float(jnp.linalg.norm(other)) + 1e-3


# Trace supervision


def test_traces_are_what_the_compiled_mlp_does() -> None:
    compiled = mg.compile("parity_sequential_relative", certify="none", longest=16)
    traces = trace_vectors(compiled.network, compiled.program, ["1", "01", "110"])
    mlp = compiled.network.block.mlp
    hidden = np.clip(traces.before @ np.asarray(mlp[0].weight) + np.asarray(mlp[0].bias), 0, 1)
    np.testing.assert_allclose(traces.before + hidden @ np.asarray(mlp[1].weight), traces.after, atol=1e-5)
    # START and 1, 2 and 3 bits, over 1, 2 and 3 layers
    assert traces.counts.sum() == 2 * 1 + 3 * 2 + 4 * 3
    looks = trace_vectors(compiled.network, compiled.program, ["1", "01", "110"], sublayer="attention")
    assert looks.counts.sum() == traces.counts.sum()
    between = [
        {row.tobytes(): some.counts[(vectors == row).all(1)].sum() for row in vectors}
        for some, vectors in ((looks, looks.after), (traces, traces.before))
    ]
    assert between[0] == between[1]  # what attention makes is what the MLP is given
    heads = [compiled.layout.places[head.name] for head in compiled.program.heads]
    changed = (looks.before != looks.after).any(0)
    assert changed.any()
    assert not np.delete(changed, np.r_[tuple(heads)]).any()
    with pytest.raises(ValueError, match="sublayer must be attention or mlp; got 'rules'"):
        trace_vectors(compiled.network, compiled.program, ["1"], sublayer="rules")


def test_undefined_values_are_those_beyond_the_first_place() -> None:
    """Nobody stands to the left of START, and everybody else has a neighbour; a head over numbers says so itself."""
    compiled = mg.compile("parity_sequential_relative", certify="none", longest=16)
    traces = trace_vectors(compiled.network, compiled.program, ["1", "01", "110"])
    vague, places = left_undefined(compiled.program, traces.before), compiled.layout.places
    heads = np.zeros(vague.shape[1], bool)
    for name in ("parity_left", "done_left"):
        heads[places[name]] = True
    assert {tuple(row) for row in vague} == {tuple(heads), (False,) * len(heads)}
    start = traces.before[:, places["done"].start + 1] == 1  # done from the first layer on, and so are others later
    assert traces.counts[vague.any(1)].sum() == 1 + 2 + 3  # START, in each of 1, 2 and 3 layers
    assert start[vague.any(1)].all()
    counting = mg.compile("parity_sum_mod_2", certify="none", longest=16)
    given = trace_vectors(counting.network, counting.program, ["1", "01"]).before
    assert not left_undefined(counting.program, given).any()
    given[:, counting.layout.defined["end_share"]] = 0
    assert left_undefined(counting.program, given).nonzero()[1].tolist() == [
        counting.layout.places["end_share"].start
    ] * len(given)


def test_undefined_values_are_drawn_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = mg.compile("parity_sequential_relative", certify="none", longest=16)
    traces = trace_vectors(compiled.network, compiled.program, parity_task(3, 6, each=4).train)
    vague = left_undefined(compiled.program, traces.before)
    drawn: list[Any] = []

    def draw_once(init: Any, loss: Any, draw: Any, recipe: Recipe, **options: Any) -> Trained:
        drawn.append(draw(jax.random.key(0)))
        return Trained(init(jax.random.key(0)), 1, np.zeros((1, 1)), 0.1, "all steps")

    monkeypatch.setattr("mechgap.training.sequences.supervise.train_many", draw_once)
    for undefined in (0.0, 10.0):
        size = MlpSize(layers=1, hidden=4, noise=0.0, undefined=undefined)
        task, recipe = parity_task(3, 6, each=4), Recipe(1, 512, 1e-3)
        supervise(compiled.network, compiled.program, task, size, recipe)
    (before, after), (other, same) = drawn
    np.testing.assert_array_equal(after, same)
    known = {row.tobytes(): unknown for row, unknown in zip(traces.before, vague, strict=True)}
    hidden = np.array([known[row.tobytes()] for row in np.asarray(before)])
    assert hidden.any(1).mean() > 0.1
    np.testing.assert_array_equal(np.asarray(before)[~hidden], np.asarray(other)[~hidden])
    values = np.asarray(other)[hidden]
    assert abs(values).max() <= 10
    assert len(set(values.tolist())) == len(values)
    assert abs(values.mean()) < 1
    assert values.std() == pytest.approx(10 / math.sqrt(3), rel=0.1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sharpness": 0.0}, "sharpness must be a number above 0, 1 for heads as compiled; got 0.0."),
        ({"sharpness": math.nan}, "sharpness must be a number above 0, 1 for heads as compiled; got nan."),
        ({"undefined": -3.0}, "undefined must be a number of at least 0; got -3.0."),
        ({"noise": -0.1}, "noise must be a number of at least 0; got -0.1."),
        ({"precision": "half"}, "precision of an MLP must be default or highest; got 'half'."),
    ],
)
def test_sizes_of_mlps_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        MlpSize(**given)


@pytest.mark.parametrize("staged", [False, True])
def test_a_count_in_large_numbers_is_the_same_program(staged: bool) -> None:
    """All texts of up to 8 bits; the interpreter and the compiled network."""
    program = mg.program("parity_sum_mod_2_intermediate", ones=8, scale=1000.0, staged=staged)
    texts = ["".join(bits) for length in range(1, 9) for bits in product("01", repeat=length)]
    given, meant = [program.encode(text) for text in texts], [str(text.count("1") % 2) for text in texts]
    assert [program.decode(found) for found in program.interpret(given).outputs] == meant
    compiled = mg.compile(program, certify="none", longest=16)
    ran = compiled.run(given)
    ran.check()
    assert [program.decode(found) for found in ran.outputs] == meant


def test_traces_of_a_count_that_survive_noise() -> None:
    """Table 2's Sum + Modulo: what the head finds is 1000/(ones + 1), at least 2.4 apart; then count, then parity."""
    program = parity_program("parity_sum_mod_2_traced", 40)
    compiled = mg.compile(program, certify="none", longest=41)
    places = compiled.layout.places
    texts = ["1" * ones + "0" for ones in range(21)]
    traces = trace_vectors(compiled.network, program, texts)
    found = np.unique(np.round(traces.before[:, places["end_share"]], 2))
    np.testing.assert_allclose(found, sorted(1000 / (ones + 1) for ones in range(21)), atol=0.01)
    assert np.diff(found).min() > 2.3
    before, after = (
        {name: values[:, place].argmax(1) for name, place in places.items() if place.stop - place.start > 1}
        for values in (traces.before, traces.after)
    )
    ones = np.round(1000 / traces.before[:, places["end_share"]][:, 0]).astype(int) - 1
    first = before["counted_up"] == 0
    np.testing.assert_array_equal(after["count"], ones)
    np.testing.assert_array_equal(before["count"], np.where(first, 0, ones))
    np.testing.assert_array_equal(after["parity"], np.where(first, 0, ones % 2))
    assert (after["counted_up"] == 1).all()
    np.testing.assert_allclose(traces.after[:, places["end_share"]], 0, atol=1e-3)


def test_an_mlp_learns_sequential_parity_from_traces() -> None:
    compiled = mg.compile("parity_sequential_relative", certify="none", longest=16)
    task = parity_task(4, 8, each=4)
    recipe = Recipe(1500, 64, 3e-3, seeds=2, chunk=500)
    size = MlpSize(layers=1, hidden=64)
    trained, traces = supervise(compiled.network, compiled.program, task, size, recipe, quiet=True)
    best = jax.tree.map(lambda x: x[int(np.argmin(trained.losses[-1]))], trained.models)
    assert vector_accuracy(best, traces) > 0.99
    network = replace(compiled, network=with_mlp(compiled.network, best))
    texts = [*task.tests["length > 4"], *task.tests["ones > 4"]]
    meant = [task.answer(text) for text in texts]
    said = answers(compiled.program, lambda ids: network.run(ids, layers=10, check=False).outputs, texts)
    assert said == meant  # it generalises, as in Table 2


def test_gentle_heads_mind_small_errors_less_and_answer_as_before() -> None:
    """An error of 0.01 on the key of one of four places that are selected alike, see `gentler`."""
    program = mg.program("parity_sum_mod_2_intermediate", ones=8, scale=1000.0, staged=True)
    compiled = mg.compile(program, certify="none", longest=16)
    ids = jnp.array(program.encode("111"))
    stream = compiled.network.embed(ids)
    stream = stream.at[-1, compiled.layout.places["counted"].start + 1].add(0.01)
    texts = ["".join(bits) for length in range(1, 9) for bits in product("01", repeat=length)]
    meant = [str(text.count("1") % 2) for text in texts]
    for sharpness in (1.0, 1 / 16):
        gentle = gentler(compiled.network, sharpness)
        share = float(attend(gentle.block.heads, stream, stream, jnp.ones((4, 4), bool))[1][0, 0, -1])
        ahead = math.exp(256 * sharpness * 0.01)
        assert share == pytest.approx(ahead / (3 + ahead), rel=2e-3)
        ran = replace(compiled, network=gentle).run([program.encode(text) for text in texts], check=False)
        assert [program.decode(found) for found in ran.outputs] == meant


def test_heads_are_as_gentle_as_an_exact_network_bears() -> None:
    """Its answers are right with the study's heads, whatever is counted among how many places; not with half of it."""
    study = sequence_studies("full")["parity_sum_mod_2_traced"]
    assert study.mlp is not None
    program = parity_program(study.name, 2 * study.train_length)
    compiled = mg.compile(program, certify="none", longest=41)
    texts = [ones * "1" + (length - ones) * "0" for ones in range(41) for length in {ones or 1, 40}]
    right = [str(text.count("1") % 2) for text in texts]
    for sharpness, holds in ((study.mlp.sharpness, True), (study.mlp.sharpness / 2, False)):
        network = replace(compiled, network=gentler(compiled.network, sharpness))
        said = answers(program, lambda ids, network=network: network.run(ids, check=False).outputs, texts)
        assert (said == right) == holds


@pytest.mark.parametrize(("precision", "said"), [("highest", "HIGHEST, HIGHEST"), ("default", "DEFAULT, DEFAULT")])
def test_products_in_supervision_are_as_precise_as_is_said(
    precision: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1000/(ones + 1) must come out within 0.1, which an accelerator's default rounds away."""
    compiled = mg.compile("parity_sequential_relative", certify="none", longest=16)
    made: list[str] = []

    def lowered(init: Any, loss: Any, draw: Any, recipe: Recipe, **options: Any) -> Trained:
        mlp = init(jax.random.key(0))
        step = jax.grad(lambda weights: loss(weights, draw(jax.random.key(1))))
        made.append(jax.jit(step).lower(mlp).as_text())
        return Trained(mlp, 1, np.zeros((1, 1)), 0.1, "all steps")

    monkeypatch.setattr("mechgap.training.sequences.supervise.train_many", lowered)
    size = MlpSize(layers=1, hidden=4, precision=precision)
    supervise(compiled.network, compiled.program, parity_task(2, 4, each=4), size, Recipe(1, 2, 1e-3))
    products = re.findall(r"dot_general.*?precision = \[(.*?)\]", made[0])
    assert len(products) >= 4
    assert set(products) == {said}


def test_networks_that_diverge_are_named_and_the_others_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = sequence_studies("full", {"seeds": 3, "first_seed": 5})["scan_random_2"]
    weights, losses = jnp.array([0.0, jnp.nan, 2.0]), np.array([[1.0, 1.0, 1.0], [1.0, 1.0, np.inf]])
    monkeypatch.setattr(
        sequence_study, "train_scan", lambda *given, **options: Trained(weights, 2, losses, 0.1, "all steps")
    )
    monkeypatch.setattr(
        sequence_study, "scan_right", lambda models, task, texts, size: np.ones((len(models), len(texts)))
    )
    assert [row["seed"] for row in run_sequence_study(study, tmp_path / "one")] == [5]
    assert json.loads((tmp_path / "one" / "manifest.json").read_text())["diverged"] == [6, 7]
    assert how_training_went(read_result(tmp_path / "one")).endswith("2 of 3 networks diverged")
    weights = jnp.full(3, jnp.nan)
    with pytest.raises(
        ValueError, match=r"All networks of scan_random_2 diverged: after 2 steps .* learning_rate=5e-05"
    ):
        run_sequence_study(study, tmp_path / "none")
    assert not list((tmp_path / "none").iterdir())


def test_weights_that_are_not_there_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No file .*networks.safetensors: weights stay where .* Train it"):
        load_sequence_networks(tmp_path)


@pytest.mark.slow
def test_a_transformer_learns_to_hold_the_variables() -> None:
    program, task = mg.program("parity_sequential_relative"), parity_task(4, 8, each=6)
    size = ProbedSize(width=32, hidden=64, heads=2)
    trained = train_probed(program, task, size, Recipe(400, 32, 3e-3, chunk=200), quiet=True)
    model = jax.tree.map(lambda x: x[0], trained.models)
    shown = Executions.of(program, task.train, 4)
    assert shown.values["done"].shape == (30, 4, 5)
    assert (shown.values["done"][:, -1] == 1)[np.arange(5) < shown.lengths[:, None]].all()  # ended, and stays so
    said = answers(program, lambda ids: run_probed(model, program, ids, layers=4), task.train)
    assert np.mean([a == task.answer(text) for a, text in zip(said, task.train, strict=True)]) > 0.9


# End to end, and the gap


def test_drawn_bits() -> None:
    ids, lengths = jax.vmap(lambda k: draw_bits(k, 5))(jax.random.split(jax.random.key(0), 600))
    ids, lengths = np.asarray(ids), np.asarray(lengths)
    assert (ids[:, 0] == 2).all()
    ones = (ids == 1).sum(1)
    assert np.abs(np.bincount(ones, minlength=6) / 600 - 1 / 6).max() < 0.06
    assert all(lengths - 1 >= np.maximum(ones, 1))
    assert all(not row[n:].any() for row, n in zip(ids, lengths, strict=True))


@pytest.fixture(scope="module")
def small_parity() -> tuple[ParitySize, Any]:
    size = ParitySize(layers=2, **TINY)
    recipe = Recipe(600, 128, 3e-3, seeds=2, chunk=20, enough=1.0)
    return size, train_parity(size, recipe, quiet=True)


def test_a_transformer_learns_short_parity_and_stops(small_parity: tuple) -> None:
    size, trained = small_parity
    texts = parity_task(3, 6, each=8).train
    found = predictions(trained.models, texts, size)
    assert (found == np.array([text.count("1") % 2 for text in texts])).mean() > 0.85
    assert np.isfinite(trained.losses).all()
    assert trained.losses[-1].mean() < trained.losses[0].mean()
    assert (trained.ended, trained.steps < 600) == (ENOUGH, True)


def test_the_gap_of_a_transformer(small_parity: tuple) -> None:
    size, trained = small_parity
    program = mg.program("parity_sequential_relative")
    net = jax.tree.map(lambda x: x[0], trained.models)
    gap = measure_gap(net, program, measured_texts(3), size.layers, size.transformer(jax.random.key(0)))
    assert [h.head for h in gap.heads] == ["parity_left", "done_left"]
    for found in (*gap.heads, *(h.answering for h in gap.heads)):
        assert 0 <= found.distance <= found.matched <= 1
        assert 0 < found.uniform <= 1
        assert 0 < found.untrained <= 1
    probes = {(p.variable, p.layer): p for p in gap.variables}
    assert probes["done", 0].accuracy == 1.0  # START is a token of its own
    assert probes["done", 0].control == 1.0  # as in any other text
    assert probes["done", 0].answering is None  # nothing to be told apart at the last bit
    assert probes["parity", 0].answering.accuracy == 1.0


def test_programs_are_compared_on_texts_as_the_networks_know_them() -> None:
    for name in PROGRAMS:
        program = with_start(parity_program(name, 8))
        for text in ("1", "0110", "11101011"):
            assert program.encode(text) == [START, *(int(bit) for bit in text)]
            assert program.solve(text) == str(text.count("1") % 2)


def test_the_compiled_network_has_no_gap() -> None:
    """Its own attention is the program's, and every variable can be read off its stream."""
    program = mg.program("parity_sequential_relative")
    compiled = mg.compile(program, certify="none", longest=16)
    gap = measure_gap(compiled.network, program, measured_texts(4), 4)
    assert all(h.distance < 1e-6 for h in gap.heads)
    assert all(h.answering.distance < 1e-6 for h in gap.heads)
    assert all(h.untrained is None for h in gap.heads)
    for found in gap.variables:
        assert found.accuracy == 1.0, found
        assert found.answering is None or found.answering.accuracy == 1.0, found
        assert found.untrained is None
    beside = measure_gap(compiled.network, program, measured_texts(4), 4, untrained=compiled.network)
    for found in (*beside.heads, *(h.answering for h in beside.heads)):
        assert found.untrained == found.distance
    for found in (*beside.variables, *(v.answering for v in beside.variables if v.answering)):
        assert found.untrained == found.accuracy
    with pytest.raises(ValueError, match="texts of one length; got 2 to 4"):
        measure_gap(compiled.network, program, ["1", "101"], 4)


def test_memory_of_a_gap_does_not_grow_and_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    program = mg.program("parity_sequential_relative")
    compiled = mg.compile(program, certify="none", longest=16)
    whole = measure_gap(compiled.network, program, measured_texts(4), 4)
    watched = []

    def observe(net: Transformer, ids: np.ndarray, layers: int) -> Any:
        watched.append(len(ids))
        return observe_transformer(net, ids, layers)

    monkeypatch.setattr(sequences, "TOGETHER", 3)
    monkeypatch.setattr(sequences, "observe_transformer", observe)
    found = measure_gap(compiled.network, program, measured_texts(4), 4)
    assert found.variables == whole.variables
    assert [h.uniform for h in found.heads] == pytest.approx([h.uniform for h in whole.heads])
    assert watched == [3, 3, 2] * 2


def test_probes_are_what_ridge_regression_is() -> None:
    """From sums, as from all examples at once; and values that no text shows are not read."""
    program, rng = mg.program("parity_sequential_relative"), np.random.default_rng(0)
    texts = measured_texts(6)
    meant = Meant.of(program, texts)
    streams = 5 + rng.normal(size=(len(texts), 7, 7, 3)) * [1, 10, 0.1]
    streams[:, 0, :, 1] += 10 * meant.streams[0]["parity"]
    probes, fitted = Probes(meant, 7, 3), np.arange(len(texts)) % 2 == 0
    probes.fit(np.flatnonzero(fitted), streams[fitted])
    probes.test(np.flatnonzero(~fitted), streams[~fitted])
    (found,) = (p for p in probes.found() if (p.variable, p.layer) == ("parity", 0))
    for reading, where in ((found, slice(None)), (found.answering, slice(-1, None))):
        x, y = (a[:, where] for a in (streams[:, 0], meant.streams[0]["parity"]))
        given, new = x[fitted].reshape(-1, 3), x[~fitted].reshape(-1, 3)
        given, new = ((v - given.mean(0)) / given.std(0) for v in (given, new))
        given, new = (np.concatenate([v, np.ones((len(v), 1))], axis=1) for v in (given, new))
        gram = given.T @ given + sequences.RIDGE * len(given) * np.eye(4)
        weights = np.linalg.solve(gram, given.T @ np.eye(2)[y[fitted].ravel()])
        assert reading.accuracy == np.mean((new @ weights).argmax(1) == y[~fitted].ravel())
        assert reading.majority == np.mean(y[~fitted] == np.bincount(y[fitted].ravel()).argmax())
    assert found.accuracy > 0.6
    assert {p.control for p in probes.found() if p.variable == "done"} != {1.0}  # random streams do not show places


def test_the_gap_is_measured_on_different_texts_of_every_kind() -> None:
    """A text that occurs twice would be among those that a probe is fitted on, and among those it is tested on."""
    texts = measured_texts(20)
    assert len(set(texts)) == len(texts) == 1024
    assert {len(text) for text in texts} == {20}
    ones = Counter(text.count("1") for text in texts)
    assert [ones[n] for n in (0, 1, 19, 20)] == [1, 20, 20, 1]  # there are no more
    assert {ones[n] for n in range(2, 19)} == {57, 58}
    assert np.ptp([sum(text.count("1") % 2 for text in texts[i::2]) for i in (0, 1)]) < 12  # both halves are alike
    assert measured_texts(20) == texts
    assert measured_texts(1) == ["0", "1"]
    assert len(set(measured_texts(5))) == 32


def test_a_head_that_looks_nowhere_is_near_to_none() -> None:
    """Not at a distance of 0 from every head of a layer in which there is nothing to compare."""
    built = mg.program("parity_sequential_relative")
    meant = Meant.of(built, ["10", "01"])
    layers = len(meant.streams) - 1

    def matches() -> Any:
        distances = HeadDistances(meant, layers, 1)
        distances.add(np.arange(2), np.full((2, layers, 1, 3, 3), 1 / 3))
        return distances.matches(None)

    usual = matches()
    nowhere = lambda program, head, stream, inside: np.zeros((2, 3, 3), bool)  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequences, "selected", nowhere)
        found = matches()
    assert all(h.distance == pytest.approx(2 / 3) == h.uniform == h.answering.distance for h in usual)
    assert [(h.distance, h.matched, h.uniform, h.answering) for h in found] == [(1.0, 1.0, 1.0, None)] * 2


def decoded(net: EncoderDecoder, given: Commands, i: int, layers: int) -> list[int]:
    """Token by token, each what the logits say after those before it."""
    written = [WRITINGS["words"].begin]
    step = jax.jit(lambda w: net(jnp.asarray(given.read[i]), jnp.asarray(given.lengths[i]), w, layers))
    while written[-1] != WRITINGS["words"].end and len(written) < given.written.shape[1]:
        padded = jnp.asarray(written + [0] * (given.written.shape[1] - 1 - len(written)))
        written.append(int(jnp.argmax(step(padded)[len(written) - 1])))
    return written


@pytest.mark.slow
def test_an_encoder_decoder_learns_a_few_commands() -> None:
    texts = ("walk", "jump", "walk twice", "jump left", "look thrice", "run right")
    task = replace(scan_task("length"), train=texts)
    size = ScanSize(layers=1, width=32, hidden=64, heads=2, head_width=16)
    trained = train_scan(size, task, Recipe(150, 12, 3e-3, seeds=2, chunk=75), quiet=True)
    right = scan_right(trained.models, task, texts, size)
    assert right.shape == (2, 6)
    assert right.mean() > 0.8
    net, given = jax.tree.map(lambda x: x[0], trained.models), Commands.of(task, texts)
    for i in range(3):  # right at all positions, or decoded right: the same
        meant = [token for token in given.written[i].tolist() if token]
        assert (decoded(net, given, i, 1) == meant) == bool(right[0, i])


# Studies, and their commands


def test_the_papers_settings() -> None:
    """Table 1, and section D.1."""
    studies = sequence_studies("full")
    assert Counter(s.kind for s in studies.values()) == {
        **{"supervision": 4, "probed": 2, "end_to_end": 8},
        "scan": 6 * 24 + 3,
    }
    relative, absolute, counted = (
        studies[f"parity_{name}"] for name in ("sequential_relative", "sequential_absolute", "sum_mod_2_traced")
    )
    assert relative.mlp == MlpSize(layers=2, hidden=128, noise=0.1)
    assert absolute.mlp == MlpSize(layers=4, hidden=4096, noise=0.1)
    assert counted.mlp == replace(absolute.mlp, sharpness=1 / 32)
    assert relative.recipe == Recipe(50_000, 256, 1e-2, "adafactor", schedule="decay")
    assert absolute.recipe == Recipe(50_000, 256, 1e-4, "adam", schedule="decay")
    assert counted.recipe == Recipe(400_000, 256, 1e-4, "adam", schedule="decay")
    unscaled = studies["parity_sum_mod_2_intermediate"]
    assert (unscaled.mlp, unscaled.recipe) == (absolute.mlp, replace(counted.recipe, schedule="constant"))
    pieces = studies["scan_6_pieces"]
    assert (pieces.split, pieces.transformer) == ("length", replace(studies["scan_6"].transformer, tokens="pieces"))
    whole, scan = studies["absolute_40_shared"], studies["scan_16"]
    assert whole.transformer == ParitySize(40, True, "absolute", 512, 2048, 6, 64, "bfloat16", "buckets", 20, 40)
    assert studies["absolute_8_shared"].recipe == Recipe(50_000, 256, 5e-4, "adafactor", enough=1.0)
    assert whole.recipe == replace(studies["absolute_8_shared"].recipe, batch=128)
    assert scan.recipe == Recipe(100_000, 128, 5e-4, "adafactor")  # takes all steps


@pytest.mark.parametrize(
    "name",
    [
        "parity_sequential_relative",
        pytest.param("parity_sum_mod_2_traced", marks=pytest.mark.slow),
        pytest.param("parity_sequential_absolute", marks=pytest.mark.slow),
        pytest.param("parity_sequential_relative_probed", marks=pytest.mark.slow),
        "relative_8_shared",
    ],
)
def test_a_study_is_written_whole(name: str, tmp_path: Path) -> None:
    changes = {"steps": 4, "chunk": 2, "seeds": 2, "train_length": 3, "each": 4}
    study = sequence_studies("quick", changes)[name]
    metrics = run_sequence_study(study, tmp_path / name, quiet=True)
    assert [row["seed"] for row in metrics] == [0, 1]
    assert {"length <= 3", "length > 3", "ones > 3", "length > 3, ones <= 3"} <= set(metrics[0])
    others = {with_heads(sharpness, 3) for sharpness in SHARPNESSES}
    assert others & set(metrics[0]) == (others if name == "parity_sum_mod_2_traced" else set())
    written = {path.name for path in (tmp_path / name).iterdir()}
    assert written == {"config.json", "manifest.json", "metrics.json", "curves.json", "gap.json", NETWORKS}
    again, networks, seeds = load_sequence_networks(tmp_path / name)
    assert (again, seeds) == (study, [0, 1])
    assert {len(x) for x in jax.tree.leaves(eqx.filter(networks, eqx.is_array))} == {2}
    if isinstance(study.transformer, ParitySize):
        texts = study.task.tests["length > 3"]
        right = predictions(networks, texts, study.transformer) == [int(study.task.answer(text)) for text in texts]
        assert right.mean(1).tolist() == [row["length > 3"] for row in metrics]
    curves = json.loads((tmp_path / name / "curves.json").read_text())
    assert set(curves["right by ones"]) == {str(k) for k in range(7)}
    assert len(curves["right by length"]["6"]) == 2
    gaps = json.loads((tmp_path / name / "gap.json").read_text())
    assert gaps["measured"] == {"version": 2, "texts": 8, "length": 3}
    manifest = json.loads((tmp_path / name / "manifest.json").read_text())
    assert (manifest["steps"], manifest["ended"], manifest["tests"]) == (4, "all steps", 2)
    crossed = sum(text.count("1") <= 3 for text in study.task.tests["length > 3"])
    counts = {slice_: len(texts) for slice_, texts in study.task.tests.items()} | {"length > 3, ones <= 3": crossed}
    gentle = dict.fromkeys(others & set(metrics[0]), counts["length <= 3"])
    assert manifest["texts"] == counts | gentle
    gap = next(iter(gaps["seeds"]["0"].values()))
    assert all(0 <= found["untrained"] <= 1 for found in (*gap["heads"], *gap["variables"]))
    if name == "parity_sum_mod_2_traced":
        assert {head["head"] for head in gap["heads"]} == {"end_share"}
        return
    assert (gap["mark"] == "before the bits") == (name != "parity_sequential_absolute")
    assert {head["head"] for head in gap["heads"]} == {"parity_left", "done_left"}
    # what is trained from traces takes the program's layers, three for three bits and two where the first is known;
    # what is not has two of its own
    few = study.kind == "end_to_end" or name == "parity_sequential_absolute"
    assert max(probe["layer"] for probe in gap["variables"]) == (2 if few else 3)


def test_heads_of_other_sharpness_answer_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the MLP learned with as the whole study says, and those of next to no sharpness look at all places."""
    monkeypatch.setattr(sequence_study, "SHARPNESSES", (1 / 32, 1e-12))
    changes = {"steps": 800, "chunk": 400, "seeds": 2, "train_length": 3, "each": 8, "learning_rate": 1e-3}
    study = sequence_studies("quick", changes)["parity_sum_mod_2_traced"]
    metrics = run_sequence_study(study, tmp_path / "whole", quiet=True)
    assert [row[with_heads(1 / 32, 3)] for row in metrics] == [row["length <= 3"] for row in metrics]
    program = parity_program(study.name, 6)
    compiled = mg.compile(program, certify="none", longest=7)
    heads = compiled.network.block.heads
    nothing = {name: jnp.zeros_like(getattr(heads, name)) for name in ("query", "key", "relative", "null")}
    blind = replace(compiled.network, block=replace(compiled.network.block, heads=replace(heads, **nothing)))
    _, mlps, _ = load_sequence_networks(tmp_path / "whole")
    texts, shares = study.task.tests["length <= 3"], []
    for i in range(2):
        mlp = jax.tree.map(lambda x, i=i: x[i], mlps)
        network = replace(compiled, network=with_mlp(blind, mlp))
        said = answers(program, lambda ids, n=network: n.run(ids, check=False).outputs, texts)
        shares.append(np.mean([answer == study.task.answer(text) for answer, text in zip(said, texts, strict=True)]))
    assert [row[with_heads(1e-12, 3)] for row in metrics] == shares
    counted = json.loads((tmp_path / "whole/manifest.json").read_text())["texts"]
    assert {counted[with_heads(sharpness, 3)] for sharpness in (1 / 32, 1e-12)} == {len(texts)}
    assert shares != [row["length <= 3"] for row in metrics]


@pytest.mark.slow
def test_an_mlp_learns_from_the_heads_that_it_works_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With gentle ones, an end among no ones is worth less than 1000, since a little of the null slot is seen, too."""
    given: list[float] = []

    def watched(network: Any, program: Any, task: Any, *args: Any, **options: Any) -> Any:
        at = StreamLayout.of(program).places["end_share"]
        given.append(float(trace_vectors(network, program, task.train).before[:, at].max()))
        return supervise(network, program, task, *args, **options)

    monkeypatch.setattr(sequence_study, "supervise", watched)
    for sharpness in (1.0, 1 / 32):
        changes = {"steps": 1, "train_length": 3, "each": 4, "sharpness": sharpness}
        study = sequence_studies("quick", changes)["parity_sum_mod_2_traced"]
        run_sequence_study(study, tmp_path / str(sharpness), quiet=True)
    assert given[0] == 1000
    assert given[1] == pytest.approx(1000 / (1 + math.exp(-4)), abs=0.5)


def test_a_study_of_scan_is_of_its_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, _ = random_split()

    def train(size: ScanSize, task: Any, recipe: Recipe, **options: Any) -> Trained:
        assert set(task.train) == set(drawn)
        assert (size.layers, size.shared, size.positions) == (6, False, "relative")
        return Trained(set(task.train), 2, np.zeros((1, 1)), 0.1, "enough")

    monkeypatch.setattr(sequence_study, "train_scan", train)
    # such a network knows what it was trained on, and nothing else
    monkeypatch.setattr(
        sequence_study, "scan_right", lambda known, task, texts, size: np.array([[t in known for t in texts]])
    )
    study = sequence_studies("full")["scan_random_6_separate"]
    assert run_sequence_study(study, tmp_path, quiet=True) == [{"seed": 0, "test": 0.0, "training data": 1.0}]
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["split"], config["transformer"]["precision"]) == ("random", "bfloat16")
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert (manifest["ended"], manifest["texts"]["test"]) == ("enough", 4182)


def test_a_study_without_its_data_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"No file data/scan/mcd1\.json"):
        run_sequence_study(sequence_studies("quick")["scan_mcd1_2"], tmp_path / "scan", quiet=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["parity_sequential_relative", "scan_2"])
def test_a_result_that_is_written_in_part_is_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill while a folder is written anew leaves it without a manifest: not the old one with new numbers."""
    shares = dict.fromkeys(("test", "length <= 6", "length > 6", "ones > 6"), 0.5)
    files = {} if name == "scan_2" else {"curves.json": curves({"6": [0.5]}), "gap.json": gap()}
    texts = dict.fromkeys(shares, 10)
    made = (Trained(None, 2, np.zeros((1, 1)), 0.1, "enough"), [{"seed": 0, **shares}], texts, files)
    monkeypatch.setattr(sequence_study, "_scan", lambda *given: made)
    monkeypatch.setattr(sequence_study, "_parity", lambda *given: made)
    study = sequence_studies("quick")[name]
    run_sequence_study(study, tmp_path)
    assert sequence_study.why_kept(study, tmp_path) == "finished before"
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    if study.kind == "scan":
        assert "tests" not in manifest
    else:
        (tmp_path / "manifest.json").write_text(json.dumps(manifest | {"tests": 1}))
        assert sequence_study.why_kept(study, tmp_path) == "", "it is tested anew"
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | {"ended": "stopped before all steps"}))
    assert sequence_study.why_kept(study, tmp_path) == "", "it goes on"

    def fails(path: Path, content: Any) -> None:
        raise OSError("full")

    monkeypatch.setattr(sequence_study, "write_json", fails)
    with pytest.raises(OSError, match="full"):
        run_sequence_study(study, tmp_path)
    assert sequence_study.why_kept(study, tmp_path) == ""


def test_a_study_of_few_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever supplies a split may supply a small one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/scan").mkdir(parents=True)
    (tmp_path / "data/scan/tasks.txt").write_text("IN: jump OUT: I_JUMP\nIN: walk OUT: I_WALK\n")
    (tmp_path / "data/scan/mcd1.json").write_text('{"trainIdxs": [1], "testIdxs": [0]}')
    trained = Trained(None, 2, np.zeros((1, 1)), 0.1, "enough")
    monkeypatch.setattr(sequence_study, "train_scan", lambda *given, **options: trained)
    monkeypatch.setattr(
        sequence_study, "scan_right", lambda known, task, texts, size: np.array([[t == "walk" for t in texts]])
    )
    metrics = run_sequence_study(sequence_studies("quick")["scan_mcd1_2"], tmp_path / "out")
    assert metrics == [{"seed": 0, "test": 0.0, "training data": 1.0}]


@pytest.mark.slow
def test_other_settings_are_run_anew_and_smaller_ones_are_not(tmp_path: Path) -> None:
    """Neither a finished result nor the state of a training passes for that of other settings."""

    def study(**changes: Any) -> SequenceStudy:
        common = {"steps": 4, "chunk": 2, "train_length": 3, "each": 4}
        return sequence_studies("quick", common | changes)["parity_sequential_relative"]

    def run(which: SequenceStudy) -> dict[str, Any]:
        run_missing([which], tmp_path, tmp_path / "runs", said.append)
        return json.loads((tmp_path / which.name / "config.json").read_text())["recipe"]

    said: list[str] = []
    assert run(study())["learning_rate"] == 0.01
    run(study())
    assert said[-1].endswith("finished before")
    assert run(study(learning_rate=0.5))["learning_rate"] == 0.5
    assert len(list((tmp_path / "runs").iterdir())) == 2
    run(study(steps=2))
    assert said[-1].endswith("holds a larger run, which is kept")


@pytest.mark.slow
def test_a_training_is_stopped_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command to the training; a longer result is not replaced by a shorter one."""
    small = {"steps": 4, "chunk": 2, "train_length": 3, "each": 4}
    name = "parity_sequential_relative"

    def ended(stop_after: float | None, **changes: Any) -> tuple[str, int]:
        learn(["supervision"], [name], "quick", tmp_path, small | changes, stop_after)
        manifest = json.loads((tmp_path / "quick" / name / "manifest.json").read_text())
        return manifest["ended"], manifest["steps"]

    assert ended(1e-9) == ("stopped before all steps", 2)
    assert ended(None) == ("all steps", 4)
    assert ended(1e-9, steps=8) == ("all steps", 4), "the longer one stays"
    assert ended(None, steps=8) == ("all steps", 8)
    assert ended(1e-9, steps=20) == ("all steps", 8)
    assert ended(1e-9, steps=20, learning_rate=0.5) == ("all steps", 8)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["supervise", "addition"], "no supervision study 'addition'"),
        (["train", "relative_9"], "no end-to-end study 'relative_9'. Did you mean 'relative_8'"),
        (["train", "--preset", "huge"], "No preset 'huge'"),
        (["train", "--set", "depth=3"], "No setting 'depth'"),
        (["train", "--set", "optimiser=sgd"], "one of adam, adafactor; got 'sgd'"),
        (["train", "--set", "optimiser=[1]"], "optimiser must be a word; got (1,)"),
        (["train", "--set", "steps=abc"], "steps must be a whole number, 1 or more; got 'abc'"),
        (["train", "--set", "steps=2.5", "--set", "width=0"], "width must be a whole number, 1 or more; got 0"),
        (["train", "--set", "shared=maybe"], "shared must be true or false; got 'maybe'"),
        (["train", "--set", "learning_rate=-1"], "learning_rate must be a number above 0; got -1.0"),
        (["train", "--set", "enough=nan"], "enough must be a number above 0; got nan"),
        (["supervise", "parity_sequential_relative", "--set", "enough=0.9"], "'enough' means nothing to parity_seq"),
        (["train", "--set", "noise=0.2"], "'noise' means nothing to relative_8, relative_8_shared, "),
        (["train", "scan_2", "--set", "train_length=3"], "'train_length' means nothing to scan_2; leave it out"),
        (["train", "--set", "test_length=9"], "No setting 'test_length'"),
        (["supervise", "parity_sequential_relative", "--set", "noise=-1"], "noise must be a number of at least 0"),
        (
            ["supervise", "parity_sequential_relative", "--set", "undefined=-1"],
            "undefined must be a number of at least 0; got -1",
        ),
        (["supervise", "parity_sequential_relative", "--set", "sharpness=0"], "sharpness must be a number above 0"),
        (["supervise", "parity_sequential_relative", "--set", "each=0"], "each must be a whole number, 1 or more"),
        (["minimal", "parity_sum_mod_2", "--split", "random"], "Only scan has splits; leave out the split 'random'"),
        (["minimal", "parity_sum_mod_2", "--train-length", "101"], "counts up to 200 ones; got 201"),
        (["minimal", "parity_sequential_absolute", "--train-length", "130"], "256 positions"),
        (["minimal", "scan", "--train-length", "5"], "give a split instead of the length 5"),
        (["minimal", "reverse"], "no task with a training set for 'reverse'"),
        (["minimal", "bfs"], "'bfs' is a graph program"),
        (
            ["minimal", "scan", "--split", "mcd"],
            "divergence, or as published: mcd1, mcd2, mcd3, or the path of a .json file; got 'mcd'",
        ),
    ],
)
def test_a_mistake_ends_in_its_message(
    command: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["alta", *command])
    assert isinstance(done.exception, ValueError)
    assert message in str(done.exception)
    assert list(tmp_path.iterdir()) == []  # nothing is begun


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["paper", "alta-table2", "table100"], "no 'table100' here. Did you mean 'table10'"),
        (["paper", "alta-table2", "alta-table4"], "no 'alta-table4' here"),
        (["alta", "summary", "--folder", "nowhere"], "There is no nowhere/alta: give a folder of results"),
    ],
)
def test_all_words_are_read_before_anything_is_run(
    command: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, command)
    assert message in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_every_setting_has_a_rule() -> None:
    parts = (Recipe, MlpSize, ProbedSize, ParitySize, ScanSize)
    names = {name for part in parts for name in part.__dataclass_fields__}
    assert set(RULES) == (names | {"each"}) - {"test_length"}  # that is twice train_length


def test_minimal_is_printed() -> None:
    words = ["alta", "minimal", "parity_sum_mod_2_intermediate", "--train-length", "6"]
    said = CliRunner().invoke(app, words, env={"COLUMNS": "200"}).output
    assert "length > 6" in said
    assert "16 of 40602 rules are left" in said  # 6 counts, 3 odd ones among them, and the reset of the head


# The paper's tables


def test_items_need_studies_that_exist() -> None:
    known = sequence_studies("full")
    for name in alta_items():
        entry = alta._entry(name)
        assert set(alta._studies(entry)) <= set(known)
        for row in entry.get("rows", ()):
            assert len(row["paper"]) == 3
    cells = {cell["study"]: cell["paper"] for cell in alta._cells(alta._entry("alta-table5"))}
    assert set(cells) == {name for name, study in known.items() if study.kind == "scan"}
    assert sum(len(paper) for paper in cells.values()) == 4 * 24 + 3  # the paper's table is whole, three numbers twice
    rows = {row["study"]: row["paper"] for row in alta._entry("alta-table3")["rows"]}
    assert rows["relative_8_shared"] == [100, 65, 52]
    # Table 5: its corners, and a row that ends at 64 layers
    corners = {"scan_2": 11, "scan_256": 5, "scan_mcd3_2_separate_absolute": 4, "scan_mcd2_64_separate": 4}
    assert {name: cells[name] for name in corners} == {name: [n] for name, n in corners.items()}
    assert cells["scan_divergence_2"] == []


def test_results_stand_beside_the_printed_ones(tmp_path: Path) -> None:
    write_result(tmp_path, "parity_sequential_absolute", [(1.0, 0.5, 0.44), (1.0, 0.52, 0.44)])
    found = alta_table("alta-table2", tmp_path)
    by_label = {line.label: line for line in found.lines}
    assert by_label["Sequential (Absolute), length <= 20"].verdict == "reproduced"
    assert by_label["Sequential (Absolute), length > 20"].ours == "51.0 ± 1.4"
    assert by_label["Sequential (Absolute), ones > 20"].verdict.startswith("differs")
    assert by_label["Sequential (Relative), ones > 20"].verdict == "never run"
    assert (found.networks, found.date) == ("2", "2026-01-02")
    manifest = tmp_path / "alta/parity_sequential_absolute/manifest.json"
    write_json(manifest, json.loads(manifest.read_text()) | {"steps": 49_999})
    found = alta_table("alta-table2", tmp_path)
    assert found.details[-1].rows[0][:2] == ("parity_sequential_absolute", "49999 of 50000 steps")
    fewer = {line.label: line.verdict for line in found.lines}
    assert fewer["Sequential (Absolute), length <= 20"] == "too small to compare"
    write_result(tmp_path, "relative_8", [(1.0, 0.6, 0.5)])
    write_result(tmp_path, "relative_8_shared", [(1.0, 0.6, 0.5)])
    assert [d.header for d in alta_table("alta-figure5", tmp_path).details] == [
        ("length", "relative_8_shared"),
        ("ones", "relative_8_shared"),
    ]
    details = alta_table("alta-figure10", tmp_path).details[0]
    assert details.header == ("ones", "relative_8", "relative_8_shared")
    details = alta_table("alta-figure9", tmp_path).details[0]
    assert details.header == ("length", "relative_8", "relative_8_shared")
    assert details.rows == (("19", "1.00", "1.00"), ("20", "0.50", "0.50"))
    assert "### ALTA, Table 2: Trace supervision on parity" in document(tmp_path)
    with pytest.raises(ValueError, match="ALTA has no 'alta-table4' here"):
        alta_table("alta-table4", tmp_path)


def test_what_was_trained_otherwise_is_not_compared(tmp_path: Path) -> None:
    """Other seeds, an early end and other biases of distances are compared, and said."""
    write_result(tmp_path, "relative_8", [(1.0, 0.3, 0.5)], ended="enough")
    path = tmp_path / "alta/relative_8/config.json"
    config = json.loads(path.read_text())

    def verdicts(recipe: dict[str, Any], **size: Any) -> list[str]:
        changed = {"recipe": config["recipe"] | recipe, "transformer": config["transformer"] | size}
        write_json(path, config | changed)
        return [line.verdict for line in alta_table("alta-table3", tmp_path).lines[:3]]

    for other in ({"batch": 128}, {"learning_rate": 1e-3}, {"optimiser": "adam"}):
        assert verdicts(other) == ["too small to compare"] * 3
    assert verdicts({}, width=256) == ["too small to compare"] * 3
    short, longer, _ = verdicts({"first_seed": 3})
    assert (short, longer[:25]) == ("reproduced", "differs: one network each")
    short, longer, _ = verdicts({}, distances="each")
    assert short == "reproduced: though trained with a bias for each distance, not with T5's buckets"
    assert longer.startswith("differs: trained with a bias for each distance, not with T5's buckets; one network each")
    went = alta_table("alta-table3", tmp_path).details[-1].rows[0][1]
    assert went == "ended after 7 steps at 100% of 1024 texts drawn for that, a bias for each distance"
    write_result(tmp_path, "absolute_8", [(1.0, 0.49, 0.5)], ended="stopped before all steps")
    stopped = alta_table("alta-table3", tmp_path)
    assert {line.verdict for line in stopped.lines if line.label.startswith("8 layers, absolute")} == {
        "too small to compare"
    }
    assert stopped.details[-1].rows[1][:2] == ("absolute_8", "stopped after 7 of 50000 steps")
    write_result(tmp_path, "parity_sum_mod_2_traced", [(0.7, 0.6, 0.5)])
    path = tmp_path / "alta/parity_sum_mod_2_traced/config.json"
    supervised = json.loads(path.read_text())
    for other, said in (
        (
            {"sharpness": 1.0},
            "differs: with heads of sharpness 1 (the study has 0.03125 now); one network",
        ),
        ({"undefined": 10.0}, "differs: with undefined values up to 10 (the study has 0 now)"),
        ({"precision": "highest"}, "differs: with products in precision highest (the study has default now); one"),
        ({"noise": 0.2}, "too small to compare"),
    ):
        write_json(path, supervised | {"mlp": supervised["mlp"] | other})
        lines = {line.label: line.verdict for line in alta_table("alta-table2", tmp_path).lines}
        assert lines["Sum + Modulo, length <= 20"].startswith(said)
    write_result(tmp_path, "scan_2", [(0.5,)], ended="enough")
    early = alta_table("alta-table5", tmp_path).lines[0].verdict
    assert early.startswith(
        "differs: ended after 7 of 100000 steps, when all answers that were looked at were right; one "
    )


def test_small_numbers_and_failed_trainings_are_not_reproduced_by_chance(tmp_path: Path) -> None:
    write_result(tmp_path, "absolute_8", [(0.6, 0.5, 0.5)], ended="enough")
    lines = {line.label: line.verdict for line in alta_table("alta-table3", tmp_path).lines}
    assert lines["8 layers, absolute, length <= 20"].startswith("differs")
    assert lines["8 layers, absolute, ones > 20"] == "shown: it did not learn texts as long as those of training"
    for share, verdict in ((0.0, "differs"), (0.044, "differs"), (0.046, "reproduced"), (0.13, "reproduced")):
        folder = tmp_path / str(share)
        write_result(folder, "scan_16", [(share,)], ended="enough")
        found = {line.label: line for line in alta_table("alta-table5", folder).lines}
        line = found["length, 16 layers, shared, relative, test"]
        assert (line.paper, line.verdict[: len(verdict)]) == ("9", verdict), share


def test_results_from_before_a_setting_are_read_as_what_they_were() -> None:
    planned = sequence_studies("full")
    for name, distances in {"relative_8": "each", "scan_2": "each", "absolute_8": "buckets"}.items():
        config = json.loads((RESULTS / "alta" / name / "config.json").read_text())
        found = SequenceStudy.of({**config, "transformer": _without(config["transformer"], "distances")})
        assert found.transformer.distances == distances
        was = {"distances": distances, "precision": config["transformer"]["precision"]}
        assert found.transformer == replace(planned[name].transformer, **was)
    for name in ("parity_sequential_relative", "absolute_8", "absolute_8_shared"):
        config = json.loads((RESULTS / "alta" / name / "config.json").read_text())
        older = _without({**config, "recipe": _without(_without(config["recipe"], "clip"), "schedule")}, "split")
        found, meant = SequenceStudy.of(older), planned[name]
        if found.transformer is not None:
            meant = replace(meant, transformer=replace(meant.transformer, precision=found.transformer.precision))
        assert found == replace(meant, recipe=replace(meant.recipe, schedule="constant"))


def test_what_was_tested_or_trained_otherwise_is_said(tmp_path: Path) -> None:
    """Longer texts that were drawn otherwise, a constant learning rate, and a time in which nothing was trained."""
    name = "parity_sequential_absolute"
    write_result(tmp_path, name, [(1.0, 0.7, 0.5)])
    folder = tmp_path / "alta" / name
    config, manifest = (json.loads((folder / f"{part}.json").read_text()) for part in ("config", "manifest"))
    write_json(folder / "config.json", config | {"recipe": _without(config["recipe"], "schedule")})
    times = {"train_s": 100.0, "of_which_paused_s": 40}
    write_json(folder / "manifest.json", _without(manifest, "tests") | {"times": times})
    found = alta_table("alta-table2", tmp_path)
    lines = {line.label.removeprefix("Sequential (Absolute), "): line for line in found.lines if "Abs" in line.label}
    assert [lines[f"{what} 20"].ours for what in ("length <=", "length >", "ones >")] == [
        *("100.0", "70.0 (old slice)", "50.0"),
    ]
    departed = "though trained with the learning rate constant (the study has decay now)"
    assert lines["length <= 20"].verdict == f"reproduced: {departed}"
    assert lines["length > 20"].verdict == "shown: longer texts were drawn otherwise"
    assert found.details[-1].rows[0][1::2] == ("50000 steps, constant learning rate", "60")
    (row,) = (row for row in alta_table("alta-gap", tmp_path).details[0].rows if row[0] == name)
    assert "70.0 (old slice)" in row
    minimal = {"rules": 3, "kept": 2, "whole": {"length > 20": 1.0}, "small": {"length > 20": 0.7}}
    shown = alta._minimal_table([{"label": "sum", "program": "sum"}], {"sum": minimal})
    assert shown.rows[0][3] == "length > 20 (old slice)"
    shown = alta._minimal_table([{"label": "sum", "program": "sum"}], {"sum": minimal | {"tests": PARITY_TESTS}})
    assert shown.rows[0][3] == "length > 20"


def _without(settings: dict[str, Any], name: str) -> dict[str, Any]:
    return {k: v for k, v in settings.items() if k != name}


def test_the_table_of_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_result(tmp_path, "scan_6", [(0.11,), (0.13,)], ended="enough")
    write_result(tmp_path, "scan_divergence_16", [(0.2,)], texts={"test": 1045})  # making the split takes a while
    found = alta_table("alta-table5", tmp_path)
    by_label = {line.label: line for line in found.lines}
    assert by_label["length, 6 layers, shared, relative, test"].verdict.startswith(
        "reproduced: though ended after 7 of"
    )
    assert by_label["length, 2 layers, shared, relative, test"].verdict == "never run"
    assert by_label["MCD1, 2 layers, shared, relative, test"].verdict == "data not available"
    ours = by_label["divergence (ours, stands in for MCD), 16 layers, shared, relative, test"]
    assert (ours.paper, ours.ours, ours.verdict) == ("", "20.0", "shown")
    grid, trainings = found.details
    assert grid.header[-7:] == ("2", "6", "16", "32", "64", "128", "256")
    cells = {row[:4]: row[4:] for row in grid.rows}
    assert cells["length", "shared", "relative", "paper"] == ("11", "10", "9", "7", "7", "7", "5")
    assert cells["length", "shared", "relative", "ours"] == (
        *("never run", "12.0 ± 1.4 (11.0 to 13.0 over networks)"),
        *["never run"] * 5,
    )
    assert cells["MCD3", "separate", "absolute", "paper"] == ("4", "5", "2", "3", "1", "–", "–")
    assert cells["MCD3", "separate", "absolute", "ours"] == (*["data not available"] * 5, "–", "–")
    assert ("random (ours)", "shared", "relative", "paper") not in cells
    assert trainings.rows[0][:2] == ("scan_6", "ended after 7 steps at 100% of some commands of the training set")
    assert trainings.rows[1][:2] == ("scan_divergence_16", "100000 steps")
    drawn = alta_table("alta-figure18", tmp_path).details[0]
    assert {row[1:3] for row in drawn.rows} == {("shared", "relative")}
    assert len(drawn.rows) == 5 * 2 + 2  # the paper's splits with its numbers, one in pieces as well, and two of ours
    (tmp_path / "data/scan").mkdir(parents=True)
    (tmp_path / "data/scan/mcd1.json").touch()
    by_label = {line.label: line for line in alta_table("alta-table5", tmp_path).lines}
    assert by_label["MCD1, 2 layers, shared, relative, test"].verdict == "never run"
    assert by_label["MCD2, 2 layers, shared, relative, test"].verdict == "data not available"


def test_what_trains_nothing_says_what_it_needs(tmp_path: Path) -> None:
    said: list[str] = []
    run_alta_item("alta-simplicity", "quick", tmp_path, runs=tmp_path, say=said.append)
    assert said == ["Minimal programs are not there yet: mechgap paper alta-figure4 makes them."]
    with pytest.raises(ValueError, match="alta-gap trains nothing, so that --set steps means nothing to it"):
        run_alta_item("alta-gap", "quick", tmp_path, runs=tmp_path, changes={"steps": 3})


def test_only_what_has_data_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []
    monkeypatch.setattr(alta, "run_missing", lambda studies, *rest: asked.extend(study.name for study in studies))
    run = partial(run_alta_item, "alta-table5", "full", tmp_path, runs=tmp_path)
    run()
    names = ("scan_{}", "scan_{}_pieces", "scan_divergence_{}", "scan_random_{}")
    assert asked == [name.format(layers) for name in names for layers in (2, 6, 16)]
    (tmp_path / "data/scan").mkdir(parents=True)
    (tmp_path / "data/scan/mcd2.json").touch()
    run()
    assert [name for name in asked if "mcd" in name] == ["scan_mcd2_2", "scan_mcd2_6", "scan_mcd2_16"]


def test_all_trainings_in_one_table(tmp_path: Path) -> None:
    write_result(tmp_path, "relative_8", [(1.0, 0.6, 0.5)], ended="enough")
    write_result(tmp_path, "scan_2", [(0.1,)])
    head = {"head": "left", "matched": 1.0, "layer": 0, "index": 0}
    probe = {"variable": "parity", "majority": 0.5}
    gap = {
        "heads": [head | {"distance": 0.25, "uniform": 0.75}, head | {"distance": 0.75, "uniform": 1.0}],
        "variables": [
            probe | {"layer": layer, "accuracy": accuracy, "control": control}
            for layer, accuracy, control in ((0, 1.0, 1.0), (1, 0.75, 0.5), (2, 0.25, 0.75))
        ],
    }
    nothing = {"heads": [], "variables": []}
    write_json(tmp_path / "alta/relative_8/gap.json", {"0": {"one_program": gap, "other_program": nothing}})
    table = alta_table("alta-gap", tmp_path).details[0]
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [row["study"] for row in rows] == ["relative_8", "relative_8", "scan_2"]
    assert rows[0] == {
        "study": "relative_8",
        "learns from": "answers",
        "networks": "1",
        "training": "ended after 7 steps at 100% of 1024 texts drawn for that",
        "training data": "",
        "as long": "100.0",
        "longer": "60.0",
        "more ones": "50.0",
        "test of SCAN": "",
        "compared with": "one_program",
        "nearest head / one each (untrained, uniform)": "0.50 / 1.00 (–, 0.88)",
        "the same from the answering place": "",
        "variables read (untrained, shuffled, most frequent)": "0.50 (–, 0.62, 0.50)",  # the embedding is left out
        "the same at the answering place": "",
        "measured on": "64 texts at most: the old way",
    }
    cells = ("compared with", "longer", "nearest head / one each (untrained, uniform)")
    assert [rows[1][cell] for cell in cells] == ["other_program", "", ""]
    assert (rows[2]["test of SCAN"], rows[2]["longer"]) == ("10.0", "")
    there = {"accuracy": 0.75, "control": 0.5, "majority": 0.25, "untrained": 0.125}
    gap["heads"] = [one | {"untrained": 0.5, "answering": one | {"untrained": 1.0}} for one in gap["heads"]]
    gap["variables"] = [one | {"answering": there if one["layer"] == 1 else None} for one in gap["variables"]]
    measured = {"version": 2, "texts": 1024, "length": 20}
    now = {"measured": measured, "seeds": {"0": {"one_program": gap | {"mark": "before the bits"}}}}
    write_json(tmp_path / "alta/relative_8/gap.json", now)
    row = alta_table("alta-gap", tmp_path).details[0].rows[0]
    assert row[-5:] == (
        *("0.50 / 1.00 (0.50, 0.88)", "0.50 / 1.00 (1.00, 0.88)"),
        *("0.50 (–, 0.62, 0.50)", "0.75 (0.12, 0.50, 0.25)"),
        "1024 texts of 20 bits, mark: before the bits",
    )
    said = CliRunner().invoke(app, ["alta", "summary", "--folder", str(tmp_path)], env={"COLUMNS": "250"}).output
    assert "ended after 7 steps" in said
    assert "SCAN" in said
    narrow = CliRunner().invoke(app, ["alta", "summary", "--folder", str(tmp_path)], env={"COLUMNS": "80"}).output
    assert max(len(line) for line in narrow.splitlines()) <= 80
    for whole in ("0.50 / 1.00 (1.00, 0.88)", "0.75 (0.12, 0.50, 0.25)", "relative_8: one_program", "│ 60.0 "):
        assert whole in narrow, whole


def test_a_page_of_curves_is_not_about_scan() -> None:
    with pytest.raises(ValueError, match="scan_2 is a training on SCAN, which has no curves"):
        trainings([RESULTS / "alta/scan_2"])


def test_how_simple_programs_are() -> None:
    """Section 4.1: fewer rules, and more layers."""
    found = {row[:2]: row[2:] for row in alta_table("alta-simplicity", RESULTS).details[0].rows}
    assert found["Sequential (Relative)", "ours"] == ("7", "7", "7", "20", "16")  # 4 variables of two values each
    assert found["Sequential (Relative)", "paper"] == ("", "7", "7", "N - 1", "")
    assert found["Sum + Modulo", "ours"][1] == found["Sum + Modulo", "paper"][1] == "31"
    assert found["Sum + Modulo, the count written down", "ours"][:2] == ("40602", "51")
    assert found["Sequential (Absolute)", "paper"][1:4] == ("7", "7", "N - 1")
    assert ("Sum + Modulo, the count written down", "paper") not in found
    assert found["Addition", "ours"][2:4] == ("296", "5")
    assert found["Addition", "paper"][2:4] == ("884", "N + 2")
    assert found["SCAN", "ours"][2:] == ("784", "56", "10^19")
    assert found["SCAN", "paper"][2:] == ("fewer than 2,000", "at most 512", "more than 10^60")
    made = generalisation(mg.program("parity_sequential_relative"), parity_task(6, 12, each=3))
    assert (made.layers, made.combinations) == (6, 16)


@pytest.mark.slow
def test_an_item_of_alta_is_run(tmp_path: Path) -> None:
    words = ["paper", "alta-table2", "--folder", str(tmp_path), "--runs", str(tmp_path / "runs"), "--set", "steps=4"]
    done = CliRunner().invoke(app, [*words, "--set", "chunk=2"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "too small to compare" in done.output
    again = CliRunner().invoke(app, [*words, "--set", "chunk=2"], env={"COLUMNS": "200"})
    assert again.output.count("finished before") == 4
