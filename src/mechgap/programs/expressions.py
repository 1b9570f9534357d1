"""Expressions of graph programs: frozen trees built by ordinary operators.

`me` is the node that updates, `other` a neighbour it may select, `edge` the edge from me to other and `back_edge` the
one from other to me; `graph` has what belongs to no node. Of edges and the graph there are the inputs, and the hints
that are fed back. Reading `me.dist` or `edge.A` makes a tree; so do + - * < & | ~, `when`, `minimum` and `maximum`.
Equality of trees is structural, so a program can be compared and hashed; write `a.equals(b)` for the test inside one.
"""

from dataclasses import dataclass, fields
from typing import Any, Union

Operand = Union["Expression", float, int, bool]


@dataclass(frozen=True)
class Expression:
    """A value that a program computes."""

    def __add__(self, other: Operand) -> "Expression":
        return Sum(self, lift(other))

    def __radd__(self, other: Operand) -> "Expression":
        return Sum(lift(other), self)

    def __sub__(self, other: Operand) -> "Expression":
        return Sum(self, Scaled(-1.0, lift(other)))

    def __rsub__(self, other: Operand) -> "Expression":
        return Sum(lift(other), Scaled(-1.0, self))

    def __neg__(self) -> "Expression":
        return Scaled(-1.0, self)

    def __mul__(self, other: Operand) -> "Expression":
        other = lift(other)
        return Scaled(other.value, self) if isinstance(other, Constant) else Product(self, other)

    def __rmul__(self, other: Operand) -> "Expression":
        return self * other

    def __lt__(self, other: Operand) -> "Expression":
        return Less(self, lift(other))

    def __gt__(self, other: Operand) -> "Expression":
        return Less(lift(other), self)

    def __and__(self, other: Operand) -> "Expression":
        return And(self, lift(other))

    def __or__(self, other: Operand) -> "Expression":
        return Or(self, lift(other))

    def __invert__(self) -> "Expression":
        return self.inner if isinstance(self, Not) else Not(self)

    def __bool__(self) -> bool:
        raise TypeError(
            f"'{self}' has no truth value while a program is written; use when(...), & | ~ instead of if, and, or."
        )

    def equals(self, other: Operand) -> "Expression":
        """The test whether two values are the same."""
        return Equal(self, lift(other))


@dataclass(frozen=True)
class Constant(Expression):
    """A number; a truth value is 0 or 1."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True)
class Read(Expression):
    """The value of a variable at a place: `me`, `other`, `edge`, `back_edge`, `graph`, a select's sender, its edge."""

    place: str
    name: str

    def __str__(self) -> str:
        return f"{self.place}.{self.name}"


@dataclass(frozen=True)
class IsMe(Expression):
    """Whether a select found nobody, and so chose its default, me."""

    select: str

    def __str__(self) -> str:
        return f"{self.select} is me"


@dataclass(frozen=True)
class Sum(Expression):
    """left + right."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        if isinstance(self.right, Scaled) and self.right.factor == -1:
            return f"{self.left} - {_nested(self.right.inner)}"
        return f"{self.left} + {self.right}"


@dataclass(frozen=True)
class Scaled(Expression):
    """A constant times a value."""

    factor: float
    inner: Expression

    def __str__(self) -> str:
        return f"-{_nested(self.inner)}" if self.factor == -1 else f"{self.factor:g} * {_nested(self.inner)}"


@dataclass(frozen=True)
class Product(Expression):
    """A product of two values: it can be interpreted; no ReLU network computes it exactly."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{_nested(self.left)} * {_nested(self.right)}"


@dataclass(frozen=True)
class Less(Expression):
    """left < right."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{self.left} < {self.right}"


@dataclass(frozen=True)
class Equal(Expression):
    """left is the same as right."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{self.left} == {self.right}"


@dataclass(frozen=True)
class Not(Expression):
    """Negation."""

    inner: Expression

    def __str__(self) -> str:
        return f"not {_nested(self.inner)}"


@dataclass(frozen=True)
class And(Expression):
    """Both."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{_nested(self.left)} and {_nested(self.right)}"


@dataclass(frozen=True)
class Or(Expression):
    """At least one."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{_nested(self.left)} or {_nested(self.right)}"


@dataclass(frozen=True)
class Extreme(Expression):
    """The smaller (sign 1) or the larger (sign -1) of two values."""

    sign: int
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{'min' if self.sign > 0 else 'max'}({self.left}, {self.right})"


@dataclass(frozen=True)
class When(Expression):
    """One value if a condition holds, else another."""

    condition: Expression
    then: Expression
    otherwise: Expression

    def __str__(self) -> str:
        return f"{_nested(self.then)} if {self.condition} else {_nested(self.otherwise)}"


@dataclass(frozen=True)
class Classes(Expression):
    """What a categorical hint shows: a truth value per class, of which exactly one holds."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"classes({', '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Kept(Expression):
    """What a hint on edges or on the graph shows that is its own memory: the network is fed what it showed before."""

    start: Expression
    then: Expression

    def __str__(self) -> str:
        return f"{self.start} at first, then {self.then}"


def kept(start: Operand, then: Operand) -> Expression:
    """A hint that starts so, and then becomes something of what it was: `edge.NAME` or `graph.NAME`."""
    return Kept(lift(start), lift(then))


def classes(*truths: Operand) -> Expression:
    """One class per truth value, in order."""
    return Classes(tuple(lift(truth) for truth in truths))


def lift(value: Operand) -> Expression:
    """An expression, where a number may stand for one."""
    return value if isinstance(value, Expression) else Constant(float(value))


def when(condition: Expression, then: Operand, otherwise: Operand) -> Expression:
    """`then` where the condition holds, else `otherwise`."""
    return When(condition, lift(then), lift(otherwise))


def minimum(left: Operand, right: Operand) -> Expression:
    """The smaller of two values."""
    return Extreme(1, lift(left), lift(right))


def maximum(left: Operand, right: Operand) -> Expression:
    """The larger of two values."""
    return Extreme(-1, lift(left), lift(right))


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct parts of an expression."""
    parts = (getattr(expression, field.name) for field in fields(expression))
    flat = (inner for part in parts for inner in (part if isinstance(part, tuple) else (part,)))
    return tuple(part for part in flat if isinstance(part, Expression))


def walk(expression: Expression) -> tuple[Expression, ...]:
    """An expression and everything inside it."""
    return (expression, *(inner for child in children(expression) for inner in walk(child)))


def places(expression: Expression) -> set[str]:
    """Where an expression reads; whether a select found nobody is read at the node that asks."""
    parts = walk(expression)
    return {p.place for p in parts if isinstance(p, Read)} | {p.select for p in parts if isinstance(p, IsMe)}


def replaced(expression: Expression, old: str, new: str) -> Expression:
    """The same tree with every read at place `old` moved to place `new` (and the edge of a select with its sender)."""
    if isinstance(expression, Read):
        return Read(new, expression.name) if expression.place == old else expression
    changes: dict[str, Any] = {}
    for field in fields(expression):
        value = getattr(expression, field.name)
        changes[field.name] = replaced(value, old, new) if isinstance(value, Expression) else value
    return type(expression)(**changes)


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts of a conjunction; the constant true has none."""
    if isinstance(expression, And):
        return conjuncts(expression.left) + conjuncts(expression.right)
    return () if expression == Constant(1.0) else (expression,)


def disjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts of a disjunction."""
    if isinstance(expression, Or):
        return disjuncts(expression.left) + disjuncts(expression.right)
    return (expression,)


class Place:
    """A namespace whose attributes are reads: me.dist, other.msk, edge.A."""

    def __init__(self, place: str):
        self._place = place

    def __getattr__(self, name: str) -> Read:
        if name.startswith("__"):
            raise AttributeError(name)
        return Read(self._place, name)


me, other, edge, back_edge, graph = Place("me"), Place("other"), Place("edge"), Place("back_edge"), Place("graph")


def _nested(expression: Expression) -> str:
    return str(expression) if isinstance(expression, Constant | Read | Not | Extreme) else f"({expression})"
