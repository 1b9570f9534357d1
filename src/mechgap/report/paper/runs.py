"""Run the studies behind the paper's tables and figures, each once, and keep the larger result."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from mechgap.algorithms.inputs import nearest
from mechgap.faithfulness.landscape import scores_under_noise
from mechgap.faithfulness.probes import Probe, attention_of, probe
from mechgap.faithfulness.stability import first_step, variants
from mechgap.faithfulness.study import run_study
from mechgap.networks import ClrsNet
from mechgap.programs import program
from mechgap.report.paper.catalogue import FIRST_STEP, Study, find_items, load_studies
from mechgap.report.paper.results import read_configs
from mechgap.storage import write_text
from mechgap.training.config import TrainConfig

FOLDERS = {"quick": Path("runs/paper-quick"), "full": Path("results")}  # where results lie unless told otherwise
ONE_HOT = 1e-6  # what a row may lack of 1 at its largest: rounding
Say = Callable[[str], None]


def run_item(
    name: str,
    preset: str = "quick",
    folder: str | Path | None = None,
    *,
    runs: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    say: Say | None = None,
    quiet: bool | None = None,
) -> list[str]:
    """Run the studies that an item needs and a folder lacks; returns the names of those that were run.

    Args:
        name: of the item, e.g. table10.
        preset: "quick" or "full".
        folder: for the results, one folder per study; by default runs/paper-quick, or results for the full preset.
        runs: where the training keeps its checkpoints and all weights; None for nowhere.
        changes: settings that replace those of the preset, e.g. {"seeds": 8}.
        say: is told what goes on.
        quiet: no progress bar.
    """
    (item,), studies, say = find_items([name]), load_studies(), say or (lambda _: None)
    place, done = results_folder(preset, folder), []
    for i, study in enumerate(studies[s] for s in item.studies):
        configs = study.configs(preset, changes)
        kept = why_kept(place / study.name, study, configs)
        count, steps = sum(c.seeds for c in configs), configs[0].steps
        plan = f"{item.name}, study {i + 1} of {len(item.studies)}: {study.name}"
        if kept:
            say(f"{plan}: {kept}")
            continue
        say(f"{plan}: {count} networks, {steps} steps, hidden {configs[0].hidden} ({preset})")
        _run(study, configs, preset, place / study.name, runs, say, quiet)
        done.append(study.name)
    return done


def results_folder(preset: str, folder: str | Path | None = None) -> Path:
    """Where results of a preset lie: quick ones away from those that count."""
    if preset not in FOLDERS:
        raise ValueError(f"No preset {preset!r}. {nearest(preset, list(FOLDERS))}")
    return Path(FOLDERS[preset] if folder is None else folder)


def why_kept(folder: Path, study: Study, configs: Sequence[TrainConfig]) -> str:
    """Why a study need not be run; empty where it must be.

    A result is kept where it is finished and of the same settings, or where it took more to make (full beats quick).
    """
    found = read_configs(folder)
    if not found:
        return ""
    if _described(found) == _described(configs):
        return "finished before" if all((folder / name).exists() for name in study.files()) else ""
    return f"{folder} holds a larger run, which is kept" if _effort(found) > _effort(configs) else ""


def _run(
    study: Study,
    configs: Sequence[TrainConfig],
    preset: str,
    folder: Path,
    runs: str | Path | None,
    say: Say,
    quiet: bool | None,
) -> None:
    """Train and measure beside the old result, and put the new one in its place when it is whole."""
    beside = folder.parent / f".{folder.name}.unfinished"
    beside.mkdir(parents=True, exist_ok=True)
    sizes = study.measured(preset)
    starts = _starts(study, configs[0]) if study.margins else None
    networks = None if starts is None else [starts[str(config.init_from)] for config in configs]
    run_study(configs, beside, runs=runs, measure=study.measure, init_from=networks, say=say, quiet=quiet, **sizes)
    if starts is not None:
        write_text(beside / FIRST_STEP, json.dumps(_first_steps(starts, configs[0], sizes["samples"]), indent=1) + "\n")
    if folder.exists():
        shutil.rmtree(folder)
    beside.rename(folder)


def _starts(study: Study, config: TrainConfig) -> dict[str, Any]:
    """The compiled networks that a study of stability trains on, by their names."""
    options = {"hidden": config.hidden, "max_nodes": study.max_nodes}
    found = variants(program(config.algorithm), study.margins, key=jax.random.key(0), **options)
    return {variant.name: variant.network for variant in found}


def _first_steps(starts: Mapping[str, Any], config: TrainConfig, samples: int) -> dict[str, dict[str, float]]:
    """Every form before training: loss, gradient and attention on validation graphs, and the score on test graphs."""
    on, test = probe(config, "validation", samples), probe(config, "test", samples)
    return {
        name: {
            **asdict(first_step(network, on.batch)),
            "soft_rows": _soft_rows(network, on),
            "score": scores_under_noise(network, test.batch, key=jax.random.key(0), scales=(), draws=1)["0"],
        }
        for name, network in starts.items()
    }


def _soft_rows(network: ClrsNet, on: Probe) -> float:
    """The share of rows in which attention is not one-hot."""
    largest = jnp.max(attention_of(network, on.batch, on.trace.steps), axis=-1)
    return float(jnp.mean(largest[on.inside] < 1 - ONE_HOT))


def _described(configs: Sequence[TrainConfig]) -> list[dict[str, Any]]:
    return [config.as_json() for config in configs]


def _effort(configs: Sequence[TrainConfig]) -> int:
    return sum(c.seeds * c.steps * c.hidden for c in configs)
