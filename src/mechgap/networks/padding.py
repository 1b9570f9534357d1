"""Graphs of different sizes in arrays of one size: which values are there, and how those that are not stay unheard.

A graph of n nodes is padded to N: `present` [N] says which nodes there are. What a network says of the nodes that are
present is then the same as without padding; what it says of the others has no meaning.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from mechgap.trace import Kind, Location, Stage, Trace, Variable, make_trace

ABSENT = 1e9  # how far below everything the logit of an absent node is


def only_present(x: Array, present: Bool[Array, " n"] | None) -> Array:
    """Logits over nodes (the last axis), of which absent ones are never chosen."""
    return x if present is None else jnp.where(present, x, -ABSENT)


def chooses_node(variable: Variable) -> bool:
    """Whether the last axis of a variable's logits goes over nodes, of which one is chosen."""
    return variable.kind in (Kind.POINTER, Kind.MASK_ONE)


def counted(variable: Variable, present: Bool[Array, "*batch n"]) -> Bool[Array, "..."]:
    """Which of a variable's rows count, [*batch, rows]: a row is a number, or what one choice is made of."""
    one_choice = variable.kind == Kind.MASK_ONE  # the last of its places is what it chooses from
    if variable.location == Location.GRAPH or (variable.location == Location.NODE and one_choice):
        return jnp.any(present, axis=-1)
    if variable.location == Location.NODE or one_choice:
        return present
    return present[..., :, None] & present[..., None, :]


def pad_nodes(trace: Trace, nodes: int) -> tuple[Trace, Bool[np.ndarray, "batch n"]]:
    """The same executions on graphs of more nodes, which are absent: zeros everywhere. And who is present.

    Attention is left out.
    """
    inputs, hints, outputs = (
        {name: pad_value(trace.spec[name], np.asarray(x), nodes) for name, x in trace.values(stage).items()}
        for stage in Stage
    )
    present = np.broadcast_to(np.arange(nodes) < trace.nodes, (trace.batch, nodes))
    return make_trace(trace.spec, inputs, hints, outputs, trace.lengths), present


def pad_value(variable: Variable, x: np.ndarray, nodes: int) -> np.ndarray:
    """A value with leading axes, its axes over nodes filled up with zeros."""
    lengths = variable.shape(nodes)
    over_nodes = len(lengths) - (variable.kind == Kind.CATEGORICAL)
    leading = x.ndim - len(lengths)
    given = max(x.shape[leading : leading + over_nodes], default=nodes)
    if given > nodes:
        raise ValueError(f"Cannot pad to {nodes} nodes: {variable.name!r} has {given}. Give {given} or more.")
    wanted = (*x.shape[:leading], *lengths[:over_nodes], *x.shape[leading + over_nodes :])
    widths = [(0, after - before) for before, after in zip(x.shape, wanted, strict=True)]
    return np.pad(x, widths) if widths else x  # a single number has no axes
