"""One training of ALTA's section on learnability: train, test on longer inputs, measure, keep as one small folder.

config.json     all settings
manifest.json   versions, device, date, times, steps, and whether these were all or fewer were enough
metrics.json    per seed: the share of right answers on every slice of the test set
and of parity:
curves.json     per seed: right answers by length and by number of ones, and the mean prediction by number of ones
gap.json        per program and seed: its heads beside the nearest of the network, its variables read off every layer
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mechgap.compiler import compile as compile_program
from mechgap.compiler.to_transformer import CompiledAlta
from mechgap.faithfulness.sequence_presets import SequenceStudy
from mechgap.faithfulness.sequences import match_heads, observe_transformer, probe_variables
from mechgap.networks.transformer import Transformer
from mechgap.programs import program as look_up
from mechgap.programs.alta import AltaProgram
from mechgap.programs.tasks import Task, answers
from mechgap.storage import writable_folder
from mechgap.training.checkpoint import read_json, write_json
from mechgap.training.config import hashed_name
from mechgap.training.manifest import made_with
from mechgap.training.many import Trained
from mechgap.training.sequences.end_to_end import ParitySize, predictions, train_parity
from mechgap.training.sequences.probed import run_probed, train_probed
from mechgap.training.sequences.scan import ScanSize, scan_right, train_scan
from mechgap.training.sequences.supervise import supervise, vector_accuracy, with_mlp

CONFIG, MANIFEST = "config.json", "manifest.json"
PROBED, RELATIVE = "_probed", "_relative_noise"  # end the names of studies of these kinds
PROGRAMS = ("parity_sequential_relative", "parity_sum_mod_2")  # whose heads and variables are looked for
MEASURED = 64  # texts on which the gap is measured, at most
SCAN_TRAINED = 1000  # commands of the training set that are tested, too


def run_sequence_study(
    study: SequenceStudy, folder: str | Path, *, runs: str | Path | None = None, quiet: bool | None = None
) -> list[dict[str, float]]:
    """Train, test, measure, and write everything into a folder; returns the metrics of every seed.

    Args:
        study: what.
        folder: for the results; made where it is missing.
        runs: where the training keeps its state, to go on where it was killed; None for nowhere.
        quiet: no progress bar.
    """
    begun, task = time.perf_counter(), study.task
    folder = writable_folder(folder)
    kept = None if runs is None else Path(runs) / hashed_name(study.name, json.dumps(asdict(study), sort_keys=True))
    options = {"folder": kept, "title": study.name, "quiet": quiet}
    trained, metrics, files = (_scan if study.kind == "scan" else _parity)(study, task, options)
    manifest = {
        **made_with(),
        "date": datetime.now(UTC).date().isoformat(),
        "steps": trained.steps,
        "ended": trained.ended,
        "times": {"train_s": round(trained.seconds, 1), "all_s": round(time.perf_counter() - begun, 1)},
    }
    (folder / MANIFEST).unlink(missing_ok=True)  # from here on the folder is of this run, and whole when it has another
    for name, content in {**files, "metrics.json": metrics, CONFIG: asdict(study), MANIFEST: manifest}.items():
        write_json(folder / name, content)
    return metrics


def run_missing(studies: Iterable[SequenceStudy], place: Path, runs: Path, say: Callable[[str], None]) -> None:
    """Run those studies whose folder in a place does not hold them, or more."""
    for study in studies:
        kept = why_kept(study, place / study.name)
        recipe = study.recipe
        say(f"{study.name}: {kept or f'{recipe.seeds} network(s), up to {recipe.steps} steps'}")
        if not kept:
            run_sequence_study(study, place / study.name, runs=runs)


def why_kept(study: SequenceStudy, folder: Path) -> str:
    """Why a study need not be run; empty where it must be. Full beats quick, and other settings are run anew."""
    if not (folder / MANIFEST).exists():
        return ""
    found = SequenceStudy.of(read_json(folder / CONFIG))
    if found == study:
        return "finished before"
    mine, theirs = (x.recipe.steps * x.recipe.seeds for x in (study, found))
    return f"{folder} holds a larger run, which is kept" if theirs > mine else ""


Metrics = list[dict[str, float]]
Files = dict[str, Any]  # name -> what else is written


def _scan(study: SequenceStudy, task: Task, options: dict[str, Any]) -> tuple[Trained, Metrics, Files]:
    assert isinstance(study.transformer, ScanSize)
    trained = train_scan(study.transformer, task, study.recipe, **options)
    some = task.train[:: max(1, len(task.train) // SCAN_TRAINED)]
    slices = {"test": next(iter(task.tests.values())), "training data": some}
    right = {name: scan_right(trained.models, task, texts, study.transformer) for name, texts in slices.items()}
    metrics = [
        {"seed": study.recipe.first_seed + seed, **{name: float(found[seed].mean()) for name, found in right.items()}}
        for seed in range(study.recipe.seeds)
    ]
    return trained, metrics, {}


def _parity(study: SequenceStudy, task: Task, options: dict[str, Any]) -> tuple[Trained, Metrics, Files]:
    every = sorted({text for texts in task.tests.values() for text in texts})
    train = {"supervision": _supervised, "probed": _probed, "end_to_end": _end_to_end}[study.kind]
    trained, found, gaps, more = train(study, task, every, options)
    odd = np.array([int(task.answer(text)) for text in every])
    right = found == odd  # [seeds, texts]
    at = {text: i for i, text in enumerate(every)}
    slices = {name: [at[text] for text in texts] for name, texts in task.tests.items()}
    metrics = [
        {"seed": study.recipe.first_seed + seed, **{name: float(row[ids].mean()) for name, ids in slices.items()}}
        | {name: values[seed] for name, values in more.items()}
        for seed, row in enumerate(right)
    ]
    lengths, ones = np.array([len(t) for t in every]), np.array([t.count("1") for t in every])
    curves = {
        "right by length": _by(lengths, right),
        "right by ones": _by(ones, right),
        "mean prediction by ones": _by(ones, found),
    }
    return trained, metrics, {"curves.json": curves, "gap.json": gaps}


Outcome = tuple[Trained, np.ndarray, dict[str, Any], dict[str, list[float]]]


def _supervised(study: SequenceStudy, task: Task, texts: list[str], options: dict[str, Any]) -> Outcome:
    assert study.mlp is not None
    program = parity_program(study.name.removesuffix(RELATIVE), 2 * study.train_length)
    compiled = compile_program(program, certify="none", longest=2 * study.train_length + 1)
    trained, traces = supervise(compiled.network, program, task, study.mlp, study.recipe, **options)
    most = 2 * study.train_length + 1 if program.halt else program.layers
    found, gaps, vectors = [], {}, []
    for seed in range(study.recipe.seeds):
        mlp = jax.tree.map(lambda x, i=seed: x[i], trained.models)
        network: CompiledAlta = replace(compiled, network=with_mlp(compiled.network, mlp))
        found.append([int(answer) for answer in answers(program, partial(_outputs, network, most), texts)])
        vectors.append(vector_accuracy(mlp, traces))
        gaps[str(seed)] = {program.name: _gap(network.network, program, task)}
    return trained, np.array(found), gaps, {"vectors right": vectors}


def _outputs(network: CompiledAlta, layers: int, inputs: list[list[int]]) -> list[list[int]]:
    return network.run(inputs, layers=layers, check=False).outputs


def _probed(study: SequenceStudy, task: Task, texts: list[str], options: dict[str, Any]) -> Outcome:
    assert study.probed is not None
    program = parity_program(study.name.removesuffix(PROBED), 2 * study.train_length)
    trained = train_probed(program, task, study.probed, study.recipe, **options)
    most = 2 * study.train_length if program.halt else program.layers
    found, gaps, known = [], {}, []
    for seed in range(study.recipe.seeds):
        model = jax.tree.map(lambda x, i=seed: x[i], trained.models)
        run = partial(run_probed, model, program, layers=most)
        found.append([int(answer) for answer in answers(program, run, texts)])
        made = answers(program, run, task.train)
        known.append(float(np.mean([a == task.answer(text) for a, text in zip(made, task.train, strict=True)])))
        gaps[str(seed)] = {program.name: _gap(model.network, program, task)}
    return trained, np.array(found), gaps, {"training data": known}


def _end_to_end(study: SequenceStudy, task: Task, texts: list[str], options: dict[str, Any]) -> Outcome:
    assert isinstance(study.transformer, ParitySize)
    trained = train_parity(study.transformer, study.recipe, **options)
    found = predictions(trained.models, texts, study.transformer)
    fresh = predictions(trained.models, task.train, study.transformer)
    meant = np.array([int(task.answer(text)) for text in task.train])
    gaps = {}
    for seed in range(study.recipe.seeds):
        net = jax.tree.map(lambda x, i=seed: x[i], trained.models)
        programs = {name: with_start(parity_program(name, study.train_length)) for name in PROGRAMS}
        gaps[str(seed)] = {n: _gap(net, p, task, study.transformer.layers) for n, p in programs.items()}
    return trained, found, gaps, {"training data": (fresh == meant).mean(1).tolist()}


def parity_program(name: str, longest: int) -> AltaProgram:
    """A parity program that is no larger than it must be for so many bits."""
    sizes = {"parity_sequential_absolute": {"positions": longest}}
    counts = {n: {"ones": longest} for n in ("parity_sum_mod_2", "parity_sum_mod_2_intermediate")}
    return look_up(name, **(sizes | counts).get(name, {}))


def with_start(program: AltaProgram) -> AltaProgram:
    """A parity program on texts as end-to-end training has them: the one other token stands before the bits.

    A program that counts has it behind the bits, and does not mind.
    """
    return replace(program, text=look_up("parity_sequential_relative").text)


def _gap(net: Transformer, program: AltaProgram, task: Task, layers: int | None = None) -> dict[str, Any]:
    """Heads and variables, on texts of the training set that are as long as can be: all take as many layers.

    Args:
        layers: of the network; None where they are those of the program, one by one.
    """
    texts = measured_texts(task)
    taken = int(program.interpret([program.encode(texts[0])]).layers[0])
    seen = observe_transformer(net, program, texts, layers or taken)
    return {
        "heads": [asdict(match) for match in match_heads(program, texts, seen)],
        "variables": [asdict(found) for found in probe_variables(program, texts, seen)],
    }


def measured_texts(task: Task) -> list[str]:
    """Different texts of the training set that are as long as can be, of every number of ones.

    Every second one is what probes are tested on, so that none may occur twice.
    """
    longest = max(len(text) for text in task.train)
    known = list(dict.fromkeys(text for text in task.train if len(text) == longest))
    return [known[i] for i in np.unique(np.linspace(0, len(known) - 1, MEASURED).astype(int))]


def _by(group: np.ndarray, values: np.ndarray) -> dict[str, list[float]]:
    """Group -> the mean of every seed."""
    return {str(g): values[:, group == g].mean(1).tolist() for g in np.unique(group)}
