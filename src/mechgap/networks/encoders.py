"""From a variable's values to features: what each variable contributes to nodes, edges, the graph and the adjacency.

Features are sums of affine maps of a few numbers per place, so encoding has two parts that commute with what follows:
collecting the numbers (`collect`) and one affine layer per place (`encoder_of`), which may be folded into its readers.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mechgap.networks.config import NetConfig
from mechgap.networks.layers import Linear
from mechgap.trace import Kind, Location, Stage, Variable

Encoders = dict[str, tuple[Linear, ...]]
POINTERS = (Kind.POINTER, Kind.PERMUTATION_POINTER)
ALIGNMENT = 8  # a node's numbers are filled up with zeros: matrix units are slow on rows of odd widths


class Features(NamedTuple):
    """The numbers at every place, in the order of the variables: K of them per node, per edge and per graph."""

    node: Float[Array, "n node_numbers"]
    edge: Float[Array, "n n edge_numbers"]
    graph: Float[Array, " graph_numbers"]

    def join(self, other: "Features") -> "Features":
        """These numbers, then the other's, and zeros to a node's (see `ALIGNMENT`)."""
        node, edge, graph = (jnp.concatenate(pair, axis=-1) for pair in zip(self, other, strict=True))
        return Features(jnp.pad(node, ((0, 0), (0, _missing(node.shape[-1])))), edge, graph)


def place(variable: Variable) -> Location:
    """Where a variable's encoding is added: a node's pointer lies on edges, a graph's pointer on nodes."""
    if variable.kind in POINTERS:
        return Location.NODE if variable.location == Location.GRAPH else Location.EDGE
    return variable.location


def check_supported(variable: Variable) -> None:
    """Refuse what has no encoder and no decoder."""
    if variable.kind == Kind.PERMUTATION_POINTER and variable.location != Location.NODE:
        raise ValueError(
            f"Variable {variable.name!r} is a permutation pointer on the {variable.location}; only nodes can have one. "
            f"Use kind {Kind.POINTER!s} there."
        )
    if (variable.location, variable.kind) == (Location.GRAPH, Kind.MASK_ONE):
        raise ValueError(
            f"Variable {variable.name!r} is a mask_one on the graph, which has one place; only nodes and edges can "
            f"have one. Use kind {Kind.MASK!s} there, or {Kind.POINTER!s} to name a node."
        )


def make_encoder(variable: Variable, config: NetConfig, *, key: PRNGKeyArray) -> tuple[Linear, ...]:
    """The layers that encode one variable: one, or for an edge's pointer two (see `collect`)."""
    check_supported(variable)
    softly = config.encoder_init == "xavier_on_scalars" and (variable.stage, variable.kind) == (Stage.HINT, Kind.SCALAR)
    stddev = 1 / math.sqrt(config.hidden) if softly else None
    first = Linear.init(variable.classes or 1, config.hidden, key=key, stddev=stddev)
    if (variable.location, variable.kind) != (Location.EDGE, Kind.POINTER):
        return (first,)
    return (first, Linear.init(1, config.hidden, key=jax.random.fold_in(key, 1)))


def encoder_of(encoders: Encoders, variables: Iterable[Variable], where: Location, config: NetConfig) -> Linear:
    """One layer for all numbers at a place: rows in the order of `collect`, zeros where `join` adds, biases summed."""
    layers = [layer for v in variables if place(v) == where for layer in encoders[v.name]]
    dtype = next(iter(encoders.values()))[0].weight.dtype
    rows = sum(layer.weight.shape[0] for layer in layers)
    added = jnp.zeros((_missing(rows) if where == Location.NODE else 0, config.hidden), dtype)
    biases = [layer.bias for layer in layers if layer.bias is not None]
    weight = jnp.concatenate([*(layer.weight for layer in layers), added])
    return Linear(weight, sum(biases, jnp.zeros(config.hidden, dtype)))


def expand(variable: Variable, value: Any, nodes: int, dtype: Any) -> Array:
    """A value as it is fed to a network: reals, with a pointer's index turned into a one-hot row."""
    if variable.kind != Kind.POINTER:
        return jnp.asarray(value).astype(dtype)
    return (jnp.asarray(value).astype(jnp.int32)[..., None] == jnp.arange(nodes, dtype=jnp.int32)).astype(dtype)


def collect(
    variables: Iterable[Variable],
    values: Mapping[str, Array],
    nodes: int,
    dtype: Any,
    present: Bool[Array, " n"] | None = None,
) -> Features:
    """The numbers that the variables put at every place; `values` are expanded (see `expand`).

    An edge's pointer, [i, j] -> k, puts two numbers on an edge: the mean over i on (j, k), the mean over j on (i, k);
    these are means over the nodes that are present.
    """
    over_i, over_j = (None, None) if present is None else (present[:, None, None], present[None, :, None])
    shapes = {Location.NODE: (nodes, 0), Location.EDGE: (nodes, nodes, 0), Location.GRAPH: (0,)}
    at: dict[Location, list[Array]] = {where: [jnp.zeros(shape, dtype)] for where, shape in shapes.items()}
    for variable in variables:
        x = values[variable.name]
        if (variable.location, variable.kind) == (Location.EDGE, Kind.POINTER):
            means = [jnp.mean(x, axis=0, where=over_i), jnp.mean(x, axis=1, where=over_j)]
            at[Location.EDGE].append(jnp.stack(means, axis=-1))
        else:
            at[place(variable)].append(x if variable.kind == Kind.CATEGORICAL else x[..., None])
    return Features(*(jnp.concatenate(at[where], axis=-1) for where in (Location.NODE, Location.EDGE, Location.GRAPH)))


def adjacency(variables: Iterable[Variable], values: Mapping[str, Array], nodes: int) -> Bool[Array, "n n"]:
    """A: itself, what a node's pointer joins, what an edge's mask marks; always both ways, also in directed graphs.

    A soft mask is positive everywhere, so a mask hint on edges that is fed back softly joins all nodes.
    """
    joined = jnp.eye(nodes, dtype=bool)
    for variable in variables:
        x = values[variable.name]
        if variable.location == Location.NODE and variable.kind in POINTERS:
            joined = joined | (x + x.T > 0.5)
        elif (variable.location, variable.kind) == (Location.EDGE, Kind.MASK):
            joined = joined | (x + x.T > 0)
    return joined


def _missing(numbers: int) -> int:
    return -numbers % ALIGNMENT
