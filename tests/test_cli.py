"""The commands, as a person calls them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mechgap as mg
from mechgap.cli import app, main
from mechgap.demo import run_demo
from mechgap.doctor import Finding, examine, print_findings

runner = CliRunner()


QUICK = ("bfs", "heapsort", "lcs_length")  # others say nothing new about the command
EVERY = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in mg.algorithm_names()]


@pytest.mark.parametrize("name", EVERY)
def test_trace_prints_every_frame(name: str) -> None:
    done = runner.invoke(app, ["trace", name, "--n", "4", "--seed", "1"])
    assert done.exit_code == 0, done.output
    frames = int(mg.algorithm(name).benchmark_sampler(1, 4, 1).next().lengths[0])
    assert f"{frames} frames" in done.output
    assert f"│ {frames - 1:>4} │" in done.output


def test_trace_prints_the_state_itself() -> None:
    done = runner.invoke(app, ["trace", "bfs", "--n", "4", "--seed", "1", "--p", "1", "--source", "2"])
    assert "0 1 2 3" in done.output  # everything is reached in one step
    assert done.output.rstrip().endswith("pi 2 2 · 2")


def test_trace_draws_and_saves(tmp_path: Path) -> None:
    picture, saved = tmp_path / "steps.png", tmp_path / "trace.safetensors"
    done = runner.invoke(app, ["trace", "bfs", "--n", "5", "--plot", str(picture), "--save", str(saved)])
    assert done.exit_code == 0, done.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 10_000
    assert mg.Trace.load(saved).nodes == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("trace", "bsf"), "No algorithm 'bsf'. Did you mean 'bfs'"),
        (("trace", "bfs", "--n", "0"), "n must be at least 1; got 0"),
        (("trace", "bfs", "--source", "8"), "Source 8 is out of range: with n = 8 the nodes are 0..7"),
        (("trace", "dfs", "--source", "1"), "'dfs' has no source node"),
        (("trace", "bfs", "--p", "2"), "each in [0, 1]; got 2.0"),
        (("trace", "bfs", "--plot", "x.doc"), "must end in .png, .svg or .pdf"),
        (("trace", "bfs", "--plot", "no/such/x.png"), "the folder no/such does not exist"),
        (("gap", "bfs", "--out", "no/such/x.html"), "the folder no/such does not exist"),
        (("gap", "bsf"), "Did you mean 'bfs'"),
        (("gap", "bfs", "--preset", "large"), "one of small, full; got 'large'"),
        (("gap", "bfs", "--set", "hiden=4"), "Did you mean 'hidden'"),
        (("demo", "--out", "no/such/x.html"), "the folder no/such does not exist"),
    ],
)
def test_a_mistake_ends_in_its_message(
    words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mechgap", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_process_ends_without_a_traceback() -> None:
    code = "import sys; sys.argv = ['mechgap', 'trace', 'bsf']; from mechgap.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Did you mean 'bfs'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_demo_shows_every_stage_and_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = {"seeds": 2, "steps": 4, "hidden": 4, "sizes": [4], "length_generalize": False}
    run_demo(tmp_path / "page.html", tmp_path / "runs", tiny)
    said = capsys.readouterr().out
    assert said.count("certificate (quick): ok") == 2
    assert said.count("0 of the compiled network's hints and outputs differ") == 2
    assert "decisive rows" in said
    page = (tmp_path / "page.html").read_text()
    assert not any(link in page for link in ("<script src", "<link", "@import", 'src="http'))


@pytest.mark.slow
def test_gap_takes_settings_and_keeps_what_is_finished(tmp_path: Path) -> None:
    words = ["gap", "dfs_simplified", "--seeds", "1", "--steps", "2", "--out", str(tmp_path / "page.html")]
    for setting in ("hidden=4", "sizes=[4]", "length_generalize=false"):
        words += ["--set", setting]
    for _ in range(2):
        done = runner.invoke(app, [*words, "--folder", str(tmp_path / "runs")])
        assert done.exit_code == 0, done.output
        assert "has no program to compile yet: only its hints are compared" in " ".join(done.output.split())
    assert len(list((tmp_path / "runs" / "runs").iterdir())) == 1
    assert (tmp_path / "page.html").stat().st_size > 10_000


@pytest.mark.slow
def test_compile_prints_the_certificate(tmp_path: Path) -> None:
    done = runner.invoke(app, ["compile", "bellman_ford", "--minimal", "--max-nodes", "16", "--max-distance", "4"])
    assert done.exit_code == 0, done.output
    for said in ("program bellman_ford", "hidden 9", "certificate (quick): ok", "Real[0, 4]"):
        assert said in done.output
    kept = tmp_path / "certificate.json"
    words = ["compile", "bfs", "--hidden", "8", "--max-nodes", "16", "--margin", "1", "--out", str(kept)]
    soft = runner.invoke(app, words)
    assert json.loads(kept.read_text())["ok"] is False
    assert soft.exit_code == 1
    assert "NOT OK" in soft.output


def test_inspect_and_export_write_their_files(tmp_path: Path) -> None:
    picture, weights = tmp_path / "weights.png", tmp_path / "bfs.npz"
    done = runner.invoke(app, ["inspect", "bfs", "--minimal", "--plot", str(picture)])
    assert done.exit_code == 0, done.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    done = runner.invoke(app, ["export", "bfs", "--to", "clrs", "--out", str(weights), "--hidden", "8"])
    assert done.exit_code == 0, done.output
    assert weights.stat().st_size > 1000


def test_doctor_finds_this_machine_ready(capsys) -> None:
    findings = examine()
    assert print_findings(findings)
    text = capsys.readouterr().out
    assert "jax" in text
    assert "cpu" in text
    assert "mechgap[clrs]" in text or any(f.subject == "dm-clrs" and not f.advice for f in findings)


def test_doctor_says_what_to_do(capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "mechgap.doctor._version", lambda package: {"jax": "0.4.1", "equinox": None}.get(package, "99.0")
    )
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("os.access", lambda *_: False)
    findings = {f.subject: f for f in examine()}
    assert findings["jax"].wrong
    assert "pip install -U 'jax>=0.10.2'" in findings["jax"].advice
    assert "pip install 'equinox>=0.13.8'" in findings["equinox"].advice
    assert "not writable" in findings["compilation cache"].advice
    assert not print_findings([Finding("x", "y", "do z", wrong=True)])
    assert "1 to fix" in capsys.readouterr().out
