"""A computer with one instruction: SUBLEQ, subtract and branch if the result is not positive."""

from typing import Any

from mechgap.programs.alta import AltaProgram, Text
from mechgap.programs.alta_builder import alta_program, categorical, pure, qkv

LOOK_UP, SUBTRACT, MOVE, DONE = range(4)  # what is done next, the same at all positions


def _memory(text: str, smallest: int, largest: int) -> list[int]:
    """Numbers of a memory as input ids."""
    try:
        given = [int(word) for word in text.split()]
    except ValueError:
        given = []
    if not given or not all(smallest <= x <= largest for x in given):
        raise ValueError(f"A memory is of whole numbers {smallest} to {largest}, e.g. '3 4 -1 7 2'; got {text!r}.")
    return [x - smallest for x in given]


def subleq(cells: int = 16, smallest: int = -16, largest: int = 16) -> AltaProgram:
    """Run the program in memory, which may change itself: cell i holds input[i] + smallest.

    An instruction is three cells a, b, c: memory[b] -= memory[a], and if that is not positive go on at c, or end if c
    is negative; otherwise with the next three. It takes three layers. A result outside smallest .. largest is cut off
    there. An address that is no cell, or an instruction beyond the last cell, ends the execution.
    """
    zero = -smallest  # the id of the number 0
    cut_off = pure(lambda x: max(smallest, min(largest, x)) + zero)

    def is_cell(address: Any, room: int = 1) -> Any:
        return (address >= zero) & (address + room <= zero + cells)

    def move(z: Any, to: Any) -> None:
        if is_cell(to, room=3):
            z["at_a"], z["at_b"], z["at_c"] = to, to + 1, to + 2
            z["next"] = LOOK_UP
        else:
            z["next"] = DONE

    def step(z: Any) -> None:
        if z["next"] == LOOK_UP:
            if is_cell(z["a"]) and is_cell(z["b"]):
                z["from"], z["to"], z["jump"] = z["a"], z["b"], z["c"]
                z["is_target"] = z["address"] == z["b"]
                z["next"] = SUBTRACT
            else:
                z["next"] = DONE
        elif z["next"] == SUBTRACT:
            result = z["minuend"] - z["subtrahend"]
            z["jumps"] = result <= 0
            if z["is_target"]:
                z["memory"] = cut_off(result)
            z["next"] = MOVE
        elif z["next"] == MOVE:
            if z["jumps"]:
                move(z, z["jump"])
            else:
                move(z, z["at_a"] + 3)

    def number(name: str, value: int = 0) -> Any:
        return categorical(name, largest - smallest + 1, value + zero)

    return alta_program(
        "subleq",
        description="a computer whose only instruction is SUBLEQ",
        variables=(
            categorical("memory", largest - smallest + 1, from_input=lambda x: x),
            categorical("address", largest - smallest + 1, from_position=lambda i: i + zero),
            *(number(name, i) for i, name in enumerate(("at_a", "at_b", "at_c"))),
            *(number(name) for name in ("from", "to", "jump")),
            categorical("next", 4),
            categorical("jumps", 2),
            categorical("is_target", 2),
        ),
        heads=(
            *(qkv(name, f"at_{name}", "address", "memory") for name in ("a", "b", "c")),
            qkv("subtrahend", "from", "address", "memory"),
            qkv("minuend", "to", "address", "memory"),
        ),
        mlp=step,
        output="memory",
        input_size=largest - smallest + 1,
        positions=cells,
        halt=("next", DONE),
        text=Text(
            lambda text: _memory(text, smallest, largest),
            lambda outputs: " ".join(str(x - zero) for x in outputs),
        ),
    )
