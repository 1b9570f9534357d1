"""Shares of right answers on sequences: over how many texts, and how sure that makes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from mechgap.faithfulness.correlation import LEVEL, mean_interval
from mechgap.programs.tasks import PARITY_TESTS

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
