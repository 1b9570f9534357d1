"""What becomes of a minimal program on longer inputs: measured, and read back (ALTA C.2, Figure 4)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mechgap.faithfulness.sequence_result import check, is_share
from mechgap.programs.alta import AltaProgram
from mechgap.programs.alta_interpreter import batched
from mechgap.programs.minimal import assignments, minimal, removable, rule_count
from mechgap.programs.tasks import Task, right
from mechgap.training.checkpoint import read_json

MOST_COMPARED = 2000  # rules whose tests are taken out one by one
MAKES = "mechgap paper alta-figure4"
LONGEST = 64  # texts whose layers are counted
TRAINED, MOST_TESTED = "training set", 1000  # texts of the training set that are tested, too, about


@dataclass(frozen=True)
class Generalisation:
    """What a minimal program does.

    Attributes:
        rules: how many the whole program has, as the paper counts; None where counting would take too long.
        kept: how many of them are left.
        layers: the most that the longest texts of the training set take.
        combinations: of values of all variables and heads' outputs, which the rules tell apart.
        removable: what could be removed besides, by Definition 1, in words; None where there are too many rules to try.
        whole, small: slice -> share of right answers, of the whole program and of the minimal one, as interpreted. The
            paper's bars are of compiled networks; those of parity answer the same (tests/test_minimal.py).
    """

    rules: int | None
    kept: int
    removable: list[str] | None
    layers: int
    combinations: int
    whole: dict[str, float]
    small: dict[str, float]


def generalisation(
    program: AltaProgram, task: Task, watch: Callable[[str], None] = lambda said: None
) -> Generalisation:
    """Make a program minimal for the training set of a task, and test both; `watch` is told what is done."""
    slices = {TRAINED: task.train[:: max(1, len(task.train) // MOST_TESTED)], **task.tests}
    longest = max((program.encode(text) for texts in slices.values() for text in texts), key=len)
    batched(program, [longest])  # says what is wrong with it before anything is run
    watch(f"the program is run on {len(task.train)} inputs ...")
    shown = assignments(program, task.train)
    small = minimal(program, task.train, shown)
    most = 2 * len(longest) + 20 if program.halt else None  # more than any of these tasks takes; a part may never halt
    few = len(small.rules) <= MOST_COMPARED
    watch(f"{len(small.rules)} rules are left; both programs are tested on {sum(map(len, slices.values()))} inputs ...")
    return Generalisation(
        rules=None if program.name == "scan" else rule_count(program),
        kept=rule_count(small, shown),
        removable=[str(one) for one in removable(small.rules, shown, program.readable)] if few else None,
        layers=int(program.interpret([program.encode(text) for text in _longest(task)]).layers.max()),
        combinations=math.prod(len(variable.domain) for variable in program.readable.values()),
        whole={name: float(right(program, task, texts).mean()) for name, texts in slices.items()},
        small={name: float(right(small, task, texts, most).mean()) for name, texts in slices.items()},
    )


def read_minimal(file: Path) -> dict[str, Any]:
    """Program -> its `Generalisation`, as a mapping; nothing where there is no file, an error where it is damaged."""
    if not file.exists():
        return {}
    try:
        found = read_json(file)
        check(found, "no programs")
        for name, known in found.items():
            _check_entry(name, known)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        said = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{file} holds no whole result ({said}). Delete it, and make it again: {MAKES}.") from error
    return dict(found)


def _check_entry(name: str, known: Mapping[str, Any]) -> None:
    for what in ("kept", "layers", "combinations"):
        check(isinstance(known[what], int), f"{what} of {name} is {known[what]!r}")
    check(known["rules"] is None or isinstance(known["rules"], int), f"rules of {name} are {known['rules']!r}")
    check(known["small"] and known["small"].keys() == known["whole"].keys(), f"{name} was tested on nothing")
    check(all(map(is_share, (*known["small"].values(), *known["whole"].values()))), f"{name} has no shares")
    check(isinstance(known.get("tests", 1), int), f"tests of {name} are {known.get('tests')!r}")


def _longest(task: Task) -> list[str]:
    """Texts to learn from that are long, or have long answers."""
    return sorted(task.train, key=lambda text: len(text) + len(task.answer(text)))[-LONGEST:]
