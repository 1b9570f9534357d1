"""Run a network on a batch and return what every other execution returns: a `Trace`."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from mechgap.networks.clrs_net import ClrsNet, Prediction, Record, Replacement
from mechgap.networks.padding import counted
from mechgap.networks.postprocessing import postprocess
from mechgap.trace import Stage, Trace, make_trace


def run(
    net: ClrsNet,
    inputs: Mapping[str, Any],
    first: Mapping[str, Any],
    lengths: Shaped[Array | np.ndarray, " batch"],
    *,
    steps: int | None = None,
    record: Record = True,
    present: Any = None,
) -> Trace:
    """Execute a network on a batch.

    Args:
        net: the network.
        inputs: name -> [B, ...].
        first: name -> [B, ...], the hints of frame 0: the state before any work.
        lengths: [B], how many frames each execution has.
        steps: T; by default the longest of `lengths`.
        record: which attention to keep, see `ClrsNet.__call__`.
        present: [B, N], which nodes there are, where graphs are padded; None for all.

    Returns:
        A trace whose hints are decisions: frame 0 as given, zero from each length on, and zero at absent nodes.
        Attention is [T-1, k, B, heads, N, N]; of some pairs (micro-step, head) it is [T-1, 1, B, pairs, N, N]; a
        network without attention has none. A network that decodes no hints leaves NaN in their later frames.
    """
    frames = int(np.max(np.asarray(lengths))) if steps is None else steps
    who = None if present is None else jnp.asarray(present)
    return _run(net, dict(inputs), dict(first), jnp.asarray(lengths), frames, record, who)


def predict(
    net: ClrsNet,
    inputs: Mapping[str, Any],
    hints: Mapping[str, Any],
    lengths: Any,
    *,
    steps: int,
    replacement: Replacement | None = None,
    record: Record = True,
    present: Any = None,
) -> Prediction:
    """The raw predictions on a batch: inputs [B, ...], hints [frames, B, ...] -> logits with a leading batch axis.

    A replacement of attention has a leading batch axis, too, and so has `present`.
    """

    def one(inputs: dict, hints: dict, length: Array, replacement: Replacement | None, present: Any) -> Prediction:
        return net(inputs, hints, length, steps=steps, replacement=replacement, record=record, present=present)

    return jax.vmap(one, in_axes=(0, 1, 0, 0, 0))(dict(inputs), dict(hints), lengths, replacement, present)


@eqx.filter_jit
def _run(
    net: ClrsNet, inputs: dict, first: dict, lengths: Array, steps: int, record: Record, present: Array | None
) -> Trace:
    given = {name: jnp.asarray(x)[None] for name, x in first.items()}
    prediction = predict(net, inputs, given, lengths, steps=steps, record=record, present=present)
    values = _of_present(net, postprocess(net.spec, prediction.hints), present, 2)
    outputs = _of_present(net, postprocess(net.spec, prediction.outputs), present, 1)
    hints = {
        v.name: _frames(jnp.asarray(first[v.name]), values.get(v.name), lengths, steps) for v in net.spec.at(Stage.HINT)
    }
    attention = None
    if prediction.activations is not None and prediction.activations.coefficients is not None:
        attention = jnp.moveaxis(prediction.activations.coefficients, 0, 2)[: steps - 1]
    return make_trace(net.spec, inputs, hints, outputs, lengths, attention)


def _of_present(net: ClrsNet, values: dict[str, Array], present: Array | None, leading: int) -> dict[str, Array]:
    """Values [B, ...] or [B, T-1, ...], zero at absent nodes."""
    if present is None:
        return values
    by_sample = present.reshape(len(present), *(1,) * (leading - 1), -1)

    def cleared(name: str, x: Array) -> Array:
        rows = counted(net.spec[name], by_sample)
        return jnp.where(rows.reshape(*rows.shape, *(1,) * (x.ndim - rows.ndim)), x, jnp.zeros((), x.dtype))

    return {name: cleared(name, x) for name, x in values.items()}


def _frames(first: Array, values: Array | None, lengths: Array, steps: int) -> Array:
    """Frame 0, then the network's frames [B, T-1, ...] with the time axis in front, cut at each length."""
    missing = jnp.full((steps - 1, *first.shape), jnp.nan)
    rest = missing if values is None else jnp.moveaxis(values, 1, 0)[: steps - 1]
    frames = jnp.concatenate([first.astype(rest.dtype)[None], rest])
    inside = jnp.arange(steps)[:, None] < lengths
    return jnp.where(inside.reshape(inside.shape + (1,) * (frames.ndim - 2)), frames, jnp.zeros((), frames.dtype))
