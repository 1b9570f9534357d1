"""What a study found, in a few small files: a JSON file for every model without its weights, one for the reasoners.

The reasoners themselves lie beside them, so that more models can be trained that look at the same ones.
"""

import filecmp
import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mechgap.storage import write_text
from mechgap.training.checkpoint import read_json
from mechgap.training.multi_task import load_multi_task
from mechgap.training.multi_task.loop import NETWORK, SCORES
from mechgap.training.transnar.config import TextTrainingConfig
from mechgap.training.transnar.presets import Study
from mechgap.training.transnar.result import CONFIG, MANIFEST, METRICS
from mechgap.training.transnar.study import ASKED, notes_of

REASONERS, ASKED_ALONE = "reasoners.json", "asked"
DIGITS = 4  # of scores and losses


def write_summary(study: Study, folder: str | Path, out: str | Path) -> list[str]:
    """Write what a folder holds of a study; returns the names of the models.

    Args:
        study: what was to be trained; what was not is left out.
        folder: where it was trained.
        out: for the files; those of other models stay.
    """
    folder, out = Path(folder), Path(out)
    trained = {name: config.name() for name, config in study.reasoners.items() if _finished(folder / config.name())}
    try:
        notes = {name: note for name, note in notes_of(folder).items() if name in study.models}
    except FileNotFoundError:
        if not trained:
            raise
        notes = {}  # reasoners alone
    for place in trained.values():
        if _finished(out / place) and not filecmp.cmp(out / place / NETWORK, folder / place / NETWORK, shallow=False):
            raise ValueError(
                f"{out / place} and {folder / place} are two trainings of one reasoner, and models of {out} look at "
                f"the first. Copy it to a new folder and train the models there, or write to another folder."
            )
    configs = {name: read_json(folder / note["place"] / CONFIG) for name, note in notes.items()}
    for name, config in configs.items():
        if others := _differing(TextTrainingConfig.from_settings(config).as_json(), study.models[name].as_json()):
            raise ValueError(
                f"{folder / notes[name]['place']}, which {folder} has for {name!r}, was trained with other settings "
                f"than the study {study.name!r} has ({', '.join(others)}). Train it anew, or give those settings."
            )
    out.mkdir(parents=True, exist_ok=True)
    for name, note in notes.items():
        config = configs[name]
        metrics, manifest = (read_json(folder / note["place"] / file) for file in (METRICS, MANIFEST))
        about = {key: note[key] for key in ("study", "number", "reasoner", "teacher") if key in note}
        looks_at = {"looks_at": trained[note["reasoner"]]} if note.get("reasoner") in trained else {}
        found = _rounded({"metrics": metrics, "manifest": manifest})
        _write(out / f"{name}.json", {**about, **looks_at, "config": config, **found})
    reasoners = {}
    for name, place in trained.items():
        result = load_multi_task(folder / place)
        scores = {algorithm: list(map(float, values)) for algorithm, values in result.scores.items()}
        found = _rounded({"scores": scores, "manifest": result.manifest})
        asked = {ASKED_ALONE: _rounded(read_json(folder / place / ASKED))} if (folder / place / ASKED).exists() else {}
        reasoners[name] = {"name": place, "config": study.reasoners[name].as_json(), **found, **asked}
        _copy(folder / place, out / place)
    _write(out / REASONERS, {**read_reasoners(out), **reasoners})
    return list(notes)


def bring_reasoners(study: Study, out: str | Path, folder: str | Path) -> list[str]:
    """Put the reasoners that `write_summary` kept where `run_study` looks for them; returns their names."""
    places = {name: config.name() for name, config in study.reasoners.items()}
    kept = {name: place for name, place in places.items() if _finished(Path(out) / place)}
    return [name for name, place in kept.items() if _copy(Path(out) / place, Path(folder) / place)]


def read_reasoners(out: str | Path) -> dict[str, dict[str, Any]]:
    """Reasoner -> what `write_summary` wrote of it."""
    path = Path(out) / REASONERS
    return read_json(path) if path.exists() else {}


def read_summary(out: str | Path) -> dict[str, dict[str, Any]]:
    """Model -> what `write_summary` wrote of it, in the study's order; nothing where there is nothing."""
    paths = [path for path in Path(out).glob("*.json") if path.name != REASONERS]
    found = {path.stem: read_json(path) for path in paths}
    return dict(sorted(found.items(), key=lambda item: item[1]["number"]))


def _finished(place: Path) -> bool:
    return (place / SCORES).exists()


def _copy(place: Path, to: Path) -> bool:
    """Copy a finished reasoner, all of it or nothing, unless there is one; returns whether it was."""
    if _finished(to):
        return False
    to.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=to.parent) as beside:
        # What it answers stands in the summary.
        made = shutil.copytree(place, Path(beside) / to.name, ignore=shutil.ignore_patterns(ASKED))
        shutil.rmtree(to, ignore_errors=True)  # of a training that was killed
        made.rename(to)
    return True


def _differing(found: dict[str, Any], planned: dict[str, Any]) -> list[str]:
    return [name for name, value in planned.items() if found[name] != value]


def _write(path: Path, values: Any) -> None:
    write_text(path, json.dumps(values, indent=None, separators=(",", ":")) + "\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS) if abs(value) > 10**-DIGITS else float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
