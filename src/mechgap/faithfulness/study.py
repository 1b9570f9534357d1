"""One study: train an ensemble, measure it in every way, and keep the result as one small folder.

config.json, manifest.json, metrics.json, history.safetensors   what was trained, and how it went
excerpt.safetensors      the weights of the best, the median and the worst network
gap.safetensors, .json   see `Gap`
causal.json              what swaps of attention do, see `causal`
landscape.safetensors    the loss around networks, see `landscape`
"""

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mechgap.compiler import compile as compile_program
from mechgap.compiler.errors import ChannelOverflow
from mechgap.compiler.to_gatv2 import Compiled
from mechgap.faithfulness.causal import ABOUT, swap_attention
from mechgap.faithfulness.landscape import POINTS, landscapes, save_landscapes
from mechgap.faithfulness.mechanistic_gap import SAMPLES, SHOWN, Gap, gap
from mechgap.faithfulness.probes import SPLITS, Probe, probe
from mechgap.networks import ClrsNet
from mechgap.programs import program, program_names, program_parameters
from mechgap.storage import write_text
from mechgap.training import fit, save_excerpt
from mechgap.training.config import TrainConfig
from mechgap.training.data import TO_INIT, member_key
from mechgap.training.result import Ensemble

CAUSAL = "causal.json"
MEASURED = ("gap", "causal", "landscape")
Say = Callable[[str], None]


def run_study(
    configs: TrainConfig | Sequence[TrainConfig],
    folder: str | Path,
    *,
    runs: str | Path | None = None,
    measure: Sequence[str] = MEASURED,
    splits: Sequence[str] = SPLITS,
    samples: int = SAMPLES,
    points: int = POINTS,
    init_from: Any = None,
    say: Say | None = None,
    quiet: bool | None = None,
) -> tuple[Ensemble, Gap | None]:
    """Train, measure and write everything into a folder.

    Args:
        configs: one ensemble, see `fit`; data is drawn as the first says.
        folder: for the results; made where it is missing.
        runs: where the training keeps its checkpoints and all weights; None for nowhere.
        measure: of "gap", "causal" and "landscape"; the last two need a program that can be compiled, or are left out.
        splits: on which to measure.
        samples: of every split.
        points: of a landscape, along each side.
        init_from: see `fit`.
        say: is told what goes on.
        quiet: no progress bar.
    """
    configs, folder = [configs] if isinstance(configs, TrainConfig) else list(configs), Path(folder)
    say = say or (lambda _: None)
    unknown = [name for name in measure if name not in MEASURED]
    if unknown:
        raise ValueError(f"A study measures {', '.join(MEASURED)}; got {unknown[0]!r}.")
    folder.mkdir(parents=True, exist_ok=True)
    ensemble = fit(configs, init_from=init_from, folder=runs, quiet=quiet)
    save_excerpt(folder, ensemble)
    compiled = compiled_for(configs[0]) if measure else None
    found, began = None, time.perf_counter()
    if "gap" in measure:
        say("measuring the gap")
        found = gap(ensemble, compiled, splits=splits, samples=samples, shown=SHOWN)
        found.save(folder)
    if "causal" in measure and compiled is not None:
        say("swapping attention")
        save_swaps(folder, ensemble, compiled, splits, samples)
    if "landscape" in measure:
        say("drawing landscapes")
        on = probe(configs[0], "validation", samples, compiled)
        save_landscapes(folder, _landscapes(ensemble, compiled, on, points))
    ensemble.manifest["date"] = datetime.now(UTC).date().isoformat()
    ensemble.manifest["times"]["measure_s"] = round(time.perf_counter() - began, 3)
    write_text(folder / "manifest.json", json.dumps(ensemble.manifest, indent=1) + "\n")
    return ensemble, found


def compiled_for(config: TrainConfig) -> Compiled | None:
    """The compiled network to compare with, in as many channels as were trained; None where there is no program."""
    if config.algorithm not in program_names("graph"):
        return None
    seen = {"pred_as_input": config.pred_as_input, "permutations": config.permutations}
    known = program_parameters(config.algorithm)
    meant = program(config.algorithm, **{name: value for name, value in seen.items() if name in known})
    try:
        return compile_program(meant, hidden=max(config.hidden, 16), certify="none")
    except ChannelOverflow:  # a program of several micro-steps needs more than a small network has
        return compile_program(meant, hidden=None, certify="none")


def save_swaps(
    folder: Path, ensemble: Ensemble, compiled: Compiled, splits: Sequence[str], samples: int
) -> dict[str, dict[str, dict[str, list]]]:
    """Swap attention on every split but the training's, and write causal.json."""
    found: dict[str, Any] = {}
    for split in (s for s in splits if s != "train"):
        swaps = swap_attention(ensemble.networks, compiled, probe(ensemble.configs[0], split, samples, compiled))
        found[split] = {k: {m: _listed(x) for m, x in table.items()} for k, table in swaps.conditions.items()}
    write_text(folder / CAUSAL, json.dumps({"splits": found, "about": ABOUT}, indent=1) + "\n")
    return found


def _landscapes(ensemble: Ensemble, compiled: Compiled | None, on: Probe, points: int) -> list[Any]:
    """Around the network of the median score, around one before training, and around the compiled one."""
    order = np.argsort(np.where(ensemble.metrics["diverged"], -1.0, ensemble.metrics["test_best"]))
    learned = ensemble.member(int(order[len(order) // 2]))
    initial = ClrsNet.init(learned.spec, learned.config, key=member_key(jnp.uint32(0), TO_INIT))
    networks = {"learned": learned, "initial": initial} | ({} if compiled is None else {"compiled": compiled.network})
    key = jax.random.key(0)
    return [x for name, net in networks.items() for x in landscapes(net, on.batch, name, key=key, points=points)]


def _listed(values: np.ndarray) -> list[float | None]:
    return [float(x) if np.isfinite(x) else None for x in values]
