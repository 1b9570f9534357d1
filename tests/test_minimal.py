"""Minimal programs (ALTA C.2), Definition 1, and the two theorems, tested and not assumed."""

import json
import random
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mechgap as mg
from mechgap.faithfulness.local_minimum import RuleMlp, compile_plain, encode, is_well_shown, loss, ways_down
from mechgap.programs.alta import AltaProgram, Categorical, Init, Rule, Variable
from mechgap.programs.alta_rules import plain
from mechgap.programs.library.scan_grammar import actions, length_split
from mechgap.programs.minimal import Assignments, Removable, assignments, minimal, removable, rule_count
from mechgap.programs.tasks import parity_task, task_of

ROOT = Path(__file__).parents[1]
RECORDED = json.loads((ROOT / "results/alta/minimal.json").read_text())


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
    ("name", "rules", "resets", "lengths", "ones"),
    [
        ("parity_sequential_relative", 3, 4, (1.0, 1.0), (1.0, 1.0)),
        ("parity_sequential_absolute", 3, 4, (0.4, 0.6), (0.4, 0.6)),
        ("parity_sum_mod_2", 10, 21, (1.0, 1.0), (0.4, 0.6)),
        ("parity_sum_mod_2_intermediate", 30, 21, (1.0, 1.0), (0.4, 0.6)),
    ],
)
def test_minimal_parity_generalises_as_the_paper_says(
    name: str, rules: int, resets: int, lengths: tuple, ones: tuple
) -> None:
    """Figure 4, and section 4.1: 7 rules; and 31, the odd numbers of ones up to 20, and a reset for each from 0 on."""
    program = mg.program(name)
    seen = assignments(program, SHORT)
    small = mg.minimal(program, SHORT, seen)
    assert (len(small.rules), rule_count(small, seen)) == (rules, rules + resets)
    assert share_right(small, SHORT, parity) == 1.0
    assert lengths[0] <= share_right(small, LONGER, parity) <= lengths[1]
    assert ones[0] <= share_right(small, MORE_ONES, parity) <= ones[1]
    network = mg.compile(small, certify="none", longest=64)
    some = ["1", "0111", "0110", SHORT[-1], "1" * 19]
    assert {parity(t) for t in some} == {"0", "1"}
    assert [network.solve(t) for t in some] == [parity(t) for t in some]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RECORDED if name.startswith("parity")])
def test_compiled_minimal_parity_answers_as_interpreted(name: str) -> None:
    """Figure 4 is of compiled networks: on all its longer texts, right or wrong, ours do what the interpreter does."""
    program = mg.program(name, positions=64) if name == "parity_sequential_absolute" else mg.program(name)
    task, most = parity_task(each=20), 60 if program.halt else None
    small = mg.minimal(program, task.train)
    network = mg.compile(small, certify="none", longest=64)
    for where in ("length > 20", "ones > 20"):
        inputs = [program.encode(text) for text in task.tests[where]]
        meant, found = small.interpret(inputs, layers=most), network.run(inputs, layers=most)
        assert found.outputs == meant.outputs  # at every position
        assert (found.layers.tolist(), found.halted.tolist()) == (meant.layers.tolist(), meant.halted.tolist())
        np.testing.assert_array_equal(found.used_undefined, np.any(meant.used_undefined, axis=0))
        said = [program.decode(output) for output in found.outputs]
        right = [answer == task.answer(text) for answer, text in zip(said, task.tests[where], strict=True)]
        assert np.mean(right) == RECORDED[name]["small"][where]


def test_a_reset_is_counted_for_every_value_that_occurs() -> None:
    assert rule_count(mg.program("parity_sequential_relative")) == 7  # A.2 prints them: R4 to R7 are resets
    # The public code of the paper has 200 rules for 100 buckets, 100 of which are resets.
    counts = mg.program("parity_sum_mod_2", ones=99)
    assert (len(plain_of(counts)), rule_count(counts)) == (100, 200)
    few = assignments(counts, ["0", "1"])
    assert rule_count(minimal(counts, ["0", "1"], few), few) == 1 + 2
    # Another program that has 31, but without resets: by that count the sequential one would have 3.
    staged = mg.program("parity_sum_mod_2_intermediate", scale=1000.0, staged=True)
    seen = assignments(staged, SHORT)
    small = minimal(staged, SHORT, seen)
    assert (len(small.rules), rule_count(small, seen)) == (20 + 10 + 1, 31 + 21)
    # A bit and the start before it, which has nothing to its left: done_left is 1 or undefined, parity_left 0.
    step = mg.program("parity_sequential_relative")
    few = assignments(step, ["0"])
    assert -1 in few.column("done_left")
    assert rule_count(minimal(step, ["0"], few), few) == 1 + 2


@pytest.mark.parametrize("name", [name for name in RECORDED if name != "scan"])
def test_counts_are_as_recorded(name: str) -> None:
    program = mg.program(name)
    train = task_of(program).train
    seen = assignments(program, train)
    counts = rule_count(program), rule_count(minimal(program, train, seen), seen)
    assert counts == (RECORDED[name]["rules"], RECORDED[name]["kept"])


def test_the_table_of_the_theory_is_as_recorded() -> None:
    lines = (ROOT / "docs/theory.md").read_text().split("## Minimal programs")[1].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]
    number = lambda cell: int(cell.replace(" ", "")) if cell else None  # noqa: E731
    found = {name: (number(every), number(kept), number(paper)) for name, _, every, kept, paper, _ in rows}
    items = tomllib.loads((ROOT / "src/mechgap/experiments/alta/items.toml").read_text())["figure4"]["minimal"]
    printed = {row["program"]: row.get("rules") for row in items}
    assert found == {name: (of["rules"], of["kept"], printed[name]) for name, of in RECORDED.items()}
    assert {name: count for name, count in printed.items() if count} == {
        "parity_sequential_relative": 7,
        "parity_sequential_absolute": 7,
        "parity_sum_mod_2": 31,
    }


def test_minimal_addition_from_three_digits_adds_fifty() -> None:
    rng, program = random.Random(1), mg.program("addition")
    short = [f"{rng.randrange(10 ** rng.randint(1, 3))}+{rng.randrange(10 ** rng.randint(1, 3))}" for _ in range(3000)]
    seen = assignments(program, short)
    small = mg.minimal(program, short, seen)
    assert rule_count(small, seen) == RECORDED["addition"]["kept"]  # other sums, which show the same rules
    long = [f"{rng.randrange(10**50)}+{rng.randrange(10**50)}" for _ in range(20)]
    ran = small.interpret([small.encode(t) for t in long])
    ran.check()
    assert [small.decode(o) for o in ran.outputs] == [str(sum(map(int, t.split("+")))) for t in long]


def test_a_network_compiled_from_what_short_sums_show_adds_long_numbers() -> None:
    program = mg.program("addition")
    small = mg.minimal(program, task_of(program).train)
    rng = random.Random(1)
    long = [f"{rng.randrange(10**49, 10**50)}+{rng.randrange(10**49, 10**50)}" for _ in range(2)]
    compiled = mg.compile(small, certify="none", longest=len(program.encode(long[0])))
    outputs = compiled.run([small.encode(text) for text in long]).outputs
    assert [small.decode(o) for o in outputs] == [str(sum(map(int, text.split("+")))) for text in long]


@pytest.mark.slow
def test_minimal_scan_from_the_short_commands_solves_the_long_ones() -> None:
    train, test = length_split()
    program = mg.program("scan")
    seen = assignments(program, train)
    small = mg.minimal(program, train, seen)
    assert rule_count(small, seen) == RECORDED["scan"]["kept"]
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
        ("0110", "Give several inputs; got the text '0110'"),
        ([0, 1], "Inputs are texts or sequences of input ids; got 0"),
        ([None], "Inputs are texts or sequences of input ids; got None"),
        (5, "Give several inputs, texts or sequences of input ids, .*; got 5"),
        (None, "Give several inputs, texts or sequences of input ids, .*; got None"),
        (["012"], "Parity is of bits"),
        ([[0, 5]], "Input ids of 'parity_sequential_relative' are 0..2; got 5"),
    ],
)
def test_what_minimal_refuses(inputs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mg.minimal(mg.program("parity_sequential_relative"), inputs)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("bfs", "Only ALTA programs have a minimal version; got a GraphProgram. Give one, or its name"),
        ("parity", "No program 'parity'. Did you mean 'parity_s"),
        (None, "Only ALTA programs have a minimal version; got a NoneType"),
    ],
)
def test_programs_without_a_minimal_version_are_refused(program: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mg.minimal(program, ["01"])


def test_a_program_may_be_named() -> None:
    name, texts = "parity_sequential_relative", ["01", "11"]
    assert mg.minimal(name, texts).rules == mg.minimal(mg.program(name), texts).rules


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
    """Nothing would change without it, so that to the letter of Definition 1 the rule could never be minimal."""
    only = {"o": variable("o")}
    flip, examples = rule("o", 1, o=0), shown(only, ["0", "1"])
    assert removable([flip], examples, only) == ways_down([flip], examples, only) == []
    for value in (0, 1):
        assert written([replace(flip, tests=())], {"o": value}) == written([flip], {"o": value}) == {"o": 1}


def test_a_rule_that_changes_nothing_is_refused() -> None:
    """Its column of W2 would be 0, so that the proof's |W2_j|_1 = 2 would not hold."""
    idle = rule("o", 1, a=1, o=1)
    with pytest.raises(ValueError, match="'o := 1 if a = 1 and o = 1' changes nothing: o is 1 already"):
        compile_plain([idle], ABCO)
    assert removable([idle], shown(ABCO, ["1001"]), ABCO) == [Removable(idle)]


def test_a_rule_that_never_fires_is_named() -> None:
    extra = rule("o", 0, a=0, b=0, o=1)
    examples = shown(ABCO, ["1110", "0110", "1010", "1100", "1111"])
    assert removable([ALL_THREE, extra], examples, ABCO) == [Removable(extra)]
    assert {way.rule for way in ways_down([ALL_THREE, extra], examples, ABCO)} == {extra}
    assert str(removable([extra], examples, ABCO)[0]) == "the rule 'o := 0 if a = 0 and b = 0 and o = 1'"
    assert removable([ALL_THREE], examples, ABCO) == ways_down([ALL_THREE], examples, ABCO) == []


def test_rules_that_others_make_needless_are_named_and_refused() -> None:
    """One that fires only where another writes the same; and two that are alike, of which either could go."""
    wide, narrow = rule("o", 1, a=1, o=0), rule("o", 1, a=1, b=1, o=0)
    examples = shown(ABCO, ["1000", "1100", "0000", "0100"])
    assert removable([wide, narrow], examples, ABCO) == [Removable(narrow)]
    assert removable([wide, wide], examples, ABCO) == [Removable(wide), Removable(wide)]
    assert removable([wide], examples, ABCO) == []
    for rules in ([wide, narrow], [wide, wide]):
        for check in (lambda of: ways_down(of, examples, ABCO), lambda of: is_well_shown(of, examples)):
            with pytest.raises(ValueError, match="fire on the same example and write 'o' twice"):
                check(rules)
    apart = [rule("o", 1, a=1, b=1, o=0), rule("o", 1, a=1, b=0, o=0)]
    assert removable(apart, examples, ABCO) == ways_down(apart, examples, ABCO) == []


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
    """Sizes of variables, rules (target, value, tests) and examples, as numbers.

    Some examples are drawn at random, and some so that a rule fires, or that one of its tests fails: by chance alone
    most rules would never fire, and few sets be minimal.
    """
    sizes = draw(st.lists(st.integers(2, 3), min_size=2, max_size=4))
    places = st.integers(0, len(sizes) - 1)
    rules = []
    for _ in range(draw(st.integers(1, 5))):
        target = draw(places)
        tested = sorted({target, *draw(st.sets(places, min_size=1))})
        tests = {i: draw(st.integers(0, sizes[i] - 1)) for i in tested}
        value = draw(st.sampled_from([v for v in range(sizes[target]) if v != tests[target]]))
        rules.append((target, value, tests))
    one = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    rows = draw(st.lists(one, min_size=1, max_size=6))
    for _, _, tests in rules:
        for missed in draw(st.sets(st.sampled_from([None, *tests]))):
            row = [tests.get(i, member) for i, member in enumerate(draw(one))]
            if missed is not None:
                row[missed] = (row[missed] + 1) % sizes[missed]
            rows.append(tuple(row))
    return sizes, rules, list(dict.fromkeys(rows))


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


def reduced(rules: Sequence[Rule], examples: Assignments, readable: Mapping[str, Variable]) -> list[Rule]:
    """A minimal set that does the same: of every rule one thing at a time is removed, as long as something can be.

    A rule keeps the test of its target's old value, so that firing in more cases would change something: what can be
    removed leaves it firing where it did, and does not depend on what other rules lose.
    """
    left = list(rules)
    while found := {one.rule: one.test for one in reversed(removable(left, examples, readable))}:
        kept = [r for r in left if r not in found or found[r] is not None]
        left = [replace(r, tests=tuple(test for test in r.tests if test[0] != found.get(r))) for r in kept]
    return left


def test_what_holds_of_random_rule_sets() -> None:
    """On 500 sets, and on what is left of each when it is reduced to a minimal one: few are drawn as such."""
    counts: Counter[str] = Counter()

    @settings(max_examples=500, deadline=None)
    @given(drawn_sets(), st.floats(0.01, 0.99))
    def check(drawn: tuple, alpha: float) -> None:
        readable, rules, examples = rule_set(drawn)
        largest = max(1, *(len(r.tests) - 1 for r in rules))
        left_out, least = removable(rules, examples, readable), reduced(rules, examples, readable)
        assert removable(least, examples, readable) == []
        rows = [dict(zip(readable, map(int, row), strict=True)) for row in examples.rows]
        assert [written(least, row) for row in rows] == [written(rules, row) for row in rows]
        several = any(len(r.tests) > 1 for r in least)
        counts.update({"sets": 1, "several tests": several, "minimal as drawn": several and not left_out})
        well_shown = is_well_shown(rules, examples)
        counts.update({"well shown": well_shown, "well shown, not minimal": well_shown and bool(left_out)})
        for regulariser, weight in (("L1", alpha), ("L2", alpha / (2 * largest))):
            settled = {"alpha": weight, "regulariser": regulariser}
            ways = ways_down(rules, examples, readable, **settled)  # type: ignore[arg-type]
            assert (not ways) == well_shown  # the condition, in both directions
            assert ways_down(least, examples, readable, **settled) == []  # type: ignore[arg-type]  # Theorem 2
            for unused in (r for r in left_out if r.test is None):
                assert unused.rule in {way.rule for way in ways}  # the half of Theorem 1 that holds

    check()
    assert counts["sets"] == 500
    # Without these numbers Theorem 2 could hold of nothing, and the condition be tested in one direction only.
    assert counts["several tests"] >= 200
    assert counts["minimal as drawn"] >= 50
    assert 150 <= counts["well shown"] <= 350
    assert counts["well shown, not minimal"] >= 30  # as many counterexamples to Theorem 1


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


SHOWN = {
    "parity_sequential_relative": SHORT,
    "parity_sequential_absolute": ["1", "01", "1101", "001", "10"],
    "reverse": ["1 2 3", "4 5", "9 8 7 6"],
    "dyck_1": ["()", "(())", "())", "()(", ")"],
    "dyck_2": ["()", "([])", "[)", "()[", "]", "[(]"],
    "subleq": ["9 3 3 11 11 -1 0 0 0 1 7 5"],
    "addition": [f"{a}+{b}" for a in range(0, 100, 7) for b in range(0, 100, 3)],
    "scan_parser": ["walk", "jump twice and look left", "turn around right after run thrice"],
    "scan": ["walk", "jump twice and look left", "turn around right after run thrice"],
}
LONG = ("subleq", "addition", "scan_parser", "scan")


def test_all_programs_of_classes_alone_are_covered() -> None:
    """The theory is of categorical variables; the others have numbers or sets."""
    programs = {name: mg.program(name) for name in mg.program_names("alta")}
    inside = {n for n, p in programs.items() if all(isinstance(v, Categorical) for v in p.readable.values())}
    assert inside == set(SHOWN)
    said = (ROOT / "docs/theory.md").read_text()
    assert all(f"`{name}`" in said for name in programs)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in SHOWN])
def test_categorical_programs(name: str) -> None:
    """On what they are given: the rules that fire and one that does not, and the minimal set that is left of them."""
    program = mg.program(name, positions=8) if name == "parity_sequential_absolute" else mg.program(name)
    seen, readable = assignments(program, SHOWN[name]), program.readable
    small = minimal(program, SHOWN[name], seen).rules
    never = next((r for whole in program.rules for r in plain([whole], readable) if r not in small), None)
    if name.startswith("parity"):  # all rules of these fire; a place is done after its neighbour, not before
        assert never is None
        never = rule("parity", 1, done=1, done_left=0, parity=0)
    assert never is not None
    assert [r for r in removable([*small, never], seen, readable) if r.test is None] == [Removable(never)]
    least, z = reduced(small, seen, readable), encode(seen, readable)
    assert removable(least, seen, readable) == []
    assert any(len(r.tests) > 1 for r in least)
    np.testing.assert_array_equal(compile_plain(least, readable)(z), compile_plain(small, readable)(z))
    largest = max(len(r.tests) - 1 for r in small)
    for regulariser, alpha in (("L1", 0.5), ("L2", 0.5 / (2 * largest))):
        settled = {"alpha": alpha, "regulariser": regulariser}
        ways = ways_down([*small, never], seen, readable, **settled)  # type: ignore[arg-type]
        assert never in {way.rule for way in ways}  # the half of Theorem 1 that holds
        assert all(way.rule == never for way in ways) == is_well_shown(small, seen)  # the condition
        assert ways_down(least, seen, readable, **settled) == []  # type: ignore[arg-type]  # Theorem 2


def plain_of(program: AltaProgram) -> tuple[Rule, ...]:
    return plain(program.rules, program.readable)


def test_a_program_with_numbers_is_outside_the_theory() -> None:
    program = mg.program("parity_sum_mod_2")
    with pytest.raises(ValueError, match="'is_end' is none"):
        compile_plain(plain_of(program), program.readable)
    with pytest.raises(ValueError, match="is not plain: give one value per test, and test 'o' itself"):
        compile_plain([rule("o", 1, a=1)], ABCO)
