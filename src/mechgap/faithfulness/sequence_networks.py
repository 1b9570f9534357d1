"""What a study trained, as a file: safetensors with a leading seed axis, and the settings from which it is rebuilt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mechgap.compiler import compile as compile_program
from mechgap.faithfulness.sequence_presets import SequenceStudy
from mechgap.programs import program as look_up
from mechgap.programs.alta import AltaProgram
from mechgap.storage import read_tensors, write_tensors
from mechgap.training.sequences.end_to_end import ParitySize
from mechgap.training.sequences.probed import Probed
from mechgap.training.sequences.scan import ScanSize
from mechgap.training.sequences.supervise import Mlp
from mechgap.training.weights import named, renamed

FORMAT, NETWORKS = "mechgap.sequence_networks/1", "networks.safetensors"
PROBED = "_probed"  # ends the names of studies of this kind
# What Table 2 calls Sum + Modulo is trained from a program that counts in large numbers, and in turn (ALTA C.1, D.1).
TRACED: dict[str, tuple[str, Mapping[str, Any]]] = {
    "parity_sum_mod_2_traced": ("parity_sum_mod_2_intermediate", {"scale": 1000.0, "staged": True})
}


def save_sequence_networks(folder: str | Path, study: SequenceStudy, networks: Any, seeds: Sequence[int]) -> None:
    """Write what a study trained into its folder: whole Transformers, or MLPs for the compiled rest of a program."""
    header = {"format": FORMAT, "study": asdict(study), "seeds": list(seeds)}
    weights = eqx.filter(networks, eqx.is_inexact_array)
    write_tensors(Path(folder) / NETWORKS, {name: np.asarray(x) for name, x in named(weights).items()}, header)


def load_sequence_networks(folder: str | Path) -> tuple[SequenceStudy, Any, list[int]]:
    """The study of a folder, its networks with a leading seed axis, and their seeds."""
    path = Path(folder) / NETWORKS
    if not path.exists():
        raise FileNotFoundError(
            f"No file {path}: weights stay where a study was trained. Train it, e.g. mechgap alta train relative_8."
        )
    tensors, header = read_tensors(path, FORMAT)
    study = SequenceStudy.of(header["study"])
    keys = jax.eval_shape(lambda: jax.vmap(jax.random.key)(jnp.arange(len(header["seeds"]))))
    skeleton = eqx.filter_eval_shape(eqx.filter_vmap(maker_of(study)), keys)
    weights, fixed = eqx.partition(skeleton, lambda x: jnp.issubdtype(getattr(x, "dtype", int), jnp.inexact))
    arrays = {name: jnp.asarray(x) for name, x in tensors.items()}
    return study, eqx.combine(renamed(weights, arrays, f"What is in {path}"), fixed), header["seeds"]


def maker_of(study: SequenceStudy) -> Callable[[Any], Any]:
    """Key -> what a study trains, with random weights."""
    if isinstance(study.transformer, ScanSize):
        return study.transformer.network
    if isinstance(study.transformer, ParitySize):
        return study.transformer.transformer
    program = parity_program(study.name.removesuffix(PROBED), 2 * study.train_length)
    if (probed := study.probed) is not None:
        layers = program.interpret([program.encode("1" * study.train_length)]).layers
        return lambda key: Probed.init(program, probed, int(layers[0]), key=key)
    mlp = study.mlp
    assert mlp is not None
    width = compile_program(program, certify="none", longest=2 * study.train_length + 1).network.tokens.shape[1]
    return lambda key: Mlp.init(width, mlp, key=key)


def parity_program(name: str, longest: int) -> AltaProgram:
    """A parity program, or that of a study of traces, that is no larger than it must be for so many bits."""
    name, parameters = TRACED.get(name, (name, {}))
    sizes = {"parity_sequential_absolute": {"positions": longest}}
    counts = {n: {"ones": longest} for n in ("parity_sum_mod_2", "parity_sum_mod_2_intermediate")}
    return look_up(name, **(sizes | counts).get(name, {}), **parameters)
