"""State -> channels: how every variable is kept in a hidden state that starts at 0 and is never negative.

| storage     | for                                             | channels            | value                          |
|-------------|-------------------------------------------------|---------------------|--------------------------------|
| Flag        | v' = v or sender.v, of a sender with v          | v                   | init + v                       |
| Copy        | v' linear in the sender, its edge and me        | v+, v-              | init + v+ - v-                 |
| Relaxation  | v' = the sender's offer, which must improve v   | v.sum, v.gain...    | init ± (sum ± gains)           |
| WriteOnce   | v' = the sender, once, when a flag is raised    | v.open, new, kept   | new + kept, from frame 1 on    |
| LatestWrite | v' = the sender whenever there is one           | v.now±, last±, old± | now if any, else last or old   |

The last two are resolved lazily: "keep or overwrite" is not one ReLU of fresh values, so it is decided a step later,
or in the decoder. They can be shown, but not read by a select or another update.
"""

from dataclasses import dataclass

from mechgap.compiler.affine import Affine, Feature, lower, no_product
from mechgap.compiler.errors import NotExpressible
from mechgap.programs.expressions import (
    Constant,
    Expression,
    Extreme,
    IsMe,
    Kept,
    Not,
    Or,
    Product,
    Read,
    Scaled,
    Sum,
    When,
    children,
    conjuncts,
    replaced,
    walk,
)
from mechgap.programs.graph import FED, Bool, Enum, GraphProgram, Node, Real, Select, SelectKind, StateVariable
from mechgap.trace import Kind, Stage

SENDER, SENDER_EDGE = "sender", "sender_edge"  # the places of what a node hears


@dataclass(frozen=True)
class Storage:
    """How one variable is kept."""

    variable: StateVariable
    channels: tuple[str, ...]

    @property
    def readable(self) -> bool:
        """Whether the value is linear in the channels, in every frame."""
        return True


@dataclass(frozen=True)
class Register(Storage):
    """A variable of a circuit, kept from frame to frame: new + old, of which old is 0 at the end of a frame."""


@dataclass(frozen=True)
class Flag(Storage):
    """A truth value that is only ever raised, by a sender that has it raised."""


@dataclass(frozen=True)
class Copy(Storage):
    """A value linear in what the node hears."""


@dataclass(frozen=True)
class Relaxation(Storage):
    """A value that moves in one direction (sign), to the offer of the sender that its select found better.

    With one offer there is one gain, relu(p). With the offer min(a, b) it is relu(min(p, q)), which equals
    relu(p) - relu(p - q) + relu(-q) for p >= 0, as the chosen sender guarantees; p is 0 for the node itself.
    """

    sign: int
    offers: tuple[Expression, ...]
    gains: tuple[int, ...]  # the sign of each gain channel


@dataclass(frozen=True)
class WriteOnce(Storage):
    """A value written when `flag` is raised, and the node's own `init` before."""

    flag: str
    written: Expression

    @property
    def readable(self) -> bool:
        return False


@dataclass(frozen=True)
class LatestWrite(Storage):
    """The value that was written last, kept relative to `init`, which is what the node would write to itself."""

    written: Expression

    @property
    def readable(self) -> bool:
        return False


def lay_out(program: GraphProgram) -> dict[str, Storage]:
    """Choose the storage of every variable."""
    if len(program.selects) != 1:
        raise NotExpressible(
            f"Program {program.name!r} has {len(program.selects)} selects; one step of one head makes exactly one "
            f"choice. Split the program, or use several heads."
        )
    select = program.selects[0]
    if select.kind not in (SelectKind.ARGMIN, SelectKind.ARGMAX):
        raise NotExpressible(f"Select '{select}': one head of one step can only take an argmin or an argmax.")
    _check_arithmetic(program, select)
    storages = {v.name: _storage(program, select, v, dict(program.updates)[v.name]) for v in program.state}
    for name, update in program.updates:
        _check_reads(f"update '{name}' = {update}", update, storages, own=name)
    for part in select.parts:
        _check_reads(f"select '{select}'", part, storages, own=None)
    return storages


def _storage(program: GraphProgram, select: Select, variable: StateVariable, update: Expression) -> Storage:
    if isinstance(variable, Enum):
        raise NotExpressible(
            f"'{variable}': an Enum needs a channel per class; a one-step program keeps Bools instead."
        )
    mine, theirs = Read("me", variable.name), Read(select.name, variable.name)
    name = variable.name
    match update:
        case Or(left, right) if {left, right} == {mine, theirs} and isinstance(variable, Bool):
            if Read("other", name) in conjuncts(select.where):
                return Flag(variable, (name,))
            raise NotExpressible(
                f"'{name}' = '{update}': the sender may not have {name} raised, so this is an OR of two fresh values. "
                f"Add other.{name} to the where of {select.name!r}, or use a micro-step."
            )
        case When(IsMe(_), kept, written) if kept == mine and written != theirs:
            return _overwritten(program, select, variable, update, written)
        case When(IsMe(_), kept, written) if kept == mine and written == theirs:
            return Copy(variable, (f"{name}+", f"{name}-"))
    if isinstance(variable, Bool) and not isinstance(
        update.inner if isinstance(update, Not) else update, Read | Constant
    ):
        raise NotExpressible(
            f"'{name}' = '{update}': a Bool can be copied, negated, or raised by me.{name} | sender.{name}."
        )
    if any(isinstance(part, IsMe | Extreme | Or) for part in walk(update)):
        raise NotExpressible(f"'{name}' = '{update}' is too deep for one step: a ReLU of a ReLU of fresh values.")
    return Copy(variable, (f"{name}+", f"{name}-"))


def _overwritten(
    program: GraphProgram, select: Select, variable: StateVariable, update: Expression, written: Expression
) -> Storage:
    name = variable.name
    offered = replaced(replaced(select.key, "other", select.name), "edge", f"{select.name}.edge")
    if _may_choose_itself(program, select):
        raise NotExpressible(
            f"'{name}' = '{update}': in select '{select}' a node may choose itself as a candidate, which cannot be "
            f"told from choosing nobody. Exclude it, e.g. by below=me.value, or by where=other.flag & ~me.flag."
        )
    if select.bound == Read("me", name) and written == offered:
        return _relaxation(select, variable, written)
    if not isinstance(variable, Node) or replaced(written, select.name, "me") != variable.init:
        raise NotExpressible(
            f"'{name}' = '{update}' is too deep for one step: keeping or overwriting is one ReLU only where the "
            f"select's bound is me.{name} and its key is what is written, or where a node is written that would be "
            f"'{variable.init}' for the node itself."
        )
    flag = _raising_flag(program, select)
    if flag is not None:
        return WriteOnce(variable, (f"{name}.open", f"{name}.new", f"{name}.kept"), flag, written)
    channels = tuple(f"{name}.{age}{sign}" for age in ("now", "last", "old") for sign in "+-")
    return LatestWrite(variable, channels, written)


def _relaxation(select: Select, variable: StateVariable, written: Expression) -> Relaxation:
    sign = -1 if select.kind == SelectKind.ARGMIN else 1
    if not isinstance(written, Extreme):
        return Relaxation(variable, (f"{variable.name}.sum", f"{variable.name}.gain"), sign, (written,), (1,))
    if written.sign != sign:
        raise NotExpressible(
            f"'{written}': an {select.kind} of a {'min' if written.sign > 0 else 'max'} has one ReLU too many. "
            f"An argmax goes with a min, an argmin with a max."
        )
    own = [replaced(part, select.name, "me") == select.bound for part in (written.left, written.right)]
    if not any(own):
        raise NotExpressible(f"'{written}': one side must be 'sender.{variable.name}', which is no offer to itself.")
    parts = (written.left, written.right) if own[0] else (written.right, written.left)
    channels = (f"{variable.name}.sum", *(f"{variable.name}.gain{i}" for i in range(3)))
    return Relaxation(variable, channels, sign, parts, (1, -1, 1))


def _raising_flag(program: GraphProgram, select: Select) -> str | None:
    """A truth value that is down for whoever selects, up for whoever is selected, and raised by the selection."""
    where, updates = conjuncts(select.where), dict(program.updates)
    for v in program.state:
        raised = Or(Read("me", v.name), Read(select.name, v.name))
        if Not(Read("me", v.name)) in where and Read("other", v.name) in where and updates[v.name] == raised:
            return v.name
    return None


def _may_choose_itself(program: GraphProgram, select: Select) -> bool:
    """Whether a node could be a candidate of its own: it must fail a condition, or never improve on its bound."""
    where = conjuncts(select.where)
    if any(isinstance(c, Read) and c.place == "other" and Not(Read("me", c.name)) in where for c in where):
        return False
    if select.bound is None:
        return True
    own = replaced(select.key, "other", "me")
    if isinstance(own, Extreme) and select.bound in (own.left, own.right):
        return own.sign != (1 if select.kind == SelectKind.ARGMAX else -1)
    gain = own - select.bound if select.kind == SelectKind.ARGMAX else select.bound - own
    return _own_gain(gain, select.bound, program) > 0


def _own_gain(gain: Expression, bound: Expression, program: GraphProgram) -> float:
    """The most that a node can gain by its own offer; its own value, in the offer and in the bound, cancels."""
    zero = {v.name: (0.0, 0.0) for v in program.state} if isinstance(bound, Read) else {}
    coefficients = _coefficients(gain)
    if isinstance(bound, Read) and coefficients.get(bound, 0.0) == 0.0:
        return interval(gain, program, zero)[1]
    return interval(gain, program)[1]


def _coefficients(expression: Expression, factor: float = 1.0) -> dict[Expression, float]:
    """How often each read occurs in a linear expression."""
    match expression:
        case Sum(a, b):
            total = _coefficients(a, factor)
            for read, count in _coefficients(b, factor).items():
                total[read] = total.get(read, 0.0) + count
            return total
        case Scaled(by, a):
            return _coefficients(a, factor * by)
        case Read():
            return {expression: factor}
    return {}


def interval(
    expression: Expression, program: GraphProgram, instead: dict[str, tuple[float, float]] | None = None
) -> tuple[float, float]:
    """The range of an expression, from the declared ranges of what it reads (`instead` replaces some of them)."""

    def inner(part: Expression) -> tuple[float, float]:
        return interval(part, program, instead)

    match expression:
        case Constant(x):
            return x, x
        case Read(place, name):
            return (instead or {}).get(name) or _declared(program, place, name)
        case Sum(a, b):
            (low, high), (least, most) = inner(a), inner(b)
            return low + least, high + most
        case Scaled(factor, a):
            ends = [factor * end for end in inner(a)]
            return min(ends), max(ends)
        case Extreme(sign, a, b):
            (low, high), (least, most) = inner(a), inner(b)
            choose = min if sign > 0 else max
            return choose(low, least), choose(high, most)
        case When(_, a, b):
            (low, high), (least, most) = inner(a), inner(b)
            return min(low, least), max(high, most)
    return (0.0, 1.0) if not isinstance(expression, Product) else (-float("inf"), float("inf"))


def _declared(program: GraphProgram, place: str, name: str) -> tuple[float, float]:
    weights, hints = dict(program.weights), dict(program.hints)
    variable = program.variable(name) if place not in FED else None
    if variable is not None:
        return value_range(variable)
    if place in FED and name in hints and not isinstance(hints[name], Kept):
        return interval(hints[name], program)
    if name in weights:
        return weights[name]
    if name not in ("id", "pos", "found") and program.spec[name].kind == Kind.SCALAR:
        raise NotExpressible(
            f"'{place}.{name}' is read, but its range is not declared. Add weights={{'{name}': (low, high)}}."
        )
    return 0.0, 1.0


def is_truth(program: GraphProgram, read: Read) -> bool:
    """Whether a read is of a truth value: a Bool variable, or a mask among the inputs or the hints that are fed."""
    variable = program.variable(read.name) if read.place not in FED else None
    if variable is not None:
        return isinstance(variable, Bool)
    given = (*program.spec.at(Stage.INPUT), *(program.spec[name] for name in program.heeded if read.place in FED))
    return any(v.name == read.name and v.kind in (Kind.MASK, Kind.MASK_ONE) for v in given)


def _check_arithmetic(program: GraphProgram, select: Select) -> None:
    """No products; and a node is kept as a position, so it can be copied and compared, but not added up or scaled."""
    nodes = {"id", *(v.name for v in program.state if isinstance(v, Node))}
    for part in (p for e in (*select.parts, *(u for _, u in program.updates)) for p in walk(e)):
        if isinstance(part, Product):
            raise no_product(part)
        operands = children(part) if isinstance(part, Sum | Scaled) else ()
        if any(isinstance(o, Read) and o.name in nodes for o in operands):
            raise NotExpressible(f"'{part}' calculates with a node, which is known only by its position.")
    for variable in program.state:
        ids = [p for p in walk(variable.init) if isinstance(p, Read) and p.name in nodes]
        if isinstance(variable, Node) and not isinstance(variable.init, Read):
            raise NotExpressible(f"'{variable}': a Node starts as the node itself, me.id.")
        if not isinstance(variable, Node) and ids:
            raise NotExpressible(f"'{variable}' starts from a node, which is known only by its position.")


def _check_reads(where: str, expression: Expression, storages: dict[str, Storage], own: str | None) -> None:
    for part in walk(expression):
        if not isinstance(part, Read):
            continue
        if part.name in storages and not storages[part.name].readable and part.name != own:
            raise NotExpressible(
                f"{where} reads '{part}', which is resolved one step late (keep or overwrite); that needs a micro-step."
            )
        if part.name == "found":
            raise NotExpressible(f"{where} reads '{part}'; a one-step program asks '{part.place} is me' instead.")
        if part.place == "back_edge":
            raise NotExpressible(
                f"{where} reads '{part}', the edge from other to me; the receiver sees only its own side, "
                f"edge.{part.name}. In undirected programs the two are the same: write edge.{part.name}."
            )


class Reader:
    """Expressions -> affine forms over channels and inputs."""

    def __init__(self, program: GraphProgram, storages: dict[str, Storage]):
        self.program, self.storages = program, storages
        self.select = program.selects[0].name

    def value(self, name: str) -> Affine:
        """A readable variable at `me`."""
        storage = self.storages[name]
        init = self.lower(storage.variable.init)
        hidden = [channel(c) for c in storage.channels]
        match storage:
            case Flag():
                return init + hidden[0]
            case Copy():
                return init + hidden[0] - hidden[1]
            case Relaxation(sign=sign, gains=gains):
                total = hidden[0]
                for gain, of in zip(gains, hidden[1:], strict=True):
                    total = total + gain * of
                return init + sign * total
            case WriteOnce():
                return hidden[1] + hidden[2]
        raise NotExpressible(f"'{name}' is resolved late and has no linear value.")

    def lower(self, expression: Expression) -> Affine:
        """Any linear expression."""
        return lower(expression, self._read)

    def _read(self, read: Read) -> Affine:
        place = {self.select: SENDER, f"{self.select}.edge": SENDER_EDGE}.get(read.place, read.place)
        if read.name in self.storages:
            return self.value(read.name).at(place)
        name = "pos" if read.name == "id" else read.name  # a node is known by its position
        return Affine({Feature(place, name): 1.0})


def channel(name: str) -> Affine:
    """A hidden channel of the node itself."""
    return Affine({Feature("me", name, hidden=True): 1.0})


def value_range(variable: StateVariable) -> tuple[float, float]:
    """The declared range; a node is its position, in [0, 1]."""
    return (variable.low, variable.high) if isinstance(variable, Real) else (0.0, 1.0)
