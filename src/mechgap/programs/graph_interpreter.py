"""What a graph program means: plain NumPy, one step after the other."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from mechgap.algorithms.inputs import checked_inputs
from mechgap.programs.expressions import (
    And,
    Classes,
    Constant,
    Equal,
    Expression,
    Extreme,
    IsMe,
    Kept,
    Less,
    Not,
    Or,
    Product,
    Read,
    Scaled,
    Sum,
    When,
    conjuncts,
    places,
    replaced,
)
from mechgap.programs.graph import Bool, Enum, GraphProgram, Node, Real, Select, SelectKind
from mechgap.trace import Kind, Location, Stage, Trace, make_trace

Values = dict[str, np.ndarray]


class Interpretation(Trace):
    """A trace, and how its selects decided; `attention` is α*, [T-1, 1, B, selects, N, N].

    Attributes:
        decisive: [T-1, selects, B, N], whether the row had a candidate, so that information could move.
        margins: [T-1, selects, B, N], by how much a decisive row's choice won: over the next key that differs, and over
            the bound. Infinite where nothing was decided.
        tied: [T-1, selects, B, N], whether the choice was made among equal keys.
        equivalents: name -> α* of the same shape as `attention` with other choices on idle rows, as `Select.idle` says.
        closest: comparison, as it reads at me -> [T-1, B, N], how far apart the two numbers were; infinite if equal.
        marked: [T-1, B], how many nodes had what a sender must have whose edge is read, at most.
    """

    decisive: Any = None
    margins: Any = None
    tied: Any = None
    equivalents: Any = None
    closest: Any = None
    marked: Any = None


def interpret(program: GraphProgram, inputs: Mapping[str, Any], steps: int | None = None) -> Interpretation:
    """Execute a program on a batch; see `GraphProgram.interpret`."""
    if steps is not None and steps < 1:
        raise ValueError(f"steps counts frames, of which the first is given: 1 or more; got {steps}.")
    given = checked_inputs(program.name, program.spec, inputs)
    batch, n = given["pos"].shape
    env = _environment(given)
    before = _Step(program, env, {})
    init = {v: np.broadcast_to(_evaluate(v.init, before), (batch, n, 1)) for v in program.state}
    start = {f"me.{v.name}": _typed(v, x) for v, x in init.items()}
    start |= {f"{read}": _kept(read, hint.start, before) for read, hint in program.memory.items()}
    frames, records, lengths = [start], [], np.ones(batch, int)
    most = steps if steps is not None else (n + 2) ** 2
    while len(frames) < most:
        frame, record = _step(program, env, frames[-1])
        changed = np.any([np.any(frame[k] != frames[-1][k], axis=(1, 2)) for k in frame], axis=0)
        if steps is None and not changed.any():
            break
        lengths = np.where(changed, len(frames) + 1, lengths)
        frames.append(frame)
        records.append(record)
    if steps is None and len(frames) == most:
        raise ValueError(f"Program {program.name!r} does not settle within {most} steps on n = {n}; give steps=.")
    lengths = lengths if steps is None else np.full(batch, steps)
    return _record(program, given, env, frames, records, lengths.astype(float))


def _environment(given: Values) -> Values:
    """What never changes, under the places where it is read; nodes are [B, n, 1] for me and [B, 1, n] for other."""
    env: Values = {}
    for name, x in given.items():
        place = {1: "graph", 2: "me", 3: "edge"}[x.ndim]
        env[f"{place}.{name}"] = x.reshape(*x.shape, *(1,) * (3 - x.ndim))
    return env | {"me.id": np.broadcast_to(np.arange(given["pos"].shape[1])[None, :, None], (*given["pos"].shape, 1))}


class _Step(dict):
    """Everything that can be read during a step, by place; what is not there yet is worked out when it is asked for."""

    def __init__(self, program: GraphProgram, constant: Values, frame: Values):
        super().__init__(constant | frame)
        self.selects = {select.name: select for select in program.selects}
        self.lets = {let.name: let for let in program.lets}
        self.program = program
        self.closest: dict[str, np.ndarray] = {}
        self.marked = np.zeros(len(constant["me.pos"]), int)
        self.records: dict[str, dict[str, np.ndarray]] = {}

    def __missing__(self, key: str) -> np.ndarray:
        self[key] = value = self._worked_out(key)
        return value

    def _worked_out(self, key: str) -> np.ndarray:
        if key.endswith(" is me"):
            return ~self.record(key.removesuffix(" is me"))["decisive"][..., None]
        place, _, name = key.rpartition(".")
        match place:
            case "other":
                return np.swapaxes(self[f"me.{name}"], 1, 2)
            case "back_edge":
                return np.swapaxes(self[f"edge.{name}"], 1, 2)
            case "graph":  # a hint of the frame before, which is what its state shows
                return _of_all(_evaluate(dict(self.program.hints)[name], self), self)
            case "me":
                let = self.lets[name]
                return _typed(let, np.broadcast_to(_evaluate(let.init, self), self["me.pos"].shape))
        select = self.selects[place.removesuffix(".edge")]
        if name == "found":
            return self.record(select.name)["decisive"][..., None]
        if place.endswith(".edge"):  # an edge to nobody weighs nothing
            self._count_marks(select)
            return self._heard(select, self[f"edge.{name}"]) * self.record(select.name)["decisive"][..., None]
        return self._heard(select, self[f"other.{name}"])

    def record(self, name: str) -> dict[str, np.ndarray]:
        """How a select decided."""
        if name not in self.records:
            self.records[name] = _choose(self.program, self.selects[name], self)
        return self.records[name]

    def compare(self, comparison: Less, a: Any, b: Any) -> Any:
        """a < b, and by how much it was not otherwise; nodes are no numbers."""
        at = places(comparison)
        of_one_node = at == {"other"} or not at & {"other", "edge", "back_edge"}
        if np.result_type(a, b).kind == "f" and of_one_node:
            apart = np.where(a == b, np.inf, np.abs(a - b))
            apart = np.swapaxes(apart, 1, 2) if at == {"other"} else apart
            self.closest[str(replaced(comparison, "other", "me"))] = np.broadcast_to(apart, self["me.pos"].shape)[
                ..., 0
            ]
        return a < b

    def _count_marks(self, select: Select) -> None:
        asked = [c for c in conjuncts(select.where) if places(c) == {"other"}]
        batch, n, _ = self["me.pos"].shape
        marks = [np.broadcast_to(_evaluate(c, self) != 0, (batch, 1, n)) for c in asked]
        if marks:
            self.marked = np.maximum(self.marked, np.all(marks, axis=0).sum(axis=(1, 2)))

    def _heard(self, select: Select, x: np.ndarray) -> np.ndarray:
        """What a node hears of a value [B, 1 or n, n]: the chosen sender's, [B, n, 1], or the average."""
        attention = self.record(select.name)["attention"]
        full = np.broadcast_to(x, attention.shape)
        if select.kind == SelectKind.MEAN:
            return np.sum(attention * full, axis=-1, keepdims=True)
        return np.take_along_axis(full, np.argmax(attention, axis=-1)[..., None], axis=-1)


def _step(program: GraphProgram, constant: Values, frame: Values) -> tuple[Values, dict[str, Any]]:
    env = _Step(program, constant, frame)
    new = {name: _evaluate(update, env) for name, update in program.updates}
    records: list[dict[str, np.ndarray]] = []
    for select in program.selects:
        record = env.record(select.name)
        elsewhere = {f"idle {other.name}": _choose(program, other, env)["attention"] for other in select.idle}
        busy = record["decisive"][..., None]
        records.append(record | {k: np.where(busy, record["attention"], x) for k, x in elsewhere.items()})
    state = {f"me.{v.name}": _typed(v, np.broadcast_to(new[v.name], env["me.pos"].shape)) for v in program.state}
    after = _Step(program, constant, frame | state)  # a memory becomes something of what it was and of the new state
    memory = {f"{read}": _kept(read, hint.then, after) for read, hint in program.memory.items()}
    # A select without a choice of some name keeps its own α* there.
    keys = dict.fromkeys(key for r in records for key in r)
    stacked = {key: np.stack([r.get(key, r["attention"]) for r in records], axis=1) for key in keys}
    return state | memory, stacked | {"closest": env.closest, "marked": env.marked}


def _kept(read: Read, expression: Expression, env: _Step) -> np.ndarray:
    """A hint's memory: truth values of edges, [B, n, n], or one truth value or number of the graph, [B, 1, 1]."""
    batch, n, _ = env["me.pos"].shape
    value = _evaluate(expression, env)
    value = np.broadcast_to(value, (batch, n, n)) if read.place == Location.EDGE else _of_all(value, env)
    if env.program.spec[read.name].kind == Kind.MASK:
        return value != 0
    low, high = dict(env.program.weights).get(read.name, (-np.inf, np.inf))
    hint = f"weights={{{read.name!r}: (low, high)}}"
    return _inside(read.name, low, high, value.astype(float), f" Declare a larger range: {hint}.")


def _of_all(value: np.ndarray, env: _Step) -> np.ndarray:
    """What the graph shows of its nodes, [B, 1, 1]: all know it, or who knows it knows most."""
    return np.broadcast_to(value, env["me.pos"].shape).max(1, keepdims=True)


def _choose(program: GraphProgram, select: Select, env: _Step) -> dict[str, np.ndarray]:
    """The attention rows of one select, [B, n, n], and how they were decided."""
    batch, n = env["me.pos"].shape[:2]
    shape = (batch, n, n)
    joined = np.ones(shape, bool) if program.full else env["edge.adj"] != 0
    candidate = joined & (np.broadcast_to(_evaluate(select.where, env), shape) != 0)
    sign = -1.0 if select.kind == SelectKind.ARGMAX else 1.0
    key = sign * np.broadcast_to(np.asarray(_evaluate(select.key, env), float), shape)
    if select.kind in (SelectKind.MATCH, SelectKind.ANY):
        candidate, key = candidate & (key != 0), np.zeros(shape)
    elif select.kind == SelectKind.ALL:
        candidate, key = candidate & (key == 0), np.zeros(shape)  # somebody for whom it does not hold
    bound = None if select.bound is None else sign * np.broadcast_to(_evaluate(select.bound, env), shape)
    if bound is not None:
        _check_infinite(program, select, key, bound, candidate)
        candidate = candidate & (key < bound)
    decisive = candidate.any(-1)
    if select.kind == SelectKind.MEAN:
        weights = np.where(decisive[..., None], candidate, np.eye(shape[-1]))
        attention = weights / weights.sum(-1, keepdims=True)
        return {
            "attention": attention,
            "decisive": decisive,
            "margins": np.where(decisive, 1.0, np.inf),
            "tied": ~decisive & False,
        }
    masked = np.where(candidate, key, np.inf)
    best = masked.min(-1)
    winner = np.where(decisive, np.argmin(masked, axis=-1), np.arange(shape[-1]))  # the lowest of equal keys
    second = np.where(masked > best[..., None], masked, np.inf).min(-1)
    with np.errstate(invalid="ignore"):
        margin = second - best if bound is None else np.minimum(second, bound[..., 0]) - best
    tied = decisive & ((masked == best[..., None]).sum(-1) > 1)
    attention = (winner[..., None] == np.arange(shape[-1])).astype(float)
    return {"attention": attention, "decisive": decisive, "margins": np.where(decisive, margin, np.inf), "tied": tied}


def _check_infinite(program: GraphProgram, select: Select, key: Any, bound: Any, candidate: Any) -> None:
    """A key that reaches a range's end which stands for infinity would be lost silently."""
    if not (isinstance(select.bound, Read) and select.bound.place == "me"):
        return
    variable = next((v for v in program.state if v.name == select.bound.name), None)
    if isinstance(variable, Real) and variable.high_is_infinite:
        lost = candidate & (bound >= variable.high) & (key >= variable.high)
        if lost.any():
            raise RangeError(
                f"Program {program.name!r}: {variable.name!r} is declared Real[{variable.low:g}, {variable.high:g}], "
                f"but '{select.key}' reaches {np.min(key[lost]):.6g}. "
                f"Declare a larger range, e.g. max_distance={2 * np.max(key[lost]):.3g}."
            )


class RangeError(ValueError):
    """A value left the range that its variable declares."""


def _evaluate(expression: Expression, env: _Step) -> Any:
    value = partial(_evaluate, env=env)  # tests check functions' types, which takes long where every call makes one
    match expression:
        case Constant(x):
            return np.asarray(x)
        case Read(place, name):
            return env[f"{place}.{name}"]
        case IsMe(select):
            return env[f"{select} is me"]
        case Sum(a, b):
            return value(a) * 1.0 + value(b)
        case Scaled(factor, a):
            return factor * value(a)
        case Product(a, b):
            return value(a) * 1.0 * value(b)
        case Less(a, b):
            return env.compare(expression, value(a), value(b))
        case Equal(a, b):
            return value(a) == value(b)
        case Not(a):
            return value(a) == 0
        case And(a, b):
            return (value(a) != 0) & (value(b) != 0)
        case Or(a, b):
            return (value(a) != 0) | (value(b) != 0)
        case Extreme(sign, a, b):
            return np.minimum(value(a), value(b)) if sign > 0 else np.maximum(value(a), value(b))
        case When(condition, a, b):
            return np.where(value(condition) != 0, value(a), value(b))
        case Classes(parts):
            return np.concatenate([np.broadcast_to(value(p) != 0, env["me.pos"].shape) for p in parts], axis=-1)
    raise TypeError(f"No meaning for {expression!r}.")


def _typed(variable: Any, value: np.ndarray) -> np.ndarray:
    match variable:
        case Bool():
            return value != 0
        case Node():
            return value.astype(int)
        case Enum():
            return value.astype(int)
        case Real():
            return _inside(variable.name, variable.low, variable.high, value.astype(float))
    raise TypeError(f"No such type: {variable!r}.")


def _inside(name: str, low: float, high: float, value: np.ndarray, advice: str = "") -> np.ndarray:
    if np.any(value < low) or np.any(value > high):
        worst = value[(value < low) | (value > high)].ravel()[0]
        raise RangeError(f"{name!r} is declared Real[{low:g}, {high:g}], but becomes {worst:.6g}.{advice}")
    return value


def _record(
    program: GraphProgram, given: Values, env: Values, frames: list, records: list, lengths: Any
) -> Interpretation:
    batch, n = given["pos"].shape
    inside = np.arange(len(frames))[:, None] < lengths

    def shown(stage: Stage, pairs: Any, frame: Values) -> Values:
        here = _Step(program, env, frame)
        values = {}
        for name, value in pairs:
            variable = program.spec[name]
            x = here[f"{variable.location}.{name}"] if isinstance(value, Kept) else _evaluate(value, here)
            if variable.location == Location.GRAPH:
                x = x.max(1) if variable.kind == Kind.CATEGORICAL else _of_all(x, here)[:, 0, 0]
            elif variable.location == Location.EDGE:
                x = np.broadcast_to(x, (batch, n, n))
            elif variable.kind != Kind.CATEGORICAL:
                x = np.broadcast_to(x, (batch, n, 1))[..., 0]
            if variable.kind == Kind.PERMUTATION_POINTER:
                x = x[..., None] == np.arange(n)
            values[name] = x.astype(int if variable.kind == Kind.POINTER and stage == Stage.OUTPUT else float)
        return values

    hints = [shown(Stage.HINT, program.hints, frame) for frame in frames]
    stacked = {}
    for name in hints[0]:
        x = np.stack([h[name] for h in hints])
        stacked[name] = x * inside.reshape(inside.shape + (1,) * (x.ndim - 2))
    outputs = shown(Stage.OUTPUT, program.outputs, frames[-1])
    trace = make_trace(program.spec, given, stacked, outputs, lengths)
    empty = (0, batch, len(program.selects), n)
    decided: dict[str, Any] = {
        k: np.swapaxes(np.stack([r[k] for r in records]) if records else np.zeros(empty), 1, 2)
        for k in ("decisive", "margins", "tied")
    }
    nothing = np.zeros((0, 1, *empty[1:], n))
    names = {f"idle {other.name}": other.name for select in program.selects for other in select.idle}
    looks = {k: np.stack([r[k] for r in records])[:, None] if records else nothing for k in ("attention", *names)}
    fields: dict[str, Any] = {name: getattr(trace, name) for name in ("spec", "inputs", "hints", "outputs", "lengths")}
    equivalents = {name: looks[key] for key, name in names.items()}
    comparisons = records[0]["closest"] if records else ()
    closest = {comparison: np.stack([r["closest"][comparison] for r in records]) for comparison in comparisons}
    marked = np.stack([r["marked"] for r in records]) if records else np.zeros((0, batch), int)
    fields |= {"attention": looks["attention"], "equivalents": equivalents, "closest": closest, "marked": marked}
    return Interpretation(**fields, **decided)
