"""From rules to the units of an MLP, symbolically: what each unit tests and what it adds to the stream.

A rule writes a value over the one that is there, and an MLP can only add. So a rule that tests its target's own value
becomes one unit per such value: minus the old, plus the new. Rules that do not are split: every rule is one unit that
adds the new value, and what they have in common, when any of them fires, becomes units that clear the old one. That is
a sum of the sizes where a product would be needed otherwise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mechgap.programs.alta import AltaProgram, Categorical, Numeric, Rule, SetOf, Variable
from mechgap.programs.alta_rules import Tests, member_value, merged_tests


@dataclass(frozen=True)
class Unit:
    """A hidden unit of the MLP.

    Attributes:
        tests: it is 1 where all of them hold, else 0.
        adds: (variable, value, sign): the encoding of a value, added or taken away.
        clears: a number variable whose own value it takes away where the tests hold; None for all others.
    """

    tests: Tests
    adds: tuple[tuple[str, object, int], ...] = ()
    clears: str | None = None


def units_of(program: AltaProgram) -> tuple[Unit, ...]:
    """The units that perform a program's rules, without those that reset the outputs of heads."""
    readable, found = program.readable, []
    for variable in program.variables:
        rules = [rule for rule in program.rules if rule.target == variable.name]
        own = [rule for rule in rules if isinstance(variable, Categorical) and _tests_own(rule)]
        rest = [rule for rule in rules if rule not in own]
        found += [unit for rule in own for unit in _over_own_value(rule)]
        if rest:
            found += _split(variable, rest, readable, program.nullable)
    return tuple(found)


def _tests_own(rule: Rule) -> bool:
    return any(name == rule.target for name, _ in rule.tests)


def _over_own_value(rule: Rule) -> Iterator[Unit]:
    tests = dict(rule.tests)
    for old in sorted(tests[rule.target]):
        if old != rule.value:
            single = tuple(sorted((tests | {rule.target: frozenset({old})}).items()))
            yield Unit(single, ((rule.target, old, -1), (rule.target, rule.value, 1)))


def _split(
    variable: Variable, rules: list[Rule], readable: Mapping[str, Variable], nullable: frozenset[str]
) -> Iterator[Unit]:
    """One unit per rule adds; per value of the variable, and cube in which one of the rules fires, one clears."""
    name = variable.name
    for rule in rules:
        yield Unit(rule.tests, ((name, rule.value, 1),))
    for cube in merged_tests([rule.tests for rule in rules], readable, nullable):
        if isinstance(variable, Numeric):
            yield Unit(cube, clears=name)
            continue
        kept = dict(cube).get(name, frozenset(variable.domain))
        for old in sorted(kept):
            value = member_value(variable, old)
            if value == frozenset():
                continue  # nothing to clear
            tests = tuple(sorted((dict(cube) | {name: frozenset({old})}).items()))
            yield Unit(tests, ((name, value, -1),))


def is_plain(program: AltaProgram) -> bool:
    """Whether rules read categorical variables only, so that the MLP needs no layers to expand numbers and sets."""
    tested = {name for rule in program.rules for name, _ in rule.tests}
    written = {rule.target for rule in program.rules}
    kinds = [program.variable(name) for name in tested | written | {h.name for h in program.heads}]
    return not any(isinstance(v, Numeric | SetOf) for v in kinds)
