"""What a depth-first search finds on its way: an order, weak spots, components, and shortest paths without cycles."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import Communities, ErdosRenyi
from mechgap.algorithms.graph_search import (
    COLOR,
    GRAPH_INPUTS,
    PARENT,
    PARENT_HINT,
    SOURCE,
    TICK,
    Visits,
    clock,
    colors,
    parents_so_far,
    search,
    search_hints,
    stack_hints,
    top_hints,
)
from mechgap.algorithms.unroll import NEVER, frames_before, one_hot, pointer
from mechgap.algorithms.variables import POSITION, node_mark
from mechgap.trace import Kind, Location, Spec, Stage, Variable


def _node_hint(name: str, kind: Kind) -> Variable:
    return Variable(name, Stage.HINT, Location.NODE, kind)


ORDER_HINTS = (_node_hint("topo_h", Kind.POINTER), node_mark("topo_head_h"))
TIMES = (_node_hint("d", Kind.SCALAR), _node_hint("f", Kind.SCALAR))
BELOW = _node_hint("s_prev", Kind.POINTER)
ROOT = node_mark("s")
TOP = tuple(node_mark(name) for name in ("u", "v", "s_last"))
TIME = Variable("time", Stage.HINT, Location.GRAPH, Kind.SCALAR)
PHASE = Variable("phase", Stage.HINT, Location.GRAPH, Kind.MASK)

TOPOLOGICAL_SORT_SPEC = Spec(
    (
        POSITION,
        *GRAPH_INPUTS,
        *ORDER_HINTS,
        COLOR,
        BELOW,
        ROOT,
        *TOP,
        Variable("topo", Stage.OUTPUT, Location.NODE, Kind.POINTER),
        Variable("topo_head", Stage.OUTPUT, Location.NODE, Kind.MASK_ONE),
    )
)


def topological_sort(inputs: dict[str, Array], steps: int) -> Run:
    """Depth-first search; a node goes in front of the chain when it is popped."""
    n, real = inputs["pos"].shape[-1], inputs["pos"].dtype
    visits = _brief(search(inputs["A"] != 0))
    lengths = jnp.minimum(jnp.max(visits.popped, axis=-1) + 1, steps)
    t = _frames(steps)
    hints = {
        "topo_h": pointer(_chain(visits, t), real),
        "topo_head_h": one_hot(_head(visits, t), n, real),
        "color": colors(visits, t, real),
        **stack_hints(visits, t, real),
        **top_hints(visits, t, _discovers_root(visits, t), real),
    }
    last = lengths[None, :, None] - 1
    outputs = {"topo": _chain(visits, last)[0], "topo_head": one_hot(_head(visits, last)[0], n, real)}
    return Run(frames_before(lengths, hints), outputs, lengths)


def _frames(steps: int) -> Int[Array, "frames 1 1"]:
    return jnp.arange(steps, dtype=jnp.int32)[:, None, None]


def _moved(
    frame: Int[Array, "batch events"], at: Int[Array, "batch n"], by: Int[Array, "batch n"]
) -> Int[Array, "batch events"]:
    """When an event happens after frames were put in, or taken out: `by` of them at `at`, for each node."""
    return frame + jnp.sum(jnp.where(at[:, None, :] <= frame[:, :, None], by[:, None, :], 0), axis=-1, dtype=jnp.int32)


def _brief(visits: Visits) -> Visits:
    """The same search where only roots have a frame for their discovery: a node that was pushed is grey already."""
    taken_out = -(visits.parent != jnp.arange(visits.parent.shape[-1])).astype(jnp.int32)
    entered, popped = (_moved(frame, visits.entered + 1, taken_out) for frame in (visits.entered, visits.popped))
    return Visits(visits.parent, entered, popped)


def _discovers_root(visits: Visits, t: Int[Array, "frames #batch 1"]) -> Bool[Array, "frames batch n"]:
    return (t == visits.entered + 1) & (visits.parent == jnp.arange(visits.parent.shape[-1]))


def _chain(visits: Visits, t: Int[Array, "frames #batch 1"]) -> Int[Array, "frames batch n"]:
    """Whom each node stands in front of: the one popped before it. The last points to itself, as all do at first."""
    ids = jnp.arange(visits.parent.shape[-1], dtype=jnp.int32)
    earlier = visits.popped[:, None, :] < visits.popped[:, :, None]  # [B, node, other]
    previous = jnp.max(jnp.where(earlier, visits.popped[:, None, :], -1), axis=-1)
    is_previous = visits.popped[:, None, :] == previous[:, :, None]
    follower = jnp.where(previous < 0, ids, jnp.sum(jnp.where(is_previous, ids, 0), axis=-1, dtype=jnp.int32))
    return jnp.where(t >= visits.popped, follower, ids)


def _head(visits: Visits, t: Int[Array, "frames #batch 1"]) -> Int[Array, "frames batch"]:
    """The node popped latest, and node 0 before there is one."""
    n = visits.parent.shape[-1]
    # The frame and the node in one number, so that one maximum finds both.
    event = jnp.minimum(visits.popped, NEVER // n - 1) * n + jnp.arange(n, dtype=jnp.int32)
    return jnp.max(jnp.where(t >= visits.popped, event, 0), axis=-1) % n


DAG_SHORTEST_PATHS_SPEC = Spec(
    (
        POSITION,
        SOURCE,
        *GRAPH_INPUTS,
        PARENT_HINT,
        _node_hint("d", Kind.SCALAR),
        _node_hint("mark", Kind.MASK),
        *ORDER_HINTS,
        COLOR,
        BELOW,
        *TOP,
        PHASE,
        PARENT,
    )
)


def dag_shortest_paths(inputs: dict[str, Array], steps: int) -> Run:
    """Sort what the source reaches (phase 0), then relax the edges of one node per frame in that order (phase 1)."""
    A, source = inputs["A"].astype(inputs["pos"].dtype), inputs["s"] > 0
    n, real = A.shape[-1], A.dtype
    ids = jnp.arange(n, dtype=jnp.int32)
    searched = search(A != 0, root_order=jnp.where(source, 0, 1 + ids))
    # The first tree is all there is: of the other nodes nothing ever happens.
    frames = 1 + jnp.sum(jnp.where(source, searched.popped, 0), axis=-1, keepdims=True, dtype=jnp.int32)
    reached, count = searched.entered < frames, frames[:, 0] // 3
    brief = _brief(searched)
    visits = Visits(searched.parent, jnp.where(reached, brief.entered, NEVER), jnp.where(reached, brief.popped, NEVER))
    lengths = jnp.minimum(3 * count + 1, steps)
    t = _frames(steps)
    sorting = 2 * count + 1  # the frames of phase 0
    in_search = jnp.minimum(t, sorting[:, None] - 1)  # afterwards the stack stays as it is
    d, pi, taken = _relaxed(A, source, visits, count)
    relaxations = jnp.clip(t[..., 0] - sorting, 0, count - 1)
    d, pi, taken = (x[relaxations, jnp.arange(len(count))] for x in (d, pi, taken))
    second = t >= sorting[:, None]
    head = jnp.where(second[..., 0], taken, _head(visits, in_search))
    hints = {
        "pi_h": pointer(pi, real),
        "d": d,
        "mark": (second & (source | (pi != ids))).astype(real),
        "topo_h": pointer(_chain(visits, in_search), real),
        "topo_head_h": one_hot(head, n, real),
        "color": colors(visits, in_search, real),
        "s_prev": stack_hints(visits, in_search, real)["s_prev"],  # the bottom of the stack is the input s
        **top_hints(visits, in_search, _discovers_root(visits, in_search), real),
        "phase": second[..., 0].astype(real),
    }
    last = jnp.take_along_axis(pi, lengths[None, :, None] - 1, axis=0)[0]
    return Run(frames_before(lengths, hints), {"pi": last}, lengths)


def _relaxed(
    A: Float[Array, "batch n n"], source: Bool[Array, "batch n"], visits: Visits, count: Int[Array, " batch"]
) -> tuple[Float[Array, "n batch n"], Int[Array, "n batch n"], Int[Array, "n batch"]]:
    """Distances and parents after k relaxations, and the node that comes next; the last in order is not relaxed."""
    n = A.shape[-1]
    ids = jnp.arange(n, dtype=jnp.int32)
    # Popped last, taken first; the nodes that are never popped come last.
    popped_later = jnp.sum(visits.popped[:, :, None] < visits.popped[:, None, :], axis=-1, dtype=jnp.int32)
    place = jnp.where(visits.popped < NEVER, popped_later - (n - count[:, None]), n)
    taken = jnp.sum(jnp.where(place == jnp.arange(n)[:, None, None], ids, 0), axis=-1, dtype=jnp.int32)

    def relax(state: tuple[Array, Array], at: tuple[Array, Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        (d, pi), (k, node) = state, at
        edge = jnp.take_along_axis(A, node[:, None, None], axis=1)[:, 0]
        offered = jnp.take_along_axis(d, node[:, None], axis=1) + edge
        marked = source | (pi != ids)
        takes = (edge != 0) & (~marked | (offered < d)) & (k + 1 < count)[:, None]
        return (jnp.where(takes, offered, d), jnp.where(takes, node[:, None], pi)), state

    start = jnp.zeros(source.shape, A.dtype), jnp.broadcast_to(ids, source.shape)
    _, (d, pi) = jax.lax.scan(relax, start, (jnp.arange(n), taken))
    return d, pi, taken


STRONGLY_CONNECTED_COMPONENTS_SPEC = Spec(
    (
        POSITION,
        *GRAPH_INPUTS,
        _node_hint("scc_id_h", Kind.POINTER),
        Variable("A_t", Stage.HINT, Location.EDGE, Kind.MASK),
        COLOR,
        *TIMES,
        BELOW,
        ROOT,
        *TOP,
        TIME,
        PHASE,
        Variable("scc_id", Stage.OUTPUT, Location.NODE, Kind.POINTER),
    )
)


def strongly_connected_components(inputs: dict[str, Array], steps: int) -> Run:
    """Search (phase 0), then search backwards from the node that was popped last (phase 1): a tree is a component."""
    edge = inputs["A"] != 0
    batch, n, _ = edge.shape
    real = inputs["pos"].dtype
    ids = jnp.arange(n, dtype=jnp.int32)
    # Phase 0 is dfs, of which every execution has 3n frames.
    forward = search(edge)
    first = search_hints(forward, _frames(min(3 * n, steps)), real)
    backward = _brief(search(edge.mT, root_order=3 * n - forward.popped))
    is_root = backward.parent == ids
    t = _frames(max(steps - 3 * n, 0))
    # The clock goes on, and ticks at every frame but the entries. Only roots are discovered a second time.
    times = clock(4 * n, real)
    tick = 2 * n + 1 + t[..., 0] - jnp.sum(t >= backward.entered, axis=-1, dtype=jnp.int32)
    time = times[jnp.minimum(tick, 4 * n)]
    (d, f), (d_again, f_again) = (
        [times[_ticks(visits, frame) + before] for frame in (visits.entered + 1, visits.popped)]
        for visits, before in ((forward, 0), (backward, 2 * n))
    )
    component = _root(backward)
    second = {
        "color": colors(backward, t, real),
        "d": jnp.where(is_root & (t > backward.entered), d_again, d),
        "f": jnp.where(t >= backward.popped, f_again, f),
        **stack_hints(backward, t, real),
        **top_hints(backward, t, _discovers_root(backward, t), real),
        "time": time,
    }
    t = _frames(steps)
    joined = 3 * n + backward.entered + 1  # a node learns its component in the frame after it is entered
    lengths = jnp.minimum(3 * n + jnp.max(backward.popped, axis=-1) + 1, steps)
    hints = {
        **{name: jnp.concatenate([first[name], x]) for name, x in second.items()},
        "scc_id_h": pointer(jnp.where(t >= joined, component, ids), real),
        "A_t": jnp.broadcast_to((edge.mT | jnp.eye(n, dtype=bool)).astype(real), (steps, batch, n, n)),
        "phase": jnp.broadcast_to((t[..., 0] >= 3 * n).astype(real), (steps, batch)),
    }
    scc_id = jnp.where(lengths[:, None] > joined, component, ids)
    return Run(frames_before(lengths, hints), {"scc_id": scc_id}, lengths)


def _ticks(visits: Visits, frame: Int[Array, "batch events"]) -> Int[Array, "batch events"]:
    """How often the clock has ticked by a frame: once in every frame that enters no node."""
    return 1 + _moved(frame, visits.entered, -jnp.ones_like(visits.entered))


def _root(visits: Visits) -> Int[Array, "batch n"]:
    """The root of each node's tree: the latest root entered before it."""
    n = visits.parent.shape[-1]
    ids = jnp.arange(n, dtype=jnp.int32)
    event = jnp.where(visits.parent == ids, visits.entered * n + ids, -1)[:, None, :]
    return jnp.max(jnp.where(visits.entered[:, None, :] <= visits.entered[:, :, None], event, -1), axis=-1) % n


def _low_points_spec(found: tuple[Variable, Variable], *more: Variable) -> Spec:
    hint, output = found
    search = (PARENT_HINT, COLOR, *TIMES, _node_hint("low", Kind.SCALAR), *more, BELOW, ROOT, *TOP, TIME)
    return Spec((POSITION, *GRAPH_INPUTS, hint, *search, output))


ARTICULATION_POINTS_SPEC = _low_points_spec(
    (_node_hint("is_cut_h", Kind.MASK), Variable("is_cut", Stage.OUTPUT, Location.NODE, Kind.MASK)),
    _node_hint("child_cnt", Kind.SCALAR),
)
BRIDGES_SPEC = _low_points_spec(
    (
        Variable("is_bridge_h", Stage.HINT, Location.EDGE, Kind.MASK),
        Variable("is_bridge", Stage.OUTPUT, Location.EDGE, Kind.MASK),
    )
)


def articulation_points(inputs: dict[str, Array], steps: int) -> Run:
    """A node cuts the graph if the search below one of its children never reaches above it; a root, if it has two."""
    real = inputs["pos"].dtype
    ids = jnp.arange(inputs["pos"].shape[-1], dtype=jnp.int32)
    found = _low_points(inputs, steps)
    parent = found.visits.parent
    is_child = (parent[:, None, :] == ids[:, None]) & (ids[:, None] != ids)  # [B, node, child]
    stuck = jnp.any(is_child & (found.low[:, None, :] >= found.d[:, :, None]), axis=-1)
    is_cut = jnp.where(parent == ids, jnp.sum(is_child, axis=-1) > 1, stuck)
    cut_at = jnp.where(is_cut, found.visits.popped, NEVER)
    hints = {**found.hints, "is_cut_h": (_frames(steps) >= cut_at).astype(real)}
    outputs = {"is_cut": (found.lengths[:, None] > cut_at).astype(real)}
    return Run(frames_before(found.lengths, hints), outputs, found.lengths)


def bridges(inputs: dict[str, Array], steps: int) -> Run:
    """A tree edge is a bridge if the search below it never reaches its upper end or above."""
    real, edge = inputs["pos"].dtype, inputs["A"] != 0
    n = edge.shape[-1]
    ids = jnp.arange(n, dtype=jnp.int32)
    found = _low_points(inputs, steps)
    parent = found.visits.parent
    stuck = (parent[:, None, :] == ids[:, None]) & (found.low[:, None, :] > found.d[:, :, None])  # [B, parent, child]
    found_at = jnp.where(stuck, found.visits.popped[:, :, None], NEVER)
    found_at = jnp.minimum(found_at, found_at.mT)  # both directions, even if there is an edge in one only
    at_first = jnp.where(edge | jnp.eye(n, dtype=bool), 0.0, -1.0).astype(real)  # -1: no edge, not to be judged
    hints = {**found.hints, "is_bridge_h": jnp.where(_frames(steps)[..., None] >= found_at, 1, at_first)}
    del hints["child_cnt"]
    outputs = {"is_bridge": jnp.where(found.lengths[:, None, None] > found_at, 1, at_first)}
    return Run(frames_before(found.lengths, hints), outputs, found.lengths)


class _Scans(NamedTuple):
    """A search that also looks at the visited neighbours, each time it scans a node's neighbours from the first.

    A scan ends with an entry or, where nothing is left to enter, with the pop. It has a frame for each neighbour
    before that end but the node's parent: all of them are visited, or the scan would have entered them.
    """

    visits: Visits
    seen: Bool[Array, "batch n n"]  # the neighbours with a frame in the scans of a node
    place: Int[Array, "batch n n"]  # the frame of each in the scan
    before_entry: Int[Array, "batch n"]  # how many frames the scan has that ends with a node's entry
    before_pop: Int[Array, "batch n"]
    lengths: Int[Array, " batch"]


def _scans(edge: Bool[Array, "batch n n"]) -> tuple[Visits, _Scans]:
    """The search without and with the frames of its scans."""
    n = edge.shape[-1]
    ids = jnp.arange(n, dtype=jnp.int32)
    plain = search(edge)
    seen = edge & (plain.parent[:, :, None] != ids)
    # A product with a triangle of ones counts the earlier ones, faster than a running sum and as exactly.
    place = (seen.astype(jnp.float32) @ jnp.triu(jnp.ones((n, n), jnp.float32), 1)).astype(jnp.int32)
    at_parent = jnp.take_along_axis(place, plain.parent[:, None, :], axis=1)[:, 0]
    before_entry = jnp.where(plain.parent == ids, 0, at_parent)
    before_pop = jnp.sum(seen, axis=-1, dtype=jnp.int32)

    def with_scans(frame: Int[Array, "batch n"]) -> Int[Array, "batch n"]:
        return _moved(frame, plain.entered, before_entry) + _moved(frame, plain.popped, before_pop) - frame

    visits = Visits(plain.parent, with_scans(plain.entered), with_scans(plain.popped))
    lengths = 3 * n + jnp.sum(before_entry + before_pop, axis=-1, dtype=jnp.int32)
    return plain, _Scans(visits, seen, place, before_entry, before_pop, lengths)


class _LowPoints(NamedTuple):
    """How far up each node's subtree reaches, and the frames in which that is found out."""

    visits: Visits
    d: Float[Array, "batch n"]  # when each node was discovered
    low: Float[Array, "batch n"]  # the earliest discovered node that it or a node below it has an edge to
    hints: dict[str, Array]
    lengths: Int[Array, " batch"]


def _low_points(inputs: dict[str, Array], steps: int) -> _LowPoints:
    n, real = inputs["pos"].shape[-1], inputs["pos"].dtype
    plain, scans = _scans(inputs["A"] != 0)
    visits, t = scans.visits, _frames(steps)
    times = clock(2 * n, real)
    d, f = (times[_ticks(plain, frame)] for frame in (plain.entered + 1, plain.popped))
    discovered = visits.entered + 1
    ticks = jnp.sum((t >= discovered).astype(jnp.int32) + (t >= visits.popped), axis=-1, dtype=jnp.int32)
    focus = _focus(scans, t)
    sample = jnp.arange(len(d))
    # A discovery counts as a look at itself: there the low point starts.
    met = jnp.where(focus.looks | focus.discovers, d[sample, focus.v], jnp.inf)
    low, child_count = _record_low_points(visits.parent, focus, met)
    hints = {
        "pi_h": parents_so_far(visits, t, real),
        "color": colors(visits, t, real),
        "d": jnp.where(t >= discovered, d, 0),
        "f": jnp.where(t >= visits.popped, f, 0),
        "low": jnp.where(t >= discovered, low, 0),
        "child_cnt": child_count,
        **stack_hints(visits, t, real),
        "u": one_hot(focus.u, n, real),
        "v": one_hot(focus.v, n, real),
        "s_last": one_hot(focus.top, n, real),
        "time": times[ticks],
    }
    return _LowPoints(visits, d, low[-1], hints, jnp.minimum(scans.lengths, steps))


class _Focus(NamedTuple):
    """Where the search is in each frame, and what it does there; exactly one of the four, or it begins a root."""

    u: Int[Array, "frames batch"]
    v: Int[Array, "frames batch"]
    top: Int[Array, "frames batch"]
    looks: Bool[Array, "frames batch"]
    discovers: Bool[Array, "frames batch"]
    pushes: Bool[Array, "frames batch"]
    pops: Bool[Array, "frames batch"]


def _focus(scans: _Scans, t: Int[Array, "frames 1 1"]) -> _Focus:
    batch, n = scans.visits.parent.shape
    ids = jnp.arange(n, dtype=jnp.int32)
    parent, entered, popped = scans.visits
    enters, discovers, pops = t == entered, t == entered + 1, t == popped
    into, out = t - entered + scans.before_entry, t - popped + scans.before_pop  # the frame of the scan
    looks_before_entry, looks_before_pop = (into >= 0) & (t < entered), (out >= 0) & (t < popped)

    def of_the_one(*cases: tuple[Array, Array | int]) -> Int[Array, "frames batch"]:
        """In each frame one node is in one of the cases: what the case says of it."""
        value: Array = jnp.zeros((), jnp.int32)
        for case, said in cases:
            value = jnp.where(case, said, value)
        return jnp.sum(value, axis=-1, dtype=jnp.int32)

    stays = discovers | looks_before_pop | pops
    u = of_the_one((enters | looks_before_entry, parent), (stays, ids))
    top = of_the_one((looks_before_entry, parent), (enters | stays, ids))
    at_event = of_the_one((enters | discovers, ids), (pops, n - 1))
    place = of_the_one((looks_before_entry, into), (looks_before_pop, out))
    looks = jnp.any(looks_before_entry | looks_before_pop, axis=-1)
    places = jnp.where(scans.seen, scans.place, -1)[jnp.arange(batch), u]  # [T, B, n]: of the neighbours of u
    looked_at = jnp.sum(jnp.where(places == place[..., None], ids, 0), axis=-1, dtype=jnp.int32)
    return _Focus(
        u,
        jnp.where(looks, looked_at, at_event),
        top,
        looks,
        jnp.any(discovers, axis=-1),
        jnp.any(enters & (parent != ids), axis=-1),
        jnp.any(pops, axis=-1),
    )


def _record_low_points(
    parent: Int[Array, "batch n"], focus: _Focus, met: Float[Array, "frames batch"]
) -> tuple[Float[Array, "frames batch n"], Float[Array, "frames batch n"]]:
    """Each frame's low points, infinite where nothing is known, and child counts.

    Args:
        parent: of each node, in the end.
        focus: where the search is.
        met: when the node that u looks at was discovered; infinite where it looks at none.
    """
    ids = jnp.arange(parent.shape[-1], dtype=jnp.int32)

    def advance(state: tuple[Array, Array], frame: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple]:
        (low, child_count), (u, met, pops, pushes) = state, frame
        below = jnp.where((parent == u[:, None]) & pops[:, None], low, jnp.inf)
        lowest = jnp.minimum(met, jnp.min(below, axis=-1))
        is_u = ids == u[:, None]
        low = jnp.where(is_u, jnp.minimum(low, lowest[:, None]), low)
        child_count = child_count + jnp.where(is_u & pushes[:, None], jnp.asarray(TICK, met.dtype), 0)
        return (low, child_count), (low, child_count)

    start = jnp.full(parent.shape, jnp.inf, met.dtype), jnp.zeros(parent.shape, met.dtype)
    return jax.lax.scan(advance, start, (focus.u, met, focus.pops, focus.pushes))[1]


def _most_scan_frames(n: int) -> int:
    """A scan that ends with the entry of w has at most w frames, one that ends with a pop at most n - 1."""
    return 3 * n + 3 * n * (n - 1) // 2


TOPOLOGICAL_SORT = Algorithm(
    "topological_sort",
    TOPOLOGICAL_SORT_SPEC,
    topological_sort,
    ErdosRenyi(directed=True, acyclic=True),
    max_steps=lambda n: 3 * n,
)
ARTICULATION_POINTS = Algorithm(
    "articulation_points",
    ARTICULATION_POINTS_SPEC,
    articulation_points,
    ErdosRenyi(p=(0.2,)),
    max_steps=_most_scan_frames,
    counts_first=True,
    is_sparse=True,
)
BRIDGES = Algorithm(
    "bridges",
    BRIDGES_SPEC,
    bridges,
    ErdosRenyi(p=(0.2,)),
    max_steps=_most_scan_frames,
    counts_first=True,
    is_sparse=True,
)
STRONGLY_CONNECTED_COMPONENTS = Algorithm(
    "strongly_connected_components",
    STRONGLY_CONNECTED_COMPONENTS_SPEC,
    strongly_connected_components,
    Communities(),
    max_steps=lambda n: 6 * n,
)
DAG_SHORTEST_PATHS = Algorithm(
    "dag_shortest_paths",
    DAG_SHORTEST_PATHS_SPEC,
    dag_shortest_paths,
    ErdosRenyi(directed=True, acyclic=True, weighted=True, source=True),
    max_steps=lambda n: 3 * n + 1,
)
