"""Exported networks: the same numbers in the file, clear errors, and the reference itself runs them."""

import functools
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import mechgap as mg
from mechgap.compiler.certificate import Comparison
from mechgap.interop.exports import TREE_FORMAT, export, export_program, load_header, load_network, load_tree
from mechgap.networks import ClrsNet, NetConfig, from_reference, predict, to_reference
from mechgap.networks.reference_names import INFO, Tree
from mechgap.storage import read_tensors, write_tensors
from mechgap.training.weights import FORMAT, load_networks, save_networks
from reference_model import ask_the_reference, needs_the_oracle

ROOT = Path(__file__).parents[1]
SMALL = {"hidden": 16, "max_nodes": 16}
QUICKLY = {**SMALL, "certify": "none"}
SETTINGS = {
    "bfs": SMALL,
    "bfs, layer norm": {**QUICKLY, "layer_norm": True},
    "bellman_ford": QUICKLY,
    "bellman_ford, double": {**QUICKLY, "dtype": "float64"},
    "k_hop": QUICKLY,
}


@functools.cache
def compiled_as(name: str) -> mg.Compiled:
    """Compiled when it is asked for: every worker reads this file, one runs it."""
    return mg.compile(name.partition(",")[0], **SETTINGS[name])


def trained(**changes: object) -> ClrsNet:
    config = NetConfig(**{"hidden": 6, "heads": 3, **changes})
    return ClrsNet.init(mg.algorithm("bfs").spec, config, key=jax.random.key(0))


def same(one: ClrsNet, other: ClrsNet) -> bool:
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


def same_tree(one: Tree, other: Tree) -> bool:
    flat, also = ({f"{m}|{k}": x for m, xs in tree.items() for k, x in xs.items()} for tree in (one, other))
    return flat.keys() == also.keys() and all(np.array_equal(x, also[k]) for k, x in flat.items())


@pytest.mark.parametrize(
    "name", ["bfs", *(pytest.param(name, marks=pytest.mark.slow) for name in SETTINGS if name != "bfs")]
)
def test_a_compiled_network_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    compiled, path = compiled_as(name), tmp_path / "network.safetensors"
    export(compiled, "safetensors", path)
    again = load_network(path)
    assert same(again, compiled.network)
    drawn = np.random.RandomState(0).uniform(size=(2, 5, 5))
    A = np.where(drawn < 0.5, drawn, 0)  # no two weights are equal: a choice between them is clear
    inputs = {"A": np.maximum(A, A.transpose(0, 2, 1)), "s": np.eye(5)[[0, 3]]}
    inputs = {k: x for k, x in inputs.items() if k in compiled.program.spec.names(mg.Stage.INPUT)}
    ours, theirs = compiled.run(**inputs), replace(compiled, network=again).run(**inputs)
    assert theirs.differences(ours) == {}
    assert np.array_equal(ours.attention, theirs.attention)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"pre_attention_bias": 5, "edge_info": True, "simplify_decoders": True}])
def test_any_network_comes_back_with_identical_outputs(changes: dict, tmp_path: Path) -> None:
    net, path = trained(**changes), tmp_path / "network.safetensors"
    export(net, "safetensors", path)
    again = load_network(path)
    assert (again.spec, again.config) == (net.spec, net.config)
    trace = mg.algorithm("bfs").trace(A=np.ones((2, 5, 5)), s=np.eye(5)[:2])
    ours, theirs = (predict(n, trace.inputs, trace.hints, trace.lengths, steps=3) for n in (net, again))
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, ours, theirs)))


def test_training_reads_the_same_file(tmp_path: Path) -> None:
    export(compiled_as("bfs"), "safetensors", tmp_path / "bfs.safetensors")
    network, about = load_networks(tmp_path / "bfs.safetensors")
    assert same(network, compiled_as("bfs").network)
    assert (about["program"], about["certificate"], about["mechgap"]) == ("bfs", "quick", mg.__version__)


@pytest.mark.parametrize("name", ["bfs", "bfs, layer norm", "k_hop"])
def test_the_tree_is_the_references(name: str, tmp_path: Path) -> None:
    compiled, path = compiled_as(name), tmp_path / "network.npz"
    written = export(compiled, "clrs", path)
    tree, header = load_tree(path), load_header(path)
    assert same_tree(tree, to_reference(compiled.network))
    assert header == json.loads(json.dumps(written))
    assert header["format"] == TREE_FORMAT
    assert header["mechgap"] == mg.__version__
    assert header["algorithm"] == ("bfs" if "bfs" in name else None)
    assert NetConfig(**header["config"]) == compiled.network.config
    assert list(header["spec"]) == [v.name for v in compiled.program.spec]
    assert header["extra_layers"] == []
    assert same(from_reference(tree, compiled.program.spec, compiled.network.config), compiled.network)


def test_edge_information_is_one_more_entry_and_the_header_says_so(tmp_path: Path) -> None:
    network = compiled_as("bellman_ford").network
    export(compiled_as("bellman_ford"), "clrs", tmp_path / "bf.npz")
    tree, header = load_tree(tmp_path / "bf.npz"), load_header(tmp_path / "bf.npz")
    assert header["extra_layers"] == [INFO]
    assert "add hk.Linear(16, with_bias=False, name='info')" in " ".join(header["notes"])
    assert f"{INFO}|w" in np.load(tmp_path / "bf.npz").files
    assert same(from_reference(tree, network.spec, network.config, with_info=True), network)
    with pytest.raises(ValueError, match="The reference network has no edge_info"):
        from_reference(tree, network.spec, network.config)


def test_a_bare_network_is_exported_too(tmp_path: Path) -> None:
    export(trained(hint_mode="decoded_only"), "clrs", tmp_path / "net.npz", algorithm="bfs")
    tree, header = load_tree(tmp_path / "net.npz"), load_header(tmp_path / "net.npz")
    assert (header["algorithm"], header["reference"]["model"]["encode_hints"]) == ("bfs", False)
    assert same_tree(tree, to_reference(trained(hint_mode="decoded_only")))


def test_equal_networks_make_equal_files(tmp_path: Path) -> None:
    for to in ("clrs", "safetensors"):
        export(compiled_as("bfs"), to, tmp_path / "one")
        export(compiled_as("bfs"), to, tmp_path / "other")
        assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    export_program("bfs", "clrs", tmp_path / "bfs.npz", hidden=8, max_nodes=8, layer_norm=True)
    said = capsys.readouterr().out
    assert "bfs for clrs, hidden 8, with layer norm" in said
    assert "up to 8" in said
    assert load_header(tmp_path / "bfs.npz")["reference"]["processor"]["use_ln"] is True


def wrong_bfs() -> mg.Compiled:
    """A compiled network whose certificate counted mistakes."""
    wrong = Comparison(graphs=1, values=9, wrong=2)
    return replace(compiled_as("bfs"), certificate=replace(compiled_as("bfs").certificate, result=wrong))


BFS, DOUBLE = (functools.partial(compiled_as, name) for name in ("bfs", "bellman_ford, double"))
BIASED = functools.partial(trained, pre_attention_bias=5)
BAD_EXPORTS = [
    (BFS, "clr", "x.npz", ValueError, r"Cannot export to 'clr'\. Did you mean 'clrs'\? Valid: clrs, safetensors"),
    (BFS, "clrs", "no/x.npz", FileNotFoundError, r"the folder .*no does not exist\. Create it first"),
    (BFS, "safetensors", "no/x", FileNotFoundError, r"the folder .*no does not exist\. Create it first"),
    (BFS, "clrs", ".", IsADirectoryError, r"it is a folder\. Name a file in it, e\.g\. network\.npz"),
    (wrong_bfs, "clrs", "x.npz", ValueError, r"'bfs' does not do what(.|\n)*2 of 9 values"),
    (DOUBLE, "clrs", "x.npz", ValueError, "computes in float32, and this network is float64"),
    (BIASED, "clrs", "x.npz", ValueError, "has no pre_attention_bias.*Leave it off"),
]


@pytest.mark.parametrize(("given", "to", "path", "kind", "message"), BAD_EXPORTS)
def test_a_bad_export_writes_nothing(
    given: Callable[[], mg.Compiled | ClrsNet], to: str, path: str, kind: type, message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        export(given(), to, tmp_path / path)
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_cannot_be_exported_is_not_compiled_first(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        export_program("bfs", "clrs", tmp_path / "no" / "x.npz", hidden=-1)
    with pytest.raises(ValueError, match="No program 'bsf'"):
        export_program("bsf", "clrs", tmp_path / "x.npz")
    with pytest.raises(ValueError, match=r"(?s)does not do what it is meant to.*attention is soft"):
        export_program("bfs", "clrs", tmp_path / "x.npz", **SMALL, margin=3.0)
    assert list(tmp_path.iterdir()) == []


def test_a_set_of_networks_is_exported_one_by_one(tmp_path: Path) -> None:
    several = jax.tree.map(lambda x: np.stack([x, x]), trained())
    for to in ("clrs", "safetensors"):
        with pytest.raises(ValueError, match=r"export takes 2 networks with a leading axis; expected one\. Take one"):
            export(several, to, tmp_path / "x")
    save_networks(tmp_path / "set", several)
    with pytest.raises(ValueError, match="set holds 2 networks"):
        load_network(tmp_path / "set")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.npz"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for to in ("clrs", "safetensors"):
        with pytest.raises(OSError, match="No space left"):
            export(compiled_as("bfs"), to, path)
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]
    assert path.read_text() == "old"


def test_files_that_are_not_exports_are_refused(tmp_path: Path) -> None:
    tree, network, bad = tmp_path / "x.npz", tmp_path / "x.safetensors", tmp_path / "bad"
    export(compiled_as("bfs"), "clrs", tree)
    export(compiled_as("bfs"), "safetensors", network)
    for load in (load_tree, load_network):
        with pytest.raises(FileNotFoundError, match="No file"):
            load(tmp_path / "absent")
        for whole in (tree, network):
            for size in (0, 5, 1000, whole.stat().st_size - 1):
                bad.write_bytes(whole.read_bytes()[:size])
                with pytest.raises(ValueError, match=r"bad is not a readable (npz|safetensors) file"):
                    load(bad)
    with pytest.raises(ValueError, match="is not a readable npz file"):
        load_tree(network)
    with pytest.raises(ValueError, match="is not a readable safetensors file"):
        load_network(tree)


def test_foreign_contents_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", A=np.zeros(3))
    with pytest.raises(ValueError, match=r"its header says None\. Write one with export\(\.\.\., to='clrs'\)"):
        load_tree(tmp_path / "x.npz")
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(ValueError, match="is not a readable npz file"):
        load_tree(tmp_path / "x.npy")
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"A": np.zeros(3)}, {"format": "other/1"})
    with pytest.raises(ValueError, match="its header says 'other/1'"):
        load_network(path)
    write_tensors(path, {"A": np.zeros(3)}, {"format": FORMAT})
    with pytest.raises(ValueError, match=r"does not describe a network \('spec'\).*another version"):
        load_network(path)


def test_a_file_with_other_shapes_is_refused(tmp_path: Path) -> None:
    export(trained(), "safetensors", tmp_path / "x")
    tensors, header = read_tensors(tmp_path / "x", FORMAT)
    tensors["processor.value.weight"] = tensors["processor.value.weight"][:5]
    del tensors["processor.skip.bias"]
    write_tensors(tmp_path / "y", tensors, header)
    with pytest.raises(ValueError, match=r"(?s)missing: processor.skip.bias.*processor.value.weight must be float32"):
        load_network(tmp_path / "y")


@pytest.mark.slow
@needs_the_oracle
@pytest.mark.parametrize(("name", "layer_norm"), [("bfs", False), ("bfs", True), ("bellman_ford", False)])
def test_the_reference_runs_it_without_an_error(name: str, layer_norm: bool, tmp_path: Path) -> None:
    """Bellman-Ford behind a layer norm is missing: there, distances of random graphs are closer than its resolution."""
    export_program(name, "clrs", tmp_path / "x.npz", layer_norm=layer_norm)
    answer = ask_the_reference(tmp_path / "x.npz")
    assert answer["extra_layers"] == ([INFO] if name == "bellman_ford" else [])
    assert [(c["nodes"], c["graphs"]) for c in answer["counts"]] == [(4, 128), (16, 128), (64, 16)]
    names = {"output/pi", "hint/pi_h", "hint/reach_h" if name == "bfs" else "hint/msk"}
    for counts in answer["counts"]:
        assert counts["wrong"].keys() == names
        assert all(values > 100 and wrong == 0 for wrong, values in counts["wrong"].values()), counts
        assert counts["error"].keys() == ({"hint/d"} if name == "bellman_ford" else set())
        assert counts["error"].get("hint/d", 0) < 1e-5


@pytest.mark.slow
@needs_the_oracle
def test_the_reference_notices_a_wrong_weight(tmp_path: Path) -> None:
    """The counts above can be other than 0."""
    silent = np.zeros_like(compiled_as("bfs").network.processor.attention.weight)
    broken = eqx.tree_at(lambda net: net.processor.attention.weight, compiled_as("bfs").network, silent)
    export(broken, "clrs", tmp_path / "x.npz", algorithm="bfs")
    counts = ask_the_reference(tmp_path / "x.npz", "16:8")["counts"][0]
    assert counts["wrong"]["output/pi"][0] > 10
