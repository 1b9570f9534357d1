"""Text back into arrays. What cannot be read ends in an error that says what was given, expected, and how to fix it."""

import re

import numpy as np

from mechgap.algorithms.definition import dtype_of_output
from mechgap.algorithms.inputs import WHOLE, main_input
from mechgap.algorithms.text.brackets import (
    NUMBER,
    Nested,
    Unreadable,
    check_is_text,
    parts,
    read,
    shape_of,
    shortened,
    words_of,
)
from mechgap.algorithms.text.layout import BAR, COMMA, START, TRACE, UNWEIGHTED, Layout, layout
from mechgap.algorithms.text.writing import Question
from mechgap.trace import Kind, Location, Variable

CHARACTERS = frozenset("0123456789.-+e[]() ,")  # of values; e and + are in numbers such as 1e-05
WHOLE_NUMBER = re.compile(r"-?[0-9]+")
LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
MOST = 2**63 - 1


def split(text: str) -> tuple[str, str]:
    """A text cut into its question, which is its first three lines, and its answer."""
    check_is_text("What is split", text)
    lines = text.split("\n", 3)
    if len(lines) < 4:
        raise ValueError(_three_lines(text))
    return "\n".join(lines[:3]) + "\n", lines[3]


def parse(question: str) -> Question:
    """Read a question.

    Returns:
        What is asked, with inputs that `mg.algorithm(q.algorithm).trace(**q.inputs)` takes; `write(q)` is the question.

    >>> parse("minimum:\\nkey: [0.5 0.25]\\nmin:\\n").inputs["key"]
    array([[0.5 , 0.25]])
    """
    name, fields, heading = _sections(question)
    written = layout(name, hints=COMMA + START in fields)
    start = None
    if written.hints:
        fields, _, start = fields.partition(COMMA + START)
    _check_heading(written, heading)
    values = _named_values(written, fields)
    nodes = _nodes(written, values)
    arrays = {v.name: _input(written, v, values[v.name], nodes)[None] for v in written.inputs}
    if start is not None:
        _read_variables(start, written, written.frames, f"the initial_trace of {name!r}", nodes)
    return Question(name, written.algorithm.checked(arrays), start)


def parse_answer(answer: str, question: Question) -> dict[str, np.ndarray]:
    """Read an answer.

    Args:
        answer: with or without the empty line at its end.
        question: what it answers.

    Returns:
        The outputs, batched [1, ...] and encoded as in a trace; but of a sort the keys in order, since these are what
        the text says. With hints, the answer behind the bar, under the names that the question has.
    """
    written = question.layout
    what = f"the answer to {question.algorithm!r}"
    _check_text(what, answer)
    said = answer.rstrip("\n")
    if "\n" in said:
        raise ValueError(f"{what} must be one line; got {said.count(chr(10)) + 1}. Give one answer at a time.")
    if written.hints:
        _, bar, said = said.rpartition(BAR)
        if not bar:
            raise ValueError(
                f"{what} must have a trace and then {BAR!r}, as its question asks; got {shortened(said)}. "
                f"Write TRACE{BAR}ANSWER."
            )
    return _read_variables(said, written, written.answers, what, question.nodes)


def _read_variables(
    text: str, written: Layout, variables: dict[str, Variable], what: str, nodes: int
) -> dict[str, np.ndarray]:
    """The values of a frame or an answer by name, batched [1, ...]."""
    _check_characters(text, what)
    if written.parentheses:
        if not (text.startswith("(") and text.endswith(")")):
            raise ValueError(
                f"{what} must stand in parentheses; got {shortened(text)}. Write ({COMMA.join(variables)})."
            )
        text = text[1:-1]
    given = _read_all(text, what)
    if len(given) != len(variables):
        names = COMMA.join(variables)
        raise ValueError(
            f"{what} must have {len(variables)} values ({names}); got {len(given)}, {shortened(text)}. "
            f"Separate them by {COMMA!r}."
        )
    return {
        name: _output(variable, value, f"{name!r} in {what}", nodes)[None]
        for (name, variable), value in zip(variables.items(), given, strict=True)
    }


def _check_text(what: str, text: str) -> None:
    check_is_text(what, text)
    if "\r" in text:
        raise ValueError(
            f"{what} must end its lines in '\\n'; got '\\r' at place {text.index(chr(13))}. "
            "Take these out, e.g. text.replace('\\r', '')."
        )


def _sections(question: str) -> tuple[str, str, str]:
    _check_text("A question", question)
    lines = question.split("\n")
    if len(lines) != 4 or lines[3] or not all(lines[:3]):
        raise ValueError(_three_lines(question))
    name, fields, heading = lines[:3]
    for line in (name, heading):
        if not line.endswith(":"):
            raise ValueError(f"The line {shortened(line)} must end in a colon. Write {line + ':'!r}.")
    return name[:-1], fields, heading[:-1]


def _three_lines(text: str) -> str:
    count = len(text.split("\n")) - 1
    return (
        f"A question must be three lines that each end in a newline (ALGORITHM:, INPUTS, OUTPUTS:); got {count} "
        f"ended lines in {shortened(text)}. Give all three, and no answer: mg.text.split(text) cuts it off."
    )


def _check_heading(written: Layout, heading: str) -> None:
    if heading == written.heading:
        return
    fix = f"Write {written.heading + ':'!r}."
    if heading.startswith(TRACE) and not written.hints:
        fix = f"A question for a trace gives its first frame: end the inputs with {COMMA + START}FRAME."
    raise ValueError(
        f"{written.algorithm.name!r} must ask for {written.heading!r} in its third line; got {heading!r}. {fix}"
    )


def _named_values(written: Layout, fields: str) -> dict[str, Nested]:
    """By input, its text taken apart."""
    name = written.algorithm.name
    what = f"the inputs of {name!r}"
    names = [v.name for v in written.inputs]
    shown = COMMA.join(f"{n}: ..." for n in names)
    try:
        found = [field.partition(": ") for field in parts(fields)]
    except Unreadable as problem:
        raise ValueError(f"In {what}, {problem}; got {shortened(fields)}. Write {shown}.") from None
    given = [field[0] for field in found]
    if given != names or not all(field[1] for field in found):
        raise ValueError(f"{what} must be {shown} in this order; got {COMMA.join(map(repr, given))}. Write {shown}.")
    values = {}
    for field, _, value in found:
        _check_characters(value, f"{field!r} of {name!r}")
        (values[field],) = _read_all(value, f"{field!r} of {name!r}")
    return values


def _check_characters(text: str, what: str) -> None:
    for place, character in enumerate(text):
        if character not in CHARACTERS:
            raise ValueError(
                f"{what} has the illicit character {character!r} at place {place} of {shortened(text)}. "
                "Values are numbers, lists [a b] and matrices [[a b], [c d]]; write only these."
            )


def _read_all(text: str, what: str) -> list[Nested]:
    try:
        return [read(part) for part in parts(text)]
    except Unreadable as problem:
        raise ValueError(
            f"In {what}, {problem}; got {shortened(text)}. Write a number, [a b] or [[a b], [c d]]."
        ) from None


def _nodes(written: Layout, values: dict[str, Nested]) -> int:
    main = values[main_input(written.algorithm.spec)]
    return 1 if isinstance(main, str) else len(main)


def _input(written: Layout, variable: Variable, value: Nested, nodes: int) -> np.ndarray:
    name = written.algorithm.name
    what = f"{variable.name!r} of {name!r}"
    keeps_whole = variable.name in WHOLE and (variable.name != "A" or name in UNWEIGHTED)
    if variable.kind == Kind.SCALAR:
        numbers = _array(variable, value, what, nodes, NUMBER)
        return numbers if keeps_whole else numbers.astype(float)
    return _encoded(variable, value, what, nodes)


def _output(variable: Variable, value: Nested, what: str, nodes: int) -> np.ndarray:
    if variable.permutation:
        return _array(variable, value, what, nodes, NUMBER).astype(float)
    return _encoded(variable, value, what, nodes).astype(dtype_of_output(variable))


def _encoded(variable: Variable, value: Nested, what: str, nodes: int) -> np.ndarray:
    """Whole numbers in a trace's encoding."""
    x = _array(variable, value, what, nodes, WHOLE_NUMBER)
    on_edges = variable.location == Location.EDGE
    classes = {Kind.MASK: 2, Kind.CATEGORICAL: variable.classes}.get(variable.kind) or nodes
    lowest = -1 if on_edges and variable.kind in (Kind.MASK, Kind.CATEGORICAL) else 0
    outside = x[(x < lowest) | (x >= classes)]
    if outside.size:
        raise ValueError(
            f"{what} must hold whole numbers from {lowest} to {classes - 1}; got {outside.flat[0]}. "
            f"Change it to one of these."
        )
    if variable.kind == Kind.CATEGORICAL:
        no_class = -np.eye(classes)[-1]  # as the tracer marks pairs that have no class
        return np.where((x == -1)[..., None], no_class, np.eye(classes)[np.maximum(x, 0)])
    return np.eye(nodes)[x] if variable.kind == Kind.MASK_ONE else x.astype(float)


def _array(variable: Variable, value: Nested, what: str, nodes: int, pattern: re.Pattern) -> np.ndarray:
    """The numbers in a value, of the shape that its variable has."""
    shape: tuple[int, ...] = variable.shape(nodes)
    if variable.kind == Kind.CATEGORICAL:
        shape = shape[:-1]
    if variable.kind == Kind.MASK_ONE:
        shape = ()
    given = shape_of(value)
    if given != shape:
        raise ValueError(f"{what} must be {_in_words(shape)}; got {_in_words(given)}. Give one value per node.")
    words = words_of(value)
    for word in words:
        if not pattern.fullmatch(word):
            kind = "a number" if pattern is NUMBER else "a whole number"
            raise ValueError(f"{what} has {word!r}, which is not {kind}. Write {'0.5' if pattern is NUMBER else '3'}.")
    if not all(WHOLE_NUMBER.fullmatch(word) for word in words):
        return np.array([float(word) for word in words]).reshape(shape)
    numbers = [LEADING_ZEROS.sub("", word) for word in words]  # Python refuses to read thousands of digits
    for word, number in zip(words, numbers, strict=True):
        if len(number) > 1 + len(str(MOST)) or abs(int(number)) > MOST:
            raise ValueError(f"{what} has {shortened(word)}, which 64 bits do not hold. Write {MOST} at most.")
    return np.array([int(number) for number in numbers]).reshape(shape)


def _in_words(shape: tuple[int, ...]) -> str:
    if not shape:
        return "one number"
    if len(shape) == 1:
        return f"a list of {shape[0]} values"
    return f"a matrix of {shape[0]} rows of {shape[1] if shape[1] >= 0 else 'different lengths'}"
