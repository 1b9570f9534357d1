"""CLRS-Text in a terminal: samples, data sets with a progress bar, and tables of scores."""

from pathlib import Path

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from mechgap.algorithms import text
from mechgap.algorithms.text.dataset import DatasetConfig, read_rows, write_dataset
from mechgap.algorithms.text.scores import ScoreRow
from mechgap.algorithms.text.writing import Example, Question

ALL = "all"


def print_samples(algorithm: str, n: int, count: int, seed: int, hints: bool, decimals: int) -> None:
    """Questions with their answers, as they are."""
    for example in text.sample(algorithm, n, count, seed=seed, hints=hints, decimals=decimals or None):
        print(example.text, end="")


def write_and_say(out: Path, algorithms: str, sizes: str, count: int, seed: int, hints: bool, decimals: int) -> None:
    """Write a data set, with a progress bar where somebody watches."""
    config = DatasetConfig(named(algorithms), sizes_of(sizes), count, seed, hints, decimals or None)
    console = Console(stderr=True)
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("compiling", total=config.rows, rate="")

        def show(example: Example) -> None:
            rate = f"{bar.tasks[0].speed or 0:,.0f} per second"
            bar.update(task, advance=1, description=f"{example.algorithm}, n = {example.length}", rate=rate)

        # Thousands of compiled programs would exhaust a process's memory maps, and none serves two algorithms.
        write_dataset(out, config, progress=show, finished=lambda _: jax.clear_caches())
    print(f"wrote {config.rows} questions and answers to {out}")


def named(algorithms: str) -> tuple[str, ...]:
    """The names in a list such as bfs,dfs; all of them for "all"."""
    return text.ALGORITHMS if algorithms == ALL else tuple(name.strip() for name in algorithms.split(","))


def sizes_of(sizes: str) -> tuple[int, ...]:
    """The sizes in a list such as 4-8,12.

    >>> sizes_of("4-8,12")
    (4, 5, 6, 7, 8, 12)
    """
    found: list[int] = []
    for part in sizes.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise ValueError(f"Sizes must be numbers and ranges such as 4-8,12; got {part.strip()!r} in {sizes!r}.")
        found += range(int(first), int(last or first) + 1)
    return tuple(sorted(set(found)))


def score_and_print(path: Path, column: str) -> None:
    """The three scores of a file's answers, by algorithm, with the floor beside them."""
    rows = read_rows(path, ("question", column))
    asked = [_parsed(row["question"], f"row {number} of {path}") for number, row in enumerate(rows, 1)]
    answers = [row.get("answer") for row in rows]
    right = [question if answer is None else answer for question, answer in zip(asked, answers, strict=True)]
    scores = text.score_table([row[column] for row in rows], right, [question.algorithm for question in asked])
    Console().print(table_of(scores, f"{path.name}: {len(rows)} answers"))


def _parsed(question: str, where: str) -> Question:
    try:
        return text.parse(question)
    except ValueError as error:
        raise ValueError(f"The question in {where} cannot be read: {error}") from None


def table_of(scores: list[ScoreRow], title: str) -> Table:
    """A table of scores, in percent."""
    table = Table(title=title, title_justify="left")
    for name in ("algorithm", "answers", "shape", "parse", "CLRS", "± error", "floor"):
        table.add_column(name, justify="left" if name == "algorithm" else "right")
    for row in scores:
        shares = (row.shape, row.parse, row.clrs, row.error, row.floor)
        table.add_row(row.name, str(row.count), *(f"{100 * share:.1f}" for share in shares))
    table.caption = "percent; floor: the CLRS score of the best constant answer; mean: every algorithm counts the same"
    return table
