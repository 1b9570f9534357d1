"""What a study found, in a few small files: a JSON file for every model without its weights, one for the reasoners.

The reasoners themselves lie beside them, so that more models can be trained that look at the same ones.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from mechgap.storage import write_text
from mechgap.training.multi_task import load_multi_task
from mechgap.training.transnar.result import CONFIG, MANIFEST, METRICS
from mechgap.training.transnar.study import Study, notes_of

REASONERS = "reasoners.json"
DIGITS = 4  # of scores and losses


def write_summary(study: Study, folder: str | Path, out: str | Path) -> list[str]:
    """Write what a folder holds of a study; returns the names of the models.

    Args:
        study: what was to be trained; what was not is left out.
        folder: where it was trained.
        out: for the files; those of other models stay.
    """
    folder, out = Path(folder), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    notes = {name: note for name, note in notes_of(folder).items() if name in study.models}
    for name, note in notes.items():
        config, metrics, manifest = (
            json.loads((folder / note["place"] / file).read_text()) for file in (CONFIG, METRICS, MANIFEST)
        )
        about = {key: note[key] for key in ("study", "number", "reasoner", "teacher") if key in note}
        _write(
            out / f"{name}.json", {**about, "config": config, **_rounded({"metrics": metrics, "manifest": manifest})}
        )
    reasoners = {}
    for name, config in study.reasoners.items():
        if (folder / config.name() / "scores.json").exists():
            result = load_multi_task(folder / config.name())
            scores = {algorithm: list(map(float, values)) for algorithm, values in result.scores.items()}
            found = _rounded({"scores": scores, "manifest": result.manifest})
            reasoners[name] = {"config": config.as_json(), **found}
            shutil.copytree(folder / config.name(), out / config.name(), dirs_exist_ok=True)
    _write(out / REASONERS, {**read_reasoners(out), **reasoners})
    return list(notes)


def bring_reasoners(study: Study, out: str | Path, folder: str | Path) -> list[str]:
    """Put the reasoners that `write_summary` kept where `run_study` looks for them; returns their names."""
    kept = {name: Path(out) / config.name() for name, config in study.reasoners.items()}
    brought = {
        name: place for name, place in kept.items() if place.exists() and not (Path(folder) / place.name).exists()
    }
    for place in brought.values():
        shutil.copytree(place, Path(folder) / place.name)
    return list(brought)


def read_reasoners(out: str | Path) -> dict[str, dict[str, Any]]:
    """Reasoner -> what `write_summary` wrote of it."""
    path = Path(out) / REASONERS
    return json.loads(path.read_text()) if path.exists() else {}


def read_summary(out: str | Path) -> dict[str, dict[str, Any]]:
    """Model -> what `write_summary` wrote of it, in the study's order; nothing where there is nothing."""
    paths = [path for path in Path(out).glob("*.json") if path.name != REASONERS]
    found = {path.stem: json.loads(path.read_text()) for path in paths}
    return dict(sorted(found.items(), key=lambda item: item[1]["number"]))


def _write(path: Path, values: Any) -> None:
    write_text(path, json.dumps(values, indent=None, separators=(",", ":")) + "\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS) if abs(value) > 10**-DIGITS else float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
