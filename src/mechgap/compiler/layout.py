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

from mechgap.compiler.affine import Affine, Feature, lower
from mechgap.compiler.errors import NotExpressible
from mechgap.programs.expressions import Expression, Extreme, IsMe, Not, Or, Read, When, conjuncts, replaced, walk
from mechgap.programs.graph import Bool, Enum, GraphProgram, Node, Real, Select, SelectKind, StateVariable

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
    storages = {v.name: _storage(program, select, v, dict(program.updates)[v.name]) for v in program.state}
    for name, update in program.updates:
        _check_reads(f"update '{name}' = {update}", update, storages, own=name)
    for part in (select.key, select.where, select.bound):
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
    if any(isinstance(part, IsMe | Extreme | Or) for part in walk(update)):
        raise NotExpressible(f"'{name}' = '{update}' is too deep for one step: a ReLU of a ReLU of fresh values.")
    return Copy(variable, (f"{name}+", f"{name}-"))


def _overwritten(
    program: GraphProgram, select: Select, variable: StateVariable, update: Expression, written: Expression
) -> Storage:
    name = variable.name
    offered = replaced(replaced(select.key, "other", select.name), "edge", f"{select.name}.edge")
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


def _check_reads(where: str, expression: Expression | None, storages: dict[str, Storage], own: str | None) -> None:
    for part in walk(expression) if expression is not None else ():
        if not isinstance(part, Read):
            continue
        if part.name in storages and not storages[part.name].readable and part.name != own:
            raise NotExpressible(
                f"{where} reads '{part}', which is resolved one step late (keep or overwrite); that needs a micro-step."
            )
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
