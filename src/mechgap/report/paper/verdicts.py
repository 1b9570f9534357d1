"""What to think of a number beside the paper's.

reproduced            ours is within two of the printed standard deviations of the printed mean (a wide sample of ours
                      reproduces nothing by being wide); a printed correlation lies in our 95 % interval; a curve
                      rises or falls as it is said to, visibly
differs: WHY          otherwise
cannot be as printed  whatever is trained
never run             there is no result, or it lacks what is needed
too small to compare  the settings are not the paper's (the quick preset); fewer seeds are no hindrance
not comparable: WHY   two models of ours were trained or asked in different ways
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mechgap.report.paper.results import Result, Sample

REPRODUCED, DIFFERS, IMPOSSIBLE = "reproduced", "differs", "cannot be as printed"
NEVER, SMALL, SHOWN = "never run", "too small to compare", "shown"
UNLIKE = "not comparable"
NO_REASON = "no reason found yet"
DEVIATIONS = 2
PERCENT = 100.0
SPLITS = ("train", "validation", "test")
Entry = Mapping[str, Any]  # of a part of an item, as items.toml has it


@dataclass(frozen=True)
class Line:
    """One number: the paper's, ours with a 95 % interval, of how many networks, and what to think of it.

    Attributes:
        last: the same after the last step, where ours is at the best validation.
        texts: how many each network was tested on, where it is a share of texts.
    """

    label: str
    paper: str = ""
    ours: str = ""
    interval: str = ""
    networks: str = ""
    last: str = ""
    verdict: str = ""
    texts: str = ""


@dataclass(frozen=True)
class Details:
    """A table that a comparison has beside its lines, and what its numbers say."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def cropped(self) -> "Details":
        """Without the columns, but for the first, that are empty throughout."""
        shown = [i for i in range(len(self.header)) if i == 0 or any(row[i] for row in self.rows)]
        rows = tuple(tuple(row[i] for i in shown) for row in self.rows)
        return replace(self, header=tuple(self.header[i] for i in shown), rows=rows)


Found = tuple[list[Line], list[Details]]


def judge(holds: bool | np.bool_, entry: Entry, result: Result) -> str:
    """The verdict on something that holds or does not."""
    if not result.comparable:
        return SMALL
    return REPRODUCED if holds else f"{DIFFERS}: {entry.get('because', NO_REASON)}"


def judge_score(entry: Entry, sample: Sample, result: Result) -> str:
    """The verdict on a mean over networks; empty where the paper prints none."""
    if impossible(entry) or "mean" not in entry:
        return impossible(entry)
    if not len(sample.values):
        return f"{DIFFERS}: all networks diverged"
    apart = abs(PERCENT * sample.values.mean() - entry["mean"])
    return judge(apart <= DEVIATIONS * entry["std"], entry, result)


def impossible(entry: Entry) -> str:
    """The verdict on what no result can be; empty where it could."""
    return f"{IMPOSSIBLE}: {entry['impossible']}" if "impossible" in entry else ""


def spread(values: np.ndarray) -> float:
    """The standard deviation of a sample."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def printed(entry: Entry) -> str:
    """The paper's number as it prints it; empty where there is none."""
    if "mean" not in entry:
        return ""
    largest = f" ({entry['max']:.2f})" if "max" in entry else ""
    note = f"; {entry['note']}" if "note" in entry else ""
    return f"{entry['mean']:.2f} ± {entry['std']:.2f}{largest}{note}"


def summed_up(values: np.ndarray, metric: str) -> str:
    """Scores are percentages with their maximum, as the paper prints them; measures of the gap have their range."""
    if not len(values):
        return ""
    if "/" in metric:
        return f"{values.mean():.4f} ± {spread(values):.4f} ({values.min():.4f} to {values.max():.4f})"
    mean, std, largest = (PERCENT * x for x in (values.mean(), spread(values), values.max()))
    return f"{mean:.2f} ± {std:.2f} ({largest:.2f})"
