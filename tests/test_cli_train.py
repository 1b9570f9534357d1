"""`mechgap train` and `mechgap sweep`, as a person calls them, at sizes that take seconds."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mechgap.cli import app, main
from mechgap.training import load_result, loop
from test_sweep import DOCUMENT, FakeExecutor, read_parts, refuse
from test_sweep import submitit as submitit
from test_training import compile_quickly as compile_quickly

runner = CliRunner(env={"COLUMNS": "200"})
TINY = {
    "batch": 2,
    "sizes": [4],
    "eval_every": 2,
    "validation_samples": 4,
    "length_generalize": "false",
    "hidden": 4,
}
SETTINGS = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]


def said(*words: str) -> str:
    done = runner.invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def trained(folder: Path) -> str:
    return said("train", "bfs", "--seeds", "2", "--steps", "4", *SETTINGS, "--folder", str(folder / "one"))


def test_train_prints_the_scores_and_keeps_the_run(trained: str, folder: Path) -> None:
    (place,) = (folder / "one").iterdir()
    ensemble = load_result(place)
    assert (len(ensemble), ensemble.configs[0].steps, ensemble.configs[0].hidden) == (2, 4, 4)
    assert ensemble.configs[0].sizes == (4,)
    summary = ensemble.summary()
    assert "mean ± std (max)" in trained
    assert f"{summary['mean']:.4f} ± {summary['std']:.4f} ({summary['max']:.4f})" in trained
    assert "│ bfs       │ 2        │ 0        │" in trained


def test_train_again_reads_the_run(trained: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "step_programs", refuse)
    words = ("train", "bfs", "--seeds", "2", "--steps", "4", *SETTINGS, "--folder", str(folder / "one"))
    assert said(*words) == trained


@pytest.fixture(scope="module")
def study(folder: Path) -> str:
    (folder / "tiny.toml").write_text(DOCUMENT)
    return str(folder / "tiny.toml")


def test_sweep_trains_its_share_and_writes_parts(study: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("sweep", study, "--folder", str(folder / "all"), "--shard", "2/2")
    output = said(*words)
    assert "tiny: 2 settings, 4 networks, 2 ensembles" in output
    assert output.count("│ bfs       │ 2        │ 0        │") == 1
    rows = [row for part in read_parts(folder / "all").values() for row in part]
    assert [(row["learning_rate"], row["seed"]) for row in rows] == [(1e-3, 0), (1e-3, 1)]
    monkeypatch.setattr(loop, "step_programs", refuse)
    assert said(*words) == output, "a second time it is read"


def test_a_dry_run_trains_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "step_programs", refuse)
    output = said("sweep", "regularisation", "--dry-run", "--folder", str(tmp_path / "none"), "--set", "seeds=4")
    assert "regularisation: 8 settings, 32 networks, 2 ensembles" in output
    assert not (tmp_path / "none").exists()


def test_sweep_hands_its_shards_to_slurm(study: str, folder: Path, submitit: type[FakeExecutor], monkeypatch) -> None:
    monkeypatch.setattr("mechgap.training.sweep.run_sweep", lambda *_, **__: [])
    output = said("sweep", study, "--folder", str(folder / "all"), "--slurm", "2")
    assert "submitted 2 jobs" in output
    (executor,) = submitit.made
    assert executor.shards == ["1/2", "2/2"]
    assert executor.parameters == {"timeout_min": 30, "slurm_partition": "long"}


MISTAKES = [
    (("train",), "Give one algorithm, e.g. mechgap train bfs, or several"),
    (("train", "bfs", "--algorithms", "all"), "Give one algorithm, e.g. mechgap train bfs, or several"),
    (("train", "--algorithms", "bfs,bsf"), "No algorithm 'bsf'. Did you mean 'bfs'"),
    (
        ("train", "--algorithms", "all,bfs"),
        "algorithms must be different names, at least one, or 'all' alone; got all, bfs",
    ),
    (
        ("train", "--algorithms", "bfs", "--set", "algorithms=dfs"),
        "The algorithms are the option's; got the setting 'dfs', too",
    ),
    (("train", "--algorithms", "all", "--seeds", "0"), "seeds must be a whole number, 1 or more; got 0"),
    (("train", "bsf"), "No algorithm 'bsf'. Did you mean 'bfs'"),
    (("train", "bfs", "--seeds", "0"), "seeds must be a whole number, 1 or more; got 0"),
    (("train", "bfs", "--set", "hiden=4"), "No setting 'hiden'. Did you mean 'hidden'"),
    (("train", "bfs", "--set", "hidden_size=4"), "the reference's 'hidden_size' is 'hidden' here"),
    (("train", "bfs", "--set", "hidden"), "A setting is written name=value, e.g. hidden=4; got 'hidden'"),
    (("train", "bfs", "--set", "learning_rate=fast"), "learning_rate must be a number above 0, e.g. 1e-4; got 'fast'"),
    (("train", "bfs", "--set", "init_from=nothing.safetensors"), "No file nothing.safetensors"),
    (("sweep", "baselin"), "No file and no preset 'baselin'. Did you mean 'baseline'"),
    (("sweep", "baseline", "--shard", "3/2"), "shard must be i/N with i from 1 to N, e.g. 1/4; got '3/2'"),
    (("sweep", "baseline", "--set", "steps=0"), "steps must be a whole number, 1 or more; got 0"),
    (("sweep", "baseline", "--slurm", "2"), "Submitting to SLURM needs submitit: pip install 'mechgap[slurm]'"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=lambda x: " ".join(x) if isinstance(x, tuple) else "")
def test_a_mistake_ends_in_its_message(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    monkeypatch.setattr(sys, "argv", ["mechgap", *words, "--folder", str(tmp_path / "none")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "none").exists(), "nothing is made for a run that cannot begin"


def test_a_broken_sweep_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("[settings]\nseeds =")
    monkeypatch.setattr(sys, "argv", ["mechgap", "sweep", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert f"Cannot read {path} as TOML" in "".join(capsys.readouterr().err.splitlines())


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    (tmp_path / "file").write_text("")
    words = ["mechgap", "train", "bfs", *SETTINGS, "--folder", str(tmp_path / "file")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "Give another folder, or make it writable" in " ".join(capsys.readouterr().err.split())


def test_a_run_folder_describes_itself(trained: str, folder: Path) -> None:
    (place,) = (folder / "one").iterdir()
    (config,) = json.loads((place / "config.json").read_text())["configs"]
    assert {name: config[name] for name in ("algorithm", "steps", "seeds", "hidden", "sizes")} == {
        **{"algorithm": "bfs", "steps": 4, "seeds": 2, "hidden": 4},
        "sizes": [4],
    }
    assert json.loads((place / "manifest.json").read_text())["device"]["platform"] == "cpu"
