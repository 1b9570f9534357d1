"""All trainings on sequences in one table."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.faithfulness.sequence_presets import SequenceStudy, sequence_studies
from mechgap.faithfulness.sequence_result import SequenceResult, is_result
from mechgap.faithfulness.sequences import VERSION
from mechgap.networks.transformer import EACH
from mechgap.report.alta_shares import percent, tested_on
from mechgap.report.paper.verdicts import Details
from mechgap.training.many import CONSTANT, ENOUGH, STOPPED
from mechgap.training.sequences.end_to_end import LOOKED_AT

LEARNS_FROM = {"supervision": "vectors", "probed": "variables", "end_to_end": "answers", "scan": "answers"}
# How the names of slices begin, whatever the longest text of the training set was.
SLICES = {
    "training data": "training data",
    "length <=": "as long",
    "length >": "longer",
    "ones >": "more ones",
    "test": "test of SCAN",
}

# A distance, the same if no head may stand for two, and what it is compared with; a share, and what it is compared with
GAP_COLUMNS = (
    "nearest head / one each (untrained, uniform)",
    "the same from the answering place",
    "variables read (untrained, shuffled, most frequent)",
    "the same at the answering place",
)


def finished(place: Path, names: Iterable[str] | None = None) -> list[str]:
    """Those studies that a folder holds results of, in their order."""
    return [name for name in (sequence_studies() if names is None else names) if is_result(place / name)]


def study_table(results: Iterable[SequenceResult]) -> Details:
    """Right answers, how well they generalise, and the gap; a line per study and program that it is compared with."""
    header = ("study", "learns from", "networks", "training", *SLICES.values())
    header += ("compared with", *GAP_COLUMNS, "measured on")
    rows = [row for result in results for row in _study_rows(result)]
    return Details("All trainings: right answers in percent, and the gap to a program", header, tuple(rows))


def how_training_went(result: SequenceResult) -> str:
    """How many steps were taken, and why no more; and what was otherwise than it would be now."""
    manifest, study = result.manifest, result.study
    size, recipe = study.transformer, study.recipe
    other = ", a bias for each distance" if size is not None and size.distances == EACH else ""
    if study.kind == "supervision" and recipe.schedule == CONSTANT:
        other = ", constant learning rate"
    if diverged := manifest.get("diverged"):
        other += f", {len(diverged)} of {recipe.seeds} networks diverged"
    if manifest.get("ended") == ENOUGH:
        assert recipe.enough is not None
        seen = "some commands of the training set" if study.kind == "scan" else f"{LOOKED_AT} texts drawn for that"
        return f"ended after {manifest['steps']} steps at {recipe.enough:.0%} of {seen}{other}"
    if manifest.get("ended") == STOPPED:
        return f"stopped after {manifest['steps']} of {recipe.steps} steps{other}"
    planned = max(recipe.steps, _planned_steps(study))
    of_planned = "" if manifest["steps"] == planned else f" of {planned}"
    return f"{manifest['steps']}{of_planned} steps{other}"


def _planned_steps(study: SequenceStudy) -> int:
    """How many steps the settings in experiments/alta take; none of a study that is not there."""
    planned = sequence_studies("full").get(study.name)
    return 0 if planned is None else planned.recipe.steps


def _study_rows(result: SequenceResult) -> list[tuple[str, ...]]:
    metrics, manifest, name = result.metrics, result.manifest, result.folder.name
    slices = [next((part for part in metrics[0] if part.startswith(begin)), "") for begin in SLICES]
    shares = [percent([seed[part] for seed in metrics]) + tested_on(part, manifest) if part else "" for part in slices]
    known = (name, LEARNS_FROM[result.study.kind], str(len(metrics)), how_training_went(result), *shares)
    if not result.gaps:
        return [(*known, *[""] * 6)]
    of_seeds, again, rows = result.gaps, (name, *[""] * (len(known) - 1)), []
    for i, program in enumerate(next(iter(of_seeds.values()))):
        gaps = [seed[program] for seed in of_seeds.values()]
        heads = [head for gap in gaps for head in gap["heads"]]
        probes = [p for gap in gaps for p in gap["variables"] if p["layer"] > 0]  # an embedding shows only the input
        cells = (_heads(heads), _heads(_answering(heads)), _read(probes), _read(_answering(probes)))
        rows.append((*(again if i else known), program, *cells, _measured_on(result.measured, gaps[0])))
    return rows


def _heads(heads: Sequence[Mapping[str, Any]]) -> str:
    """The mean distance of the nearest heads, of one each, of the nearest before training, and of uniform ones."""
    return _means(heads, ("distance", "matched"), ("untrained", "uniform"))


def _read(probes: Sequence[Mapping[str, Any]]) -> str:
    """How often variables, those before training, shuffled ones, and the most frequent value are right."""
    return _means(probes, ("accuracy",), ("untrained", "control", "majority"))


def _means(found: Sequence[Mapping[str, Any]], first: Sequence[str], others: Sequence[str]) -> str:
    """The means of measures, and those of others in brackets; a dash where one was not measured."""
    if not found:
        return ""
    mean = {
        name: "–" if any(one.get(name) is None for one in found) else f"{np.mean([one[name] for one in found]):.2f}"
        for name in (*first, *others)
    }
    return f"{' / '.join(mean[name] for name in first)} ({', '.join(mean[name] for name in others)})"


def _answering(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same at the answering place, where it was measured."""
    return [one["answering"] for one in found if one.get("answering") is not None]


def _measured_on(measured: Mapping[str, Any], gap: Mapping[str, Any]) -> str:
    if measured["version"] < VERSION:
        return "64 texts at most: the old way"
    return f"{measured['texts']} texts of {measured['length']} bits, mark: {gap['mark']}"
