"""The sum of two numbers of any length, digit by digit."""

from typing import Any

from mechgap.programs.alta import AltaProgram, Text
from mechgap.programs.alta_builder import alta_program, categorical, qkv, v_relative

START, PLUS, END = 10, 11, 12  # tokens; 0..9 are digits
DIGIT, IS_START, IS_PLUS, IS_END = range(4)  # kinds of tokens
BEGIN, ADD, DONE = range(3)  # what is done next, the same at all positions


def addition() -> AltaProgram:
    """Three marks walk to the left together: over the digits of a, those of b, and the places of the result.

    The tokens are START, a, PLUS, b, END, both numbers with equally many digits; the result stands before END, and its
    first digit, the last carry, at the place of PLUS or further right.
    """

    def step(z: Any) -> None:
        if z["next"] == BEGIN:
            z["next"] = ADD
            if z["kind"] == IS_END:  # nothing stands to its right
                return
            if z["right"] == IS_END:
                z["at_b"] = 1
                z["at_out"] = 1
            if z["right"] == IS_PLUS:
                z["at_a"] = 1
        elif z["next"] == ADD:
            if z["under_a"] == IS_START:
                z["next"] = DONE
                if z["at_out"]:
                    z["out"] = z["carry"]
                return
            total = z["a"] + z["b"] + z["carry"]
            if z["at_out"]:
                z["out"] = total % 10
            z["carry"] = total // 10
            if z["kind"] != IS_END:
                for mark in ("at_a", "at_b", "at_out"):
                    z[mark] = z[f"{mark}_right"]

    marks = ("at_a", "at_b", "at_out")
    return alta_program(
        "addition",
        description="the sum of two numbers, one digit per layer",
        variables=(
            categorical("digit", 10, from_input=lambda x: x if x < 10 else 0),
            categorical("kind", 4, from_input=lambda x: max(0, x - 9)),
            categorical("next", 3),
            *(categorical(mark, 2) for mark in marks),
            categorical("carry", 2),
            categorical("out", 10),
            categorical("one", 2, 1),
        ),
        heads=(
            v_relative("right", "kind", 1),
            *(v_relative(f"{mark}_right", mark, 1) for mark in marks),
            qkv("a", "one", "at_a", "digit"),
            qkv("b", "one", "at_b", "digit"),
            qkv("under_a", "one", "at_a", "kind"),
        ),
        mlp=step,
        output="out",
        input_size=13,
        halt=("next", DONE),
        text=Text(_encode, _decode),
    )


def _encode(text: str) -> list[int]:
    a, plus, b = (part.strip() for part in text.partition("+"))
    if not plus or not all(number.isascii() and number.isdigit() for number in (a, b)):
        raise ValueError(f"Addition is of two numbers, e.g. '789+456'; got {text!r}.")
    width = max(len(a), len(b))
    return [START, *map(int, a.zfill(width)), PLUS, *map(int, b.zfill(width)), END]


def _decode(outputs: list[int]) -> str:
    return str(int("".join(map(str, outputs[:-1]))))
