"""Searching a graph: breadth first and depth first, and the two variants of Mind the Gap, D.10."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import ErdosRenyi
from mechgap.algorithms.unroll import Show, State, frames_before, lowest, one_hot, pointer, unroll
from mechgap.trace import Kind, Location, Spec, Stage, Variable

GRAPH_INPUTS = (
    Variable("A", Stage.INPUT, Location.EDGE, Kind.SCALAR),
    Variable("adj", Stage.INPUT, Location.EDGE, Kind.MASK),
)
POSITION = Variable("pos", Stage.INPUT, Location.NODE, Kind.SCALAR)
SOURCE = Variable("s", Stage.INPUT, Location.NODE, Kind.MASK_ONE)
PARENT_HINT = Variable("pi_h", Stage.HINT, Location.NODE, Kind.POINTER)
PARENT = Variable("pi", Stage.OUTPUT, Location.NODE, Kind.POINTER)
COLOR = Variable("color", Stage.HINT, Location.NODE, Kind.CATEGORICAL, classes=3)

BFS_SPEC = Spec(
    (
        POSITION,
        SOURCE,
        *GRAPH_INPUTS,
        Variable("reach_h", Stage.HINT, Location.NODE, Kind.MASK),
        PARENT_HINT,
        PARENT,
    )
)


def bfs(inputs: dict[str, Array], steps: int) -> Run:
    """All neighbours of the reached set join at once; the parent is the lowest reached index, and stays."""
    real = inputs["pos"].dtype

    def show(state: State) -> dict[str, Array]:
        return {"reach_h": state["reach"].astype(real), "pi_h": pointer(state["pi"], real)}

    hints, last, lengths = _reach(inputs, steps, show)
    return Run(hints, {"pi": last["pi"]}, lengths)


def bfs_sequential(inputs: dict[str, Array], steps: int) -> Run:
    """bfs with one node joining per frame, in order of (level, index): the long trace of D.10, the same result."""
    n, real = inputs["pos"].shape[-1], inputs["pos"].dtype
    record, last, levels = _reach(inputs, n, lambda state: {"reach": state["reach"]})
    level = jnp.sum(~record["reach"] & (jnp.arange(n)[:, None] < levels)[..., None], axis=0)  # frames spent unreached
    ids = jnp.arange(n, dtype=jnp.int32)
    key = jnp.where(last["reach"], level * n + ids, n * n + ids)
    rank = jnp.sum(key[:, None, :] < key[:, :, None], axis=-1)  # how many nodes join earlier
    reached = last["reach"] & (rank <= jnp.arange(steps)[:, None, None])
    lengths = jnp.minimum(jnp.sum(last["reach"], axis=-1, dtype=jnp.int32), steps)
    hints = {"reach_h": reached.astype(real), "pi_h": pointer(jnp.where(reached, last["pi"], ids), real)}
    return Run(frames_before(lengths, hints), {"pi": last["pi"]}, lengths)


def _reach(inputs: dict[str, Array], steps: int, show: Show) -> tuple[dict[str, Array], State, Int[Array, " batch"]]:
    source = inputs["s"] > 0
    ids = jnp.arange(source.shape[-1], dtype=jnp.int32)
    sender = jnp.where(inputs["A"] > 0, ids[:, None], len(ids))  # [B, i, j]: i where there is an edge i -> j

    def step(state: State) -> tuple[State, Bool[Array, " batch"]]:
        parent = jnp.min(jnp.where(state["reach"][:, :, None], sender, len(ids)), axis=1)
        joins = (parent < len(ids)) & ~state["reach"]
        return {"reach": state["reach"] | joins, "pi": jnp.where(joins, parent, state["pi"])}, jnp.any(joins, axis=-1)

    return unroll(step, {"reach": source, "pi": jnp.broadcast_to(ids, source.shape)}, steps, show)


DFS_SPEC = Spec(
    (
        POSITION,
        *GRAPH_INPUTS,
        PARENT_HINT,
        COLOR,
        Variable("d", Stage.HINT, Location.NODE, Kind.SCALAR),
        Variable("f", Stage.HINT, Location.NODE, Kind.SCALAR),
        Variable("s_prev", Stage.HINT, Location.NODE, Kind.POINTER),
        Variable("s", Stage.HINT, Location.NODE, Kind.MASK_ONE),
        Variable("u", Stage.HINT, Location.NODE, Kind.MASK_ONE),
        Variable("v", Stage.HINT, Location.NODE, Kind.MASK_ONE),
        Variable("s_last", Stage.HINT, Location.NODE, Kind.MASK_ONE),
        Variable("time", Stage.HINT, Location.GRAPH, Kind.SCALAR),
        PARENT,
    )
)
DFS_SIMPLIFIED_SPEC = Spec((POSITION, *GRAPH_INPUTS, PARENT_HINT, COLOR, PARENT))

WHITE, GREY, BLACK = 0, 1, 2
TICK = 0.01  # the benchmark's clock; `time` is its running sum, rounding included


class _Frame(NamedTuple):
    """What the newest frame did; it decides what the next one does."""

    begin: int = 0  # a new root is chosen
    discover: int = 1  # u turns grey and gets its time d
    push: int = 2  # the edge u -> v is taken
    pop: int = 3  # u turns black and gets its time f


FRAME = _Frame()


def dfs(inputs: dict[str, Array], steps: int) -> Run:
    """Depth-first search with an explicit stack: begin, then discover, push or pop, one per frame (3n frames)."""
    n, real = inputs["pos"].shape[-1], inputs["pos"].dtype

    def show(state: State) -> dict[str, Array]:
        return {
            **_visited(state, real),
            "d": state["d"],
            "f": state["f"],
            "s_prev": pointer(state["s_prev"], real),
            **{name: one_hot(state[name], n, real) for name in ("s", "u", "v", "s_last")},
            "time": state["time"],
        }

    hints, last, lengths = _search(inputs, steps, show)
    return Run(hints, {"pi": last["pi"]}, lengths)


def dfs_simplified(inputs: dict[str, Array], steps: int) -> Run:
    """The frames of dfs, of which only the parents and the visitation state are shown (D.10)."""
    hints, last, lengths = _search(inputs, steps, lambda state: _visited(state, inputs["pos"].dtype))
    return Run(hints, {"pi": last["pi"]}, lengths)


def _visited(state: State, real: jnp.dtype) -> dict[str, Array]:
    return {"pi_h": pointer(state["pi"], real), "color": one_hot(state["color"], 3, real)}


def _search(inputs: dict[str, Array], steps: int, show: Show) -> tuple[dict[str, Array], State, Int[Array, " batch"]]:
    edge = inputs["A"] != 0
    batch, n = inputs["pos"].shape
    real = inputs["pos"].dtype
    ids = jnp.arange(n, dtype=jnp.int32)

    def at(x: Array, node: Int[Array, " batch"]) -> Array:
        return jnp.take_along_axis(x, node[:, None], axis=1)[:, 0]

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        popped = old["frame"] == FRAME.pop
        # A popped node leaves the stack before anything else happens.
        below = at(old["s_prev"], old["u"])
        root_done = popped & (below == old["u"])
        returns = popped & ~root_done
        u = jnp.where(returns, below, old["s_last"])  # the node on top of the stack
        s_prev = jnp.where((returns[:, None]) & (ids == old["u"][:, None]), ids, old["s_prev"])

        white = old["color"] == WHITE
        next_root = lowest(white)
        out_edge = jnp.take_along_axis(edge, u[:, None, None], axis=1)[:, 0]
        candidate = lowest(out_edge & white)

        begins = root_done
        discovers = (old["frame"] == FRAME.begin) | (old["frame"] == FRAME.push)
        scans = ~begins & ~discovers
        pushes, pops = scans & (candidate < n), scans & (candidate == n)

        u = jnp.where(begins, next_root, u)
        # The scan's loop variable: the node pushed, or n - 1 after a scan that found nothing.
        v = jnp.where(begins, next_root, jnp.where(pushes, candidate, jnp.where(pops, n - 1, old["v"])))
        time = old["time"] + jnp.where(discovers | pops, jnp.asarray(TICK, real), jnp.zeros((), real))
        is_u, is_v = ids == u[:, None], ids == v[:, None]
        discovered, pushed, finished = discovers[:, None] & is_u, pushes[:, None] & is_v, pops[:, None] & is_u
        new = {
            "pi": jnp.where(pushed, u[:, None], old["pi"]),
            "color": jnp.where(finished, BLACK, jnp.where(discovered | pushed, GREY, old["color"])),
            "d": jnp.where(discovered, time[:, None], old["d"]),
            "f": jnp.where(finished, time[:, None], old["f"]),
            "s_prev": jnp.where(pushed, u[:, None], s_prev),
            "s": jnp.where(begins, next_root, old["s"]),
            "u": u,
            "v": v,
            "s_last": jnp.where(pushes, candidate, u),
            "time": time,
            "frame": jnp.where(
                begins, FRAME.begin, jnp.where(discovers, FRAME.discover, jnp.where(pushes, FRAME.push, FRAME.pop))
            ).astype(jnp.int32),
        }
        return new, ~(root_done & (next_root == n))

    node = jnp.zeros(batch, jnp.int32)
    everyone = jnp.broadcast_to(ids, (batch, n))
    start = {
        "pi": everyone,
        "color": jnp.full((batch, n), WHITE, jnp.int32),
        "d": jnp.zeros((batch, n), real),
        "f": jnp.zeros((batch, n), real),
        "s_prev": everyone,
        "s": node,
        "u": node,
        "v": node,
        "s_last": node,
        "time": jnp.zeros(batch, real),
        "frame": jnp.full(batch, FRAME.begin, jnp.int32),
    }
    return unroll(step, start, steps, show)


BFS = Algorithm("bfs", BFS_SPEC, bfs, ErdosRenyi(source=True), max_steps=lambda n: n)
BFS_SEQUENTIAL = Algorithm(
    "bfs_sequential", BFS_SPEC, bfs_sequential, ErdosRenyi(source=True), max_steps=lambda n: n, variant_of="bfs"
)
DFS = Algorithm("dfs", DFS_SPEC, dfs, ErdosRenyi(directed=True), max_steps=lambda n: 3 * n)
DFS_SIMPLIFIED = Algorithm(
    "dfs_simplified",
    DFS_SIMPLIFIED_SPEC,
    dfs_simplified,
    ErdosRenyi(directed=True),
    max_steps=lambda n: 3 * n,
    variant_of="dfs",
)
