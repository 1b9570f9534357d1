"""The numbers that make decisions exact: derived from sizes, ranges and the dtype, never tuned.

With u the unit roundoff, g the smallest gap between positions, R the range of a key and r its resolution:

- a losing logit lies at least m = ln n + ln 1/u + 4 below the winner, so that all that leaks is below u;
- a key's slope times r exceeds m plus the range of everything of lower priority;
- rounding is relative to the largest logit, so r must be at least about 16 u R.
"""

import math
from dataclasses import dataclass

import numpy as np

from mechgap.compiler.errors import PrecisionError


@dataclass(frozen=True)
class Numbers:
    """What all constants follow from.

    Attributes:
        max_nodes: n, the largest graph.
        min_gap: g, the smallest difference of two positions.
        dtype: of the weights.
        margin: m, in nats.
        layer_norm_noise: the relative error that a layer norm adds to every value, 0 without one.
    """

    max_nodes: int
    min_gap: float
    dtype: str
    margin: float
    layer_norm_noise: float = 0.0

    @property
    def roundoff(self) -> float:
        """u."""
        return float(np.finfo(self.dtype).eps) / 2

    @property
    def self_slope(self) -> float:
        """K: the logit that a node loses per unit of distance between positions."""
        return self.margin / self.min_gap

    def finest(self, span: float, factor: float = 16.0) -> float:
        """The finest resolution of a key whose values span this much."""
        return max(factor * self.roundoff, 4 * self.layer_norm_noise) * span

    def finest_with_ties(self, span: float) -> float:
        """The finest resolution at which equal keys can still be told apart by position."""
        return max(128 * self.roundoff * span / self.min_gap, self.finest(span))

    @property
    def tent_is_exact(self) -> bool:
        """Whether "is it me?" can be a tent over positions; below that gap, its rounding eats the margin."""
        return self.min_gap >= 32 * self.roundoff


def exact_margin(max_nodes: int, dtype: str) -> float:
    """m: with it, what leaks from all losers together is less than rounding."""
    return math.log(max(max_nodes, 2)) - math.log(float(np.finfo(dtype).eps) / 2) + 4.0


def check_positions(numbers: Numbers) -> None:
    """A node is known by its position, so positions must differ by more than rounding."""
    least = 8 * numbers.roundoff
    if numbers.min_gap < least:
        raise PrecisionError(
            f"Nodes are known by positions that differ by {numbers.min_gap:.3g} (n <= {numbers.max_nodes}), but "
            f"{numbers.dtype} tells apart {least:.3g}. Use dtype='float64', a larger min_gap, or fewer nodes."
        )
