"""Trained text models as a folder: config.json, metrics.json, manifest.json, and weights as safetensors.

The reasoner lies in it, too, so that a folder needs nothing else. metrics.json is written last: a folder that has one
is whole.
"""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mechgap.networks import NetConfig
from mechgap.networks.slots import SharedNet, Slots, with_empty_slots, without_empty_slots
from mechgap.networks.transnar import TransNAR
from mechgap.programs import program
from mechgap.storage import read_tensors, write_tensors
from mechgap.trace import Spec
from mechgap.training.checkpoint import read_json, write_json
from mechgap.training.transnar.compiled_reasoner import CompiledReasoner
from mechgap.training.transnar.config import TextTrainingConfig
from mechgap.training.transnar.reasoner import Reasoner
from mechgap.training.transnar.shared_reasoner import SharedReasoner
from mechgap.training.weights import named, renamed, skeleton_of, variable_of

FORMAT, REASONER_FORMAT = "mechgap.text_model/1", "mechgap.reasoner/2"
CONFIG, METRICS, MANIFEST = "config.json", "metrics.json", "manifest.json"
TAUGHT = "teacher_right"  # among the metrics of a student
MODEL, OWN_REASONER, REASONER = "model-{}.safetensors", "reasoner-{}.safetensors", "reasoner.safetensors"
FULL, HALF = "float32", "bfloat16"


@dataclass(frozen=True, eq=False)
class TextModels:
    """What came out of a training.

    Attributes:
        models: one for each seed.
        reasoners: whom each looks at: the same for all where it was not trained; None for models that look at none.
        metrics: losses by seed, and the scores of evaluations.
        manifest: versions, device, times, sizes.
    """

    config: TextTrainingConfig
    models: tuple[TransNAR, ...]
    reasoners: tuple[Reasoner | None, ...]
    metrics: dict[str, Any]
    manifest: dict[str, Any]


def finished(folder: str | Path) -> bool:
    """Whether a folder holds a whole result."""
    return (Path(folder) / METRICS).exists()


def save_text_models(folder: str | Path, result: TextModels, dtype: str = FULL) -> None:
    """Write everything.

    Args:
        folder: made where it is missing.
        result: what to write.
        dtype: of the weights: "float32", or "bfloat16" for half the size and three digits.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = result.config
    write_json(folder / CONFIG, config.as_json())
    for seed, model, reasoner in zip(config.seed_range, result.models, result.reasoners, strict=True):
        about = {"format": FORMAT, "config": asdict(model.config)}
        _write(folder / MODEL.format(seed), named(model), about, dtype)
        if reasoner is not None and (config.train_reasoner != "none" or seed == config.first_seed):
            name = REASONER if config.train_reasoner == "none" else OWN_REASONER.format(seed)
            save_reasoner(folder / name, reasoner, dtype)
    write_json(folder / MANIFEST, {**result.manifest, "weights": dtype})
    write_metrics(folder, result.metrics)


def write_metrics(folder: str | Path, metrics: dict[str, Any]) -> None:
    """Write, or write anew, what was measured."""
    write_json(Path(folder) / METRICS, metrics)


def load_text_models(folder: str | Path) -> TextModels:
    """Read what `save_text_models` wrote; weights become float32."""
    folder = Path(folder)
    if not finished(folder):
        raise FileNotFoundError(f"{folder} holds no trained text models: it has no {METRICS}. Train some first.")
    config = TextTrainingConfig.from_settings(read_json(folder / CONFIG))
    shared = load_reasoner(folder / REASONER) if (folder / REASONER).exists() else None
    own = [folder / OWN_REASONER.format(seed) for seed in config.seed_range]
    reasoners = tuple(load_reasoner(path) if path.exists() else shared for path in own)
    widths = (1, 1) if reasoners[0] is None else reasoners[0].widths
    skeleton = jax.eval_shape(partial(TransNAR.init, config.model(*widths)), key=jax.random.key(0))
    paths = [folder / MODEL.format(seed) for seed in config.seed_range]
    models = tuple(renamed(skeleton, _read(path, FORMAT)[0], f"The model in {path}") for path in paths)
    metrics, manifest = (read_json(folder / name) for name in (METRICS, MANIFEST))
    return TextModels(config, models, reasoners, metrics, manifest)


def save_reasoner(path: str | Path, reasoner: Reasoner, dtype: str = FULL) -> None:
    """Write a reasoner, without empty slots; a compiled one in full precision, which it needs."""
    nets = reasoner.networks if isinstance(reasoner, CompiledReasoner) else None
    if nets is None:
        assert isinstance(reasoner, SharedReasoner)
        configs = {"": asdict(reasoner.net.networks.config)}
    else:
        configs = {name: asdict(network.config) for name, network in nets.items()}
    about = {
        "format": REASONER_FORMAT,
        "specs": [[name, [asdict(v) for v in spec]] for name, spec in reasoner.slots.specs],
        "configs": configs,
        "frames": reasoner.frames,
        "stand_ins": reasoner.stand_ins if isinstance(reasoner, SharedReasoner) else (),
        "programs": [one.name for one in reasoner.programs] if isinstance(reasoner, CompiledReasoner) else None,
    }
    arrays = named(reasoner) if nets is not None else without_empty_slots(named(reasoner), reasoner.slots)
    _write(Path(path), arrays, about, dtype if nets is None else FULL)


def load_reasoner(path: str | Path) -> Reasoner:
    """Read what `save_reasoner` wrote."""
    arrays, about = _read(Path(path), REASONER_FORMAT)
    specs = {name: Spec(tuple(variable_of(v) for v in spec)) for name, spec in about["specs"]}
    skeleton: Any
    if about["programs"] is None:
        slots, config = Slots(tuple(specs.items())), NetConfig(**about["configs"][""])
        net = eqx.filter_eval_shape(lambda key: SharedNet.init(slots, config, key=key), jax.random.key(0))
        stand_ins = tuple((unseen, other) for unseen, other in about.get("stand_ins", ()))
        skeleton = SharedReasoner(net=net, frames=about["frames"], stand_ins=stand_ins)
        arrays = {name: jnp.asarray(x) for name, x in with_empty_slots(arrays, slots).items()}
    else:
        networks = {name: skeleton_of(spec, NetConfig(**about["configs"][name])) for name, spec in specs.items()}
        programs = tuple(program(name) for name in about["programs"])
        frames = about["frames"]
        skeleton = CompiledReasoner(networks=networks, names=tuple(specs), frames=frames, programs=programs)
    return renamed(skeleton, arrays, f"The reasoner in {path}")


def _write(path: Path, arrays: dict[str, Any], about: dict[str, Any], dtype: str) -> None:
    if dtype not in (FULL, HALF):
        raise ValueError(f"Weights are written as {FULL} or {HALF}; got {dtype!r}.")
    plain = {name: np.asarray(x) for name, x in arrays.items()}
    if dtype == HALF:  # NumPy has no such numbers: their bits are kept, and the header says what they are
        plain = {name: x.astype(jnp.bfloat16).view(np.uint16) for name, x in plain.items()}
    write_tensors(path, plain, {**about, "dtype": dtype})


def _read(path: Path, expected: str) -> tuple[dict[str, Any], dict[str, Any]]:
    tensors, about = read_tensors(path, expected)
    if about["dtype"] == HALF:
        tensors = {name: x.view(jnp.bfloat16).astype(np.float32) for name, x in tensors.items()}
    return {name: jnp.asarray(x) for name, x in tensors.items()}, about
