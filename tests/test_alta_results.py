"""ALTA's results beside the paper: damaged folders, intervals, and verdicts on what is said in words."""

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from mechgap.cli import app
from mechgap.faithfulness import sequence_study
from mechgap.faithfulness.minimal_programs import Generalisation
from mechgap.faithfulness.sequence_presets import sequence_studies
from mechgap.faithfulness.sequence_result import read_result
from mechgap.faithfulness.sequence_study import run_missing, run_sequence_study, why_kept
from mechgap.faithfulness.sequence_texts import count_texts, texts_in
from mechgap.report.alta_shares import share_interval
from mechgap.report.paper import alta
from mechgap.report.paper.alta import alta_table
from mechgap.report.paper.document import document
from mechgap.report.paper.verdicts import Line
from mechgap.training.checkpoint import write_json
from mechgap.training.many import Trained
from sequence_folders import gap, write_result

RESULTS = Path(__file__).parents[1] / "results"

# Damaged folders

MISSING = object()
NAME = "relative_8"


def counted(**texts: float) -> dict[str, Any]:
    """A manifest that says how many texts there were."""
    return {"date": "2026-01-02", "steps": 1, "texts": texts}


# What is wrong -> the file, what it holds, and what is said.
DAMAGE: dict[str, tuple[str, Any, str]] = {
    "no settings": ("config.json", {}, "config.json: no name"),
    "settings in a list": ("config.json", [], "config.json: no settings"),
    "an unknown setting": ("config.json", {"depth": 3}, "config.json: there is no setting 'depth'"),
    "no date": ("manifest.json", {}, "manifest.json: no date"),
    "half a text": ("manifest.json", counted(test=0.5), "manifest.json: texts are counted by whole numbers"),
    "no text": ("manifest.json", counted(test=0), "manifest.json: texts are counted by whole numbers"),
    "texts of other slices": ("manifest.json", counted(test=7), "metrics.json: manifest.json counts other texts than"),
    "shares of other texts": (
        "manifest.json",
        counted(**{"length <= 20": 10, "length > 20": 7, "ones > 20": 10}),
        "metrics.json: 0.6 is no share of 7 texts",
    ),
    "a list of nothing": ("manifest.json", [], "manifest.json: no date"),
    "no networks": ("metrics.json", [], "metrics.json: no networks"),
    "networks in a table": ("metrics.json", {}, "metrics.json: no networks"),
    "no slices": ("metrics.json", [{"seed": 0}], "metrics.json: no right answers on length <= 20"),
    "no metrics": ("metrics.json", MISSING, "No file"),
    "no kinds of curves": ("curves.json", {}, "curves.json: KeyError: 'right by length'"),
    "curves in a list": ("curves.json", [], "curves.json: TypeError"),
    "no curves": ("curves.json", MISSING, "No file"),
    "no seeds": ("gap.json", {**gap(), "seeds": {}}, "gap.json: 0 networks, and 1 in metrics.json"),
    "no programs": ("gap.json", {**gap(), "seeds": {"0": {}}}, "gap.json: networks are held against different"),
    "no gap": ("gap.json", MISSING, "No file"),
}
COMMANDS = {
    "alta summary": ("alta", "summary", "--folder", "{results}"),
    "report": ("report", "{results}/alta/relative_8", "--out", "{results}/page.html"),
    "report of several": ("report", "{results}/alta", "--out", "{results}/page.html"),
    "paper list": ("paper", "list", "--folder", "{results}"),
    "paper doc": ("paper", "doc", "--folder", "{results}", "--out", "{results}/page.md"),
    "paper": ("paper", "alta-table3", "--folder", "{results}", "--runs", "{results}/runs"),
}


def refused(folder: Path, command: str) -> str:
    """What a command says of a folder of results."""
    done = CliRunner().invoke(app, [word.format(results=folder) for word in COMMANDS[command]])
    assert isinstance(done.exception, ValueError), done.output
    assert not list(folder.glob("page.*")), "nothing is written"
    return str(done.exception)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_result_is_named(damage: str, command: str, tmp_path: Path) -> None:
    write_result(tmp_path, NAME, [(1.0, 0.6, 0.5)])
    file, content, why = DAMAGE[damage]
    path = tmp_path / "alta" / NAME / file
    path.unlink() if content is MISSING else write_json(path, content)
    said = refused(tmp_path, command)
    assert said.startswith(f"{tmp_path}/alta/{NAME} holds no whole result ({why}")
    assert said.endswith("Delete it, and train again.")


@pytest.mark.parametrize("command", ["alta summary", "paper list", "paper doc"])
@pytest.mark.parametrize("content", [{}, {"addition": {}}, [], {"addition": {"kept": "many"}}])
def test_damaged_minimal_programs_are_named(content: Any, command: str, tmp_path: Path) -> None:
    (tmp_path / "alta").mkdir()
    write_json(tmp_path / "alta/minimal.json", content)
    said = refused(tmp_path, command)
    assert said.startswith(f"{tmp_path}/alta/minimal.json holds no whole result (")
    assert said.endswith("Delete it, and make it again: mechgap paper alta-figure4.")


def test_minimal_programs_are_made_where_they_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are there stay, but for those that were tested otherwise."""
    made: list[str] = []

    def generalisation(program: Any, task: Any) -> Generalisation:
        made.append(program.name)
        return Generalisation(3, 2, None, 1, 8, {"test": 1.0}, {"test": 0.5})

    monkeypatch.setattr(alta, "generalisation", generalisation)
    run = partial(alta.run_alta_item, "alta-figure4", "quick", tmp_path, runs=tmp_path / "runs", say=lambda said: None)
    run()
    names = [row["program"] for row in alta._entry("alta-figure4")["minimal"]]
    assert made == names
    run()
    assert made == names
    file = tmp_path / "alta" / "minimal.json"
    known = json.loads(file.read_text())
    assert list(known) == names
    write_json(file, {**{name: known[name] for name in names[1:]}, "addition": known["addition"] | {"tests": 1}})
    run()
    assert made == [*names, names[0], "addition"]
    assert json.loads(file.read_text()) == known


def test_whole_results_are_read() -> None:
    found = {folder.name: read_result(folder) for folder in (RESULTS / "alta").iterdir() if folder.is_dir()}
    assert found["scan_2"].curves == {}
    assert found["relative_40"].curves["right by ones"][5] == [pytest.approx(0.62, abs=0.01)]


def test_what_is_damaged_is_not_trained_over(tmp_path: Path) -> None:
    write_result(tmp_path, NAME, [(1.0, 0.6, 0.5)])
    folder, study = tmp_path / "alta" / NAME, sequence_studies("full")[NAME]
    assert why_kept(study, folder) == "finished before"
    (folder / "metrics.json").unlink()
    for begin in (why_kept, run_sequence_study):
        with pytest.raises(ValueError, match=r"relative_8 holds no whole result .*metrics.json.*Delete it"):
            begin(study, folder)  # type: ignore[operator]
    first = sequence_studies("quick")["absolute_8"]
    with pytest.raises(ValueError, match="relative_8 holds no whole result"):
        run_missing([first, study], tmp_path / "alta", tmp_path / "runs", print)
    assert not (tmp_path / "alta/absolute_8").exists(), "nothing is trained before that is said"
    assert json.loads((folder / "manifest.json").read_text())["date"] == "2026-01-02"


# How sure a share is


def test_the_interval_of_a_share_by_hand() -> None:
    """Wilson's: the shares p that are no more than z of their own standard errors from what was seen."""
    z, n, seen = 1.959964, 2000, 937 / 2000
    for bound in share_interval(seen, n):
        assert abs(seen - bound) == pytest.approx(z * math.sqrt(bound * (1 - bound) / n), rel=1e-5)
    low, high = share_interval(1.0, 690)
    assert (round(low, 4), high) == (0.9945, 1.0)


def test_shares_are_of_whole_texts() -> None:
    """Texts are counted from the settings of a result; what was right of them is a whole number, so that they fit."""
    for folder in sorted(path for path in (RESULTS / "alta").iterdir() if path.is_dir()):
        result = read_result(folder)
        assert texts_in(result).items() <= count_texts(result.study, result.manifest.get("tests", 1)).items()
        for name, count in texts_in(result).items():
            for share in (seed[name] for seed in result.metrics if name in seed):
                assert share * count == pytest.approx(round(share * count), abs=1e-6), (folder.name, name)


def test_shares_say_how_sure_they_are(tmp_path: Path) -> None:
    lines = {line.label: line for line in alta_table("alta-table3", RESULTS).lines}
    line = lines["8 layers, absolute, ones > 20"]
    assert (line.ours, line.interval, line.texts) == ("46.9", "44.7 to 49.0 over texts, of one network", "2000")
    old = lines["8 layers, shared, absolute, length > 20"]
    assert (old.ours, old.texts) == ("49.9 (old slice)", "3410"), "longer texts were what is left of a test set"
    assert lines["8 layers, absolute, length > 20"].texts == "4100"
    write_result(tmp_path, "relative_8", [(1.0, 0.6, 0.5), (1.0, 0.64, 0.5)])
    several = alta_table("alta-table3", tmp_path).lines[1]
    assert (several.ours, several.interval) == ("62.0 ± 2.8", "60.0 to 64.0 over networks")
    write_result(tmp_path, "scan_6", [(0.11,)], ended="enough")
    found = alta_table("alta-table5", tmp_path)
    assert {line.texts for line in found.lines if line.ours} == {"3920"}  # of the 20 910 commands
    assert "11.0 (10.1 to 12.0 of 3920)" in found.details[0].rows[1]
    assert "| texts |" in document(tmp_path)


def test_a_result_says_how_many_texts_it_was_tested_on(tmp_path: Path) -> None:
    """It is believed; those of before are counted again."""
    write_result(tmp_path, "scan_6", [(0.5,)])
    assert texts_in(read_result(tmp_path / "alta/scan_6")) == {"test": 3920}
    write_result(tmp_path, "scan_2", [(0.5,)], texts={"test": 100})
    assert texts_in(read_result(tmp_path / "alta/scan_2")) == {"test": 100}
    shown = {line.label: line for line in alta_table("alta-table5", tmp_path).lines if line.ours}
    assert [line.texts for line in shown.values()] == ["100", "3920"]


def test_what_is_not_here_cannot_be_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_result(tmp_path, "scan_mcd1_2", [(0.11,)])
    (line,) = (line for line in alta_table("alta-table5", tmp_path).lines if line.ours)
    assert (line.ours, line.interval, line.texts) == ("11.0", "", "")


# What is said in words

PARITY = {
    "sum": lambda text: text.count("1") % 2 if text.count("1") <= 20 else 0,
    "sequential": lambda text: text.count("1") % 2,
    "short": lambda text: text.count("1") % 2 if len(text) <= 20 else 0,
    "nothing": lambda text: 0,
}
CLAIMED = (
    *("More than 20 ones", "Longer than 20", "Like Sum + Modulo, by ones", "Like Sum + Modulo, by length"),
    *("Longer texts, above chance", "Longer texts with at most 20 ones", "Right answers near 0 and 1 in turn"),
    *("One answer for all", "Longer than 20, by length"),
)
VERDICTS = {
    "sum": dict.fromkeys(CLAIMED, "reproduced"),
    "sequential": dict(
        zip(CLAIMED, ("differs", *["reproduced"] * 3, "differs", "reproduced", *["differs"] * 3), strict=True)
    ),
    "short": dict(zip(CLAIMED, ("reproduced", *["differs"] * 5, *["reproduced"] * 2, "differs"), strict=True)),
    "nothing": dict.fromkeys(CLAIMED, "shown"),
}


def write_answers(folder: Path, name: str, answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of a network that answers so, trained as the paper says."""

    def train(study: Any, task: Any, texts: list[str], options: Any) -> tuple:
        trained = Trained(None, study.recipe.steps, np.zeros((1, 1)), 0.1, "all steps")
        return trained, [0], np.array([[answer(text) for text in texts]]), gap()["seeds"], {"training data": [1.0]}

    monkeypatch.setattr(sequence_study, "_end_to_end", train)
    run_sequence_study(sequence_studies("full")[name], folder / "alta" / name, quiet=True)


def claimed(folder: Path) -> dict[str, Line]:
    """What is claimed -> the line on relative_40."""
    lines = [line for n in (5, 9, 10, 11) for line in alta_table(f"alta-figure{n}", folder).lines]
    assert {line.verdict for line in lines if not line.label.endswith("relative_40")} == {"never run"}
    return {line.label.partition(":")[0]: line for line in lines if line.label.endswith("relative_40")}


@pytest.mark.parametrize("network", PARITY)
def test_claims_are_judged_by_their_rules(network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks that answer like a program are known by it."""
    write_answers(tmp_path, "relative_40", PARITY[network], monkeypatch)
    found = claimed(tmp_path)
    assert {name: line.verdict.partition(":")[0] for name, line in found.items()} == VERDICTS[network]
    if network == "sum":
        assert found["Longer texts with at most 20 ones"].ours == "100.0"
        assert found["One answer for all"].ours == "from 21 ones on"
        assert found["Like Sum + Modulo, by ones"].ours.startswith("100% with 0 ones, the least")
    if network == "sequential":
        assert found["One answer for all"].ours == "from 40 ones on", "of one number of ones there is one answer"


def test_numbers_of_ones_that_are_all_wrong_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One number of ones can be all that is wrong; nothing is said where texts with one number are answered unlike."""
    differs = "differs: no reason found yet"
    named = differs + " (wrong are all of these texts whose number of ones is {}, and no others)"

    def verdicts(answer: Any) -> list[str]:
        write_answers(tmp_path, "relative_40", answer, monkeypatch)
        lines = {line.label: line.verdict for line in alta_table("alta-table3", tmp_path).lines}
        return [lines[f"40 layers, relative, {slice_}"] for slice_ in ("length <= 20", "ones > 20")]

    answers = lambda text: (text.count("1") + (text.count("1") in wrong)) % 2  # noqa: E731
    wrong = {3, *range(21, 25)}
    assert verdicts(answers) == [named.format(3), named.format("one of 4 out of 20")]
    wrong = {0, 7, 20, 38, 39, 40}  # the ends of the slices, too; three are named
    assert verdicts(answers) == [named.format("0, 7, 20"), named.format("38, 39, 40")]
    wrong = {3, 5, 21}
    assert verdicts(answers) == [named.format("3, 5"), named.format(21)]
    one = sequence_studies("full")["relative_40"].task.tests["length <= 20"][-1]
    mixed = verdicts(lambda text: (answers(text) + (text == one and text.count("1") not in wrong)) % 2)
    assert mixed == [differs, named.format(21)]


def test_five_points_are_within_five_points(tmp_path: Path) -> None:
    """0.55 is not 0.50 + 0.05 in binary digits."""
    for share, verdict in ((0.55, "reproduced"), (0.5505, "differs: no reason found yet")):
        write_result(tmp_path / str(share), "absolute_40", [(1.0, share, 0.5)])
        lines = {line.label: line.verdict for line in alta_table("alta-table3", tmp_path / str(share)).lines}
        assert lines["40 layers, absolute, length > 20"] == verdict


def a_little(text: str) -> int:
    """Right on 54 % of longer texts: within 5 points of chance, and still more than any one answer is."""
    return (text.count("1") + (len(text) > 20 and int(text, 2) % 50 >= 27)) % 2


@pytest.mark.parametrize(
    ("network", "verdict"),
    [
        *(("sum", "differs"), ("sequential", "differs"), ("short", "reproduced"), ("nothing", "shown")),
        ("a little", "differs"),
    ],
)
def test_absolute_positions_do_not_generalise(
    network: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_answers(tmp_path, "absolute_40", PARITY.get(network, a_little), monkeypatch)
    lines = {line.label: line for line in alta_table("alta-figure9", tmp_path).lines}
    line = lines["Longer than 20, by chance: absolute_40"]
    assert (line.verdict.partition(":")[0], line.texts) == (verdict, "4100")
    assert network != "a little" or 53 < float(line.ours) < 55


def test_longer_texts_are_halved_by_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every different text counts once; two halves that are nearly alike are not told apart."""
    texts = set(sequence_studies("full")["relative_40"].task.tests["length > 20"])
    far = sorted(text for text in texts if len(text) > 30)
    for few, verdict in ((0.002, "differs"), (0.02, "reproduced")):
        wrong = set(far[: round(few * len(far))])

        def answer(text: str, wrong: set[str] = wrong) -> int:
            return (text.count("1") + (text in wrong)) % 2

        write_answers(tmp_path, "relative_40", answer, monkeypatch)
        line = claimed(tmp_path)["Longer than 20, by length"]
        assert line.ours == f"100.0 of 21 to 30 bits, {100 - 100 * len(wrong) / len(far):.1f} of 31 to 40 bits"
        assert line.texts == f"{len(texts) - len(far)}, {len(far)}"
        assert line.verdict.partition(":")[0] == verdict


def test_longer_texts_with_as_many_ones_as_training_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of its own, and what curves say where a result is older; then every different text counts once."""

    def answer(text: str) -> int:
        return int(text.count("1") % 2 == (len(text) < 30))

    write_answers(tmp_path, "relative_40", answer, monkeypatch)
    path, name = tmp_path / "alta/relative_40/metrics.json", "length > 20, ones <= 20"
    task = sequence_studies("full")["relative_40"].task
    longer = [text for text in task.tests["length > 20"] if text.count("1") <= 20]
    (metrics,) = json.loads(path.read_text())
    assert metrics[name] == pytest.approx(np.mean([len(text) < 30 for text in longer]))
    line = claimed(tmp_path)["Longer texts with at most 20 ones"]
    assert (line.ours, line.texts) == (f"{100 * metrics[name]:.1f}", str(len(longer)))
    rows = [line.label for line in alta_table("alta-table3", tmp_path).lines if line.ours]
    assert rows[-1] == f"40 layers, relative, {name}"
    (row,) = alta_table("alta-gap", tmp_path).details[0].rows
    assert f"{100 * metrics['length > 20']:.1f}" in row, "the slice of the paper stays what it was"
    write_json(path, [{slice_: share for slice_, share in metrics.items() if slice_ != name}])
    manifest = json.loads((path.parent / "manifest.json").read_text())
    write_json(path.parent / "manifest.json", {key: said for key, said in manifest.items() if key != "texts"})
    line, different = claimed(tmp_path)["Longer texts with at most 20 ones"], set(longer)
    share = np.mean([len(text) < 30 for text in different])
    assert (line.ours, line.texts) == (f"{100 * share:.1f}", str(len(different)))


def test_the_page_says_what_one_answer_gets() -> None:
    longer = sequence_studies("full")["relative_40"].task.tests["length > 20"]
    for item, texts in (("alta-figure5", longer), ("alta-figure10", [t for t in longer if t.count("1") <= 20])):
        assert f"{np.mean([t.count('1') % 2 == 0 for t in texts]):.1%}".replace("%", " %") in alta._entry(item)["about"]


def test_what_our_networks_do_beyond_their_training() -> None:
    lines = {line.label: line for line in alta_table("alta-figure10", RESULTS).lines}
    line = lines["Longer texts with at most 20 ones: relative_40"]
    assert float(line.ours) / 100 * int(line.texts) == pytest.approx(1251, abs=1), "texts, of 2006"
    assert line.verdict.startswith("differs: how long a text is matters, too")
    lines = {line.label: line for line in alta_table("alta-figure5", RESULTS).lines}
    assert (
        lines["Like Sum + Modulo, by length: relative_8_shared"].verdict == "shown: longer texts were drawn otherwise"
    )
    assert lines["Longer than 20: relative_8_shared"].verdict == "shown: longer texts were drawn otherwise"
    assert lines["Longer than 20: relative_8"].verdict == "too small to compare"
