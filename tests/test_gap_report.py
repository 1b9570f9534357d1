"""The report is made from result files alone: what it says, what it leaves out, and what it says of damaged folders."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from mechgap.cli import app
from mechgap.faithfulness.causal import ABOUT
from mechgap.faithfulness.mechanistic_gap import load_gap
from mechgap.report import gap_report
from mechgap.report.gap_report import write_report
from mechgap.report.gap_words import headlines, number, verdict
from mechgap.storage import read_tensors, write_tensors
from result_folders import write_folder

GAP = "gap.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that nothing is wrong with; tests copy it before they change it."""
    return write_folder(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def page_of(folders: list[Path], out: Path, **options: Any) -> tuple[str, list[str]]:
    problems = write_report(folders, out, **options)
    return out.read_text(), problems


def test_a_whole_folder_has_every_section_and_no_problem(run: Path, tmp_path: Path) -> None:
    html, problems = page_of([run], tmp_path / "report.html")
    assert problems == []
    for section in (
        *("headline", "scatter", "viewer", "time", "clusters", "landscapes", "causal", "correlations", "measures"),
        *("learning", "settings"),
    ):
        assert f'<section id="{section}"' in html
    assert 'role="alert"' not in html
    assert "left out" not in html


def test_nothing_is_loaded_from_anywhere(run: Path, tmp_path: Path) -> None:
    html, _ = page_of([run], tmp_path / "report.html")
    assert not re.search(r"https?://", html)
    assert not re.search(r"<(link|img|iframe)\b|<script[^>]+src=|@import|url\(", html)
    assert "default-src 'none'" in html


def test_the_headline_has_intervals_and_baselines(run: Path, tmp_path: Path) -> None:
    html, _ = page_of([run], tmp_path / "report.html")
    gap = load_gap(run)
    table = html[html.index("<caption>Headline numbers") :].split("</table>")[0]
    for measure, split in (("internal/rows", "validation"), ("internal/decisive", "validation")):
        summary = gap.summary(measure, split)
        assert number(summary["mean"]) in table
        assert f"{number(summary['low'])} to {number(summary['high'])}" in table
    assert number(float(gap.score.mean())) in table
    assert number(gap.other_seed()) in table
    for name in ("compiled", "uniform", "untrained", "another seed"):
        assert f'<th scope="col">{name}</th>' in table


@pytest.mark.parametrize(
    ("score", "external", "decisive", "said"),
    [
        (0.99, 0.99, 0.02, "answer right (score 0.990) and name the algorithm's intermediate states"),
        (0.99, 0.99, 0.02, "they attend as the program does (where the algorithm moves information 0.020"),
        (
            0.99,
            0.80,
            0.30,
            "and name most of the algorithm's intermediate states (0.800 of them right); they attend partly",
        ),
        (0.99, 0.30, 0.60, "but lose the algorithm's intermediate states (0.300 of them right); they do not attend as"),
        (0.10, 0.30, 0.68, "seldom answer right (score 0.100) and lose"),
        (0.70, 0.30, 0.68, "often answer right (score 0.700) but lose"),
        (0.10, 0.30, 0.68, "no nearer to the program's than uniform attention is"),
    ],
)
def test_the_verdict_follows_the_numbers(
    whole: Path, score: float, external: float, decisive: float, said: str
) -> None:
    gap = load_gap(whole)
    gap.measures["validation"]["score"][:] = score
    gap.measures["validation"]["external/meant"][:] = external
    gap.measures["validation"]["internal/decisive"][:] = decisive  # uniform attention is at 0.7
    assert said in verdict(gap)
    assert f"score {number(float(gap.score.mean()))}" in verdict(gap).split("On test graphs")[1]


def test_without_a_program_only_traces_are_compared(tmp_path: Path) -> None:
    run = write_folder(tmp_path / "dfs", algorithm="dfs")
    html, problems = page_of([run], tmp_path / "report.html")
    assert problems == []
    assert "no program was compiled to compare their attention with" in html
    assert "No program was compiled for dfs" in html
    assert "Causal check: left out, causal.json is missing." in html
    assert '<section id="causal"' not in html


def test_capabilities_that_the_trained_networks_lack_are_said(tmp_path: Path) -> None:
    run = write_folder(tmp_path / "run", needs={"edge_info": True, "heads": 4})
    html, _ = page_of([run], tmp_path / "report.html")
    assert "The compiled network has capabilities that the trained ones lack: edge_info = True, heads = 4." in html
    assert "also differs from the trained ones in its architecture" not in html


@pytest.mark.parametrize(
    ("compiled", "trained", "is_said"),
    [
        ({"differs": {"use_layer_norm": False}}, True, True),
        ({"differs": {}}, True, False),
        ({}, True, True),  # older results are silent, and were all held against networks without
        ({}, False, False),
    ],
)
def test_a_layer_norm_that_the_compiled_network_lacks_is_said(compiled: dict, trained: bool, is_said: bool) -> None:
    sentence = "The compiled network also differs from the trained ones in its architecture: use_layer_norm = False."
    said = gap_report._differences(compiled, {"settings": {"use_layer_norm": trained}})
    assert said == [sentence] * is_said


OLDER = "Attention was compared with the compiled network&#39;s own"


@pytest.mark.parametrize(
    ("needs", "star", "is_said"),
    [
        ({"message_passing_steps": 13}, None, True),
        ({"message_passing_steps": 13}, "interpreter", False),
        ({}, None, False),  # the hints of bfs are nodes and truth values, which are always told apart
    ],
)
def test_older_attention_is_said_where_choices_may_be_unclear(
    tmp_path: Path, needs: dict, star: str | None, is_said: bool
) -> None:
    run = write_folder(tmp_path / "run", needs=needs)
    if star is not None:
        change(GAP, lambda _, header: header["about"].update(star=star))(run)
    html, problems = page_of([run], tmp_path / "report.html")
    assert problems == []
    assert html.count(OLDER) == is_said


def test_numbers_among_the_hints_may_be_unclear(whole: Path) -> None:
    gap = load_gap(whole)
    number_hint = {"hints/d": np.zeros((5, 6, 3, 7), np.float16)}
    for shown, is_said in ((gap.shown, False), (gap.shown | number_hint, True), ({}, True)):
        assert bool(gap_report._older_star(replace(gap, shown=shown))) == is_said


def test_runs_stand_side_by_side(tmp_path: Path) -> None:
    runs = [write_folder(tmp_path / "a" / "bfs"), write_folder(tmp_path / "b" / "bfs", seeds=4, shift=-0.2)]
    html, problems = page_of(runs, tmp_path / "report.html")
    assert problems == []
    assert html.count('<article class="card') == 2
    assert ">a/bfs</h3>" in html
    assert ">b/bfs</h3>" in html
    assert "9 networks in 2 runs, side by side" in html
    assert "The runs differ in seeds" in html


def test_the_papers_numbers_have_a_column_where_there_are_any(run: Path, tmp_path: Path) -> None:
    assert '<th scope="col">paper</th>' not in page_of([run], tmp_path / "report.html")[0]
    paper = {"score": "98.30 %", "correlation/internal/eq24": -0.055}
    html, _ = page_of([run], tmp_path / "report.html", paper=paper)
    assert "<td>98.30 %</td>" in html
    assert "<td>-0.055</td>" in html


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        *((0.99974, "0.9997"), (-0.99974, "-0.9997"), (0.999996, "0.999996"), (0.9994, "0.999")),
        *((1.0, "1.000"), (0.9999999, "1.000"), (1.0004, "1.000"), (0.0004, "0.0004")),
    ],
)
def test_nearly_one_is_not_rounded_to_one(x: float, shown: str) -> None:
    assert number(x) == shown


def test_the_causal_table_has_one_order_whatever_the_file_has(run: Path, tmp_path: Path) -> None:
    rewrite("causal.json", lambda v: {**v, "splits": {s: dict(reversed(c.items())) for s, c in v["splits"].items()}})(
        run
    )
    html, _ = page_of([run], tmp_path / "report.html")
    table = html[html.index("<caption>Score when attention is replaced, test") :].split("</table>")[0]
    assert re.findall(r'<th scope="rowgroup" rowspan="1">([^<]*)</th>', table) == list(ABOUT)


def test_readings_of_several_heads_are_shown_where_there_are_several(tmp_path: Path) -> None:
    for heads in (1, 2):
        html, _ = page_of([write_folder(tmp_path / f"{heads}", heads=heads)], tmp_path / "report.html")
        for words in ("mean of the heads", "best mixture of the heads"):
            assert (f"attention distance, {words}" in html) == (heads > 1)
        assert '"internal/rows"' in html


def test_the_page_says_when_a_cluster_is_stable(run: Path, tmp_path: Path) -> None:
    html, _ = page_of([run], tmp_path / "report.html")
    section = html[html.index('<section id="clusters"') :].split("</section>")[0]
    assert "The graphs are drawn again 100 times" in section
    assert "From 0.75 on a cluster counts as stable." in section
    assert "cut at 0.7 of its height" in section
    assert "with a stability of 0.75 or more" in section


@pytest.mark.parametrize(
    ("name", "section", "line"),
    [
        ("causal.json", "causal", "Causal check: left out, causal.json is missing."),
        ("landscape.safetensors", "landscapes", "Landscapes: left out, landscape.safetensors is missing."),
        ("history.safetensors", "learning", "Learning curves: left out, history.safetensors is missing."),
        ("manifest.json", None, "Settings: left out, manifest.json is missing."),
        ("config.json", None, "Settings: left out, config.json is missing."),
    ],
)
def test_a_missing_file_leaves_out_its_section(
    run: Path, tmp_path: Path, name: str, section: str | None, line: str
) -> None:
    (run / name).unlink()
    html, problems = page_of([run], tmp_path / "report.html")
    assert problems == []
    assert line in html
    if section is not None:
        assert f'<section id="{section}"' not in html
    assert '<section id="viewer"' in html


# Damage: what is done to a folder, and what the report says of it.


def truncate(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).write_bytes((run / name).read_bytes()[:-60])


def change(name: str, edit: Callable[[dict[str, Any], dict[str, Any]], None]) -> Callable[[Path], None]:
    """Edit the tensors and the header of a safetensors file."""

    def damage(run: Path) -> None:
        formats = {GAP: "mechgap.gap/1", "history.safetensors": "mechgap.history/1"}
        tensors, header = read_tensors(run / name, formats.get(name, "mechgap.landscape/1"))
        edit(tensors, header)
        write_tensors(run / name, tensors, header)

    return damage


def drop(name: str, *tensors: str) -> Callable[[Path], None]:
    return change(name, lambda t, _: [t.pop(x) for x in tensors] and None)


def version(name: str, given: str) -> Callable[[Path], None]:
    return change(name, lambda _, header: header.update(format=given))


def rewrite(name: str, edit: Callable[[Any], Any]) -> Callable[[Path], None]:
    return lambda run: (run / name).write_text(json.dumps(edit(json.loads((run / name).read_text())))) and None


def of_dfs(run: Path) -> None:
    write_folder(run.parent / "other", algorithm="dfs")


DAMAGES = {
    "truncated gap": (truncate(GAP), r"run/gap\.safetensors is not a readable safetensors file .*truncated"),
    "empty gap": (lambda run: (run / GAP).write_bytes(b""), r"gap\.safetensors is not a readable safetensors file"),
    "missing gap": (lambda run: (run / GAP).unlink(), r"run/gap\.safetensors is missing"),
    "no folder": (shutil.rmtree, r"run: there is no such folder"),
    "other version of gap": (
        version(GAP, "mechgap.gap/2"),
        r"is not a mechgap\.gap/1 file; its header says 'mechgap\.gap/2'",
    ),
    "no header": (change(GAP, lambda _, h: h.pop("about")), r"gap\.safetensors: lacks 'about'"),
    "no seeds": (drop(GAP, "members/seed"), r"gap\.safetensors lacks members/seed"),
    "no distances": (drop(GAP, "distances"), r"gap\.safetensors lacks distances"),
    "no measure": (drop(GAP, "measures/validation/internal/rows"), r"lacks measures/validation/internal/rows"),
    "no measure anywhere": (
        drop(GAP, *(f"measures/{s}/external/meant" for s in ("train", "validation", "test"))),
        r"lacks measures/train/external/meant",
    ),
    "no score": (
        drop(GAP, "members/test_best", "measures/test/score"),
        r"lacks members/test_best and measures/test/score",
    ),
    "no curve": (drop(GAP, "curves/test/internal/rows"), r"lacks curves/test/internal/rows"),
    "no attention": (drop(GAP, "shown/attention"), r"lacks shown/attention"),
    "no decisive rows": (drop(GAP, "shown/decisive"), r"lacks shown/decisive"),
    "no true hints": (drop(GAP, "shown/truth/pi_h"), r"lacks shown/truth/pi_h"),
    "misshapen measure": (
        change(GAP, lambda t, _: t.update({"measures/test/score": np.zeros(3, np.float32)})),
        r"holds measures/test/score with shape \[3\]; 5 was expected",
    ),
    "misshapen attention": (
        change(GAP, lambda t, _: t.update({"shown/attention": t["shown/attention"][:2]})),
        r"holds shown/attention with shape \[2, .*; 5 x any",
    ),
    "truncated numbers": (truncate("gap.json"), r"gap\.json is not readable JSON .*truncated"),
    "numbers of another algorithm": (
        rewrite("gap.json", lambda v: {**v, "algorithm": "dfs"}),
        r"gap\.json is of the algorithm 'dfs', but .*gap\.safetensors was measured of bfs",
    ),
    "truncated config": (truncate("config.json"), r"config\.json is not readable JSON"),
    "config of another algorithm": (
        rewrite("config.json", lambda v: {"configs": [{**v["configs"][0], "algorithm": "dfs"}]}),
        r"config\.json is of the algorithm 'dfs', but .*measured of bfs",
    ),
    "no configs": (rewrite("config.json", lambda _: {}), r"config\.json lacks 'configs'"),
    "truncated metrics": (truncate("metrics.json"), r"metrics\.json is not readable JSON"),
    "missing column": (
        rewrite("metrics.json", lambda rows: [{k: x for k, x in r.items() if k != "test_best"} for r in rows]),
        r"metrics\.json lacks the column 'test_best' in 5 of 5 rows",
    ),
    "metrics of other seeds": (
        rewrite("metrics.json", lambda rows: [{**r, "seed": r["seed"] + 100} for r in rows]),
        r"metrics\.json is not of the 5 seeds",
    ),
    "truncated manifest": (truncate("manifest.json"), r"manifest\.json is not readable JSON"),
    "manifest of another kind": (rewrite("manifest.json", lambda _: [1]), r"manifest\.json should hold a JSON object"),
    "truncated history": (truncate("history.safetensors"), r"history\.safetensors is not a readable safetensors file"),
    "no loss": (drop("history.safetensors", "loss"), r"history\.safetensors lacks loss"),
    "other version of history": (version("history.safetensors", "mechgap.history/9"), r"says 'mechgap\.history/9'"),
    "history of other networks": (
        change("history.safetensors", lambda t, _: t.update(loss=t["loss"][:, :2])),
        r"history\.safetensors is of 2 networks, but gap\.safetensors of 5",
    ),
    "truncated swaps": (truncate("causal.json"), r"causal\.json is not readable JSON"),
    "no splits": (rewrite("causal.json", lambda _: {"about": {}}), r"causal\.json lacks 'splits'"),
    "no score of a swap": (
        rewrite("causal.json", lambda _: {"splits": {"test": {"own": {"hints": None}}}}),
        r"causal\.json lacks the 'score' of 'own' on test",
    ),
    "swaps of other networks": (
        rewrite("causal.json", lambda _: {"splits": {"test": {"own": {"score": [0.5, None]}}}}),
        r"causal\.json is of 2 networks, but gap\.safetensors of 5",
    ),
    "words for numbers": (
        rewrite("causal.json", lambda _: {"splits": {"test": {"own": {"score": ["a"] * 5}}}}),
        r"causal\.json: 'own/score' holds something that is not a number",
    ),
    "truncated landscape": (truncate("landscape.safetensors"), r"landscape\.safetensors is not a readable"),
    "no plane": (
        drop("landscape.safetensors", "learned/local/loss"),
        r"landscape\.safetensors lacks learned/local/loss",
    ),
    "other version of landscape": (version("landscape.safetensors", "x/1"), r"is not a mechgap\.landscape/1 file"),
    "another algorithm beside it": (
        of_dfs,
        r"other/gap\.safetensors is of the algorithm 'dfs', but .*run of 'bfs'; runs on one page must be of one",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named_on_the_page_and_on_stderr_and_the_rest_is_shown(
    run: Path, tmp_path: Path, damage: str
) -> None:
    spoil, message = DAMAGES[damage]
    sound = Path(shutil.copytree(run, tmp_path / "sound"))
    spoil(run)
    folders = [run, sound, *(f for f in [tmp_path / "other"] if f.exists())]
    out = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["report", *map(str, folders), "--out", str(out)])
    assert done.exit_code == 1, done.output
    assert re.search(message, " ".join(done.stderr.split())), done.stderr
    html = out.read_text()
    box = html[html.index('<section class="problems" role="alert"') :].split("</section>")[0]
    assert re.search(message.replace("'", "&#39;"), box), box
    assert html.count('<article class="card') >= 1
    assert '<section id="viewer"' in html


def test_a_folder_without_a_gap_still_shows_how_it_learned(run: Path, tmp_path: Path) -> None:
    truncate(GAP)(run)
    html, problems = page_of([run], tmp_path / "report.html")
    assert len(problems) == 1
    assert '<section id="learning"' in html
    assert "The 5 networks have a test score of 0.971; no gap could be read of them." in html
    assert '<section id="viewer"' not in html
    assert "Attention viewer: left out, gap.safetensors cannot be used, see the problems above." in html


def test_a_report_of_nothing_says_so(tmp_path: Path) -> None:
    html, problems = page_of([tmp_path / "nowhere"], tmp_path / "report.html")
    assert problems == [f"{tmp_path / 'nowhere'}: there is no such folder."]
    assert "there is no such folder" in html
    with pytest.raises(ValueError, match="at least one result folder"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        write_report([tmp_path], tmp_path / "missing" / "report.html")


def test_names_of_folders_cannot_break_the_page(tmp_path: Path) -> None:
    run = write_folder(tmp_path / "<script>alert(1)<" / 'run\'s "x" & <b>', seeds=3)
    html, _ = page_of([run], tmp_path / "report.html")
    assert "<script>alert" not in html
    assert "<b>" not in html


def test_diverged_networks_do_not_count(tmp_path: Path) -> None:
    run = write_folder(tmp_path / "run", seeds=6, lost=2)
    html, _ = page_of([run], tmp_path / "report.html")
    assert "2 of 6 networks diverged" in html
    assert all(h.n == 4 for h in headlines(load_gap(run)))


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_few_networks_are_enough(tmp_path: Path, seeds: int) -> None:
    html, problems = page_of([write_folder(tmp_path / "run", seeds=seeds)], tmp_path / "report.html")
    assert problems == []
    assert ('<section id="clusters"' in html) == (seeds >= 3)


def test_all_networks_diverged(run: Path, tmp_path: Path) -> None:
    change(GAP, lambda t, _: t.update({"members/diverged": np.ones(5, bool)}))(run)
    html, problems = page_of([run], tmp_path / "report.html", figures=tmp_path / "figures")
    assert problems == []
    assert '<section id="settings"' in html


@pytest.mark.slow
def test_figures_are_saved_in_three_formats(tmp_path: Path) -> None:
    runs = [write_folder(tmp_path / "one", heads=2), write_folder(tmp_path / "two", lost=1)]
    write_report(runs, tmp_path / "report.html", figures=tmp_path / "figures")
    names = {p.name for p in (tmp_path / "figures").iterdir()}
    drawn = {
        "scatter",
        "curves",
        *(f"{w}_{r}" for w in ("dendrogram", "attention", "landscapes") for r in ("one", "two")),
    }
    assert names == {f"{name}.{ending}" for name in drawn for ending in ("svg", "png", "pdf")}
    assert all(p.stat().st_size > 1000 for p in (tmp_path / "figures").iterdir())


@pytest.mark.slow
def test_the_page_of_a_large_ensemble_is_small(tmp_path: Path) -> None:
    run = write_folder(tmp_path / "run", seeds=128, n=16, steps=9, samples=4)
    write_report([run], tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 15e6


def test_the_same_files_make_the_same_page(run: Path, tmp_path: Path) -> None:
    assert page_of([run], tmp_path / "a.html") == page_of([run], tmp_path / "b.html")


def test_a_report_starts_no_device(run: Path, tmp_path: Path) -> None:
    code = (
        "from mechgap.report.gap_report import write_report\n"
        f"assert write_report([{str(run)!r}], {str(tmp_path / 'report.html')!r}) == []\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge.backends_are_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
