"""Parts of result folders of trainings on sequences, for tests that train nothing."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mechgap.faithfulness.sequence_presets import sequence_studies
from mechgap.programs.tasks import PARITY_TESTS
from mechgap.training.checkpoint import write_json


def curves(curve: Mapping[str, list[float]]) -> dict[str, Any]:
    """What curves.json holds where all curves are one: a group -> of every network."""
    return dict.fromkeys(("right by length", "right by ones", "mean prediction by ones"), curve)


def gap(networks: int = 1) -> dict[str, Any]:
    """What gap.json holds where a program has neither heads nor variables."""
    found = {"mark": "before the bits", "heads": [], "variables": []}
    measured = {"version": 2, "texts": 1024, "length": 20}
    return {"measured": measured, "seeds": {str(seed): {"a_program": found} for seed in range(networks)}}


def write_gap(folder: Path, networks: int = 1) -> None:
    """A gap.json for so many networks."""
    write_json(folder / "gap.json", gap(networks))


def write_result(
    folder: Path, name: str, shares: list[tuple[float, ...]], ended: str = "all steps", **said: Any
) -> None:
    """A whole result of a study with the paper's settings: of every network the shares of right answers.

    Args:
        said: what else its manifest says.
    """
    study = sequence_studies("full", {"enough": 1.0} if ended == "enough" else {})[name]
    (folder / "alta" / name).mkdir(parents=True)
    slices = ("test",) if study.kind == "scan" else study.task.tests
    rows = [dict(zip(("seed", *slices), (i, *s), strict=True)) for i, s in enumerate(shares)]
    write_json(folder / "alta" / name / "metrics.json", rows)
    write_json(folder / "alta" / name / "config.json", asdict(study))
    steps = study.recipe.steps if ended == "all steps" else 7
    manifest = {"date": "2026-01-02", "steps": steps, "ended": ended, "tests": PARITY_TESTS, **said}
    write_json(folder / "alta" / name / "manifest.json", manifest)
    if study.kind == "scan":
        return
    curve = {"19": [1.0] * len(shares), "20": [0.5] * len(shares)}
    write_json(folder / "alta" / name / "curves.json", curves(curve))
    write_gap(folder / "alta" / name, len(shares))
