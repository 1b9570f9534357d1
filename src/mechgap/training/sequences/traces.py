"""What a sub-layer of an ALTA program is given and makes of it, as vectors of the residual stream (ALTA C.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from mechgap.networks.transformer import Transformer, room_for, watch_layers
from mechgap.programs.alta import AltaProgram, SetOf
from mechgap.programs.alta_interpreter import batched
from mechgap.programs.alta_stream import StreamLayout
from mechgap.programs.minimal import different_rows

TOGETHER = 64
MLP = "mlp"
SUBLAYERS = {"attention": (0, 1), MLP: (1, 2)}  # from which stage of a layer to which, see `_layers`
DIGITS = 6  # what float32 leaves of a mean


@dataclass(frozen=True)
class Traces:
    """Different pairs of vectors, before and after a sub-layer, and how often each occurs.

    What a head leaves undefined is the zero vector, as it is when the network runs.
    """

    before: Float[np.ndarray, "pairs d"]
    after: Float[np.ndarray, "pairs d"]
    counts: np.ndarray


def trace_vectors(network: Transformer, program: AltaProgram, texts: Sequence[str], sublayer: str = MLP) -> Traces:
    """Run a program's compiled network on texts, and collect what a sub-layer is given and what it makes of it.

    Args:
        network: compiled from the program.
        program: says after how many layers an execution has ended.
        texts: all positions of them are collected, layer by layer.
        sublayer: "mlp", or "attention": what a position holds before and after it looks around. The second is no
            function of the first, since a position also sees others.
    """
    if sublayer not in SUBLAYERS:
        raise ValueError(f"sublayer must be {' or '.join(SUBLAYERS)}; got {sublayer!r}.")
    given = sorted((program.encode(text) for text in texts), key=len)
    rows, counts, width = [], [], network.tokens.shape[1]
    parts = [given[start : start + TOGETHER] for start in range(0, len(given), TOGETHER)]
    layers = [program.interpret(part).layers for part in parts]
    most = max(int(taken.max()) for taken in layers)  # of all parts: every number of layers is compiled by itself
    for part, taken in zip(parts, layers, strict=True):
        ids, lengths = batched(program, part)
        places = room_for(ids.shape[1])
        if network.positions is not None:  # of which there are as many as the program has
            places = max(ids.shape[1], min(places, len(network.positions)))
        room = room_for(len(ids)), places
        padded = np.zeros(room, int)
        padded[: len(ids), : ids.shape[1]] = ids
        longer = np.ones(room[0], int)
        longer[: len(ids)] = lengths
        stages = _layers(network, jnp.asarray(padded), jnp.asarray(longer), most)
        before, after = (stages[i] for i in SUBLAYERS[sublayer])
        inside = np.arange(room[1]) < lengths[:, None]
        running = np.arange(most)[:, None] < taken  # [layers, B]
        there = np.moveaxis(running[..., None] & inside, 0, 1)
        pairs = np.concatenate([np.asarray(before)[: len(ids)][there], np.asarray(after)[: len(ids)][there]], axis=-1)
        different, times = different_rows(np.asarray(np.round(pairs, DIGITS) + 0.0, np.float32))
        rows.append(different)
        counts.append(times)
    both, total = different_rows(np.concatenate(rows), np.concatenate(counts))
    return Traces(both[:, :width], both[:, width:], total)


def left_undefined(program: AltaProgram, before: Float[np.ndarray, "pairs d"]) -> Bool[np.ndarray, "pairs d"]:
    """Which numbers of what an MLP is given stand for values that a head left undefined; sets may be empty instead."""
    layout, found = StreamLayout.of(program), np.zeros(before.shape, bool)
    for name in program.nullable:
        at = layout.places[name]
        if not isinstance(program.readable[name], SetOf):  # an empty one is zeros, too
            told = [layout.defined[name]] if name in layout.defined else range(at.start, at.stop)
            found[:, at] = ~before[:, told].any(axis=1, keepdims=True)
    return found


@eqx.filter_jit
def _layers(net: Transformer, ids: Array, lengths: Array, layers: int) -> tuple[Array, Array, Array]:
    """The stream before every layer, after its attention, and after its MLP; each [B, layers, L, d]."""
    seen = jax.vmap(lambda i, n: watch_layers(net, i, n, layers=layers))(ids, lengths)
    start = jax.vmap(net.embed)(ids)[:, None]
    return jnp.concatenate([start, seen.stream[:, :-1]], axis=1), seen.attended, seen.stream
