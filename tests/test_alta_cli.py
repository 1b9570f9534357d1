"""ALTA on the command line, and compiled Transformers as files."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import mechgap as mg
from mechgap.cli import app
from mechgap.compiler.alta_certificate import AltaCertificate
from mechgap.compiler.alta_files import load_transformer, save_transformer
from mechgap.networks.transformer import run_batch

runner = CliRunner()


def said(*words: str) -> str:
    done = runner.invoke(app, ["alta", *words], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.output


def test_list_names_every_program() -> None:
    output = said("list")
    for name in mg.program_names("alta"):
        assert name in output


def test_rules_are_all_printed() -> None:
    output = said("rules", "parity_sequential_relative")
    assert "head done_left = done everywhere at [-1]" in output
    assert output.count(" := ") == 3


def test_run_prints_the_stream_of_every_layer() -> None:
    output = said("run", "parity_sequential_absolute", "1", "0", "1", "--show", "parity", "--show", "done_left")
    assert output.count("position ") == 3
    assert "parity = [1, 1, 0], '0', after 2 layers" in output
    assert "idx" not in output


def test_the_parser_shows_action_stack_tree_and_buffer() -> None:
    output = said("run", "scan_parser", "jump", "twice", "after", "walk")
    for row in ("reduce S twice", "S after walk", "((jump) twice) after (walk)", "twice after walk"):
        assert row in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "bfs", "1"), "'bfs' is a graph program; ALTA programs are addition"),
        (("run", "adition", "1+1"), "Did you mean 'addition'"),
        (("run", "addition", "1-1"), "two numbers, e.g. '789+456'; got '1-1'"),
        (("run", "addition", "1+1", "--show", "carrie"), "has no variable 'carrie'; there are"),
        (("run", "parity_sum_mod_2", "2"), "Parity is of bits, e.g. '1011'; got '2'"),
        (("run", "scan", "hop"), "A SCAN command is of the words and, after"),
        (("run", "sort", "99"), "numbers 1 to 9, e.g. '3 1 2'; got '99'"),
        (("run", "dyck_1", "[]"), "Brackets are ( ); got '['"),
        (("compile", "addition", "--out", "no/such/x.safetensors"), "the folder no/such does not exist"),
        (("train", "relative_8", "--stop-after", "-5"), "--stop-after takes seconds, more than 0; got -5"),
    ],
)
def test_a_mistake_ends_in_its_message(words: tuple[str, ...], message: str) -> None:
    done = runner.invoke(app, ["alta", *words])
    assert done.exit_code != 0
    assert message in str(done.exception)


def test_what_is_not_certified_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AltaCertificate, "ok", property(lambda _: False))
    done = runner.invoke(app, ["alta", "compile", "parity_sum_mod_2", "--out", str(tmp_path / "parity.safetensors")])
    assert done.exit_code != 0
    assert "certificate of parity_sum_mod_2: NOT OK" in done.output
    assert "parity_sum_mod_2 does not compute what it should, see above; nothing is written." in str(done.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_compiled_network_comes_back_as_it_was(tmp_path: Path) -> None:
    output = said("compile", "addition", "--out", str(tmp_path / "addition.safetensors"))
    assert "certificate of addition: ok" in output
    network, header = load_transformer(tmp_path / "addition.safetensors")
    compiled = mg.compile("addition", certify="none")
    ids = jnp.asarray([compiled.program.encode("789+456")])
    lengths = jnp.asarray([ids.shape[1]])
    streams = [run_batch(net, ids, lengths, layers=5).stream for net in (network, compiled.network)]
    np.testing.assert_array_equal(*streams)
    assert header["stream"]["places"]["carry"] == [
        compiled.layout.places["carry"].start,
        compiled.layout.places["carry"].stop,
    ]
    assert jax.tree.structure(network) == jax.tree.structure(compiled.network)
    save_transformer(tmp_path / "again.safetensors", compiled)
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "addition.safetensors").read_bytes()
