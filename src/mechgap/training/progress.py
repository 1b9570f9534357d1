"""What whoever waits sees: step, rate, loss and the time that is left. Silent where nobody watches."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Watch:
    """A progress bar over the steps of a run, and the clock behind it."""

    def __init__(self, title: str, steps: int, done: int, members: int, quiet: bool | None) -> None:
        console = Console(stderr=True)
        hidden = not console.is_terminal if quiet is None else quiet
        columns = (
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()),
            TextColumn("{task.fields[said]}"),
        )
        self._progress = Progress(*columns, console=console, disable=hidden)
        self._task = self._progress.add_task(title, total=steps, completed=done, said="compiling")
        self._members, self._first, self._since = members, done, 0.0

    def __enter__(self) -> "Watch":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def start(self) -> None:
        """The programs are compiled; what follows is training."""
        self._since = time.perf_counter()

    def rate(self, step: int) -> float:
        """Steps per second since the start."""
        return (step - self._first) / max(time.perf_counter() - self._since, 1e-9)

    def report(self, step: int, loss: float, validation: float | None, diverged: int) -> None:
        """Show where the run is; None where nothing is validated."""
        rate = self.rate(step)
        said = f"{rate:.1f} steps/s, {rate * self._members:,.0f} seed-steps/s, loss {loss:.3f}"
        said += "" if validation is None else f", val {validation:.3f}"
        said += f", {diverged} diverged" if diverged else ""
        self._progress.update(self._task, completed=step, said=said)

    def say(self, said: str) -> None:
        """Show what is being done."""
        self._progress.update(self._task, said=said)
