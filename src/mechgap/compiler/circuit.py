"""Programs that think in stages -> a circuit: registers, layers of ReLUs between them, and a clock.

Within a frame the registers stand still, so every other channel, being a function of them and of the inputs, settles
after as many micro-steps as it has layers below it (its level), and stays settled. In the last micro-step of a frame
all registers take their new values at once. All micro-steps have the same weights, as the benchmark's network demands.

| channels          | hold                                                                                    |
|-------------------|-----------------------------------------------------------------------------------------|
| v.new, v.old      | register v is their sum: written in the last micro-step, handed on in the others        |
| v.start           | what v is until the first frame is over                                                 |
| clock.1, 2, ...   | 1 in the micro-step of that number; all 0 in the first, as the hidden state starts      |
| clock.closed      | 0 in the last micro-step: a gate that is exactly 0 where open, so that copies are exact |
| clock.on, twice   | on - twice is 1 from the second frame on                                                |
| anything else     | the expression that it is named after, or a part of one                                 |

A truth value is 0 or 1 up to rounding, and every use of one tolerates that: a conjunction of m is relu(2 Σ - 2 m + 1).
Where one is kept, it is made exactly 0 or 1, so that rounding does not grow from frame to frame.
"""

import math
from dataclasses import dataclass, replace

from mechgap.compiler.affine import Affine, Feature, lower, no_product
from mechgap.compiler.attention import (
    Lowered,
    Unit,
    between_two,
    by_order,
    by_position,
    by_value,
    nearest_match,
    weigh,
)
from mechgap.compiler.constants import Numbers
from mechgap.compiler.errors import NotExpressible, PrecisionError
from mechgap.compiler.layout import SENDER, Register, Storage, channel, interval, is_truth, value_range
from mechgap.programs.expressions import (
    And,
    Constant,
    Equal,
    Expression,
    Extreme,
    IsMe,
    Less,
    Not,
    Or,
    Product,
    Read,
    Scaled,
    Sum,
    When,
    children,
    conjuncts,
    disjuncts,
    places,
    replaced,
    walk,
)
from mechgap.programs.graph import FED, Bool, Enum, GraphProgram, Node, Real, Select, SelectKind, argmax, argmin

ME, OTHER, EDGE, GRAPH = "me", "other", "edge", "graph"
NODE, NUMBER, TRUTH = "node", "number", "truth value"
KINDS: dict[type, str] = {Bool: TRUTH, Node: NODE, Real: NUMBER, Enum: NUMBER}
FITS: dict[type, tuple[str, ...]] = {Bool: (TRUTH,), Node: (NODE,), Real: (NUMBER, TRUTH)}


@dataclass(frozen=True)
class Settled:
    """A form over a node's own channels and inputs that is right from some micro-step of every frame on."""

    form: Affine
    level: int = 0

    def __add__(self, other: "Settled") -> "Settled":
        return Settled(self.form + other.form, max(self.level, other.level))

    def __sub__(self, other: "Settled") -> "Settled":
        return self + -1.0 * other

    def __mul__(self, factor: float) -> "Settled":
        return Settled(factor * self.form, self.level)

    __rmul__ = __mul__

    def plus(self, constant: float) -> "Settled":
        """With a constant added."""
        return Settled(self.form + constant, self.level)


NOTHING, ONE = Settled(Affine()), Settled(Affine(constant=1.0))


class Circuit:
    """Lowers a program; afterwards `channels` and `selects` hold the whole network.

    Attributes:
        channels: hidden channel -> the form whose ReLU it becomes.
        heads: hidden channel -> the head whose sender it hears, for those that hear one.
        selects: the attention of every select, in the order of the program's; a select's head is its place there.
        attention: all attention channels: of the selects, then of the heads that weigh edges and compare.
        micro_steps: k, how many message-passing steps a frame takes.
        tells_apart: comparison -> its two numbers must be the same, or differ by this much.
    """

    def __init__(self, program: GraphProgram, numbers: Numbers):
        self.program, self.numbers = program, numbers
        self.channels: dict[str, Affine] = {}
        self.heads: dict[str, int] = {}
        self._units: dict[tuple[Affine, int], Settled] = {}
        self._numbers: dict[Expression, Settled] = {}
        self._truths: dict[Expression, Settled] = {}
        self._lowered: dict[str, Lowered] = {}
        self._registers = {v.name: v for v in program.state}
        self._lets = {v.name: v for v in program.lets}
        self._ends = self._first_and_last()
        self._selects = {select.name: select for select in (*program.selects, *self._ends)}
        self._order = list(self._selects)
        self._weighing: tuple[Unit, ...] = ()  # of heads that come after those of the selects
        self.tells_apart: dict[str, float] = {}
        self._bounds: dict[str, float] = {}
        self._check_kinds()
        written = {name: self._written(name, update) for name, update in program.updates}
        self.selects = tuple(self._attended(select.name) for select in program.selects)
        levels = [value.level for value in written.values()] + [select.micro_step for select in self.selects]
        self.micro_steps = max(2, 1 + max(levels))
        self._wind_up(written)
        attended = [self._attended(name) for name in self._order]
        self.attention = (*(unit for select in attended for unit in select.units), *self._weighing)

    @property
    def storages(self) -> dict[str, Storage]:
        """The registers, for whoever decodes them."""
        return {name: Register(v, (f"{name}.new", f"{name}.old")) for name, v in self._registers.items()}

    def value(self, name: str) -> Affine:
        """A register after the last micro-step of a frame."""
        low = value_range(self._registers[name])[0]
        return channel(f"{name}.new") + channel(f"{name}.old") + low

    def lower(self, expression: Expression) -> Affine:
        """What is shown after the last micro-step of a frame: a linear expression of registers and inputs."""
        return lower(expression, self._shown)

    def _shown(self, read: Read) -> Affine:
        if read.name in self._registers and read.place not in FED:
            return self.value(read.name).at(read.place)
        return Affine({Feature(read.place, "pos" if read.name == "id" else read.name): 1.0})

    # Values

    def number(self, expression: Expression) -> Settled:
        """Any expression as a number; a node is its position, a truth value 0 or 1."""
        if expression not in self._numbers:
            self._numbers[expression] = self._number(expression)
        return self._numbers[expression]

    def _number(self, expression: Expression) -> Settled:
        match expression:
            case Constant(x):
                return NOTHING.plus(x)
            case Read(place, name):
                return self._read(place, name)
            case Sum(a, b):
                return self.number(a) + self.number(b)
            case Scaled(factor, a):
                return factor * self.number(a)
            case Extreme(sign, a, b):
                first, second = self.number(a), self.number(b)
                return first - sign * self._unit(sign * (first - second), f"{expression}")
            case When(condition, a, b):
                return self._gated(a, condition) + self._gated(b, ~condition)
            case Product():
                raise no_product(expression)
        return self.truth(expression)

    def _gated(self, expression: Expression, condition: Expression) -> Settled:
        """The value where a condition holds, 0 elsewhere."""
        if isinstance(expression, Constant):
            return expression.value * self.truth(condition) if expression.value else NOTHING
        low, high = interval(expression, self.program)
        inside = self.number(expression).plus(-low) - _room(low, high) * self.closed(condition)
        found = self._unit(inside, f"{expression} if {condition}")
        return found + low * self.truth(condition) if low else found

    def _read(self, place: str, name: str) -> Settled:
        if place == ME:
            if name in self._registers:
                return self._register(name)
            if name in self._lets:
                let = self._lets[name]
                return self.truth(let.init) if isinstance(let, Bool) else self.number(let.init)
            return Settled(Affine({Feature(ME, "pos" if name == "id" else name): 1.0}))
        if place == GRAPH and is_truth(self.program, Read(place, name)):
            return self.truth(Read(place, name))
        if place == GRAPH:
            raise NotExpressible(
                f"'graph.{name}' is heard by no node, since what belongs to the graph only enters attention: compare "
                f"it as it is with a number of mine, graph.{name} < x or x < graph.{name}."
            )
        if name == "found":
            return self.truth(Read(place, name))
        select, _, along = place.partition(".")
        if along:
            return self._weighed(self._selects[select], name)
        own, level = self._read(ME, name), self._attended(select).micro_step
        low, _ = interval(Read(ME, name), self.program)
        heard = Settled(own.form.at(SENDER), max(level, own.level)).plus(-low)
        return self._unit(heard, f"{place}.{name}", self._order.index(select)).plus(low)

    def _weighed(self, select: Select, name: str) -> Settled:
        """The weight of the edge to a sender, which a node can attend by, but not hear: it is weighed.

        A head divides its attention between the sender, marked by a truth value that nobody else has, and the node
        itself. The sender's share is σ(ε (A - a)) = 1/2 + ε (A - a)/4 - ..., so that a + 4/ε (share - 1/2) is nearer to
        A than a was: by the cube of the distance. Three heads with ever larger ε come down to rounding.
        """
        asked = conjuncts(select.where)
        marks = [c for c in asked if places(c) == {OTHER}]
        if not any(~replaced(mark, OTHER, ME) in asked for mark in marks):
            raise NotExpressible(
                f"'{select.name}.edge.{name}' is the weight of an edge to a sender that nothing marks; a weight can be "
                f"read only along a select whose where asks for a truth value that one node alone has, and not me: "
                f"other.flag & ~me.flag."
            )
        mark = replaced(_all(marks), OTHER, ME)
        low, high = interval(Read(EDGE, name), self.program)
        found, off = NOTHING.plus((low + high) / 2), (high - low) / 2
        weight, said, fails = Affine({Feature(EDGE, name): 1.0}), self.truth(mark), self.closed(mark)
        slopes = self._slopes(select, off, high - low)
        for slope in slopes:
            head = self._next_head()
            tilt = slope * (weight - found.form)
            self._weighing += weigh(tilt, fails.form.at(OTHER), slope * 2 * (high - low), head, self.numbers)
            level = max(found.level, fails.level, said.level)
            share = self._unit(Settled(said.form.at(SENDER), level), f"{select.name}'s share by {name}", head)
            found = found + (4.0 / slope) * share.plus(-0.5)
        # Where nobody was found, the share means nothing, and the weight is 0.
        whole, there = f"{select.name}.edge.{name}", Read(select.name, "found")
        anything = _room(0, high - low + sum(2 / slope for slope in slopes))
        found = found - anything * self.closed(there)
        cut = self._unit(found.plus(-low), whole) - self._unit(found.plus(-high), f"{whole}, beyond")
        return cut + low * self.truth(there) if low else cut

    def _next_head(self) -> int:
        """A head that no select has."""
        return len(self._order) + len({unit.head for unit in self._weighing})

    def _slopes(self, select: Select, off: float, span: float) -> list[float]:
        """The ε of every weighing, until rounding, of logits of about m/g + ε A, is all that is left to be off by."""
        numbers, found = self.numbers, list[float]()

        def left(slope: float) -> float:
            rounding = 4 * numbers.roundoff * (numbers.margin / numbers.min_gap / slope + span)
            return slope**2 * off**3 / 12 + rounding

        while True:
            # Not too small either: the share, and what rounding does to it, is taken times 4/ε.
            slope = min((2.0**i for i in range(-20, 60) if 0.74 / span <= 2.0**i <= 0.75 / off), key=left)
            if left(slope) > off / 2:
                break
            found.append(slope)
            off = left(slope)
        if off > 64 * numbers.roundoff * span:
            raise PrecisionError(
                f"The edge to the sender of {select.name!r} can be weighed to {off:.2g} only, at positions "
                f"{numbers.min_gap:.3g} apart in {numbers.dtype} (n <= {numbers.max_nodes}). Use dtype='float64', a "
                f"larger min_gap, or fewer nodes."
            )
        return found

    def _register(self, name: str) -> Settled:
        variable = self._registers[name]
        low, high = value_range(variable)
        kept = Settled(channel(f"{name}.new") + channel(f"{name}.old") + low)
        if variable.init == Constant(low):
            return kept
        before = channel("clock.on") - channel("clock.twice")
        start = self.number(variable.init).plus(-low) - Settled(_room(low, high) * before)
        return kept + self._unit(start, f"{name}.start")

    # Truth values

    def truth(self, expression: Expression) -> Settled:
        """1 where the expression holds, else 0."""
        if expression not in self._truths:
            self._truths[expression] = self._truth(expression)
        return self._truths[expression]

    def _truth(self, expression: Expression) -> Settled:
        match expression:
            case Constant(x):
                return NOTHING.plus(float(x != 0))
            case Not(a):
                return ONE - self.truth(a)
            case And():
                parts = [self.truth(part) for part in conjuncts(expression)]
                return self._unit((2.0 * sum(parts, NOTHING)).plus(1.0 - 2 * len(parts)), f"{expression}")
            case Or():
                total = self._count(expression)
                return total - self._unit(total.plus(-1.0), f"{expression}, surplus")
            case When(condition, a, b):
                return self._gated(a, condition) + self._gated(b, ~condition)
            case Less(a, b):
                if self._is_node(a) != self._is_node(b):
                    raise NotExpressible(f"'{expression}' compares a node with a number.")
                alone = [isinstance(side, Read) and side.place == GRAPH for side in (a, b)]
                if sum(alone) == 1 and GRAPH not in places(b if alone[0] else a):
                    return self._less_in_attention(a, b, self._resolution(a, b, f"{expression}"), f"{expression}")
                return self._less(a, b, f"{expression}")
            case Equal(a, b):
                return self._equal(a, b, f"{expression}")
            case IsMe(select):
                return ONE - self.truth(Read(select, "found"))
            case Read(place, "found"):
                return self._found(self._selects[place])
            case Read("graph", _) if is_truth(self.program, expression):  # 0 or 1, as what is fed back is decided
                return self._less_in_attention(Constant(0.5), expression, 0.5, f"{expression}")
            case Read(place, name) if is_truth(self.program, expression):
                return self._read(place, name)
        raise NotExpressible(f"'{expression}' stands where a truth value is needed.")

    def closed(self, expression: Expression) -> Settled:
        """Exactly 0, without a constant that would have to cancel, where the expression holds; 1 or more elsewhere."""
        match expression:
            case Read("me", name) if name in self._lets:
                return self.closed(self._lets[name].init)
            case Not(Read("me", name)) if name in self._lets:
                return self.closed(~self._lets[name].init)
            case And(a, b):
                return self.closed(a) + self.closed(b)
            case Or():
                return self._unit(ONE - 2.0 * self._count(expression), f"not ({expression})")
        fails = ONE - self.truth(expression)
        if fails.form.constant == 0:
            return fails
        return self._unit((2.0 * fails).plus(-1.0), f"not {expression}")

    def _count(self, expression: Or) -> Settled:
        """How many parts of a disjunction hold."""
        return sum((self.truth(part) for part in disjuncts(expression)), NOTHING)

    def _less(self, a: Expression, b: Expression, name: str) -> Settled:
        """Cut the difference to [0, r] first: a steep ramp over its whole range would round the truth away."""
        gap = self._resolution(a, b, name)
        difference = self.number(b) - self.number(a)
        cut = self._unit(difference, f"{b} - {a}") - self._unit(difference.plus(-gap), f"{b} - {a}, beyond")
        ramp = ((2.0 / gap) * cut).plus(-0.5)  # -1/2 where it does not hold, 3/2 where it does
        return self._unit(ramp, f"{name}, roughly") - self._unit(ramp.plus(-1.0), f"{name}, surplus")

    def _first_and_last(self) -> tuple[Select, ...]:
        """Selects of the first and the last node, where something is compared with a number of the graph."""
        program = self.program
        written = [v.init for v in (*program.state, *program.lets)] + [update for _, update in program.updates]
        written += [part for select in program.selects for part in select.parts]
        if not any(GRAPH in places(expression) for expression in written):
            return ()
        ends = (argmin("the first", Read(OTHER, "id")), argmax("the last", Read(OTHER, "id")))
        return tuple(next((s for s in program.selects if replace(s, name=end.name) == end), end) for end in ends)

    def _less_in_attention(self, a: Expression, b: Expression, gap: float, name: str) -> Settled:
        """A number of the graph enters logits alone: a head attends to the last node where a < b, else to the first.

        Of a single node attention is always 1, so that it cannot hear the graph: there have to be two.
        """
        if not self.program.full:
            raise NotExpressible(
                f"'{name}': what belongs to the graph is heard by looking to the first or to the last of all nodes, of "
                f"which a node must see both: this needs full=True."
            )
        # 2 m on either side of gap/2; rounding, of about slope, takes less than m
        slope = 4 * self.numbers.margin / gap
        (low, high), (least, most) = interval(a, self.program), interval(b, self.program)
        range_ = slope * max(high - least, most - low)
        difference = self._in_logit(b) - self._in_logit(a)
        tilt = slope * (difference.form - gap / 2)
        is_end = [Equal(Read(ME, "id"), Read(end.name, "id")) for end in self._ends]
        first, last = (self.closed(end) for end in is_end)
        ends, says = (first.form.at(OTHER), last.form.at(OTHER)), self.truth(is_end[1])
        head = self._next_head()
        units = between_two(tilt, ends, range_, self.numbers)
        self._weighing += tuple(replace(unit, head=head) for unit in units)
        level = max(difference.level, first.level, last.level, says.level)
        return self._unit(Settled(says.form.at(SENDER), level), name, head)

    def _in_logit(self, expression: Expression) -> Settled:
        if isinstance(expression, Read) and expression.place == GRAPH:
            return Settled(Affine({Feature(GRAPH, expression.name): 1.0}))
        return self.number(expression)

    def _equal(self, a: Expression, b: Expression, name: str) -> Settled:
        if not (self._is_node(a) and self._is_node(b)):
            raise NotExpressible(f"'{name}': only nodes can be compared for being the same.")
        difference = self.number(a) - self.number(b)
        apart = self._unit(difference, f"{a} - {b}") + self._unit(-1.0 * difference, f"{b} - {a}")
        near = (-4.0 / self.numbers.min_gap) * apart
        return self._unit(near.plus(2.0), f"{name}, roughly") - self._unit(near.plus(1.0), f"{name}, surplus")

    def _resolution(self, a: Expression, b: Expression, name: str) -> float:
        """The smallest difference that a comparison must tell from none."""
        if self._is_node(a) and self._is_node(b):
            return self.numbers.min_gap
        (low, high), (least, most) = interval(a, self.program), interval(b, self.program)
        span = max(high, most) - min(low, least) or 1.0
        hints = dict(self.program.hints)
        parts = [part for side in (a, b) for part in walk(side) if isinstance(part, Read)]
        behind = [part for part in parts if part.place in FED and part.name in hints]  # what is shown there
        parts += [part for read in behind for part in walk(hints[read.name]) if isinstance(part, Read)]
        reads = {part.name for part in parts if part.place not in FED}
        values = [v for v in (*self.program.state, *self.program.lets) if isinstance(v, Real) and v.name in reads]
        finest = self.numbers.finest(span, 32.0)
        found = min((v.resolution or finest for v in values), default=finest)
        if found < finest * (1 - 1e-9):
            raise PrecisionError(
                f"'{a}' and '{b}' must be told apart at {found:.3g} over a range of {span:g}, but "
                f"{self.numbers.dtype} tells apart {finest:.3g} there. Use dtype='float64', a smaller range, or a "
                f"coarser resolution."
            )
        self.tells_apart[name] = found
        return found

    def _found(self, select: Select) -> Settled:
        """Whether the chosen sender is a candidate; where there is none, the node hears itself, and is none either.

        A condition on the edge need not be asked: the edge from a node to itself is always there.
        """
        if select.kind == SelectKind.MATCH:
            return ONE
        asked = [c for c in conjuncts(select.where) if EDGE not in places(c)]
        return self.truth(_all([replaced(condition, OTHER, select.name) for condition in asked]))

    # Kinds: a node is kept as a position, so it can be copied and compared with nodes, but is no number

    def _check_kinds(self) -> None:
        given = [(v, v.init) for v in (*self.program.state, *self.program.lets)]
        given += [(self._registers[name], update) for name, update in self.program.updates]
        for variable, expression in given:
            if type(variable) not in FITS:
                raise NotExpressible(f"'{variable}': an Enum is not kept; a Bool for every class is.")
            kind = self._kind(expression)
            if kind not in FITS[type(variable)]:
                wanted = type(variable).__name__
                raise NotExpressible(f"'{variable.name}' is a {wanted}, but '{expression}' is a {kind}.")

    def _kind(self, expression: Expression) -> str:
        match expression:
            case Constant(x):
                return TRUTH if x in (0, 1) else NUMBER
            case Read(place, name):
                variable = self.program.variable(name)
                if variable is not None and place not in FED:
                    return KINDS[type(variable)]
                truth = name == "found" or is_truth(self.program, expression)
                return NODE if name == "id" else TRUTH if truth else NUMBER
            case Sum() | Scaled() | Product():
                if any(self._kind(part) == NODE for part in children(expression)):
                    raise NotExpressible(f"'{expression}' calculates with a node, which is known only by its position.")
                return NUMBER
            case When(_, a, b) | Extreme(_, a, b):
                kinds = {self._kind(a), self._kind(b)}
                if NODE in kinds and len(kinds) > 1:
                    raise NotExpressible(
                        f"'{expression}' is a node or a number, as the case may be; it must be one of them."
                    )
                return next(kind for kind in (NODE, NUMBER, TRUTH) if kind in kinds)
        return TRUTH

    def _is_node(self, expression: Expression) -> bool:
        return self._kind(expression) == NODE

    # Attention

    def _attended(self, name: str) -> Lowered:
        """A select's attention channels, right from its micro-step on."""
        if name not in self._lowered:
            select, head = self._selects[name], self._order.index(name)
            lowered, level = self._attention(select)
            units = tuple(replace(unit, head=head) for unit in lowered.units)
            self._lowered[name] = replace(lowered, units=units, head=head, micro_step=level)
        return self._lowered[name]

    def _attention(self, select: Select) -> tuple[Lowered, int]:
        if select.bound is not None:
            raise NotExpressible(
                f"Select '{select}': with several selects a bound is a comparison of its own; leave it out, and ask "
                f"'{select.name}.value < me.value' in a let."
            )
        if select.kind == SelectKind.MATCH:
            mine = self._held(select)
            return nearest_match(Affine({Feature(OTHER, "pos"): 1.0}), mine.form, self.numbers), mine.level
        if select.kind not in (SelectKind.ARGMIN, SelectKind.ARGMAX):
            raise NotExpressible(
                f"Select '{select}': a head takes an argmin, an argmax or a match. For 'is there one', take an argmin "
                f"of other.id with a where, and ask {select.name}.found."
            )
        to_the_left = Less(Read(OTHER, "id"), Read(ME, "id"))
        to_the_right = Less(Read(ME, "id"), Read(OTHER, "id"))
        ordered = [c for c in conjuncts(select.where) if c in (to_the_left, to_the_right)]
        if ordered:
            inward = (to_the_left, SelectKind.ARGMAX), (to_the_right, SelectKind.ARGMIN)
            alone = len(conjuncts(select.where)) == 1 and self.program.full
            if not alone or (ordered[0], select.kind) not in inward or select.key != Read(OTHER, "id"):
                raise NotExpressible(
                    f"Select '{select}': a node finds the next one to its left or right among all nodes (full=True), "
                    f"whoever that is."
                )
            return by_order(1.0 if ordered[0] == to_the_left else -1.0, self.numbers), 0
        failures = self._failures(select)
        if select.key == Read(OTHER, "id"):
            return by_position(select, failures.form, self.numbers), failures.level
        if places(select.key) != {OTHER}:
            raise NotExpressible(f"Select '{select}': with several selects a key is a value of the other node alone.")
        if self._is_node(select.key):
            raise NotExpressible(
                f"Select '{select}': several others may hold the same node, and would be averaged; only other.id "
                f"itself can be a key."
            )
        key = self.number(replaced(select.key, OTHER, ME))
        span = interval(select.key, self.program)
        lowered = by_value(select, key.form.at(OTHER), span, failures.form, self.numbers)
        return lowered, max(key.level, failures.level)

    def _held(self, select: Select) -> Settled:
        """The node that I hold and look for: it is always there, so that somebody is always found."""
        if self.program.full and isinstance(select.key, Equal) and not conjuncts(select.where):
            for theirs, mine in ((select.key.left, select.key.right), (select.key.right, select.key.left)):
                if theirs == Read(OTHER, "id") and OTHER not in places(mine) and self._is_node(mine):
                    return self.number(mine)
        raise NotExpressible(
            f"Select '{select}': a match is other.id.equals(a node of mine), among all nodes (full=True), and no more."
        )

    def _failures(self, select: Select) -> Settled:
        """How many of a select's conditions fail, as a form over me, other and their edge."""
        total = NOTHING if self.program.full else ONE - Settled(Affine({Feature(EDGE, "adj"): 1.0}))
        for condition in conjuncts(select.where):
            at = places(condition)
            if at == {OTHER}:
                theirs = self.closed(replaced(condition, OTHER, ME))
                total = total + Settled(theirs.form.at(OTHER), theirs.level)
            elif not at & {OTHER, EDGE, "back_edge"}:
                total = total + self.closed(condition)
            elif isinstance(condition, Read) and self._joins(condition):
                total = total + ONE - Settled(Affine({Feature(EDGE, condition.name): 1.0}))
            elif at & {EDGE, "back_edge"}:
                raise NotExpressible(
                    f"'{condition}' in the where of {select.name!r}: of an edge, only edge.adj can be a condition, and "
                    f"a hint that is kept from it or from back_edge.adj on; a node does not see the edge from the "
                    f"other to itself."
                )
            else:
                raise NotExpressible(
                    f"'{condition}' in the where of {select.name!r}: a condition asks about me or about the other, not "
                    f"about both; work out what each of them needs in a let."
                )
        return total

    def _joins(self, read: Read) -> bool:
        """Whether this is a truth value of edges that every node's edge to itself has, as `_found` relies on."""
        memory = self.program.memory.get(read)
        if memory is None:
            return read == Read(EDGE, "adj")
        return memory.start in (Read(EDGE, "adj"), Read("back_edge", "adj")) and read in disjuncts(memory.then)

    # Channels

    def _unit(self, value: Settled, name: str, head: int = -1) -> Settled:
        """A channel that becomes the ReLU of a form, one micro-step later; equal forms share one."""
        known = self._units.get((value.form, head))
        if known is not None:
            return known
        while name in self.channels:
            name += "'"
        self.channels[name] = value.form
        if head >= 0:
            self.heads[name] = head
        made = Settled(channel(name), value.level + 1)
        self._units[value.form, head] = made
        return made

    def _written(self, name: str, update: Expression) -> Settled:
        """What a register becomes, as a form that is 0 while all channels are: it may then be written too early."""
        variable = self._registers[name]
        if isinstance(variable, Bool):
            return self._snapped(name, update)
        low = value_range(variable)[0]
        value = self.number(update).plus(-low)
        if value.form.constant == 0 and all(feature.hidden for feature in value.form.terms):
            return value
        return self._unit(value, f"{name} becomes")

    def _bound(self, form: Affine) -> float:
        """What a form cannot exceed, settled or not: no channel is below 0, and a register never leaves its range."""
        total = form.constant
        for feature, coefficient in form.terms.items():
            if coefficient > 0:
                total += coefficient * self._most(feature)
        return max(total, 0.0)

    def _most(self, feature: Feature) -> float:
        if not feature.hidden:
            return interval(Read(feature.place, feature.name), self.program)[1]
        if feature.name not in self._bounds:
            register = self._registers.get(feature.name.rpartition(".")[0])
            if register is not None and feature.name.endswith((".new", ".old")):
                low, high = value_range(register)
                self._bounds[feature.name] = high - low
            elif feature.name.startswith("clock."):
                self._bounds[feature.name] = 2.0
            else:
                self._bounds[feature.name] = self._bound(self.channels[feature.name])
        return self._bounds[feature.name]

    def _snapped(self, name: str, update: Expression) -> Settled:
        """A truth value made exactly 0 or 1: what it is off by must not grow from frame to frame."""
        match update:
            case And():
                parts = [self.truth(part) for part in conjuncts(update)]
                value = sum(parts, NOTHING).plus(1.0 - len(parts))
            case Or():
                value = self._count(update)
            case _:
                value = self.truth(update)
        twice = (2.0 * value).plus(-0.5)
        return self._unit(twice, f"{name} becomes, roughly") - self._unit(twice.plus(-1.0), f"{name}, surplus")

    def _wind_up(self, written: dict[str, Settled]) -> None:
        """The clock, and the registers that it writes."""
        k = self.micro_steps
        ticks = [channel(f"clock.{i}") for i in range(1, k)]
        last, first = ticks[-1], Affine(constant=1.0) - sum(ticks[1:], ticks[0])
        on = channel("clock.on") - channel("clock.twice") + last
        self.channels |= {f"clock.{i + 1}": form for i, form in enumerate([first, *ticks[:-1]])}
        before_last = first if k == 2 else ticks[-2]
        self.channels |= {"clock.closed": Affine(constant=1.0) - before_last}
        self.channels |= {"clock.on": on, "clock.twice": on - 1.0}
        for name, value in written.items():
            # What is written has not settled before the last micro-step, and may be more than the register holds.
            room = max(_room(0, self._bound(value.form)), 2 * _room(*value_range(self._registers[name])))
            self.channels[f"{name}.new"] = value.form - room * channel("clock.closed")
            self.channels[f"{name}.old"] = channel(f"{name}.new") + channel(f"{name}.old") - room * last


def _room(low: float, high: float) -> float:
    """A power of two that closes any value of a range."""
    return 2.0 ** math.ceil(math.log2(max(high - low, 1e-9)))


def _all(conditions: list[Expression]) -> Expression:
    total: Expression = Constant(1.0)
    for i, condition in enumerate(conditions):
        total = condition if i == 0 else And(total, condition)
    return total
