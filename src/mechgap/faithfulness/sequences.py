"""The gap of Transformers: does a trained one attend where the program's heads look, and hold the program's variables?

A program takes as many layers as it needs, a trained network as many as it has; layer l of L is compared with the layer
of the program that stands at the same share of its execution.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import linear_sum_assignment

from mechgap.networks.transformer import Layer, Transformer, watch_layers
from mechgap.programs.alta import AltaProgram
from mechgap.programs.alta_interpreter import AltaTrace, batched, members_of, selected

RIDGE = 1e-2  # of a probe, per example
FOLDS = 2  # a probe is fitted on every other text


@dataclass(frozen=True)
class Observed:
    """What a Transformer does on texts: streams [texts, layers + 1, L, d], attention [texts, layers, heads, L, L]."""

    streams: np.ndarray
    attention: np.ndarray


@dataclass(frozen=True)
class HeadMatch:
    """How near a trained network comes to one head of the program.

    Attributes:
        head: of the program.
        distance: total variation per row, 0 to 1, of the head of the network that is nearest, over rows in which the
            program's head looks somewhere.
        matched: the same when no head of the network may stand for two of the program.
        uniform: of attention to all positions alike.
        layer, index: of the nearest head.
    """

    head: str
    distance: float
    matched: float
    uniform: float
    layer: int
    index: int


@dataclass(frozen=True)
class VariableProbe:
    """How well a variable of the program can be read off a layer by a linear map, on other texts than it is fitted on.

    Attributes:
        variable: of the program.
        layer: after which layer of the network; 0 is the embedding.
        accuracy: of the probe.
        control: of a probe that is fitted and tested on shuffled values.
        majority: of always saying the most frequent value.
    """

    variable: str
    layer: int
    accuracy: float
    control: float
    majority: float


def observe_transformer(net: Transformer, program: AltaProgram, texts: Sequence[str], layers: int) -> Observed:
    """Run a trained network on texts and keep its streams and attention."""
    ids, lengths = batched(program, [program.encode(text) for text in texts])
    start, seen = _observe(net, jnp.asarray(ids), jnp.asarray(lengths), layers)
    streams = np.concatenate([np.asarray(start)[:, None], np.asarray(seen.stream)], axis=1)
    return Observed(streams, np.asarray(seen.attention))


def match_heads(program: AltaProgram, texts: Sequence[str], seen: Observed) -> list[HeadMatch]:
    """Every head of the program beside the nearest head of the network."""
    trace, inside = _meant(program, texts)
    layers, heads = seen.attention.shape[1:3]
    costs, flat = np.ones((len(program.heads), layers * heads)), np.ones((len(program.heads), layers))
    for i, head in enumerate(program.heads):
        for layer in range(layers):
            stream = trace.streams[_at(layer, layers, len(trace.attended))]
            chosen = selected(program, head, stream, inside)
            rows = inside & chosen.any(-1)
            if not rows.any():
                flat[i, layer] = np.nan  # it looks nowhere: no head of this layer is near it, or far
                continue
            star = chosen / np.maximum(chosen.sum(-1, keepdims=True), 1)
            own = seen.attention[:, layer]
            far = 0.5 * np.abs(own - star[:, None]).sum(-1)  # [texts, heads, L]
            costs[i, layer * heads : (layer + 1) * heads] = _mean(far, rows[:, None])
            alike = inside[:, None, :] / inside.sum(-1)[:, None, None]
            flat[i, layer] = _mean(0.5 * np.abs(alike - star).sum(-1)[:, None], rows[:, None])[0]
    one_each = dict(zip(*linear_sum_assignment(costs), strict=True))
    found = []
    for i, head in enumerate(program.heads):
        best = int(np.argmin(costs[i]))
        matched = float(costs[i, one_each[i]]) if i in one_each else 1.0
        uniform = float(np.nanmean(flat[i])) if np.isfinite(flat[i]).any() else 1.0
        found.append(HeadMatch(head.name, float(costs[i, best]), matched, uniform, best // heads, best % heads))
    return found


def probe_variables(program: AltaProgram, texts: Sequence[str], seen: Observed, seed: int = 0) -> list[VariableProbe]:
    """Read every variable of the program off every layer of the network, by ridge regression to its values."""
    trace, inside = _meant(program, texts)
    layers, rng, found = seen.streams.shape[1], np.random.default_rng(seed), []
    fitted = np.broadcast_to(np.arange(len(texts))[:, None] % FOLDS == 0, inside.shape)[inside]
    for layer in range(layers):
        stream = trace.streams[_at(layer, layers, len(trace.streams))]
        x = seen.streams[:, layer][inside]
        x = (x - x[fitted].mean(0)) / (x[fitted].std(0) + 1e-6)
        x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
        for variable in program.variables:
            y = members_of(variable, stream[variable.name])[inside]
            if len(np.unique(y)) < 2:
                continue  # nothing to read
            majority = float(np.mean(y[~fitted] == np.bincount(y[fitted]).argmax()))
            shuffled = rng.permutation(y)
            own, control = (_probe(x[fitted], z[fitted], x[~fitted], z[~fitted]) for z in (y, shuffled))
            found.append(VariableProbe(variable.name, layer, own, control, majority))
    return found


def _probe(x: np.ndarray, y: np.ndarray, new: np.ndarray, wanted: np.ndarray) -> float:
    classes = int(max(y.max(), wanted.max())) + 1
    gram = x.T @ x + RIDGE * len(x) * np.eye(x.shape[1])
    weights = np.linalg.solve(gram, x.T @ np.eye(classes)[y])
    return float(np.mean(np.argmax(new @ weights, axis=1) == wanted))


def _meant(program: AltaProgram, texts: Sequence[str]) -> tuple[AltaTrace, np.ndarray]:
    trace = program.interpret([program.encode(text) for text in texts])
    return trace, np.arange(trace.streams[0][program.output].shape[1]) < trace.lengths[:, None]


def _at(layer: int, layers: int, steps: int) -> int:
    """The step of the program at the same share of its execution."""
    return round(layer * (steps - 1) / max(layers - 1, 1))


def _mean(values: np.ndarray, where: np.ndarray) -> Float[np.ndarray, " heads"]:
    where = np.broadcast_to(where, values.shape)
    return np.where(where, values, 0).sum((0, 2)) / where.sum((0, 2))


@eqx.filter_jit
def _observe(net: Transformer, ids: Array, lengths: Array, layers: int) -> tuple[Array, Layer]:
    return jax.vmap(net.embed)(ids), jax.vmap(lambda i, n: watch_layers(net, i, n, layers=layers))(ids, lengths)
