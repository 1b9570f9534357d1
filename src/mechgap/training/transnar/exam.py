"""What text models are asked, drawn once and kept in a file, and how answers are scored by size."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mechgap.algorithms import text
from mechgap.algorithms.text import Example
from mechgap.algorithms.text.scores import ScoreRow
from mechgap.storage import write_text
from mechgap.training.checkpoint import read_json
from mechgap.training.config import hashed_name
from mechgap.training.transnar.config import EvaluationConfig


@dataclass(frozen=True, eq=False)
class Exam:
    """Questions with right answers.

    Attributes:
        examples: by size and algorithm.
        exact: what the algorithms themselves get, with the time they take: the text parsed, executed, and written.
    """

    examples: list[Example]
    exact: dict[str, Any]


def exam_for(config: EvaluationConfig, algorithms: Iterable[str], folder: str | Path | None = None) -> Exam:
    """The questions of an evaluation; read from a file of the folder where they have been drawn before."""
    names = list(algorithms)

    def draw() -> list[Example]:
        return [e for n in config.sizes for name in names for e in text.sample(name, n, config.count, seed=config.seed)]

    return _kept(exam_file(config, names), draw, folder)


def exam_file(config: EvaluationConfig, algorithms: Iterable[str]) -> str:
    """The name of the file that the questions of an evaluation are kept in."""
    return _file(["exam", list(algorithms), config.sizes, config.count, config.seed])


def growing_exam(
    config: EvaluationConfig, algorithms: Iterable[str], context: int, folder: str | Path | None = None
) -> Exam:
    """Questions at rising n: of every algorithm up to the last n at which all of them fit into a context."""
    names = list(algorithms)

    def draw() -> list[Example]:
        found: list[Example] = []
        for name in names:
            for n in sorted(config.sizes):
                some = text.sample(name, n, config.count, seed=config.seed)
                if max(sum(tokens_of(e)) for e in some) > context:
                    break
                found += some
        return sorted(found, key=lambda e: e.length)

    return _kept(_file(["growing", names, config.sizes, config.count, config.seed, context]), draw, folder)


def tokens_of(example: Example) -> tuple[int, int]:
    """Of a question and of its right answer, <bos> and <eos> included."""
    return 1 + len(text.encode(example.question)), 1 + len(text.encode(example.answer))


def _file(what: list) -> str:
    return f"{hashed_name('exam', json.dumps(what))}.json"


def _kept(file: str, draw: Callable[[], list[Example]], folder: str | Path | None) -> Exam:
    path = None if folder is None else Path(folder) / file
    if path is not None and path.exists():
        kept = read_json(path)
        return Exam([Example(**one) for one in kept["examples"]], kept["exact"])
    examples = draw()
    exam = Exam(examples, exact_scores(examples) if examples else {})
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps({"examples": [asdict(e) for e in examples], "exact": exam.exact}) + "\n")
    return exam


def exact_scores(examples: Sequence[Example]) -> dict[str, Any]:
    """What parsing the text and running the algorithm gets, and how long that takes once it is compiled."""

    def answer() -> list[str]:
        return text.right_answers([text.parse(e.question) for e in examples])

    answer()
    return scored(answer, examples).as_json()


@dataclass(frozen=True)
class Scores:
    """What one way of answering got.

    Attributes:
        by_size: n -> a row for every algorithm, and the mean.
        seconds: all answers took; compiling included, but for the algorithms themselves.
    """

    by_size: dict[int, list[ScoreRow]]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = {str(n): [_plain(row) for row in rows] for n, rows in self.by_size.items()}
        return {"by_size": rows, "seconds": round(self.seconds, 3)}


def _plain(row: ScoreRow) -> dict[str, Any]:
    """JSON has no number for the error of a single answer."""
    return {name: None if value != value else value for name, value in asdict(row).items()}


def scored(answer: Callable[[], list[str]], examples: Sequence[Example]) -> Scores:
    """Answer and score."""
    began = time.perf_counter()
    said = answer()
    seconds = time.perf_counter() - began
    return Scores(score_by_size(said, examples), seconds)


def score_by_size(said: Sequence[str], examples: Sequence[Example]) -> dict[int, list[ScoreRow]]:
    """The score table of every size."""
    tables = {}
    for n in sorted({e.length for e in examples}):
        some = [i for i, e in enumerate(examples) if e.length == n]
        names = [examples[i].algorithm for i in some]
        tables[n] = text.score_table([said[i] for i in some], [examples[i] for i in some], names)
    return tables
