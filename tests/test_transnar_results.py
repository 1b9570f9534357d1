"""TransNAR beside the paper's claims: verdicts are computed from numbers, and nothing is said that was not measured."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mechgap.report.paper.transnar as transnar
from made_up_results import STUDY, rows, verdicts, write
from mechgap.report import text_models
from mechgap.report.paper.command import answer
from mechgap.report.paper.transnar import run_transnar_item, transnar_items, transnar_table
from mechgap.report.paper.transnar_results import NEEDED, Gain, Results, merged
from mechgap.training.transnar import TextTrainingConfig
from mechgap.training.transnar.presets import read_study
from mechgap.training.transnar.summary import bring_reasoners, read_reasoners, read_summary, write_summary

ROOT = Path(__file__).parents[1]


CLAIM = "The claim: a gain at 10 and at 14 that shuffled states lose"


@pytest.mark.parametrize(
    ("transnar", "shuffled", "says"),
    [
        (0.6, 0.4, "reproduced"),
        (0.4, 0.4, "differs: at 10 within two standard errors; at 14 within two standard errors"),
        (0.6, 0.5, "differs: with shuffled states there is a gain at 10, too"),
        (0.3, 0.4, "differs: at 10 a loss of more than two standard errors"),
    ],
)
def test_the_claim_is_judged_by_gains_and_by_shuffled_states(
    transnar: float, shuffled: float, says: str, tmp_path: Path
) -> None:
    for name, score in (("transformer", 0.4), ("transnar", transnar), ("transnar_shuffled", shuffled)):
        write(tmp_path, name, score)
    found = verdicts("grid", tmp_path)
    assert found[CLAIM].startswith(says)
    assert found["Not measured yet: transformer_counted_positions, transnar_counted_positions"] == "never run"


def test_a_gain_that_shuffled_states_half_have_is_no_claim(tmp_path: Path) -> None:
    """Over no reasoner it counts, and that of shuffled states does not; but the one is not above the other."""
    write(tmp_path, "transformer", 0.4)
    write(tmp_path, "transnar", 0.42)
    write(tmp_path, "transnar_shuffled", {"": 0.4, "bfs": 0.9})
    found = verdicts("grid", tmp_path)
    assert found["TransNAR above the Transformer, CLRS, n = 10"] == "reproduced"
    assert found["TransNAR with shuffled states above the Transformer, CLRS, n = 10"].startswith("shown: within two")
    assert found[CLAIM].startswith("differs: above shuffled states at 10 within two standard errors; above")


@pytest.mark.parametrize(
    ("exact", "says"),
    [
        ({"": 0.5}, "shown: not decided; all differences are within two standard errors over algorithms"),
        ({"": 0.6}, "shown: more at n = 10, 12, 14, 16, less at n = none"),
        ({"": 0.4}, "shown: more at n = none, less at n = 10, 12, 14, 16"),
        (
            {"": 0.5, "bfs": 0.9},
            "shown: not decided; all differences are within two standard errors over algorithms",
        ),
    ],
)
def test_whether_an_exact_reasoner_helps_more(exact: dict[str, float], says: str, tmp_path: Path) -> None:
    write(tmp_path, "transnar_compiled", exact)
    write(tmp_path, "transnar_eight", 0.5)
    label = "Does an exact reasoner help more than a trained one? CLRS"
    assert verdicts("compiled", tmp_path)[label] == says
    assert "exact reasoner above none, CLRS, n = 10" not in verdicts("compiled", tmp_path)
    (line,) = [line for line in transnar_table("transnar-compiled", tmp_path).lines if line.label == label]
    largest = max(exact.values())
    assert ("on bfs)" in line.ours) == (largest == exact.get("bfs"))
    write(tmp_path, "transformer", 0.3)
    found = transnar_table("transnar-compiled", tmp_path)
    assert "exact reasoner above none, CLRS, n = 10" in [line.label for line in found.lines]
    assert {row[0] for row in found.details[1].rows} == set(STUDY.models["transnar_compiled"].algorithms)


@pytest.mark.parametrize(("score", "has_learned"), [(0.4, False), (0.8, True)])
def test_it_is_said_how_far_training_came(score: float, has_learned: bool, tmp_path: Path) -> None:
    write(tmp_path, "transformer", 0.3)
    write(tmp_path, "transnar", score)
    said = transnar_table("transnar-grid", tmp_path).item.about
    mean = 100 * score + 0.9  # of 0, 1 and 2 points more for the algorithms in turn
    assert f"At n = 12, a size of training, TransNAR has {mean:.1f} and Transformer 30.9 % (best constant" in said
    assert ("too short for that" in said) != has_learned
    assert "At n = 10, a size of training" not in said


def test_other_settings_are_too_small_to_compare(tmp_path: Path) -> None:
    for name in ("transformer", "transnar", "transnar_shuffled"):
        write(tmp_path, name, 0.9 if name == "transnar" else 0.4, width=8)
    assert verdicts("grid", tmp_path)[CLAIM] == "too small to compare"


def test_algorithms_with_the_same_answers_count_as_one(tmp_path: Path) -> None:
    assert merged({"bfs": 1.0, "graham_scan": 2.0, "jarvis_march": 4.0}) == {
        "graham_scan with jarvis_march": 3.0,
        "bfs": 1.0,
    }
    assert merged({"bfs": 1.0, "graham_scan": 2.0}) == {"bfs": 1.0, "graham_scan": 2.0}
    write(tmp_path, "transformer", 0.4)
    write(tmp_path, "transnar", {"": 0.4, "graham_scan": 0.7, "jarvis_march": 0.5, "bfs": 0.45})
    gain = Results(tmp_path).gain("transnar", "transformer", 10)
    assert (gain.count, gain.mean) == (9, pytest.approx((20 + 5) / 9))
    assert "none of 9" in [line.ours for line in transnar_table("transnar-claims", tmp_path).lines]
    overview = transnar_table("transnar-grid", tmp_path).details[0]
    (plain,) = [row for row in overview.rows if row[0] == "Transformer"]
    assert plain[-1].startswith("90.0 / 100.0 / 40.9 ± ")


def test_it_is_shown_what_is_left_of_a_gain_without_two_algorithms(tmp_path: Path) -> None:
    write(tmp_path, "transformer", 0.4)
    write(tmp_path, "transnar", {"": 0.42, "binary_search": 0.9, "minimum": 0.8})
    lines = {line.label: line for line in transnar_table("transnar-grid", tmp_path).lines}
    assert lines["TransNAR above the Transformer, CLRS, n = 10"].ours == "+11.6 (+11.6 and +11.6)"
    left = lines["TransNAR above the Transformer without binary_search and minimum, CLRS, n = 10"]
    assert (left.ours, left.verdict) == ("+2.0 (+2.0 and +2.0)", "shown: a gain of more than two standard errors")


def test_a_gain_whose_interval_has_zero_in_it_is_marked(tmp_path: Path) -> None:
    """Two standard errors over nine algorithms are less than Student's t asks for."""
    write(tmp_path, "transformer_counted_positions", 0.1)
    wide = {"": 0.1, "binary_search": 0.8, "minimum": 0.8, "insertion_sort": 0.5, "bfs": 0.2}
    write(tmp_path, "transformer", wide)
    lines = {line.label: line for line in transnar_table("transnar-grid", tmp_path).lines}
    line = lines["Transformer: randomised above counted positions, CLRS, n = 10"]
    assert line.interval.startswith("-")
    assert line.verdict == "reproduced: by two standard errors; the 95 % interval has 0 in it"
    assert Gain(2.1, 1.0, 9).words == "a gain of more than two standard errors; the 95 % interval has 0 in it"
    assert Gain(-2.1, 1.0, 9).words == "a loss of more than two standard errors; the 95 % interval has 0 in it"
    assert Gain(2.4, 1.0, 9).words == "a gain of more than two standard errors"
    write(tmp_path, "transformer", 0.9)
    assert verdicts("grid", tmp_path)[line.label] == "reproduced"


def test_of_which_algorithms_more_is_known_than_the_best_constant_answer(tmp_path: Path) -> None:
    write(tmp_path, "transnar", {"": 0.1, "bfs": 0.4, "dfs": 0.295})
    lines = {line.label: line.ours for line in transnar_table("transnar-grid", tmp_path).lines}
    said = "1 of 9: bfs; by no more than two standard errors over questions: dfs"
    assert lines["TransNAR above the best constant answer, algorithms, n = 10"] == said


@pytest.mark.parametrize(
    ("plain", "mine", "ours", "says"),
    [
        (0.9, 0.9, "in 0 of 0 cases nothing either", "shown: there is no such case"),
        ({"": 0.9, "bfs": 0.0}, {"": 0.9, "bfs": 0.005}, "in 2 of 2 cases nothing either", "reproduced"),
        (
            {"": 0.9, "bfs": 0.0},
            {"": 0.9, "bfs": 0.05},
            "in 0 of 2 cases nothing either; bfs 0.0 → 5.0 (5.0 and 5.0) at 10; bfs 0.0 → 5.0 (5.0 and 5.0) at 14",
            "differs: somewhere every network has more than that by two standard errors over questions",
        ),
        (
            {"": 0.9, "bfs": 0.0},
            {"": 0.9, "bfs": 0.025},
            "in 0 of 2 cases nothing either; bfs 0.0 → 2.5 (2.5 and 2.5) at 10; bfs 0.0 → 2.5 (2.5 and 2.5) at 14",
            "shown: not decided; nowhere has every network more by two standard errors over questions",
        ),
    ],
)
def test_counted_positions_leave_nothing_where_the_transformer_has_nothing(
    plain: Any, mine: Any, ours: str, says: str, tmp_path: Path
) -> None:
    for name in ("transformer", "transnar"):
        write(tmp_path, name, 0.5)
    write(tmp_path, "transformer_counted_positions", plain)
    write(tmp_path, "transnar_counted_positions", mine)
    (line,) = [x for x in transnar_table("transnar-claims", tmp_path).lines if x.label.startswith("Counted positions")]
    assert (line.ours, line.verdict) == (ours, says)


def test_parse_scores_of_all_models_are_summed_up_or_listed(tmp_path: Path) -> None:
    for name in ("transformer", "transnar"):
        write(tmp_path, name, 0.5)
    said = transnar_table("transnar-grid", tmp_path).item.about
    assert "Parse is 100 % in all 160 rows of all models" in said  # two models, two seeds, four sizes, ten algorithms
    path = tmp_path / "transnar" / "transnar.json"
    about = json.loads(path.read_text())
    about["metrics"]["scores"]["models"]["as trained"][1]["by_size"]["14"][0]["parse"] = 0.75
    path.write_text(json.dumps(about))
    compared = transnar_table("transnar-grid", tmp_path)
    assert "Parse is below 100 % in 1 of the 160 rows of all models, which are listed below." in compared.item.about
    assert compared.details[-1].rows == (("TransNAR", "as trained", "1", "14", "graham_scan", "75.0"),)


def test_unseen_algorithms_are_those_without_a_decoder(tmp_path: Path) -> None:
    for name in ("transformer", "transnar", "transnar_unseen"):
        write(tmp_path, name, 0.5)
    compared = transnar_table("transnar-unseen", tmp_path)
    assert "never seen (mst_prim, dfs)" in compared.lines[0].label
    assert compared.details[0].rows == (("mst_prim", "bellman_ford"), ("dfs", "bfs"))


def test_nothing_is_said_about_what_was_not_measured(tmp_path: Path) -> None:
    for name in transnar_items():
        compared = transnar_table(name, tmp_path)
        assert not any(line.ours for line in compared.lines)
        assert not compared.details
        (last,) = [line for line in compared.lines if line.label.startswith("Not measured yet")]
        needed = list(STUDY.reasoners) if name == "transnar-reasoners" else NEEDED[name.removeprefix("transnar-")]
        assert last.label.removeprefix("Not measured yet: ").split(", ") == list(needed)
    assert "## TransNAR" in (ROOT / "docs/reproduction.md").read_text()


def test_reasoners_stand_beside_the_best_constant_answers(tmp_path: Path) -> None:
    def about(name: str, score: float, **changes: Any) -> dict[str, Any]:
        config = STUDY.reasoners[name].as_json() | changes
        by_size = {str(n): rows(tuple(config["algorithms"]), {"": score}) for n in (10, 16)}
        manifest = {"times": {"train_s": 7.0}, "device": {"kind": "cpu"}}
        return {"config": config, "manifest": manifest, "asked": {"by_size": by_size}}

    (tmp_path / "transnar").mkdir()
    found = {"trained": about("trained", 0.5), "thirty_gatv2": about("thirty_gatv2", 0.6, steps=3)}
    (tmp_path / "transnar" / "reasoners.json").write_text(json.dumps(found | {"seven": {"name": "not asked"}}))
    compared = transnar_table("transnar-reasoners", tmp_path)
    label = "trained: triplet_gmpnn, 10 algorithms, CLRS score (best constant answer)"
    assert {line.label: line.verdict for line in compared.lines} == {
        label: "shown",
        "trained: algorithms surely above the best constant answer, of 10": "shown",
        "thirty gatv2: gatv2, 30 algorithms, CLRS score (best constant answer)": "too small to compare",
        "thirty gatv2: algorithms surely above the best constant answer, of 30": "too small to compare",
        "Not measured yet: seven, thirty": "never run",
    }
    assert compared.lines[0].ours == "50.9 (30.0) at 10, 50.9 (30.0) at 16"
    assert compared.lines[1].ours == "10 at 10, 10 at 16"
    _, at_10, at_16 = compared.details
    assert at_10.header == ("algorithm", "trained", "thirty gatv2", "best constant answer")
    assert {row[0]: row[1:] for row in at_16.rows}["bridges"] == ("", "62.0", "30.0")
    assert len(at_16.rows) == 30


@pytest.mark.slow
def test_reasoners_are_run_summed_up_and_shown(tmp_path: Path) -> None:
    small = {"reasoner.steps": 2, "reasoner.pool": 4, "evaluation.count": 2, "evaluation.sizes": [5]}
    said: list[str] = []
    run = partial(run_transnar_item, "transnar-reasoners", "quick", tmp_path, changes=small, say=said.append)
    run(runs=tmp_path / "runs")
    assert "two is asked about 2 algorithms" in said
    run(runs=tmp_path / "elsewhere")
    assert said[-1] == "reasoners: finished before"
    assert verdicts("reasoners", tmp_path)["Not measured yet: seven, thirty, thirty_gatv2"] == "never run"


def asked_at(folder: Path, name: str, sizes: list[int], **evaluation: Any) -> None:
    """Made-up results of a model that was asked about these sizes alone."""
    path = folder / "transnar" / f"{name}.json"
    about = json.loads(path.read_text())
    about["metrics"]["scores"]["evaluation"] |= {"sizes": sizes, **evaluation}
    path.write_text(json.dumps(about))


def test_models_are_compared_at_sizes_that_all_were_asked_at(tmp_path: Path) -> None:
    for name, score in (("transformer", 0.4), ("transnar", 0.9), ("transnar_shuffled", 0.4)):
        write(tmp_path, name, score)
    asked_at(tmp_path, "transformer", [12])
    found = verdicts("grid", tmp_path)
    assert found["TransNAR above the Transformer, CLRS, n = 12"] == "reproduced"
    assert "TransNAR above the Transformer, CLRS, n = 10" not in found
    assert found[CLAIM] == "too small to compare"
    assert transnar_table("transnar-grid", tmp_path).details[0].header[-1] == "n = 12"
    (gain, four) = transnar_table("transnar-claims", tmp_path).lines
    assert gain.verdict == "too small to compare: not asked at both 10 and 14"
    assert four.label == "4x larger inputs"


def test_models_that_were_asked_other_questions_are_not_compared(tmp_path: Path) -> None:
    for name in ("transformer", "transnar"):
        write(tmp_path, name, 0.4)
    asked_at(tmp_path, "transformer", [10, 12, 14], seed=7)
    said = verdicts("grid", tmp_path)["TransNAR above the Transformer, CLRS, n = 10"]
    assert said == "not comparable: they were trained or asked with different questions to answer"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Runs an item whose models are kept as planned, but trains nothing; gives what was said, or the study to run."""
    said: list[str] = []
    monkeypatch.setattr(transnar, "bring_reasoners", lambda *given: [])
    monkeypatch.setattr(transnar, "run_study", lambda study, *given, **more: said.append(study.name))
    monkeypatch.setattr(transnar, "write_summary", lambda *given: [])
    for name in NEEDED["claims"]:
        write(tmp_path, name, 0.4)
        asked_at(tmp_path, name, **STUDY.evaluation.as_json() | {"together": 3})  # which changes nothing

    def run(preset: str = "full", **changes: Any) -> list[str]:
        said.clear()
        given: dict[str, Any] = {"runs": tmp_path / "runs", "changes": changes, "say": said.append}
        run_transnar_item("transnar-claims", preset, tmp_path, **given)
        return said

    return run


@pytest.mark.parametrize("changes", [{"evaluation.count": 9}, {"evaluation.sizes": 5}, {"steps": 9_000}])
def test_what_is_kept_is_of_the_settings_that_are_asked_for(
    changes: dict[str, Any], kept: Callable[..., list[str]]
) -> None:
    """Otherwise it is trained, or asked, anew."""
    assert kept() == ["transnar-claims: finished before"]
    assert kept(**changes) == ["h200"]


def test_a_larger_run_is_kept(tmp_path: Path, kept: Callable[..., list[str]]) -> None:
    """Full beats quick, also where quick runs are told to go to the same folder."""
    assert kept("quick") == [f"transnar-claims: {tmp_path} holds a larger run of transformer, transnar, which is kept"]


def test_scores_at_other_positions_are_asked_for_again(tmp_path: Path, kept: Callable[..., list[str]]) -> None:
    path = tmp_path / "transnar" / "transnar.json"
    about = json.loads(path.read_text())
    about["metrics"]["scores"].pop("positions")
    path.write_text(json.dumps(about))
    assert kept() == ["h200"]


def test_models_of_other_settings_are_not_summed_up(tmp_path: Path) -> None:
    place = tmp_path / "runs" / "transformer-1"
    place.mkdir(parents=True)
    config = STUDY.models["transformer"].as_json() | {"steps": 10, "warmup": 1}
    (place / "config.json").write_text(json.dumps(config))
    (tmp_path / "runs" / "study-transformer.json").write_text('{"number": 0, "place": "transformer-1"}')
    with pytest.raises(
        ValueError, match=r"was trained with other settings than the study 'h200' has \(steps, warmup\)"
    ):
        write_summary(STUDY, tmp_path / "runs", tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_nothing_is_judged_of_models_that_were_trained_otherwise(tmp_path: Path) -> None:
    for name in ("transformer", "transnar"):
        write(tmp_path, name, 0.4, **({"steps": 7} if name == "transformer" else {}))
        counted = {"": 0.9, "bfs": 0.0} if name == "transformer" else {"": 0.9, "bfs": 0.025}
        write(tmp_path, f"{name}_counted_positions", counted, **({"width": 8} if name == "transformer" else {}))
    found = verdicts("claims", tmp_path)
    assert {v for k, v in found.items() if k.startswith("Counted positions")} == {"too small to compare"}
    assert found["minimum: no gain"] == "not comparable: they were trained or asked with different steps"
    assert found["Gain in CLRS score, points of the mean over algorithms"].startswith("not comparable")


@pytest.mark.parametrize("item", ["transnar-grid", "alta-table2", "table10"])
def test_other_settings_do_not_take_the_place_of_results(item: str, tmp_path: Path) -> None:
    said = (
        r"Results of other settings \(steps\) would take the place of those in results, .* --folder runs/paper-changed"
    )
    with pytest.raises(ValueError, match=said):
        answer([item], "full", None, tmp_path, tmp_path / "out.md", {"steps": 10})


def test_every_model_of_the_study_is_needed_somewhere() -> None:
    assert {model for models in NEEDED.values() for model in models} == set(STUDY.models)


def test_an_unknown_item_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"TransNAR has no 'transnar-gird' here. Did you mean 'transnar-grid'"):
        transnar_table("transnar-gird", tmp_path)


def test_a_gain_is_more_than_two_standard_errors() -> None:
    assert Gain(2.1, 1.0, 10).counts
    assert not Gain(1.9, 1.0, 10).counts
    assert [Gain(x, 1.0, 10).words.split()[:2] for x in (2.1, 1.9, -1.9, -2.1)] == [
        *(["a", "gain"], ["within", "two"], ["within", "two"], ["a", "loss"])
    ]
    assert Gain(1.0, 0.5, 10).interval == "-0.1 to +2.1"  # 2.262 standard errors
    assert (str(Gain(-0.04, 1.0, 10)), Gain(1.0, 0.5, 1).interval) == ("-0.0", "")


def test_models_that_were_trained_differently_are_not_compared(tmp_path: Path) -> None:
    for name in ("transformer", "transnar", "transnar_shuffled", "transformer_deep"):
        write(tmp_path, name, 0.9 if name == "transnar" else 0.4, **({"steps": 7} if name == "transformer" else {}))
    found = verdicts("grid", tmp_path)
    assert found[CLAIM] == "not comparable: they were trained or asked with different steps"
    assert verdicts("controls", tmp_path)["TransNAR above TransNAR with shuffled states, CLRS, n = 10"].startswith(
        "shown: a gain"
    )


def look_at(folder: Path, name: str, reasoner: str, training: str) -> None:
    path = folder / "transnar" / f"{name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "reasoner": reasoner, "looks_at": training}))


def test_models_that_looked_at_different_trainings_of_a_reasoner_are_not_compared(tmp_path: Path) -> None:
    label = "TransNAR above TransNAR with shuffled states, CLRS, n = 10"
    for name in ("transformer", "transnar", "transnar_shuffled"):
        write(tmp_path, name, 0.9 if name == "transnar" else 0.4)
    look_at(tmp_path, "transnar", "trained", "together-1")
    look_at(tmp_path, "transnar_shuffled", "trained", "together-2")
    assert verdicts("controls", tmp_path)[label] == "not comparable: they were trained or asked with different reasoner"
    look_at(tmp_path, "transnar_shuffled", "trained", "together-1")
    assert verdicts("controls", tmp_path)[label].startswith("shown: a gain")
    (tmp_path / "transnar" / "reasoners.json").write_text(
        json.dumps({"trained": {"name": "together-1", "config": {"steps": 123}}})
    )
    assert "beside a reasoner of 123 steps" in transnar_table("transnar-grid", tmp_path).item.about
    look_at(tmp_path, "transnar", "trained", "together-2")
    assert "beside a reasoner" not in transnar_table("transnar-grid", tmp_path).item.about


def test_it_is_said_how_long_models_were_trained_and_what_is_below_the_floor(tmp_path: Path) -> None:
    for name, score in (("transformer", 0.1), ("transnar", 0.2)):
        write(tmp_path, name, score)
    about = transnar_table("transnar-grid", tmp_path).item.about
    assert "Trained for 10 steps of 16384 tokens on 2000 questions of every algorithm and size; the paper has" in about
    assert "the paper has 7 epochs over 7000 of them" in about
    assert "At n = 10, 12, 14, 16 both TransNAR and Transformer are below the best constant answer" in about
    write(tmp_path, "transnar", 0.5)
    assert "below the best constant answer on" not in transnar_table("transnar-grid", tmp_path).item.about


def test_gains_are_shown_by_seed_where_both_have_several(tmp_path: Path) -> None:
    for name in ("transformer", "transnar", "transformer_deep"):
        write(tmp_path, name, 0.5)
    path = tmp_path / "transnar" / "transnar.json"
    about = json.loads(path.read_text())
    first, second = about["metrics"]["scores"]["models"]["as trained"]
    better = {n: [{**row, "clrs": row["clrs"] + 0.1} for row in some] for n, some in second["by_size"].items()}
    about["metrics"]["scores"]["models"]["as trained"] = [first, {**second, "by_size": better}]
    path.write_text(json.dumps(about))
    grid, controls = (
        {line.label: line.ours for line in transnar_table(f"transnar-{item}", tmp_path).lines}
        for item in ("grid", "controls")
    )
    assert grid["TransNAR above the Transformer, CLRS, n = 10"] == "+5.0 (+0.0 and +10.0)"
    assert controls["TransNAR above a Transformer with as many parameters, CLRS, n = 10"] == "+5.0"


def test_a_student_is_compared_with_the_seed_that_taught_it(tmp_path: Path) -> None:
    for name in ("transformer", "transnar", "student"):
        write(tmp_path, name, 0.5)
    path = tmp_path / "transnar" / "transnar.json"
    about = json.loads(path.read_text())
    first, *others = about["metrics"]["scores"]["models"]["as trained"]
    worse = {n: [{**row, "clrs": row["clrs"] - 0.4} for row in some] for n, some in first["by_size"].items()}
    about["metrics"]["scores"]["models"]["as trained"] = [first, *({**other, "by_size": worse} for other in others)]
    path.write_text(json.dumps(about))

    def said_of(who: str) -> list[str]:
        lines = transnar_table("transnar-distillation", tmp_path).lines
        return [line.ours for line in lines if line.label == f"student above {who}, CLRS, n = 10"]

    assert said_of("its teacher") == ["+0.0"]
    student = tmp_path / "transnar" / "student.json"
    taught = json.loads(student.read_text())
    for own, told, who in (("a1", "a1", "its teacher"), ("a1", "b2", "TransNAR")):
        path.write_text(json.dumps({**about, "manifest": {**about["manifest"], "fingerprints": [own]}}))
        student.write_text(json.dumps({**taught, "manifest": {**taught["manifest"], "taught_by": told}}))
        assert said_of(who) == ["+0.0"]


def test_gains_are_of_algorithms_that_both_know(tmp_path: Path) -> None:
    write(tmp_path, "transformer", {"": 0.4, "graham_scan": 0.0})
    write(tmp_path, "transnar_eight", 0.5)
    gain = Results(tmp_path).gain("transnar_eight", "transformer", 10)
    eight = TextTrainingConfig.from_settings(STUDY.models["transnar_eight"].as_json())
    assert "graham_scan" not in eight.algorithms
    assert gain.mean == pytest.approx(10, abs=2)


@pytest.mark.slow
def test_an_item_is_run_summed_up_and_shown(tmp_path: Path) -> None:
    small = {"reasoner.steps": 2, "reasoner.pool": 4, "steps": 2, "warmup": 1, "samples": 4, "evaluation.count": 2}
    small |= {"evaluation.sizes": [5], "growing.sizes": [6, 8], "growing.count": 1}
    said: list[str] = []
    run_transnar_item(
        "transnar-distillation", "quick", tmp_path / "results", runs=tmp_path / "runs", changes=small, say=said.append
    )
    found = read_summary(tmp_path / "results" / "transnar")
    assert list(found) == ["transformer", "transnar", "student", "student_of_right_answers"]
    assert found["student"]["teacher"] == "transnar"
    assert found["student"]["manifest"]["taught_by"] == found["transnar"]["manifest"]["fingerprints"][0]
    assert set(found["student"]["metrics"]["teacher_right"]) == {"5"}
    assert set(verdicts("distillation", tmp_path / "results").values()) >= {"shown: within two standard errors"}
    assert transnar_table("transnar-growing", tmp_path / "results").details
    again = {"runs": tmp_path / "runs", "changes": small, "say": said.append}
    run_transnar_item("transnar-growing", "quick", tmp_path / "results", **again)
    assert said[-1] == "transnar-growing: finished before"
    run_transnar_item(
        "transnar-growing", "quick", tmp_path / "results", **again | {"changes": {**small, "growing.count": 2}}
    )
    assert said[-1] != "transnar-growing: finished before"
    kept = read_summary(tmp_path / "results" / "transnar")["transnar"]["metrics"]["growing"]["evaluation"]
    assert kept["count"] == 2
    study = read_study("quick", small)
    assert set(write_summary(study, tmp_path / "runs" / "transnar", tmp_path / "again")) == set(found)
    run_transnar_item("transnar-unseen", "quick", tmp_path / "results", **again | {"runs": tmp_path / "elsewhere"})
    assert "the reasoner 'trained' comes along, and is not trained again" in said
    assert set(read_reasoners(tmp_path / "results" / "transnar")) == {"trained", "two"}


def test_a_kept_reasoner_is_brought_once(tmp_path: Path) -> None:
    name = STUDY.reasoners["trained"].name()
    (tmp_path / "results" / name).mkdir(parents=True)
    (tmp_path / "results" / name / "scores.json").write_text("{}")
    assert bring_reasoners(STUDY, tmp_path / "results", tmp_path / "runs") == ["trained"]
    assert [path.name for path in (tmp_path / "runs" / name).iterdir()] == ["scores.json"]
    (tmp_path / "runs" / name / "scores.json").write_text("of another training")
    assert bring_reasoners(STUDY, tmp_path / "results", tmp_path / "runs") == []
    assert (tmp_path / "runs" / name / "scores.json").read_text() == "of another training"


def test_another_training_of_a_kept_reasoner_is_refused(tmp_path: Path) -> None:
    """Models that stay would no longer look at what lies beside them."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "study-transnar.json").write_text('{"number": 0, "place": "transnar-1"}')
    for folder in ("results", "runs"):
        place = tmp_path / folder / STUDY.reasoners["trained"].name()
        place.mkdir(parents=True)
        (place / "scores.json").write_text("{}")
        (place / "network.safetensors").write_text(folder)
    with pytest.raises(
        ValueError, match=r"are two trainings of one reasoner, and models of .*results look at the first"
    ):
        text_models.summarise_and_print(tmp_path / "runs", tmp_path / "results", "h200", {})
    assert [path.name for path in (tmp_path / "results").iterdir()] == [STUDY.reasoners["trained"].name()]


def test_answers_at_positions_closer_than_in_training_are_not_judged(tmp_path: Path) -> None:
    """Scores of before positions were drawn as in training; counted positions were never drawn."""
    for name, score in (("transnar", 0.5), ("transformer", 0.4), ("transformer_counted_positions", 0.4)):
        write(tmp_path, name, score)
    label = "TransNAR above the Transformer, CLRS, n = 10"
    assert verdicts("grid", tmp_path)[label] == "reproduced"
    for name in ("transnar", "transformer_counted_positions"):
        path = tmp_path / "transnar" / f"{name}.json"
        about = json.loads(path.read_text())
        del about["metrics"]["scores"]["positions"]
        path.write_text(json.dumps(about))
    closer = "not comparable: asked at positions closer together than in training: TransNAR"
    assert verdicts("grid", tmp_path)[label] == closer
    assert Results(tmp_path).asked_closer("transnar", "transformer", "transformer_counted_positions") == ["transnar"]
    said = Results(tmp_path).how_trained(["transnar", "transformer", "transformer_counted_positions"])
    assert "Scores of TransNAR are of positions that lie up to four times as close together" in said
    assert "to be repeated" not in Results(tmp_path).how_trained(["transformer", "transformer_counted_positions"])
