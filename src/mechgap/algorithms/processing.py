"""What the reference training script does to samples before they reach a network: three functions on traces."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from mechgap.trace import Kind, Location, Spec, Stage, Trace, Values, Variable, make_trace


def random_positions(trace: Trace, rng: np.random.RandomState) -> Trace:
    """Replace `pos` by sorted uniform numbers, sorted apart in every segment that starts where pos is 0.

    One draw of shape (B, n) is taken from `rng`, the run's own generator, which all samplers of a run share.
    """
    pos = trace.inputs["pos"]
    segment = np.cumsum(pos == 0, axis=-1)
    drawn = rng.uniform(size=pos.shape)
    order = np.lexsort((drawn, segment), axis=-1)  # by segment, then by value
    return eqx.tree_at(lambda t: t.inputs["pos"], trace, np.take_along_axis(drawn, order, axis=-1))


def pred_as_input(trace: Trace) -> Trace:
    """Turn the hint `pred_h`, where it is constant, into the input `pred`, last in order."""
    if "pred_h" not in trace.hints:
        return trace
    order = trace.hints["pred_h"]
    inside = (np.arange(trace.steps)[:, None] < trace.lengths)[..., None]
    if np.any((order != order[0]) & inside):
        raise ValueError("pred_h changes during the execution, so it cannot become an input.")
    hints = {name: x for name, x in trace.hints.items() if name != "pred_h"}
    inputs = {**trace.inputs, "pred": order[0]}
    return make_trace(with_order_given(trace.spec), inputs, hints, trace.outputs, trace.lengths)


def with_order_given(spec: Spec) -> Spec:
    """The spec of `pred_as_input`."""
    pred = Variable("pred", Stage.INPUT, Location.NODE, Kind.POINTER)
    others = tuple(v for v in spec if v.name != "pred_h")
    inputs = tuple(v for v in others if v.stage == Stage.INPUT)
    return Spec((*inputs, pred, *(v for v in others if v.stage != Stage.INPUT)))


def as_permutations(trace: Trace) -> Trace:
    """Turn every pointer that chains all nodes into a permutation matrix and a mask of the chain's first node."""
    outputs: Values = {}
    for variable in (v for v in trace.spec if v.permutation):
        matrix, first = closed_chain(trace.outputs[variable.name])
        outputs |= {variable.name: matrix, f"{variable.name}_mask": first}
    return make_trace(
        with_permutations(trace.spec), trace.inputs, trace.hints, {**trace.outputs, **outputs}, trace.lengths
    )


def with_permutations(spec: Spec) -> Spec:
    """The spec of `as_permutations`."""
    variables: list[Variable] = []
    for variable in spec:
        if not variable.permutation:
            variables.append(variable)
            continue
        variables += [
            replace(variable, kind=Kind.PERMUTATION_POINTER, permutation=False),
            Variable(f"{variable.name}_mask", variable.stage, variable.location, Kind.MASK_ONE),
        ]
    return Spec(tuple(variables))


def closed_chain(
    pred: Int[Array | np.ndarray, "*batch n"], xp: Any = np
) -> tuple[Float[Array | np.ndarray, "*batch n n"], Float[Array | np.ndarray, "*batch n"]]:
    """A chain of all nodes as a permutation matrix, and a mask of its first node.

    Args:
        pred: whom each node points to; the first points to itself, and in the matrix to the last.
        xp: numpy, or jax.numpy for use on the device.
    """
    ids = xp.arange(pred.shape[-1])
    matrix = (pred[..., None] == ids).astype(xp.float32)
    first = (pred == ids).astype(xp.float32)
    last = (matrix.sum(-2) == first).astype(xp.float32)  # nobody else points to it
    return matrix + first[..., None] * (last - first)[..., None, :], first
