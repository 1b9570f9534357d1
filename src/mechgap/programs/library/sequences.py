"""Programs over sequences of small numbers: reverse, count, sort, find the most frequent.

Counting works by averaging: a head that looks at the START and at c further positions sees the START as 1 / (c + 1) of
what it looks at.
"""

from collections.abc import Callable
from typing import Any

from mechgap.programs.alta import AltaProgram, Text
from mechgap.programs.alta_builder import alta_program, categorical, numeric, pure, qkv, set_of

START = 0  # the token before the numbers, which are 1, 2, ...
END = 0  # the token after them, in `reverse`


def sort_unique(largest: int = 15) -> AltaProgram:
    """Sort different numbers: each finds out how many are smaller, and then every place finds its number."""

    def step(z: Any) -> None:
        if z["step"] == 0:
            if z["token"] != START:
                z["rank"] = round(1 / z["smaller"])
            z["step"] = 1
        elif z["step"] == 1:
            z["sorted"] = z["found"]
            z["step"] = 2

    return _sorting("sort_unique", "different numbers, sorted", largest, largest, step, ())


def sort(largest: int = 9, length: int = 16) -> AltaProgram:
    """Sort numbers, of which some may be equal: equal ones keep their order."""
    # Two counts that do not occur together could make a place beyond the last.
    place_after = pure(lambda smaller, equal: min(length, round(1 / smaller) + round(1 / equal) - 1))

    def step(z: Any) -> None:
        if z["step"] == 0:
            if z["token"] != START:
                z["rank"] = place_after(z["smaller"], z["equal_before"])
            z["step"] = 1
        elif z["step"] == 1:
            z["sorted"] = z["found"]
            z["step"] = 2

    before = range(-length, 0)
    equal = qkv("equal_before", "same", "token", "is_start", relative=before, buckets=_shares(length - 1))
    return _sorting("sort", "numbers, sorted", largest, length, step, (equal,))


def reverse(largest: int = 9, length: int = 16) -> AltaProgram:
    """The numbers in reverse order; the END follows them."""

    def step(z: Any) -> None:
        if z["step"] == 0:
            z["source"] = pure(lambda end, here: max(0, end - 1 - here))(z["end"], z["place"])
            z["step"] = 1
        elif z["step"] == 1:
            if z["token"] != END:
                z["out"] = z["found"]
            z["step"] = 2

    return alta_program(
        "reverse",
        description="a sequence in reverse order",
        variables=(
            categorical("token", largest + 1, from_input=lambda x: x),
            categorical("is_end", 2, from_input=lambda x: x == END),
            categorical("one", 2, 1),
            categorical("place", length + 1, from_position=lambda i: i),
            categorical("source", length + 1),
            categorical("step", 3),
            categorical("out", largest + 1),
        ),
        heads=(qkv("end", "one", "is_end", "place"), qkv("found", "source", "place", "token")),
        mlp=step,
        output="out",
        input_size=largest + 1,
        positions=length + 1,
        halt=("step", 2),
        text=Text(
            lambda text: [*_numbers(largest, length)(text), END], lambda outputs: " ".join(map(str, outputs[:-1]))
        ),
    )


def histogram(largest: int = 9, length: int = 16, causal: bool = False) -> AltaProgram:
    """How often each number occurs in the sequence; with `causal`, how often until there."""

    def step(z: Any) -> None:
        if z["token"] != START:
            z["count"] = round(1 / z["share"]) - 1

    return alta_program(
        "histogram_causal" if causal else "histogram",
        description="how often each number occurs" + (" until there" if causal else ""),
        variables=(*_counted(largest, length), categorical("count", length + 1)),
        heads=(qkv("share", "same", "token", "is_start"),),
        mlp=step,
        output="count",
        input_size=largest + 1,
        layers=1,
        causal=causal,
        text=_after_start(largest, length),
    )


def most_frequent(largest: int = 5, length: int = 12) -> AltaProgram:
    """The number that occurs most often, at every place; of several, the smallest.

    Each number's count and itself make a score; a number whose score nobody beats is the one.
    """
    scores = (length + 1) * (largest + 1)

    def step(z: Any) -> None:
        if z["step"] == 0:
            if z["token"] != START:
                score = (round(1 / z["share"]) - 1) * (largest + 1) + largest - z["token"]
                z["score"] = score
                z["above"] = pure(lambda s: frozenset({0, *range(s + 1, scores)}))(score)
            z["step"] = 1
        elif z["step"] == 1:
            if z["token"] != START:
                z["is_best"] = z["beaten"] == 1  # only the START, whose score is 0, is not below
            z["step"] = 2
        elif z["step"] == 2:
            z["out"] = z["best"]
            z["step"] = 3

    above = [frozenset({0, *range(s + 1, scores)}) for s in range(scores)]
    return alta_program(
        "most_frequent",
        description="the number that occurs most often",
        variables=(
            *_counted(largest, length),
            categorical("one", 2, 1),
            categorical("score", scores),
            set_of("above", scores, above, above[0]),
            categorical("is_best", 2),
            categorical("step", 4),
            categorical("out", largest + 1),
        ),
        heads=(
            qkv("share", "same", "token", "is_start"),
            qkv("beaten", "above", "score", "is_start"),
            qkv("best", "one", "is_best", "token"),
        ),
        mlp=step,
        output="out",
        input_size=largest + 1,
        halt=("step", 3),
        text=_after_start(largest, length),
    )


def _sorting(name: str, description: str, largest: int, length: int, step: Callable, heads: tuple) -> AltaProgram:
    below = [frozenset(range(max(x, 1))) for x in range(largest + 1)]  # the START and all smaller numbers
    return alta_program(
        name,
        description=description,
        variables=(
            *_counted(largest, length - 1),
            set_of("below", largest + 1, below, from_input=lambda x: below[x]),
            categorical("place", length + 1, from_position=lambda i: i),
            categorical("rank", length + 1),
            categorical("step", 3),
            categorical("sorted", largest + 1),
        ),
        heads=(
            qkv("smaller", "below", "token", "is_start"),
            *heads,
            qkv("found", "place", "rank", "token"),
        ),
        mlp=step,
        output="sorted",
        input_size=largest + 1,
        positions=length + 1,
        halt=("step", 2),
        text=_after_start(largest, length),
    )


def _counted(largest: int, length: int) -> tuple:
    same = [frozenset({x, START}) for x in range(largest + 1)]
    return (
        categorical("token", largest + 1, from_input=lambda x: x),
        set_of("same", largest + 1, same, from_input=lambda x: same[x]),
        numeric("is_start", _shares(length), from_input=lambda x: float(x == START)),
    )


def _shares(length: int) -> tuple[float, ...]:
    return tuple(1 / (count + 1) for count in range(length, -1, -1))


def _after_start(largest: int, length: int) -> Text:
    read = _numbers(largest, length)
    return Text(lambda text: [START, *read(text)], lambda outputs: " ".join(map(str, outputs[1:])))


def _numbers(largest: int, length: int) -> Callable[[str], list[int]]:
    def read(text: str) -> list[int]:
        words = text.split()
        if not words or not all(w.isascii() and w.isdigit() and 1 <= int(w) <= largest for w in words):
            raise ValueError(f"A sequence is of numbers 1 to {largest}, e.g. '3 1 2'; got {text!r}.")
        if len(words) > length:
            raise ValueError(f"This program is for {length} numbers; got {len(words)}. Build it with more, length=.")
        return [int(word) for word in words]

    return read
