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
from mechgap.training.multi_task import load_multi_task
from mechgap.training.multi_task.loop import NETWORK, SCORES
from mechgap.training.transnar.result import CONFIG, MANIFEST, METRICS
from mechgap.training.transnar.study import Study, notes_of

REASONERS = "reasoners.json"
DIGITS = 4  # of scores and losses
PER_NETWORK = ("loss", "validation_loss", "curve")
TRAININGS = "trainings"  # the seeds of each, where networks of several were joined


def write_summary(study: Study, folder: str | Path, out: str | Path, join: bool = False) -> list[str]:
    """Write what a folder holds of a study; returns the names of the models.

    Args:
        study: what was to be trained; what was not is left out.
        folder: where it was trained.
        out: for the files; those of other models stay.
        join: put networks beside those of the same model that are there, instead of in their place.
    """
    folder, out = Path(folder), Path(out)
    notes = {name: note for name, note in notes_of(folder).items() if name in study.models}
    trained = {name: config.name() for name, config in study.reasoners.items() if _finished(folder / config.name())}
    for place in trained.values():
        if _finished(out / place) and not filecmp.cmp(out / place / NETWORK, folder / place / NETWORK, shallow=False):
            raise ValueError(
                f"{out / place} and {folder / place} are two trainings of one reasoner, and models of {out} look at "
                f"the first. Copy it to a new folder and train the models there, or write to another folder."
            )
    out.mkdir(parents=True, exist_ok=True)
    models: dict[str, dict[str, Any]] = {}
    for name, note in notes.items():
        config, metrics, manifest = (
            json.loads((folder / note["place"] / file).read_text()) for file in (CONFIG, METRICS, MANIFEST)
        )
        about = {key: note[key] for key in ("study", "number", "reasoner", "teacher") if key in note}
        looks_at = {"looks_at": trained[note["reasoner"]]} if note.get("reasoner") in trained else {}
        found = _rounded({"metrics": metrics, "manifest": manifest})
        models[name] = {**about, **looks_at, "config": config, **found}
    kept = read_summary(out) if join else {}
    models = {name: joined(name, model, kept[name]) if name in kept else model for name, model in models.items()}
    for name, model in models.items():
        _write(out / f"{name}.json", model)
    reasoners = {}
    for name, place in trained.items():
        result = load_multi_task(folder / place)
        scores = {algorithm: list(map(float, values)) for algorithm, values in result.scores.items()}
        found = _rounded({"scores": scores, "manifest": result.manifest})
        reasoners[name] = {"name": place, "config": study.reasoners[name].as_json(), **found}
        _copy(folder / place, out / place)
    _write(out / REASONERS, {**read_reasoners(out), **reasoners})
    return list(notes)


def joined(name: str, found: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """The networks of two trainings of one model: the new ones first, since those that learned from them refer to them.

    On an accelerator, a seed gives another network every time, since sums are not made in a fixed order: the same seeds
    twice are twice as many networks.
    """
    _check_alike(name, found, kept)
    metrics = {**kept["metrics"], **found["metrics"]}
    for key in PER_NETWORK:
        metrics[key] = found["metrics"][key] + kept["metrics"][key]
    asked = [run["metrics"]["scores"]["models"] for run in (found, kept)]
    ways = {way: [*asked[0].get(way, []), *asked[1].get(way, [])] for way in {**asked[0], **asked[1]}}
    metrics["scores"] = {**kept["metrics"]["scores"], **found["metrics"]["scores"], "models": ways}
    if "growing" in found["metrics"] and "growing" in kept["metrics"]:
        grown = [run["metrics"]["growing"] for run in (found, kept)]
        metrics["growing"] = {**grown[0], "models": grown[0]["models"] + grown[1]["models"]}
    seeds = [_seeds(found), *kept["manifest"].get(TRAININGS, [_seeds(kept)])]
    times = {**found["manifest"]["times"]}
    times["train_s"] = times["train_s"] + kept["manifest"]["times"]["train_s"]
    return {
        **found,
        "config": {**found["config"], "seeds": sum(map(len, seeds))},
        "metrics": metrics,
        "manifest": {**found["manifest"], "times": times, TRAININGS: seeds},
    }


def _seeds(model: dict[str, Any]) -> list[int]:
    first = model["config"]["first_seed"]
    return list(range(first, first + model["config"]["seeds"]))


def _check_alike(name: str, found: dict[str, Any], kept: dict[str, Any]) -> None:
    """Refuse what is no second training of the same model, or the same one again."""

    def settings(model: dict[str, Any]) -> dict[str, Any]:
        config = {key: x for key, x in model["config"].items() if key not in ("seeds", "first_seed")}
        return {**config, "reasoner": model.get("looks_at"), **model["metrics"]["scores"]["evaluation"]}

    new, old = settings(found), settings(kept)
    differing = [f"{key} ({old.get(key)} and {x})" for key, x in new.items() if old.get(key) != x]
    if differing:
        raise ValueError(
            f"{name!r} was trained or asked otherwise than the one that is there: {', '.join(differing)}. Write it "
            f"to another folder, or in place of that, without --join."
        )
    if any(curve in kept["metrics"]["curve"] for curve in found["metrics"]["curve"]):
        raise ValueError(f"The networks of {name!r} are there already: nothing is to be joined.")


def bring_reasoners(study: Study, out: str | Path, folder: str | Path) -> list[str]:
    """Put the reasoners that `write_summary` kept where `run_study` looks for them; returns their names."""
    places = {name: config.name() for name, config in study.reasoners.items()}
    kept = {name: place for name, place in places.items() if _finished(Path(out) / place)}
    return [name for name, place in kept.items() if _copy(Path(out) / place, Path(folder) / place)]


def read_reasoners(out: str | Path) -> dict[str, dict[str, Any]]:
    """Reasoner -> what `write_summary` wrote of it."""
    path = Path(out) / REASONERS
    return json.loads(path.read_text()) if path.exists() else {}


def read_summary(out: str | Path) -> dict[str, dict[str, Any]]:
    """Model -> what `write_summary` wrote of it, in the study's order; nothing where there is nothing."""
    paths = [path for path in Path(out).glob("*.json") if path.name != REASONERS]
    found = {path.stem: json.loads(path.read_text()) for path in paths}
    return dict(sorted(found.items(), key=lambda item: item[1]["number"]))


def _finished(place: Path) -> bool:
    return (place / SCORES).exists()


def _copy(place: Path, to: Path) -> bool:
    """Copy a finished reasoner, all of it or nothing, unless there is one; returns whether it was."""
    if _finished(to):
        return False
    to.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=to.parent) as beside:
        made = shutil.copytree(place, Path(beside) / to.name)
        shutil.rmtree(to, ignore_errors=True)  # of a training that was killed
        made.rename(to)
    return True


def _write(path: Path, values: Any) -> None:
    write_text(path, json.dumps(values, indent=None, separators=(",", ":")) + "\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS) if abs(value) > 10**-DIGITS else float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
