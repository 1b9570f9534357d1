"""Networks as files for others: the reference's parameter tree (npz), or one self-describing safetensors file.

A "clrs" file holds one array per parameter of the reference model, under `module|parameter`, and a JSON `header`. In
the reference's own environment:

    with np.load("bfs.npz") as file:
        header = json.loads(str(file["header"]))
        names = [name.split("|") for name in file.files if "|" in name]
        model.params = {module: {p: file[f"{module}|{p}"] for m, p in names if m == module} for module, _ in names}

where `model` is a `BaselineModel` with the processor and the settings of header["reference"]. A "safetensors" file is
read by `load_network` and needs nothing else; training can start from it, too (`init_from`).
"""

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mechgap import __version__
from mechgap.algorithms.inputs import nearest
from mechgap.compiler import compile as compile_program
from mechgap.compiler.to_gatv2 import Compiled
from mechgap.networks import ClrsNet, NetConfig
from mechgap.networks.reference_names import INFO, Tree, to_reference
from mechgap.programs import program, program_names
from mechgap.storage import read_tensors, write_bytes
from mechgap.trace import Kind, Variable
from mechgap.training.weights import FORMAT, load_networks, named, renamed, save_networks, skeleton_of

TREE_FORMAT = "mechgap.reference_tree/1"
HEADER = "header"
TARGETS = {"clrs": ".npz", "safetensors": ".safetensors"}
TRANSFORMER_LENS = "transformer-lens"  # for ALTA programs, where the others are for graph programs
HINTS = {"encoded_decoded": (True, True), "decoded_only": (False, True), "none": (False, False)}  # encode, decode


def export(given: Compiled | ClrsNet, to: str, path: str | Path, *, algorithm: str | None = None) -> dict[str, Any]:
    """Write a network for use elsewhere; the file appears whole or not at all.

    Args:
        given: a compiled program, whose certificate must be ok where it has one, or any network.
        to: "clrs" for the reference's parameter names, "safetensors" for a file that `load_network` reads.
        path: the file to write.
        algorithm: what a bare network computes, for the header; a compiled program knows.

    Returns:
        The header that was written.
    """
    _check_target(to, path)
    network, about = _network_of(given), _about(given, algorithm)
    _check_single(network)
    if to == "clrs":
        header = _tree_header(network, about)
        _write_tree(Path(path), to_reference(network, with_info=True), header)
        return header
    save_networks(path, network, about)
    return about


def export_program(
    name: str, to: str, out: str | Path, *, length: int | None = None, depth: int | None = None, **compile_options: Any
) -> None:
    """Compile a program, write its network, and print what was written.

    Args:
        name: the program, e.g. "bfs".
        to: "clrs" or "safetensors" for a graph program, "transformer-lens" for an ALTA program.
        out: the file to write; for TransformerLens, the folder.
        length, depth: the longest sequence and the number of layers, for TransformerLens.
        compile_options: those of `mechgap.compile` for graph programs.
    """
    if to == TRANSFORMER_LENS:
        from mechgap.interop.transformer_lens import export_alta_program

        export_alta_program(name, out, length, depth)
        return
    if to not in TARGETS:
        raise ValueError(f"Cannot export to {to!r}. {nearest(to, (*TARGETS, TRANSFORMER_LENS))}")
    if name in program_names("alta"):
        raise ValueError(f"{name!r} is an ALTA program and cannot be exported to {to!r}; give {TRANSFORMER_LENS!r}.")
    if (length, depth) != (None, None):
        raise ValueError(f"length and depth are of an export to {TRANSFORMER_LENS!r}; leave them out for {to!r}.")
    _check_target(to, out)  # before the compilation, which takes a while
    chained = to == "clrs" and any(v.permutation for v in program(name).spec)  # the reference decodes matrices only
    compiled = compile_program(program(name, permutations=True) if chained else name, **compile_options)
    header = export(compiled, to, out)
    config, arrays = compiled.network.config, jax.tree.leaves(compiled.network)
    norm = "with" if config.use_layer_norm else "without"
    print(f"wrote {out}: {name} for {to}, hidden {config.hidden}, {norm} layer norm")
    print(f"  {sum(x.size for x in arrays)} parameters in {len(arrays)} arrays, {Path(out).stat().st_size} bytes")
    for word, said in header["domain"].items():
        print(f"  {word:<9} {said}")
    for note in header.get("notes", ()):
        print(f"  note      {note}")


def load_tree(path: str | Path) -> Tree:
    """The parameters in a "clrs" file: {module: {parameter: array}}."""
    tree: Tree = {}
    for name, x in _read_tree(path)[0].items():
        module, _, parameter = name.partition("|")
        tree.setdefault(module, {})[parameter] = x
    return tree


def load_header(path: str | Path) -> dict[str, Any]:
    """What a "clrs" file says about itself: algorithm, spec, config, the reference's settings, notes."""
    return _read_tree(path)[1]


def load_network(path: str | Path) -> ClrsNet:
    """The network in a "safetensors" file, in the dtype it was written in; names and shapes are checked."""
    tensors, header = read_tensors(path, FORMAT)
    double = any(x.dtype == np.float64 for x in tensors.values())
    try:
        with jax.enable_x64(double):  # without it, JAX would round float64 to float32 and say nothing
            network, _ = load_networks(path)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"The header of {path} does not describe a network ({error}); it was written by another version "
            f"({header.get('about', {}).get('mechgap', 'unknown')}; this is {__version__}). {_write_one('safetensors')}"
        ) from error
    _check_single(network, f"{path} holds")
    return network


def _read_tree(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    if not Path(path).is_file():
        raise FileNotFoundError(f"No file {path}.")
    try:
        file = np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array")
        arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop(HEADER, "null")))
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a readable npz file ({error}); it may be truncated.") from error
    given = header.get("format") if isinstance(header, dict) else None
    if given != TREE_FORMAT:
        raise ValueError(f"{path} is not a {TREE_FORMAT} file; its header says {given!r}. {_write_one('clrs')}")
    return arrays, header


def _write_one(to: str) -> str:
    return f"Write one with export(..., to={to!r})."


def _check_target(to: str, path: str | Path) -> None:
    if to not in TARGETS:
        raise ValueError(f"Cannot export to {to!r}. {nearest(to, TARGETS)}")
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"Cannot write {path}: it is a folder. Name a file in it, e.g. network{TARGETS[to]}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Cannot write {path}: the folder {path.parent} does not exist. Create it first.")


def _network_of(given: Any) -> ClrsNet:
    network = getattr(given, "network", given)
    if not isinstance(network, ClrsNet):
        raise TypeError(f"export expects a compiled program or a network; got {type(given).__name__}.")
    certificate = getattr(given, "certificate", None)
    if certificate is not None and not certificate.ok:
        raise ValueError(
            f"The compiled {given.program.name!r} does not do what it is meant to, so it is not exported. Compile it "
            f"with other options, or export its .network, which claims nothing.\n{certificate}"
        )
    return network


def _check_single(network: ClrsNet, what: str = "export takes") -> None:
    """One network, of the shapes its config says; not a set of them with a leading axis."""
    weight, leaves = next(iter(network.encoders.values()))[0].weight, named(network)
    if weight.ndim == 3:
        raise ValueError(
            f"{what} {weight.shape[0]} networks with a leading axis; expected one. "
            f"Take one of them, e.g. jax.tree.map(lambda x: x[0], networks)."
        )
    with jax.enable_x64(weight.dtype == np.float64):
        renamed(skeleton_of(network.spec, network.config), leaves, "The network")


def _about(given: Any, algorithm: str | None) -> dict[str, Any]:
    """What a file says about its network beside spec and config."""
    about: dict[str, Any] = {"mechgap": __version__, "algorithm": algorithm}
    if not isinstance(given, Compiled):
        return about
    certificate, numbers = given.certificate, given.numbers
    unchecked = {"nodes": f"up to {numbers.max_nodes}, positions at least {numbers.min_gap:.3g} apart"}
    return about | {
        "algorithm": algorithm or given.program.algorithm,
        "program": given.program.name,
        "certificate": None if certificate is None else certificate.level,
        "domain": unchecked if certificate is None else certificate.domain,
    }


def _tree_header(network: ClrsNet, about: dict[str, Any]) -> dict[str, Any]:
    if network.dtype != np.float32:
        raise ValueError(
            f"The reference computes in float32, and this network is {network.dtype}. "
            f"Compile it with dtype='float32', or export it to 'safetensors'."
        )
    return {
        "format": TREE_FORMAT,
        **about,
        "spec": {v.name: [v.stage, v.location, _type_of(v)] for v in network.spec},
        "classes": {v.name: v.classes for v in network.spec if v.classes is not None},
        "config": asdict(network.config),
        "reference": _reference_settings(network.config),
        "extra_layers": [INFO] if network.config.edge_info else [],
        "notes": _notes(network.config),
    }


def _type_of(variable: Variable) -> str:
    return "should_be_permutation" if variable.permutation else Kind(variable.kind).value


def _reference_settings(config: NetConfig) -> dict[str, Any]:
    """The arguments with which the reference builds the same architecture."""
    encode, decode = HINTS[config.hint_mode]
    return {
        "processor": {
            "kind": config.processor + ("_full" if config.full_adjacency else ""),
            "use_ln": config.use_layer_norm,
            "nb_triplet_fts": config.triplet_features if config.has_triplets else 0,
            "nb_heads": config.heads,
        },
        "model": {
            "hidden_dim": config.hidden,
            "encode_hints": encode,
            "decode_hints": decode,
            "hint_repred_mode": config.hint_repred,
            "nb_msg_passing_steps": config.message_passing_steps,
            "encoder_init": config.encoder_init,
            "use_lstm": False,
            "dropout_prob": 0.0,
            "hint_teacher_forcing": 0.0,
        },
    }


def _notes(config: NetConfig) -> list[str]:
    notes = []
    if config.precision == "highest":
        notes.append("on a GPU or TPU set jax_default_matmul_precision to 'highest': the weights need full float32")
    if config.edge_info:
        notes.append(
            f"the reference has no layer {INFO}: add hk.Linear({config.hidden}, with_bias=False, name='info') to its "
            f"GATv2, on edge_fts, summed over j with the attention coefficients, inside the ReLU"
        )
    return notes


def _write_tree(path: Path, tree: Tree, header: Mapping[str, Any]) -> None:
    arrays = {f"{module}|{name}": x for module, xs in tree.items() for name, x in xs.items()}
    blob = io.BytesIO()
    np.savez(blob, **{HEADER: np.array(json.dumps(header)), **arrays})
    write_bytes(path, blob.getvalue())
