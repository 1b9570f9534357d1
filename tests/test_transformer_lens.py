"""ALTA programs as plain Transformers: in NumPy here, and in TransformerLens itself in an environment of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import mechgap as mg
from mechgap.cli import app
from mechgap.compiler.to_plain_transformer import check_plain
from mechgap.compiler.to_transformer import CompiledAlta
from mechgap.interop import transformer_lens
from mechgap.interop.transformer_lens import Exported, load, to_transformer_lens
from mechgap.networks.transformer import Layer, Transformer
from mechgap.programs.alta import AltaProgram
from mechgap.programs.alta_builder import alta_program, categorical, pure, qkv, v_relative
from mechgap.storage import write_tensors
from tl.cases import CASES

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tests" / "tl" / "run_exported.py"
PYTHON = ROOT / ".tl" / "bin" / "python"
PARITY = mg.program("parity_sequential_relative")
QUICK = ("parity_sequential_relative", "addition", "reverse")


def agreeing() -> AltaProgram:
    """A head averages all positions, which agree: 1/3 + 1/3 + 1/3, which is not 1 for every length."""

    def step(z: Any) -> None:
        if z["clock"] < 20:
            z["clock"] = z["clock"] + 1
            z["x"] = (z["seen"] + 1) % 3

    return alta_program(
        "agreeing",
        variables=(categorical("x", 3), categorical("clock", 21), categorical("one", 1)),
        heads=(qkv("seen", "one", "one", "x"),),
        mlp=step,
        output="x",
        halt=("clock", 20),
        input_size=2,
    )


def neighbours() -> AltaProgram:
    """What would happen to PAD, which has a place, and to NULL: rules of the place, and of nothing.

    And the last position has no right neighbour, though PAD stands at the place that it looks for.
    """

    def step(z: Any) -> None:
        z["odd"] = pure(lambda place: place % 2)(z["place"])
        z["seen"] = 1

    return alta_program(
        "neighbours",
        variables=(
            categorical("place", 9, from_position=lambda i: i),
            categorical("place_right", 9, from_position=lambda i: min(8, i + 1)),
            categorical("odd", 2),
            categorical("seen", 2),
        ),
        heads=(qkv("right", "place_right", "place", "place"), v_relative("left", "place", -1)),
        mlp=step,
        output="place",
        layers=2,
        input_size=1,
        positions=9,
    )


def constant() -> AltaProgram:
    """No heads, no rules."""
    return alta_program(
        "constant", variables=(categorical("x", 3, from_input=lambda x: x),), mlp=[], output="x", layers=1, input_size=3
    )


def exported(compiled: CompiledAlta, length: int, depth: int) -> Exported:
    """An export with plain weights for a model, which needs no torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformer_lens, "_bridge", lambda about, weights: weights)
        return to_transformer_lens(compiled, length=length, depth=depth)


@cache
def parity() -> CompiledAlta:
    return mg.compile(PARITY, longest=12)


def run_plain(weights: Mapping[str, np.ndarray], size: Mapping[str, Any], tokens: list[int]) -> list[np.ndarray]:
    """A plain Transformer on one sequence: the stream at first, after every attention and MLP, and the logits."""

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    hidden = np.triu(np.ones((len(tokens), len(tokens)), bool), 1) & (size["attention_dir"] == "causal")
    x = weights["embed.weight"][tokens] + weights["pos_embed.weight"][: len(tokens)]
    streams = [x]
    for layer in range(size["n_layers"]):
        heads = [linear(f"blocks.{layer}.attn.{name}", x).reshape(len(x), size["n_heads"], -1) for name in "qkv"]
        logits = np.einsum("ihd,jhd->hij", heads[0], heads[1]) / np.float32(size["attn_scale"])
        logits = np.where(hidden, -np.inf, logits).astype(np.float32)
        attention = np.exp(logits - logits.max(-1, keepdims=True))
        attention /= attention.sum(-1, keepdims=True)
        x = x + linear(f"blocks.{layer}.attn.o", np.einsum("hij,jhd->ihd", attention, heads[2]).reshape(len(x), -1))
        streams.append(x)
        x = x + linear(f"blocks.{layer}.mlp.out", np.maximum(linear(f"blocks.{layer}.mlp.in", x), 0))
        streams.append(x)
    return [*streams, linear("unembed", x)]


@eqx.filter_jit
def one_layer(network: Transformer, x: jax.Array, inside: jax.Array) -> Layer:
    return network.layer(network.block, x, inside)


def run_own(network: Transformer, ids: list[int], count: int, depth: int) -> list[np.ndarray]:
    """The same of mechgap's network, of the first `count` positions."""
    inside = jnp.arange(len(ids)) < count
    streams = [network.embed(jnp.asarray(ids))]
    for _ in range(depth):
        streams += one_layer(network, streams[-1], inside)[:2]
    return [np.asarray(x[:count]) for x in (*streams, network.read(streams[-1]))]


def largest_difference(compiled: CompiledAlta, inputs: list[list[int]], length: int, depth: int) -> float:
    """Between mechgap's network and the plain one, in all streams and logits, sequences padded to the full length."""
    given = exported(compiled, length, depth)
    null, pad = len(given.tokens) - 2, len(given.tokens) - 1
    worst = 0.0
    for row in inputs:
        padding = length - len(row)
        ours = run_own(compiled.network, row + [0] * padding, len(row), depth)
        theirs = run_plain(given.model, given.about["bridge"], [null, *row, *[pad] * padding])
        inside = slice(1, 1 + len(row))
        for mine, other in zip(ours, theirs, strict=True):
            worst = max(worst, float(np.abs(mine - other[inside, : mine.shape[1]]).max()))
        np.testing.assert_array_equal(ours[-1].argmax(-1), theirs[-1][inside].argmax(-1))
        outside = [np.delete(x, inside, axis=0) for x in theirs]
        assert all(np.array_equal(x, outside[0]) for x in outside[:-1]), "NULL and PAD stay what they are"
        assert (outside[-1] <= -1).all(), "and have no output"
    print(f"{compiled.program.name}: streams and logits differ by {worst:.3g} at most")
    return worst


@pytest.mark.parametrize("name", QUICK)
def test_a_plain_transformer_does_the_same(name: str) -> None:
    parameters, texts, length, depth = CASES[name]
    program = mg.program(name, **parameters)
    compiled = mg.compile(program, longest=length, certify="none")
    assert largest_difference(compiled, [program.encode(text) for text in texts], length, depth) <= 1e-6


@pytest.mark.parametrize("longest", [12, 512])
def test_rounded_averages_stay_where_they_are(longest: int) -> None:
    """With 512, tests of what a head read have a slope of 2048."""
    compiled = mg.compile(agreeing(), longest=longest, certify="none")
    assert largest_difference(compiled, [[0] * n for n in range(1, 13)], 12, 25) <= 1e-6


def test_null_and_padding_do_nothing_and_are_not_looked_at() -> None:
    assert largest_difference(mg.compile(neighbours(), certify="none"), [[0] * n for n in range(1, 10)], 9, 2) == 0


def test_a_program_may_have_neither_heads_nor_rules() -> None:
    assert largest_difference(mg.compile(constant(), certify="none"), [[0, 1, 2], [2]], 3, 1) == 0


def test_everything_has_a_name() -> None:
    given = exported(parity(), 4, 5)
    width, size = given.about["bridge"]["d_model"], given.about["bridge"]
    assert len(given.labels) == len(set(given.labels)) == width
    assert given.labels[:5] == ["[one]", "parity=0", "parity=1", "done=0", "done=1"]
    assert given.labels[-6:] == ["[NULL]", "[PAD]", *(f"[position {i}]" for i in range(4))]
    assert given.tokens == ["0", "1", "2", "NULL", "PAD"]
    assert given.positions == ["NULL", "0", "1", "2", "3"]
    assert given.about["variables"]["done_left"] == [7, 9]
    assert (size["n_layers"], size["n_ctx"], size["d_vocab"], size["d_vocab_out"]) == (5, 5, 5, 2)
    assert json.loads(json.dumps(given.about))["labels"] == given.labels


def test_positions_take_channels_only_where_heads_need_them() -> None:
    program = mg.program("parity_sequential_absolute", positions=6)
    assert exported(mg.compile(program, certify="none"), 6, 5).labels[-2:] == ["[NULL]", "[PAD]"]


REFUSED = {
    "histogram": "same is a set, is_start is a number, share is a number",
    "most_frequent": "same is a set, is_start is a number, above is a set",
    "parity_sum_mod_2": "is_end is a number, end_share is a number",
    "parity_sum_mod_2_intermediate": "is_end is a number, end_share is a number",
    "sort": "same is a set, is_start is a number, below is a set, smaller is a number, equal_before is a number",
    "sort_unique": "same is a set, is_start is a number, below is a set, smaller is a number",
}


SLOW_TO_MAKE = ("scan", "scan_parser")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in SLOW_TO_MAKE else n for n in mg.program_names("alta")],
)
def test_programs_with_numbers_or_sets_are_refused_by_name(name: str) -> None:
    program = mg.program(name)
    depth = 4 if program.halt else program.layers
    if name not in REFUSED:
        check_plain(program, 4, depth, 4)
        return
    with pytest.raises(
        ValueError, match=rf"'{name}' does not fit.*: {REFUSED[name]}.*must be categorical.*Write the program"
    ):
        check_plain(program, 4, depth, 4)


def restless(settled: bool) -> AltaProgram:
    """It goes on after its halt, or only writes again what is there."""

    def step(z: Any) -> None:
        z["done"] = 1
        if not settled:
            z["x"] = 1 - z["x"]

    return alta_program(
        "restless",
        variables=(categorical("x", 2), categorical("done", 2)),
        mlp=step,
        output="x",
        halt=("done", 1),
        input_size=2,
    )


BAD_SIZES = [
    (PARITY, 0, 4, r"length must be a whole number of at least 1; got 0"),
    (PARITY, 4, 2.5, r"depth must be a whole number of at least 1; got 2\.5"),
    (PARITY, 13, 4, r"compiled for sequences of up to 12; got length=13\. Compile with longest=13"),
    (mg.program("reverse", length=5), 7, 2, r"'reverse' has 6 positions; got length=7\. Build it with more positions"),
    (constant(), 3, 4, r"'constant' runs exactly 1 layers; got depth=4\. Give depth=1"),
    (restless(False), 3, 4, r"after the program has ended \(done = 1\) this rule may still fire: 'x := 0 if x = 1'"),
]


@pytest.mark.parametrize(("program", "length", "depth", "message"), BAD_SIZES)
def test_sizes_at_which_it_would_not_do_the_same_are_refused(
    program: AltaProgram, length: Any, depth: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_plain(program, length, depth, 12)


def test_a_rule_that_writes_what_is_there_may_fire_after_the_halt() -> None:
    check_plain(restless(True), 3, 4, 12)


def test_only_sound_compiled_alta_programs_are_exported() -> None:
    with pytest.raises(TypeError, match=r"expects a compiled ALTA program.*got Compiled"):
        to_transformer_lens(mg.compile("bfs", hidden=16, max_nodes=8, certify="none"), length=4, depth=4)
    wrong = replace(parity(), certificate=replace(parity().certificate, wrong=2))
    with pytest.raises(ValueError, match=r"(?s)does not do what it is meant to.*2 positions"):
        to_transformer_lens(wrong, length=4, depth=4)


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs TransformerLens 4.*pip install 'mechgap\[tl\]'"):
        to_transformer_lens(parity(), length=4, depth=4)
    words = ("addition", "--to", "transformer-lens", "--out", str(tmp_path / "x"), "--length", "9", "--depth", "5")
    assert "pip install 'mechgap[tl]'" in str(CliRunner().invoke(app, ["export", *words]).exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], r"sequences of 1 to 4 input ids; got 0"),
        ([[2, 1], []], r"sequences of 1 to 4 input ids; got 0"),
        ("1011", r"'parity_sequential_relative' reads sequences of 1 to 4 input ids; got 5\. Export it with another"),
        ([2, 3], r"Input ids of 'parity_sequential_relative' are 0\.\.2; got 3"),
        (["101", "12"], r"Parity is of bits"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        exported(parity(), 4, 5).encode(given)


def test_text_needs_the_program() -> None:
    with pytest.raises(ValueError, match=r"loaded without its program.*program=mechgap\.program\('parity_sequential_"):
        replace(exported(parity(), 4, 5), program=None).encode("101")


def test_folders_that_are_no_exports_are_refused(tmp_path: Path) -> None:
    about, config = exported(parity(), 4, 5).about, tmp_path / "config.json"
    with pytest.raises(FileNotFoundError, match=r"No config\.json in .*; write one with mechgap export --to"):
        load(tmp_path)
    config.write_text(json.dumps(about)[:50])
    with pytest.raises(ValueError, match=r"is not readable JSON.*truncated"):
        load(tmp_path)
    config.write_text('{"format": "other/1"}')
    with pytest.raises(ValueError, match="it says 'other/1'"):
        load(tmp_path)
    config.write_text(json.dumps(about))
    with pytest.raises(ValueError, match="holds the program 'parity_sequential_relative'; got 'reverse'"):
        load(tmp_path, program=mg.program("reverse"))
    with pytest.raises(FileNotFoundError, match=r"No file .*model\.safetensors"):
        load(tmp_path)
    write_tensors(tmp_path / "model.safetensors", {"A": np.zeros(3)}, {"format": "other/1"})
    with pytest.raises(ValueError, match="its header says 'other/1'"):
        load(tmp_path)
    (tmp_path / "file").write_text("old")
    with pytest.raises(NotADirectoryError, match=r"it is a file\. Name a folder"):
        exported(parity(), 4, 5).save(tmp_path / "file")


LENS = ("--to", "transformer-lens")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("addition", *LENS), "give --length, the longest sequence, and --depth, the number of layers"),
        (("bfs", *LENS, "--length", "4", "--depth", "4"), "'bfs' is a graph program, and only ALTA programs become"),
        (("sort", *LENS, "--length", "4", "--depth", "4"), "Program 'sort' does not fit a plain Transformer"),
        (("adition", *LENS, "--length", "4", "--depth", "4"), "Did you mean 'addition'"),
        (("addition", "--to", "clrs"), "'addition' is an ALTA program and cannot be exported to 'clrs'; give 'transf"),
        (("bfs", "--to", "clrs", "--depth", "4"), "length and depth are of an export to 'transformer-lens'; leave"),
        (("bfs", "--to", "transformerlens"), "Did you mean 'transformer-lens'? Valid: clrs, safetensors, transformer-"),
    ],
)
def test_a_mistake_ends_in_its_message(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export", *words, "--out", str(tmp_path / "x")])
    assert done.exit_code != 0
    assert message in str(done.exception)
    assert list(tmp_path.iterdir()) == []


needs_transformer_lens = pytest.mark.skipif(
    not PYTHON.exists(), reason="no environment with TransformerLens; `make tl` makes one"
)


def run_there(*command: str | Path) -> str:
    """Run a Python program in the environment that has TransformerLens."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    words = [str(PYTHON), *map(str, command)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
@needs_transformer_lens
def test_transformer_lens_gives_the_same_logits(tmp_path: Path) -> None:
    run_there(SCRIPT, tmp_path)
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer.keys() == CASES.keys()
    for name, found in answer.items():
        size = f"{found['sequences']} sequences, {found['positions']} positions"
        print(f"{name}: {size}, the logits differ by {found['difference']:.3g} at most")
        assert found["positions"] > 100
        assert found["layers"][0] <= found["layers"][1]
        assert (found["wrong"], found["solved"]) == (0, True), name
        assert found["difference"] <= 1e-6, name
        assert found["difference without padding"] <= 1e-6, name
        assert found["difference when loaded"] == found["difference without mechgap"] == 0, name
        assert found["described alike"], name
        wrong, read = found["variables"]
        assert read > 500, name
        assert wrong == 0, name
        assert not found["NULL and PAD changed"], name
        assert found["answers without attention"] != found["answers"], name


@pytest.mark.slow
@needs_transformer_lens
def test_the_command_writes_what_load_reads(tmp_path: Path) -> None:
    folder = tmp_path / "addition"
    words = ("addition", *LENS, "--out", str(folder), "--length", "9", "--depth", "5")
    said = run_there("-c", f"import sys; from mechgap.cli import main; sys.argv[1:] = {('export', *words)!r}; main()")
    assert f"wrote {folder}: addition for TransformerLens, sequences of up to 9, 5 layers" in said
    assert "7 heads of" in said
    assert "has not ended: next is not 2 everywhere" in said
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    program = "from mechgap.interop.transformer_lens import load; import mechgap as mg; " + (
        f"x = load({str(folder)!r}, mg.program('addition')); print(x.decode(x.model(x.encode(['789+456', '1+2']))))"
    )
    assert run_there("-c", program).splitlines()[-1] == "['1245', '3']"


@pytest.mark.slow
@needs_transformer_lens
def test_the_examples_in_the_document_run(tmp_path: Path) -> None:
    section = (ROOT / "docs" / "alta.md").read_text().split("## In TransformerLens")[1]
    example, alone = (block.split("```")[0] for block in section.split("```python\n")[1:])
    lines = [
        f"import json, os, safetensors.torch; os.chdir({str(tmp_path)!r})",
        example,
        "from transformer_lens.model_bridge import TransformerBridge",
        alone,
        "print(exported.decode(logits), exported.labels[11:14], (again.model(tokens) - bridge(tokens)).abs().max())",
    ]
    assert (
        run_there("-c", "\n".join(lines))
        .splitlines()[-1]
        .startswith("['1245', '3'] ['kind=0', 'kind=1', 'kind=2'] tensor(0.")
    )
