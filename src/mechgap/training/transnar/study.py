"""A study: reasoners, several text models that are trained alike on the same questions, and what they are asked.

Presets are TOML files of plain values:

    [reasoner]           whom models look at
    [reasoners.NAME]     another one: what it has in place of that
    [training]           of all models
    [models.NAME]        what sets one apart; and `reasoner`: "trained" (the first one), "compiled" (exact networks), or
                         the name of another; and `teacher`: the model that answers its extra questions
    [evaluation]         what is asked
    [growing]            what is asked at rising n, of the models that it names
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from mechgap.algorithms import text
from mechgap.algorithms.inputs import nearest
from mechgap.programs import program_parameters
from mechgap.storage import write_text
from mechgap.training.checkpoint import read_json, write_json
from mechgap.training.config import hashed_name, parse_toml
from mechgap.training.multi_task import MultiTaskConfig, train_together
from mechgap.training.rules import names_in
from mechgap.training.transnar.config import SHUFFLED, STAND_IN, EvaluationConfig, TextTrainingConfig
from mechgap.training.transnar.data import kept_groups
from mechgap.training.transnar.distillation import share_right, taught_groups
from mechgap.training.transnar.evaluation import (
    CONTROLS,
    asked_so,
    check_others,
    check_unseen,
    evaluate,
    evaluate_growing,
    reasoner_answers,
)
from mechgap.training.transnar.exam import Exam, exam_for, growing_exam, scored
from mechgap.training.transnar.loop import DivergedError, digest, fingerprint, train_text_models
from mechgap.training.transnar.reasoner import Reasoner, SharedReasoner
from mechgap.training.transnar.result import (
    FULL,
    TextModels,
    finished,
    load_text_models,
    save_text_models,
    write_metrics,
)

PRESETS = ("tiny", "quick", "demo", "h200", "paper")
TABLES = ("reasoner", "reasoners", "training", "models", "evaluation", "growing")
TRAINED, COMPILED = "trained", "compiled"
STUDY, SCORES, GROWING = "study-{}.json", "scores", "growing"
ASKED = "asked.json"  # in the folder of a reasoner: what it answers itself
Watch = Callable[[str], None]
Compile = Callable[[Sequence[str]], Reasoner]


@dataclass(frozen=True)
class Study:
    """What is trained and asked.

    Attributes:
        reasoners: name -> whom models look at.
        models: by name.
        evaluation: what they are asked.
        looks_at: model -> the name of its reasoner.
        teachers: model -> the name of its teacher, for those that have one.
        growing: what some are asked at rising n.
        grown: which.
    """

    name: str
    reasoners: dict[str, MultiTaskConfig]
    models: dict[str, TextTrainingConfig]
    evaluation: EvaluationConfig
    looks_at: dict[str, str] = field(default_factory=dict)
    teachers: dict[str, str] = field(default_factory=dict)
    growing: EvaluationConfig | None = None
    grown: tuple[str, ...] = ()

    def only(self, names: Sequence[str]) -> "Study":
        """The same study with some of its models, and their teachers."""
        for name in names:
            if name not in self.models:
                raise ValueError(f"The study {self.name!r} has no model {name!r}. {nearest(name, list(self.models))}")
        wanted = {*names, *(self.teachers[name] for name in names if name in self.teachers)}
        return replace(self, models={name: config for name, config in self.models.items() if name in wanted})


def read_study(
    source: str,
    changes: Mapping[str, Any] | None = None,
    models: Sequence[str] = (),
    looks_at: str | None = None,
) -> Study:
    """A preset, or a TOML file.

    Args:
        source: the name of a preset, or a path.
        changes: settings to replace; those of reasoners and evaluations start with `reasoner.`, `evaluation.` and
            `growing.`.
        models: only these, by name.
        looks_at: the name of a reasoner that all models look at, whatever the study says.
    """
    if source in PRESETS:
        written = (files("mechgap.experiments") / "transnar" / f"{source}.toml").read_text()
    elif source.endswith(".toml"):
        if not Path(source).is_file():
            raise FileNotFoundError(
                f"No file {source}. Give the path of a TOML file, or a preset: {', '.join(PRESETS)}."
            )
        written = Path(source).read_text()
    else:
        raise ValueError(f"No preset {source!r}. {nearest(source, PRESETS)} A path ends in .toml.")
    tables = parse_toml(written, source)
    unknown = [name for name in tables if name not in TABLES]
    if unknown:
        raise ValueError(f"A study has the tables {', '.join(TABLES)}; got {unknown[0]!r} in {source}.")
    settings = {name: dict(tables.get(name, {})) for name in TABLES}
    for name, value in (changes or {}).items():
        table, dot, setting = name.partition(".")
        own = dot and table in ("reasoner", "evaluation", "growing")
        settings[table if own else "training"][setting if own else name] = value
    study = _study(Path(source).stem, settings)
    study = study.only(models) if models else study
    if looks_at is not None:
        study = replace(study, looks_at=dict.fromkeys(study.looks_at, looks_at))
    _check_known(study)
    return study


def _check_known(study: Study) -> None:
    """Refuse, before anything is trained, questions that a reasoner knows nothing about or that were trained on."""
    for name, config in study.models.items():
        check_unseen(config, study.evaluation)
        check_others(name, config, study.evaluation)
        if study.growing is not None and name in study.grown:
            check_unseen(config, study.growing)
            if config.memory == SHUFFLED:
                raise ValueError(f"{name!r} sees shuffled states, and one question may be left at some n: take it out.")
        if config.looks and study.looks_at[name] == COMPILED:
            _check_programs(name, config.algorithms)
        elif config.looks and config.unseen != STAND_IN:
            _check_learned(name, config.algorithms, study.looks_at[name], study.reasoners)


def _check_programs(name: str, algorithms: Sequence[str]) -> None:
    problems = []
    for algorithm in algorithms:
        try:
            program_parameters(algorithm)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError(
            f"The model {name!r} looks at compiled networks. {' '.join(problems)} Ask about fewer (algorithms), or "
            f'let it look at a trained reasoner (reasoner = "{TRAINED}").'
        )


def _check_learned(name: str, algorithms: Sequence[str], who: str, reasoners: Mapping[str, MultiTaskConfig]) -> None:
    learned = reasoners[who].algorithms
    unknown = [algorithm for algorithm in algorithms if algorithm not in learned]
    if unknown:
        setting = "reasoner.algorithms" if who == TRAINED else f"algorithms of [reasoners.{who}]"
        raise ValueError(
            f"The model {name!r} is asked about {', '.join(unknown)}, and its reasoner learns {', '.join(learned)}. "
            f'Add to {setting}, ask about fewer (algorithms), or set unseen = "{STAND_IN}".'
        )


def _study(name: str, settings: Mapping[str, dict[str, Any]]) -> Study:
    reasoners = {TRAINED: {}, **settings["reasoners"]}
    models = settings["models"] or {"transnar": {}}
    looks_at = {model: own.get("reasoner", TRAINED) for model, own in models.items()}
    teachers = {model: own["teacher"] for model, own in models.items() if "teacher" in own}
    growing = dict(settings["growing"])
    grown = names_in(growing.pop("models", ()))
    if growing and not grown:
        raise ValueError(
            f"Settings of growing ({', '.join(growing)}) mean nothing where no model is asked at rising n. Say which: "
            f"growing.models={','.join(models)}"
        )
    configs = {
        model: TextTrainingConfig.from_settings(
            {**settings["training"], **{k: x for k, x in own.items() if k not in ("reasoner", "teacher")}}
        )
        for model, own in models.items()
    }
    _check_names(looks_at.values(), [*reasoners, COMPILED], "reasoner")
    _check_names([*teachers.values(), *grown], list(models), "model")
    for model, teacher in teachers.items():
        if teacher in teachers:
            raise ValueError(
                f"The teacher of {model!r}, {teacher!r}, has a teacher itself. Teachers learn from right answers: name "
                f"one of {', '.join(other for other in models if other not in teachers) or 'the models without one'}."
            )
    for model, config in configs.items():
        if config.taught != (model in teachers):
            raise ValueError(
                f'The model {model!r} must have both a teacher and extra_answers = "teacher", or neither of them.'
            )
    return Study(
        name,
        {key: MultiTaskConfig.from_settings({**settings["reasoner"], **own}) for key, own in reasoners.items()},
        configs,
        EvaluationConfig.from_settings(settings["evaluation"]),
        looks_at,
        teachers,
        EvaluationConfig.from_settings(growing) if grown else None,
        grown,
    )


def _check_names(given: Iterable[str], known: list[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"The study has no {what} {name!r}. {nearest(name, known)}")


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
