"""How much noise a compiled network survives: its weights are shaken, and its decisions are counted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from mechgap.algorithms.families import draw_family
from mechgap.programs.graph_interpreter import Interpretation
from mechgap.trace import Kind, Stage, Trace

if TYPE_CHECKING:
    from mechgap.compiler.to_gatv2 import Compiled

KINDS = ("relative", "absolute")
FAMILY = "erdos_renyi_0.3"  # near the benchmark's own density, where an edge must be drawn in both directions
SEED = 16


@dataclass(frozen=True)
class Survival:
    """The share of right pointers under one scale of noise: the mean over draws, and the worst draw.

    Attributes:
        scale: the standard deviation of the noise.
        hints: of pointer hints, frames 1 and later of every execution.
        outputs: of pointer outputs.
    """

    scale: float
    hints: float
    worst_hints: float
    outputs: float
    worst_outputs: float


@dataclass(frozen=True)
class NoiseTable:
    """What noise does to a compiled network.

    Attributes:
        pointers: pointer hints and pointer outputs compared, per scale.
        baseline: the accuracy of hints and outputs where every node points to itself.
    """

    program: str
    kind: str
    draws: int
    graphs: int
    nodes: int
    pointers: tuple[int, int]
    baseline: tuple[float, float]
    rows: tuple[Survival, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.program}, {self.kind} noise: {self.draws} draws x {self.graphs} graphs, n = {self.nodes}",
            f"{'scale':>8}  {'hints':>7} {'worst':>7}  {'outputs':>7} {'worst':>7}",
        ]
        lines += [
            f"{r.scale:>8g}  {r.hints:>7.4f} {r.worst_hints:>7.4f}  {r.outputs:>7.4f} {r.worst_outputs:>7.4f}"
            for r in self.rows
        ]
        hints, outputs = self.baseline
        return "\n".join([*lines, f"{'to self':>8}  {hints:>7.4f} {'':>7}  {outputs:>7.4f}"])


def noise_survival(
    compiled: "Compiled",
    scales: Sequence[float],
    draws: int = 6,
    graphs: int = 12,
    kind: str = "relative",
    *,
    key: PRNGKeyArray,
    nodes: int = 16,
) -> NoiseTable:
    """Count right pointers under normal noise on every weight and bias.

    Args:
        compiled: whose weights are shaken.
        scales: standard deviations.
        draws: of noise, per scale; every scale shakes along the same directions.
        graphs: random graphs, the same for every draw.
        kind: "relative": w (1 + scale x); "absolute": w + scale x, on weights that are 0, too.
        key: a JAX key.
        nodes: of every graph.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if draws < 1 or graphs < 1:
        raise ValueError(f"draws and graphs must be at least 1; got {draws} and {graphs}.")
    meant = _meaning(compiled, nodes, graphs)
    counts, rows = _pointer_counts(meant), []
    for scale in scales:
        noisy = [shaken(compiled.network, scale, kind, key=k) for k in jax.random.split(key, draws)]
        right = np.array([_accuracy(meant, replace(compiled, network=net).run_like(meant)) for net in noisy])
        rows.append(Survival(float(scale), *(float(x) for x in np.stack([right.mean(0), right.min(0)], 1).ravel())))
    return NoiseTable(
        program=compiled.program.name,
        kind=kind,
        draws=draws,
        graphs=graphs,
        nodes=nodes,
        pointers=(draws * counts[0], draws * counts[1]),
        baseline=_accuracy(meant, None),
        rows=tuple(rows),
    )


def shaken(network: Any, scale: Any, kind: str, *, key: PRNGKeyArray) -> Any:
    """The same network with noise on every weight and bias."""
    weights, rest = eqx.partition(network, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(weights)

    def shake(w: Array, k: PRNGKeyArray) -> Array:
        x = scale * jax.random.normal(k, w.shape, w.dtype)
        return w * (1 + x) if kind == "relative" else w + x

    noisy = [shake(jnp.asarray(w), k) for w, k in zip(leaves, jax.random.split(key, len(leaves)), strict=True)]
    return eqx.combine(jax.tree.unflatten(structure, noisy), rest)


def _meaning(compiled: "Compiled", nodes: int, graphs: int) -> Interpretation:
    kind = {"weighted": "A" in dict(compiled.program.weights), "directed": not compiled.program.undirected}
    drawn = draw_family(FAMILY, nodes, graphs, SEED, **kind)
    names = compiled.program.spec.names(Stage.INPUT)
    given: dict[str, Any] = {name: x for name, x in drawn.items() if name in names}
    return compiled.program.interpret(**given)


def _pointers(meant: Interpretation, stage: Stage) -> list[str]:
    return [v.name for v in meant.spec.at(stage) if v.kind == Kind.POINTER]


def _inside(meant: Interpretation) -> np.ndarray:
    """[T-1, B]: frames 1 and later that belong to an execution; frame 0 is given."""
    return np.arange(1, meant.steps)[:, None] < meant.lengths


def _pointer_counts(meant: Interpretation) -> tuple[int, int]:
    hints = len(_pointers(meant, Stage.HINT)) * int(_inside(meant).sum()) * meant.nodes
    return hints, len(_pointers(meant, Stage.OUTPUT)) * meant.batch * meant.nodes


def _accuracy(meant: Interpretation, shown: Trace | None) -> tuple[float, float]:
    """The share of right pointer hints and outputs; of everybody pointing to itself where nothing is shown."""
    itself, inside = np.arange(meant.nodes), _inside(meant)

    def right(stage: Stage, name: str) -> np.ndarray:
        return meant.values(stage)[name] == (itself if shown is None else shown.values(stage)[name])

    hints = [right(Stage.HINT, name)[1:][inside] for name in _pointers(meant, Stage.HINT)]
    outputs = [right(Stage.OUTPUT, name) for name in _pointers(meant, Stage.OUTPUT)]
    return _mean(hints), _mean(outputs)


def _mean(parts: list[np.ndarray]) -> float:
    """Of all values; NaN where there are none."""
    values = np.concatenate([part.ravel() for part in parts]) if parts else np.zeros(0)
    return float(values.mean()) if values.size else float("nan")
