"""Minimal programs: what of an ALTA program some inputs need, and what could be left out (ALTA B.3, C.2).

A program may answer right on all inputs, and still hold rules that no training set shows. What is left when these are
taken away is what can be learned from that set at best: if it fails on other inputs, no supervision by these traces
can be expected to succeed there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mechgap.programs import program as look_up
from mechgap.programs.alta import AltaProgram, Categorical, Init, Numeric, Rule, SetOf, Variable
from mechgap.programs.alta_interpreter import UNDEFINED, AltaTrace, batched, members_of
from mechgap.programs.alta_rules import member_value, plain

TOGETHER = 256  # sequences that are interpreted at once


@dataclass(frozen=True)
class Assignments:
    """What the rules of a program were given: every assignment of the variables and heads that occurred, once.

    Attributes:
        names: of the columns.
        rows: [assignments, names], members of the domains; `UNDEFINED` where a head's output was undefined.
    """

    names: tuple[str, ...]
    rows: np.ndarray

    def column(self, name: str) -> np.ndarray:
        """One variable."""
        return self.rows[:, self.names.index(name)]

    def holds(self, tests: Iterable[tuple[str, frozenset[int]]]) -> np.ndarray:
        """[assignments]: whether all tests hold."""
        found = np.ones(len(self.rows), bool)
        for name, values in tests:
            found &= np.isin(self.column(name), sorted(values))
        return found


def assignments(program: AltaProgram, inputs: Iterable[Any]) -> Assignments:
    """Run a program and collect what its rules were given, at every position of every layer (the D of ALTA B.4).

    Args:
        program: what is run.
        inputs: texts, or sequences of input ids.
    """
    readable = program.readable
    rows = np.zeros((0, len(readable)), np.int32)
    for trace in _traces(program, inputs):
        inside, found = np.arange(trace.streams[0][program.output].shape[1]) < trace.lengths[:, None], [rows]
        for layer, seen in enumerate(trace.attended):
            there = inside & (layer < trace.layers)[:, None]
            columns = [members_of(v, seen[n])[there] for n, v in readable.items()]
            found.append(different_rows(np.stack(columns, axis=1).astype(np.int32))[0])
        rows, _ = different_rows(np.concatenate(found))
    return Assignments(tuple(readable), rows)


def minimal(program: Any, inputs: Any, shown: Assignments | None = None) -> AltaProgram:
    """The program without what the inputs do not show (ALTA C.2).

    Rules are taken in their plain form, one value per test: those that never fire are dropped. Variables that start
    from the input or the position start from a default, 0 or nothing, at inputs and positions that do not occur.

    Args:
        program: what is made smaller, or its name.
        inputs: texts, or sequences of input ids.
        shown: what `assignments` finds for them, where that is known already.
    """
    program = look_up(program) if isinstance(program, str) else program
    if not isinstance(program, AltaProgram):
        raise ValueError(
            f"Only ALTA programs have a minimal version; got a {type(program).__name__}. Give one, or its name, e.g. "
            f'mg.program("parity_sequential_relative").'
        )
    if isinstance(inputs, str):
        raise ValueError(f"Give several inputs; got the text {inputs!r}. One of them is [{inputs!r}].")
    if not isinstance(inputs, Iterable):
        raise ValueError(f"Give several inputs, texts or sequences of input ids, e.g. ['01', '1']; got {inputs!r}.")
    given = [_ids(program, one) for one in inputs]
    if not given:
        raise ValueError(f"A minimal version of {program.name!r} needs some inputs to be minimal for; got none.")
    tokens = {token for ids in given for token in ids}
    longest = max(len(ids) for ids in given)
    shown = assignments(program, given) if shown is None else shown
    return replace(
        program,
        rules=tuple(_shown_rules(program, shown)),
        variables=tuple(_restricted(v, tokens, longest) for v in program.variables),
        description=f"{program.description}, as {len(given)} inputs show it",
    )


def rule_count(program: AltaProgram, shown: Assignments | None = None) -> int:
    """How many rules a program has, as the paper counts: plain ones, and those that reset the outputs of heads.

    Every value of a head's output takes a rule that resets it (the 7 rules of ALTA A.2), and so does every bucket of a
    number: what a rule reads of one is its bucket (2.3). Resets that never happen are dropped like other rules (C.2).

    Args:
        program: whole, or minimal.
        shown: what a minimal program is minimal for: only values that occur there are reset. None counts all values.
    """
    heads = {h.name: program.readable[h.name].domain for h in program.heads}
    values = heads if shown is None else {name: set(shown.column(name)) - {UNDEFINED} for name in heads}
    return len(plain(program.rules, program.readable)) + sum(len(found) for found in values.values())


@dataclass(frozen=True)
class Removable:
    """What could be left out of a rule set without changing any of some assignments.

    Attributes:
        rule: the whole rule, or the one with a removable test.
        test: the name of the variable tested; None for the whole rule.
    """

    rule: Rule
    test: str | None = None

    def __str__(self) -> str:
        return f"the rule '{self.rule}'" if self.test is None else f"the test of {self.test} in '{self.rule}'"


def removable(rules: Sequence[Rule], shown: Assignments, readable: Mapping[str, Variable]) -> list[Removable]:
    """Every rule, and every test but one, that could be removed: none, if the rules are minimal (Definition 1).

    A rule can go where all it does is done by others, too: of two that are the same, each is named. Without a test a
    rule fires in more cases. That changes something where it writes another value than is there; or where another rule
    writes the variable too, since no two rules may. The test of the target's own value is not tried: a rule must have
    it (B.1), or the MLP would take away a value that is not there. Read to the letter, Definition 1 has no such
    exception, and o := 1 if o = 0, the only rule of a binary o, could never be minimal.
    """
    fires = [shown.holds(rule.tests) for rule in rules]
    found = []
    for i, rule in enumerate(rules):
        alike = [fires[j] for j, r in enumerate(rules) if j != i and (r.target, r.value) == (rule.target, rule.value)]
        needed = fires[i] & _changes(rule, shown, readable)
        if not (needed & ~np.any([np.zeros(len(needed), bool), *alike], axis=0)).any():
            found.append(Removable(rule))
            continue
        others = [fires[j] for j, other in enumerate(rules) if j != i and other.target == rule.target]
        written = np.any(others, axis=0) if others else np.zeros(len(shown.rows), bool)
        for name in (n for n, _ in rule.tests if n != rule.target):
            more = shown.holds(test for test in rule.tests if test[0] != name) & ~fires[i]
            if not (more & (_changes(rule, shown, readable) | written)).any():
                found.append(Removable(rule, name))
    return found


def _changes(rule: Rule, shown: Assignments, readable: Mapping[str, Variable]) -> np.ndarray:
    """[assignments]: where a rule would write another value than is there; a number, wherever it fires."""
    variable = readable[rule.target]
    if isinstance(variable, Numeric):
        return np.ones(len(shown.rows), bool)
    same = [m for m in variable.domain if member_value(variable, m) == rule.value]
    return ~np.isin(shown.column(rule.target), same)


def _shown_rules(program: AltaProgram, shown: Assignments) -> Iterator[Rule]:
    """The plain rules that fire, without enumerating those that do not."""
    readable = program.readable
    for rule in program.rules:
        own = set() if isinstance(readable[rule.target], Numeric) else {rule.target}
        names = sorted(own | {name for name, _ in rule.tests})
        fires = shown.holds(rule.tests) & _changes(rule, shown, readable)
        if not names:
            yield from [rule] if fires.any() else []
            continue
        columns = np.stack([shown.column(name)[fires] for name in names], axis=1)
        for members in np.unique(columns, axis=0):
            tests = tuple((name, frozenset({int(member)})) for name, member in zip(names, members, strict=True))
            yield Rule(tests, rule.target, rule.value)


def _restricted(variable: Variable, tokens: set[int], longest: int) -> Variable:
    init, default = variable.init, _default(variable)
    if init.by_input is not None:
        kept = tuple(v if token in tokens else default for token, v in enumerate(init.by_input))
        return replace(variable, init=Init(by_input=kept))
    if init.by_position is not None:
        kept = tuple(v if place < longest else default for place, v in enumerate(init.by_position))
        return replace(variable, init=Init(by_position=kept))
    return variable


def _default(variable: Variable) -> Any:
    match variable:
        case Categorical():
            return 0
        case Numeric():
            return 0.0
        case SetOf():
            return frozenset() if frozenset() in variable.sets else variable.sets[0]


def _ids(program: AltaProgram, one: Any) -> list[int]:
    if isinstance(one, str):
        return program.encode(one)
    if not isinstance(one, Iterable):
        raise ValueError(
            f"Inputs are texts or sequences of input ids; got {one!r}. Give a list of them, e.g. [[{one}]]."
        )
    return list(one)


def _traces(program: AltaProgram, inputs: Iterable[Any]) -> Iterator[AltaTrace]:
    """Executions of some sequences at a time, the shorter ones first."""
    given = sorted((_ids(program, one) for one in inputs), key=len)
    if given:
        batched(program, given[-1:])  # says what is wrong with the longest before the others are run
    for start in range(0, len(given), TOGETHER):
        yield program.interpret(given[start : start + TOGETHER])


def different_rows(rows: np.ndarray, counts: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Different rows, and how often each occurs; `counts` is how often each of the given ones does.

    By their bytes: np.unique along an axis compares column by column, and takes ten times longer.
    """
    rows = np.ascontiguousarray(rows)
    packed = rows.view(np.dtype((np.void, rows.strides[0]))).ravel()
    _, first, which = np.unique(packed, return_index=True, return_inverse=True)
    return rows[first], np.bincount(which, weights=counts).astype(int)
