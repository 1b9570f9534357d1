"""The edges of ALTA: large rules, numbers far from their buckets, functions that are no rules, long texts."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mechgap as mg
from mechgap.compiler.errors import PrecisionError
from mechgap.programs.alta import AltaProgram, Head, Rule
from mechgap.programs.alta_builder import RuleBuilder, alta_program, categorical, numeric, pure, qkv, v_relative
from mechgap.programs.alta_rules import RuleError
from mechgap.programs.library.scan_grammar import read_mcd_split, read_split
from mechgap.programs.minimal import minimal

X = categorical("x", 4, from_input=lambda i: i)


def small(mlp: Any, *variables: Any, **more: Any) -> AltaProgram:
    given = {"heads": (), "output": "x", "input_size": 4, "layers": 1} | more
    return alta_program("small", variables=(X, *variables), mlp=mlp, **given)


def agree(program: AltaProgram, inputs: list[list[int]]) -> list[list[int]]:
    """Both back ends: the same outputs, layers and flags."""
    meant, found = program.interpret(inputs), mg.compile(program, certify="none").run(inputs)
    assert found.outputs == meant.outputs
    assert found.layers.tolist() == meant.layers.tolist()
    flags = np.any(meant.used_undefined, axis=0) if meant.used_undefined else np.zeros(found.used_undefined.shape, bool)
    np.testing.assert_array_equal(found.used_undefined, flags)
    return meant.outputs


def test_rules_of_many_large_variables() -> None:
    """More combinations than an integer holds, and more than a table does."""
    names = [f"v{i:02d}" for i in range(17)]
    rules = [Rule(tuple((n, frozenset({1})) for n in names), "x", 3)]
    variables = [categorical(n, 15, 0 if n == "v00" else 1) for n in names]
    assert agree(small(rules, *variables), [[0, 1]]) == [[0, 1]]

    def step(z: Any) -> None:
        if z["a"] and z["b"] and z["c"]:
            z["x"] = 1

    assert agree(small(step, *(categorical(n, 300, 5) for n in "abc")), [[0, 3]]) == [[1, 1]]


def look_back(z: Any) -> None:
    if z["x"] == 0:
        z["x"] = 1
    elif z["x"] == 1:
        z["x"] = 3 if z["m"] == 1 else 2
        z["v"] = 0.0
    elif z["x"] == 3:
        z["x"] = 0 if z["m"] == 1 else 2


def test_numbers_beyond_the_buckets() -> None:
    given, here = [[0, 1, 2, 3]], v_relative("m", "v", 0)
    agree(small(look_back, numeric("v", (0, 1), 100.0), heads=(here,), layers=3), given)
    other = qkv("m", "x", "x", "v", relative=[0], buckets=(0, 1))
    agree(small(look_back, numeric("v", (0, 100), 100.0), heads=(other,), layers=3), given)

    def write(z: Any) -> None:
        if z["x"] == 0:
            z["v"], z["x"] = 1000.0, 1
        elif z["x"] == 1:
            z["v"], z["x"] = 0.0, 2
        elif z["x"] == 2:
            z["x"] = 3 if z["v"] == 1 else 0

    assert agree(small(write, numeric("v", (0, 1)), layers=3), given) == [[0, 1, 2, 3]]


def test_a_number_that_cannot_be_cleared_is_refused() -> None:
    def step(z: Any) -> None:
        if z["x"] == 0:
            z["v"], z["x"] = 0.0, 1

    program = small(step, numeric("v", (0, 1e-4, 1000.0), 1e-4), layers=2)
    with pytest.raises(PrecisionError, match=r"too much for the buckets 0 and 0\.0001 of 'v': they must differ by"):
        mg.compile(program)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variables": (numeric("v", (0, 1), 0.5),)}, "cannot start as 0.5: .* halfway between two of its buckets"),
        ({"mlp": lambda z: z.__setitem__("v", 0.5), "variables": (numeric("v", (0, 1)),)}, "0.5 is not a value of v"),
        ({"variables": (numeric("v", (0, float("inf"))),)}, "buckets that rise, all of them float32; got"),
        ({"variables": (numeric("v", (0, 1e-42)),)}, "buckets that rise, all of them float32; got"),
        ({"mlp": [Rule((("x", frozenset({0})), ("x", frozenset({1}))), "x", 2)]}, "a rule tests 'x' twice"),
        ({"mlp": [Rule((("x", frozenset({0})),), "x", -1)]}, "-1 is not a value of x"),
        ({"mlp": [Rule((("x", frozenset({0})),), "x", 1)] * 2}, "two rules write 'x' at once"),
        ({"heads": (Head("h", "x", None, "x"),)}, "needs both a query and a key, or neither"),
        ({"output": "v", "variables": (numeric("v", (0, 1)),)}, "the output 'v' must be categorical"),
    ],
)
def test_what_is_refused_when_a_program_is_made(change: dict[str, Any], message: str) -> None:
    change = dict(change)
    with pytest.raises(ValueError, match=message):
        small(change.pop("mlp", ()), *change.pop("variables", ()), **change)


WRONG_TYPES = """
from mechgap.programs.alta_builder import alta_program, categorical, v_relative
x = categorical("x", 4, from_input=lambda i: i)
for change in ({"heads": (v_relative("h", "x", 0.5),)}, {"layers": 2.5}, {"layers": "3"}, {"halt": "x"}):
    try:
        alta_program("small", variables=(x,), **({"output": "x", "input_size": 4, "layers": 1} | change))
    except ValueError as error:
        print(" ".join(str(error).split()))
"""


def test_values_of_the_wrong_type_are_refused() -> None:
    """As a user meets them: here, in the tests, types are checked before."""
    said = subprocess.run([sys.executable, "-c", WRONG_TYPES], capture_output=True, text=True, check=True).stdout
    first, second, third, fourth = said.splitlines()
    assert "head 'h': relative positions are whole numbers; got [0.5]." in first
    assert "layers must be a whole number that is not negative; got 2.5." in second
    assert "layers must be a whole number that is not negative; got '3'." in third
    assert "halt must be (variable, value); got 'x'." in fourth


def test_a_builder_does_not_go_through_a_variable_twice() -> None:
    with pytest.raises(ValueError, match="'x' is being gone through already"):
        next(RuleBuilder((X,)).get("x", "x"))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda z: z.__setitem__("x", pure(lambda c: int(c == z["y"]))(z["x"])), "refers to y from outside"),
        (lambda z: z.__setitem__("x", pure(lambda t, c: max(t))((z["x"], z["y"]), z["x"])), "give them one by one"),
        (lambda z: z.__setitem__("x", 3 // z["x"]), "fails where x = 0: ZeroDivisionError"),
        (lambda z: z.__setitem__("x", pure(lambda c: [c])(z["x"])), r"is written \[0\], which is not a value"),
    ],
)
def test_functions_that_cannot_be_rules(step: Callable, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        small(step, categorical("y", 3))


def test_pure_functions_see_the_loop_they_are_in() -> None:
    tables = {"x": (1, 2, 3, 0), "y": (2, 0, 1)}

    def step(z: Any) -> None:
        for name in ("x", "y"):
            z[name] = pure(lambda v: tables[name][v])(z[name])  # noqa: B023

    assert agree(small(step, categorical("y", 3)), [[0, 1, 2, 3]]) == [[1, 2, 3, 0]]

    def by_text(z: Any) -> None:
        z["x"] = {"0": 3, "1": 2}.get(f"{z['x']}", 1)

    assert agree(small(by_text), [[0, 1, 2, 3]]) == [[3, 2, 1, 1]]


def test_small_and_empty_programs() -> None:
    assert agree(small(()), [[2, 0], [1]]) == [[2, 0], [1]]  # no rules, no heads
    assert agree(small((), layers=0), [[2, 0]]) == [[2, 0]]
    one_bucket = small(lambda z: z.__setitem__("x", 1) if z["v"] == 7 else None, numeric("v", (7,), 3))
    assert agree(one_bucket, [[0, 2]]) == [[1, 1]]
    nothing = qkv("h", "x", "y", "x")  # matches where y = x, which is nowhere for these
    read = small(lambda z: z.__setitem__("x", z["h"]), categorical("y", 4, 3), heads=(nothing,))
    assert agree(read, [[0, 1], [2]]) == [[0, 1], [2]]
    assert agree(small((), categorical("relative_qk", 2)), [[3]]) == [[3]]


def test_means_near_a_threshold_and_far_from_all_buckets() -> None:
    def step(z: Any) -> None:
        z["x"] = 1 if z["m"] == 1 else 0

    for value, expected in ((0.501, 1), (0.499, 0), (50.0, 1), (-50.0, 0)):
        head = qkv("m", "one", "one", "v", buckets=(0.0, 1.0))
        program = small(step, categorical("one", 2, 1), numeric("v", (0, 1), value), heads=(head,))
        assert agree(program, [[0, 0, 3]]) == [[expected] * 3]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("histogram", "3 " * 20, "for 16 numbers; got 20"),
        ("most_frequent", "3 " * 14, "for 12 numbers; got 14"),
        ("parity_sum_mod_2", "1" * 201, "up to 200 ones; got 201"),
        ("scan", "walk walk", "'walk walk' is not a SCAN command"),
        ("scan", "turn", "'turn' is not a SCAN command"),
        ("scan_parser", "walk and run and jump", "is not a SCAN command"),
        ("subleq", "99 0", "whole numbers -16 to 16"),
        ("subleq", "a b", "whole numbers -16 to 16"),
        ("addition", "²+1", "two numbers, e.g. '789"),
    ],
)
def test_texts_that_a_program_is_too_small_for(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mg.program(name).solve(text)


def test_a_split_by_compound_divergence_is_read(tmp_path: Path) -> None:
    (tmp_path / "tasks.txt").write_text("IN: jump twice OUT: I_JUMP I_JUMP\nIN: turn left OUT: I_TURN_LEFT\n")
    (tmp_path / "mcd1.json").write_text('{"trainIdxs": [1], "testIdxs": [0]}')
    assert read_mcd_split(tmp_path / "mcd1.json", tmp_path / "tasks.txt") == (["turn left"], ["jump twice"])
    (tmp_path / "mcd1.json").write_text('{"trainIdxs": [5], "testIdxs": [0]}')
    with pytest.raises(ValueError, match="5 is not the number of a line"):
        read_mcd_split(tmp_path / "mcd1.json", tmp_path / "tasks.txt")
    for broken, message in {
        '{"trainIdxs": [1]}': "the lists trainIdxs and testIdxs, none of them empty",
        '{"trainIdxs": [1], "testIdxs": []}': "the lists trainIdxs and testIdxs, none of them empty",
        '{"trainIdxs": [1': r"mcd1.json is not readable JSON .* it may be truncated. Fetch it again",
    }.items():
        (tmp_path / "mcd1.json").write_text(broken)
        with pytest.raises(ValueError, match=message):
            read_mcd_split(tmp_path / "mcd1.json", tmp_path / "tasks.txt")
    with pytest.raises(FileNotFoundError, match=r"No file none.txt, whose lines .*mcd1.json numbers. Put it there"):
        read_mcd_split(tmp_path / "mcd1.json", "none.txt")
    (tmp_path / "tasks.txt").write_text("IN: walk twice OUT: I_WALK\n")
    with pytest.raises(ValueError, match="line 1: 'walk twice' means WALK WALK"):
        read_split(tmp_path / "tasks.txt")


def test_minimal_keeps_what_is_written_over_a_number() -> None:
    """0.45 is in the bucket of 0, and yet a rule that writes 0 changes it."""

    def step(z: Any) -> None:
        if z["t"] == 0:
            z["v"], z["t"] = 0.0, 1
        elif z["t"] == 1:
            z["x"] = 1 if z["m"] == 0 else 0
            z["t"] = 2

    number = numeric("v", (0, 1), from_input=lambda i: [0.45, 1.0, 0.0, 0.0][i])
    head = qkv("m", "one", "one", "v", buckets=(0, 0.4, 1))
    more = {"heads": (head,), "halt": ("t", 2), "layers": None}
    program = small(step, number, categorical("t", 3), categorical("one", 2, 1), **more)
    assert minimal(program, [[0]]).interpret([[0]]).outputs == program.interpret([[0]]).outputs == [[1]]
