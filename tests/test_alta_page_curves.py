"""The page of curves: that it holds what the result folders hold, and says so to those who do not see it."""

import re
from dataclasses import asdict
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mechgap.cli import app
from mechgap.faithfulness.sequence_presets import sequence_studies
from mechgap.report.alta_curves import render, trainings, write_curves
from mechgap.report.paper import alta
from mechgap.report.paper.alta import run_alta_item
from mechgap.training.checkpoint import write_json
from sequence_folders import curves, write_gap


def write_training(folder: Path, name: str, train_length: int = 2, networks: int = 1) -> Path:
    """Right up to two, less often beyond; a second network is a tenth worse."""
    study = sequence_studies("quick", {"train_length": train_length})[name]
    (folder / name).mkdir(parents=True)
    write_json(folder / name / "config.json", asdict(study))
    write_json(folder / name / "manifest.json", {"date": "2026-01-02", "steps": 7, "ended": "all steps"})
    shares = {f"{what} {train_length}": 0.5 for what in ("length <=", "length >", "ones >")}
    write_json(folder / name / "metrics.json", [{"seed": i, **shares} for i in range(networks)])
    best = {"1": 1.0, "2": 1.0, "3": 0.5, "4": 0.3}
    curve = {length: [share - 0.1 * i for i in range(networks)] for length, share in best.items()}
    write_json(folder / name / "curves.json", curves(curve))
    write_gap(folder / name, networks)
    return folder / name


def labels(page: str) -> list[str]:
    return [unescape(said) for said in re.findall(r'role="img" aria-label="([^"]*)"', page)]


def test_curves_are_drawn_where_the_numbers_stand(tmp_path: Path) -> None:
    page = render([write_training(tmp_path, "relative_8")])
    # x from 42 to 388 for 1 to 4, y from 210 for 0 to 12 for 1
    assert page.count('d="M42.0,12.0L157.3,12.0L272.7,111.0L388.0,150.6"') == 3
    assert '<line class="mark" x1="157.3"' in page  # where the training set ends
    assert 'class="band"' not in page
    assert labels(page)[0] == "Right answers by length. relative_8: 100% up to 2, 40% beyond 2."
    assert len(labels(page)) == 3


def test_several_networks_have_a_band_from_the_worst_to_the_best(tmp_path: Path) -> None:
    page = render([write_training(tmp_path, "relative_8", networks=2)])
    means, band = "M42.0,21.9L157.3,21.9L272.7,120.9L388.0,160.5", "M42.0,12.0L157.3,12.0L272.7,111.0L388.0,150.6"
    assert f'd="{means}"' in page
    assert f'd="{band}L388.0,170.4L272.7,130.8L157.3,31.8L42.0,31.8Z"' in page
    assert "95.0%" in page  # the numbers are means, too


def test_trainings_are_told_apart(tmp_path: Path) -> None:
    names = [name for name, study in sequence_studies().items() if study.kind == "end_to_end"]
    folders = [write_training(tmp_path, name) for name in names]
    page = render(folders)
    looks = re.findall(r'<label class="(colour\d)">.*?stroke-dasharray="([^"]*)"', page)
    assert len(set(looks)) == len(names) == 8
    drawn = re.findall(r'<g class="training-(\d) (colour\d)"><path class="mean" stroke-dasharray="([^"]*)"', page)
    assert [(colour, dashes) for _, colour, dashes in drawn] == looks * 3
    assert '<th scope="row">relative_<wbr>8_<wbr>shared</th>' in page


def test_folders_of_one_name_are_named_with_their_place(tmp_path: Path) -> None:
    both = [write_training(tmp_path / place, "relative_8") for place in ("quick", "full")]
    assert "quick/relative_8: 100% up to 2, 40% beyond 2; full/relative_8: 100%" in labels(render(both))[0]


def test_what_a_folder_is_called_is_text(tmp_path: Path) -> None:
    folder = write_training(tmp_path, "relative_8").rename(tmp_path / "<b>a_b")
    page = render([folder])
    assert "<b>a" not in page
    assert "&lt;b&gt;a_<wbr>b" in page


def test_a_folder_of_folders_gives_all_of_them_in_order(tmp_path: Path) -> None:
    for name in ("absolute_8", "parity_sequential_relative", "relative_40", "relative_8"):
        write_training(tmp_path, name)
    found = [folder.name for folder in trainings([tmp_path])]
    assert found == ["parity_sequential_relative", "relative_8", "relative_40", "absolute_8"]
    assert trainings([tmp_path / "relative_8"]) == [tmp_path / "relative_8"]
    (tmp_path / "relative_8/manifest.json").rename(tmp_path / "moved.json")
    assert "relative_8" not in [folder.name for folder in trainings([tmp_path])], "written in part, it is none yet"
    (tmp_path / "moved.json").rename(tmp_path / "relative_8/manifest.json")
    (tmp_path / "graphs").mkdir()
    assert trainings([tmp_path / "graphs"]) == []
    with pytest.raises(ValueError, match=r"graphs holds no curves.json, .*Write one page for each"):
        trainings([tmp_path, tmp_path / "graphs"])
    with pytest.raises(ValueError, match=r"which trainings on parity write .*; .*graphs has none"):
        write_curves([tmp_path / "graphs"], tmp_path / "page.html")
    with pytest.raises(ValueError, match="got no folder"):
        write_curves([], tmp_path / "page.html")


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    write_training(tmp_path / "alta", "relative_8")
    words = ["report", str(tmp_path / "alta"), "--out", str(tmp_path / "page.html")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "Right answers by number of ones" in (tmp_path / "page.html").read_text()
    wrong = CliRunner().invoke(app, [*words, "--figures", str(tmp_path)])
    assert "--figures is for results on graphs" in str(wrong.exception)


def test_a_figure_of_the_paper_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in alta._entry("alta-figure10")["curves"]["studies"]:
        write_training(tmp_path / "alta", name)
    monkeypatch.setattr(alta, "run_missing", lambda *ignored: None)
    said: list[str] = []
    run_alta_item("alta-figure10", "quick", tmp_path, runs=tmp_path / "runs", say=said.append)
    assert said == [f"drawn in {tmp_path / 'runs/alta-figure10.html'}"]
    page = (tmp_path / "runs/alta-figure10.html").read_text()
    assert '<p class="caveat">quick: few steps' in page
    assert labels(page)[1].startswith("Right answers by number of ones. relative_8: 100% up to 2")
