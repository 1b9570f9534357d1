"""Searching a graph: breadth first and depth first, and the two variants of Mind the Gap, D.10."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import ErdosRenyi
from mechgap.algorithms.unroll import NEVER, Show, State, at, frames_before, lowest, one_hot, pointer, smallest, unroll
from mechgap.algorithms.variables import POSITION, node_mark
from mechgap.trace import Kind, Location, Spec, Stage, Variable

GRAPH_INPUTS = (
    Variable("A", Stage.INPUT, Location.EDGE, Kind.SCALAR),
    Variable("adj", Stage.INPUT, Location.EDGE, Kind.MASK),
)
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
        node_mark("s"),
        node_mark("u"),
        node_mark("v"),
        node_mark("s_last"),
        Variable("time", Stage.HINT, Location.GRAPH, Kind.SCALAR),
        PARENT,
    )
)
DFS_SIMPLIFIED_SPEC = Spec((POSITION, *GRAPH_INPUTS, PARENT_HINT, COLOR, PARENT))

TICK = 0.01  # the benchmark's clock; `time` is its running sum, rounding included


class Visits(NamedTuple):
    """A depth-first search, told per node instead of per frame.

    A node is entered (a root begins, any other node is pushed by its parent), discovered in the next frame, and popped
    after everything below it: 3n frames in all. When the node of rank k and depth δ is entered, k nodes have been
    entered and discovered, and all of those but its δ ancestors popped: that is frame 3k - δ. When it is popped, the
    same holds of e nodes, where e is the first later rank that is not below it: frame 3e - δ - 1.
    """

    parent: Int[Array, "batch n"]  # a root's is itself
    entered: Int[Array, "batch n"]  # a frame, as `popped`
    popped: Int[Array, "batch n"]


def dfs(inputs: dict[str, Array], steps: int) -> Run:
    """Depth-first search with an explicit stack: begin, then discover, push or pop, one per frame (3n frames)."""
    n, real = inputs["pos"].shape[-1], inputs["pos"].dtype
    visits, t = search(inputs["A"] != 0), _frames(n, steps)
    return _searched(visits, search_hints(visits, t, real), steps)


def search_hints(visits: Visits, t: Int[Array, "frames 1 1"], real: jnp.dtype) -> dict[str, Array]:
    """The frames of a search that discovers every node in a frame of its own."""
    n = visits.parent.shape[-1]
    # The clock ticks at every frame but the entries.
    time = clock(2 * n, real)[1 + t[..., 0] - jnp.sum(t >= visits.entered, axis=-1, dtype=jnp.int32)]
    d, f = (jnp.take_along_axis(time.T, frame, axis=1) for frame in (visits.entered + 1, visits.popped))
    return {
        **_visited(visits, t, real),
        "d": jnp.where(t > visits.entered, d, 0),
        "f": jnp.where(t >= visits.popped, f, 0),
        **stack_hints(visits, t, real),
        **top_hints(visits, t, t == visits.entered + 1, real),
        "time": time,
    }


def dfs_simplified(inputs: dict[str, Array], steps: int) -> Run:
    """The frames of dfs, of which only the parents and the visitation state are shown (D.10)."""
    n, real = inputs["pos"].shape[-1], inputs["pos"].dtype
    visits = search(inputs["A"] != 0)
    return _searched(visits, _visited(visits, _frames(n, steps), real), steps)


def _frames(n: int, steps: int) -> Int[Array, "frames 1 1"]:
    """The frames to show: a search has 3n of them, neither more nor less."""
    return jnp.arange(min(3 * n, steps), dtype=jnp.int32)[:, None, None]


def _searched(visits: Visits, hints: dict[str, Array], steps: int) -> Run:
    """The run with the given frames: followed by zeros where there is room for more, cut where there is not."""
    batch, n = visits.parent.shape
    frames = min(3 * n, steps)
    padded = {k: jnp.pad(x, [(0, steps - frames)] + [(0, 0)] * (x.ndim - 1)) for k, x in hints.items()}
    pi = jnp.where(visits.entered < frames, visits.parent, jnp.arange(n, dtype=jnp.int32))
    return Run(padded, {"pi": pi}, jnp.full(batch, frames, jnp.int32))


def _visited(visits: Visits, t: Int[Array, "frames 1 1"], real: jnp.dtype) -> dict[str, Array]:
    return {"pi_h": parents_so_far(visits, t, real), "color": colors(visits, t, real)}


def clock(ticks: int, real: jnp.dtype) -> Float[Array, " times"]:
    """The time after each tick."""
    return jnp.asarray(np.cumsum([0.0] + [TICK] * ticks, dtype=real))


def parents_so_far(visits: Visits, t: Int[Array, "frames #batch 1"], real: jnp.dtype) -> Array:
    """Whose child each node is: its own until it is entered."""
    ids = jnp.arange(visits.parent.shape[-1], dtype=jnp.int32)
    return pointer(jnp.where(t >= visits.entered, visits.parent, ids), real)


def colors(visits: Visits, t: Int[Array, "frames #batch 1"], real: jnp.dtype) -> Array:
    """White, grey or black, one-hot."""
    batch, n = visits.parent.shape
    # A root stays white until it is discovered; any other node is grey from the push on.
    grey = visits.entered + (visits.parent == jnp.arange(n))
    # The first frame of each color of each node, and the one after its last.
    first = jnp.stack([jnp.zeros_like(grey), grey, visits.popped], axis=-1).reshape(batch, 3 * n)
    after = jnp.stack([grey, visits.popped, jnp.full_like(grey, NEVER)], axis=-1).reshape(batch, 3 * n)
    color = ((t >= first) & (t < after)).astype(real)
    return color.reshape(len(t), batch, n, 3)


def stack_hints(visits: Visits, t: Int[Array, "frames #batch 1"], real: jnp.dtype) -> dict[str, Array]:
    """Who lies below each node on the stack, and who at the bottom; a popped node is still there in that frame."""
    ids = jnp.arange(visits.parent.shape[-1], dtype=jnp.int32)
    on_stack = (t >= visits.entered) & (t <= visits.popped)
    return {
        "s_prev": pointer(jnp.where(on_stack, visits.parent, ids), real),
        "s": (on_stack & (visits.parent == ids)).astype(real),
    }


def top_hints(
    visits: Visits, t: Int[Array, "frames #batch 1"], discovers: Bool[Array, "frames batch n"], real: jnp.dtype
) -> dict[str, Array]:
    """Where the search is, if every frame enters, discovers or pops the node on top of the stack."""
    n = visits.parent.shape[-1]
    ids = jnp.arange(n, dtype=jnp.int32)
    enters, pops = t == visits.entered, t == visits.popped
    # An entry happens at its parent; the scan's loop variable is the node it entered, or n - 1 if it found none.
    u = jnp.sum(jnp.where(enters, visits.parent, jnp.where(discovers | pops, ids, 0)), axis=-1)
    v = jnp.sum(jnp.where(enters | discovers, ids, jnp.where(pops, n - 1, 0)), axis=-1)
    top = enters | discovers | pops
    return {"u": one_hot(u, n, real), "v": one_hot(v, n, real), "s_last": top.astype(real)}


def search(edge: Bool[Array, "batch n n"], root_order: Int[Array, "batch n"] | None = None) -> Visits:
    """Search from the unvisited node that is first in the given order (by default the lowest), depth first.

    The lowest unvisited neighbour goes first, whatever the order of the roots.
    """
    batch, n, _ = edge.shape
    ids = jnp.arange(n, dtype=jnp.int32)
    into = jnp.swapaxes(edge, 1, 2)

    def row(matrix: Array, node: Int[Array, " batch"]) -> Array:
        return jnp.take_along_axis(matrix, node[:, None, None], axis=1)[:, 0]

    def visit(rank: Int[Array, ""], old: State) -> State:
        # The top of the stack is the latest visited node that has an unvisited neighbour.
        latest = jnp.max(jnp.where(old["unvisited"] > 0, old["visit"], -1), axis=-1)
        top, is_root = latest % n, latest < 0
        may_be_next = (is_root[:, None] | row(edge, top)) & (old["visit"] < 0)
        if root_order is None:
            node = lowest(may_be_next)
        else:
            order = jnp.where(is_root[:, None], root_order * n, 0) + ids
            node = smallest(jnp.where(may_be_next, order, NEVER))[:, 0] % n
        is_node = ids == node[:, None]
        parent = jnp.where(is_root, node, top)
        depth = jnp.where(is_root, 0, 3 * (latest // n) - at(old["entered"], top) + 1)
        return {
            "visit": jnp.where(is_node, rank * n + ids, old["visit"]),
            "unvisited": old["unvisited"] - row(into, node),
            "parent": jnp.where(is_node, parent[:, None], old["parent"]),
            "entered": jnp.where(is_node, 3 * rank - depth[:, None], old["entered"]),
        }

    start = {
        "visit": jnp.full((batch, n), -1, jnp.int32),  # rank * n + node, so that the latest one says who it is
        "unvisited": jnp.sum(edge, axis=-1, dtype=jnp.int32),  # how many neighbours are not visited yet
        "parent": jnp.zeros((batch, n), jnp.int32),
        "entered": jnp.zeros((batch, n), jnp.int32),
    }
    last = jax.lax.fori_loop(0, n, visit, start)
    rank = last["visit"] // n
    depth = 3 * rank - last["entered"]
    earlier, inside = rank[:, None, :] < rank[:, :, None], depth[:, :, None] > depth[:, None, :]  # [B, u, v]
    end = jnp.where(earlier & ~inside, rank[:, :, None], n)
    popped = jnp.min(3 * end - depth[:, None, :] - 1, axis=1)
    return Visits(last["parent"], last["entered"], popped)


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
