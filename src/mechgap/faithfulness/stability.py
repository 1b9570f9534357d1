"""Do compiled networks stay when they are trained on? And can the same function be written into flatter weights?

A compiled network is written in few channels with large weights. Two changes leave what it computes as it is: copies of
its hidden channels, each read with a share of the weight (`redundant`), and an orthogonal change of basis of the
encoded features, which lie between two linear maps (`rotated`; the hidden state passes through a ReLU, whose axes are
not free). A smaller margin of the softmax makes attention soft, and its gradient anything but zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from mechgap.compiler.to_gatv2 import Compiled, compile_graph_program
from mechgap.faithfulness.landscape import loss_of
from mechgap.networks import ClrsNet, Linear
from mechgap.networks.decoders import Reads, layout
from mechgap.networks.encoders import place
from mechgap.programs.graph import GraphProgram
from mechgap.trace import Location
from mechgap.training.data import Batch

MARGINS = (4.6, 8.0, 15.0, 30.0)
NODE_MAPS = ("value", "skip", "sender", "receiver")


@dataclass(frozen=True)
class Variant:
    """A compiled network in one of the forms that are trained on."""

    margin: float
    redundant: bool
    rotated: bool
    network: ClrsNet

    @property
    def name(self) -> str:
        """E.g. "margin 8, redundant, rotated"."""
        return ", ".join([f"margin {self.margin:g}", *(w for w in ("redundant", "rotated") if getattr(self, w))])


@dataclass(frozen=True)
class FirstStep:
    """Where training starts: the loss, the norm of its gradient, and of the part that flows through attention."""

    loss: float
    gradient_norm: float
    attention_gradient_norm: float


def variants(
    program: GraphProgram, margins: Sequence[float] = MARGINS, *, hidden: int = 128, key: PRNGKeyArray, **options: Any
) -> tuple[Variant, ...]:
    """A program's network at every margin, with and without redundant channels and rotated features."""
    found = []
    for margin in margins:
        compiled: Compiled = compile_graph_program(program, hidden=hidden, margin=margin, certify="none", **options)
        for copies, turned in product((False, True), repeat=2):
            network = redundant(compiled.network) if copies else compiled.network
            network = rotated(network, key=key) if turned else network
            found.append(Variant(margin, copies, turned, network))
    return tuple(found)


def first_step(network: ClrsNet, batch: Batch) -> FirstStep:
    """The loss and its gradient before any training."""
    loss, gradient = _loss_and_gradient(network, batch)
    processor = gradient.gatv2
    through = (processor.sender, processor.receiver, processor.edge, processor.attention)
    return FirstStep(float(loss), _norm(gradient), _norm(through))


def redundant(network: ClrsNet) -> ClrsNet:
    """The same function with as many copies of every hidden channel in use as there is room for.

    What writes a channel writes all its copies; what reads it reads their mean.
    """
    if network.config.heads != 1:
        raise ValueError(f"Copies of channels are for networks of one head; this has {network.config.heads}.")
    writers = [network.gatv2.value, network.gatv2.skip, network.gatv2.info]
    used = np.flatnonzero(sum(np.abs(np.asarray(w.weight)).sum(0) for w in writers if w is not None) > 0)
    biased = np.flatnonzero(
        sum(np.abs(np.asarray(w.bias)) for w in writers if w is not None and w.bias is not None) > 0
    )
    used = np.union1d(used, biased)
    width = network.config.hidden
    copies = width // max(len(used), 1)
    source = np.tile(used, copies)  # channel c of the new network is a copy of source[c]
    copy = np.zeros((width, width), np.float32)  # old channels -> new ones
    copy[source, np.arange(len(source))] = 1
    read = copy.T / max(copies, 1)  # new channels -> the old ones' means
    return _rewired(network, jnp.asarray(copy), jnp.asarray(read))


def rotated(network: ClrsNet, *, key: PRNGKeyArray) -> ClrsNet:
    """The same function with the encoded features of nodes, edges and the graph in random orthogonal bases."""
    width, spec, config = network.config.hidden, network.spec, network.config
    places = (Location.NODE, Location.EDGE, Location.GRAPH)
    turns = {w: _orthogonal(width, k) for w, k in zip(places, jax.random.split(key, 3), strict=True)}
    encoders = {
        name: tuple(
            Linear(_exactly(e.weight, turns[place(spec[name])]), _times(e.bias, turns[place(spec[name])]))
            for e in layers
        )
        for name, layers in network.encoders.items()
    }
    back = {w: turn.T for w, turn in turns.items()}
    processor = network.gatv2
    maps: dict[str, Any] = {
        name: _on_rows(getattr(processor, name), slice(0, width), back[Location.NODE]) for name in NODE_MAPS
    }
    maps["edge"] = _on_rows(processor.edge, slice(0, width), back[Location.EDGE])
    maps["graph"] = _on_rows(processor.graph, slice(0, width), back[Location.GRAPH])
    if processor.info is not None:
        maps["info"] = _on_rows(processor.info, slice(0, width), back[Location.EDGE])
    reads = {Reads.NODE: Location.NODE, Reads.EDGE: Location.EDGE, Reads.GRAPH: Location.GRAPH}
    decoders = {}
    for name, layers in network.decoders.items():
        plan = layout(spec[name], config)
        if any(what == Reads.POOLED for what, _ in plan):
            raise ValueError(f"{name!r} is read from a maximum over features, which no other basis leaves as it is.")
        decoders[name] = tuple(
            _on_rows(layer, slice(0, width), back[reads[what]]) if what in reads else layer
            for (what, _), layer in zip(plan, layers, strict=True)
        )
    return replace(network, encoders=encoders, processor=replace(processor, **maps), decoders=decoders)


def _rewired(network: ClrsNet, copy: Array, read: Array) -> ClrsNet:
    """The network whose hidden state is (old state) @ copy; readers see (new state) @ read."""
    width, spec, config = network.config.hidden, network.spec, network.config
    processor = network.gatv2
    maps: dict[str, Any] = {
        name: _on_rows(getattr(processor, name), slice(width, 2 * width), read) for name in NODE_MAPS
    }
    for name in ("value", "skip"):
        maps[name] = Linear(_exactly(maps[name].weight, copy), _times(maps[name].bias, copy))
    if processor.info is not None:
        maps["info"] = Linear(_exactly(processor.info.weight, copy), _times(processor.info.bias, copy))
    decoders = {}
    for name, layers in network.decoders.items():
        changed = []
        for (what, _), layer in zip(layout(spec[name], config), layers, strict=True):
            if what in (Reads.NODE, Reads.POOLED):
                layer = _on_rows(_on_rows(layer, slice(width, 2 * width), read), slice(2 * width, 3 * width), read)
            changed.append(layer)
        decoders[name] = tuple(changed)
    return replace(network, processor=replace(processor, **maps), decoders=decoders)


def _on_rows(layer: Linear, rows: slice, change: Array) -> Linear:
    return Linear(layer.weight.at[rows].set(_exactly(change, layer.weight[rows])), layer.bias)


def _times(bias: Array | None, change: Array) -> Array | None:
    return None if bias is None else _exactly(bias, change)


def _exactly(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision="highest")


def _orthogonal(width: int, key: PRNGKeyArray) -> Float[Array, "width width"]:
    q, r = jnp.linalg.qr(jax.random.normal(key, (width, width)))
    return q * jnp.sign(jnp.diagonal(r))


@jax.jit
def _loss_and_gradient(network: ClrsNet, batch: Batch) -> tuple[Array, ClrsNet]:
    return jax.value_and_grad(loss_of)(network, batch)


def _norm(tree: Any) -> float:
    leaves = [x for x in jax.tree.leaves(tree) if eqx.is_inexact_array(x)]
    return float(jnp.sqrt(sum(jnp.sum(x * x) for x in leaves)))
