"""Training and asking a study: reasoners, and several text models that are trained alike on the same questions."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from mechgap.algorithms import text
from mechgap.storage import write_text
from mechgap.training.checkpoint import read_json, write_json
from mechgap.training.config import hashed_name
from mechgap.training.multi_task import train_together
from mechgap.training.transnar.config import STAND_IN, EvaluationConfig, TextTrainingConfig
from mechgap.training.transnar.data import kept_groups
from mechgap.training.transnar.distillation import share_right, taught_groups
from mechgap.training.transnar.evaluation import (
    CONTROLS,
    asked_so,
    evaluate,
    evaluate_growing,
    reasoner_answers,
)
from mechgap.training.transnar.exam import Exam, exam_for, growing_exam, scored
from mechgap.training.transnar.loop import DivergedError, digest, fingerprint, train_text_models
from mechgap.training.transnar.presets import COMPILED, TRAINED, Study
from mechgap.training.transnar.reasoner import Reasoner
from mechgap.training.transnar.result import (
    FULL,
    TextModels,
    finished,
    load_text_models,
    save_text_models,
    write_metrics,
)
from mechgap.training.transnar.shared_reasoner import SharedReasoner

STUDY, SCORES, GROWING = "study-{}.json", "scores", "growing"
ASKED = "asked.json"  # in the folder of a reasoner: what it answers itself
Watch = Callable[[str], None]
Compile = Callable[[Sequence[str]], Reasoner]


def run_study(
    study: Study,
    folder: str | Path,
    *,
    compiled: Compile | None = None,
    controls: Sequence[str] = tuple(CONTROLS),
    watch: Watch = lambda said: None,
    quiet: bool | None = None,
) -> dict[str, TextModels]:
    """Train what is missing, ask, and keep everything.

    Args:
        study: what.
        folder: for results; what is finished is not repeated, and several processes may share it if each has models of
            its own.
        compiled: makes the exact reasoner of some algorithms, for studies that have one.
        controls: ways to ask, see `CONTROLS`.
        watch: is told what is done.
        quiet: no progress bars; by default where there is no terminal.
    """
    folder = Path(folder)

    @cache
    def reasoner_of(name: str, algorithms: tuple[str, ...]) -> Reasoner:
        watch(f"the reasoner: {name}")
        if name != COMPILED:
            return SharedReasoner.of(train_together(study.reasoners[name], folder=folder, quiet=quiet))
        if compiled is None:
            raise ValueError("This study has a compiled reasoner; give `compiled`, which makes it.")
        return compiled(algorithms)

    done: dict[str, TextModels] = {}
    problems: list[str] = []
    for name in sorted(study.models, key=lambda name: name in study.teachers):  # teachers before their students
        config, reasoner = study.models[name], None
        if study.teachers.get(name, name) not in {*done, name}:
            problems.append(f"{name} has no teacher: {study.teachers[name]} diverged.")
            continue
        if config.looks:
            who = study.looks_at.get(name, TRAINED)
            reasoner = reasoner_of(who, config.algorithms if who == COMPILED else ())
            if config.unseen == STAND_IN and isinstance(reasoner, SharedReasoner):
                reasoner = reasoner.with_stand_ins(config.algorithms)
        watch(name)
        try:
            place, result = _trained(study, name, config, reasoner, done, folder, quiet)
        except DivergedError as error:
            problems.append(f"{name}: {error}")
            continue
        exam = exam_for(study.evaluation, config.algorithms, folder)
        done[name] = scored_models(place, result, study.evaluation, controls, watch, exam)
        if name in study.grown and study.growing is not None:
            _grown(place, result, study.growing, folder, watch)
        about = {"study": study.name, "number": [*study.looks_at, *study.models].index(name), "place": place.name}
        looked = {"reasoner": study.looks_at.get(name, TRAINED)} if config.looks else {}
        taught = {"teacher": study.teachers[name]} if name in study.teachers else {}
        write_text(folder / STUDY.format(name), json.dumps({**about, **looked, **taught}) + "\n")
    if problems:
        raise ValueError("\n".join([*problems, f"Everything else is in {folder}."]))
    return {name: done[name] for name in study.models}


def ask_reasoner(
    study: Study, name: str, folder: str | Path, watch: Watch = lambda said: None, quiet: bool | None = None
) -> dict[str, Any]:
    """The scores of a reasoner's own answers to a study's questions; it is trained if it is missing.

    They are about all algorithms that it learned, and are kept in its folder.
    """
    config, evaluation = study.reasoners[name], study.evaluation
    watch(f"the reasoner: {name}")
    trained = train_together(config, folder=folder, quiet=quiet)
    place = Path(folder) / config.name() / ASKED
    if place.exists() and asked_so(had := read_json(place), evaluation):
        return had
    watch(f"{name} is asked about {len(config.algorithms)} algorithms")
    examples = exam_for(evaluation, config.algorithms, folder).examples
    questions = [text.parse(example.question) for example in examples]
    found = scored(partial(reasoner_answers, SharedReasoner.of(trained), questions), examples)
    scores = {"evaluation": evaluation.as_json(), **found.as_json()}
    write_json(place, scores)
    return scores


def _trained(
    study: Study,
    name: str,
    config: TextTrainingConfig,
    reasoner: Reasoner | None,
    done: Mapping[str, TextModels],
    folder: Path,
    quiet: bool | None,
) -> tuple[Path, TextModels]:
    """Where the result of one model lies, and the result."""
    teacher = done[study.teachers[name]] if config.taught else None
    taught_by = "" if teacher is None else fingerprint(teacher.models[0])
    place = folder / config.name(digest(reasoner) + taught_by)
    if finished(place):
        return place, load_text_models(place)
    groups, right = kept_groups(config, folder, quiet), None
    if teacher is not None:
        taught = taught_groups(config, groups, teacher, taught_by, folder)
        extra = [[g for g in some if g.size in config.extra_sizes] for some in (taught, groups)]
        groups, right = taught, share_right(*extra)
    options: dict[str, Any] = {"taught_by": taught_by, "teacher_right": right, "folder": folder, "quiet": quiet}
    return place, train_text_models(config, reasoner, groups=groups, **options)


def scored_models(
    place: str | Path,
    result: TextModels,
    evaluation: EvaluationConfig,
    controls: Sequence[str],
    watch: Watch = lambda said: None,
    exam: Exam | None = None,
) -> TextModels:
    """Ask trained models and keep the scores in their folder, beside those of other ways to ask the same questions."""
    had = result.metrics.get(SCORES)
    before = had["models"] if had is not None and asked_so(had, evaluation, result.config) else {}
    wanted = [name for name in controls if result.config.looks or name not in ("gates shut", "shuffled")]
    missing = [name for name in wanted if name not in before]
    if before and not missing:
        return result
    found = evaluate(result, evaluation, missing, watch, exam)
    result.metrics[SCORES] = {**found, "models": {**before, **found["models"]}}
    write_metrics(place, result.metrics)
    return result


def asked_besides(
    place: str | Path,
    result: TextModels,
    evaluation: EvaluationConfig,
    controls: Sequence[str],
    watch: Watch = lambda said: None,
) -> dict[str, Any]:
    """The scores of trained models; those of other questions than they were asked before are in a file of their own."""
    had = result.metrics.get(SCORES)
    if had is None or asked_so(had, evaluation, result.config):
        return scored_models(place, result, evaluation, controls, watch).metrics[SCORES]
    found = evaluate(result, evaluation, controls, watch)
    path = Path(place) / f"{hashed_name(SCORES, json.dumps(found['evaluation'], sort_keys=True))}.json"
    write_json(path, found)
    watch(f"kept in {path}; the scores of other questions stay where they were")
    return found


def _grown(place: Path, result: TextModels, growing: EvaluationConfig, folder: Path, watch: Watch) -> None:
    """The same at rising n."""
    had = result.metrics.get(GROWING)
    if asked_so(had, growing, result.config):
        return
    exam = growing_exam(growing, result.config.algorithms, result.config.context, folder)
    result.metrics[GROWING] = evaluate_growing(result, growing, watch, exam)
    write_metrics(place, result.metrics)


def load_study(folder: str | Path) -> dict[str, TextModels]:
    """The models of a study by name; of a folder with one result, that one."""
    folder = Path(folder)
    if finished(folder):
        result = load_text_models(folder)
        return {"transnar" if result.config.looks else "transformer": result}
    return {name: load_text_models(folder / note["place"]) for name, note in notes_of(folder).items()}


def save_study(folder: str | Path, done: Mapping[str, TextModels], dtype: str = FULL) -> int:
    """Write models as a study that `load_study` reads, and nothing else; returns the bytes of all files."""
    folder = Path(folder)
    for number, (name, result) in enumerate(done.items()):
        save_text_models(folder / name, result, dtype)
        write_text(
            folder / STUDY.format(name), json.dumps({"study": folder.name, "number": number, "place": name}) + "\n"
        )
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def places_of(folder: str | Path) -> dict[str, Path]:
    """Where the models of a study lie, by name."""
    folder = Path(folder)
    if finished(folder):
        return dict.fromkeys(load_study(folder), folder)
    return {name: folder / note["place"] for name, note in notes_of(folder).items()}


def notes_of(folder: str | Path) -> dict[str, dict[str, Any]]:
    """What a folder says about the models of its study, in their order: a file for each, so that many may write."""
    start, end = STUDY.split("{}")
    found = {path.name[len(start) : -len(end)]: read_json(path) for path in Path(folder).glob(start + "*")}
    if not found:
        raise FileNotFoundError(
            f"{folder} holds neither a study nor trained text models. Train some: mechgap transnar train --preset tiny"
        )
    for name, note in found.items():
        if not {"number", "place"} <= note.keys():
            raise ValueError(
                f"{Path(folder) / STUDY.format(name)} does not say where its model is. Delete it, and train again."
            )
    return dict(sorted(found.items(), key=lambda item: item[1]["number"]))
