"""ALTA: the cases of the reference, oracles, the table of edge cases, and that both back ends agree value for value."""

import itertools
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mechgap as mg
from mechgap.compiler import to_transformer
from mechgap.compiler.alta_files import save_transformer
from mechgap.compiler.errors import PrecisionError
from mechgap.compiler.to_transformer import CompiledAlta
from mechgap.networks.layers import SparseLinear
from mechgap.programs.alta import AltaProgram, Categorical, Numeric, Rule
from mechgap.programs.alta_builder import RuleBuilder, alta_program, categorical, numeric, pure, qkv, set_of, v_relative
from mechgap.programs.alta_interpreter import UNDEFINED, UndefinedError, members_of
from mechgap.programs.alta_rules import RuleError, plain
from mechgap.programs.alta_stream import encoded
from mechgap.programs.library.scan_grammar import actions, commands, jump_split, length_split, random_split, read_split

CASES = json.loads((Path(__file__).parent / "golden" / "alta_cases.json").read_text())["programs"]
OTHER_NAMES = {"subleq_dense_interp": "subleq"}
NAMES = mg.program_names("alta")
SCAN = commands()
X = categorical("x", 4, from_input=lambda i: i)


@cache
def built(name: str) -> AltaProgram:
    return mg.program(name)


@cache
def compiled(name: str) -> CompiledAlta:
    return mg.compile(built(name), certify="none")


def known_cases() -> list[Any]:
    found = []
    for given, group in CASES.items():
        name = OTHER_NAMES.get(given, given.removeprefix("sparse_"))
        if name in NAMES and name != "scan":  # whose memory is laid out in another way here
            found += [pytest.param(name, case, id=f"{given}-{case['label']}") for case in group["cases"]]
    return found


@pytest.mark.parametrize(("name", "case"), known_cases())
def test_the_references_cases(name: str, case: dict[str, Any]) -> None:
    meant = built(name).interpret([case["input_ids"]])
    meant.check()
    ran = compiled(name).run([case["input_ids"]])
    ran.check()
    for found in (meant, ran):
        assert found.outputs[0] == case["expected_output"]
        assert found.layers[0] <= case["layers"]


@pytest.mark.parametrize("case", CASES["scan"]["cases"], ids=lambda case: case["label"])
def test_the_references_scan_cases(case: dict[str, Any]) -> None:
    program = built("scan")
    for found in (
        program.interpret([program.encode(case["label"])]),
        compiled("scan").run([program.encode(case["label"])]),
    ):
        found.check()
        assert program.decode(found.outputs[0]).split() == case["expected_decoded"]
        assert found.layers[0] <= case["layers"]


def joined(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))


def numbers(largest: int, longest: int) -> Callable[[random.Random], list[int]]:
    return lambda rng: [rng.randint(1, largest) for _ in range(rng.randint(1, longest))]


def most_frequent(x: list[int]) -> int:
    counts = Counter(x)
    return min(k for k, c in counts.items() if c == max(counts.values()))


def matches(text: str, depth: int) -> str:
    stack: list[str] = []
    for c in text:
        if c in "([":
            stack.append(c)
            if len(stack) > depth:
                return "no"
        elif not stack or "([".index(stack.pop()) != ")]".index(c):
            return "no"
    return "no" if stack else "yes"


def bits(rng: random.Random) -> str:
    return "".join(rng.choice("01") for _ in range(rng.randint(1, 24)))


def brackets(known: str) -> Callable[[random.Random], str]:
    return lambda rng: "".join(rng.choice(known) for _ in range(rng.randint(1, 8)))


def sums(rng: random.Random) -> str:
    return f"{rng.randrange(10 ** rng.randint(1, 12))}+{rng.randrange(10 ** rng.randint(1, 12))}"


def run_subleq(memory: list[int], most: int = 60) -> list[int] | None:
    """What a SUBLEQ computer of 16 cells leaves in its memory; None where it runs for longer."""
    memory, at = memory.copy(), 0
    for _ in range(most):
        if not 0 <= at <= 13 or not all(0 <= address < 16 for address in memory[at : at + 2]):
            return memory
        a, b, c = memory[at : at + 3]
        result = memory[b] - memory[a]
        memory[b] = max(-16, min(16, result))
        at = c if result <= 0 else at + 3
    return None


def computer(rng: random.Random) -> str:
    """A memory of small addresses and numbers whose program ends, and does something."""
    while True:
        memory = [rng.randint(0, 15) if rng.random() < 0.8 else rng.randint(-16, 16) for _ in range(16)]
        if run_subleq(memory) not in (None, memory):
            return joined(memory)


def reductions(text: str) -> list[str]:
    """What a shift-reduce parser of SCAN reduces, in its order."""
    for joint in (" after ", " and "):
        if joint in text:
            first, second = text.split(joint)
            return [*reductions(first), *reductions(second), f"S{joint}S"]
    if text.endswith(("twice", "thrice")):
        clause, times = text.rsplit(" ", 1)
        return [*reductions(clause), f"S {times}"]
    verb, _, turn = text.partition(" ")
    return [text] if verb == "turn" or not turn else [verb, f"S {turn}"]


def listed(oracle: Callable[[list[int]], list[int]]) -> Callable[[str], str]:
    return lambda text: joined(oracle([int(word) for word in text.split()]))


ORACLES: dict[str, tuple[Callable[[random.Random], str], Callable[[str], str]]] = {
    **{name: (bits, lambda t: str(t.count("1") % 2)) for name in NAMES if name.startswith("parity")},
    "addition": (sums, lambda t: str(sum(map(int, t.split("+"))))),
    "reverse": (lambda rng: joined(numbers(9, 16)(rng)), listed(lambda x: x[::-1])),
    "sort": (lambda rng: joined(numbers(9, 16)(rng)), listed(sorted)),
    "sort_unique": (lambda rng: joined(rng.sample(range(1, 16), rng.randint(1, 15))), listed(sorted)),
    "histogram": (lambda rng: joined(numbers(9, 16)(rng)), listed(lambda x: [x.count(i) for i in x])),
    "most_frequent": (lambda rng: joined(numbers(5, 12)(rng)), listed(lambda x: [most_frequent(x)] * len(x))),
    "scan": (lambda rng: rng.choice(SCAN), lambda t: " ".join(actions(t))),
    "scan_parser": (lambda rng: rng.choice(SCAN), lambda t: " | ".join(reductions(t))),
    "subleq": (computer, lambda t: joined(run_subleq([int(word) for word in t.split()]) or [])),
    "dyck_1": (brackets("()"), lambda t: matches(t, 8)),
    "dyck_2": (brackets("()[]"), lambda t: matches(t, 4)),
}


def agree_with_oracle(name: str, count: int) -> None:
    rng, (draw, oracle) = random.Random(7), ORACLES[name]
    program, network = built(name), compiled(name)
    texts = [draw(rng) for _ in range(count)]
    for start in range(0, count, 200):
        part = texts[start : start + 200]
        inputs = [program.encode(text) for text in part]
        expected = [oracle(text) for text in part]
        for found in (program.interpret(inputs), network.run(inputs)):
            found.check()
            assert [program.decode(outputs) for outputs in found.outputs] == expected


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "scan" else ()) for name in ORACLES]
)
def test_interpreter_and_network_agree_with_an_oracle(name: str) -> None:
    agree_with_oracle(name, 40)


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
def test_a_thousand_random_inputs(name: str) -> None:
    agree_with_oracle(name, 1000)


def test_text_in_text_out() -> None:
    assert built("addition").solve("789+456") == compiled("addition").solve("789+456") == "1245"
    assert built("parity_sequential_relative").solve("1011") == "1"


@pytest.mark.slow
def test_long_inputs() -> None:
    rng = random.Random(0)
    for name in (name for name in NAMES if name.startswith("parity")):
        texts = ["".join(rng.choice("01") for _ in range(n)) for n in range(1, 201)]
        inputs = [built(name).encode(t) for t in texts]
        for ran in (built(name).interpret(inputs), compiled(name).run(inputs)):
            ran.check()
            assert [o[-1] for o in ran.outputs] == [t.count("1") % 2 for t in texts], name
    big = [(10**200 - 1, 1), *((rng.randrange(10**d), rng.randrange(10**d)) for d in range(20, 201, 20))]
    inputs = [built("addition").encode(f"{a}+{b}") for a, b in big]
    for ran in (built("addition").interpret(inputs), compiled("addition").run(inputs)):
        assert [built("addition").decode(o) for o in ran.outputs] == [str(a + b) for a, b in big]


def test_the_sum_is_exact_for_every_number_of_ones() -> None:
    """The reference's compiled form is wrong from 9 ones on."""
    ran = compiled("parity_sum_mod_2").run([[1] * k + [2] for k in range(201)])
    ran.check()
    assert [o[-1] for o in ran.outputs] == [k % 2 for k in range(201)]


def test_a_program_that_changes_itself() -> None:
    # Cells 0-2 subtract cell 9 from cell 3, which is part of the next instruction; that then clears cell 10, not 11.
    memory = [9, 3, 3, 11, 11, -1, 0, 0, 0, 1, 7, 5]
    program = built("subleq")
    expected = memory.copy()
    expected[3], expected[11] = 10, 5 - 7
    for solve in (program.solve, compiled("subleq").solve):
        assert solve(joined(memory)) == joined(expected)


@pytest.mark.parametrize(
    ("name", "most"),
    [("parity_sequential_relative", 7), ("parity_sequential_absolute", 7), ("addition", 400), ("scan", 1999)],
)
def test_sizes(name: str, most: int) -> None:
    assert compiled(name).hidden_units <= most


@pytest.mark.parametrize("name", NAMES)
def test_the_stream_is_the_interpreters_at_every_layer(name: str) -> None:
    """Not only the output: every number of the residual stream encodes what the interpreter holds there."""
    program, network = built(name), compiled(name)
    rng = random.Random(3)
    ids = program.encode(ORACLES[name][0](rng))
    meant = program.interpret([ids])
    x, inside = network.network.embed(jnp.asarray(ids)), jnp.ones(len(ids), bool)
    layer = jax.jit(lambda x: network.network.layer(network.network.block, x, inside))
    for attended, after in zip(meant.attended, meant.streams[1:], strict=True):
        seen = layer(x)
        for head in program.heads:
            variable, found = program.readable[head.name], attended[head.name][0]
            defined = members_of(variable, found) != UNDEFINED
            want = np.array(
                [encoded(variable, v) if d else 0 * encoded(variable, 0) for v, d in zip(found, defined, strict=True)]
            )
            got = np.asarray(seen.attended)[:, network.layout.places[head.name]]
            np.testing.assert_allclose(got[defined], want[defined], atol=1e-5, err_msg=head.name)
        x = seen.stream
        wanted = np.zeros((len(ids), network.layout.width), np.float32)
        wanted[:, network.layout.one] = 1
        for v in program.variables:
            values = after[v.name][0]
            values = [v.sets[i] for i in values] if not isinstance(v, Categorical | Numeric) else values
            wanted[:, network.layout.places[v.name]] = [encoded(v, value) for value in values]
        np.testing.assert_allclose(np.asarray(x), wanted, atol=1e-6)


def one_step(mlp: Any, *variables: Any, heads: Any = (), **options: Any) -> AltaProgram:
    given = {"output": "x", "input_size": 4, "layers": 1, **options}
    return alta_program(
        "test", variables=(categorical("x", 4, from_input=lambda i: i), *variables), heads=heads, mlp=mlp, **given
    )


def everywhere(function: Callable, *variables: Any) -> None:
    """Rules, the network, and the Python function itself, on every combination of values."""
    program = one_step(function, *variables)
    readable = program.readable
    names = list(readable)
    for members in itertools.product(*(readable[name].domain for name in names)):
        values = dict(zip(names, members, strict=True))
        expected = dict(values)
        function(_Recorder(values, expected))
        fired = {r.target: r.value for r in program.rules if all(values[n] in allowed for n, allowed in r.tests)}
        assert {**values, **fired} == {k: int(v) for k, v in expected.items()}, values


class _Recorder:
    def __init__(self, values: dict[str, int], written: dict[str, int]):
        self.values, self.written = values, written

    def __getitem__(self, name: str) -> int:
        return self.values[name]

    def __setitem__(self, name: str, value: int) -> None:
        self.written[name] = value


def _arithmetic(z: Any) -> None:
    z["y"] = (3 * z["x"] - z["y"] + 2) % 3
    if z["x"] > z["y"] or z["x"] == 0:
        z["x"] = max(z["x"] - 1, 0) ^ (z["y"] & 1)


def _tables(z: Any) -> None:
    z["x"] = [2, 0, 3, 1][z["x"]]
    z["y"] = {0: 2, 1: 0, 2: 1}[z["y"]] if z["x"] in (1, 2) else z["y"]


def _nested(z: Any) -> None:
    if not z["x"]:
        return
    for value in range(3):
        if z["y"] == value and z["x"] != value:
            z["y"] = (value + 1) % 3
            z["x"] = pure(lambda a, b: abs(a - b))(z["x"], z["y"])


@pytest.mark.parametrize("function", [_arithmetic, _tables, _nested])
def test_rules_of_a_function_are_the_function(function: Callable) -> None:
    everywhere(function, categorical("y", 3))


def test_rules_come_out_as_small_as_by_hand() -> None:
    rules = [str(r) for r in built("parity_sequential_relative").rules]
    assert rules == [
        "parity := 0 if done = 0 and done_left = 1 and parity = 1 and parity_left = 1",
        "parity := 1 if done = 0 and done_left = 1 and parity = 0 and parity_left = 1",
        "done := 1 if done = 0 and done_left = 1",
    ]


def test_the_plain_form_tests_single_values_and_its_own() -> None:
    program = built("parity_sum_mod_2")
    rules = plain(program.rules, program.readable)
    assert len(rules) == 201  # for every count the parity that it changes
    assert all(len(values) == 1 for rule in rules for _, values in rule.tests)
    assert all(rule.target in dict(rule.tests) for rule in rules)


COPY_LEFT = (v_relative("left", "x", -1),)


def _copies(z: Any) -> None:
    z["x"] = z["left"]


def test_a_head_that_selects_nothing_is_an_error_in_both() -> None:
    program = one_step(_copies, heads=COPY_LEFT)
    network = mg.compile(program, certify="none")
    for found in (program.interpret([[1, 2]]), network.run([[1, 2]])):
        with pytest.raises(UndefinedError, match=r"position 0 of sequence 0.*a rule reads an undefined"):
            found.check()
    assert program.interpret([[1, 2]]).used_undefined[0].tolist() == [[True, False]]
    assert network.run([[1, 2]]).used_undefined.tolist() == [[True, False]]


def test_a_head_that_selects_different_values_is_undefined_and_equal_ones_are_not() -> None:
    def step(z: Any) -> None:
        z["x"] = z["all"]

    program = one_step(step, categorical("one", 2, 1), heads=(qkv("all", "one", "one", "x"),))
    network = mg.compile(program, certify="none")
    for found in (program.interpret([[1, 2, 2]]), network.run([[1, 2, 2]])):
        with pytest.raises(UndefinedError, match="undefined"):
            found.check()
    for found in (program.interpret([[3, 3, 3]]), network.run([[3, 3, 3]])):
        found.check()
        assert found.outputs == [[3, 3, 3]]


def test_an_undefined_value_that_is_not_read_does_not_matter() -> None:
    def step(z: Any) -> None:
        if z["x"] != 1:
            z["x"] = z["left"]

    program = one_step(step, heads=COPY_LEFT)
    for found in (program.interpret([[1, 2]]), mg.compile(program, certify="none").run([[1, 2]])):
        found.check()
        assert found.outputs == [[1, 1]]


def test_layers_and_halting() -> None:
    def step(z: Any) -> None:
        if z["x"] < 3:
            z["x"] = z["x"] + 1

    counting = one_step(step, halt=("x", 3), layers=None)
    network = mg.compile(counting, certify="none")
    for run in (counting.interpret, network.run):
        found = run([[3, 3], [1, 2], [0, 3]])
        assert found.layers.tolist() == [0, 2, 3]  # nothing is run where it holds already
        assert found.halted.all()
        stopped = run([[0, 0]], layers=2)
        assert stopped.layers.tolist() == [2]
        with pytest.raises(ValueError, match="has not ended after 2 layers on sequence 0"):
            stopped.check()
    exactly = one_step(step, layers=2)
    assert exactly.interpret([[0]]).outputs == mg.compile(exactly, certify="none").run([[0]]).outputs == [[2]]


def test_numbers_and_their_buckets() -> None:
    def step(z: Any) -> None:
        z["x"] = pure(lambda v: {-4.0: 0, -2.0: 1, 1.0: 2, 4.0: 3}[v])(z["mean"])

    values = (-4.0, -2.0, 1.0, 4.0)
    variables = (numeric("v", values, from_input=lambda i: values[i]), categorical("one", 2, 1))
    program = one_step(step, *variables, heads=(qkv("mean", "one", "one", "v"),))
    network = mg.compile(program, certify="none")
    for ids in ([0], [1], [2], [3], [0, 1, 1], [3, 2, 2], [0, 3], [1, 2, 3]):
        meant, ran = program.interpret([ids]), network.run([ids])
        assert meant.outputs == ran.outputs, ids
    for found in (program.interpret([[0, 1]]), network.run([[0, 1]])):  # -3 is halfway between two buckets
        with pytest.raises(UndefinedError, match="undefined"):
            found.check()


def test_a_written_number_and_a_written_set() -> None:
    def step(z: Any) -> None:
        if z["x"] == 0:
            z["v"] = 2.0
            z["s"] = frozenset({1, 2})
        if z["s"] == frozenset({1, 2}):
            z["x"] = 3
        if z["v"] == 2.0 and z["x"] == 1:
            z["x"] = 2

    sets = [(), (1, 2), (0,)]
    variables = (numeric("v", (-1.0, 0.5, 2.0), -1.0), set_of("s", 3, sets))
    program = one_step(step, *variables, layers=3)
    network = mg.compile(program, certify="none")
    assert program.interpret([[0, 1, 2, 3]]).outputs == network.run([[0, 1, 2, 3]]).outputs == [[3, 1, 2, 3]]


def test_a_causal_program_does_not_look_ahead() -> None:
    program = mg.program("histogram", causal=True)
    network = mg.compile(program, certify="none")
    for solve in (program.solve, network.solve):
        assert solve("3 1 3 3 1") == "1 1 2 3 2"


@pytest.mark.parametrize(("name", "text"), [("addition", "789+456"), ("histogram", "3 1 3")])
def test_separate_layers_equal_shared_ones(name: str, text: str) -> None:
    network = mg.compile(built(name), separate=8, certify="none")
    assert network.network.block.mlp[0].weight.shape[0] == 8
    assert network.hidden_units == compiled(name).hidden_units
    inputs = [built(name).encode(text)]
    mine, shared = network.run(inputs), compiled(name).run(inputs)
    assert (mine.outputs, mine.layers.tolist()) == (shared.outputs, shared.layers.tolist())
    assert not mine.used_undefined.any()


@pytest.mark.parametrize(
    "name", ["parity_sum_mod_2", *(pytest.param(n, marks=pytest.mark.slow) for n in ("addition", "sort"))]
)
def test_sparse_layers_equal_dense_ones(name: str, tmp_path: Path) -> None:
    rng = random.Random(5)
    inputs = [built(name).encode(ORACLES[name][0](rng)) for _ in range(20)]
    sparse, dense = mg.compile(built(name), sparse=True, certify="none"), compiled(name)
    assert all(isinstance(layer, SparseLinear) for layer in sparse.network.block.mlp)
    assert sparse.hidden_units == dense.hidden_units
    assert sparse.run(inputs).outputs == dense.run(inputs).outputs == built(name).interpret(inputs).outputs
    save_transformer(tmp_path / "a.safetensors", sparse)
    save_transformer(tmp_path / "b.safetensors", dense)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_layers_are_held_sparsely_where_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(isinstance(layer, SparseLinear) for layer in compiled("subleq").network.block.mlp)
    monkeypatch.setattr(to_transformer, "LARGE", 2**16)
    network = mg.compile(built("subleq"), certify="none")
    assert [isinstance(layer, SparseLinear) for layer in network.network.block.mlp] == [False, True]
    assert network.solve("9 3 3 11 11 -1 0 0 0 1 7 5") == compiled("subleq").solve("9 3 3 11 11 -1 0 0 0 1 7 5")


def test_sequences_of_different_lengths_do_not_disturb_each_other() -> None:
    program, network = built("addition"), compiled("addition")
    inputs = [program.encode(t) for t in ("5+5", "123456+654321", "0+0")]
    together = network.run(inputs)
    for i, ids in enumerate(inputs):
        assert network.run([ids]).outputs[0] == together.outputs[i] == program.interpret(inputs).outputs[i]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mlp": lambda z: z.__setitem__("x", z["x"] + 1)}, r"4 is not a value of x: 4 values"),
        ({"mlp": lambda z: z.__setitem__("left", 1), "heads": COPY_LEFT}, "writes 'left', the output of a head"),
        ({"mlp": lambda z: z["nobody"]}, "reads 'nobody'; there are x"),
        ({"mlp": (Rule((), "x", 1), Rule((("x", frozenset({0})),), "x", 2))}, "two rules write 'x' at once"),
        ({"mlp": (Rule((("x", frozenset({9})),), "x", 1),)}, "tests 'x' for .9.; it has the values 0..3"),
        ({"mlp": (Rule((), "y", 1),)}, "writes 'y', which does not exist"),
        ({"output": "y"}, "output 'y' is not a variable"),
        ({"halt": ("y", 1)}, "halt reads 'y', which is not a categorical variable"),
        ({"halt": ("x", 7)}, "halt waits for x = 7, which is not one of its values"),
        ({"layers": None}, "give layers, how many are run, or halt"),
        ({"layers": -1}, "layers must be a whole number that is not negative"),
        ({"input_size": 0}, "input_size must be 1 or more"),
        ({"positions": 0}, "positions must be 1 or more"),
        ({"variables": (X, categorical("p", 3, from_position=lambda i: i))}, "say how many there can be, positions="),
        ({"variables": (X, categorical("p", 2, 5))}, "'p' cannot start as 5"),
        ({"variables": (X, categorical("p", 2, from_input=lambda i: i))}, "'p' cannot start as 2"),
        ({"variables": (X, categorical("p", 0))}, "'p' needs 1 value or more"),
        ({"variables": (X, numeric("v", (1.0, 0.5)))}, "'v' needs buckets that rise"),
        ({"variables": (X, set_of("s", 2, [(), (5,)]))}, "'s' holds sets of numbers below 2"),
        ({"variables": (X, set_of("s", 2, [(1,)]))}, "'s' cannot start as frozenset"),
        ({"variables": (X, X)}, "the name 'x' is given twice"),
        ({"heads": (v_relative("x", "x", 1),)}, "the name 'x' is given twice"),
        ({"heads": (v_relative("h", "y", 1),)}, "head 'h' reads 'y' as its value; there are x"),
        ({"heads": (*COPY_LEFT, v_relative("far", "left", -1))}, "the output of a head of the same layer"),
        ({"heads": (qkv("h", "x", "y", "x"),), "variables": (X, categorical("y", 3))}, "x' .4 values. with 'y' .3"),
        ({"heads": (qkv("h", "v", "x", "x"),), "variables": (X, numeric("v", (0.0, 1.0)))}, "cannot compare numbers"),
        ({"heads": (qkv("h", "x", "s", "x"),), "variables": (X, set_of("s", 4, [()]))}, "needs a categorical key"),
        ({"heads": (qkv("h", "x", "x", "s"),), "variables": (X, set_of("s", 4, [()]))}, "cannot average sets"),
        ({"heads": (qkv("h", "x", "x", "x", buckets=(0, 1)),)}, "buckets are for numbers"),
    ],
)
def test_what_is_refused_when_a_program_is_made(changes: dict[str, Any], message: str) -> None:
    given = {"variables": (X,), "output": "x", "input_size": 4, "layers": 1, **changes}
    with pytest.raises((ValueError, RuleError), match=message):
        alta_program("test", **given)


def test_everything_wrong_with_a_program_is_said_at_once() -> None:
    drafts = (X, categorical("p", 0), categorical("q", 2, 5), numeric("v", (1.0, 0.5)))
    heads = (v_relative("h", "nobody", 1), v_relative("fine", "p", 1), qkv("w", "x", "x", "v", buckets=(0, 1)))
    with pytest.raises(ValueError, match="Program 'test' is not well formed") as refused:
        alta_program("test", variables=drafts, heads=heads, output="y", input_size=4, layers=-1, halt=("p", 1))
    assert [line.split(";")[0].strip() for line in str(refused.value).split("\n")[1:]] == [
        "layers must be a whole number that is not negative",
        "'p' needs 1 value or more",
        "'v' needs buckets that rise, all of them float32",
        "head 'h' reads 'nobody' as its value",
        "the output 'y' is not a variable",
    ]
    with pytest.raises(ValueError, match=r"'q' cannot start as 5.*\n.*head 'h' reads 'nobody'"):
        alta_program("test", variables=drafts[:3], heads=heads[:2], output="x", input_size=4, layers=1)
    same = [Rule((("x", frozenset({i, 3})),), "x", i) for i in range(3)]
    with pytest.raises(ValueError, match="not well formed") as refused:
        alta_program("test", variables=(X,), mlp=same, output="x", input_size=4, layers=1)
    assert str(refused.value).count("two rules write 'x' at once") == 3
    with pytest.raises(RuleError, match=r"^Program 'test': the function reads 'nobody'"):
        alta_program("test", variables=(X,), mlp=lambda z: z["nobody"], output="x", input_size=4, layers=1)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([[]], "at least one input id per sequence"),
        ([], "at least one input id"),
        ([[0, 9]], "Input ids of .* are 0..1; got 9"),
        ([[0] * 300], "has 256 positions; got a sequence of 300"),
    ],
)
def test_what_an_execution_refuses(inputs: Any, message: str) -> None:
    for run in (built("parity_sequential_absolute").interpret, compiled("parity_sequential_absolute").run):
        with pytest.raises(ValueError, match=message):
            run(inputs)


def test_what_the_compiler_refuses() -> None:
    near = tuple(1 + i * 1e-6 for i in range(3))
    program = one_step(lambda z: z.__setitem__("x", 1 if z["v"] == near[1] else 0), numeric("v", near, near[0]))
    with pytest.raises(PrecisionError, match=r"'v' has buckets .* which float32 cannot tell apart"):
        mg.compile(program)
    with pytest.raises(ValueError, match="certify must be 'quick', 'full' or 'none'; got 'maybe'"):
        mg.compile("addition", certify="maybe")
    with pytest.raises(ValueError, match=r"compiled for sequences of up to 4; got 9. Compile with longest=9"):
        mg.compile("addition", longest=4, certify="none").run([built("addition").encode("123+456")])


def test_a_program_prints_itself() -> None:
    said = str(built("addition"))
    for part in (
        "program addition",
        "carry: 2 values = 0",
        "head a = digit where at_a matches one",
        "more rules",
        "output out",
    ):
        assert part in said
    assert built("addition") == mg.program("addition")
    assert hash(built("addition")) == hash(mg.program("addition"))


def test_a_certificate_finds_a_broken_network() -> None:
    from dataclasses import replace

    from mechgap.compiler.alta_certificate import certify

    good = compiled("parity_sequential_relative")
    assert certify(good, "quick").ok
    mlp = good.network.block.mlp
    broken = replace(mlp[1], weight=mlp[1].weight.at[0].multiply(-1))
    network = replace(good.network, block=replace(good.network.block, mlp=(mlp[0], broken)))
    assert not certify(replace(good, network=network), "quick").ok


def test_scan_has_all_its_commands_and_splits() -> None:
    assert len(SCAN) == len(set(SCAN)) == 20_910
    assert [len(part) for part in length_split()] == [16_990, 3_920]
    assert max(len(actions(c)) for c in SCAN) == 48
    train, test = jump_split()
    assert len(test) == 7_706
    assert "jump" in train
    assert sorted([*random_split(3)[0], *random_split(3)[1]]) == sorted(SCAN)
    assert random_split(3) == random_split(3) != random_split(4)


def run_scan(given: list[str]) -> None:
    """All commands through the compiled network, those of about as many layers together."""
    network, program = compiled("scan"), built("scan")
    for start in range(0, len(given), 128):
        part = given[start : start + 128]
        ran = network.run([program.encode(c) for c in part])
        ran.check()
        assert [program.decode(o).split() for o in ran.outputs] == [actions(c) for c in part]


BY_LENGTH = sorted(SCAN, key=lambda c: (len(actions(c)), len(c), c))


@pytest.mark.slow
def test_300_scan_commands_of_all_lengths() -> None:
    assert {len(actions(c)) for c in BY_LENGTH[::69]} == {len(actions(c)) for c in SCAN}
    run_scan(BY_LENGTH[::69])


@pytest.mark.slow
def test_all_20910_scan_commands() -> None:
    run_scan(BY_LENGTH)


def test_a_published_split_is_read(tmp_path: Path) -> None:
    (tmp_path / "tasks.txt").write_text("IN: jump twice OUT: I_JUMP I_JUMP\nIN: turn left OUT: I_TURN_LEFT\n")
    assert read_split(tmp_path / "tasks.txt") == [("jump twice", ["JUMP", "JUMP"]), ("turn left", ["LTURN"])]
    (tmp_path / "bad.txt").write_text("IN: jump twice OUT: I_HOP\n")
    with pytest.raises(ValueError, match="line 1: expected 'IN: words OUT: I_ACTIONS'"):
        read_split(tmp_path / "bad.txt")


def test_rules_through_a_builder_are_those_of_the_function() -> None:
    relative = built("parity_sequential_relative")
    variables = (
        categorical("parity", 2, from_input=lambda x: x % 2),
        categorical("done", 2, from_input=lambda x: x == 2),
    )
    builder = RuleBuilder(variables, relative.heads)
    for done in builder.get("done"):
        if done:
            break  # nothing more to say; what was being gone through is forgotten
        for left in builder.get("done_left"):
            if left == 1:
                builder.set("done", 1)
                for parity_left, parity in builder.get("parity_left", "parity"):
                    builder.set("parity", parity_left ^ parity)
    sizes = {"output": "parity", "halt": ("done", 1), "input_size": 3}
    made = alta_program("built", variables=variables, heads=relative.heads, mlp=builder.rules, **sizes)
    assert made.rules == relative.rules
    with pytest.raises(ValueError, match="No variable 'odd'; there are parity, done"):
        next(builder.get("odd"))
    loop = builder.get("done")
    next(loop)
    with pytest.raises(ValueError, match="'done' is being gone through already"):
        next(builder.get("done"))


def test_a_program_is_the_same_in_every_process() -> None:
    """Merging goes through variables in an order of its own, not in that of a set."""
    code = "import mechgap as mg; print(*mg.program('scan_parser').rules, sep='\\n')"
    texts = []
    for seed in ("0", "3"):  # which differed when the order was that of a set
        given = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, check=True)
        texts.append(done.stdout)
    assert texts[0] == texts[1] != ""
