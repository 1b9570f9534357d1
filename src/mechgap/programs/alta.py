"""The language of ALTA programs: variables at every position, attention heads between them, rules at each of them.

    program = alta_program(
        "parity",
        variables=(
            categorical("parity", 2, from_input=lambda x: x),
            categorical("done", 2, from_position=lambda i: i == 0),
            categorical("idx", 50, from_position=lambda i: i),
            categorical("idx_left", 50, from_position=lambda i: max(0, i - 1)),
        ),
        heads=(qkv("parity_left", "idx_left", "idx", "parity"), qkv("done_left", "idx_left", "idx", "done")),
        mlp=step,                 # a Python function of the variables, or rules
        output="parity", halt=("done", 1), input_size=2, positions=50,
    )

In every layer all heads read the variables, then the rules read variables and heads and write variables, all at once;
then the heads' outputs are undefined again. `AltaProgram.interpret` is the meaning (the table is in docs/alta.md), and
everything else must agree with it. A program is a frozen value: functions are turned into tables and rules when it is
made, and everything that can be known to be wrong then is refused then, all problems at once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mechgap.programs.alta_interpreter import AltaTrace

LARGEST, SMALLEST = 1e30, 1e-30  # of numbers in the stream: squares and quotients stay within float32
Value = Any  # an int, a float or a frozenset of ints
MOST_LAYERS = 1000
BETWEEN = 2.0**-17  # a number nearer than this, times its size, to the middle of two buckets is in neither of them


@dataclass(frozen=True)
class Init:
    """What a variable holds before the first layer: a constant, or a value per input or per position."""

    constant: Value = None
    by_input: tuple[Value, ...] | None = None
    by_position: tuple[Value, ...] | None = None

    def __str__(self) -> str:
        if self.by_input is not None:
            return f"by input {_shown(self.by_input)}"
        return f"by position {_shown(self.by_position)}" if self.by_position is not None else f"{self.constant}"


@dataclass(frozen=True)
class Categorical:
    """A variable with the values 0 .. size - 1, encoded one-hot."""

    name: str
    size: int
    init: Init

    @property
    def domain(self) -> tuple[int, ...]:
        """What rules can tell apart."""
        return tuple(range(self.size))

    def holds(self, value: Value) -> bool:
        """Whether a value is one of the variable's."""
        whole = isinstance(value, int | bool) or (hasattr(value, "dtype") and value.dtype.kind in "iub")
        return whole and 0 <= value < self.size

    def __str__(self) -> str:
        return f"{self.name}: {self.size} values = {self.init}"


@dataclass(frozen=True)
class Numeric:
    """A real variable, one number in the residual stream; rules see which of its buckets is nearest.

    Attributes:
        buckets: rising. A value halfway between two, up to rounding, is in neither (see `BETWEEN`).
    """

    name: str
    buckets: tuple[float, ...]
    init: Init

    @property
    def domain(self) -> tuple[int, ...]:
        """What rules can tell apart: the index of a bucket."""
        return tuple(range(len(self.buckets)))

    @property
    def middles(self) -> tuple[float, ...]:
        """The middles between two buckets."""
        return tuple((a + b) / 2 for a, b in pairwise(self.buckets))

    @property
    def tolerances(self) -> tuple[float, ...]:
        """How near to each middle is too near.

        An average of numbers that are not negative is as exact as it is large; where signs mix, as the largest is.
        """
        if min(self.buckets) >= 0:
            return tuple(BETWEEN * high for high in self.buckets[1:])
        return (BETWEEN * max(abs(b) for b in self.buckets),) * (len(self.buckets) - 1)

    def holds(self, value: Value) -> bool:
        """Whether a value is a number that float32 has, and that is not halfway between two buckets."""
        if not isinstance(value, Real) or not is_float32(float(value)):
            return False
        pairs = zip(self.middles, self.tolerances, strict=True)
        return value in self.buckets or all(abs(float(value) - m) > 2 * tolerance for m, tolerance in pairs)

    def __str__(self) -> str:
        return f"{self.name}: number near {_shown(self.buckets)} = {self.init}"


@dataclass(frozen=True)
class SetOf:
    """A variable whose value is a set of numbers 0 .. size - 1, encoded multi-hot; rules see which of `sets` it is."""

    name: str
    size: int
    sets: tuple[frozenset[int], ...]
    init: Init

    @property
    def domain(self) -> tuple[int, ...]:
        """What rules can tell apart: the index of a set."""
        return tuple(range(len(self.sets)))

    def holds(self, value: Value) -> bool:
        """Whether a value is one of the sets."""
        return isinstance(value, frozenset) and value in self.sets

    def __str__(self) -> str:
        return f"{self.name}: one of {len(self.sets)} sets of numbers below {self.size} = {self.init}"


Variable = Categorical | Numeric | SetOf


@dataclass(frozen=True)
class Head:
    """An attention head: a position looks at all positions whose key equals its query (or is in it, for a set).

    Attributes:
        name: of its output, a variable that is defined between attention and rules of one layer only.
        query, key, value: names of variables; None for the first two looks everywhere.
        relative: only at these distances, position looked at minus position that looks; empty for all.
        buckets: what rules see of a numeric output; by default those of the value.
    """

    name: str
    query: str | None
    key: str | None
    value: str
    relative: frozenset[int] = frozenset()
    buckets: tuple[float, ...] | None = None

    def __str__(self) -> str:
        where = f" at {sorted(self.relative)}" if self.relative else ""
        match = "everywhere" if self.query is None else f"where {self.key} matches {self.query}"
        return f"{self.name} = {self.value} {match}{where}"


@dataclass(frozen=True)
class Rule:
    """Where every test holds, the target becomes the value.

    Attributes:
        tests: (variable, the members of its domain for which the test holds), by name, each variable once.
        target: a variable, no head's output.
        value: of the target: a class, a number, or a set.
    """

    tests: tuple[tuple[str, frozenset[int]], ...]
    target: str
    value: Value

    def __str__(self) -> str:
        shown = " and ".join(f"{name} = {_members(values)}" for name, values in self.tests)
        value = sorted(self.value) if isinstance(self.value, frozenset) else self.value
        return f"{self.target} := {value}" + (f" if {shown}" if shown else "")


@dataclass(frozen=True)
class Text:
    """How a program reads and writes text: `encode` -> input ids, `decode` of the output variable at all positions."""

    encode: Callable[[str], list[int]]
    decode: Callable[[list[Any]], str]


@dataclass(frozen=True)
class AltaProgram:
    """A program for a Transformer whose layers share their weights. Make one with `alta_program`.

    Attributes:
        input_size: inputs are 0 .. input_size - 1.
        positions: how many there can be; None where no variable depends on the position.
        rules: what the MLP does, minimised; for one target no two of them can fire together.
        output: the variable that is read at the end.
        halt: (variable, value): an execution has ended when it holds at every position; None runs `layers` layers.
        layers: how many, without a halt; with one, the most.
        causal: heads look at the own and earlier positions only (a decoder).
    """

    name: str
    input_size: int
    positions: int | None
    variables: tuple[Variable, ...]
    heads: tuple[Head, ...]
    rules: tuple[Rule, ...]
    output: str
    halt: tuple[str, int] | None
    layers: int
    causal: bool = False
    text: Text | None = field(default=None, compare=False)
    description: str = field(default="", compare=False)

    def variable(self, name: str) -> Variable:
        """The variable, or the output of the head, of that name."""
        found = self.readable.get(name)
        if found is None:
            raise KeyError(f"No variable {name!r}; there are {', '.join(self.readable)}.")
        return found

    @property
    def readable(self) -> dict[str, Variable]:
        """Everything that rules can read: variables, then heads' outputs, as variables of their kind."""
        own = {v.name: v for v in self.variables}
        return own | {h.name: output_of(h, own[h.value]) for h in self.heads}

    @property
    def nullable(self) -> frozenset[str]:
        """What may be undefined: the outputs of heads."""
        return frozenset(h.name for h in self.heads)

    def interpret(self, inputs: Any, *, layers: int | None = None) -> "AltaTrace":
        """Execute the program as it is written, in NumPy.

        Args:
            inputs: one sequence of input ids, or a list of sequences.
            layers: at most so many, instead of the program's.
        """
        from mechgap.programs.alta_interpreter import interpret

        return interpret(self, inputs, layers)

    def encode(self, text: str) -> list[int]:
        """The input ids of a text."""
        return self._text().encode(text)

    def decode(self, outputs: list[Any]) -> str:
        """The text of the output variable's values."""
        return self._text().decode(outputs)

    def solve(self, text: str) -> str:
        """Text in, text out, by the interpreter."""
        found = self.interpret([self.encode(text)])
        found.check()
        return self.decode(found.outputs[0])

    def _text(self) -> Text:
        if self.text is None:
            raise ValueError(f"Program {self.name!r} has no text form; give it input ids, program.interpret([...]).")
        return self.text

    def __str__(self) -> str:
        lines = [f"program {self.name}: {self.description}".rstrip(": ")]
        lines += [f"  {v}" for v in self.variables] + [f"  head {h}" for h in self.heads]
        lines += [f"  {r}" for r in self.rules[:40]]
        lines += [f"  ... {len(self.rules) - 40} more rules"] if len(self.rules) > 40 else []
        ends = f"when {self.halt[0]} = {self.halt[1]} everywhere" if self.halt else f"after {self.layers} layers"
        return "\n".join([*lines, f"  output {self.output}, {ends}"])


def is_float32(x: float) -> bool:
    """Whether a number is finite, and neither too large nor too small for float32."""
    return math.isfinite(x) and abs(x) <= LARGEST and (x == 0 or abs(x) >= SMALLEST)


def output_of(head: Head, value: Variable) -> Variable:
    """A head's output as a variable."""
    nothing = Init()
    if isinstance(value, Categorical):
        return Categorical(head.name, value.size, nothing)
    buckets = head.buckets or (value.buckets if isinstance(value, Numeric) else ())
    return Numeric(head.name, buckets, nothing)


def _shown(values: Any) -> str:
    listed = [sorted(v) if isinstance(v, frozenset) else v for v in values]
    return str(listed) if len(listed) <= 12 else f"[{', '.join(map(str, listed[:10]))}, ...]"


def _members(values: frozenset[int]) -> str:
    return str(next(iter(values))) if len(values) == 1 else "{" + ", ".join(map(str, sorted(values))) + "}"
