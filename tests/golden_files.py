"""The files under tests/golden that tests/oracle/make_golden.py writes, and traces in their form."""

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mechgap.algorithms.inputs import DERIVED
from mechgap.trace import Stage, Trace

GOLDEN = Path(__file__).with_name("golden")


class GoldenTraces(NamedTuple):
    """One file: what it says of itself, and the arrays that it holds in full."""

    header: dict
    arrays: dict[str, np.ndarray]

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """What to trace."""
        given = {k.removeprefix("input/"): x for k, x in self.arrays.items() if k.startswith("input/")}
        return {k: x for k, x in given.items() if k not in DERIVED}


def golden_traces(name: str, n: int) -> GoldenTraces:
    """The file of an algorithm and a number of nodes."""
    arrays = dict(np.load(GOLDEN / f"trace_{name}_{n}.npz"))
    return GoldenTraces(json.loads(str(arrays.pop("header"))), arrays)


def assert_same(trace: Trace, golden: GoldenTraces) -> None:
    """The reference's trace, value for value, dtypes and order too."""
    ours, theirs = flat(trace), golden.header["digests"]
    assert list(ours) == list(theirs), "the order of the variables"
    shapes = {k: f"{x.dtype} {list(x.shape)}" for k, x in ours.items()}
    assert shapes == {k: x.rsplit(" ", 1)[0] for k, x in theirs.items()}
    different = {k: int(np.sum(ours[k] != x)) for k, x in golden.arrays.items()}
    assert different == dict.fromkeys(golden.arrays, 0)
    assert digests(trace) == theirs


def flat(trace: Trace) -> dict[str, np.ndarray]:
    """The arrays of a trace, named and ordered as in the golden files."""
    arrays = {f"{v.stage}/{v.name}": trace.values(stage)[v.name] for stage in Stage for v in trace.spec.at(stage)}
    return {**arrays, "lengths": trace.lengths}


def digests(trace: Trace) -> dict[str, str]:
    """As make_golden.py writes them."""
    return {name: digest(np.asarray(x)) for name, x in flat(trace).items()}


def digest(x: np.ndarray) -> str:
    return f"{x.dtype} {list(x.shape)} {hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}"
