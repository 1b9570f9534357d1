"""Shortest paths: from one source by Bellman-Ford and Dijkstra, between all pairs by Floyd-Warshall."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import ErdosRenyi
from mechgap.algorithms.graph_search import GRAPH_INPUTS, PARENT, PARENT_HINT, SOURCE
from mechgap.algorithms.unroll import NEVER, State, frames_before, lowest, one_hot, pointer, smallest, unroll
from mechgap.algorithms.variables import POSITION, node_mark
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
            node_mark("u"),
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

    def queued(pi: Array, mark: Bool[Array, "*frames batch n"]) -> Bool[Array, "*frames batch n"]:
        return (source | (pi != ids)) & ~mark  # a node joins the queue when it gets its first parent

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        mark = old["left"] < NEVER
        in_queue = queued(old["pi"], mark)
        priority = old["key"] + (1.0 - in_queue.astype(real)) * NOT_QUEUED
        u = lowest(priority == smallest(priority))[:, None]
        is_u, frame = ids == u, old["frame"][:, None] + 1
        edge = jnp.take_along_axis(A, u[:, :, None], axis=1)[:, 0]
        offered = edge + jnp.take_along_axis(old["key"], u, axis=1) if cumulative else edge
        takes = (edge != 0) & ~mark & ~is_u & (~in_queue | (offered < old["key"]))
        new = {
            "pi": jnp.where(takes, u, old["pi"]),
            "key": jnp.where(takes, offered, old["key"]),
            "left": jnp.where(is_u, frame, old["left"]),
            "frame": frame[:, 0],
            "u": u[:, 0],
        }
        return new, jnp.take_along_axis(in_queue, u, axis=1)[:, 0]

    start = {
        "pi": jnp.broadcast_to(ids, source.shape),
        "key": jnp.zeros(source.shape, real),
        "left": jnp.full(source.shape, NEVER, jnp.int32),
        "frame": jnp.zeros(source.shape[0], jnp.int32),
        "u": lowest(source),
    }

    def show(state: State) -> dict[str, Array]:
        return {"pi_h": pointer(state["pi"], real), key: state["key"], "u": state["u"]}

    record, last, lengths = unroll(step, start, steps, show)
    mark = jnp.arange(steps, dtype=jnp.int32)[:, None, None] >= last["left"]
    rest = {
        "mark": mark.astype(real),
        "in_queue": queued(record["pi_h"], mark).astype(real),
        "u": one_hot(record["u"], n, real),
    }
    return Run({**record, **frames_before(lengths, rest)}, {"pi": last["pi"]}, lengths)


def dijkstra(inputs: dict[str, Array], steps: int) -> Run:
    """The nearest node of the queue is final; its edges offer its distance plus their length."""
    return grow_tree(inputs, steps, "d", cumulative=True)


FLOYD_WARSHALL_SPEC = Spec(
    (
        POSITION,
        *GRAPH_INPUTS,
        Variable("Pi", Stage.OUTPUT, Location.EDGE, Kind.POINTER),
        Variable("Pi_h", Stage.HINT, Location.EDGE, Kind.POINTER),
        Variable("D", Stage.HINT, Location.EDGE, Kind.SCALAR),
        Variable("msk", Stage.HINT, Location.EDGE, Kind.MASK),
        node_mark("k"),
    )
)


def floyd_warshall(inputs: dict[str, Array], steps: int) -> Run:
    """Every pair may now go through node k, for k in turn; a way is taken if it is the first or strictly shorter.

    Frame k is the state before node k is allowed, so no frame shows the result. A node's distance to itself starts as
    its self-loop, and a pair that is not reached has distance 0 and the row's node as its parent.
    """
    A, real = inputs["A"].astype(inputs["pos"].dtype), inputs["pos"].dtype
    batch, n, _ = A.shape
    ids = jnp.arange(n, dtype=jnp.int32)

    def through_k(old: State) -> State:
        k = jnp.minimum(old["k"][0], n - 1)  # of every execution, since all have n frames
        into, out = (jax.lax.dynamic_index_in_dim(old["D"], k, axis) for axis in (2, 1))  # [B, n, 1], [B, 1, n]
        way = old["msk"][..., k][..., None] & old["msk"][:, k][:, None]
        length = into + out
        better = way & (~old["msk"] | (length < old["D"]))
        return {
            "Pi": jnp.where(better, old["Pi"][:, k][:, None], old["Pi"]),
            "D": jnp.where(better, length, old["D"]),
            "msk": old["msk"] | way,
            "k": old["k"] + 1,
        }

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        new = through_k(old)
        return new, new["k"] < n

    start = {
        "Pi": jnp.broadcast_to(ids[:, None], A.shape),
        "D": A,
        "msk": (A != 0) | jnp.eye(n, dtype=bool),
        "k": jnp.zeros(batch, jnp.int32),
    }

    def show(state: State) -> dict[str, Array]:
        return {
            "Pi_h": pointer(state["Pi"], real),
            "D": state["D"],
            "msk": state["msk"].astype(real),
            "k": one_hot(state["k"], n, real),
        }

    hints, last, lengths = unroll(step, start, steps, show)
    return Run(hints, {"Pi": through_k(last)["Pi"]}, lengths)


BELLMAN_FORD = Algorithm(
    "bellman_ford", BELLMAN_FORD_SPEC, bellman_ford, ErdosRenyi(weighted=True, source=True), max_steps=lambda n: n
)
DIJKSTRA = Algorithm(
    "dijkstra", queue_spec("d"), dijkstra, ErdosRenyi(weighted=True, source=True), max_steps=lambda n: n + 1
)
FLOYD_WARSHALL = Algorithm(
    "floyd_warshall", FLOYD_WARSHALL_SPEC, floyd_warshall, ErdosRenyi(weighted=True), max_steps=lambda n: n
)
