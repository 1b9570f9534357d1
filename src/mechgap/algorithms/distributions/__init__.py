"""The benchmark's input distributions, each drawn two ways: by NumPy's RandomState and by JAX keys."""

from mechgap.algorithms.distributions.arrays import (
    Activities,
    SearchProbabilities,
    SortedKeysAndTarget,
    Tasks,
    UniformKeys,
)
from mechgap.algorithms.distributions.graphs import Communities, ErdosRenyi
from mechgap.algorithms.distributions.points import PointsInDisk, TwoSegments
from mechgap.algorithms.distributions.stream import BenchmarkStream
from mechgap.algorithms.distributions.strings import CHARACTERS, NeedleInHaystack, TwoStrings

__all__ = [
    "CHARACTERS",
    "Activities",
    "BenchmarkStream",
    "Communities",
    "ErdosRenyi",
    "NeedleInHaystack",
    "PointsInDisk",
    "SearchProbabilities",
    "SortedKeysAndTarget",
    "Tasks",
    "TwoSegments",
    "TwoStrings",
    "UniformKeys",
]
