"""Shares of right answers on sequences: over how many texts, and how sure that makes them."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

from mechgap.faithfulness.correlation import LEVEL, mean_interval
from mechgap.faithfulness.sequence_presets import SequenceStudy
from mechgap.faithfulness.sequence_result import SHARPNESSES, seen_ones, with_heads
from mechgap.programs.tasks import PARITY_TESTS, parity_task, published_file, scan_task

OVER_TEXTS, OVER_NETWORKS = "over texts, of one network", "over networks"


def percent(shares: Sequence[float]) -> str:
    """The mean over networks in percent, and the standard deviation where there are several."""
    values = 100 * np.array(shares)
    return f"{values.mean():.1f}" + (f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else "")


def share_interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of so many texts."""
    found = stats.binomtest(round(share * count), count).proportion_ci(LEVEL, method="wilson")
    return float(found.low), float(found.high)


def bounds(shares: Sequence[float], count: int | None) -> tuple[float, float] | None:
    """Of several networks the interval of their mean, of one that over texts; None where these cannot be counted."""
    if len(shares) > 1:
        return mean_interval(np.array(shares))
    return None if count is None else share_interval(shares[0], count)


def interval(shares: Sequence[float], count: int | None) -> str:
    """The same in percent, and what it is an interval over."""
    found = bounds(shares, count)
    if found is None:
        return ""
    return f"{100 * found[0]:.1f} to {100 * found[1]:.1f} {OVER_NETWORKS if len(shares) > 1 else OVER_TEXTS}"


def tested_on(name: str, about: Mapping[str, Any]) -> str:
    """What to say beside a number of a slice: that longer texts were drawn otherwise before, see `PARITY_TESTS`."""
    return " (old slice)" if name.startswith("length >") and about.get("tests", 1) < PARITY_TESTS else ""


def texts_in(study: SequenceStudy, manifest: Mapping[str, Any]) -> Mapping[str, int]:
    """Slice of the test set -> how many texts it has; nothing where a published split is not here."""
    if study.split is not None:
        return _commands(study.split)
    return _bits(study.train_length, study.each, manifest.get("tests", 1))


@cache
def _commands(split: str) -> Mapping[str, int]:
    file = published_file(split)
    if file is not None and not file.exists():
        return {}
    return {"test": len(next(iter(scan_task(split).tests.values())))}


@cache
def _bits(longest: int, each: int, tests: int) -> Mapping[str, int]:
    slices = parity_task(longest, 2 * longest, each=each).tests
    sizes = {name: len(texts) for name, texts in slices.items()}
    sizes |= {with_heads(sharpness, longest): sizes[f"length <= {longest}"] for sharpness in SHARPNESSES}
    longer = f"length > {longest}"
    if tests < PARITY_TESTS:  # they were what is left of a test set of `each` texts for every number of ones
        return sizes | {longer: each * (2 * longest + 1) - sizes[f"length <= {longest}"]}
    return sizes | {seen_ones(longest): sum(text.count("1") <= longest for text in slices[longer])}
