"""Shortest paths from one source: Bellman-Ford and Dijkstra."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import ErdosRenyi
from mechgap.algorithms.graph_search import GRAPH_INPUTS, PARENT, PARENT_HINT, POSITION, SOURCE
from mechgap.algorithms.unroll import State, lowest, one_hot, pointer, unroll
from mechgap.trace import Kind, Location, Spec, Stage, Variable

BELLMAN_FORD_SPEC = Spec(
    (
        POSITION,
        SOURCE,
        *GRAPH_INPUTS,
        PARENT_HINT,
        Variable("d", Stage.HINT, Location.NODE, Kind.SCALAR),
        Variable("msk", Stage.HINT, Location.NODE, Kind.MASK),
        PARENT,
    )
)


def bellman_ford(inputs: dict[str, Array], steps: int) -> Run:
    """Every edge is relaxed at once from the distances of the previous frame, until no distance changes.

    A node takes the sender of the smallest candidate (the lowest index of equal ones), if that is strictly better
    than what it has.
    """
    A, source = inputs["A"].astype(inputs["pos"].dtype), inputs["s"] > 0
    ids = jnp.arange(A.shape[-1], dtype=jnp.int32)
    length = jnp.where(A != 0, A, jnp.inf)  # [B, u, v]

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        candidate = jnp.where(old["msk"][:, :, None], old["d"][:, :, None] + length, jnp.inf)
        best = jnp.min(candidate, axis=1)
        reachable = best < jnp.inf
        sender = lowest((candidate == best[:, None, :]), axis=-2)
        better = reachable & (~old["msk"] | (best < old["d"]))
        d = jnp.where(better, best, old["d"])
        new = {"pi": jnp.where(better, sender, old["pi"]), "d": d, "msk": old["msk"] | reachable}
        return new, jnp.any(d != old["d"], axis=-1)

    start = {"pi": jnp.broadcast_to(ids, source.shape), "d": jnp.zeros(source.shape, A.dtype), "msk": source}

    def show(state: State) -> dict[str, Array]:
        return {"pi_h": pointer(state["pi"], A.dtype), "d": state["d"], "msk": state["msk"].astype(A.dtype)}

    hints, last, lengths = unroll(step, start, steps, show)
    return Run(hints, {"pi": last["pi"]}, lengths)


def queue_spec(key: str) -> Spec:
    """The interface of the algorithms that grow a tree by taking the best node out of a queue."""
    return Spec(
        (
            POSITION,
            SOURCE,
            *GRAPH_INPUTS,
            PARENT_HINT,
            Variable(key, Stage.HINT, Location.NODE, Kind.SCALAR),
            Variable("mark", Stage.HINT, Location.NODE, Kind.MASK),
            Variable("in_queue", Stage.HINT, Location.NODE, Kind.MASK),
            Variable("u", Stage.HINT, Location.NODE, Kind.MASK_ONE),
            PARENT,
        )
    )


NOT_QUEUED = 1e9  # the benchmark's penalty: with keys above it, a node outside the queue can win and end the run


def grow_tree(inputs: dict[str, Array], steps: int, key: str, cumulative: bool) -> Run:
    """Take the smallest key out of the queue, mark it, and offer its edges to the unmarked nodes.

    Args:
        key: the name of the key's hint.
        cumulative: the offered key is the taken node's plus the edge (Dijkstra), else the edge alone (Prim).
    """
    A, source = inputs["A"].astype(inputs["pos"].dtype), inputs["s"] > 0
    n, real = A.shape[-1], A.dtype
    ids = jnp.arange(n, dtype=jnp.int32)

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        priority = old["key"] + (1.0 - old["in_queue"].astype(real)) * NOT_QUEUED
        # Floats that are not negative are ordered as their bits are, and XLA finds the least integer much faster.
        bits = jax.lax.bitcast_convert_type(priority, jnp.int64 if real == jnp.float64 else jnp.int32)
        u = lowest(bits == jnp.min(bits, axis=-1, keepdims=True))[:, None]
        is_u = ids == u
        edge = jnp.take_along_axis(A, u[:, :, None], axis=1)[:, 0]
        offered = edge + jnp.take_along_axis(old["key"], u, axis=1) if cumulative else edge
        mark, in_queue = old["mark"] | is_u, old["in_queue"] & ~is_u
        takes = (edge != 0) & ~mark & (~in_queue | (offered < old["key"]))
        new = {
            "pi": jnp.where(takes, u, old["pi"]),
            "key": jnp.where(takes, offered, old["key"]),
            "mark": mark,
            "in_queue": in_queue | takes,
            "u": u[:, 0],
        }
        return new, jnp.any(is_u & old["in_queue"], axis=-1)

    nothing = jnp.zeros(source.shape, bool)
    start = {
        "pi": jnp.broadcast_to(ids, source.shape),
        "key": jnp.zeros(source.shape, real),
        "mark": nothing,
        "in_queue": source,
        "u": lowest(source),
    }

    def show(state: State) -> dict[str, Array]:
        return {
            "pi_h": pointer(state["pi"], real),
            key: state["key"],
            "mark": state["mark"].astype(real),
            "in_queue": state["in_queue"].astype(real),
            "u": one_hot(state["u"], n, real),
        }

    hints, last, lengths = unroll(step, start, steps, show)
    return Run(hints, {"pi": last["pi"]}, lengths)


def dijkstra(inputs: dict[str, Array], steps: int) -> Run:
    """The nearest node of the queue is final; its edges offer its distance plus their length."""
    return grow_tree(inputs, steps, "d", cumulative=True)


BELLMAN_FORD = Algorithm(
    "bellman_ford", BELLMAN_FORD_SPEC, bellman_ford, ErdosRenyi(weighted=True, source=True), max_steps=lambda n: n
)
DIJKSTRA = Algorithm(
    "dijkstra", queue_spec("d"), dijkstra, ErdosRenyi(weighted=True, source=True), max_steps=lambda n: n + 1
)
