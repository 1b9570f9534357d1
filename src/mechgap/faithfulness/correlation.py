"""Whether faithful networks score better: correlations over an ensemble, with p-values and intervals (Table 1)."""

from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Correlation:
    """How two columns go together; NaN where one is constant or there are fewer than three networks."""

    n: int
    pearson: float
    pearson_p: float
    pearson_interval: tuple[float, float]
    spearman: float
    spearman_p: float
    spearman_interval: tuple[float, float]


def correlate(x: np.ndarray, y: np.ndarray, seed: int = 0) -> Correlation:
    """Pearson's r and Spearman's ρ, each with its two-sided p-value and a 95 % percentile bootstrap interval."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    nothing = (float("nan"), float("nan"))
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(len(x), *nothing, nothing, *nothing, nothing)
    pearson, spearman = stats.pearsonr(x, y), stats.spearmanr(x, y)
    return Correlation(
        n=len(x),
        pearson=float(pearson.statistic),
        pearson_p=float(pearson.pvalue),
        pearson_interval=_interval(x, y, seed),
        spearman=float(spearman.statistic),
        spearman_p=float(spearman.pvalue),
        spearman_interval=_interval(x, y, seed, ranked=True),
    )


def mean_interval(values: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """A 95 % percentile bootstrap interval of a mean."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if not len(values):
        return float("nan"), float("nan")
    drawn = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    return _percentiles(values[drawn].mean(1))


def implied_count(r: float, p: float) -> float:
    """The number of networks for which a correlation r has the two-sided p-value p (what a printed pair gives away)."""
    return float(optimize.brentq(lambda n: _p_value(r, n) - p, 3.001, 1e6))


def _p_value(r: float, n: float) -> float:
    return float(2 * stats.t.sf(abs(r) * np.sqrt((n - 2) / (1 - r * r)), n - 2))


def _interval(x: np.ndarray, y: np.ndarray, seed: int, ranked: bool = False) -> tuple[float, float]:
    drawn = np.random.default_rng(seed).integers(0, len(x), (RESAMPLES, len(x)))
    a, b = x[drawn], y[drawn]
    if ranked:
        a, b = stats.rankdata(a, axis=1), stats.rankdata(b, axis=1)
    a, b = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    scale = np.sqrt((a * a).sum(1) * (b * b).sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return _percentiles((a * b).sum(1) / scale)


def _percentiles(values: np.ndarray) -> tuple[float, float]:
    values = values[np.isfinite(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
