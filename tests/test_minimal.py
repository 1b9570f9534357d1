"""Minimal programs (ALTA C.2), Definition 1, and the two theorems, tested and not assumed."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mechgap as mg
from mechgap.faithfulness.local_minimum import RuleMlp, compile_plain, encode, is_well_shown, loss, ways_down
from mechgap.programs.alta import AltaProgram, Categorical, Init, Rule
from mechgap.programs.alta_rules import plain
from mechgap.programs.library.scan_grammar import actions, length_split
from mechgap.programs.minimal import Assignments, Removable, assignments, minimal, removable, rule_count


def bits(rng: random.Random, ones: int, length: int) -> str:
    drawn = [1] * ones + [0] * (length - ones)
    rng.shuffle(drawn)
    return "".join(map(str, drawn))


RNG = random.Random(0)
SHORT = [bits(RNG, k, n) for k in range(21) for n in range(max(k, 1), 21, 3)]
LONGER = [bits(RNG, k, RNG.randint(21, 40)) for k in range(21) for _ in range(5)]
MORE_ONES = [bits(RNG, k, RNG.randint(k, 40)) for k in range(21, 41) for _ in range(5)]


def parity(text: str) -> str:
    return str(text.count("1") % 2)


def share_right(program: AltaProgram, texts: list[str], answer: Any) -> float:
    """How many answers are right, whatever became of the execution."""
    ran = program.interpret([program.encode(t) for t in texts], layers=60 if program.halt else None)
    return float(np.mean([program.decode(o) == answer(t) for o, t in zip(ran.outputs, texts, strict=True)]))


@pytest.mark.parametrize(
    ("name", "rules", "lengths", "ones"),
    [
        ("parity_sequential_relative", 7, (1.0, 1.0), (1.0, 1.0)),
        ("parity_sequential_absolute", 7, (0.4, 0.6), (0.4, 0.6)),
        ("parity_sum_mod_2", 11, (1.0, 1.0), (0.4, 0.6)),
        ("parity_sum_mod_2_intermediate", 31, (1.0, 1.0), (0.4, 0.6)),
    ],
)
def test_minimal_parity_generalises_as_the_paper_says(name: str, rules: int, lengths: tuple, ones: tuple) -> None:
    """Figure 4, and the 7 and 31 rules of section 4.1."""
    program = mg.program(name)
    small = mg.minimal(program, SHORT)
    assert rule_count(small, small.rules) == rules
    assert share_right(small, SHORT, parity) == 1.0
    assert lengths[0] <= share_right(small, LONGER, parity) <= lengths[1]
    assert ones[0] <= share_right(small, MORE_ONES, parity) <= ones[1]
    network = mg.compile(small, certify="none", longest=64)
    assert [network.solve(t) for t in SHORT[:2]] == [parity(t) for t in SHORT[:2]]


def test_minimal_addition_from_three_digits_adds_fifty() -> None:
    rng = random.Random(1)
    short = [f"{rng.randrange(10 ** rng.randint(1, 3))}+{rng.randrange(10 ** rng.randint(1, 3))}" for _ in range(3000)]
    small = mg.minimal(mg.program("addition"), short)
    assert rule_count(small, small.rules) < 400
    long = [f"{rng.randrange(10**50)}+{rng.randrange(10**50)}" for _ in range(20)]
    ran = small.interpret([small.encode(t) for t in long])
    ran.check()
    assert [small.decode(o) for o in ran.outputs] == [str(sum(map(int, t.split("+")))) for t in long]


@pytest.mark.slow
def test_minimal_scan_from_the_short_commands_solves_the_long_ones() -> None:
    train, test = length_split()
    small = mg.minimal(mg.program("scan"), train)
    test = sorted(test, key=lambda c: len(actions(c)))
    for start in range(0, len(test), 128):
        part = test[start : start + 128]
        ran = small.interpret([small.encode(c) for c in part])
        ran.check()
        assert [small.decode(o).split() for o in ran.outputs] == [actions(c) for c in part]


def test_unseen_inputs_and_positions_start_from_a_default() -> None:
    small = mg.minimal(mg.program("parity_sequential_absolute", positions=8), ["000", "00"])
    by_name = {v.name: v.init for v in small.variables}
    assert by_name["parity"].by_input == (0, 0)
    assert by_name["idx"].by_position == (0, 1, 2, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "needs some inputs to be minimal for; got none"),
        (["012"], "Parity is of bits"),
        ([[0, 5]], "Input ids of 'parity_sequential_relative' are 0..2; got 5"),
    ],
)
def test_what_minimal_refuses(inputs: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mg.minimal(mg.program("parity_sequential_relative"), inputs)


# Definition 1, and the theorems


def variable(name: str, size: int = 2) -> Categorical:
    return Categorical(name, size, Init(0))


def rule(target: str, value: int, **tests: int) -> Rule:
    return Rule(tuple((name, frozenset({member})) for name, member in sorted(tests.items())), target, value)


def shown(readable: dict, rows: list[str]) -> Assignments:
    return Assignments(tuple(readable), np.array([[int(c) for c in row] for row in rows]).reshape(-1, len(readable)))


ABCO = {name: variable(name) for name in "abco"}
ALL_THREE = rule("o", 1, a=1, b=1, c=1, o=0)


def test_theorem_1_fails_for_constraints() -> None:
    """c = 1 can be removed, yet no single coordinate can be moved: test and bias would have to move together."""
    examples = shown(ABCO, ["1110", "0110", "1010", "1111"])
    assert removable([ALL_THREE], examples, ABCO) == [Removable(ALL_THREE, "c")]
    assert ways_down([ALL_THREE], examples, ABCO) == []
    assert ways_down([ALL_THREE], examples, ABCO, alpha=0.1, regulariser="L2") == []
    mlp, z = compile_plain([ALL_THREE], ABCO), encode(examples, ABCO)
    without_c = RuleMlp(mlp.first - np.eye(8)[5], mlp.bias + 1, mlp.second)
    np.testing.assert_array_equal(without_c(z), mlp(z))  # both at once: the same function, and smaller
    assert without_c.size("L1") == mlp.size("L1") - 2


def test_the_test_of_its_own_value_stays_in_a_rule() -> None:
    only = {"o": variable("o")}
    flip, examples = rule("o", 1, o=0), shown(only, ["0"])
    assert removable([flip], examples, only) == ways_down([flip], examples, only) == []


def test_a_rule_that_never_fires_is_named() -> None:
    extra = rule("o", 0, a=0, b=0, o=1)
    examples = shown(ABCO, ["1110", "0110", "1010", "1100", "1111"])
    assert removable([ALL_THREE, extra], examples, ABCO) == [Removable(extra)]
    assert {way.rule for way in ways_down([ALL_THREE, extra], examples, ABCO)} == {extra}
    assert str(removable([extra], examples, ABCO)[0]) == "the rule 'o := 0 if a = 0 and b = 0 and o = 1'"
    assert removable([ALL_THREE], examples, ABCO) == ways_down([ALL_THREE], examples, ABCO) == []


def test_a_test_that_could_go_is_named_with_its_rule() -> None:
    back = rule("o", 0, a=0, b=1, o=1)
    examples = shown(ABCO, ["1110", "0110", "1010", "1100", "1111", "0111"])
    assert removable([ALL_THREE, back], examples, ABCO) == [Removable(back, "b")]
    assert str(Removable(back, "b")) == "the test of b in 'o := 0 if a = 0 and b = 1 and o = 1'"


def test_a_test_that_keeps_two_rules_apart_stays() -> None:
    """Without b = 1, a rule that has no test of its own value would fire together with another, if to no effect."""
    stays, other = rule("o", 1, a=1, b=1), rule("o", 0, a=1, b=0, o=1)
    examples = shown(ABCO, ["1100", "1001", "0100"])
    assert Removable(stays, "b") not in removable([stays, other], examples, ABCO)
    assert Removable(stays, "b") in removable([stays], examples, ABCO)


@st.composite
def drawn_sets(draw: st.DrawFn) -> tuple[list[int], list[tuple], list[tuple]]:
    """Sizes of variables, rules (target, value, tests) and examples, as numbers."""
    sizes = draw(st.lists(st.integers(2, 3), min_size=1, max_size=4))
    places = st.integers(0, len(sizes) - 1)
    rules = []
    for _ in range(draw(st.integers(1, 5))):
        target = draw(places)
        tested = sorted({target, *draw(st.sets(places))})
        tests = {i: draw(st.integers(0, sizes[i] - 1)) for i in tested}
        value = draw(st.sampled_from([v for v in range(sizes[target]) if v != tests[target]]))
        rules.append((target, value, tests))
    one = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    return sizes, rules, draw(st.lists(one, min_size=1, max_size=12, unique=True))


def rule_set(drawn: tuple) -> tuple[dict, list[Rule], Assignments]:
    """The same as rules, without those that could fire together with an earlier one of their target."""
    sizes, given_rules, rows = drawn
    readable = {f"v{i}": variable(f"v{i}", size) for i, size in enumerate(sizes)}
    kept: list[tuple] = []
    for target, value, tests in given_rules:
        others = [other for at, _, other in kept if at == target]
        if all(any(tests[i] != m for i, m in other.items() if i in tests) for other in others):
            kept.append((target, value, tests))
    rules = [rule(f"v{t}", v, **{f"v{i}": m for i, m in tests.items()}) for t, v, tests in kept]
    return readable, rules, Assignments(tuple(readable), np.array(rows))


@settings(max_examples=500, deadline=None)
@given(drawn_sets(), st.floats(0.01, 0.99))
def test_what_holds_of_random_rule_sets(drawn: tuple, alpha: float) -> None:
    readable, rules, examples = rule_set(drawn)
    largest = max(1, *(len(r.tests) - 1 for r in rules))
    left_out = removable(rules, examples, readable)
    for regulariser, weight in (("L1", alpha), ("L2", alpha / (2 * largest))):
        ways = ways_down(rules, examples, readable, alpha=weight, regulariser=regulariser)  # type: ignore[arg-type]
        assert (not ways) == is_well_shown(rules, examples)  # the condition, in both directions
        if not left_out:
            assert not ways  # Theorem 2
        for unused in (r for r in left_out if r.test is None):
            assert unused.rule in {way.rule for way in ways}  # the half of Theorem 1 that holds


def written(rules: list[Rule], row: dict[str, int]) -> dict[str, int] | None:
    """What f_R makes of an assignment (B.1); None where two rules of one target fire."""
    fire = [r for r in rules if all(row[name] in values for name, values in r.tests)]
    return row | {r.target: r.value for r in fire} if len({r.target for r in fire}) == len(fire) else None


@settings(max_examples=200, deadline=None)
@given(drawn_sets())
def test_what_is_removable_is_so_by_definition_1(drawn: tuple) -> None:
    """Everything is taken away in turn, and the outputs compared."""
    readable, rules, examples = rule_set(drawn)
    rows = [dict(zip(readable, map(int, row), strict=True)) for row in examples.rows]
    meant, found = [written(rules, row) for row in rows], []
    for i, whole in enumerate(rules):
        before, after = rules[:i], rules[i + 1 :]
        if [written(before + after, row) for row in rows] == meant:
            found.append(Removable(whole))
            continue
        for name in (n for n, _ in whole.tests if n != whole.target):
            looser = replace(whole, tests=tuple(test for test in whole.tests if test[0] != name))
            if [written([*before, looser, *after], row) for row in rows] == meant:
                found.append(Removable(whole, name))
    assert removable(rules, examples, readable) == found


@settings(max_examples=50, deadline=None)
@given(drawn_sets())
def test_ways_down_are_those_of_the_whole_loss(drawn: tuple) -> None:
    """One unit at a time, as `ways_down` computes it, against the whole MLP with one coordinate moved."""
    readable, rules, examples = rule_set(drawn)
    mlp, z = compile_plain(rules, readable), encode(examples, readable)
    meant, names = mlp(z), {"first": "W1", "bias": "b1", "second": "W2"}
    own, found = loss(mlp, meant, z, 0.5, "L1"), set()
    for field, name in names.items():
        weights = getattr(mlp, field)
        for place in np.ndindex(weights.shape):
            for direction in (1, -1):
                moved = weights.copy()
                moved[place] += direction * 2.0**-12
                if loss(replace(mlp, **{field: moved}), meant, z, 0.5, "L1") <= own:
                    j = place[1] if name == "W2" else place[0]
                    index = None if name == "b1" else place[0] if name == "W2" else place[1]
                    found.add((rules[j], name, index, direction))
    assert found == {(w.rule, w.weight, w.index, w.direction) for w in ways_down(rules, examples, readable)}


@pytest.mark.parametrize(
    "name",
    [
        *("parity_sequential_relative", "parity_sequential_absolute", "reverse", "dyck_1"),
        pytest.param("addition", marks=pytest.mark.slow),
        pytest.param("scan_parser", marks=pytest.mark.slow),
    ],
)
def test_categorical_programs(name: str) -> None:
    """On what they are given: the rules that fire, and one that does not."""
    texts = {
        "parity_sequential_relative": SHORT,
        "parity_sequential_absolute": ["1", "01", "1101", "001", "10"],
        "addition": [f"{a}+{b}" for a in range(0, 100, 7) for b in range(0, 100, 3)],
        "reverse": ["1 2 3", "4 5", "9 8 7 6"],
        "dyck_1": ["()", "(())", "())", "()(", ")"],
        "scan_parser": ["walk", "jump twice and look left", "turn around right after run thrice"],
    }
    program = mg.program(name, positions=8) if name == "parity_sequential_absolute" else mg.program(name)
    seen, readable = assignments(program, texts[name]), program.readable
    small = minimal(program, texts[name]).rules
    never = [r for r in plain_of(program) if r not in small][:1]  # one that does not fire
    left_out = removable(small, seen, readable)
    assert [r for r in removable([*small, *never], seen, readable) if r.test is None] == [Removable(r) for r in never]
    largest = max(1, *(len(r.tests) - 1 for r in small))
    for regulariser, alpha in (("L1", 0.5), ("L2", 0.5 / (2 * largest))):
        ways = ways_down([*small, *never], seen, readable, alpha=alpha, regulariser=regulariser)  # type: ignore[arg-type]
        assert {way.rule for way in ways} >= set(never)  # the half of Theorem 1 that holds
        others = [way for way in ways if way.rule not in never]
        assert (not others) == is_well_shown(small, seen)  # the condition
        assert left_out or not others  # Theorem 2


def plain_of(program: AltaProgram) -> tuple[Rule, ...]:
    return plain(program.rules, program.readable)


def test_a_program_with_numbers_is_outside_the_theory() -> None:
    program = mg.program("parity_sum_mod_2")
    with pytest.raises(ValueError, match="'is_end' is none"):
        compile_plain(plain_of(program), program.readable)
    with pytest.raises(ValueError, match="is not plain: give one value per test, and test 'o' itself"):
        compile_plain([rule("o", 1, a=1)], ABCO)
