"""A study: one reasoner, several text models that are trained alike on the same questions, one evaluation.

Presets are TOML files of plain values: `[reasoner]`, `[training]` for all models, `[models.NAME]` for what sets one
apart, `[evaluation]`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from mechgap.algorithms.inputs import nearest
from mechgap.storage import write_text
from mechgap.training.config import parse_toml
from mechgap.training.multi_task import MultiTaskConfig, train_together
from mechgap.training.transnar.config import EvaluationConfig, TextTrainingConfig
from mechgap.training.transnar.data import kept_groups
from mechgap.training.transnar.evaluation import CONTROLS, evaluate
from mechgap.training.transnar.loop import digest, train_text_models
from mechgap.training.transnar.reasoner import Reasoner, SharedReasoner
from mechgap.training.transnar.result import TextModels, finished, load_text_models, write_metrics

PRESETS = ("tiny", "demo", "h200", "paper")
TABLES = ("reasoner", "training", "models", "evaluation")
STUDY, SCORES = "study.json", "scores"


@dataclass(frozen=True)
class Study:
    """What is trained and asked.

    Attributes:
        reasoner: whom models look at.
        models: by name.
        evaluation: what they are asked.
    """

    name: str
    reasoner: MultiTaskConfig
    models: dict[str, TextTrainingConfig]
    evaluation: EvaluationConfig


def read_study(source: str, changes: Mapping[str, Any] | None = None, models: Sequence[str] = ()) -> Study:
    """A preset, or a TOML file.

    Args:
        source: the name of a preset, or a path.
        changes: settings to replace; those of the reasoner and the evaluation start with `reasoner.` and `evaluation.`.
        models: only these, by name.
    """
    if source in PRESETS:
        written = (files("mechgap.experiments") / "transnar" / f"{source}.toml").read_text()
    elif source.endswith(".toml"):
        written = Path(source).read_text()
    else:
        raise ValueError(f"No preset {source!r}. {nearest(source, PRESETS)} A path ends in .toml.")
    tables = parse_toml(written, source)
    unknown = [name for name in tables if name not in TABLES]
    if unknown:
        raise ValueError(f"A study has the tables {', '.join(TABLES)}; got {unknown[0]!r} in {source}.")
    settings = {name: dict(tables.get(name, {})) for name in TABLES}
    for name, value in (changes or {}).items():
        table, dot, field = name.partition(".")
        settings[table if dot and table in ("reasoner", "evaluation") else "training"][field or name] = value
    known = settings["models"] or {"transnar": {}}
    for name in models:
        if name not in known:
            raise ValueError(f"The study {source!r} has no model {name!r}. {nearest(name, list(known))}")
    chosen = {name: known[name] for name in models or known}
    return Study(
        Path(source).stem,
        MultiTaskConfig.from_settings(settings["reasoner"]),
        {name: TextTrainingConfig.from_settings({**settings["training"], **own}) for name, own in chosen.items()},
        EvaluationConfig.from_settings(settings["evaluation"]),
    )


def run_study(
    study: Study,
    folder: str | Path,
    *,
    reasoner: Reasoner | None = None,
    controls: Sequence[str] = tuple(CONTROLS),
    watch: Callable[[str], None] = lambda said: None,
    quiet: bool | None = None,
) -> dict[str, TextModels]:
    """Train what is missing, ask, and keep everything.

    Args:
        study: what.
        folder: for results; what is finished is not repeated.
        reasoner: one to use instead of training the study's.
        controls: ways to ask, see `CONTROLS`.
        watch: is told what is done.
        quiet: no progress bars; by default where there is no terminal.
    """
    folder = Path(folder)
    if reasoner is None and any(config.looks for config in study.models.values()):
        watch("the reasoner")
        reasoner = SharedReasoner.of(train_together(study.reasoner, folder=folder, quiet=quiet))
    done: dict[str, TextModels] = {}
    for name, config in study.models.items():
        mine = reasoner if config.looks else None
        place = folder / config.name(digest(mine))
        watch(name)
        groups = () if finished(place) else kept_groups(config, folder, quiet)
        result = train_text_models(config, mine, groups=groups, folder=folder, quiet=quiet)
        done[name] = scored_models(place, result, study.evaluation, controls, watch)
        _note(folder, study.name, {name: place.name})
    return done


def scored_models(
    place: str | Path,
    result: TextModels,
    evaluation: EvaluationConfig,
    controls: Sequence[str],
    watch: Callable[[str], None] = lambda said: None,
) -> TextModels:
    """Ask trained models and keep the scores in their folder, unless they were asked the same before."""
    had = result.metrics.get(SCORES)
    wanted = {name for name in controls if result.config.looks or name not in ("gates shut", "shuffled")}
    same = had is not None and had["evaluation"] == json.loads(json.dumps(asdict(evaluation)))
    if had is not None and same and wanted <= set(had["models"]):
        return result
    result.metrics[SCORES] = json.loads(json.dumps(evaluate(result, evaluation, controls, watch)))
    write_metrics(place, result.metrics)
    return result


def load_study(folder: str | Path) -> dict[str, TextModels]:
    """The models of a study by name; of a folder with one result, that one."""
    folder = Path(folder)
    if finished(folder):
        result = load_text_models(folder)
        return {"transnar" if result.config.looks else "transformer": result}
    if not (folder / STUDY).exists():
        raise FileNotFoundError(
            f"{folder} holds neither a study nor trained text models. Train some: mechgap transnar train --preset tiny"
        )
    places = json.loads((folder / STUDY).read_text())["models"]
    return {name: load_text_models(folder / place) for name, place in places.items()}


def places_of(folder: str | Path) -> dict[str, Path]:
    """Where the models of a study lie, by name."""
    folder = Path(folder)
    if finished(folder) or not (folder / STUDY).exists():
        return dict.fromkeys(load_study(folder), folder)
    return {name: folder / place for name, place in json.loads((folder / STUDY).read_text())["models"].items()}


def _note(folder: Path, name: str, models: dict[str, str]) -> None:
    """Add models to the list of what a folder holds."""
    had = json.loads((folder / STUDY).read_text())["models"] if (folder / STUDY).exists() else {}
    write_text(folder / STUDY, json.dumps({"study": name, "models": {**had, **models}}, indent=1) + "\n")
