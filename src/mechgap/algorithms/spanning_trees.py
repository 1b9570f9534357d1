"""Minimum spanning trees: Prim and Kruskal."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import ErdosRenyi
from mechgap.algorithms.graph_search import GRAPH_INPUTS
from mechgap.algorithms.shortest_paths import grow_tree, queue_spec
from mechgap.algorithms.unroll import NEVER, State, at, expanded, frames_before, pointer, unroll
from mechgap.algorithms.variables import POSITION, node_mark
from mechgap.trace import Kind, Location, Spec, Stage, Variable


def mst_prim(inputs: dict[str, Array], steps: int) -> Run:
    """The node nearest to the tree joins it; its edges offer their own length."""
    return grow_tree(inputs, steps, "key", cumulative=False)


KRUSKAL_MARKS = ("u", "v", "root_u", "root_v")
KRUSKAL_SPEC = Spec(
    (
        POSITION,
        *GRAPH_INPUTS,
        Variable("in_mst", Stage.OUTPUT, Location.EDGE, Kind.MASK),
        Variable("in_mst_h", Stage.HINT, Location.EDGE, Kind.MASK),
        Variable("pi", Stage.HINT, Location.NODE, Kind.POINTER),
        *(node_mark(name) for name in KRUSKAL_MARKS),
        Variable("mask_u", Stage.HINT, Location.NODE, Kind.MASK),
        Variable("mask_v", Stage.HINT, Location.NODE, Kind.MASK),
        Variable("phase", Stage.HINT, Location.GRAPH, Kind.CATEGORICAL, classes=3),
    )
)
DECIDED, FROM_U, FROM_V = range(3)  # the phases of one edge: walk to u's root, walk to v's root, join the two or not


def mst_kruskal(inputs: dict[str, Array], steps: int) -> Run:
    """Edges from light to heavy; one joins the tree if its ends have different roots, the lower root then hangs on the
    higher.

    Only edges from a lower to a higher node count, equal weights in the order of (u, v). Each edge has a frame where it
    is looked at, one per node that is walked over (all walked over are hung on the one arrived at) and one of decision.
    """
    real = inputs["pos"].dtype
    u, v, edges = _by_weight(inputs["A"].astype(real))
    batch, n = inputs["pos"].shape
    ids = jnp.arange(n, dtype=jnp.int32)

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        next_u, next_v = at(old["pi"], old["root_u"]), at(old["pi"], old["root_v"])
        looks = old["phase"] == DECIDED
        from_u = ~looks & (next_u != old["root_u"])
        from_v = ~looks & ~from_u & (next_v != old["root_v"])
        decides = ~looks & ~from_u & ~from_v
        edge = old["edge"] + looks
        pair = jnp.minimum(edge, u.shape[-1] - 1)  # beyond the last edge the execution has ended
        new_u, new_v = jnp.where(looks, at(u, pair), old["u"]), jnp.where(looks, at(v, pair), old["v"])
        root_u = jnp.where(looks, new_u, next_u)
        root_v = jnp.where(looks, new_v, jnp.where(from_v, next_v, old["root_v"]))
        low, high = jnp.minimum(root_u, root_v), jnp.maximum(root_u, root_v)
        # What is hung on another node now, and on which: a path behind the walk, or the lower root.
        walked = (from_u[:, None] & old["mask_u"]) | (from_v[:, None] & old["mask_v"])
        joins = (decides & (low != high))[:, None] & (ids == low[:, None])
        onto = jnp.where(from_u, root_u, jnp.where(from_v, root_v, high))
        new = {
            "pi": jnp.where(walked | joins, onto[:, None], old["pi"]),
            "u": new_u,
            "v": new_v,
            "root_u": root_u,
            "root_v": root_v,
            "mask_u": (old["mask_u"] & ~looks[:, None]) | (ids == root_u[:, None]),
            "mask_v": (old["mask_v"] & ~looks[:, None]) | (ids == root_v[:, None]),
            "phase": jnp.where(decides, DECIDED, jnp.where(from_v, FROM_V, FROM_U)),
            "edge": edge,
            "frame": old["frame"] + 1,
            # A root is hung on another once: it keeps the edge that did it, and the frame.
            "joined": jnp.where(joins, old["frame"][:, None] + 1, old["joined"]),
            "by": jnp.where(joins, (new_u * n + new_v)[:, None], old["by"]),
        }
        return new, edge < edges

    zero, nothing = jnp.zeros(batch, jnp.int32), jnp.zeros((batch, n), bool)
    start = {
        "pi": jnp.broadcast_to(ids, (batch, n)),
        **dict.fromkeys(KRUSKAL_MARKS, zero),
        "mask_u": nothing,
        "mask_v": nothing,
        "phase": zero + DECIDED,
        "edge": zero - 1,
        "frame": zero,
        "joined": jnp.full((batch, n), NEVER, jnp.int32),
        "by": jnp.zeros((batch, n), jnp.int32),
    }

    def show(state: State) -> dict[str, Array]:
        return {
            "pi": pointer(state["pi"], real),
            **{name: state[name].astype(real) for name in ("mask_u", "mask_v")},
            **{name: state[name] for name in (*KRUSKAL_MARKS, "phase")},
        }

    record, last, lengths = unroll(step, start, steps, show)
    rows = jnp.arange(batch)[:, None]
    joined = jnp.full((batch, n * n), NEVER, jnp.int32).at[rows, last["by"]].min(last["joined"]).reshape(batch, n, n)
    joined = jnp.minimum(joined, joined.mT)
    frame = jnp.arange(steps, dtype=jnp.int32)[:, None, None, None]
    hints = {
        **frames_before(lengths, {"in_mst_h": (frame >= joined).astype(real)}),
        **expanded(record, lengths, {**dict.fromkeys(KRUSKAL_MARKS, n), "phase": 3}, real),
    }
    return Run(hints, {"in_mst": (joined < NEVER).astype(real)}, lengths)


def _by_weight(
    A: Array,
) -> tuple[Int[Array, "batch pairs"], Int[Array, "batch pairs"], Int[Array, " batch"]]:
    """The pairs u < v, the edges among them first and from light to heavy; and how many edges there are."""
    n = A.shape[-1]
    pairs = np.stack(np.triu_indices(max(n, 2), 1)).astype(np.int32)
    weight = A[:, *np.minimum(pairs, n - 1)] * (n > 1)  # a single node has no pair: here, one without an edge
    exists = weight > 0
    order = jnp.argsort(jnp.where(exists, weight, jnp.inf), axis=-1, stable=True)
    return jnp.asarray(pairs[0])[order], jnp.asarray(pairs[1])[order], jnp.sum(exists, axis=-1, dtype=jnp.int32)


def most_kruskal_frames(n: int) -> int:
    """Frame 0, and for each edge the first, the last, and two walks.

    A walk of k frames hangs k - 1 nodes higher than they were, since parents are higher than children. That can happen
    n (n - 1) / 2 times in all: as often as there are pairs, so five frames for each pair are enough.
    """
    return 1 + 5 * n * (n - 1) // 2


MST_PRIM = Algorithm(
    "mst_prim", queue_spec("key"), mst_prim, ErdosRenyi(weighted=True, source=True), max_steps=lambda n: n + 1
)
MST_KRUSKAL = Algorithm(
    "mst_kruskal",
    KRUSKAL_SPEC,
    mst_kruskal,
    ErdosRenyi(weighted=True, p=(0.2,)),  # fewer edges than elsewhere in the benchmark
    max_steps=most_kruskal_frames,
    counts_first=True,
    is_sparse=True,
)
