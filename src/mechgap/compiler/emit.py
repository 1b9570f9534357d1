"""Forms -> weights: the one place where names become indices."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from mechgap.compiler.affine import Affine
from mechgap.compiler.attention import Unit
from mechgap.compiler.layout import SENDER, SENDER_EDGE
from mechgap.compiler.readout import Classified, OnEdges, Pointer, Pooled, Readout
from mechgap.compiler.readout import Linear as LinearReadout
from mechgap.networks.clrs_net import ClrsNet
from mechgap.networks.config import NetConfig
from mechgap.networks.decoders import Reads, layout
from mechgap.networks.encoders import place
from mechgap.networks.gatv2 import AttentionVectors, GATv2
from mechgap.networks.layers import LayerNorm, Linear
from mechgap.trace import Location, Spec, Stage, Variable

CONSTANT, REFERENCE, BALANCE = "constant", "reference", "balance"  # what a layer norm needs, see `LayerNormPlan`


@dataclass(frozen=True)
class LayerNormPlan:
    """How a state survives a layer norm.

    A constant channel holds Q, so large that mean and deviation hardly depend on the state; a reference channel holds
    0, and every read is a difference to it. What is left is a relative error (sum of the state) / (s Q) per step, so a
    balance channel holds `total` minus the channels that change slowly, and the sum hardly changes either.
    """

    Q: float
    total: float
    balance: Affine


@dataclass(frozen=True)
class Plan:
    """Everything that is written into weights.

    Attributes:
        channels: hidden channel -> the form whose ReLU it becomes.
        attention: the attention channels, each of some head.
        readouts: hint or output -> its decoder.
        layer_norm: what survives a layer norm, or None without one.
        hears: hidden channel -> the head whose sender it hears; a channel that hears nobody can be anywhere.
        micro_steps: how often the processor runs per step.
        full_adjacency: every node may attend every node.
        tells_apart: comparison, as it reads at me -> what its two numbers must differ by, if at all.
        heeded: the hints that are listened to; the others are not, since the state is in the hidden channels.
    """

    spec: Spec
    channels: dict[str, Affine]
    attention: tuple[Unit, ...]
    readouts: dict[str, Readout]
    layer_norm: LayerNormPlan | None = None
    hears: Mapping[str, int] = field(default_factory=dict)
    micro_steps: int = 1
    full_adjacency: bool = False
    tells_apart: Mapping[str, float] = field(default_factory=dict)
    heeded: tuple[str, ...] = ()

    @property
    def heads(self) -> int:
        """How many heads attend."""
        return 1 + max(unit.head for unit in self.attention)

    @property
    def uses_edge_info(self) -> bool:
        """Whether some channel reads the edge to the sender."""
        return any(f.place == SENDER_EDGE for form in self.channels.values() for f in form.terms)

    def inputs(self, location: Location) -> list[str]:
        """What is listened to at a location: inputs, then hints. Each has a feature channel of its own."""
        given = (*self.spec.at(Stage.INPUT), *(self.spec[name] for name in self.heeded))
        return [v.name for v in given if place(v) == location]

    @property
    def least_width(self) -> int:
        """The smallest hidden size: enough for every part, and the same for every head."""
        return self.heads * max(-(-need // self.heads) for need in self.needs(self.heads).values())

    def needs(self, heads: int) -> dict[str, int]:
        """How many channels each part of a network with so many heads must have; heads have equal blocks."""
        pointers = [len(r.terms) for r in self.readouts.values() if isinstance(r, Pointer)]
        channels = len(self.channels) + (3 if self.layer_norm is not None else 0)
        heard = max(Counter(self.hears.values()).values(), default=0)
        return {
            "hidden state": max(channels, heads * heard),
            "attention": heads * max(Counter(unit.head for unit in self.attention).values()),
            "node inputs": len(self.inputs(Location.NODE)),
            "edge inputs": len(self.inputs(Location.EDGE)),
            "pointer decoders": max(pointers, default=0),
        }


class Emitter:
    """Writes a plan into the weights of a network."""

    def __init__(self, plan: Plan, config: NetConfig, dtype: str):
        self.plan, self.config, self.dtype, self.width = plan, config, dtype, config.hidden
        self.hidden = self._places()
        self.features = {location: {name: i for i, name in enumerate(plan.inputs(location))} for location in Location}

    def _places(self) -> dict[str, int]:
        """Channel -> index. What hears a head lies in that head's block; the others fill up what is left."""
        plan, block = self.plan, self.width // self.config.heads
        places: dict[str, int] = {}
        for head in range(plan.heads):
            mine = [name for name in plan.channels if plan.hears.get(name) == head]
            places |= {name: head * block + i for i, name in enumerate(mine)}
        extra = [CONSTANT, REFERENCE, BALANCE] if plan.layer_norm is not None else []
        free = iter(sorted(set(range(self.width)) - set(places.values())))
        return {name: places[name] if name in places else next(free) for name in (*plan.channels, *extra)}

    def network(self) -> ClrsNet:
        """The network that computes the plan."""
        spec, config = self.plan.spec, self.config
        fed = spec.at(Stage.INPUT) + (spec.at(Stage.HINT) if config.encode_hints else ())
        encoders: dict[str, tuple[Linear, ...]] = {
            v.name: (self._encoder(v.name, place(v), v.classes or 1),) for v in fed
        }
        shown = [v for v in spec if v.stage == Stage.OUTPUT or (v.stage == Stage.HINT and config.decode_hints)]
        decoders = {v.name: self._decoder(v) for v in shown}
        return ClrsNet(encoders, self._processor(), decoders, spec, config)

    def _array(self, *shape: int) -> np.ndarray:
        return np.zeros(shape, self.dtype)

    def _linear(self, weight: np.ndarray, bias: np.ndarray | None) -> Linear:
        return Linear(jnp.asarray(weight), None if bias is None else jnp.asarray(bias))

    def _encoder(self, name: str, location: Location, inputs: int) -> Linear:
        weight = self._array(inputs, self.width)
        if name in self.features[location]:
            weight[0, self.features[location][name]] = 1
        return self._linear(weight, self._array(self.width))

    def _node_rows(self, weight: np.ndarray, column: int, form: Affine, hidden_at: int) -> None:
        """Write a form over one node's features [inputs | ... hidden ...] into a column."""
        for feature, coefficient in form.terms.items():
            if not feature.hidden:
                weight[self.features[Location.NODE][feature.name], column] += coefficient
                continue
            weight[hidden_at + self.hidden[feature.name], column] += coefficient
            if self.plan.layer_norm is not None:  # a layer norm shifts all channels alike: read differences
                weight[hidden_at + self.hidden[REFERENCE], column] -= coefficient

    def _layer(self, forms: dict[int, Affine], place: str, outputs: int) -> np.ndarray:
        """The weights [2 s, outputs] with which the forms read one node."""
        weight = self._array(2 * self.width, outputs)
        for column, form in forms.items():
            self._node_rows(weight, column, _part(form, place), self.width)
        return weight

    def _input_layer(self, forms: dict[int, Affine], place: str, location: Location, outputs: int) -> np.ndarray:
        """The weights [s, outputs] with which the forms read the inputs of edges or of the graph."""
        weight = self._array(self.width, outputs)
        for column, form in forms.items():
            for feature, coefficient in _part(form, place).terms.items():
                weight[self.features[location][feature.name], column] += coefficient
        return weight

    def _processor(self) -> GATv2:
        s, plan = self.width, self.plan
        heads, columns = self.config.heads, self.unit_columns()
        block = s // heads
        units = {columns[i]: unit.form for i, unit in enumerate(plan.attention)}
        channels = {self.hidden[name]: form for name, form in plan.channels.items()}
        if plan.layer_norm is not None:
            channels |= {
                self.hidden[CONSTANT]: Affine(constant=plan.layer_norm.Q),
                self.hidden[BALANCE]: plan.layer_norm.balance,
            }
        omega, skip_bias, score_bias = self._array(heads, block), self._array(s), self._array(s)
        for column, unit in zip(columns, plan.attention, strict=True):
            omega[unit.head, column % block], score_bias[column] = unit.weight, unit.form.constant
        for column, form in channels.items():
            skip_bias[column] = form.constant
        zero = self._array(s)
        return GATv2(
            value=self._linear(self._layer(channels, SENDER, s), zero),
            skip=self._linear(self._layer(channels, "me", s), skip_bias),
            sender=self._linear(self._layer(units, "other", s), score_bias),
            receiver=self._linear(self._layer(units, "me", s), zero),
            edge=self._linear(self._input_layer(units, "edge", Location.EDGE, s), zero),
            graph=self._linear(self._input_layer(units, "graph", Location.GRAPH, s), zero),
            attention=AttentionVectors(jnp.asarray(omega), jnp.asarray(self._array(heads))),
            info=self._info(channels),
            bias=None,
            norm=self._norm(),
            full_adjacency=plan.full_adjacency,
        )

    def _info(self, channels: dict[int, Affine]) -> Linear | None:
        if not self.config.edge_info:
            return None
        return self._linear(self._input_layer(channels, SENDER_EDGE, Location.EDGE, self.width), None)

    def unit_columns(self) -> list[int]:
        """The attention channel of every unit: heads have a block each."""
        block, used = self.width // self.config.heads, Counter[int]()
        columns = []
        for unit in self.plan.attention:
            columns.append(unit.head * block + used[unit.head])
            used[unit.head] += 1
        return columns

    def _norm(self) -> LayerNorm | None:
        """The norm that gives back what it takes: it undoes the deviation and the mean of (Q, total, 0, ...)."""
        if self.plan.layer_norm is None:
            return None
        Q, total, s = self.plan.layer_norm.Q, self.plan.layer_norm.total, self.width
        offset = (Q + total) / s
        scale = np.sqrt((Q * Q + total * total / 2) / s - offset**2 + 1e-5)
        return LayerNorm(jnp.full(s, scale, self.dtype), jnp.full(s, offset, self.dtype))

    def _decoder(self, variable: Variable) -> tuple[Linear, ...]:
        readout = self.plan.readouts[variable.name]
        s = self.width
        reads = {Reads.NODE: 3 * s, Reads.POOLED: 3 * s, Reads.EDGE: s, Reads.GRAPH: s, Reads.LATENT: s}
        layers = [
            [self._array(reads[r], outputs), self._array(outputs)] for r, outputs in layout(variable, self.config)
        ]
        match readout:
            case LinearReadout(form):
                self._readout(layers[0], 0, form)
            case Pooled(form):
                self._readout(layers[0], 0, _part(form, "me", form.constant))
                layers[1][0] = self._input_layer({0: form}, "graph", Location.GRAPH, 1)
            case OnEdges(form):
                self._readout(layers[0], 0, _part(form, "me", form.constant))
                self._readout(layers[1], 0, _part(form, "other"))
                layers[2][0] = self._input_layer({0: form}, "edge", Location.EDGE, 1)
            case Classified(forms):
                for i, form in enumerate(forms):
                    self._readout(layers[0], i, form)
            case Pointer(terms):
                for i, (mine, theirs, weight) in enumerate(terms):
                    self._readout(layers[0], i, mine)
                    self._readout(layers[1], i, theirs)
                    layers[3][0][i, 0] = weight
        return tuple(self._linear(w, b) for w, b in layers)

    def _readout(self, layer: list[np.ndarray], column: int, form: Affine) -> None:
        self._node_rows(layer[0], column, form, 2 * self.width)
        layer[1][column] = form.constant


def _part(form: Affine, place: str, constant: float = 0.0) -> Affine:
    return Affine({f: c for f, c in form.terms.items() if f.place == place}, constant)
