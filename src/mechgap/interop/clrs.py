"""The CLRS benchmark's own containers: a `Trace` as a dm-clrs `Feedback`, and back.

This is the only file that imports dm-clrs, and only when a function is called: the package brings TensorFlow.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from mechgap.trace import Kind, Location, Spec, Stage, Trace, Values, Variable, make_trace

PERMUTATION = "should_be_permutation"  # the benchmark's type of a pointer that chains all nodes in one order


def to_feedback(trace: Trace) -> Any:
    """The trace as the benchmark's `Feedback`, with the arrays and dtypes it has; attention has no place there."""
    clrs = _clrs()
    inputs, hints, outputs = (_data_points(clrs, trace, stage) for stage in (Stage.INPUT, Stage.HINT, Stage.OUTPUT))
    return clrs.Feedback(clrs.Features(inputs, hints, np.asarray(trace.lengths)), outputs)


def from_feedback(feedback: Any, spec: Spec | Mapping[str, tuple[str, str, str]]) -> Trace:
    """The benchmark's `Feedback` as a trace of NumPy arrays, dtypes unchanged.

    Args:
        feedback: what a sampler's `next` returns, whole (not chunked).
        spec: what the values are: ours (`mg.algorithm(name).spec`) or the benchmark's (`clrs.SPECS[name]`), whose
            numbers of classes are read off the data. It gives the variables their order.
    """
    features = feedback.features
    points = {Stage.INPUT: features.inputs, Stage.HINT: features.hints, Stage.OUTPUT: feedback.outputs}
    found = {stage: {point.name: point for point in points[stage]} for stage in Stage}
    ours = spec if isinstance(spec, Spec) else _our_spec(spec, found)
    _check_types(ours, found)
    batch = len(features.lengths)
    inputs, hints, outputs = (_arrays(ours, stage, found[stage], batch) for stage in Stage)
    return make_trace(ours, inputs, hints, outputs, np.asarray(features.lengths))


def _clrs() -> ModuleType:
    try:
        import clrs
    except ImportError as error:
        raise ImportError(
            f"This needs the reference package, which could not be imported ({error}). "
            "Install it: pip install 'mechgap[clrs]'."
        ) from error
    return clrs


def _data_points(clrs: ModuleType, trace: Trace, stage: Stage) -> list[Any]:
    values = trace.values(stage)
    return [
        clrs.DataPoint(v.name, v.location.value, _type_of(v), np.asarray(values[v.name])) for v in trace.spec.at(stage)
    ]


def _type_of(variable: Variable) -> str:
    return PERMUTATION if variable.permutation else variable.kind.value


def _our_spec(theirs: Mapping[str, tuple[str, str, str]], found: dict[Stage, dict[str, Any]]) -> Spec:
    """The benchmark's spec in our words; a process_* function may have moved a variable to another stage since."""
    return Spec(tuple(_variable(name, *words, found) for name, words in theirs.items()))


def _variable(name: str, stage: str, location: str, type_: str, found: dict[Stage, dict[str, Any]]) -> Variable:
    if name not in found[Stage(stage)]:
        raise ValueError(f"The spec has the {stage} {name!r}, but the feedback has {sorted(found[Stage(stage)])}.")
    classes = found[Stage(stage)][name].data.shape[-1] if type_ == Kind.CATEGORICAL else None
    return Variable(name, Stage(stage), Location(location), _kind_of(name, type_), classes, type_ == PERMUTATION)


def _kind_of(name: str, type_: str) -> Kind:
    if type_ == PERMUTATION:
        return Kind.POINTER
    if type_ not in set(Kind):
        raise ValueError(f"{name!r} has the type {type_!r}; a trace holds {', '.join(Kind)} or {PERMUTATION}.")
    return Kind(type_)


def _check_types(spec: Spec, found: dict[Stage, dict[str, Any]]) -> None:
    """Names are checked where the trace is made; a value of another type or place would pass there unseen."""
    for variable in spec:
        point = found[variable.stage].get(variable.name)
        if point is None:
            continue
        expected, given = (variable.location.value, _type_of(variable)), (point.location, point.type_)
        if expected != given:
            raise ValueError(
                f"{variable.name!r} is {' '.join(given)} in the feedback but {' '.join(expected)} in the spec. Pass "
                "the spec that belongs to it, e.g. the one that build_sampler or process_permutations returned."
            )


def _arrays(spec: Spec, stage: Stage, points: dict[str, Any], batch: int) -> Values:
    arrays = {name: np.asarray(point.data) for name, point in points.items()}
    if stage == Stage.HINT:
        return arrays
    return {name: _with_node_axes(spec, name, x, batch) for name, x in arrays.items()}


def _with_node_axes(spec: Spec, name: str, x: np.ndarray, batch: int) -> np.ndarray:
    """The benchmark squeezes axes of length 1 out of inputs and outputs: on one node, what is left has a place."""
    known = {variable.name: variable for variable in spec}
    if name not in known or x.size != batch * int(np.prod(known[name].shape(1))):
        return x
    return x.reshape(batch, *known[name].shape(1)) if x.ndim < 1 + len(known[name].shape(1)) else x
