"""A select -> attention logits: leaky-ReLU channels whose sum is the right choice's logit and nobody else's.

The candidate's logit is C relu(improvement - dead band), closed to 0 where a condition fails; the node itself wins
where nobody's is positive, because others lose K per unit of distance, or because a tent of height m stands on it.
"""

from dataclasses import dataclass, replace

from mechgap.compiler.affine import Affine, Feature
from mechgap.compiler.constants import Numbers
from mechgap.compiler.errors import NotExpressible, PrecisionError
from mechgap.compiler.layout import Reader, Relaxation, interval, is_truth, value_range
from mechgap.programs.expressions import Extreme, Not, Read, conjuncts, walk
from mechgap.programs.graph import GraphProgram, Node, Real, Select, SelectKind

LEAK = 0.01  # of the network's leaky ReLU; as a head weight it cancels the leak of a mirrored channel exactly


@dataclass(frozen=True)
class Unit:
    """One attention channel of a head: weight * leaky(form)."""

    form: Affine
    weight: float
    role: str
    head: int = 0


@dataclass(frozen=True)
class Lowered:
    """A select's channels, and what they can tell apart.

    Attributes:
        resolution: keys, and keys and the bound, must differ by this much.
        resolves_ties: equal keys go to the lowest node; otherwise they are outside the domain.
        node_key: keys are nodes, so that they differ by a position gap.
        head, micro_step: where in a network's attention the select is.
    """

    units: tuple[Unit, ...]
    resolution: float
    resolves_ties: bool
    node_key: bool
    head: int = 0
    micro_step: int = 0


def lower_select(program: GraphProgram, reader: Reader, numbers: Numbers) -> Lowered:
    """Build the attention channels of the program's select."""
    select = program.selects[0]
    if select.key == Read("other", "id") and select.bound is None:
        return by_position(select, _failures(select, reader), numbers)
    if isinstance(select.key, Extreme):
        return _of_two_offers(program, select, reader, numbers)
    return _by_value(program, select, reader, numbers)


def by_position(select: Select, failures: Affine, numbers: Numbers) -> Lowered:
    """The lowest or highest candidate: C = 2 K, since K |x| differs by at most K times the gap of the two.

    Args:
        select: an argmin or argmax of nodes.
        failures: 0 where all conditions hold, 1 or more elsewhere.
        numbers: the sizes and gaps.
    """
    K, m = numbers.self_slope, numbers.margin
    sign = 1.0 if select.kind == SelectKind.ARGMIN else -1.0
    start = 1.0 if select.kind == SelectKind.ARGMIN else 0.0
    C = 2 * K
    form = C * (Affine(constant=start) - sign * position("other")) + (K + m)
    form = form - (C + K + m) * failures
    _check_precision(select, numbers, numbers.min_gap, 1.0, 4.0)
    units = (*relu(form, "candidate"), *_distance(numbers))
    return Lowered(units, numbers.min_gap, True, True)


def by_value(
    select: Select,
    key: Affine,
    span: tuple[float, float],
    failures: Affine,
    numbers: Numbers,
) -> Lowered:
    """The candidate of the smallest or largest key, whatever the node's own; ties are outside the domain.

    Args:
        select: an argmin or argmax of values of others.
        key: the value, read at `other`.
        span: the range of the key.
        failures: 0 where all conditions hold, 1 or more elsewhere.
        numbers: the sizes and gaps.
    """
    low, high = span
    resolution = numbers.finest(high - low, 32.0)
    m = numbers.margin
    own, own_range = (_tent(numbers), m) if numbers.tent_is_exact else (_distance(numbers), numbers.self_slope)
    C, base = (2 * m + own_range) / resolution, 2 * (m + own_range)
    height = -key + high if select.kind == SelectKind.ARGMIN else key - low
    form = C * height + base - 1.01 * (C * (high - low) + base) * failures
    return Lowered((*relu(form, "candidate"), *own), resolution, False, False)


def nearest_match(theirs: Affine, mine: Affine, numbers: Numbers) -> Lowered:
    """The node whose position, or node variable, is mine: 2 m are lost per gap that it lies apart."""
    x = (2 * numbers.self_slope / (1 - LEAK)) * (theirs - mine)
    return Lowered((Unit(x, -1.0, "match"), Unit(-x, -1.0, "match")), numbers.min_gap, True, True)


def by_order(direction: float, numbers: Numbers) -> Lowered:
    """The next node to the left (direction 1) or right (-1): whoever lies there at all gains H, the nearer the more."""
    H = numbers.self_slope + 2 * numbers.margin
    if 8 * numbers.roundoff * H / numbers.min_gap > numbers.margin:  # what rounding may take from the margin
        raise PrecisionError(
            f"The next node to one side cannot be told from others at positions {numbers.min_gap:.3g} apart in "
            f"{numbers.dtype} (n <= {numbers.max_nodes}). Use dtype='float64', a larger min_gap, or fewer nodes."
        )
    x = (direction * H / numbers.min_gap) * (position("me") - position("other"))
    units = (*relu(x, "side"), *relu(x - H, "side", -1.0), *_distance(numbers))
    return Lowered(units, numbers.min_gap, True, True)


def weigh(tilt: Affine, failures: Affine, range_: float, head: int, numbers: Numbers) -> tuple[Unit, ...]:
    """Attention that a node divides between itself, at m, and whoever does not fail, at m + tilt."""
    m = numbers.margin
    # relu() is 0.9999 of a ReLU, which would weigh m against 0.9999 m: here the factor is taken out.
    exact = 1 / (1 - LEAK**2)
    candidate = (tilt + m) - 2 * (m + range_) * failures
    units = (*relu(candidate, "sender", exact), *_tent(numbers))
    return tuple(replace(unit, head=head) for unit in units)


def between_two(tilt: Affine, ends: tuple[Affine, Affine], range_: float, numbers: Numbers) -> tuple[Unit, ...]:
    """Attention to one of two nodes: the second where the tilt is 2 m or more, the first where it is -2 m or less.

    Args:
        tilt: a form over the graph and me.
        ends: 0 at the first node and 1 or more elsewhere; the same of the second; both read at `other`.
        range_: what the tilt never exceeds.
        numbers: the sizes and gaps.
    """
    stands, (not_first, not_second) = 2 * numbers.margin, ends
    return (
        *relu(Affine(constant=stands) - 2 * stands * not_first, "first"),
        *relu(tilt + stands - 2 * (range_ + stands) * not_second, "second"),
    )


def _by_value(program: GraphProgram, select: Select, reader: Reader, numbers: Numbers) -> Lowered:
    """The smallest or largest key, strictly better than the bound."""
    if select.bound is None:
        raise NotExpressible(
            f"Select '{select}' compares values without a bound; the node's own value must be one to improve on. "
            f"Add below= or above=, e.g. below=me.value."
        )
    sign = 1.0 if select.kind == SelectKind.ARGMIN else -1.0
    improvement = sign * (reader.lower(select.bound) - reader.lower(select.key))
    span, resolution, node_key = _precision_of_key(program, select, numbers)
    ties = numbers.tent_is_exact and resolution >= numbers.finest_with_ties(span) * (1 - 1e-9)
    m, tie_slope = numbers.margin, 1.05 * numbers.self_slope if ties else 0.0
    own, own_range = (_tent(numbers), m) if numbers.tent_is_exact else (_distance(numbers), numbers.self_slope)
    C = 2 * (m + own_range + tie_slope) / resolution  # half the resolution is the dead band
    form = C * (improvement - resolution / 2) - 2 * C * span * _failures(select, reader)
    units = (*relu(form, "candidate"), *own)
    if ties:
        full = C * resolution / 2  # where the smallest candidate stands
        ramp = (tie_slope / full) * form - tie_slope
        units += relu(ramp + tie_slope * position("other"), "tie", -1.0) + relu(ramp, "tie", 1.0)
    return Lowered(units, resolution, ties, node_key)


def _of_two_offers(program: GraphProgram, select: Select, reader: Reader, numbers: Numbers) -> Lowered:
    """The best min(a, b): F = min(p, q) + relu(-q) is p - relu(p - q) + relu(-q).

    It is the improvement for candidates, at most 0 for everybody else, and exactly 0 for the node itself, where p = 0.
    Equal offers are common (a bottleneck is shared by many ways), so lower nodes are preferred by a linear term that is
    0 for the node itself, whose tent then stands above all that the term can give to others.
    """
    storage = next((s for s in reader.storages.values() if isinstance(s, Relaxation) and len(s.offers) == 2), None)
    if storage is None or conjuncts(select.where) or select.bound is None:
        raise NotExpressible(
            f"Select '{select}': a key of two offers needs a bound, no where, and an update that takes the offer; "
            f"an offer that may not be taken must be worth no more than the bound instead."
        )
    sign = 1.0 if select.kind == SelectKind.ARGMAX else -1.0
    bound = reader.lower(select.bound)
    p, q = (sign * (_as_candidate(reader.lower(offer)) - bound) for offer in storage.offers)
    span, resolution, _ = _precision_of_key(program, select, numbers, factor=128.0)
    _check_precision(select, numbers, resolution, span, numbers.finest_with_ties(span) / numbers.roundoff / span)
    m, tie_slope = numbers.margin, 1.05 * numbers.self_slope
    C = (4 * m + 3 * tie_slope) / resolution
    closed = 2 * C * span * (Affine(constant=1.0) - Affine({Feature("edge", "adj"): 1.0}))
    linear = C * p - closed - tie_slope * (position("other") - position("me"))
    scale = 1 / (1 + LEAK)
    units = (
        Unit(linear, scale, "offer"),
        Unit(-linear, -scale, "offer"),
        Unit(C * (p - q), -1.0, "offer"),
        Unit(-C * q, 1.0, "offer"),
        *_tent(numbers, m + tie_slope),
    )
    return Lowered(units, resolution, True, False)


def _as_candidate(form: Affine) -> Affine:
    """A form over what the chosen sender says, as a form over what any neighbour says."""
    moved = {"sender": "other", "sender_edge": "edge"}
    return Affine({f._replace(place=moved.get(f.place, f.place)): c for f, c in form.terms.items()}, form.constant)


def _failures(select: Select, reader: Reader) -> Affine:
    """How many of the select's conditions fail; being no neighbour is one of them."""
    failures = Affine(constant=1.0) - Affine({Feature("edge", "adj"): 1.0})
    for literal in conjuncts(select.where):
        read = literal.inner if isinstance(literal, Not) else literal
        if not isinstance(read, Read) or not is_truth(reader.program, read):
            raise NotExpressible(
                f"'{literal}' in the where of {select.name!r}: only truth values joined by & can close a select; "
                f"keep the comparison in a Bool variable."
            )
        value = reader.lower(read)
        failures = failures + (value if isinstance(literal, Not) else Affine(constant=1.0) - value)
    return failures


def _precision_of_key(
    program: GraphProgram, select: Select, numbers: Numbers, factor: float = 16.0
) -> tuple[float, float, bool]:
    """The span of a key, the resolution it gets, and whether it is made of nodes."""
    reads = [part for part in walk(select.key) if isinstance(part, Read)]
    states = {v.name: v for v in program.state}
    keys = [states[r.name] for r in reads if r.name in states]
    if reads and all(r.name == "id" or isinstance(states.get(r.name), Node) for r in reads):
        _check_precision(select, numbers, numbers.min_gap, 1.0, factor)
        return 1.0, numbers.min_gap, True
    low, high = interval(select.bound, program) if select.bound is not None else (0.0, 0.0)
    least, most = interval(select.key, program)
    # What can be improved by, and the widest range behind it.
    gain = most - low if select.kind == SelectKind.ARGMAX else high - least
    span = max([gain, *(b - a for a, b in (value_range(v) for v in keys))])
    declared = [v.resolution for v in keys if isinstance(v, Real) and v.resolution is not None]
    ample = numbers.roundoff < 1e-12  # double precision has room to break ties as well
    # Equal offers of two parts would be averaged part by part, which is no offer: their ties must be broken.
    shared = isinstance(select.key, Extreme)
    finest = numbers.finest_with_ties(span) if ample or shared else numbers.finest(span, factor)
    resolution = min(declared) if declared else finest
    _check_precision(select, numbers, resolution, span, factor)
    return span, resolution, False


def _check_precision(select: Select, numbers: Numbers, resolution: float, span: float, factor: float) -> None:
    least = numbers.finest(span, factor)
    if resolution < least * (1 - 1e-9):
        raise PrecisionError(
            f"'{select.key}' of select {select.name!r} must be resolved to {resolution:.3g} over a range of {span:g}, "
            f"but {numbers.dtype} resolves {least:.3g} there (n <= {numbers.max_nodes}). Use dtype='float64', a "
            f"smaller range, a coarser resolution, or fewer nodes."
        )


def position(place: str) -> Affine:
    """A node's position."""
    return Affine({Feature(place, "pos"): 1.0})


def relu(form: Affine, role: str, weight: float = 1.0) -> tuple[Unit, Unit]:
    """weight * 0.9999 relu(form): leaky(x) + 0.01 leaky(-x) is exactly 0 below 0."""
    return Unit(form, weight, role), Unit(-form, LEAK * weight, role)


def _distance(numbers: Numbers) -> tuple[Unit, ...]:
    """-0.99 K |pos_i - pos_j| / 0.99."""
    x = (numbers.self_slope / (1 - LEAK)) * (position("other") - position("me"))
    return Unit(x, -1.0, "self"), Unit(-x, -1.0, "self")


def _tent(numbers: Numbers, height: float | None = None) -> tuple[Unit, ...]:
    """m on the node itself and 0 from a position gap on: [leaky(x + m) - 2 leaky(x) + leaky(x - m)] / 0.99."""
    m = (height or numbers.margin) / (1 - LEAK)
    x = (m / numbers.min_gap) * (position("other") - position("me"))
    return Unit(x + m, 1.0, "self"), Unit(x, -2.0, "self"), Unit(x - m, 1.0, "self")
