"""The benchmark's own data, rebuilt without a download: the same seed gives the same samples, bit for bit."""

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mechgap.algorithms.definition import Algorithm
from mechgap.algorithms.distributions import BenchmarkStream
from mechgap.algorithms.inputs import completed, nearest
from mechgap.algorithms.processing import as_permutations, pred_as_input, random_positions
from mechgap.trace import Trace


class Split(NamedTuple):
    """How the benchmark draws one of its splits."""

    seed: int
    nodes: int
    samples: int


SPLITS = {"train": Split(1, 16, 1000), "val": Split(2, 16, 32), "test": Split(3, 64, 32)}
WARM_UP = 1000  # an endless sampler of the benchmark first draws this many samples, to learn how long traces get


def split(algorithm: Algorithm, name: str, *, pred_as_input: bool = False, permutations: bool = False) -> Trace:
    """One of the benchmark's splits, whole and in order."""
    if name not in SPLITS:
        raise ValueError(f"No split {name!r}. {nearest(name, SPLITS)}")
    seed, nodes, samples = SPLITS[name]
    samples *= 1 if name == "train" else algorithm.samples_multiplier
    return BenchmarkSampler(
        algorithm, seed, nodes, samples, pred_as_input=pred_as_input, permutations=permutations
    ).next()


class BenchmarkSampler:
    """Draws what the benchmark's sampler of the same seed draws.

    Args:
        algorithm: whose inputs to draw and trace.
        seed: of NumPy's RandomState.
        n: number of nodes.
        num_samples: how many samples to prepare and then pick batches from with replacement; -1 draws new ones forever.
        p: edge probabilities (`definition.TRAIN_P` in the reference training script); by default the benchmark's.
        random_pos: the run's own RandomState, to replace every batch's positions by random ones; None keeps i/n.
        pred_as_input: make the constant hint `pred_h` an input, where the reference training script does.
        permutations: give orders as permutation matrices.
        track_max_steps: with -1 samples, first draw 1000 samples to learn T, and never let T shrink.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        seed: int,
        n: int,
        num_samples: int,
        *,
        p: float | Sequence[float] | None = None,
        random_pos: Any = None,
        pred_as_input: bool = False,
        permutations: bool = False,
        track_max_steps: bool = True,
    ) -> None:
        n, num_samples = operator.index(n), operator.index(num_samples)
        if n < 1:
            raise ValueError(f"n must be at least 1; got {n}.")
        if num_samples < 1 and num_samples != -1:
            raise ValueError(f"num_samples must be at least 1, or -1 for an endless sampler; got {num_samples}.")
        if random_pos is not None and not isinstance(random_pos, np.random.RandomState):
            raise ValueError(
                f"random_pos must be the run's np.random.RandomState (all samplers of a run share it) or None; "
                f"got {random_pos!r}. Write random_pos=np.random.RandomState(seed)."
            )
        self.algorithm, self.n, self.num_samples = algorithm, n, num_samples
        self.p = algorithm.probabilities(p)
        self._stream = BenchmarkStream(seed)
        self._random_pos, self._pred_as_input, self._permutations = random_pos, pred_as_input, permutations
        self._track_max_steps = track_max_steps and num_samples < 0
        self._steps = self._draw(WARM_UP).steps if self._track_max_steps else 0
        self._prepared = self._draw(num_samples) if num_samples > 0 else None

    def next(self, batch: int | None = None) -> Trace:
        """A batch; without a size, all prepared samples in order."""
        return self._processed(self._next(batch))

    def _next(self, batch: int | None) -> Trace:
        if self._prepared is None:
            if batch is None:
                raise ValueError("An endless sampler (num_samples = -1) needs a batch size: next(32).")
            trace = self._draw(batch)
            self._steps = max(self._steps, trace.steps) if self._track_max_steps else trace.steps
            return trace.pad(self._steps) if self._steps > trace.steps else trace
        if batch is None:
            return self._prepared
        if batch > self.num_samples:
            raise ValueError(f"A batch of {batch} is more than the {self.num_samples} samples there are.")
        return self._prepared.take(self._stream.rng.choice(self.num_samples, (batch,), replace=True))

    def _draw(self, count: int) -> Trace:
        inputs = self.algorithm.distribution.draw(self._stream, self.n, count, self.p)
        return self.algorithm.trace_checked(completed(self.algorithm.spec, inputs, np))

    def _processed(self, trace: Trace) -> Trace:
        """The order of the reference training script: positions, then pred, then permutations."""
        if self._random_pos is not None:
            trace = random_positions(trace, self._random_pos)
        if self._pred_as_input and self.algorithm.order_is_constant:
            trace = pred_as_input(trace)
        return as_permutations(trace) if self._permutations else trace
