"""What an ALTA program means: plain NumPy, all positions of all sequences at once, one layer after the other."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechgap.programs.alta import AltaProgram, Categorical, Head, Numeric, Rule, SetOf, Variable

UNDEFINED = -1  # of a class or a set; a number that is undefined is NaN
LARGEST_TABLE, LARGEST_CODE = 2**22, 2**62
LookUp = Callable[[list[np.ndarray]], np.ndarray]
Stream = dict[str, np.ndarray]  # name -> [B, L]: the class, the number, or the index of the set


class UndefinedError(ValueError):
    """A rule read the output of a head that had selected nothing, or different values."""


@dataclass(frozen=True)
class AltaTrace:
    """Executions of a batch of sequences.

    Attributes:
        program: what was executed.
        lengths: [B], of the sequences; the arrays are as long as the longest.
        attended: per layer, the residual stream between attention and rules.
        streams: the residual stream before the first layer, then after every layer.
        used_undefined: per layer [B, L], where a rule read an undefined value, all its other tests holding.
        layers: [B], how many layers each execution took.
        halted: [B], whether it ended by itself.
    """

    program: AltaProgram
    lengths: np.ndarray
    attended: tuple[Stream, ...]
    streams: tuple[Stream, ...]
    used_undefined: tuple[np.ndarray, ...]
    layers: np.ndarray
    halted: np.ndarray

    @property
    def outputs(self) -> list[list[int]]:
        """The output variable at every position, of every sequence."""
        last = self.streams[-1][self.program.output]
        return [last[i, :n].tolist() for i, n in enumerate(self.lengths)]

    def check(self) -> None:
        """Raise where an undefined value was used, or where an execution did not end."""
        for layer, used in enumerate(self.used_undefined):
            if used.any():
                sample, position = np.argwhere(used)[0]
                readable, seen = self.program.readable, self.attended[layer]
                nothing = {n: members_of(readable[n], seen[n])[sample, position] for n in sorted(self.program.nullable)}
                undefined = [name for name, member in nothing.items() if member == UNDEFINED]
                where = f"in layer {layer + 1}, at position {position} of sequence {sample},"
                raise UndefinedError(
                    f"Program {self.program.name!r}: {where} a rule reads an undefined value; undefined there: "
                    f"{', '.join(undefined)}. A head is undefined where it selects nothing, or different "
                    f"values, or a mean halfway between two buckets: test first whether there is something to read."
                )
        if self.program.halt is not None and not self.halted.all():
            sample = int(np.argmin(self.halted))
            raise ValueError(
                f"Program {self.program.name!r} has not ended after {int(self.layers[sample])} layers on sequence "
                f"{sample}: {self.program.halt[0]} is not {self.program.halt[1]} everywhere. Give more layers."
            )


def interpret(program: AltaProgram, inputs: Any, layers: int | None = None) -> AltaTrace:
    """Execute a program on one sequence of input ids or a list of them; see `AltaProgram.interpret`."""
    ids, lengths = batched(program, inputs)
    most = program.layers if layers is None else layers
    inside = np.arange(ids.shape[1]) < lengths[:, None]
    rules = _Tables(program)
    stream = _initial(program, ids)
    streams, used = [stream], []
    attended: list[Stream] = []
    done = _ended(program, stream, inside)
    taken = np.zeros(len(ids), int)
    while len(attended) < most and not done.all():
        seen = stream | {h.name: _attend(program, h, stream, inside) for h in program.heads}
        written, wrong = rules.apply(seen)
        running = ~done[:, None]
        stream = {v.name: np.where(running, written[v.name], stream[v.name]) for v in program.variables}
        attended.append(seen)
        used.append(wrong & inside & running)
        streams.append(stream)
        taken += ~done
        done = done | _ended(program, stream, inside)
    return AltaTrace(program, lengths, tuple(attended), tuple(streams), tuple(used), taken, done)


def batched(program: AltaProgram, inputs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of input ids as one array, zeros at the end of the shorter ones, and their lengths."""
    rows = [list(row) for row in inputs] if _is_nested(inputs) else [list(inputs)]
    if not rows or any(not row for row in rows):
        raise ValueError(f"Program {program.name!r} needs at least one input id per sequence; got an empty sequence.")
    for row in rows:
        bad = [x for x in row if not (isinstance(x, int | np.integer) and 0 <= x < program.input_size)]
        if bad:
            raise ValueError(f"Input ids of {program.name!r} are 0..{program.input_size - 1}; got {bad[0]!r}.")
        if program.positions is not None and len(row) > program.positions:
            raise ValueError(
                f"Program {program.name!r} has {program.positions} positions; got a sequence of {len(row)}. "
                f"Build it with more positions."
            )
    lengths = np.array([len(row) for row in rows])
    ids = np.zeros((len(rows), lengths.max()), int)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids, lengths


def selected(program: AltaProgram, head: Head, stream: Stream, inside: np.ndarray) -> np.ndarray:
    """Where a head looks: [B, L, L] of bools, the position that looks before the one that is looked at.

    Args:
        stream: before the layer, `AltaTrace.streams[layer]`.
        inside: [B, L], which positions belong to their sequence.
    """
    batch, length = inside.shape
    found = np.broadcast_to(inside[:, None, :], (batch, length, length))
    here = np.arange(length)
    if head.query is not None and head.key is not None:
        found = found & _matches(program.variable(head.query), stream[head.query], stream[head.key])
    if head.relative:
        found = found & np.isin(here[None, :] - here[:, None], sorted(head.relative))
    if program.causal:
        found = found & (here[None, :] <= here[:, None])
    return found


def fired(program: AltaProgram, seen: Stream) -> np.ndarray:
    """Which rules fire: [rules, B, L] of bools, true where all tests of a rule hold; an undefined value holds in none.

    A rule fires also where the target has the rule's value already. All that is in the arrays is looked at: where
    sequences differ in length or in how many layers they take, what counts in layer k = 0, 1, ... is only
    `(k < trace.layers)[:, None] & (np.arange(L) < trace.lengths[:, None])`.

    Args:
        seen: the residual stream between attention and rules, `AltaTrace.attended[k]`.
    """
    tests: dict[str, dict[int, frozenset[int]]] = {}  # by variable, then by rule
    for number, rule in enumerate(program.rules):
        for name, members in rule.tests:
            tests.setdefault(name, {})[number] = members
    readable = program.readable
    holds = np.ones((len(program.rules), *next(iter(seen.values())).shape), bool)
    for name, members_by_rule in tests.items():
        variable = readable[name]
        passes = np.zeros((len(members_by_rule), len(variable.domain) + 1), bool)  # the last column is UNDEFINED's
        for row, members in zip(passes, members_by_rule.values(), strict=True):
            row[list(members)] = True
        holds[list(members_by_rule)] &= passes[:, members_of(variable, seen[name])]
    return holds


def bucket_of(variable: Numeric, x: np.ndarray) -> np.ndarray:
    """The index of the nearest bucket; -1 for NaN, and halfway between two."""
    middles = np.array(variable.middles)
    found = np.searchsorted(middles, x)
    between = np.any(np.abs(x[..., None] - middles) < np.array(variable.tolerances), axis=-1)
    return np.where(np.isnan(x) | between, UNDEFINED, found)


def members_of(variable: Variable, x: np.ndarray) -> np.ndarray:
    """What rules see of a variable: the index in its domain, -1 where it is undefined."""
    return bucket_of(variable, x) if isinstance(variable, Numeric) else x


def _initial(program: AltaProgram, ids: np.ndarray) -> Stream:
    def start(variable: Variable) -> np.ndarray:
        init = variable.init
        if init.by_input is not None:
            return np.array([_stored(variable, v) for v in init.by_input])[ids]
        if init.by_position is not None:
            values = np.array([_stored(variable, v) for v in init.by_position])
            return np.broadcast_to(values[: ids.shape[1]], ids.shape)
        return np.full(ids.shape, _stored(variable, init.constant))

    return {v.name: start(v) for v in program.variables}


def _stored(variable: Variable, value: Any) -> Any:
    match variable:
        case SetOf():
            return variable.sets.index(value)
        case Numeric():
            return float(value)
        case _:
            return int(value)


def _attend(program: AltaProgram, head: Head, stream: Stream, inside: np.ndarray) -> np.ndarray:
    """A head's output: the value it selects, or undefined where there is none, or more than one."""
    looked_at = selected(program, head, stream, inside)
    value = stream[head.value][:, None, :]
    count = looked_at.sum(-1)
    if isinstance(program.variable(head.value), Numeric):
        total = np.where(looked_at, value, 0.0).sum(-1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)
    lowest = np.where(looked_at, value, np.iinfo(int).max).min(-1)
    highest = np.where(looked_at, value, -1).max(-1)
    return np.where((count > 0) & (lowest == highest), highest, UNDEFINED)


def _matches(query: Variable, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    if isinstance(query, Categorical):
        return queries[:, :, None] == keys[:, None, :]
    assert isinstance(query, SetOf)
    members = np.array([[i in s for i in range(query.size)] for s in query.sets])  # [sets, size]
    return members[queries[:, :, None], keys[:, None, :]]


def _ended(program: AltaProgram, stream: Stream, inside: np.ndarray) -> np.ndarray:
    if program.halt is None:
        return np.zeros(len(inside), bool)
    name, value = program.halt
    return np.all((stream[name] == value) | ~inside, axis=1)


class _Tables:
    """Rules as tables: all rules that test the same variables and write the same one are one look-up.

    A table has an entry per combination of the variables' values, undefined included: the new value, nothing, or that
    an undefined value was read. Where the combinations are too many, only those that some rule names are kept, sorted;
    where these are, the rules are tried one by one.
    """

    NOTHING, USED = -1, -2

    def __init__(self, program: AltaProgram):
        self.program, self.readable = program, program.readable
        groups: dict[tuple[str, tuple[str, ...]], list[Rule]] = {}
        for rule in program.rules:
            groups.setdefault((rule.target, tuple(name for name, _ in rule.tests)), []).append(rule)
        self.tables = [(target, names, *self._table(names, rules)) for (target, names), rules in groups.items()]

    def apply(self, seen: Stream) -> tuple[Stream, np.ndarray]:
        """What all rules write, and where one read something undefined."""
        members = {name: members_of(v, seen[name]) for name, v in self.readable.items()}
        written = dict(seen)
        used = np.zeros(next(iter(seen.values())).shape, bool)
        for target, names, values, look_up in self.tables:
            found = np.broadcast_to(look_up([members[name] + 1 for name in names]), used.shape)
            used |= found == self.USED
            written[target] = np.where(found >= 0, values[np.maximum(found, 0)], written[target])
        return written, used

    def _table(self, names: tuple[str, ...], rules: list[Rule]) -> tuple[np.ndarray, LookUp]:
        """The values that rules write, and (members + 1 of every variable) -> which of them, or NOTHING, or USED."""
        sizes = [len(self.readable[name].domain) + 1 for name in names]  # 0 is undefined
        values = np.array([_stored(self.readable[rule.target], rule.value) for rule in rules])
        parts = [(places, entry) for i, rule in enumerate(rules) for places, entry in self._entries(names, rule, i)]
        named = sum(math.prod(len(x) for x in places) for places, _ in parts)
        if math.prod(sizes) <= LARGEST_TABLE:
            table = np.full(sizes, self.NOTHING, np.int32)
            for places, entry in parts:
                table[np.ix_(*places)] = entry
            return values, lambda members: table[tuple(members)]
        if math.prod(sizes) < LARGEST_CODE and named <= LARGEST_TABLE:
            return values, self._sorted(parts, sizes)
        return values, lambda members: self._one_by_one(parts, members)

    def _sorted(self, parts: list[tuple[list[np.ndarray], int]], sizes: list[int]) -> LookUp:
        codes = [_codes(places, sizes) for places, _ in parts]
        entries = np.repeat([entry for _, entry in parts], [len(c) for c in codes])
        known, first = np.unique(np.concatenate(codes), return_index=True)
        entries = entries[first]

        def look_up(members: list[np.ndarray]) -> np.ndarray:
            code = np.zeros(members[0].shape, int)
            for member, size in zip(members, sizes, strict=True):
                code = code * size + member
            at = np.minimum(np.searchsorted(known, code), len(known) - 1)
            return np.where(known[at] == code, entries[at], self.NOTHING)

        return look_up

    def _one_by_one(self, parts: list[tuple[list[np.ndarray], int]], members: list[np.ndarray]) -> np.ndarray:
        found = np.full(members[0].shape, self.NOTHING)
        for places, entry in parts:
            holds = np.all([np.isin(m, place) for m, place in zip(members, places, strict=True)], axis=0)
            found = np.where(holds, entry, found)
        return found

    def _entries(self, names: tuple[str, ...], rule: Rule, index: int) -> Iterator[tuple[list[np.ndarray], int]]:
        """Where a rule fires; and where it would read something undefined, its other tests holding or undefined too."""
        tests = dict(rule.tests)
        holds = [np.array([m + 1 for m in sorted(tests[name])]) for name in names]
        yield holds, index
        nullable = [name in self.program.nullable for name in names]
        for axis, may_be in enumerate(nullable):
            if may_be:
                reads = [np.append(h, 0) if n else h for h, n in zip(holds, nullable, strict=True)]
                reads[axis] = np.array([0])
                yield reads, self.USED


def _codes(places: list[np.ndarray], sizes: list[int]) -> np.ndarray:
    """The combinations of some values of every variable, as numbers with a digit for each."""
    code = np.zeros(1, int)
    for values, size in zip(places, sizes, strict=True):
        code = (code[:, None] * size + values).ravel()
    return code


def _is_nested(inputs: Any) -> bool:
    return (
        isinstance(inputs, Sequence | np.ndarray) and len(inputs) > 0 and isinstance(inputs[0], Sequence | np.ndarray)
    )
