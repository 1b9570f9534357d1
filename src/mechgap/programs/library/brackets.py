"""Whether brackets match: Dyck languages, read from left to right with a stack of bounded depth."""

import itertools
from typing import Any

from mechgap.programs.alta import AltaProgram, Text
from mechgap.programs.alta_builder import alta_program, categorical, pure, v_relative

BRACKETS = "()[]{}"
OPEN, CLOSED, WRONG = range(3)  # what is known of the sequence until here: some are open, all are closed, it is wrong


def dyck(kinds: int = 1, depth: int = 4) -> AltaProgram:
    """Brackets of so many kinds, nested up to a depth: at every position, how things stand until there.

    The variable `stack` says which of all possible stacks is there; one position is read per layer. Deeper nesting than
    `depth` counts as wrong.
    """
    stacks = [stack for d in range(depth + 1) for stack in itertools.product(range(kinds), repeat=d)]
    start = 2 * kinds  # the token before the brackets
    wrong = len(stacks)  # the stack of a sequence that is wrong

    def read(at: int, token: int) -> int:
        kind, closes = token // 2, token % 2
        if token == start or at == wrong:
            return at
        stack = stacks[at]
        if closes:
            return stacks.index(stack[:-1]) if stack and stack[-1] == kind else wrong
        return stacks.index((*stack, kind)) if len(stack) < depth else wrong

    def step(z: Any) -> None:
        if not z["done"] and z["done_left"]:
            stack = pure(read)(z["stack_left"], z["token"])
            z["stack"] = stack
            z["state"] = pure(lambda s: WRONG if s == wrong else CLOSED if s == 0 else OPEN)(stack)
            z["done"] = 1

    return alta_program(
        f"dyck_{kinds}",
        description=f"whether brackets of {kinds} kind{'s' if kinds > 1 else ''} match, nested up to {depth}",
        variables=(
            categorical("token", 2 * kinds + 1, from_input=lambda x: x),
            categorical("stack", len(stacks) + 1),
            categorical("state", 3, CLOSED),
            categorical("done", 2, from_input=lambda x: x == start),
        ),
        heads=(v_relative("stack_left", "stack", -1), v_relative("done_left", "done", -1)),
        mlp=step,
        output="state",
        input_size=2 * kinds + 1,
        halt=("done", 1),
        causal=True,
        text=Text(
            lambda text: [start, *_brackets(text, kinds)], lambda outputs: "yes" if outputs[-1] == CLOSED else "no"
        ),
    )


def dyck_1(depth: int = 8) -> AltaProgram:
    """Round brackets."""
    return dyck(1, depth)


def dyck_2(depth: int = 4) -> AltaProgram:
    """Round and square brackets."""
    return dyck(2, depth)


def _brackets(text: str, kinds: int) -> list[int]:
    known = BRACKETS[: 2 * kinds]
    wrong = [c for c in text if c not in known and not c.isspace()]
    if wrong:
        raise ValueError(f"Brackets are {' '.join(known)}; got {wrong[0]!r} in {text!r}.")
    return [known.index(c) for c in text if not c.isspace()]
