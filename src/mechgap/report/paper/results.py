"""The result of one study as the comparison with the paper reads it: every file when it is needed, and only once."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.faithfulness.landscape import FILE as LANDSCAPE
from mechgap.faithfulness.landscape import Landscape, load_landscapes
from mechgap.faithfulness.mechanistic_gap import FILE as GAP
from mechgap.faithfulness.mechanistic_gap import Gap, load_gap
from mechgap.faithfulness.study import CAUSAL
from mechgap.report.paper.catalogue import FIRST_STEP, Study
from mechgap.training.checkpoint import columns, read_json
from mechgap.training.config import MEMBERSHIP, NUMERIC, TrainConfig
from mechgap.training.result import Table

BEST, LAST = "test_best", "test_last"  # the test score: at the best validation, and after the last step


@dataclass(frozen=True)
class Sample:
    """One number of every network of a setting that did not diverge.

    Attributes:
        setting: what sets it apart from the other settings of its ensemble; empty where there is one only.
        values: as they are in the files.
        trained: how many networks there are, with those that diverged.
    """

    setting: str
    values: np.ndarray
    trained: int

    @property
    def networks(self) -> str:
        """How many count."""
        return str(self.trained) if len(self.values) == self.trained else f"{len(self.values)} of {self.trained}"


@dataclass(frozen=True)
class Result:
    """What a study left in a folder, if it was run."""

    study: Study
    folder: Path

    @cached_property
    def configs(self) -> tuple[TrainConfig, ...]:
        """What was trained; nothing where the study was never run."""
        return read_configs(self.folder)

    @cached_property
    def metrics(self) -> Table:
        """One value per network."""
        return columns(read_json(self.folder / "metrics.json"))

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Versions, device, times and date."""
        path = self.folder / "manifest.json"
        return read_json(path) if path.exists() else {}

    @cached_property
    def gap(self) -> Gap | None:
        """What was measured of the networks."""
        return load_gap(self.folder) if (self.folder / GAP).exists() else None

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The same as a table shows it, with correlations and clusters."""
        path = self.folder / "gap.json"
        return read_json(path) if path.exists() else {}

    @cached_property
    def landscapes(self) -> dict[str, Landscape]:
        """Network -> the loss around it; how sharp it is there does not depend on the scale of the plane."""
        found = load_landscapes(self.folder) if (self.folder / LANDSCAPE).exists() else ()
        return {landscape.name: landscape for landscape in found}

    @cached_property
    def swaps(self) -> dict[str, Table]:
        """Split -> condition -> the score of every network when its attention is replaced."""
        path = self.folder / CAUSAL
        found = read_json(path)["splits"] if path.exists() else {}
        return {
            split: {condition: np.array(table["score"], float) for condition, table in conditions.items()}
            for split, conditions in found.items()
        }

    @cached_property
    def first_steps(self) -> dict[str, dict[str, float]]:
        """Form of a compiled network -> loss and gradients before training."""
        path = self.folder / FIRST_STEP
        return read_json(path) if path.exists() else {}

    @property
    def networks(self) -> int:
        """How many were trained."""
        return sum(config.seeds for config in self.configs)

    @property
    def date(self) -> str:
        """Of the run, as far as it is known."""
        return str(self.manifest.get("date", "-"))

    @cached_property
    def comparable(self) -> bool:
        """Whether all settings but the number of seeds are the paper's."""
        meant = [_settings(config) for config in self.study.configs("full")]
        return [_settings(config) for config in self.configs] == meant

    def samples(self, metric: str) -> list[Sample]:
        """One column of all settings; a metric is a column of metrics.json, or SPLIT/MEASURE of the gap."""
        split, slash, measure = metric.partition("/")
        if slash:
            gap = self.gap
            known = gap is not None and measure in gap.measures.get(split, {})
            return [Sample("", gap.values(measure, split), len(gap.sound))] if gap is not None and known else []
        sound = ~self.metrics["diverged"].astype(bool)
        found = []
        for i, name in enumerate(self._setting_names()):
            mine = self.metrics["setting"] == i
            found.append(Sample(name, self.metrics[metric][mine & sound].astype(float), int(mine.sum())))
        return found

    def _setting_names(self) -> list[str]:
        described = [config.as_json() for config in self.configs]
        differing = [k for k in described[0] if len({str(d[k]) for d in described}) > 1]
        shown = [k for k in differing if k not in ("seeds", "first_seed")]
        return [", ".join(f"{d[k]:g}" if isinstance(d[k], float) else str(d[k]) for k in shown) for d in described]


def read_configs(folder: Path) -> tuple[TrainConfig, ...]:
    """What a result was trained with; nothing where there is no result."""
    if not (folder / "metrics.json").exists() or not (folder / "config.json").exists():
        return ()
    return tuple(TrainConfig.from_settings(c) for c in read_json(folder / "config.json")["configs"])


def _settings(config: TrainConfig) -> tuple[Any, ...]:
    """All settings that decide what is trained; not how many networks, nor on which seeds."""
    names = [name for name in MEMBERSHIP if name in NUMERIC or name == "init_from"]
    return config.shape(), tuple(getattr(config, name) for name in names)
