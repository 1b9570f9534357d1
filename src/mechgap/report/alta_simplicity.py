"""How simple the programs are that a training could have learned, beside what the paper prints (ALTA 4.1 and D)."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from mechgap.compiler import compile as compile_program
from mechgap.programs import program
from mechgap.report.paper.verdicts import Details

MEASURES = ("rules", "minimal rules", "MLP units", "layers", "combinations")


def simplicity_table(rows: Iterable[Mapping[str, Any]], found: Mapping[str, Any]) -> Details:
    """How simple programs are: ours, and below it what the paper prints.

    Args:
        rows: the program, what the paper calls it, and what it prints of it, by the names of `MEASURES`.
        found: program -> its `Generalisation`, as a mapping.
    """
    table = []
    for row in (row for row in rows if row["program"] in found):
        table.append((row["label"], "ours", *_ours(row["program"], found[row["program"]])))
        if "paper" in row:
            table.append((row["label"], "paper", *(row["paper"].get(name, "") for name in MEASURES)))
    return Details("How simple the programs are", ("program", "", *MEASURES), tuple(table))


def _ours(name: str, known: Mapping[str, Any]) -> tuple[str, ...]:
    """In the order of `MEASURES`."""
    rules = "" if known["rules"] is None else str(known["rules"])
    return rules, str(known["kept"]), str(compiled_units(name)), str(known["layers"]), _scale(known["combinations"])


@cache
def compiled_units(name: str) -> int:
    """Units of the layer that performs the rules, of the whole program as we compile it."""
    return compile_program(program(name), certify="none").hidden_units


def _scale(number: int) -> str:
    """A number that can be read: powers of ten where it is large."""
    return str(number) if number < 10**6 else f"10^{len(str(number)) - 1}"
