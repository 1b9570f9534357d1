"""The gap of Transformers: does a trained one attend where the program's heads look, and hold the program's variables?

A program takes as many layers as it needs, a trained network as many as it has; layer l of L is compared with the layer
of the program that stands at the same share of its execution. Everything is measured at all places together, and at the
answering place alone: the last one, where both are asked for the answer. A network is watched on some texts at a time,
and what is found is added up, so that memory does not grow with the texts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.optimize import linear_sum_assignment

from mechgap.networks.transformer import Layer, Transformer, watch_layers
from mechgap.programs.alta import AltaProgram
from mechgap.programs.alta_interpreter import Stream, batched, members_of, selected

VERSION = 2  # of how the gap is measured
RIDGE = 1e-2  # of a probe, per example
TOGETHER = 64  # texts that are watched at a time
PLACES = ("everywhere", "answering")


@dataclass(frozen=True)
class Nearest:
    """The head of a trained network that is nearest to one of the program.

    Attributes:
        distance: total variation per row, 0 to 1, over rows in which the program's head looks somewhere.
        matched: the same when no head of the network may stand for two of the program.
        uniform: of attention to all positions alike.
        untrained: of the nearest head before training, since one of many is always near; None where it is not given.
        layer, index: of the nearest head.
    """

    distance: float
    matched: float
    uniform: float
    untrained: float | None
    layer: int
    index: int


@dataclass(frozen=True)
class HeadMatch(Nearest):
    """How near a trained network comes to one head of the program, over all rows.

    Attributes:
        head: of the program.
        answering: the same in the row of the answering place; None where the head looks nowhere from there.
    """

    head: str
    answering: Nearest | None


@dataclass(frozen=True)
class Reading:
    """How well a linear map reads a variable off a layer, on other texts than it is fitted on.

    Attributes:
        accuracy: of the probe.
        control: of a probe that is fitted and tested on the values of other texts, which texts have as a whole.
        majority: of always saying the most frequent value.
        untrained: of a probe of the network before training: much can be read off random layers, too. None where it
            is not given.
    """

    accuracy: float
    control: float
    majority: float
    untrained: float | None


@dataclass(frozen=True)
class VariableProbe(Reading):
    """How well a variable of the program can be read, at all places by one map.

    Attributes:
        variable: of the program.
        layer: after which layer of the network; 0 is the embedding.
        answering: the same at the answering place, by a map of its own; None where it has but one value there.
    """

    variable: str
    layer: int
    answering: Reading | None


@dataclass(frozen=True)
class Gap:
    """Every head and every variable of a program beside a network."""

    heads: list[HeadMatch]
    variables: list[VariableProbe]


@dataclass(frozen=True)
class Observed:
    """What a Transformer does on texts: streams [texts, layers + 1, L, d], attention [texts, layers, heads, L, L]."""

    streams: np.ndarray
    attention: np.ndarray


def measure_gap(
    net: Transformer, program: AltaProgram, texts: Sequence[str], layers: int, untrained: Transformer | None = None
) -> Gap:
    """Compare a network with a program.

    Args:
        net: trained, or compiled.
        program: what it is compared with.
        texts: all of one length; probes are fitted on every second one, and tested on the others.
        layers: of the network.
        untrained: the network before training, for comparison; None for no comparison.
    """
    meant = Meant.of(program, texts)
    heads, probes = _compared(net, meant, layers)
    heads_before, probes_before = (None, None) if untrained is None else _compared(untrained, meant, layers)
    return Gap(heads.matches(heads_before), probes.found(probes_before))


def _compared(net: Transformer, meant: "Meant", layers: int) -> tuple["HeadDistances", "Probes"]:
    """One network beside what is meant: probes are fitted on every second text, and tested on the others."""
    count = 0 if net.block.heads is None else net.block.heads.null.shape[-1]
    heads, probes = HeadDistances(meant, layers, count), Probes(meant, layers + 1, net.tokens.shape[1])
    for first, use in ((0, probes.fit), (1, probes.test)):
        for part in _parts(np.arange(first, len(meant.ids), 2)):
            seen = observe_transformer(net, meant.ids[part], layers)
            heads.add(part, seen.attention)
            use(part, seen.streams)
    return heads, probes


def observe_transformer(net: Transformer, ids: Int[np.ndarray, "texts length"], layers: int) -> Observed:
    """Run a network on texts and keep its streams and attention."""
    start, seen = _observe(net, jnp.asarray(ids), layers)
    streams = np.concatenate([np.asarray(start)[:, None], np.asarray(seen.stream)], axis=1)
    return Observed(streams, np.asarray(seen.attention))


@dataclass(frozen=True)
class Meant:
    """What a program does on texts of one length.

    Attributes:
        ids: [texts, L].
        streams: before the first layer, then after every layer.
    """

    program: AltaProgram
    ids: np.ndarray
    streams: tuple[Stream, ...]

    @classmethod
    def of(cls, program: AltaProgram, texts: Sequence[str]) -> "Meant":
        """Run a program."""
        given = [program.encode(text) for text in texts]
        ids, lengths = batched(program, given)
        if len(np.unique(lengths)) > 1:
            raise ValueError(f"The gap is measured on texts of one length; got {lengths.min()} to {lengths.max()}.")
        return cls(program, ids, program.interpret(given).streams)


class HeadDistances:
    """The distance of every head of a program from every head of a network, added up text by text."""

    def __init__(self, meant: Meant, layers: int, heads: int) -> None:
        self.meant = meant
        counted = (len(PLACES), len(meant.program.heads), layers)
        self.far, self.flat, self.rows = np.zeros((*counted, heads)), np.zeros(counted), np.zeros(counted)

    def add(self, part: np.ndarray, attention: Float[np.ndarray, "texts layers heads l l"]) -> None:
        """What a network did on those texts."""
        program, layers = self.meant.program, attention.shape[1]
        inside = np.ones((len(part), attention.shape[-1]), bool)
        last = np.arange(attention.shape[-1]) == attention.shape[-1] - 1
        for layer in range(layers):
            before = self.meant.streams[_at(layer, layers, len(self.meant.streams) - 1)]
            stream = {name: values[part] for name, values in before.items()}
            for i, head in enumerate(program.heads):
                chosen = selected(program, head, stream, inside)
                looks = chosen.any(-1)  # [texts, L]
                star = chosen / np.maximum(chosen.sum(-1, keepdims=True), 1)
                rows = np.stack([looks, looks & last]).astype(float)  # [places, texts, L]
                far = 0.5 * np.abs(attention[:, layer] - star[:, None]).sum(-1)  # [texts, heads, L]
                flat = 0.5 * np.abs(1 / attention.shape[-1] - star).sum(-1)
                self.far[:, i, layer] += np.einsum("ptl,thl->ph", rows, far)
                self.flat[:, i, layer] += np.einsum("ptl,tl->p", rows, flat)
                self.rows[:, i, layer] += rows.sum((1, 2))

    def matches(self, untrained: "HeadDistances | None") -> list[HeadMatch]:
        """Every head of the program beside the nearest of the network; a head that looks nowhere is near to none."""
        everywhere, answering = (self._nearest(place, untrained) for place in range(len(PLACES)))
        looks = self.rows[1].any(-1)  # [heads of the program]
        return [
            HeadMatch(**vars(everywhere[i]), head=head.name, answering=answering[i] if looks[i] else None)
            for i, head in enumerate(self.meant.program.heads)
        ]

    def _nearest(self, place: int, untrained: "HeadDistances | None") -> list[Nearest]:
        costs, heads = self._costs(place), self.far.shape[-1]
        before = None if untrained is None else untrained._costs(place).min(1)
        one_each = dict(zip(*linear_sum_assignment(costs), strict=True))
        found = []
        for i, (flat, rows) in enumerate(zip(self.flat[place], self.rows[place], strict=True)):
            best = int(np.argmin(costs[i]))
            found.append(
                Nearest(
                    distance=float(costs[i, best]),
                    matched=float(costs[i, one_each[i]]) if i in one_each else 1.0,
                    uniform=float(np.mean((flat / np.maximum(rows, 1))[rows > 0])) if rows.any() else 1.0,
                    untrained=None if before is None else float(before[i]),
                    layer=best // heads,
                    index=best % heads,
                )
            )
        return found

    def _costs(self, place: int) -> Float[np.ndarray, "heads all"]:
        """The mean distance; 1 in layers where the program's head looks nowhere."""
        rows = self.rows[place][..., None]
        costs = np.where(rows > 0, self.far[place] / np.maximum(rows, 1), 1.0)
        return costs.reshape(len(costs), -1)


class Probes:
    """Ridge regression from every layer of a network to every variable of a program, from sums over texts.

    First all texts to be fitted are given, then those to be tested on.
    """

    def __init__(self, meant: Meant, layers: int, width: int, seed: int = 0) -> None:
        self.variables = meant.program.variables
        at = [meant.streams[_at(layer, layers, len(meant.streams))] for layer in range(layers)]
        self.values = [[members_of(v, stream[v.name]) for v in self.variables] for stream in at]  # each [texts, L]
        self.other = np.random.default_rng(seed).permutation(len(meant.ids))  # whose values a text has in the control
        self.sizes = [int(max(values[i].max() for values in self.values)) + 1 for i in range(len(self.variables))]
        self.moments = np.zeros((len(PLACES), layers, width + 1, width + 1))
        self.wanted = np.zeros((len(PLACES), layers, width + 1, 2 * sum(self.sizes)))  # own values, then the control's
        self.weights: np.ndarray | None = None
        self.right = np.zeros((len(PLACES), layers, len(self.variables), 3))  # as the first fields of `Reading`
        self.tested = np.zeros(len(PLACES))

    def fit(self, part: np.ndarray, streams: Float[np.ndarray, "texts layers l d"]) -> None:
        """Texts to be fitted."""
        for layer, place, x, values in self._examples(part, streams):
            both = [np.eye(size)[v] for own in values for v, size in zip(own, self.sizes, strict=True)]
            self.moments[place, layer] += x.T @ x
            self.wanted[place, layer] += x.T @ np.concatenate(both, axis=1)

    def test(self, part: np.ndarray, streams: Float[np.ndarray, "texts layers l d"]) -> None:
        """Texts to be tested on."""
        if self.weights is None:
            sums = zip(self.moments, self.wanted, strict=True)
            self.weights = np.array([[_ridge(*of_layer) for of_layer in zip(*both, strict=True)] for both in sums])
        ends = np.cumsum([*self.sizes, *self.sizes])[:-1]
        for layer, place, x, (own, control) in self._examples(part, streams):
            said = [scores.argmax(1) for scores in np.split(x @ self.weights[place, layer], ends, axis=1)]
            counts = np.split(self.wanted[place, layer, -1], ends)  # how often every value was there to be fitted
            for i, (meant, shuffled) in enumerate(zip(own, control, strict=True)):
                guesses = (said[i] == meant, said[len(own) + i] == shuffled, meant == counts[i].argmax())
                self.right[place, layer, i] += [guess.sum() for guess in guesses]
            self.tested[place] += len(x) if layer == 0 else 0

    def found(self, untrained: "Probes | None" = None) -> list[VariableProbe]:
        """Variables that have several values after a layer, layer by layer."""
        return [
            VariableProbe(
                **vars(self._reading(0, layer, i, untrained)),
                variable=variable.name,
                layer=layer,
                answering=self._reading(1, layer, i, untrained) if np.ptp(values[i][:, -1]) else None,
            )
            for layer, values in enumerate(self.values)
            for i, variable in enumerate(self.variables)
            if np.ptp(values[i])
        ]

    def _reading(self, place: int, layer: int, variable: int, untrained: "Probes | None") -> Reading:
        accuracy, control, majority = (self.right[place, layer, variable] / max(self.tested[place], 1)).tolist()
        before = None if untrained is None else untrained._reading(place, layer, variable, None).accuracy
        return Reading(accuracy, control, majority, before)

    def _examples(
        self, part: np.ndarray, streams: np.ndarray
    ) -> Iterator[tuple[int, int, np.ndarray, list[list[np.ndarray]]]]:
        """(layer, place, vectors and a 1 [examples, d + 1], values of own texts and of others [2][variables])."""
        for layer in range(streams.shape[1]):
            for place, where in enumerate((slice(None), slice(-1, None))):
                x = streams[:, layer, where].reshape(-1, streams.shape[-1]).astype(float)
                values = [[v[texts, where].ravel() for v in self.values[layer]] for texts in (part, self.other[part])]
                yield layer, place, np.concatenate([x, np.ones((len(x), 1))], axis=1), values


def _ridge(moments: Float[np.ndarray, "d d"], wanted: Float[np.ndarray, "d y"]) -> Float[np.ndarray, "d y"]:
    """Weights from sums of x xᵀ and x yᵀ, the last of x being 1; the ridge is on x less its mean, by its deviation."""
    count, mean = moments[-1, -1], moments[-1, :-1] / moments[-1, -1]
    variance = np.maximum(np.diagonal(moments)[:-1] / count - mean**2, 0)
    change = np.diag([*1 / (np.sqrt(variance) + 1e-6), 1.0])
    change[-1, :-1] = -mean * np.diagonal(change)[:-1]
    gram = change.T @ moments @ change + RIDGE * count * np.eye(len(moments))
    return change @ np.linalg.solve(gram, change.T @ wanted)


def _parts(texts: np.ndarray) -> list[np.ndarray]:
    return [texts[start : start + TOGETHER] for start in range(0, len(texts), TOGETHER)]


def _at(layer: int, layers: int, steps: int) -> int:
    """The step of the program at the same share of its execution."""
    return round(layer * (steps - 1) / max(layers - 1, 1))


@eqx.filter_jit
def _observe(net: Transformer, ids: Array, layers: int) -> tuple[Array, Layer]:
    length = jnp.array(ids.shape[1])
    return jax.vmap(net.embed)(ids), jax.vmap(lambda i: watch_layers(net, i, length, layers=layers))(ids)
