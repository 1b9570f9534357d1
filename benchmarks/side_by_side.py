"""Run commands side by side on one accelerator until a deadline: a single training leaves a large one half idle.

    python benchmarks/side_by_side.py jobs.txt --place runs/jobs --workers 4 --deadline 1500

A line of jobs.txt is a job: its name, the jobs that it waits for in brackets, a colon, and a command of the shell.
Those that stand first start first. Several files count as one. Behind them, `--only a b` runs these jobs in this
order, and what they wait for, and leaves all others out.

    reasoner: ...
    transnar [reasoner]: mechgap transnar train --preset h200 --models transnar --folder runs/transnar

What a job prints is in PLACE/NAME.log, and how all of them stand in PLACE/state.json. A job that runs at the deadline
is killed; mechgap's trainings go on from their last checkpoint when they are started again. The exit status is 0 where
all jobs have done their work. Without more, jobs take turns on the card; with `--mps`, NVIDIA's multi-process service
runs their kernels at the same time, which small ones gain from. `--each COMMAND` is run after every job that ends, with
its name in $JOB, e.g. to copy its results to where they are safe; with `--every SECONDS` also that often in between,
with no name, for a machine that may be taken away before a job ends.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

LINE = re.compile(r"(?P<name>[\w.-]+)\s*(?:\[(?P<after>[^]]*)\])?\s*:\s*(?P<command>.+)")
# Memory is taken as it is needed, so that there is some for all; what one job has compiled, no other compiles again.
SHARING = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1"}
WAITING, RUNNING, DONE, FAILED, KILLED, SKIPPED = "waiting", "running", "done", "failed", "killed", "skipped"


@dataclass
class Job:
    """A command, and how it stands."""

    name: str
    after: tuple[str, ...]
    command: str
    state: str = WAITING
    began: float = 0.0
    seconds: float = 0.0
    process: subprocess.Popen | None = field(default=None, repr=False)

    def start(self, place: Path, now: float) -> None:
        """Start it, in a session of its own so that all of it can be ended."""
        environment = {"JAX_COMPILATION_CACHE_DIR": str((place / "cache").absolute()), **SHARING, **os.environ}
        log: IO = (place / f"{self.name}.log").open("a")
        self.process = subprocess.Popen(
            ["bash", "-c", self.command], stdout=log, stderr=log, env=environment, start_new_session=True
        )
        self.state, self.began = RUNNING, now

    def look(self, now: float) -> None:
        """See whether it has ended."""
        assert self.process is not None
        self.seconds, code = now - self.began, self.process.poll()
        if code is not None:
            self.state = FAILED if code else DONE

    def kill(self) -> None:
        """End it and all that it started."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.state = KILLED


def read_jobs(paths: list[Path], only: Sequence[str] = ()) -> list[Job]:
    """The jobs of files, or some of them; empty lines, and those that start with #, are none."""
    jobs: list[Job] = []
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            found = LINE.fullmatch(line.strip())
            if found is None:
                raise ValueError(f"{path}, line {number}: expected 'name [after]: command'; got {line!r}.")
            after = tuple((found["after"] or "").replace(",", " ").split())
            jobs.append(Job(found["name"], after, found["command"]))
    names, where = [job.name for job in jobs], ", ".join(map(str, paths))
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{where}: two jobs are called {name!r}. Give each a name of its own.")
    wanted = [(f"{job.name} waits for", name) for job in jobs for name in job.after]
    for said, other in [*(("--only names", name) for name in only), *wanted]:
        if other not in names:
            raise ValueError(f"{where}: {said} {other!r}, which is no job. Jobs are {', '.join(names)}.")
    can_start: set[str] = set()
    while more := {job.name for job in jobs if set(job.after) <= can_start} - can_start:
        can_start |= more
    if waiting := [name for name in names if name not in can_start]:
        raise ValueError(f"{where}: {', '.join(waiting)} wait for one another. Take one of them out of the brackets.")
    return _with_those_before(only, {job.name: job for job in jobs}) if only else jobs


def _with_those_before(names: Iterable[str], jobs: dict[str, Job]) -> list[Job]:
    """These jobs in their order, each behind those that it waits for."""
    chosen: dict[str, Job] = {}
    for name in names:
        chosen |= {job.name: job for job in _with_those_before(jobs[name].after, jobs)} | {name: jobs[name]}
    return list(chosen.values())


@dataclass
class Keeper:
    """Keeps what jobs have made, by a command of the shell.

    Attributes:
        command: "" for none.
        every: seconds from the end of one run of it to the next while no job ends.
        last: when it last ended.
    """

    command: str = ""
    every: float = float("inf")
    last: float = field(default_factory=time.monotonic)

    def keep(self, name: str = "") -> None:
        """Run it: after a job, or because it is time."""
        if self.command and (name or time.monotonic() - self.last >= self.every):
            subprocess.run(["bash", "-c", self.command], env={**os.environ, "JOB": name}, check=False)
            self.last = time.monotonic()


def run(jobs: list[Job], place: Path, workers: int, deadline: float, keeper: Keeper) -> None:
    """Run them all, or until the deadline; where this ends otherwise, they end with it."""
    try:
        _run(jobs, place, workers, deadline, keeper)
    finally:
        for job in jobs:
            if job.state == RUNNING:
                job.kill()


def _run(jobs: list[Job], place: Path, workers: int, deadline: float, keeper: Keeper) -> None:
    begun, by_name = time.monotonic(), {job.name: job for job in jobs}
    while any(job.state in (WAITING, RUNNING) for job in jobs):
        now = time.monotonic() - begun
        for job in jobs:
            if job.state == RUNNING:
                job.look(now)
                if job.state == RUNNING and now > deadline:
                    job.kill()
                if job.state != RUNNING:
                    keeper.keep(job.name)
            elif job.state == WAITING:
                before = [by_name[name].state for name in job.after]
                free = sum(other.state == RUNNING for other in jobs) < workers
                if now > deadline or any(state in (FAILED, KILLED, SKIPPED) for state in before):
                    job.state = SKIPPED
                elif free and all(state == DONE for state in before):
                    job.start(place, now)
        state = {job.name: [job.state, round(job.began), round(job.seconds)] for job in jobs}
        (place / "state.json").write_text(json.dumps({"seconds": round(now), "jobs": state}) + "\n")
        keeper.keep()
        time.sleep(0.2)


def start_service(place: Path) -> bool:
    """Start NVIDIA's multi-process service, for jobs that are started from here; whether there is one."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        return False
    for name, folder in (("CUDA_MPS_PIPE_DIRECTORY", "pipe"), ("CUDA_MPS_LOG_DIRECTORY", "log")):
        (place / "mps" / folder).mkdir(parents=True, exist_ok=True)
        os.environ[name] = str((place / "mps" / folder).absolute())
    return subprocess.run([control, "-d"], check=False).returncode == 0


def stop_service() -> None:
    """Stop it."""
    subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, check=False)


def main() -> None:
    """Read the jobs and run them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=Path, nargs="+")
    parser.add_argument(
        "--only", nargs="+", default=[], help="behind the files: jobs, in the order in which they start"
    )
    parser.add_argument("--place", type=Path, default=Path("runs/jobs"))
    parser.add_argument("--workers", type=int, default=4, help="jobs at a time")
    parser.add_argument("--deadline", type=float, default=float("inf"), help="seconds from now")
    parser.add_argument("--each", default="", help="a command that is run after every job, with its name in $JOB")
    parser.add_argument("--every", type=float, default=float("inf"), help="seconds: run that command so often, too")
    parser.add_argument("--mps", action="store_true", help="run kernels of several jobs at the same time")
    given = parser.parse_args()
    if given.workers < 1:
        parser.error(f"--workers must be at least 1; got {given.workers}.")
    if not given.every > 0 or (given.every < float("inf") and not given.each):
        parser.error(
            f"--every takes seconds, more than 0, and a command by --each; got {given.every:g}, {given.each!r}."
        )
    try:
        jobs = read_jobs(given.jobs, given.only)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    given.place.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as Ctrl-C: jobs are ended, too
    if given.mps and not start_service(given.place):
        parser.error("--mps needs nvidia-cuda-mps-control, which comes with NVIDIA's driver. Leave --mps out.")
    try:
        run(jobs, given.place, given.workers, given.deadline, Keeper(given.each, given.every))
    finally:
        if given.mps:
            stop_service()
    for job in jobs:
        print(f"{job.name:40} {job.state:8} {job.seconds:7.0f} s")
    sys.exit(any(job.state != DONE for job in jobs))


if __name__ == "__main__":
    main()
