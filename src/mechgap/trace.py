"""What every stage exchanges: the vocabulary that describes an algorithm's state, and the record of one execution.

An algorithm's interface is a `Spec`: an ordered tuple of `Variable`s, each described by three closed words (when it
exists, where it lives, what kind of value it is). A `Trace` holds the values of those variables for a batch of
executions. A tracer, an interpreter, a compiled and a trained network all return one, so that two executions can be
compared without asking where they came from.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mechgap.storage import read_tensors, write_tensors

Values = dict[str, Any]  # name -> array, NumPy or JAX


class Stage(StrEnum):
    """When a variable exists: given, at every step, or at the end."""

    INPUT = "input"
    HINT = "hint"
    OUTPUT = "output"


class Location(StrEnum):
    """Where a variable lives: one value per node, per ordered pair of nodes, or per graph."""

    NODE = "node"
    EDGE = "edge"
    GRAPH = "graph"


class Kind(StrEnum):
    """What values a variable takes."""

    SCALAR = "scalar"
    MASK = "mask"  # 0 or 1 at each place
    MASK_ONE = "mask_one"  # one-hot over the nodes
    CATEGORICAL = "categorical"  # one-hot over the classes
    POINTER = "pointer"  # the index of a node
    PERMUTATION_POINTER = "permutation_pointer"  # a permutation matrix: row i is one-hot at the node i points to


@dataclass(frozen=True)
class Variable:
    """One named quantity of an algorithm.

    Attributes:
        classes: the number of classes of a categorical variable, else None.
        permutation: a pointer that always chains all nodes in one order (a sort's `pred`); such a pointer may be
            turned into a permutation pointer, see `mechgap.algorithms.processing.as_permutations`.
    """

    name: str
    stage: Stage
    location: Location
    kind: Kind
    classes: int | None = None
    permutation: bool = False

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"A variable's name must be a Python identifier; got {self.name!r}.")
        if (self.kind == Kind.CATEGORICAL) != (self.classes is not None):
            raise ValueError(f"Variable {self.name!r} of kind {self.kind}: give `classes` for categorical, only there.")

    def shape(self, nodes: int) -> tuple[int, ...]:
        """The shape of one value on a graph of `nodes` nodes (no batch, no time)."""
        place = {Location.NODE: (nodes,), Location.EDGE: (nodes, nodes), Location.GRAPH: ()}[self.location]
        if self.kind == Kind.CATEGORICAL:
            assert self.classes is not None
            return (*place, self.classes)
        return (*place, nodes) if self.kind == Kind.PERMUTATION_POINTER else place

    def __str__(self) -> str:
        return f"{self.name}: {self.stage} {self.location} {self.kind}"


@dataclass(frozen=True)
class Spec:
    """An algorithm's interface: its variables, in the order in which they are encoded and decoded."""

    variables: tuple[Variable, ...]

    def __post_init__(self) -> None:
        names = [v.name for v in self.variables]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"A spec names each variable once; given more than once: {', '.join(twice)}.")

    def __iter__(self) -> Iterator[Variable]:
        return iter(self.variables)

    def __getitem__(self, name: str) -> Variable:
        if name not in self._by_name:
            raise KeyError(f"No variable {name!r}; this spec has {', '.join(self._by_name)}.")
        return self._by_name[name]

    def at(self, stage: Stage) -> tuple[Variable, ...]:
        """The variables of one stage, in order."""
        return self._by_stage[stage]

    def names(self, stage: Stage) -> tuple[str, ...]:
        """The names of one stage's variables, in order."""
        return self._names[stage]

    def shapes(self, nodes: int) -> tuple[tuple[Variable, tuple[int, ...]], ...]:
        """Every variable with the shape of one value on a graph of `nodes` nodes."""
        if nodes not in self._shapes:
            self._shapes[nodes] = tuple((v, v.shape(nodes)) for v in self.variables)
        return self._shapes[nodes]

    # Specs are asked for these on every call of a tracer, whose own work takes tens of microseconds.
    @cached_property
    def _by_name(self) -> dict[str, Variable]:
        return {v.name: v for v in self.variables}

    @cached_property
    def _by_stage(self) -> dict[Stage, tuple[Variable, ...]]:
        return {stage: tuple(v for v in self.variables if v.stage == stage) for stage in Stage}

    @cached_property
    def _names(self) -> dict[Stage, tuple[str, ...]]:
        return {stage: tuple(v.name for v in self._by_stage[stage]) for stage in Stage}

    @cached_property
    def _shapes(self) -> dict[int, tuple[tuple[Variable, tuple[int, ...]], ...]]:
        return {}

    def __str__(self) -> str:
        return "\n".join(str(v) for v in self.variables)


class Trace(eqx.Module):
    """A batch of executions: what was given, every step's state, and the result.

    Attributes:
        spec: the variables the values belong to.
        inputs: name -> [B, ...].
        hints: name -> [T, B, ...]; frame 0 is the state before any work; frames at and after `lengths` are zero.
        outputs: name -> [B, ...].
        lengths: [B], the number of frames of each execution.
        attention: [T-1, k, B, heads, N, N] where a network ran (k message-passing steps per frame), else None.

    Build one with `make_trace`, which checks the shapes. (The check is not in `__post_init__`, because that also
    runs when a transformation such as vmap rebuilds the pytree with other shapes.)
    """

    spec: Spec = eqx.field(static=True)
    inputs: Values
    hints: Values
    outputs: Values
    lengths: Any
    attention: Any = None

    @property
    def batch(self) -> int:
        """How many executions there are."""
        return int(self.lengths.shape[0])

    @property
    def nodes(self) -> int:
        """How many nodes each graph has."""
        return int(self.inputs["pos"].shape[-1])

    @property
    def steps(self) -> int:
        """T: the number of frames of the longest execution, or more where padded."""
        return int(next(iter(self.hints.values())).shape[0])

    def values(self, stage: Stage) -> Values:
        """The values of one stage."""
        return {Stage.INPUT: self.inputs, Stage.HINT: self.hints, Stage.OUTPUT: self.outputs}[stage]

    def pad(self, steps: int) -> "Trace":
        """The same executions with zero frames appended up to `steps` frames."""
        missing = steps - self.steps
        if missing < 0:
            raise ValueError(f"Cannot pad to {steps} frames: the trace has {self.steps}. Give {self.steps} or more.")
        hints = {k: np.pad(np.asarray(h), [(0, missing)] + [(0, 0)] * (h.ndim - 1)) for k, h in self.hints.items()}
        return eqx.tree_at(lambda t: t.hints, self, hints)

    def take(self, samples: Any) -> "Trace":
        """The executions at `samples` (indices or a slice along the batch axis)."""
        if isinstance(samples, int):
            raise TypeError(f"take expects several samples; to keep one, write take([{samples}]).")
        attention = None if self.attention is None else self.attention[:, :, samples]
        return Trace(
            spec=self.spec,
            inputs={k: v[samples] for k, v in self.inputs.items()},
            hints={k: v[:, samples] for k, v in self.hints.items()},
            outputs={k: v[samples] for k, v in self.outputs.items()},
            lengths=self.lengths[samples],
            attention=attention,
        )

    def differences(self, other: "Trace") -> dict[str, int]:
        """How many values differ, by variable (and `lengths`); empty where the two traces say the same.

        The number of frames T may differ, since it is only padding, and attention is not compared. A shape that differs
        otherwise is an error.
        """
        steps = max(self.steps, other.steps)
        mine, others = _values(self.pad(steps)), _values(other.pad(steps))
        if mine.keys() != others.keys():
            raise ValueError(f"The traces hold different variables: {sorted(mine.keys() ^ others.keys())}.")
        for name in mine:
            if mine[name].shape != others[name].shape:
                raise ValueError(f"{name!r} has shape {mine[name].shape} here and {others[name].shape} there.")
        # NaN equals NaN here: a trace is compared as a record, value for value.
        counts = {
            n: int(np.sum((mine[n] != others[n]) & ~((mine[n] != mine[n]) & (others[n] != others[n])))) for n in mine
        }
        return {name: count for name, count in counts.items() if count}

    def save(self, path: str | Path) -> None:
        """Write one safetensors file; its JSON header holds the spec. The write is atomic."""
        write_tensors(path, _flat(self), {"format": "mechgap.trace/1", "spec": [asdict(v) for v in self.spec]})

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        """Read a file that `save` wrote."""
        tensors, header = read_tensors(path, "mechgap.trace/1")
        spec = Spec(tuple(_variable(v) for v in header["spec"]))
        stages = {s: {name: tensors[f"{s}/{name}"] for name in spec.names(s)} for s in Stage}
        return make_trace(
            spec,
            stages[Stage.INPUT],
            stages[Stage.HINT],
            stages[Stage.OUTPUT],
            tensors["lengths"],
            tensors.get("attention"),
        )


def make_trace(
    spec: Spec, inputs: Values, hints: Values, outputs: Values, lengths: Any, attention: Any = None
) -> Trace:
    """A `Trace` whose names and shapes are checked against its spec; every problem is named at once."""
    trace = trusted_trace(spec, inputs, hints, outputs, lengths, attention)
    stages = {Stage.INPUT: trace.inputs, Stage.HINT: trace.hints, Stage.OUTPUT: trace.outputs}
    problems = list(_problems(spec, stages, lengths, attention))
    if problems:
        raise ValueError("Not a valid trace:\n  " + "\n  ".join(problems))
    return trace


def trusted_trace(
    spec: Spec, inputs: Values, hints: Values, outputs: Values, lengths: Any, attention: Any = None
) -> Trace:
    """`make_trace` for what a tracer made: the names are checked, the shapes are not.

    Nor are equinox's checks of a constructor made, as when a transformation rebuilds the pytree: they take 30 us, a
    tenth of tracing a small batch, and are about __init__ methods written by hand.
    """
    trace = object.__new__(Trace)
    fields = object.__getattribute__(trace, "__dict__")  # equinox's own way there takes longer than all of this
    fields.update(
        spec=spec,
        inputs=_in_order(spec, Stage.INPUT, inputs),
        hints=_in_order(spec, Stage.HINT, hints),
        outputs=_in_order(spec, Stage.OUTPUT, outputs),
        lengths=lengths,
        attention=attention,
    )
    return trace


def _in_order(spec: Spec, stage: Stage, values: Mapping[str, Any]) -> Values:
    names = spec.names(stage)
    if len(names) != len(values) or not all(name in values for name in names):  # no sets: this is asked in every call
        missing, extra = sorted(set(names) - set(values)), sorted(set(values) - set(names))
        raise ValueError(f"A trace's {stage}s must be {list(names)}; missing {missing}, unexpected {extra}.")
    return {name: values[name] for name in names}


def _problems(spec: Spec, stages: dict[Stage, Values], lengths: Any, attention: Any) -> Iterator[str]:
    # On plain dicts, not on a Trace: reading an eqx.Module's attributes costs more than tracing a small batch.
    if len(lengths.shape) != 1:
        yield f"lengths must have shape [B]; got {lengths.shape}."
        return
    if "pos" not in stages[Stage.INPUT] or not stages[Stage.HINT]:
        yield "a trace needs the input 'pos' and at least one hint."
        return
    batch, nodes = lengths.shape[0], stages[Stage.INPUT]["pos"].shape[-1]
    steps = next(iter(stages[Stage.HINT].values())).shape[0]
    for variable, shape in spec.shapes(nodes):
        leading = (steps, batch) if variable.stage == Stage.HINT else (batch,)
        expected, given = leading + shape, tuple(stages[variable.stage][variable.name].shape)
        if expected != given:
            yield f"{variable.name!r} ({variable.location} {variable.kind}) must have shape {expected}; got {given}."
    if attention is not None and (len(attention.shape) != 6 or tuple(attention.shape[-2:]) != (nodes, nodes)):
        yield f"attention must have shape [T-1, k, B, heads, {nodes}, {nodes}]; got {attention.shape}."


def _values(trace: Trace) -> dict[str, np.ndarray]:
    """What a trace says, under one level of names."""
    flat = {f"{stage}/{name}": np.asarray(x) for stage in Stage for name, x in trace.values(stage).items()}
    return flat | {"lengths": np.asarray(trace.lengths)}


def _flat(trace: Trace) -> dict[str, np.ndarray]:
    """All arrays of a trace under one level of names."""
    return _values(trace) | ({} if trace.attention is None else {"attention": np.asarray(trace.attention)})


def _variable(fields: dict[str, Any]) -> Variable:
    words = {"stage": Stage(fields["stage"]), "location": Location(fields["location"]), "kind": Kind(fields["kind"])}
    return Variable(**{**fields, **words})


def to_numpy(trace: Trace) -> Trace:
    """The same trace with every array on the host."""
    return jax.tree.map(np.asarray, trace)
