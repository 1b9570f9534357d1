"""Text models in a terminal: train a study, ask its models, answer a question, show the demonstration."""

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mechgap.algorithms import text
from mechgap.algorithms.inputs import nearest
from mechgap.algorithms.text import Example
from mechgap.compiler import compile as compile_program
from mechgap.compiler.errors import ChannelOverflow
from mechgap.faithfulness.looking import example_of
from mechgap.report.transnar_page import check_page, looking_model, write_page
from mechgap.training.transnar import CompiledReasoner, EvaluationConfig, SharedReasoner, TextModels
from mechgap.training.transnar.config import SHUFFLED
from mechgap.training.transnar.evaluation import AS_TRAINED, CONTROLS, answers, reasoner_answers
from mechgap.training.transnar.exam import Scores, exam_file, exam_for, score_by_size
from mechgap.training.transnar.presets import COMPILED, TRAINED, read_study
from mechgap.training.transnar.result import HALF
from mechgap.training.transnar.study import (
    SCORES,
    ask_reasoner,
    asked_besides,
    load_study,
    places_of,
    run_study,
    save_study,
)
from mechgap.training.transnar.summary import write_summary

DEMO = ("results", "transnar-demo")
DEMO_ASKED, DEMO_SHOWN = EvaluationConfig(sizes=(10, 12, 14), count=8), 4
SCORE_NAMES = {"clrs": "CLRS", "shape": "shape", "parse": "parse"}
MOST_MIB = 16  # of what is kept beside the source for the demonstration
COMPILED_WIDTH = 256  # of all networks of a compiled reasoner, where one does not fit into the usual 128 channels
COMPILED_FRAMES = 64  # the most steps of an execution that a compiled reasoner has room for, and one more


def train_and_print(
    preset: str, models: str | None, folder: Path, reasoner: str, controls: str, changes: Mapping[str, Any]
) -> None:
    """Train what a study lacks, and print the scores."""
    if reasoner not in (TRAINED, COMPILED):
        raise ValueError(f"The reasoner is {TRAINED} or {COMPILED}; got {reasoner!r}.")
    looks_at = COMPILED if reasoner == COMPILED else None
    study, console = read_study(preset, changes, _listed(models), looks_at), Console()
    chosen = _controls(controls)
    done = run_study(study, folder, compiled=compiled_reasoner, controls=chosen, watch=console.print)
    print_scores({name: result.metrics[SCORES] for name, result in done.items()}, done)


def train_reasoners_and_print(preset: str, names: str | None, folder: Path, changes: Mapping[str, Any]) -> None:
    """Train reasoners of a study, where `train_and_print` finds them, and print the scores of their own answers."""
    study, console = read_study(preset, changes), Console()
    chosen = _listed(names) or list(study.reasoners)
    for name in chosen:
        if name not in study.reasoners:
            raise ValueError(
                f"The study {study.name!r} has no reasoner {name!r}. {nearest(name, list(study.reasoners))}"
            )
    found = {name: ask_reasoner(study, name, folder, watch=console.print)["by_size"] for name in chosen}
    for n in study.evaluation.sizes:
        console.print(reasoner_table(found, n))


def reasoner_table(found: Mapping[str, Mapping[str, Any]], n: int) -> Table:
    """CLRS scores of reasoners by algorithm, and what the best constant answer gets."""
    table = Table(title=f"CLRS score of the reasoners' own answers at n = {n}, in percent", title_justify="left")
    table.add_column("algorithm", no_wrap=True)
    for column in (*found, "best constant"):
        table.add_column(column.replace("_", " "))
    rows = {name: {row["name"]: row for row in by_size[str(n)]} for name, by_size in found.items()}
    for algorithm in dict.fromkeys(a for mine in rows.values() for a in mine):
        having = [mine[algorithm] for mine in rows.values() if algorithm in mine]
        cells = [f"{100 * mine[algorithm]['clrs']:.1f}" if algorithm in mine else "" for mine in rows.values()]
        table.add_row(algorithm, *cells, f"{100 * having[0]['floor']:.1f}")
    return table


def summarise_and_print(folder: Path, out: Path, preset: str, changes: Mapping[str, Any]) -> None:
    """Write the small files of a study's results."""
    names = write_summary(read_study(preset, changes), folder, out)
    models = f"{', '.join(names)} and their" if names else "the"
    Console(highlight=False).print(f"wrote {models} reasoners to {out}")


def compiled_reasoner(names: Sequence[str], frames: int = COMPILED_FRAMES) -> CompiledReasoner:
    """The exact networks of some algorithms, all of one width; one without a program is an error that says why."""
    try:
        return CompiledReasoner.of({name: compile_program(name, certify="none") for name in names}, frames)
    except ChannelOverflow:
        wide = {name: compile_program(name, hidden=COMPILED_WIDTH, certify="none") for name in names}
        return CompiledReasoner.of(wide, frames)


def eval_and_print(folder: Path, controls: str, settings: Mapping[str, Any]) -> None:
    """Ask the models in a folder, keep the scores there, and print them."""
    console, evaluation = Console(), EvaluationConfig.from_settings(settings)
    done, places, chosen = load_study(folder), places_of(folder), _controls(controls)
    scores = {}
    for name, result in done.items():
        console.print(name)
        scores[name] = asked_besides(places[name], result, evaluation, chosen, partial(console.print, soft_wrap=True))
    print_scores(scores, done)


def print_scores(scores: Mapping[str, Mapping[str, Any]], done: Mapping[str, TextModels]) -> None:
    """The mean over algorithms for every model and way of asking, then the models side by side for every algorithm."""
    console = Console()
    console.print(summary_table(scores, done))
    for size in next(iter(scores.values()))["evaluation"]["sizes"]:
        console.print(algorithm_table(scores, int(size)))


def summary_table(scores: Mapping[str, Mapping[str, Any]], done: Mapping[str, TextModels]) -> Table:
    """The three scores of every model and way of asking at every size, narrow enough for 80 columns."""
    first = next(iter(scores.values()))
    sizes = [str(n) for n in first["evaluation"]["sizes"]]
    several = any(len(found["models"]) > 1 for found in scores.values())
    table = Table(title="mean over algorithms, in percent", title_justify="left")
    for column in ("model", *(["asked"] if several else []), "score", *(f"n = {n}" for n in sizes), "s"):
        table.add_column(column, no_wrap=column != "asked")

    def add(label: str, asked: str, runs: Sequence[Mapping[str, Any]]) -> None:
        cells = [_mean_cell([run["by_size"][n][-1] for run in runs]) for n in sizes]
        seconds = f"{np.mean([run['seconds'] for run in runs]):.1f}"
        shown = [asked] if several else []
        table.add_row(label, *shown, "\n".join(SCORE_NAMES.values()), *cells, seconds, end_section=True)

    for name, found in scores.items():
        for asked, runs in found["models"].items():
            add(_about(name, done[name], len(runs)), asked, runs)
    for key, label in (("reasoner", "the reasoner alone"), ("exact", "the algorithm itself")):
        having = [found[key] for found in scores.values() if key in found]
        if having:
            add(label, "", having[-1:])
    floors = [f"{100 * first['exact']['by_size'][n][-1]['floor']:.1f}" for n in sizes]
    table.add_row("best constant answer", *([""] if several else []), SCORE_NAMES["clrs"], *floors, "")
    return table


def _about(name: str, result: TextModels, seeds: int) -> str:
    weights = f"{result.manifest['parameters'] / 1e6:.2f} M weights"
    return "\n".join((name, weights, *([f"{seeds} seeds"] if seeds > 1 else [])))


def algorithm_table(scores: Mapping[str, Mapping[str, Any]], size: int) -> Table:
    """CLRS scores by algorithm, with the floor beside them."""
    table = Table(title=f"CLRS score at n = {size}, in percent (shape)", title_justify="left")
    for column in ("algorithm", *scores, "floor"):
        table.add_column(column)
    floors = {row["name"]: row["floor"] for row in next(iter(scores.values()))["exact"]["by_size"][str(size)]}
    for name, floor in floors.items():
        cells = []
        for found in scores.values():
            runs = found["models"][AS_TRAINED]
            rows = [row for run in runs for row in run["by_size"][str(size)] if row["name"] == name]
            clrs, shape = (100 * np.mean([row[key] for row in rows]) for key in ("clrs", "shape"))
            cells.append(f"{clrs:.1f} ({shape:.0f})" if rows else "")
        table.add_row(name, *cells, f"{100 * floor:.1f}")
    return table


def answer_and_print(folder: Path, question: str | None, html: Path | None = None, model: str | None = None) -> None:
    """The answers of all models in a folder to one question, and of its reasoner, with their scores.

    Args:
        folder: of a study, or of one result.
        question: by default, what comes from the terminal.
        html: also write a page that shows where a model looks.
        model: which one.
    """
    if html is not None:
        check_page(html)
    elif model is not None:
        raise ValueError("--model chooses whom a page is about; give --html, too.")
    asked = _typed() if question is None else question.replace("\\n", "\n")
    example = example_of(_one_question(asked.rstrip("\n") + "\n"))
    done = load_study(folder)
    if html is not None:
        model = looking_model(done, model)
    said = print_answers(done, [example])
    known = sorted({name for result in done.values() for name in result.config.algorithms})
    if example.algorithm not in known:
        never = f"None of these models learned {example.algorithm}: their answers say nothing. They learned"
        Console(highlight=False).print(f"{never} {', '.join(known)}.", markup=False)
    if html is not None:
        write_page(done, {name: answers[0] for name, answers in said.items()}, example, html, model)
        Console().print(f"wrote {html}", highlight=False, markup=False)


def _typed() -> str:
    """What comes from standard input; a person who would have to type it is told so."""
    if sys.stdin.isatty():
        say = Console(stderr=True, highlight=False, soft_wrap=True).print
        say("Type a question of CLRS-Text, three lines, and end it with Ctrl-D. For example:", markup=False)
        say("minimum:\nkey: [0.5 0.25 0.75]\nmin:", markup=False)
    return sys.stdin.read()


def _one_question(asked: str) -> str:
    begun = [line for line in asked.split("\n") if line.endswith(":") and line[:-1] in text.ALGORITHMS]
    if len(begun) > 1:
        raise ValueError(
            f"One question at a time, which is three lines; got {len(begun)}: {' '.join(begun)} Give the first one "
            f"alone, e.g. by `head -3`."
        )
    return asked


def print_answers(done: Mapping[str, TextModels], examples: Sequence[Example]) -> dict[str, list[str]]:
    """Questions, what every model answers, and the three scores."""
    for name in [name for name, r in done.items() if r.config.memory == SHUFFLED and len(examples) == 1]:
        done = {other: result for other, result in done.items() if other != name}
        Console(highlight=False).print(f"{name} is left out: it sees states of another question, and there is but one.")
    said = {n: answers(r.models[0], r.config, r.reasoners[0], examples) for n, r in done.items()}
    return print_said(said, done, examples)


def print_said(
    said: dict[str, list[str]], done: Mapping[str, TextModels], examples: Sequence[Example]
) -> dict[str, list[str]]:
    """Questions with the answers of models, and of their reasoner; returns all of them."""
    console = Console(highlight=False)
    reasoner = next((r.reasoners[0] for r in done.values() if isinstance(r.reasoners[0], SharedReasoner)), None)
    if reasoner is not None and all(e.algorithm in reasoner.algorithms for e in examples):
        own = reasoner_answers(reasoner, [text.parse(e.question) for e in examples], len(examples))
        said = {**said, "reasoner": own}
    for number, example in enumerate(examples):
        console.print(example.question.rstrip(), markup=False)
        table = Table(show_edge=False)
        for column in ("", "answer", "shape", "parse", "CLRS"):
            table.add_column(column, overflow="fold")
        table.add_row("right", _plain(example.answer), "", "", "")
        for name, all_answers in said.items():
            found = text.score(all_answers[number], example)
            table.add_row(name, _plain(all_answers[number]), *(f"{x:.2f}" for x in found))
        console.print(table)
    return said


def demo_and_print(folder: Path | None) -> None:
    """Models that were trained before: some questions of every algorithm at n = 10, 12 and 14, and their scores."""
    place, console = folder or demo_folder(), Console()
    if place is None:
        raise FileNotFoundError(
            f"The demonstration needs trained models, which come with the source: {'/'.join(DEMO)} is not here. Run it "
            "in a clone; or train them, an hour on two cores: mechgap transnar train --preset demo --folder FOLDER; "
            "then: mechgap transnar demo --folder FOLDER"
        )
    done = load_study(place)
    exam = exam_for(DEMO_ASKED, next(iter(done.values())).config.algorithms, place)
    shown = [i for i, e in enumerate(exam.examples) if e.length == DEMO_ASKED.sizes[0]][:: DEMO_ASKED.count]
    said, scores = {}, {}
    for name, result in done.items():
        console.print(f"{name} answers {len(exam.examples)} questions ...")
        began = time.perf_counter()
        said[name] = answers(result.models[0], result.config, result.reasoners[0], exam.examples, DEMO_ASKED)
        found = Scores(score_by_size(said[name], exam.examples), time.perf_counter() - began)
        scores[name] = {
            "evaluation": asdict(DEMO_ASKED),
            "models": {AS_TRAINED: [found.as_json()]},
            "exact": exam.exact,
        }
    few = shown[:DEMO_SHOWN]
    print_said({n: [a[i] for i in few] for n, a in said.items()}, done, [exam.examples[i] for i in few])
    print_scores(scores, done)


def pack_and_print(folder: Path, out: Path, models: str | None) -> None:
    """Copy trained models, in half precision and with the questions of the demonstration, into a folder to keep."""
    done = load_study(folder)
    unknown = [name for name in _listed(models) if name not in done]
    if unknown:
        raise ValueError(f"{folder} has no model {unknown[0]!r}. {nearest(unknown[0], list(done))}")
    chosen = {name: done[name] for name in _listed(models) or done}
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} holds something; give a folder that is new or empty.")
    names = next(iter(chosen.values())).config.algorithms
    exam_for(DEMO_ASKED, names, folder)
    out.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / exam_file(DEMO_ASKED, names), out)
    size = save_study(out, chosen, HALF) / 2**20
    if size > MOST_MIB:
        shutil.rmtree(out)
        raise ValueError(
            f"{', '.join(chosen)} take {size:.1f} MiB in half precision, and {MOST_MIB} MiB may be kept beside the "
            f"source. Train narrower ones (--set width=192), or pack fewer (--models)."
        )
    Console(highlight=False).print(f"packed {', '.join(chosen)} into {out}: {size:.1f} of at most {MOST_MIB} MiB")


def demo_folder() -> Path | None:
    """Where the demonstration's models lie, if they do."""
    for start in (Path(str(files("mechgap"))).parents[1], Path.cwd()):
        place = start.joinpath(*DEMO)
        if place.is_dir():
            return place
    return None


def _mean_cell(rows: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(f"{100 * np.mean([row[key] for row in rows]):.1f}" for key in SCORE_NAMES)


def _plain(answer: str) -> str:
    return answer.strip().replace("[", "\\[")


def _listed(names: str | None) -> list[str]:
    if names is None:
        return []
    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise ValueError(f"Give names with commas between them, or leave the option out; got {names!r}.")
    return found


def _controls(names: str) -> list[str]:
    chosen = list(CONTROLS) if names == "all" else _listed(names)
    unknown = [name for name in chosen if name not in CONTROLS]
    if unknown:
        raise ValueError(f"Ways to ask are {', '.join(map(repr, CONTROLS))}, or all; got {unknown[0]!r}.")
    return chosen if AS_TRAINED in chosen else [AS_TRAINED, *chosen]
