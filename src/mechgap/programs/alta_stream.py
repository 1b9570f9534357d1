"""Where the variables of an ALTA program lie in the residual stream, and what their values look like there."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mechgap.programs.alta import AltaProgram, Categorical, Numeric, SetOf, Variable


@dataclass(frozen=True)
class StreamLayout:
    """Where every variable lies in the residual stream.

    A categorical variable has one number per value, a set one per element, a number one for itself; the output of a
    head over numbers has a second, which is 1 where it is defined. `one` is always 1.
    """

    width: int
    one: int
    places: dict[str, slice]
    defined: dict[str, int]

    @classmethod
    def of(cls, program: AltaProgram) -> "StreamLayout":
        """The layout of a program: `one`, then the variables, then the outputs of heads."""
        at, places, defined = 1, {}, {}
        for name, variable in program.readable.items():
            size = 1 if isinstance(variable, Numeric) else variable.size
            places[name] = slice(at, at + size)
            at += size
            if isinstance(variable, Numeric) and name in program.nullable:
                defined[name], at = at, at + 1
        return cls(at, 0, places, defined)


def encoded(variable: Variable, value: Any) -> np.ndarray:
    """A value in the stream: one-hot, multi-hot, or the number itself."""
    match variable:
        case Categorical():
            return np.eye(variable.size, dtype=np.float32)[int(value)]
        case Numeric():
            return np.array([value], np.float32)
        case SetOf():
            return np.array([i in value for i in range(variable.size)], np.float32)


def width_of(variable: Variable) -> int:
    """How many numbers a variable has in the stream."""
    return 1 if isinstance(variable, Numeric) else variable.size
