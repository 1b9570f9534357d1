"""Questions and answers from inputs, character for character as the reference package writes them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechgap.algorithms.inputs import completed
from mechgap.algorithms.text.layout import BAR, COMMA, START, UNWEIGHTED, Layout, layout
from mechgap.trace import Kind, Trace, Variable

DECIMALS = 3  # the published generator's
MOST_DECIMALS = 13  # beyond, a number that needs no cutting cannot be told from one that does


@dataclass(frozen=True)
class Example:
    """A question and its right answer.

    Attributes:
        algorithm: what was asked about.
        length: the n that was drawn (optimal_bst has n + 1 nodes, segments_intersect 4), or the number of nodes given.
        hints: whether the execution is written, too.
    """

    question: str
    answer: str
    algorithm: str
    length: int
    hints: bool = False

    @property
    def text(self) -> str:
        """Question and answer in a row."""
        return self.question + self.answer


@dataclass(frozen=True, eq=False)
class Question:
    """A question that has been read.

    Attributes:
        algorithm: what is asked about.
        inputs: complete and batched [1, ...], as `algorithm.trace` takes them.
        start: where hints are asked for, the first frame as it was written; else None.
    """

    algorithm: str
    inputs: dict[str, np.ndarray]
    start: str | None = None

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return int(self.inputs["pos"].shape[-1])

    @property
    def layout(self) -> Layout:
        """How it is written."""
        return layout(self.algorithm, self.start is not None)


def examples(
    algorithm: str, inputs: Mapping[str, Any], *, hints: bool = False, decimals: int | None = DECIMALS
) -> list[Example]:
    """Questions and right answers for a batch of inputs.

    Args:
        algorithm: one of the thirty.
        inputs: batched, as `algorithm.trace` takes them; `pos` is not written, and is i/n here.
        hints: write the execution, too.
        decimals: inputs are cut to as many decimals before they are traced; None keeps them all.

    >>> print(examples("minimum", {"key": [[0.5, 0.25, 0.125]]})[0].text.rstrip())
    minimum:
    key: [0.5 0.25 0.125]
    min:
    2
    """
    written = layout(algorithm, hints)
    short = short_inputs(written, written.algorithm.checked(inputs), decimals)
    trace = written.algorithm.trace_checked(short)
    return [Example(*pair, algorithm, trace.nodes, hints) for pair in written_pairs(written, trace)]


def write(question: Question) -> str:
    """The question as text: what `parse` read."""
    return _question(question.layout, question.inputs, 0, question.start or "")


def right_answers(questions: Iterable[Question]) -> list[str]:
    """The right answer to every question, by executing the algorithm; questions of one kind are executed at once."""
    groups: dict[tuple[str, bool, int], list[int]] = {}
    asked = list(questions)
    for index, q in enumerate(asked):
        groups.setdefault((q.algorithm, q.start is not None, q.nodes), []).append(index)
    answers = [""] * len(asked)
    for (name, hints, _), members in groups.items():
        written = layout(name, hints)
        inputs = {k: np.concatenate([asked[i].inputs[k] for i in members]) for k in asked[members[0]].inputs}
        trace = written.algorithm.trace_checked(inputs)
        for index, (_, answer) in zip(members, written_pairs(written, trace), strict=True):
            answers[index] = answer
    return answers


def short_inputs(written: Layout, inputs: dict[str, np.ndarray], decimals: int | None) -> dict[str, np.ndarray]:
    """The inputs with as many decimals as are written; 0 and 1 as whole numbers; `pos` and `adj` made anew."""
    short = {v.name: truncated(inputs[v.name], decimals) for v in written.inputs}
    if written.algorithm.name in UNWEIGHTED and np.array_equal(short["A"], short["A"].astype(int)):
        short["A"] = short["A"].astype(int)
    elif "A" in short:
        short["A"] = short["A"].astype(float)
    if "d" in short and np.array_equal(short["d"], short["d"].astype(int)):
        short["d"] = short["d"].astype(int)
    return completed(written.algorithm.spec, short, np)


def check_decimals(decimals: int | None) -> None:
    """Refuse to cut numbers where that cannot be done, with a sentence."""
    if decimals is not None and decimals not in range(1, MOST_DECIMALS + 1):
        raise ValueError(f"decimals must be from 1 to {MOST_DECIMALS}, or None to keep them all; got {decimals!r}.")


def truncated(x: np.ndarray, decimals: int | None) -> np.ndarray:
    """Reals cut towards 0, as the reference cuts them; but what has no more decimals stays as it is.

    (Cutting 0.57 again would make it 0.569, because 1000 * 0.57 is less than 570.)
    """
    check_decimals(decimals)
    if decimals is None or x.dtype.kind != "f":
        return x
    return np.where(np.round(x, decimals) == x, x, np.trunc(x * 10**decimals) / 10**decimals)


def written_pairs(written: Layout, trace: Trace, most: int | None = None) -> list[tuple[str, str]]:
    """Question and answer of every execution of a trace, or of the first ones."""
    return [_pair(written, trace, sample) for sample in range(trace.batch)[:most]]


def _pair(written: Layout, trace: Trace, sample: int) -> tuple[str, str]:
    key = trace.inputs["key"][sample] if "key" in trace.inputs else None
    length = int(trace.lengths[sample])

    def frame(step: int) -> str:
        shown = (show(v, trace.hints[hint][step, sample], key) for hint, v in written.frames.items())
        return written.enclosed(COMMA.join(shown))

    # The answer's variables are listed in the order of the outputs, whatever they are called in the text.
    outputs = (show(v, trace.outputs[v.name][sample], key) for v in written.answers.values() if not written.last_frame)
    answer = frame(length - 1) if written.last_frame else COMMA.join(outputs)
    if written.hints:
        answer = COMMA.join(map(frame, range(1, length - 1))) + BAR + answer
    return _question(written, trace.inputs, sample, frame(0) if written.hints else ""), f"{answer}\n\n"


def _question(written: Layout, inputs: Mapping[str, np.ndarray], sample: int, start: str) -> str:
    fields = [f"{v.name}: {show(v, inputs[v.name][sample])}" for v in written.inputs]
    fields += [START + start] if written.hints else []
    return f"{written.algorithm.name}:\n{COMMA.join(fields)}\n{written.heading}:\n"


def show(variable: Variable, x: Any, key: np.ndarray | None = None) -> str:
    """One value as text: a number, a list `[a b]`, or a matrix `[[a b], [c d]]`.

    Args:
        variable: what it is.
        x: its value, an array or a number, without a batch axis.
        key: the keys that a permutation puts in order; the text has the keys.
    """
    values = _values(variable, x, key).tolist()
    if not isinstance(values, list):
        return repr(values)
    if not values or not isinstance(values[0], list):
        return _list(values)
    return f"[{COMMA.join(map(_list, values))}]"


def _list(values: list) -> str:
    return f"[{' '.join(map(repr, values))}]"


def _values(variable: Variable, x: Any, key: np.ndarray | None) -> Any:
    """The numbers that are written."""
    if variable.permutation:
        assert key is not None, "a permutation is written as the keys it puts in order"
        return key[_order(x.astype(int))]
    if variable.kind == Kind.SCALAR:
        return x
    if variable.kind == Kind.MASK_ONE:
        return np.argmax(x, axis=-1)
    if variable.kind == Kind.CATEGORICAL:  # a class of -1 stands for no class
        return np.where(np.any(x == -1, axis=-1), -1, np.argmax(x, axis=-1))
    return x.astype(int)


def _order(pred: np.ndarray) -> np.ndarray:
    """The nodes in the order of their predecessors, from the last one, which precedes none, backwards."""
    precedes_none = np.ones(len(pred), bool)
    precedes_none[pred] = len(pred) == 1  # a single node precedes itself
    backwards = [int(np.argmax(precedes_none))]
    for _ in pred[1:]:
        backwards.append(int(pred[backwards[-1]]))
    return np.array(backwards[::-1])
