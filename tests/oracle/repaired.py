"""The reference, repaired where it cannot answer. Import `reference` first."""

import numpy as np
from clrs._src import algorithms, probing, specs

_naive_string_matcher = algorithms.naive_string_matcher


def finalized_naive_string_matcher(*strings: np.ndarray) -> tuple:
    """Where there is no match, the reference does not finalize its probes, and then cannot batch them."""
    result, probes = _naive_string_matcher(*strings)
    if isinstance(probes[specs.Stage.INPUT][specs.Location.NODE]["pos"]["data"], list):
        probing.finalize(probes)
    return result, probes


algorithms.naive_string_matcher = finalized_naive_string_matcher
