"""The language of graph programs: typed variables, selects over neighbours, simultaneous updates.

    via = argmin("via", other.dist + edge.A, where=other.msk, below=me.dist)
    GraphProgram(
        name="bellman_ford", spec=..., state=(Bool("msk", me.s), Real("dist", 0, 8, when(me.s, 0, 8)), Node("pi")),
        selects=(via,),
        updates={"msk": me.msk | via.msk, "dist": when(via.is_me, me.dist, via.dist + via.edge.A), ...},
        hints={...}, outputs={...},
    )

In every step each node evaluates its selects on the old state, then all variables change at once. The execution ends
when a step changes nothing. `GraphProgram.interpret` is the meaning; everything else must agree with it.

A step may think in several stages. `lets` are values that it works out on the way; a select may read them, at me and at
others, and lets read what selects found, so that one choice can depend on another. Where `full` holds, everybody is
everybody's neighbour, and edges are read as `edge.adj`.

Nodes have state; edges and the graph have none. But the benchmark's network is fed the hints of the frame before: a
step may read a hint on the graph (`graph.phase`), and a hint may be its own memory, `kept(back_edge.adj, edge.A_t)`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from mechgap.programs.expressions import (
    Constant,
    Expression,
    IsMe,
    Kept,
    Operand,
    Place,
    Read,
    lift,
    me,
    places,
    walk,
)
from mechgap.trace import Kind, Location, Spec, Stage

if TYPE_CHECKING:
    from mechgap.programs.graph_interpreter import Interpretation

ZERO, ALWAYS = Constant(0.0), Constant(1.0)
FED = ("graph", "edge")  # where hints that are fed back can be read


@dataclass(frozen=True)
class StateVariable:
    """A variable that every node has."""

    name: str
    init: Expression

    def __post_init__(self) -> None:
        object.__setattr__(self, "init", lift(self.init))


@dataclass(frozen=True)
class Bool(StateVariable):
    """True or false."""

    init: Expression = ZERO

    def __str__(self) -> str:
        return f"{self.name}: Bool = {self.init}"


@dataclass(frozen=True)
class Node(StateVariable):
    """A node; by default the node itself."""

    init: Expression = me.id

    def __str__(self) -> str:
        return f"{self.name}: Node = {self.init}"


@dataclass(frozen=True)
class Real(StateVariable):
    """A number in [low, high].

    Attributes:
        resolution: the smallest difference that a decision may depend on; None for the finest that the dtype allows.
        high_is_infinite: `high` stands for "no value yet", so a value that reaches it is an error, not a number.
    """

    init: Expression = ZERO
    low: float = 0.0
    high: float = 1.0
    resolution: float | None = None
    high_is_infinite: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"{self.name!r} needs a finite range low < high; got [{self.low:g}, {self.high:g}].")
        if self.resolution is not None and not self.resolution > 0:
            raise ValueError(f"{self.name!r} needs a resolution above 0, or None; got {self.resolution:g}.")

    def __str__(self) -> str:
        fine = "" if self.resolution is None else f", {self.resolution:g}"
        return f"{self.name}: Real[{self.low:g}, {self.high:g}{fine}] = {self.init}"


@dataclass(frozen=True)
class Enum(StateVariable):
    """One of `classes` values, counted from 0."""

    init: Expression = ZERO
    classes: int = 2

    def __str__(self) -> str:
        return f"{self.name}: Enum[{self.classes}] = {self.init}"


class SelectKind(StrEnum):
    """How a select looks at the neighbours."""

    ARGMIN = "argmin"
    ARGMAX = "argmax"
    MATCH = "match"  # the neighbour for which the key holds
    MEAN = "mean"  # the average over the neighbours for which `where` holds
    ANY = "any"  # whether the key holds for some neighbour: `select.found`
    ALL = "all"  # whether it holds for all


@dataclass(frozen=True)
class Select:
    """A choice among the neighbours, itself included: the sender that a node listens to.

    Attributes:
        key: what is compared; equal keys go to the lowest node.
        where: only neighbours for which this holds are candidates.
        bound: a candidate's key must be strictly better than this, or the node chooses itself.
        idle: other choices that would serve as well where there is no candidate and the node chooses itself: what is
            heard then is not used, so that a network may look elsewhere and still run the same algorithm.

    Reading an attribute reads the sender's variable (`via.dist`), `via.id` is the sender, `via.edge.A` the edge to it
    (0 where nobody qualified), `via.is_me` whether nobody qualified, and `via.found` whether somebody did.
    """

    kind: SelectKind
    name: str
    key: Expression
    where: Expression = ALWAYS
    bound: Expression | None = None
    idle: tuple["Select", ...] = ()

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The expressions that decide."""
        return (self.key, self.where) if self.bound is None else (self.key, self.where, self.bound)

    @property
    def edge(self) -> Any:
        """The edge from me to the sender."""
        return Place(f"{self.name}.edge")

    @property
    def is_me(self) -> IsMe:
        """Whether the node chose itself because nobody qualified."""
        return IsMe(self.name)

    def heard(self, name: str) -> Read:
        """The sender's variable of that name; `via.dist` is short for it, unless a select itself has such a field."""
        return Read(self.name, name)

    def __getattr__(self, name: str) -> Read:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.heard(name)

    def __str__(self) -> str:
        where = "" if self.where == ALWAYS else f" where {self.where}"
        side = "below" if self.kind == SelectKind.ARGMIN else "above"
        bound = "" if self.bound is None else f", {side} {self.bound}"
        return f"{self.name} = {self.kind} over neighbours of {self.key}{where}{bound}; else me"


def argmin(
    name: str, key: Operand, where: Operand = True, below: Operand | None = None, idle: tuple[Select, ...] = ()
) -> Select:
    """The candidate of the smallest key."""
    return Select(SelectKind.ARGMIN, name, lift(key), lift(where), None if below is None else lift(below), idle)


def argmax(
    name: str, key: Operand, where: Operand = True, above: Operand | None = None, idle: tuple[Select, ...] = ()
) -> Select:
    """The candidate of the largest key."""
    return Select(SelectKind.ARGMAX, name, lift(key), lift(where), None if above is None else lift(above), idle)


def match(name: str, condition: Expression) -> Select:
    """The lowest neighbour for which the condition holds."""
    return Select(SelectKind.MATCH, name, condition)


def mean(name: str, where: Operand = True) -> Select:
    """Listen to all neighbours for which `where` holds, equally."""
    return Select(SelectKind.MEAN, name, Constant(0.0), lift(where))


@dataclass(frozen=True)
class GraphProgram:
    """A graph algorithm. Give updates, hints and outputs as dictionaries; they are kept as tuples of pairs.

    Attributes:
        spec: the inputs, hints and outputs, as an algorithm of the benchmark has them.
        lets: values that are worked out anew in every step; the `init` of each says how.
        weights: the range of each input scalar but the positions, and of each number that a hint keeps, name -> (low,
            high).
        full: selects look at all nodes, not only at neighbours.
        compared: the select whose attention is held against a trained network's; by default the first.
        undirected: the program is meant for symmetric graphs; `edge` and `back_edge` are then the same.
        regular: the program calculates with positions, which must be i/n.
        algorithm: the algorithm whose traces the program reproduces, if there is one.
    """

    name: str
    spec: Spec
    state: tuple[StateVariable, ...]
    selects: tuple[Select, ...]
    updates: Any
    hints: Any
    outputs: Any
    lets: tuple[StateVariable, ...] = ()
    weights: Any = ()
    full: bool = False
    compared: str = ""
    undirected: bool = True
    regular: bool = False
    algorithm: str | None = None
    description: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for name in ("updates", "hints", "outputs", "weights"):
            given = getattr(self, name)
            pairs = tuple(given.items()) if isinstance(given, Mapping) else tuple(given)
            lifted = pairs if name == "weights" else tuple((k, lift(v)) for k, v in pairs)
            object.__setattr__(self, name, lifted)
        object.__setattr__(self, "compared", self.compared or next((s.name for s in self.selects), ""))
        problems = list(_problems(self))
        if problems:
            raise ValueError(f"Program {self.name!r} is not well formed:\n  " + "\n  ".join(problems))

    def variable(self, name: str) -> StateVariable | None:
        """The state variable or let of that name, or None."""
        return next((v for v in (*self.state, *self.lets) if v.name == name), None)

    def select(self, name: str) -> Select:
        """The select of that name."""
        return next(s for s in self.selects if s.name == name)

    @property
    def memory(self) -> dict[Read, Kept]:
        """The hints that are their own memory, by how they are read."""
        hints = {v.name: v.location.value for v in self.spec.at(Stage.HINT)}
        kept = {name: value for name, value in self.hints if isinstance(value, Kept) and name in hints}
        return {Read(hints[name], name): value for name, value in kept.items()}

    @property
    def heard(self) -> tuple[str, ...]:
        """The hints that steps read, in the order of the spec."""
        steps = [*(v.init for v in self.lets), *(update for _, update in self.updates)]
        steps += [part for select in self.selects for part in select.parts]
        read = {part.name for step in steps for part in walk(step) if isinstance(part, Read) and part.place in FED}
        return tuple(name for name in self.spec.names(Stage.HINT) if name in read)

    @property
    def heeded(self) -> tuple[str, ...]:
        """The hints that a network must be fed: those that steps read, and those that are made of what they were."""
        named = {*self.heard, *(read.name for read, hint in self.memory.items() if read in walk(hint.then))}
        return tuple(name for name in self.spec.names(Stage.HINT) if name in named)

    def interpret(self, *, steps: int | None = None, **inputs: Any) -> "Interpretation":
        """Execute the program as it is written, in plain NumPy and float64.

        Args:
            steps: the number of frames; by default until nothing changes.
            inputs: batched, named and encoded as in the spec; `pos` and `adj` may be left out.

        Returns:
            A trace with the one-hot attention α*, and which rows decided something and by what margin.
        """
        from mechgap.programs.graph_interpreter import interpret

        return interpret(self, inputs, steps)

    def __str__(self) -> str:
        lines = [f"program {self.name}" + (", all nodes are neighbours" if self.full else "")]
        lines += [*(f"  {v}" for v in self.state), *(f"  {s}" for s in self.selects)]
        lines += [f"  let {v}" for v in self.lets]
        lines += [f"  {name}' = {update}" for name, update in self.updates]
        lines += [f"  hint {name} = {value}" for name, value in self.hints]
        return "\n".join([*lines, *(f"  output {name} = {value}" for name, value in self.outputs)])


def _problems(program: GraphProgram) -> Iterator[str]:
    names = [v.name for v in program.state]
    needed = ("pos",) if program.full else ("pos", "adj")
    missing = [name for name in needed if name not in program.spec.names(Stage.INPUT)]
    if missing or not names or not program.selects:
        yield f"a program needs the inputs {' and '.join(map(repr, needed))}, a state variable and a select."
        return
    lets = [v.name for v in program.lets]
    nodes = {*names, *lets, "id", *(v.name for v in program.spec.at(Stage.INPUT) if v.location == "node")}
    edges = {v.name for v in program.spec.at(Stage.INPUT) if v.location == "edge"}
    numbers = {v.name for v in program.spec.at(Stage.INPUT) if v.location == "graph"}
    given = {"graph": numbers} if numbers else {}
    whole_hints = [v for v in program.spec.at(Stage.HINT) if v.location == "graph" and v.name not in ("id", "found")]
    fed = {v.name for v in whole_hints if v.kind in (Kind.MASK, Kind.SCALAR)}
    whole = {"graph": numbers | fed} if numbers | fed else {}
    senders = {s.name: nodes | {"found"} for s in program.selects}
    known = {"me": nodes, **whole, **senders, **{f"{s.name}.edge": edges for s in program.selects}}
    own = [*names, *lets, *(s.name for s in program.selects)]
    if len(set(own)) != len(own):
        yield "every variable, let and select needs a name of its own."
    taken = {
        "me",
        "other",
        "edge",
        "back_edge",
        "graph",
        "id",
        "found",
        "clock",
        *program.spec.names(Stage.INPUT),
    } & set(own)
    if taken:
        yield f"{', '.join(sorted(taken))}: that is the name of an input, or means something else."
    first = {"me": nodes - set(names) - set(lets), **given, **senders}
    for variable in program.state:
        yield from _unknown(variable.init, first, f"the start of {variable.name!r}")
        yield from _early(variable, program)
    if program.compared not in [s.name for s in program.selects]:
        yield f"compared names the select {program.compared!r}; there are {[s.name for s in program.selects]}."
    for select in (s for main in program.selects for s in (main, *main.idle)):
        fed_edges = {memory.name for memory in program.memory if memory.place == "edge"}
        reads = {**known, "other": nodes, "edge": edges | fed_edges, "back_edge": edges}
        for part in (select.key, select.where):
            yield from _unknown(part, reads, f"select {select.name!r}")
        yield from _unknown(select.bound, known, f"the bound of select {select.name!r}")
    for let in program.lets:
        yield from _unknown(let.init, known, f"let {let.name!r}")
    if sorted(k for k, _ in program.updates) != sorted(names):
        yield f"updates must give each of {names} once; got {[k for k, _ in program.updates]}."
    for group, owner in ((program.updates, "update"), (program.hints, "hint"), (program.outputs, "output")):
        for name, value in group:
            known_after = nodes - set(lets)
            target = next((v for v in program.spec if v.name == name), None)
            on_edge = owner != "update" and target is not None and target.location == Location.EDGE
            shown = {"me": known_after} | ({"other": known_after, "edge": edges} if on_edge else {})
            if owner == "hint" and isinstance(value, Kept) and target is not None:
                at_first = {"me": nodes - set(names) - set(lets), "edge": edges, "back_edge": edges, **given}
                yield from _memory_problems(program, name, value, known_after, at_first)
            elif owner == "output" and value in program.memory and target is not None:
                hint = program.spec[value.name]
                if (hint.location, hint.kind) != (target.location, target.kind):
                    yield (
                        f"output {name!r} is a {target.kind} on the {target.location}, and '{value}', which it "
                        f"shows, a {hint.kind} on the {hint.location}; a memory is shown as it is."
                    )
            else:
                yield from _unknown(value, known if owner == "update" else shown, f"{owner} {name!r}")
    for stage, given in ((Stage.HINT, program.hints), (Stage.OUTPUT, program.outputs)):
        if {k for k, _ in given} != set(program.spec.names(stage)):
            yield f"{stage}s must be {list(program.spec.names(stage))}; got {[k for k, _ in given]}."
    yield from _circles(program)


def _memory_problems(
    program: GraphProgram, name: str, value: Kept, nodes: set[str], at_first: dict[str, set[str]]
) -> Iterator[str]:
    """A hint can be memory where it is fed back as it is, and becomes something of itself and of nodes."""
    variable = program.spec[name]
    if name in ("id", "found"):
        yield f"hint {name!r} is kept, but {name!r} means something else where it is read; give it another name."
        return
    if variable.kind == Kind.SCALAR and variable.location == Location.GRAPH and name not in dict(program.weights):
        yield f"hint {name!r} is a number that is kept; declare its range: weights={{{name!r}: (low, high)}}."
    remembered = {Location.GRAPH: (Kind.MASK, Kind.SCALAR), Location.EDGE: (Kind.MASK,)}
    if variable.kind not in remembered.get(variable.location, ()):
        yield (
            f"hint {name!r} is kept, but it is a {variable.kind} on the {variable.location}; truth values of edges, "
            f"and truth values and numbers of the graph, can be. A node keeps what it knows in the state."
        )
        return
    on_edge = variable.location == Location.EDGE
    if on_edge and not program.full:
        yield f"hint {name!r} is kept on edges, which joins nodes of which it is false, too: this needs full=True."
    ends = {"me": nodes, "other": nodes} if on_edge else {"me": nodes}
    start = at_first if on_edge else {k: x for k, x in at_first.items() if k in ("me", "graph")}
    yield from _unknown(value.start, start, f"the start of hint {name!r}")
    yield from _unknown(value.then, {**ends, variable.location.value: {name}}, f"hint {name!r}")


def _early(variable: StateVariable, program: GraphProgram) -> Iterator[str]:
    """A variable starts before there is a state: from inputs, and from selects that read nothing else."""
    kept = _behind(program, (variable.init,)) & {v.name for v in program.state}
    if kept:
        yield f"{variable.name!r} starts from {', '.join(sorted(kept))}, which is not there yet; start from inputs."


def _behind(
    program: GraphProgram, expressions: tuple[Expression, ...], known: frozenset[str] = frozenset()
) -> set[str]:
    """All variables, lets and selects that expressions depend on, also through others."""
    inside = {v.name: (v.init,) for v in program.lets} | {s.name: s.parts for s in program.selects}
    parts = [part for expression in expressions for part in walk(expression)]
    named = {p.name for p in parts if isinstance(p, Read) and p.place not in FED} | {
        place.removesuffix(".edge") for expression in expressions for place in places(expression)
    }
    found = named & ({v.name for v in program.state} | set(inside))
    more = [_behind(program, inside[name], known | found) for name in found - known if name in inside]
    return found.union(*more)


def _circles(program: GraphProgram) -> Iterator[str]:
    """Lets and selects that wait for themselves, also through others."""
    inside = {v.name: (v.init,) for v in program.lets} | {s.name: s.parts for s in program.selects}
    waiting = sorted(name for name, parts in inside.items() if name in _behind(program, parts))
    if waiting:
        yield f"these wait for each other: {', '.join(waiting)}. Keep one of them in the state."


def _unknown(expression: Expression | None, known: dict[str, set[str]], where: str) -> Iterator[str]:
    for part in walk(expression) if expression is not None else ():
        if isinstance(part, Read) and part.place not in known:
            yield f"{where} reads '{part}', but only {sorted(known)} can be read there."
        elif isinstance(part, Read) and part.name not in known[part.place]:
            yield f"{where} reads '{part}', but {part.place} has only {sorted(known[part.place])}."
        elif isinstance(part, Kept):
            yield f"{where} is '{expression}', but only a hint as a whole can be kept."
        elif isinstance(part, IsMe) and part.select not in known:
            yield f"{where} asks '{part}', but there is no select {part.select!r}."
