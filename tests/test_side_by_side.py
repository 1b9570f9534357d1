"""Jobs that share an accelerator: their order, what becomes of those that fail or are late, and bad files of jobs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mechgap.cli import app
from mechgap.faithfulness.sequence_presets import sequence_studies
from mechgap.training.transnar.study import read_study

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(folder: Path, jobs: str, *options: str) -> subprocess.CompletedProcess:
    (folder / "jobs.txt").write_text(jobs)
    words = [sys.executable, str(BENCHMARKS / "side_by_side.py"), "jobs.txt", "--place", "place", *options]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)


def test_jobs_wait_for_one_another_fail_and_are_killed(tmp_path: Path) -> None:
    jobs = """
# a comment
last [first]: cat made && echo again
first: sleep 0.1; echo hello | tee made
fails: exit 3
never [fails]: touch never
late: sleep 100
"""
    ended = run(tmp_path, jobs, "--workers", "3", "--deadline", "4")
    assert ended.returncode == 0, ended.stderr
    states = {name: job[0] for name, job in json.loads((tmp_path / "place/state.json").read_text())["jobs"].items()}
    assert states == {"last": "done", "first": "done", "fails": "failed", "never": "skipped", "late": "killed"}
    assert (tmp_path / "place/last.log").read_text() == "hello\nagain\n"
    assert not (tmp_path / "never").exists()
    assert "killed" in ended.stdout


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ("train everything", "jobs.txt, line 1: expected 'name [after]: command'; got 'train everything'"),
        ("a [b]: true", "a waits for 'b', which is no job. Jobs are a."),
        ("a: true\na: false", "two jobs are called 'a'"),
    ],
)
def test_bad_files_of_jobs(tmp_path: Path, jobs: str, message: str) -> None:
    ended = run(tmp_path, jobs)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert not (tmp_path / "place").exists()


@pytest.mark.parametrize("file", sorted(path.name for path in (BENCHMARKS / "jobs").iterdir()))
def test_the_jobs_that_come_along_are_commands_of_mechgap(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command is one that there is, and every job has the name of a study, model or reasoner."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from side_by_side import read_jobs  # type: ignore[import-not-found]

    known = {*sequence_studies(), *read_study("h200").models, *read_study("h200").reasoners}
    for job in read_jobs(BENCHMARKS / "jobs" / file):
        words = job.command.split("python -m mechgap ")[-1].split()
        assert CliRunner().invoke(app, [*words[:2], "--help"]).exit_code == 0, job.name
        assert job.name in known or job.name in ("reasoner", "demo", "demo_pack"), job.name
