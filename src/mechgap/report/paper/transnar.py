"""TransNAR: what the paper and a summary of it claim, what ours come to, and the controls that the paper lacks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from mechgap.algorithms.inputs import nearest
from mechgap.report.paper.catalogue import Item
from mechgap.report.paper.lines import Comparison
from mechgap.report.paper.transnar_claims import claims
from mechgap.report.paper.transnar_gains import compiled, controls, distillation, grid, unseen
from mechgap.report.paper.transnar_growing import growing
from mechgap.report.paper.transnar_reasoners import reasoners
from mechgap.report.paper.transnar_results import FOLDER, MAIN, NEEDED, STUDIES, Results
from mechgap.report.paper.transnar_tables import parse_scores
from mechgap.report.paper.verdicts import NEVER, SMALL, Found, Line
from mechgap.training.config import parse_toml
from mechgap.training.transnar import TextTrainingConfig
from mechgap.training.transnar.evaluation import asked_so
from mechgap.training.transnar.presets import Study, read_study
from mechgap.training.transnar.study import GROWING, SCORES, ask_reasoner, run_study
from mechgap.training.transnar.summary import ASKED_ALONE, bring_reasoners, write_summary

PREFIX = "transnar-"
Say = Callable[[str], None]


def is_transnar(name: str) -> bool:
    """Whether an item is one of TransNAR's."""
    return name.startswith(PREFIX)


def transnar_items() -> list[str]:
    """Their names, e.g. transnar-grid."""
    return [f"{PREFIX}{name}" for name in _document()]


def run_transnar_item(
    name: str, preset: str, folder: Path, *, runs: Path, changes: Mapping[str, Any] | None = None, say: Say = print
) -> None:
    """Train the models that an item needs and a folder lacks."""
    from mechgap.report.text_models import compiled_reasoner

    item, kept = _checked(name), Results(folder)
    study, place = read_study(STUDIES[preset], changes, NEEDED[item]), runs / FOLDER
    if item == "reasoners":
        _run_reasoners(replace(study, models={}), folder, place, kept, say)
        return
    if larger := [model for model in NEEDED[item] if kept.has(model) and _is_larger(kept.models[model], study, model)]:
        say(f"{name}: {folder} holds a larger run of {', '.join(larger)}, which is kept")
        return
    if kept.has(*NEEDED[item]) and all(
        _is_done(kept.models[model], study, model, item == "growing") for model in NEEDED[item]
    ):
        say(f"{name}: finished before")
        return
    for one in bring_reasoners(study, folder / FOLDER, place):
        say(f"the reasoner {one!r} comes along, and is not trained again")
    run_study(study, place, compiled=compiled_reasoner, watch=say)
    write_summary(study, place, folder / FOLDER)


def _is_done(about: Mapping[str, Any], study: Study, name: str, grown: bool) -> bool:
    """Whether a kept model is trained and asked as a study says."""
    metrics, looks_at = about["metrics"], study.looks_at.get(name)
    config = TextTrainingConfig.from_settings(about["config"])
    if config != study.models[name]:
        return False
    if looks_at in study.reasoners and about.get("looks_at") not in (None, study.reasoners[looks_at].name()):
        return False  # older results do not say whom they look at
    if grown and not (study.growing is not None and asked_so(metrics.get(GROWING), study.growing, config)):
        return False
    return asked_so(metrics.get(SCORES), study.evaluation, config)


def _is_larger(about: Mapping[str, Any], study: Study, name: str) -> bool:
    """Whether a kept model took more to train than the study's would: full beats quick."""
    mine, planned = TextTrainingConfig.from_settings(about["config"]), study.models[name]
    return _effort(mine) > _effort(planned)


def _effort(config: TextTrainingConfig) -> int:
    return config.steps * config.tokens * config.seeds * config.width


def _run_reasoners(study: Study, folder: Path, place: Path, kept: Results, say: Say) -> None:
    """Train the reasoners that a folder lacks, and ask each of them alone."""
    missing = [
        one
        for one, config in study.reasoners.items()
        if kept.reasoners.get(one, {}).get("name") != config.name()
        or not asked_so(kept.reasoners[one].get(ASKED_ALONE), study.evaluation)
    ]
    if not missing:
        say("reasoners: finished before")
        return
    for one in bring_reasoners(study, folder / FOLDER, place):
        say(f"the reasoner {one!r} comes along, and is not trained again")
    for one in missing:
        ask_reasoner(study, one, place, watch=say)
        write_summary(study, place, folder / FOLDER)


def transnar_table(name: str, folder: str | Path) -> Comparison:
    """One item, from the results in a folder."""
    known, results = _checked(name), Results(folder)
    entry, needed = _document()[known], NEEDED[known]
    missing = [model for model in needed if not results.has(model)]
    lines, details = ITEMS[known](results)
    ran = [results.models[model] for model in needed if results.has(model)]
    networks = ", ".join(dict.fromkeys(str(model["config"]["seeds"]) for model in ran)) or "-"
    date = max((model["manifest"].get("date", "-") for model in ran), default="-")
    if missing:
        lines.append(Line(f"Not measured yet: {', '.join(missing)}", verdict=NEVER))
    small = any(SMALL in line.verdict for line in lines)
    about = [entry.get("about", "").strip(), results.how_trained(needed)]
    if results.has(*MAIN) and known in ("grid", "claims"):
        about += [results.learned(*MAIN), results.below_floor(*MAIN)]
    if known == "grid":
        about.append(parse_scores(results)[0])
    item = Item(name, entry["title"], {}, about="\n\n".join(part for part in about if part))
    return Comparison(item, tuple(lines), tuple(d for d in details if d.rows), networks, date, small)


ITEMS: dict[str, Callable[[Results], Found]] = {
    "grid": grid,
    "controls": controls,
    "claims": claims,
    "compiled": compiled,
    "unseen": unseen,
    "distillation": distillation,
    "growing": growing,
    "reasoners": reasoners,
}


def _checked(name: str) -> str:
    known = name.removeprefix(PREFIX)
    if known not in ITEMS:
        raise ValueError(f"TransNAR has no {name!r} here. {nearest(name, transnar_items())}")
    return known


@cache
def _document() -> dict[str, Any]:
    return parse_toml((files("mechgap.experiments") / "transnar" / "items.toml").read_text(), "transnar/items.toml")
