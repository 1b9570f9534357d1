"""All trainings on sequences in one table, and how simple the programs are that they could have learned (ALTA 4.1)."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.faithfulness.sequence_presets import SequenceStudy, sequence_studies
from mechgap.networks.transformer import EACH
from mechgap.report.paper.verdicts import Details
from mechgap.training.checkpoint import read_json
from mechgap.training.many import ENOUGH

LEARNS_FROM = {"supervision": "vectors", "probed": "variables", "end_to_end": "answers", "scan": "answers"}
# How the names of slices begin, whatever the longest text of the training set was.
SLICES = {
    "training data": "training data",
    "length <=": "as long",
    "length >": "longer",
    "ones >": "more ones",
    "test": "test of SCAN",
}


def finished(place: Path, names: Iterable[str] | None = None) -> list[str]:
    """Those studies that a folder holds results of, in their order."""
    return [
        name for name in (sequence_studies() if names is None else names) if (place / name / "manifest.json").exists()
    ]


def study_table(folders: Iterable[Path]) -> Details:
    """Right answers, how well they generalise, and the gap; a line per study and program that it is compared with."""
    header = ("study", "learns from", "networks", "training", *SLICES.values())
    header += ("compared with", "nearest head (uniform)", "variables read (shuffled)")
    rows = [row for folder in folders for row in _study_rows(folder)]
    return Details("All trainings: right answers in percent, and the gap to a program", header, tuple(rows))


def how_training_went(folder: Path) -> str:
    """How many steps were taken, and why no more; and whether distances had other biases than now."""
    manifest, study = read_json(folder / "manifest.json"), SequenceStudy.of(read_json(folder / "config.json"))
    size, recipe = study.transformer, study.recipe
    exact = ", a bias for each distance" if size is not None and size.distances == EACH else ""
    if manifest.get("ended") == ENOUGH:
        assert recipe.enough is not None
        return f"stopped after {manifest['steps']} steps at {recipe.enough:.0%} on training data{exact}"
    planned = "" if manifest["steps"] == recipe.steps else f" of {recipe.steps}"
    return f"{manifest['steps']}{planned} steps{exact}"


def simplicity_table(labels: Mapping[str, str], found: Mapping[str, Any]) -> Details:
    """How simple programs are.

    Args:
        labels: program -> what the paper calls it.
        found: program -> its `Generalisation`, as a mapping.
    """
    header = ("program", "rules", "minimal rules", "layers", "variable combinations")
    rows = [
        (
            label,
            "" if known["rules"] is None else str(known["rules"]),
            str(known["kept"]),
            str(known["layers"]),
            _scale(known["combinations"]),
        )
        for label, known in ((labels[name], found[name]) for name in labels if name in found)
    ]
    return Details("How simple the programs are", header, tuple(rows))


def _study_rows(folder: Path) -> list[tuple[str, ...]]:
    metrics, kind = read_json(folder / "metrics.json"), read_json(folder / "config.json")["kind"]
    names = [next((name for name in metrics[0] if name.startswith(begin)), None) for begin in SLICES]
    shares = ["" if name is None else percent([seed[name] for seed in metrics]) for name in names]
    known = (folder.name, LEARNS_FROM[kind], str(len(metrics)), how_training_went(folder), *shares)
    seeds = list(read_json(folder / "gap.json").values()) if (folder / "gap.json").exists() else []
    if not seeds:
        return [(*known, "", "", "")]
    again = (folder.name, *[""] * (len(known) - 1))
    return [
        (*(again if i else known), program, _heads([s[program] for s in seeds]), _read([s[program] for s in seeds]))
        for i, program in enumerate(seeds[0])
    ]


def percent(shares: Sequence[float]) -> str:
    """The mean over networks in percent, and the standard deviation where there are several."""
    values = 100 * np.array(shares)
    return f"{values.mean():.1f}" + (f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else "")


def _heads(gaps: Sequence[Mapping[str, Any]]) -> str:
    """The mean distance of the program's heads from the nearest of the network, and from uniform attention."""
    heads = [head for gap in gaps for head in gap["heads"]]
    if not heads:
        return ""
    return f"{np.mean([h['distance'] for h in heads]):.2f} ({np.mean([h['uniform'] for h in heads]):.2f})"


def _read(gaps: Sequence[Mapping[str, Any]]) -> str:
    """How well variables, and shuffled ones, are read off the layers; the mean. An embedding shows only the input."""
    found = [probe for gap in gaps for probe in gap["variables"] if probe["layer"] > 0]
    if not found:
        return ""
    return f"{np.mean([p['accuracy'] for p in found]):.2f} ({np.mean([p['control'] for p in found]):.2f})"


def _scale(number: int) -> str:
    """A number that can be read: powers of ten where it is large."""
    return str(number) if number < 10**6 else f"10^{len(str(number)) - 1}"
