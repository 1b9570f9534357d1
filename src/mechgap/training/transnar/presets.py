"""A study as it is written down: presets, their settings, and what is refused before anything is trained.

Presets are TOML files of plain values:

    [reasoner]           whom models look at
    [reasoners.NAME]     another one: what it has in place of that
    [training]           of all models
    [models.NAME]        what sets one apart; and `reasoner`: "trained" (the first one), "compiled" (exact networks), or
                         the name of another; and `teacher`: the model that answers its extra questions
    [evaluation]         what is asked
    [growing]            what is asked at rising n, of the models that it names
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from mechgap.algorithms.inputs import nearest
from mechgap.programs import program_parameters
from mechgap.training.config import parse_toml
from mechgap.training.multi_task import MultiTaskConfig
from mechgap.training.rules import names_in
from mechgap.training.transnar.config import SHUFFLED, STAND_IN, EvaluationConfig, TextTrainingConfig
from mechgap.training.transnar.evaluation import check_others, check_unseen

PRESETS = ("tiny", "quick", "demo", "h200", "paper")
TABLES = ("reasoner", "reasoners", "training", "models", "evaluation", "growing")
TRAINED, COMPILED = "trained", "compiled"


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
