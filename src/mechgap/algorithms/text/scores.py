"""The three scores of answers in CLRS-Text, after TransNAR, section 4, and what a constant answer would get.

- shape: whether the answer has as many values, lists and rows as the right one.
- parse: whether all its characters are ones that answers are made of.
- CLRS: the share of elements that equal the right ones, all outputs taken together; 0 where the shape is wrong.

They look at different things: an unclosed bracket is a wrong shape of legal characters, and a letter within a list of
the right length is an illegal character in the right shape. Numbers are compared as numbers (0.50 is 0.5). Where the
question asks for a trace, only what stands behind the last bar counts; an answer has a bar exactly where the right one
has, with or without spaces around it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mechgap.algorithms.text.brackets import (
    NUMBER,
    Unreadable,
    check_is_text,
    parts,
    read,
    shape_of,
    shortened,
    words_of,
)
from mechgap.algorithms.text.layout import BAR
from mechgap.algorithms.text.writing import Example, Question, right_answers

LEGAL = frozenset("0123456789.-[] ,\n")  # and whatever the right answer has: ( | ) in traces
_BAR = BAR.strip()


class _Parts(NamedTuple):
    """An answer taken apart."""

    shape: tuple  # whether there is a bar, whether there are parentheses, and the shape of every value
    elements: list[str]  # in a row, numbers in one spelling


class Score(NamedTuple):
    """shape and parse are 0 or 1, clrs is a share."""

    shape: float
    parse: float
    clrs: float


@dataclass(frozen=True)
class ScoreRow:
    """The mean scores of some answers.

    Attributes:
        name: the algorithm, or "mean": every algorithm counts the same there.
        count: how many answers.
        shape: their mean shape score; parse and clrs likewise.
        error: the standard error of clrs.
        floor: what the best constant answer would get on the same questions, in clrs.
    """

    name: str
    count: int
    shape: float
    parse: float
    clrs: float
    error: float
    floor: float


def score(answer: str, right: Question | Example | str) -> Score:
    """The scores of one answer.

    Args:
        answer: what was said.
        right: the right answer, or the question, which is then answered by executing the algorithm.

    >>> score("[3 3 0 1]", "[3 3 0 3]")
    Score(shape=1.0, parse=1.0, clrs=0.75)
    """
    (truth,) = _right([right])
    return _score(answer, truth, _of_right(truth))


def floor(right: Sequence[str]) -> float:
    """What no constant answer exceeds in clrs on these: at each place the most frequent right element.

    A constant answer is one for all questions of a shape. It is chosen knowing the right answers, so with few of them
    the floor is high: with one, it is 1.
    """
    return _floor([_of_right(answer, f" of row {number}") for number, answer in enumerate(right, 1)])


def score_table(
    answers: Iterable[str], right: Iterable[Question | Example | str], algorithms: Iterable[str]
) -> list[ScoreRow]:
    """The mean scores by algorithm, in alphabetical order, and over all of them in the last row.

    Args:
        answers: what was said, one per question.
        right: the right answers, or questions, as for `score`.
        algorithms: the algorithm that each question is about.
    """
    said, names = list(answers), list(algorithms)
    truths = _right(list(right))
    places = [f" of row {number}" for number in range(1, len(truths) + 1)]
    expected = [_of_right(truth, place) for truth, place in zip(truths, places, strict=True)]
    if not said or not len(said) == len(names) == len(truths):
        raise ValueError(
            f"There must be as many answers as questions and algorithms, at least one; got {len(said)} answers, "
            f"{len(truths)} questions and {len(names)} algorithms."
        )
    scores = np.array([_score(*row) for row in zip(said, truths, expected, places, strict=True)])
    rows = []
    for name in sorted(set(names)):
        members = [i for i, n in enumerate(names) if n == name]
        rows.append(_row(name, scores[members], _floor([expected[i] for i in members])))
    return [*rows, _mean_row(rows)]


def _row(name: str, found: np.ndarray, constant: float) -> ScoreRow:
    error = found[:, 2].std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
    shape, parse, clrs = found.mean(axis=0).tolist()
    return ScoreRow(name, len(found), shape, parse, clrs, float(error), constant)


def _mean_row(rows: list[ScoreRow]) -> ScoreRow:
    def mean(field: str) -> float:
        return float(np.mean([getattr(row, field) for row in rows]))

    error = float(np.sqrt(np.sum([row.error**2 for row in rows])) / len(rows))
    count = sum(row.count for row in rows)
    return ScoreRow("mean", count, mean("shape"), mean("parse"), mean("clrs"), error, mean("floor"))


def _right(given: Sequence[Question | Example | str]) -> list[str]:
    """The right answers, executing all questions at once."""
    questions = [x for x in given if isinstance(x, Question)]
    executed = iter(right_answers(questions))
    return [next(executed) if isinstance(x, Question) else x.answer if isinstance(x, Example) else x for x in given]


def _of_right(right: str, where: str = "") -> _Parts:
    """A right answer taken apart; unlike an answer to score, it must be whole."""
    check_is_text(f"The right answer{where}", right)
    try:
        found = _taken_apart(right)
        if not all(length > 0 for shape in found.shape[2:] for length in shape):
            raise Unreadable("a list has no values, or the rows of a matrix differ in length")
        other = next((word for word in found.elements if not NUMBER.fullmatch(word)), None)
        if other is not None:
            raise Unreadable(f"{shortened(other)} is no number")
    except Unreadable as problem:
        raise ValueError(
            f"The right answer{where} cannot be read: {problem}; got {shortened(right)}. "
            "Write a number, [a b] or [[a b], [c d]]."
        ) from None
    return found


def _score(answer: str, right: str, expected: _Parts, where: str = "") -> Score:
    check_is_text(f"The answer{where}", answer)
    clean = float(set(answer) <= LEGAL | set(right))
    try:
        given = _taken_apart(answer)
    except Unreadable:
        return Score(0.0, clean, 0.0)
    if given.shape != expected.shape:
        return Score(0.0, clean, 0.0)
    same = [a == b for a, b in zip(given.elements, expected.elements, strict=True)]
    return Score(1.0, clean, sum(same) / len(same))


def _taken_apart(answer: str) -> _Parts:
    _, bar, said = answer.rpartition(_BAR)
    said = said.strip()
    enclosed = said.startswith("(") and said.endswith(")")
    values = [read(part) for part in parts(said[1:-1] if enclosed else said)]
    shape = (bool(bar), enclosed, *(shape_of(value) for value in values))
    return _Parts(shape, [_canonical(word) for value in values for word in words_of(value)])


def _canonical(word: str) -> str:
    """One spelling per number; other words are themselves."""
    return repr(float(word) + 0.0) if NUMBER.fullmatch(word) else word  # + 0.0: -0.0 is 0.0


def _floor(right: Sequence[_Parts]) -> float:
    if not right:
        raise ValueError("A floor needs a right answer, at least one; got none. Give those of all questions.")
    groups: dict[tuple, list[list[str]]] = {}
    for answer in right:
        groups.setdefault(answer.shape, []).append(answer.elements)
    return sum(len(group) * _most_common_share(group) for group in groups.values()) / len(right)


def _most_common_share(group: list[list[str]]) -> float:
    places = list(zip(*group, strict=True))
    return sum(Counter(place).most_common(1)[0][1] for place in places) / (len(group) * len(places))
