"""What training returns: the networks, and how they did."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mechgap.algorithms import algorithm
from mechgap.networks import ClrsNet, run
from mechgap.trace import Stage, Trace, to_numpy
from mechgap.training.config import TrainConfig
from mechgap.training.data import as_seen

Table = dict[str, np.ndarray]


@dataclass(frozen=True)
class Ensemble:
    """Trained networks.

    Attributes:
        configs: what was trained; usually one.
        networks: each member as it was at its best validation, every array with a leading member axis.
        last: each member after the last step, likewise.
        metrics: one value per member: seed, setting (index into `configs`), best_step, validation (the best),
            test_best and test_last (scores of `networks` and `last`), loss (mean since the last validation), diverged.
        history: step [evaluations], and loss, validation [evaluations, members].
        manifest: versions, device, sizes of traces, times.
    """

    configs: tuple[TrainConfig, ...]
    networks: ClrsNet
    last: ClrsNet
    metrics: Table
    history: Table
    manifest: dict[str, Any]

    def __len__(self) -> int:
        return len(self.metrics["seed"])

    @property
    def algorithm(self) -> str:
        """What the networks learned."""
        return self.configs[0].algorithm

    def member(self, index: int) -> ClrsNet:
        """One network, without the member axis."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"There are {len(self)} members, 0 to {len(self) - 1}; got {index}.")
        return jax.tree.map(lambda x: x[index], self.networks)

    def settings(self) -> tuple["Ensemble", ...]:
        """The members of each config apart."""
        parts = []
        for i, config in enumerate(self.configs):
            rows = np.flatnonzero(self.metrics["setting"] == i)
            networks, last = (jax.tree.map(lambda x, rows=rows: x[rows], net) for net in (self.networks, self.last))
            metrics = {name: x[rows] for name, x in self.metrics.items()} | {"setting": np.zeros(len(rows), np.int64)}
            history = {name: x if x.ndim == 1 else x[:, rows] for name, x in self.history.items()}
            changes = {"networks": networks, "last": last, "metrics": metrics, "history": history}
            parts.append(replace(self, configs=(config,), **changes))
        return tuple(parts)

    def summary(self, metric: str = "test_best") -> dict[str, float]:
        """n, mean, std (of the sample), min, median and max over the members that did not diverge."""
        values = self.metrics[metric][~self.metrics["diverged"]].astype(float)
        if not values.size:
            return {"n": 0, **dict.fromkeys(("mean", "std", "min", "median", "max"), float("nan"))}
        return {
            "n": int(values.size),
            "mean": float(values.mean()),
            "std": float(values.std(ddof=1)) if values.size > 1 else 0.0,
            "min": float(values.min()),
            "median": float(np.median(values)),
            "max": float(values.max()),
        }

    def run(self, *, steps: int | None = None, **inputs: Any) -> tuple[Trace, ...]:
        """Execute every network on a batch; one trace per member, with hints decoded and attention.

        Args:
            steps: the number of frames of every execution; by default each sample's own trace length, which the
                algorithm finds (an oracle, as in the benchmark).
            inputs: batched, named and encoded as in the algorithm's spec; `pos` and `adj` may be left out.
        """
        truth = as_seen(algorithm(self.algorithm).trace(**inputs), self.configs[0])
        lengths = np.asarray(truth.lengths, np.int32) if steps is None else np.full(truth.batch, steps, np.int32)
        given = {name: np.asarray(x, np.float32) for name, x in truth.inputs.items()}
        first = {name: np.asarray(truth.hints[name][0], np.float32) for name in truth.spec.names(Stage.HINT)}
        return tuple(to_numpy(run(self.member(i), given, first, jnp.asarray(lengths))) for i in range(len(self)))

    def __repr__(self) -> str:
        scores = self.summary()
        return (
            f"<Ensemble of {len(self)} {self.algorithm} networks, test {scores['mean']:.4f} ± {scores['std']:.4f} "
            f"(max {scores['max']:.4f}), {len(self) - scores['n']} diverged>"
        )
