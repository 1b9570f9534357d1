"""From a Python function to rules, and from rules to fewer.

A function is executed with symbols instead of values. Reading gives a symbol; arithmetic on symbols gives a symbol;
where Python asks whether one is true, the execution forks, and each fork knows what the variables may still be. So a
function is executed once per path, not once per combination of all variables, and what it writes is a symbol again, of
which only the variables it depends on are enumerated. Rules are built for every written variable apart, and merged.
"""

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any

from mechgap.programs.alta import Categorical, Numeric, Rule, SetOf, Variable

MOST_PATHS = 200_000
MOST_COMBINATIONS = 2_000_000  # of the variables that one expression depends on

Tests = tuple[tuple[str, frozenset[int]], ...]
Allowed = dict[str, tuple[int, ...]]  # variable -> the members of its domain that a path still allows


class RuleError(ValueError):
    """A function that cannot be turned into rules."""


def rules_of_function(
    function: Callable[[Any], Any], readable: Mapping[str, Variable], nullable: frozenset[str]
) -> tuple[Rule, ...]:
    """The rules of an MLP function: what it writes, for every path through it."""
    rules: list[Rule] = []
    for allowed, writes in _paths(function, readable, nullable):
        for target, written in writes.items():
            rules += _written(target, written, allowed, readable, nullable)
    return tuple(rules)


def minimised(rules: Iterable[Rule], readable: Mapping[str, Variable], nullable: frozenset[str]) -> tuple[Rule, ...]:
    """Fewer rules that do the same: rules that change nothing are dropped, rules that differ in one test are merged.

    A test of a variable that holds for all its values is dropped, but for the output of a head: that may be undefined,
    and a rule that reads it must still say so.
    """
    groups: dict[tuple[str, Any], list[Rule]] = {}
    for rule in rules:
        changed = _without_idle(rule, readable)
        if changed is not None:
            groups.setdefault((rule.target, rule.value), []).append(changed)
    merged = [rule for group in groups.values() for rule in _merged(group, readable, nullable)]
    order = list(readable)
    return tuple(sorted(merged, key=lambda r: (order.index(r.target), _sort_key(r.value), r.tests and str(r.tests))))


def plain(rules: Iterable[Rule], readable: Mapping[str, Variable]) -> tuple[Rule, ...]:
    """The same rules with one value per test, the target's own value among them: the form of the paper's theory."""
    found = []
    for rule in rules:
        tests = dict(rule.tests)
        if not isinstance(readable[rule.target], Numeric):  # of a number the bucket says little: it is written anyway
            tests.setdefault(rule.target, frozenset(readable[rule.target].domain))
        names = sorted(tests)
        for values in itertools.product(*(sorted(tests[name]) for name in names)):
            single = tuple((name, frozenset({value})) for name, value in zip(names, values, strict=True))
            if _without_idle(Rule(single, rule.target, rule.value), readable) is not None:
                found.append(Rule(single, rule.target, rule.value))
    return tuple(found)


def member_value(variable: Variable, member: int) -> Any:
    """The value that a member of a variable's domain stands for: a class, a bucket's number, or a set."""
    match variable:
        case Categorical():
            return member
        case Numeric():
            return variable.buckets[member]
        case SetOf():
            return variable.sets[member]


def _paths(
    function: Callable, readable: Mapping[str, Variable], nullable: frozenset[str]
) -> Iterator[tuple[Allowed, dict[str, Any]]]:
    """Every path through a function: what the variables may be on it, and what it writes."""
    script: list[list[int]] = []  # per decision: the branch taken, and how many there are
    for _ in range(MOST_PATHS):
        path = _Path(readable, nullable, script)
        function(path.view)
        yield path.constrained(), path.writes
        while script and script[-1][0] + 1 == script[-1][1]:
            script.pop()
        if not script:
            return
        script[-1][0] += 1
    raise RuleError(f"the function has more than {MOST_PATHS} paths; let it decide less, or write rules.")


class _Path:
    """One execution of a function."""

    def __init__(self, readable: Mapping[str, Variable], nullable: frozenset[str], script: list[list[int]]):
        self.readable, self.nullable, self.script = readable, nullable, script
        self.allowed: Allowed = {name: v.domain for name, v in readable.items()}
        self.writes: dict[str, Any] = {}
        self.view = _View(self)
        self._decisions = self._evaluating = 0

    def constrained(self) -> Allowed:
        """The variables that a decision was made about."""
        full = {name: v.domain for name, v in self.readable.items()}
        return {name: values for name, values in self.allowed.items() if values != full[name]}

    def choose(self, name: str, branches: list[tuple[int, ...]]) -> None:
        """Take the branch that the script says, or the first of a new decision."""
        if self._decisions == len(self.script):
            self.script.append([0, len(branches)])
        taken, self._decisions = self.script[self._decisions][0], self._decisions + 1
        self.allowed[name] = branches[taken]

    def evaluated(self, symbol: "Symbol", members: dict[str, int]) -> Any:
        """The value of a symbol for members of its variables. To compute it must not fork."""
        self._evaluating += 1
        try:
            return symbol.evaluate(members)
        except RuleError:
            raise
        except Exception as error:
            shown = ", ".join(f"{n} = {member_value(self.readable[n], m)}" for n, m in members.items())
            raise RuleError(f"the function fails where {shown}: {type(error).__name__}: {error}.") from error
        finally:
            self._evaluating -= 1

    def truth(self, symbol: "Symbol") -> bool:
        """Whether a symbol is true on this path; forks where both can be."""
        self._may_fork(symbol)
        while True:
            free = [name for name in symbol.names if len(self.allowed[name]) > 1]
            if len(free) <= 1:
                return self._split(symbol, free)
            if self._combinations(free) <= 4096:
                found = {bool(self.evaluated(symbol, a)) for a in self.assignments(symbol.names)}
                if len(found) == 1:
                    return found.pop()
            self._fix(min(free, key=lambda name: len(self.allowed[name])))

    def concrete(self, symbol: "Symbol") -> Any:
        """The value of a symbol on this path, which forks until it has one."""
        self._may_fork(symbol)
        for name in symbol.names:
            if len(self.allowed[name]) > 1:
                self._fix(name)
        return self.evaluated(symbol, next(self.assignments(symbol.names)))

    def _may_fork(self, symbol: "Symbol") -> None:
        if self._evaluating:
            raise RuleError(
                f"a function given to `pure` refers to {', '.join(symbol.names)} from outside; give it as an argument."
            )

    def assignments(self, names: tuple[str, ...]) -> Iterator[dict[str, int]]:
        """Every combination that the path allows."""
        if self._combinations(list(names)) > MOST_COMBINATIONS:
            raise RuleError(
                f"an expression depends on {', '.join(names)}, of which there are "
                f"{self._combinations(list(names))} combinations; at most {MOST_COMBINATIONS} are enumerated. Decide "
                f"on some of them first, or use another variable."
            )
        for values in itertools.product(*(self.allowed[name] for name in names)):
            yield dict(zip(names, values, strict=True))

    def _combinations(self, names: list[str]) -> int:
        total = 1
        for name in names:
            total *= len(self.allowed[name])
        return total

    def _split(self, symbol: "Symbol", free: list[str]) -> bool:
        fixed = {name: self.allowed[name][0] for name in symbol.names}
        if not free:
            return bool(self.evaluated(symbol, fixed))
        name = free[0]
        outcomes = {value: bool(self.evaluated(symbol, fixed | {name: value})) for value in self.allowed[name]}
        yes, no = (tuple(v for v, truth in outcomes.items() if truth is wanted) for wanted in (True, False))
        if not yes or not no:
            return bool(yes)
        self.choose(name, [yes, no])
        return self.allowed[name] == yes

    def _fix(self, name: str) -> None:
        self.choose(name, [(value,) for value in self.allowed[name]])


class _View:
    """What the function is given: reads and writes by name. Reads see the values at the start."""

    def __init__(self, path: _Path):
        self._path = path

    def __getitem__(self, name: str) -> "Symbol":
        variable = self._path.readable.get(name)
        if variable is None:
            raise RuleError(f"the function reads {name!r}; there are {', '.join(self._path.readable)}.")
        return Symbol(self._path, (name,), lambda members: member_value(variable, members[name]))

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._path.readable:
            raise RuleError(f"the function writes {name!r}; there are {', '.join(self._path.readable)}.")
        if name in self._path.nullable:
            raise RuleError(f"the function writes {name!r}, the output of a head; only variables can be written.")
        self._path.writes[name] = value


class Symbol:
    """A value that depends on variables. Python's operators work on it; to ask whether it is true forks the path."""

    def __init__(self, path: _Path, names: tuple[str, ...], evaluate: Callable[[dict[str, int]], Any]):
        self.path, self.names, self.evaluate = path, names, evaluate

    def _with(self, other: Any, operation: Callable[[Any, Any], Any], swapped: bool = False) -> "Symbol":
        a, b = (other, self) if swapped else (self, other)
        names = tuple(dict.fromkeys(n for x in (a, b) if isinstance(x, Symbol) for n in x.names))

        return Symbol(self.path, names, partial(_evaluated, operation, (a, b)))

    def _of(self, operation: Callable[[Any], Any]) -> "Symbol":
        return Symbol(self.path, self.names, lambda members: operation(self.evaluate(members)))

    def __bool__(self) -> bool:
        return self.path.truth(self)

    def __index__(self) -> int:
        return operator.index(self.path.concrete(self))

    def __int__(self) -> int:
        return int(self.path.concrete(self))

    def __float__(self) -> float:
        return float(self.path.concrete(self))

    def __hash__(self) -> int:
        return hash(self.path.concrete(self))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.path.concrete(self))

    def __contains__(self, item: Any) -> bool:
        return bool(self._with(item, lambda members, one: one in members))

    def __eq__(self, other: object) -> Any:
        return self._with(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._with(other, operator.ne)

    def __str__(self) -> str:
        return str(self.path.concrete(self))

    def __format__(self, form: str) -> str:
        return format(self.path.concrete(self), form)

    def __neg__(self) -> "Symbol":
        return self._of(operator.neg)

    def __abs__(self) -> "Symbol":
        return self._of(abs)

    def __round__(self, digits: int | None = None) -> "Symbol":
        return self._of(lambda x: round(x, digits))


def pure(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of plain values as one of symbols, too: for what Python's operators cannot say.

    >>> clip = pure(lambda x: max(0, min(9, x)))
    >>> clip(12)
    9
    """

    def lifted(*given: Any) -> Any:
        symbols = [x for x in given if isinstance(x, Symbol)]
        hidden = [x for x in given if isinstance(x, tuple | list | set | dict) and _holds_symbol(x)]
        if hidden:
            raise RuleError("a function of plain values is given values inside a tuple or list; give them one by one.")
        if not symbols:
            return function(*given)
        path, names = symbols[0].path, tuple(dict.fromkeys(name for x in symbols for name in x.names))
        # At once, while what the function refers to is what it is: loop variables change.
        table = {
            tuple(members.values()): path.evaluated(Symbol(path, names, partial(_evaluated, function, given)), members)
            for members in path.assignments(names)
        }
        return Symbol(path, names, lambda members: table[tuple(members[name] for name in names)])

    return lifted


def _holds_symbol(value: Any) -> bool:
    inside = value.values() if isinstance(value, dict) else value
    return any(isinstance(x, Symbol) or (isinstance(x, tuple | list | set | dict) and _holds_symbol(x)) for x in inside)


def _evaluated(operation: Callable, given: tuple[Any, ...], members: dict[str, int]) -> Any:
    return operation(*(x.evaluate(members) if isinstance(x, Symbol) else x for x in given))


def _one_sided(name: str, operation: Callable[[Any, Any], Any]) -> None:
    setattr(Symbol, f"__{name}__", lambda self, other: self._with(other, operation))


def _two_sided(name: str, operation: Callable[[Any, Any], Any]) -> None:
    _one_sided(name, operation)
    setattr(Symbol, f"__r{name}__", lambda self, other: self._with(other, operation, swapped=True))


for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "xor", "and", "or", "lshift", "rshift"):
    _two_sided(_name, getattr(operator, f"{_name}_" if _name in ("and", "or") else _name))
for _name in ("lt", "le", "gt", "ge"):
    _one_sided(_name, getattr(operator, _name))


def _written(
    target: str, written: Any, allowed: Allowed, readable: Mapping[str, Variable], nullable: frozenset[str]
) -> Iterator[Rule]:
    """The rules for one write on one path: some per value, for the combinations in which that is written."""
    tests = {name: frozenset(values) for name, values in allowed.items()}
    if not isinstance(written, Symbol):
        yield _rule(tests, target, written)
        return
    names = sorted(written.names)
    by_value: dict[Any, list[Tests]] = {}
    for members in written.path.assignments(written.names):
        single = tuple((name, _values(1 << members[name])) for name in names)
        value = as_value(written.path.evaluated(written, members))
        if isinstance(value, list | dict):
            raise RuleError(f"{target!r} is written {value!r}, which is not a value.")
        by_value.setdefault(value, []).append(single)
    for value, combinations in by_value.items():
        for cube in merged_tests(combinations, readable, nullable):
            yield _rule(tests | dict(cube), target, value)


def _rule(tests: Mapping[str, frozenset[int]], target: str, value: Any) -> Rule:
    return Rule(tuple(sorted(tests.items())), target, as_value(value))


def as_value(value: Any) -> Any:
    """A value as rules hold it: numbers for booleans, frozen sets."""
    if isinstance(value, bool):
        return int(value)
    return frozenset(value) if isinstance(value, set) else value


def _without_idle(rule: Rule, readable: Mapping[str, Variable]) -> Rule | None:
    """The rule without the case in which it writes what is there; None if there is no other."""
    tests, variable = dict(rule.tests), readable[rule.target]
    if isinstance(variable, Numeric) or rule.target not in tests:
        return rule
    left = frozenset(m for m in tests[rule.target] if member_value(variable, m) != rule.value)
    return _rule(tests | {rule.target: left}, rule.target, rule.value) if left else None


def _merged(rules: list[Rule], readable: Mapping[str, Variable], nullable: frozenset[str]) -> list[Rule]:
    target, value = rules[0].target, rules[0].value
    return [Rule(tests, target, value) for tests in merged_tests([r.tests for r in rules], readable, nullable)]


def merged_tests(given: list[Tests], readable: Mapping[str, Variable], nullable: frozenset[str]) -> list[Tests]:
    """Conjunctions that hold in the same cases, of which no two hold at once: merged while two differ in one test.

    What is left depends on the order of the variables; some are tried, and the fewest are kept.
    """
    names = sorted({name for tests in given for name, _ in tests})  # the same in every process
    sizes = [len(readable[name].domain) for name in names]
    # A set of values is a number with a bit for each, and one more for the undefined output of a head: a test of all
    # its values is not the same as no test.
    everything = [(1 << size + (name in nullable)) - 1 for name, size in zip(names, sizes, strict=True)]
    cubes = []
    for tests in given:
        tested = dict(tests)
        masks = zip(names, everything, strict=True)
        cubes.append(tuple(_mask(tested[name]) if name in tested else full for name, full in masks))
    cubes = list(dict.fromkeys(cubes))
    places = range(len(names))
    orders = (places, places[::-1], sorted(places, key=lambda i: -sizes[i]))
    fewest = min((_merged_in(order, cubes) for order in orders), key=len)
    return [
        tuple((n, _values(mask)) for n, mask, full in zip(names, cube, everything, strict=True) if mask != full)
        for cube in fewest
    ]


def _merged_in(order: Iterable[int], cubes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    while True:
        before = len(cubes)
        for i in order:
            groups: dict[tuple[int, ...], int] = {}
            for cube in cubes:
                rest = cube[:i] + cube[i + 1 :]
                groups[rest] = groups.get(rest, 0) | cube[i]
            if len(groups) < len(cubes):
                cubes = [(*rest[:i], mask, *rest[i:]) for rest, mask in groups.items()]
        if len(cubes) == before:
            return cubes


@cache
def _mask(values: frozenset[int]) -> int:
    return sum(1 << value for value in values)


@cache
def _values(mask: int) -> frozenset[int]:
    return frozenset(i for i in range(mask.bit_length()) if mask >> i & 1)


def _sort_key(value: Any) -> str:
    return str(sorted(value)) if isinstance(value, frozenset) else f"{value:>20}"
