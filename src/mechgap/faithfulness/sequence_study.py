"""One training of ALTA's section on learnability: train, test on longer inputs, measure, keep as one small folder.

config.json     all settings
manifest.json   versions, device, date, times, steps, and whether these were all, fewer were enough, or time was up; how
                many texts every slice of the test set has, and of parity which test set it was, see `PARITY_TESTS`; and
                the seeds of networks that diverged, which are nowhere else
metrics.json    per seed: the share of right answers on every slice of the test set; of parity also on longer texts with
                no more ones than those of training; of MLPs that learned from traces also the share of right vectors,
                and where heads are not as sharp as compiled ones, what is right with heads of other sharpness
and of parity:
curves.json     per seed: right answers by length and by number of ones, and the mean prediction by number of ones
gap.json        how it was measured; per seed and program: its heads beside the nearest of the network, its variables
                read off every layer
networks.safetensors        the weights, see `sequence_networks`
"""

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mechgap.compiler import compile as compile_program
from mechgap.compiler.to_transformer import CompiledAlta
from mechgap.faithfulness.sequence_networks import PROBED, parity_program, save_sequence_networks
from mechgap.faithfulness.sequence_presets import SequenceStudy
from mechgap.faithfulness.sequence_result import (
    CONFIG,
    CURVES,
    GAP,
    MANIFEST,
    METRICS,
    SHARPNESSES,
    VECTORS,
    Metrics,
    is_result,
    read_result,
    seen_ones,
    with_heads,
)
from mechgap.faithfulness.sequences import VERSION, measure_gap
from mechgap.networks.transformer import Transformer
from mechgap.programs import program as look_up
from mechgap.programs.alta import AltaProgram
from mechgap.programs.tasks import PARITY_TESTS, Task, answers
from mechgap.storage import writable_folder
from mechgap.training.checkpoint import write_json
from mechgap.training.config import hashed_name
from mechgap.training.manifest import made_with
from mechgap.training.many import STOPPED, Trained, without_diverged
from mechgap.training.sequences.end_to_end import ParitySize, predictions, train_parity
from mechgap.training.sequences.probed import Probed, run_probed, train_probed
from mechgap.training.sequences.scan import ScanSize, scan_right, train_scan
from mechgap.training.sequences.supervise import Mlp, gentler, supervise, vector_accuracy, with_mlp

PROGRAMS = ("parity_sequential_relative", "parity_sum_mod_2")  # whose heads and variables are looked for
MEASURED = 1024  # texts on which the gap is measured, at most
SCAN_TRAINED = 1000  # commands of the training set that are tested, too, about: every 16th of the length split


def run_sequence_study(
    study: SequenceStudy,
    folder: str | Path,
    *,
    runs: str | Path | None = None,
    stop_after: float | None = None,
    quiet: bool | None = None,
    say: Callable[[str], None] = lambda said: None,
) -> list[dict[str, float]]:
    """Train, test, measure, and write everything into a folder; returns the metrics of every seed.

    Args:
        study: what.
        folder: for the results; made where it is missing.
        runs: where the training keeps its state, to go on where it was killed or stopped; None for nowhere.
        stop_after: after so many seconds the training ends, and what came of it is tested and measured, and kept unless
            the folder holds a longer training.
        quiet: no progress bar.
        say: is told where nothing is kept.
    """
    begun, task = time.perf_counter(), study.task
    folder = writable_folder(folder)
    held = _steps_in(folder)  # says what is damaged before anything is trained
    kept = None if runs is None else Path(runs) / hashed_name(study.name, json.dumps(asdict(study), sort_keys=True))
    options = {"folder": kept, "stop_after": stop_after, "title": study.name, "quiet": quiet}
    trained, metrics, texts, files = (_scan if study.kind == "scan" else _parity)(study, task, options)
    whole = trained.before + time.perf_counter() - begun
    manifest = {
        **made_with(),
        "date": datetime.now(UTC).date().isoformat(),
        "steps": trained.steps,
        "ended": trained.ended,
        **({} if study.kind == "scan" else {"tests": PARITY_TESTS}),
        "texts": texts,
        **({"diverged": diverged} if (diverged := _missing(study, metrics)) else {}),
        "times": {"train_s": round(trained.seconds, 1), "all_s": round(whole, 1)},
    }
    if trained.ended == STOPPED and held > trained.steps * study.recipe.seeds:
        say(f"{study.name}: stopped after {trained.steps} steps; {folder} holds a longer training, which stays")
        return metrics
    (folder / MANIFEST).unlink(missing_ok=True)  # from here on the folder is of this run, and whole when it has another
    save_sequence_networks(folder, study, trained.models, sorted(_seeds_of(metrics)))
    for name, content in {**files, METRICS: metrics, CONFIG: asdict(study), MANIFEST: manifest}.items():
        write_json(folder / name, content)
    return metrics


def _missing(study: SequenceStudy, metrics: "Metrics") -> list[int]:
    """The seeds of networks that diverged, of which nothing is measured."""
    return sorted({*range(study.recipe.first_seed, study.recipe.first_seed + study.recipe.seeds)} - _seeds_of(metrics))


def _seeds_of(metrics: "Metrics") -> set[int]:
    return {int(row["seed"]) for row in metrics}


def _sound(study: SequenceStudy, trained: Trained) -> tuple[Trained, list[int]]:
    """The networks that did not diverge, and their seeds."""
    sound, left = without_diverged(trained)
    if not left:
        rate = study.recipe.learning_rate
        raise ValueError(
            f"All networks of {study.name} diverged: after {trained.steps} steps with a learning rate of {rate:g} "
            f"their losses or weights are no finite numbers. Nothing is written; give a lower one, e.g. "
            f"--set learning_rate={rate / 10:g}."
        )
    return sound, [study.recipe.first_seed + seed for seed in left]


def run_missing(
    studies: Iterable[SequenceStudy],
    place: Path,
    runs: Path,
    say: Callable[[str], None],
    stop_after: float | None = None,
) -> None:
    """Run those studies whose folder in a place does not hold them, or more; see `run_sequence_study`."""
    wanted = list(studies)
    for study in wanted:
        why_kept(study, place / study.name)  # what is damaged is said before anything is trained
    for study in wanted:
        kept = why_kept(study, place / study.name)
        recipe = study.recipe
        say(f"{study.name}: {kept or f'{recipe.seeds} network(s), up to {recipe.steps} steps'}")
        if not kept:
            run_sequence_study(study, place / study.name, runs=runs, stop_after=stop_after, say=say)


def why_kept(study: SequenceStudy, folder: Path) -> str:
    """Why a study need not be run; empty where it must be.

    Full beats quick, other settings and what was tested otherwise are run anew, and what was stopped goes on. What is
    damaged is not written over: an error names it.
    """
    if not is_result(folder):
        return ""
    found = read_result(folder)
    if found.study == study:
        tested = study.kind == "scan" or found.manifest.get("tests", 1) == PARITY_TESTS
        return "finished before" if tested and found.manifest.get("ended") != STOPPED else ""
    larger = _steps_in(folder) > study.recipe.steps * study.recipe.seeds
    return f"{folder} holds a larger run, which is kept" if larger else ""


def _steps_in(folder: Path) -> int:
    """Steps of all networks of the training that a folder holds: all that were planned, unless it was stopped."""
    if not is_result(folder):
        return 0
    found = read_result(folder)
    manifest, recipe = found.manifest, found.study.recipe
    return recipe.seeds * (manifest["steps"] if manifest.get("ended") == STOPPED else recipe.steps)


Made = tuple[Trained, Metrics, dict[str, int], dict[str, Any]]  # then slice -> texts, name -> what else is written


def _scan(study: SequenceStudy, task: Task, options: dict[str, Any]) -> Made:
    assert isinstance(study.transformer, ScanSize)
    trained, seeds = _sound(study, train_scan(study.transformer, task, study.recipe, **options))
    some = task.train[:: max(1, len(task.train) // SCAN_TRAINED)]
    slices = {"test": next(iter(task.tests.values())), "training data": some}
    right = {name: scan_right(trained.models, task, texts, study.transformer) for name, texts in slices.items()}
    metrics = [
        {"seed": seed, **{name: float(found[i].mean()) for name, found in right.items()}}
        for i, seed in enumerate(seeds)
    ]
    return trained, metrics, {name: len(texts) for name, texts in slices.items()}, {}


def _parity(study: SequenceStudy, task: Task, options: dict[str, Any]) -> Made:
    every = sorted({text for texts in task.tests.values() for text in texts})
    train = {"supervision": _supervised, "probed": _probed, "end_to_end": _end_to_end}[study.kind]
    trained, seeds, found, gaps, more = train(study, task, every, options)
    odd = np.array([int(task.answer(text)) for text in every])
    right = found == odd  # [seeds, texts]
    at = {text: i for i, text in enumerate(every)}
    slices = {name: [at[text] for text in texts] for name, texts in task.tests.items()}
    longest = study.train_length
    crossed = [i for i in slices[f"length > {longest}"] if every[i].count("1") <= longest]
    shares = slices | {seen_ones(longest): crossed}
    metrics = [
        {"seed": seed, **{name: float(row[ids].mean()) for name, ids in shares.items()}}
        | {name: values[i] for name, values in more.items()}
        for i, (seed, row) in enumerate(zip(seeds, right, strict=True))
    ]
    # Curves are without the slice of texts with more ones: at every length it would have these count twice.
    of_lengths = sorted({i for name, ids in slices.items() if name.startswith("length") for i in ids})
    lengths, ones = (np.array([of(every[i]) for i in of_lengths]) for of in (len, lambda text: text.count("1")))
    curves = {
        "right by length": _by(lengths, right[:, of_lengths]),
        "right by ones": _by(ones, right[:, of_lengths]),
        "mean prediction by ones": _by(ones, found[:, of_lengths]),
    }
    measured = {"version": VERSION, "texts": len(measured_texts(study.train_length)), "length": study.train_length}
    texts = {name: len(ids) for name, ids in shares.items()}
    gentle = {with_heads(sharpness, longest) for sharpness in SHARPNESSES}
    texts |= dict.fromkeys(gentle & more.keys(), texts[f"length <= {longest}"])
    return trained, metrics, texts, {CURVES: curves, GAP: {"measured": measured, "seeds": gaps}}


Outcome = tuple[Trained, list[int], np.ndarray, dict[str, Any], dict[str, list[float]]]


def _supervised(study: SequenceStudy, task: Task, texts: list[str], options: dict[str, Any]) -> Outcome:
    assert study.mlp is not None
    program = parity_program(study.name, 2 * study.train_length)
    compiled = compile_program(program, certify="none", longest=2 * study.train_length + 1)
    gentle = gentler(compiled.network, study.mlp.sharpness)
    trained, traces = supervise(gentle, program, task, study.mlp, study.recipe, **options)
    trained, seeds = _sound(study, trained)
    most = 2 * study.train_length + 1 if program.halt else program.layers
    short = task.tests[f"length <= {study.train_length}"]
    meant = [task.answer(text) for text in short]
    found, gaps, more = [], {}, defaultdict(list)
    for i, seed in enumerate(seeds):
        mlp = jax.tree.map(lambda x, i=i: x[i], trained.models)
        network: CompiledAlta = replace(compiled, network=with_mlp(gentle, mlp))
        found.append([int(answer) for answer in answers(program, partial(_outputs, network, most), texts)])
        more[VECTORS].append(vector_accuracy(mlp, traces))
        for sharpness in SHARPNESSES if study.mlp.sharpness != 1 else ():
            other = replace(compiled, network=with_mlp(gentler(compiled.network, sharpness), mlp))
            said = answers(program, partial(_outputs, other, most), short)
            share = np.mean([a == b for a, b in zip(said, meant, strict=True)])
            more[with_heads(sharpness, study.train_length)].append(float(share))
        untrained = with_mlp(gentle, Mlp.init(traces.before.shape[1], study.mlp, key=jax.random.key(seed)))
        gaps[str(seed)] = {program.name: _gap(network.network, program, study.train_length, untrained=untrained)}
    return trained, seeds, np.array(found), gaps, more


def _outputs(network: CompiledAlta, layers: int, inputs: list[list[int]]) -> list[list[int]]:
    return network.run(inputs, layers=layers, check=False).outputs


def _probed(study: SequenceStudy, task: Task, texts: list[str], options: dict[str, Any]) -> Outcome:
    assert study.probed is not None
    program = parity_program(study.name.removesuffix(PROBED), 2 * study.train_length)
    trained, seeds = _sound(study, train_probed(program, task, study.probed, study.recipe, **options))
    most = 2 * study.train_length if program.halt else program.layers
    found, gaps, known = [], {}, []
    for i, seed in enumerate(seeds):
        model = jax.tree.map(lambda x, i=i: x[i], trained.models)
        run = partial(run_probed, model, program, layers=most)
        found.append([int(answer) for answer in answers(program, run, texts)])
        made = answers(program, run, task.train)
        known.append(float(np.mean([a == task.answer(text) for a, text in zip(made, task.train, strict=True)])))
        untrained = Probed.init(program, study.probed, most, key=jax.random.key(seed)).network
        gap = _gap(model.network, program, study.train_length, untrained=untrained)
        gaps[str(seed)] = {program.name: gap}
    return trained, seeds, np.array(found), gaps, {"training data": known}


def _end_to_end(study: SequenceStudy, task: Task, texts: list[str], options: dict[str, Any]) -> Outcome:
    assert isinstance(study.transformer, ParitySize)
    trained, seeds = _sound(study, train_parity(study.transformer, study.recipe, **options))
    found = predictions(trained.models, texts, study.transformer)
    fresh = predictions(trained.models, task.train, study.transformer)
    meant = np.array([int(task.answer(text)) for text in task.train])
    gaps = {}
    for i, seed in enumerate(seeds):
        net = jax.tree.map(lambda x, i=i: x[i], trained.models)
        untrained = study.transformer.transformer(jax.random.key(seed))  # as `train_many` made it
        programs = {name: with_start(parity_program(name, study.train_length)) for name in PROGRAMS}
        gaps[str(seed)] = {
            name: _gap(net, program, study.train_length, study.transformer.layers, untrained)
            for name, program in programs.items()
        }
    return trained, seeds, found, gaps, {"training data": (fresh == meant).mean(1).tolist()}


def with_start(program: AltaProgram) -> AltaProgram:
    """A parity program on texts as end-to-end training has them: the one other token stands before the bits.

    A program that counts has it behind the bits, and does not mind.
    """
    return replace(program, text=look_up("parity_sequential_relative").text)


def _gap(
    net: Transformer, program: AltaProgram, length: int, layers: int | None = None, untrained: Transformer | None = None
) -> dict[str, Any]:
    """Heads and variables, on texts as long as in training: all take as many layers.

    Args:
        layers: of the network; None where they are those of the program, one by one.
        untrained: see `measure_gap`.
    """
    texts = measured_texts(length)
    taken = int(program.interpret([program.encode(texts[0])]).layers[0])
    return {"mark": _mark(program), **asdict(measure_gap(net, program, texts, layers or taken, untrained))}


def measured_texts(length: int) -> list[str]:
    """Different texts of a length, of every number of ones as many, where there are, in their order.

    Every second one is what probes are tested on, so that none may occur twice.
    """
    rng, left, found = random.Random(0), MEASURED, {}
    for done, ones in enumerate(sorted(range(length + 1), key=lambda ones: comb(length, ones))):  # the rarest first
        count = min(comb(length, ones), left // (length + 1 - done))
        found[ones] = _different(rng, length, ones, count)
        left -= count
    return [text for ones in sorted(found) for text in found[ones]]


def _different(rng: random.Random, length: int, ones: int, count: int) -> list[str]:
    places: dict[tuple[int, ...], None] = {}
    if comb(length, ones) <= 2 * count:  # most of them: drawing would find the same ones again and again
        places = dict.fromkeys(rng.sample(list(combinations(range(length), ones)), count))
    while len(places) < count:
        places[tuple(sorted(rng.sample(range(length), ones)))] = None
    return ["".join("01"[i in at] for i in range(length)) for at in places]


def _mark(program: AltaProgram) -> str:
    """Where the token stands that is no bit."""
    without, with_one = program.encode("0"), program.encode("1")
    if len(without) == 1:
        return "none"
    return "behind the bits" if without[0] != with_one[0] else "before the bits"


def _by(group: np.ndarray, values: np.ndarray) -> dict[str, list[float]]:
    """Group -> the mean of every seed."""
    return {str(g): values[:, group == g].mean(1).tolist() for g in np.unique(group)}
