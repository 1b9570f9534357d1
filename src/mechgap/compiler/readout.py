"""Hints and outputs -> decoders: what a node shows, as forms over its inputs and its new hidden state."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mechgap.compiler.affine import Affine
from mechgap.compiler.attention import position
from mechgap.compiler.constants import Numbers
from mechgap.compiler.errors import NotExpressible
from mechgap.compiler.layout import LatestWrite, Register, Storage, channel, is_truth
from mechgap.programs.expressions import (
    Classes,
    Constant,
    Expression,
    Kept,
    Less,
    Not,
    Read,
    conjuncts,
    disjuncts,
    walk,
)
from mechgap.programs.graph import GraphProgram, Node, Real
from mechgap.trace import Kind, Location, Variable


@runtime_checkable
class Shows(Protocol):
    """What knows a program's state after a step: a `Reader`, or a circuit."""

    program: GraphProgram

    @property
    def storages(self) -> dict[str, Storage]:
        """How the variables are kept."""

    def value(self, name: str) -> Affine:
        """A variable."""

    def lower(self, expression: Expression) -> Affine:
        """Any linear expression."""


SHARP = 64.0  # logits of ±32: a sigmoid that is 0 or 1 to float32
SHARPER = 128.0  # of what is fed back: one that is so to float64, since logits of attention are some 1e16 steep there


@dataclass(frozen=True)
class Linear:
    """logit_i = form."""

    form: Affine


@dataclass(frozen=True)
class Classified:
    """logit_ic = forms[c]."""

    forms: tuple[Affine, ...]


@dataclass(frozen=True)
class Pooled:
    """logit = the largest of any node's, channel by channel, and what is read at `graph`."""

    form: Affine


@dataclass(frozen=True)
class OnEdges:
    """logit_ij = what is read at `me`, node i, at `other`, node j, and at their `edge`."""

    form: Affine


@dataclass(frozen=True)
class Pointer:
    """logit_ij = Σ weight * max(mine_i, theirs_j)."""

    terms: tuple[tuple[Affine, Affine, float], ...]


Readout = Linear | Classified | Pooled | OnEdges | Pointer


def lower_readout(variable: Variable, value: Expression, reader: "Shows", numbers: Numbers) -> Readout:
    """How one hint or output is decoded; what a kept hint starts as is given in the first frame, and not decoded."""
    remembered = reader.program.memory.get(value) if isinstance(value, Read) else None
    if remembered is not None:  # an output that shows what a hint keeps; both are decoded at the same time
        return lower_readout(variable, remembered, reader, numbers)
    value = value.then if isinstance(value, Kept) else value
    match variable.location, variable.kind:
        case Location.GRAPH, Kind.SCALAR:
            return Pooled(_largest(variable, value, reader))
        case Location.GRAPH, Kind.MASK:
            return Pooled(SHARPER * (_some(variable, value, reader) - 0.5))
        case Location.EDGE, Kind.MASK:
            return OnEdges(SHARPER * (_raised(variable, value, reader) - 0.5))
    if variable.location != Location.NODE:
        raise NotExpressible(
            f"'{variable}': only values on nodes, truth values and numbers of the graph, and truth values of edges can "
            f"be shown."
        )
    match variable.kind:
        case Kind.CATEGORICAL if isinstance(value, Classes):
            return Classified(tuple(SHARP * (_truth(part, reader) - 0.5) for part in value.parts))
        case Kind.POINTER | Kind.PERMUTATION_POINTER:
            return _pointer(variable, value, reader, numbers)
        case Kind.SCALAR:
            _check_number(variable, value, reader)
            return Linear(reader.lower(value))
        case Kind.MASK | Kind.MASK_ONE:
            return Linear(SHARP * (_truth(value, reader) - 0.5))
    raise NotExpressible(f"'{variable}': there is no decoder for {variable.kind} values shown as '{value}'.")


def _truth(value: Expression, reader: "Shows") -> Affine:
    """A form above 1/2 where the value is true: the value itself, or a comparison, in units of its resolution."""
    if not isinstance(value, Less):
        return reader.lower(value)
    read = {part.name for part in walk(value) if isinstance(part, Read)}
    resolutions = [v.resolution for v in reader.program.state if isinstance(v, Real) and v.name in read]
    step = min((r for r in resolutions if r is not None), default=None)
    if step is None or (not isinstance(value.left, Constant) and not isinstance(value.right, Constant)):
        raise NotExpressible(
            f"'{value}' can be shown only as a comparison with a constant, of a Real with a resolution."
        )
    return (1 / step) * (reader.lower(value.right) - reader.lower(value.left))


def _largest(variable: Variable, value: Expression, reader: "Shows") -> Affine:
    """A number of the graph: the maximum is taken channel by channel, so that nodes may add one value, and no more."""
    form = reader.lower(value)
    mine = {part for part in walk(value) if isinstance(part, Read) and part.place == "me"}
    falls = any(feature.place == "me" and factor < 0 for feature, factor in form.terms.items())
    _check_number(variable, value, reader)
    if len(mine) > 1 or falls or not all(_at_one_place(read, reader) for read in mine):
        raise NotExpressible(
            f"'{variable}' = '{value}': the graph shows the largest of what its nodes hold, channel by channel, so "
            f"that a number of it is one variable times a number above 0, and what it was before; keep the rest in a "
            f"variable."
        )
    return form


def _check_number(variable: Variable, value: Expression, reader: "Shows") -> None:
    """A node is kept as a position, which is not the number that the program shows."""
    nodes = {"id", *(v.name for v in reader.program.state if isinstance(v, Node))}
    if any(isinstance(part, Read) and part.name in nodes and part.place == "me" for part in walk(value)):
        raise NotExpressible(f"'{variable}' = '{value}' shows a node as a number; a node is shown by a pointer.")


def _at_one_place(read: Read, reader: "Shows") -> bool:
    """Whether a value lies in one channel at the end of a frame, of which a maximum over nodes is the value's."""
    return read.name not in reader.storages or isinstance(reader.storages[read.name], Register)


def _some(variable: Variable, value: Expression, reader: "Shows") -> Affine:
    """A form above 1/2 where some part of a disjunction holds at some node; a maximum over nodes adds up to that."""
    parts = disjuncts(value)
    known = [isinstance(part, Read) and is_truth(reader.program, part) for part in parts]
    if not all(known) or not all(_at_one_place(part, reader) for part in parts if isinstance(part, Read)):
        raise NotExpressible(
            f"'{variable}' = '{value}': the graph shows the largest of what its nodes hold, so that a truth value of "
            f"it is a Bool variable, or several joined by |; keep anything else in one."
        )
    return sum((reader.lower(part) for part in parts), Affine())


def _raised(variable: Variable, value: Expression, reader: "Shows") -> Affine:
    """A form above 1/2 where an edge has the value already, or where all of what is asked of its two ends holds."""
    edges = [part for part in disjuncts(value) if isinstance(part, Read) and part.place == Location.EDGE]
    raising = [part for part in disjuncts(value) if part not in edges]
    literals = [x for part in raising for x in conjuncts(part)]
    asked = [*edges, *(x.inner if isinstance(x, Not) else x for x in literals)]
    plain = all(isinstance(x, Read) and is_truth(reader.program, x) for x in asked)
    if len(raising) > 1 or (raising and not literals) or not plain:
        raise NotExpressible(
            f"'{variable}' = '{value}': an edge adds up what its two ends show, which says that all of some truth "
            f"values hold, or that it was so before: edge.{variable.name} | (me.a & other.b), with Bool variables a "
            f"and b, and no more."
        )
    count = max(1, len(literals))
    known = [reader.lower(edge) for edge in edges]
    held = sum((reader.lower(literal) for literal in literals), Affine(constant=1.0 - count if literals else 0.0))
    return sum((count * edge for edge in known), held)


def _pointer(variable: Variable, value: Expression, reader: "Shows", numbers: Numbers) -> Pointer:
    state = {v.name: v for v in reader.program.state}
    if not isinstance(value, Read) or not isinstance(state.get(value.name), Node):
        raise NotExpressible(f"'{variable}' = '{value}': a pointer must show a Node variable.")
    sharp = 2 * numbers.margin / numbers.min_gap
    storage = reader.storages[value.name]
    if not isinstance(storage, LatestWrite):
        return Pointer(_nearness(reader.value(value.name), Affine(), sharp))
    now_plus, now_minus, *older = (channel(c) for c in storage.channels)
    init = reader.lower(storage.variable.init)
    kept = init + older[0] - older[1] + older[2] - older[3]
    gate = (2.0 / numbers.min_gap) * (now_plus + now_minus)  # closes `kept` where this step wrote
    by_kept = _nearness(kept, gate, 4 * sharp / numbers.min_gap)
    return Pointer(by_kept + _nearness(init + now_plus - now_minus, Affine(), sharp))


def _nearness(mine: Affine, gate: Affine, slope: float) -> tuple[tuple[Affine, Affine, float], ...]:
    """-slope |mine_i - pos_j|, as max(a, b) + max(-a, -b); with the gate up, both sides are pos_j's and cancel."""
    theirs = position("me")
    return (mine - gate, theirs, -slope), (-mine - gate, -theirs, -slope)
