"""Jobs that share an accelerator: their order, what becomes of those that fail or are late, and bad files of jobs."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from mechgap.cli import app
from mechgap.faithfulness.sequence_presets import sequence_studies
from mechgap.training.transnar.presets import read_study

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(folder: Path, jobs: str, *options: str) -> subprocess.CompletedProcess:
    (folder / "jobs.txt").write_text(jobs)
    words = [sys.executable, str(BENCHMARKS / "side_by_side.py"), "--place", "place", "jobs.txt", *options]
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
    ended = run(tmp_path, jobs, "--workers", "3", "--deadline", "3", "--each", "echo $JOB >> ended; false")
    assert ended.returncode == 1, ended.stderr
    states = {name: job[0] for name, job in json.loads((tmp_path / "place/state.json").read_text())["jobs"].items()}
    assert states == {"last": "done", "first": "done", "fails": "failed", "never": "skipped", "late": "killed"}
    assert (tmp_path / "place/last.log").read_text() == "hello\nagain\n"
    assert not (tmp_path / "never").exists()
    assert "killed" in ended.stdout
    after = (tmp_path / "ended").read_text().split()  # those that began, as they ended
    assert after.index("first") < after.index("last")
    assert sorted(after) == ["fails", "first", "last", "late"]


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ("train everything", "jobs.txt, line 1: expected 'name [after]: command'; got 'train everything'"),
        ("a [b]: true", "jobs.txt: a waits for 'b', which is no job. Jobs are a."),
        ("a: true\na: false", "two jobs are called 'a'"),
        ("a [b]: true\nb [a]: true\nc: true", "a, b wait for one another. Take one of them out of the brackets."),
    ],
)
def test_bad_files_of_jobs(tmp_path: Path, jobs: str, message: str) -> None:
    ended = run(tmp_path, jobs)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert not (tmp_path / "place").exists()


def test_some_jobs_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("d [b]: echo d >> done\n")
    jobs = "a: echo a >> done\nb [a]: echo b >> done\nc: echo c >> done\n"
    ended = run(tmp_path, jobs, "more.txt", "--workers", "1", "--only", "c", "d")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "done").read_text().split() == ["c", "a", "b", "d"]
    assert (
        "--only names 'e', which is no job. Jobs are a, b, c, d."
        in run(tmp_path, jobs, "more.txt", "--only", "e").stderr
    )


def test_workers_are_at_least_one_and_success_is_an_exit_status(tmp_path: Path) -> None:
    assert run(tmp_path, "a: true").returncode == 0
    assert "--workers must be at least 1; got 0" in run(tmp_path, "a: true", "--workers", "0").stderr


def test_what_a_job_has_made_is_kept_while_it_runs(tmp_path: Path) -> None:
    job = "long: for i in 1 2 3 4; do echo $i >> made; sleep 0.5; done\n"
    keep = 'cat made 2>&1 > "kept-$JOB-$(wc -l < made)"'
    ended = run(tmp_path, job, "--each", keep, "--every", "0.5")
    assert ended.returncode == 0, ended.stderr
    kept = {path.name for path in tmp_path.glob("kept-*")}
    assert "kept-long-4" in kept  # after the job
    assert kept & {"kept--1", "kept--2", "kept--3"}  # in between


@pytest.mark.parametrize("words", [("--every", "0", "--each", "true"), ("--every", "5")])
def test_how_often_something_is_kept(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = run(tmp_path, "a: true\n", *words)
    assert refused.returncode == 2
    assert "--every takes seconds, more than 0, and a command by --each; got " in refused.stderr


def test_jobs_end_with_the_one_who_runs_them(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text("long: echo $$ > pid; sleep 100\n")
    words = [sys.executable, str(BENCHMARKS / "side_by_side.py"), "jobs.txt", "--place", "place"]
    runner = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.05)
    runner.terminate()
    assert runner.wait(timeout=30) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize("file", sorted(path.name for path in (BENCHMARKS / "jobs").iterdir()))
def test_the_jobs_that_come_along_are_commands_of_mechgap(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words and settings are those of a command, and a job does what its name says."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from side_by_side import read_jobs  # type: ignore[import-not-found]

    study = read_study("h200")
    known = {*sequence_studies(), *study.models, *study.reasoners}
    others = {"reasoner": "trained"}
    for job in read_jobs([BENCHMARKS / "jobs" / file]):
        group, name, *words = shlex.split(job.command.split("python -m mechgap ")[-1])
        command: Any = get_command(app)
        asked = command.commands[group].commands[name].make_context(job.name, words).params
        assert asked.get("preset", "full") in ("full", "h200")
        given = asked.get("program") or asked.get("models") or asked.get("names")
        given = given[0] if isinstance(given, list | tuple) else given
        probed = "_probed" if asked.get("probe") else ""
        meant = others.get(job.name, job.name)
        assert meant in known, job.name
        assert f"{given}{probed}" == meant, job.name


def test_the_service_that_jobs_share_a_card_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started before them and told to quit after them; where there is none, that is said and nothing is run."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    job = "seen: echo $CUDA_MPS_PIPE_DIRECTORY\n"
    refused = run(tmp_path, job, "--mps")
    assert (refused.returncode, (tmp_path / "place/seen.log").exists()) == (2, False)
    assert "--mps needs nvidia-cuda-mps-control" in refused.stderr
    service = tmp_path / "bin" / "nvidia-cuda-mps-control"
    service.parent.mkdir()
    service.write_text(f'#!/bin/sh\nif [ "$1" = -d ]; then echo started; else cat; fi >> {tmp_path}/said\n')
    service.chmod(0o755)
    ended = run(tmp_path, job, "--mps")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "place/seen.log").read_text().strip() == str(tmp_path / "place/mps/pipe")
    assert (tmp_path / "said").read_text().split() == ["started", "quit"]
