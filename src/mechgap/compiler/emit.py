"""Forms -> weights: the one place where names become indices."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from mechgap.compiler.affine import Affine
from mechgap.compiler.attention import Unit
from mechgap.compiler.errors import ChannelOverflow
from mechgap.compiler.layout import SENDER, SENDER_EDGE
from mechgap.compiler.readout import Linear as LinearReadout
from mechgap.compiler.readout import Pointer
from mechgap.networks.clrs_net import ClrsNet
from mechgap.networks.config import NetConfig
from mechgap.networks.decoders import Reads, layout
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
        attention: the attention channels.
        readouts: hint or output -> its decoder.
        uses_edge_info: some channel reads the sender's edge.
        layer_norm: what survives a layer norm, or None without one.
    """

    spec: Spec
    channels: dict[str, Affine]
    attention: tuple[Unit, ...]
    readouts: dict[str, LinearReadout | Pointer]
    layer_norm: LayerNormPlan | None = None

    @property
    def uses_edge_info(self) -> bool:
        """Whether some channel reads the edge to the sender."""
        return any(f.place == SENDER_EDGE for form in self.channels.values() for f in form.terms)

    def inputs(self, location: Location) -> list[str]:
        """The inputs at a location, each of which has a feature channel of its own."""
        return [v.name for v in self.spec.at(Stage.INPUT) if v.location == location]

    def needs(self) -> dict[str, int]:
        """How many channels each part of the network must have."""
        pointers = [len(r.terms) for r in self.readouts.values() if isinstance(r, Pointer)]
        return {
            "hidden state": len(self.channels) + (3 if self.layer_norm is not None else 0),
            "attention": len(self.attention),
            "node inputs": len(self.inputs(Location.NODE)),
            "edge inputs": len(self.inputs(Location.EDGE)),
            "pointer decoders": max(pointers, default=0),
        }


class Emitter:
    """Writes a plan into the weights of a network."""

    def __init__(self, plan: Plan, config: NetConfig, dtype: str):
        self.plan, self.config, self.dtype, self.width = plan, config, dtype, config.hidden
        needs = plan.needs()
        if max(needs.values()) > self.width:
            listed = ", ".join(f"{k} {v}" for k, v in needs.items())
            raise ChannelOverflow(
                f"hidden = {self.width} is too small: the program needs {max(needs.values())} channels ({listed}). "
                f"Compile with hidden={max(needs.values())} or more."
            )
        extra = [CONSTANT, REFERENCE, BALANCE] if plan.layer_norm is not None else []
        self.hidden = {name: i for i, name in enumerate([*plan.channels, *extra])}
        self.features = {
            location: {name: i for i, name in enumerate(plan.inputs(location))}
            for location in (Location.NODE, Location.EDGE)
        }

    def network(self) -> ClrsNet:
        """The network that computes the plan."""
        spec, config = self.plan.spec, self.config
        fed = spec.at(Stage.INPUT) + (spec.at(Stage.HINT) if config.encode_hints else ())
        encoders: dict[str, tuple[Linear, ...]] = {
            v.name: (self._encoder(v.name, v.location, v.stage, v.classes or 1),) for v in fed
        }
        shown = [v for v in spec if v.stage == Stage.OUTPUT or (v.stage == Stage.HINT and config.decode_hints)]
        decoders = {v.name: self._decoder(v) for v in shown}
        return ClrsNet(encoders, self._processor(), decoders, spec, config)

    def _array(self, *shape: int) -> np.ndarray:
        return np.zeros(shape, self.dtype)

    def _linear(self, weight: np.ndarray, bias: np.ndarray | None) -> Linear:
        return Linear(jnp.asarray(weight), None if bias is None else jnp.asarray(bias))

    def _encoder(self, name: str, location: Location, stage: Stage, inputs: int) -> Linear:
        weight = self._array(inputs, self.width)
        if stage == Stage.INPUT:  # hints are not listened to: the state is in the hidden channels
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

    def _edge_layer(self, forms: dict[int, Affine], place: str, outputs: int) -> np.ndarray:
        weight = self._array(self.width, outputs)
        for column, form in forms.items():
            for feature, coefficient in _part(form, place).terms.items():
                weight[self.features[Location.EDGE][feature.name], column] += coefficient
        return weight

    def _processor(self) -> GATv2:
        s, plan = self.width, self.plan
        units = {i: unit.form for i, unit in enumerate(plan.attention)}
        channels = {self.hidden[name]: form for name, form in plan.channels.items()}
        if plan.layer_norm is not None:
            channels |= {
                self.hidden[CONSTANT]: Affine(constant=plan.layer_norm.Q),
                self.hidden[BALANCE]: plan.layer_norm.balance,
            }
        omega, skip_bias, score_bias = self._array(1, s), self._array(s), self._array(s)
        for i, unit in enumerate(plan.attention):
            omega[0, i], score_bias[i] = unit.weight, unit.form.constant
        for column, form in channels.items():
            skip_bias[column] = form.constant
        zero = self._array(s)
        return GATv2(
            value=self._linear(self._layer(channels, SENDER, s), zero),
            skip=self._linear(self._layer(channels, "me", s), skip_bias),
            sender=self._linear(self._layer(units, "other", s), score_bias),
            receiver=self._linear(self._layer(units, "me", s), zero),
            edge=self._linear(self._edge_layer(units, "edge", s), zero),
            graph=self._linear(self._array(s, s), zero),
            attention=AttentionVectors(jnp.asarray(omega), jnp.asarray(self._array(1))),
            info=self._linear(self._edge_layer(channels, SENDER_EDGE, s), None) if self.config.edge_info else None,
            bias=None,
            norm=self._norm(),
            full_adjacency=False,
        )

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
        reads = {Reads.NODE: 3 * self.width, Reads.EDGE: self.width, Reads.LATENT: self.width}
        layers = [
            [self._array(reads[r], outputs), self._array(outputs)] for r, outputs in layout(variable, self.config)
        ]
        if isinstance(readout, LinearReadout):
            self._node_rows(layers[0][0], 0, readout.form, 2 * self.width)
            layers[0][1][0] = readout.form.constant
        else:
            for i, (mine, theirs, weight) in enumerate(readout.terms):
                for layer, form in ((layers[0], mine), (layers[1], theirs)):
                    self._node_rows(layer[0], i, form, 2 * self.width)
                    layer[1][i] = form.constant
                layers[3][0][i, 0] = weight
        return tuple(self._linear(w, b) for w, b in layers)


def _part(form: Affine, place: str) -> Affine:
    return Affine({f: c for f, c in form.terms.items() if f.place == place})
