"""Points in the plane: do two segments cross, and which points are the convex hull's (Graham, Jarvis)."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import PointsInDisk, TwoSegments
from mechgap.algorithms.rows import NOTHING, Access, short, unroll_rows
from mechgap.algorithms.unroll import State, frames_before, lowest, marks, one_hot, pointer, smallest
from mechgap.algorithms.variables import ORDER_HINT, POSITION, node_mark
from mechgap.trace import Kind, Location, Spec, Stage, Variable

POINTS = (
    POSITION,
    Variable("x", Stage.INPUT, Location.NODE, Kind.SCALAR),
    Variable("y", Stage.INPUT, Location.NODE, Kind.SCALAR),
)
IN_HULL = Variable("in_hull", Stage.OUTPUT, Location.NODE, Kind.MASK)
IN_HULL_HINT = Variable("in_hull_h", Stage.HINT, Location.NODE, Kind.MASK)


def _phase(classes: int) -> Variable:
    return Variable("phase", Stage.HINT, Location.GRAPH, Kind.CATEGORICAL, classes=classes)


SEGMENTS_SPEC = Spec(
    (
        *POINTS,
        Variable("intersect", Stage.OUTPUT, Location.GRAPH, Kind.MASK),
        node_mark("i"),
        node_mark("j"),
        node_mark("k"),
        Variable("dir", Stage.HINT, Location.NODE, Kind.SCALAR),
        Variable("on_seg", Stage.HINT, Location.NODE, Kind.MASK),
    )
)
GRAHAM_SPEC = Spec(
    (
        *POINTS,
        IN_HULL,
        node_mark("best"),
        Variable("atans", Stage.HINT, Location.NODE, Kind.SCALAR),
        IN_HULL_HINT,
        Variable("stack_prev", Stage.HINT, Location.NODE, Kind.POINTER),
        node_mark("last_stack"),
        node_mark("i"),
        _phase(5),
    )
)
JARVIS_SPEC = Spec(
    (
        *POINTS,
        IN_HULL,
        ORDER_HINT,
        IN_HULL_HINT,
        node_mark("best"),
        node_mark("last_point"),
        node_mark("endpoint"),
        node_mark("i"),
        _phase(2),
    )
)


def cross(ax: Array, ay: Array, bx: Array, by: Array) -> Array:
    """The cross product of two vectors, a times b, each of its three operations rounded as in NumPy.

    XLA would fuse a product and the difference into one operation, which rounds once. Then points in a line, whose two
    products are equal, would have a cross product other than 0. The maximum changes no number and stands in between.
    """
    least = jnp.finfo(ax.dtype).min
    return jnp.maximum(ax * by, least) - jnp.maximum(ay * bx, least)


def no_left_turn(ax: Array, ay: Array, bx: Array, by: Array) -> Array:
    """Whether the cross product is at most 0: comparing its two products says so, too, and takes less."""
    return ax * by <= ay * bx


def segments_intersect(inputs: dict[str, Array], steps: int) -> Run:
    """Frame k + 1 says on which side of the other segment, from i to j, point k is, and whether in its bounding box."""
    x, y, real = inputs["x"], inputs["y"], inputs["pos"].dtype
    i, j, k = np.array([2, 2, 0, 0]), np.array([3, 3, 1, 1]), np.arange(4)
    side = cross(x - x[:, i], y - y[:, i], x[:, j] - x[:, i], y[:, j] - y[:, i])
    inside = jnp.ones(side.shape, bool)
    for along in (x, y):
        inside &= jnp.minimum(along[:, i], along[:, j]) <= along
        inside &= along <= jnp.maximum(along[:, i], along[:, j])
    apart = (side[:, ::2] > 0) & (side[:, 1::2] < 0) | (side[:, ::2] < 0) & (side[:, 1::2] > 0)
    touches = (side == 0) & inside
    intersect = jnp.all(apart, axis=-1) | jnp.any(touches, axis=-1)

    batch, frame = len(x), np.arange(steps)
    known = jnp.asarray(k < frame[:, None])[:, None]
    looked_at = {
        name: np.concatenate([[0], nodes])[np.minimum(frame, 4)] for name, nodes in (("i", i), ("j", j), ("k", k))
    }
    hints = {
        **{
            name: jnp.broadcast_to(one_hot(jnp.asarray(nodes), 4, real)[:, None], (steps, batch, 4))
            for name, nodes in looked_at.items()
        },
        "dir": jnp.where(known, side, 0.0).astype(real),
        "on_seg": (known & inside).astype(real),
    }
    lengths = jnp.full(batch, min(5, steps), jnp.int32)
    return Run(frames_before(lengths, hints), {"intersect": intersect.astype(real)}, lengths)


class Lowest(NamedTuple):
    """Of the points with the smallest y, the leftmost; of equal ones, the first."""

    node: Int[Array, " batch"]
    x: Float[Array, "batch 1"]
    y: Float[Array, "batch 1"]


def _lowest_point(x: Float[Array, "batch n"], y: Float[Array, "batch n"]) -> Lowest:
    low = smallest(y)
    left = smallest(jnp.where(y == low, x, jnp.inf))
    return Lowest(lowest((y == low) & (x == left)), left, low)


def graham_scan(inputs: dict[str, Array], steps: int) -> Run:
    """The points by their angle around the lowest one go on a stack, off which those that then lie inside come first.

    Frames 0 to 2: nothing, the lowest point, the angles. Then each frame takes one point off the stack (phase 3) or
    puts one on it (phase 4). A point goes on once and comes off at most once, so two frame numbers per point say all.

    Where three points or more have the smallest angle, the benchmark takes the lowest point off, too, and never ends
    (as it may where two points are the lowest); here, that point stays.
    """
    x, y, real = inputs["x"], inputs["y"], inputs["pos"].dtype
    batch, n = x.shape
    best = _lowest_point(x, y)
    is_best = jnp.arange(n, dtype=jnp.int32) == best.node[:, None]
    angle = jnp.arctan2(y - best.y, x - best.x)
    angle = jnp.where(is_best, 0.0, angle)
    scan = _scan(x, y, _ascending(jnp.where(is_best, -1.0, angle)), steps)
    # Small integers: more of them go into one instruction, and all of them into the nearest cache.
    t = jnp.arange(steps, dtype=scan.on.dtype)[:, None, None]
    ids = jnp.arange(n, dtype=scan.on.dtype)
    end = jnp.broadcast_to(scan.lengths[:, None], (batch, n)).astype(t.dtype)
    on_stack = (scan.on <= t) & (t < jnp.minimum(scan.off, end))
    previous = jnp.where(on_stack, scan.below, jnp.where(t < end, ids, 0))
    changes = jnp.where(scan.candidate == scan.top, 4, 3)
    frame = jnp.arange(steps, dtype=jnp.int32)[:, None]
    phase = jnp.where(frame < scan.lengths, jnp.where(frame < 3, frame, changes), NOTHING)
    hints = {
        "best": marks(t < jnp.where(is_best, end, 0), real).at[0].set(marks(ids == 0, real)),
        "atans": jnp.where((t >= 2) & (t < end), angle, 0.0).astype(real),
        "in_hull_h": marks(on_stack, real),
        "stack_prev": pointer(previous.astype(jnp.int32), real),
        "last_stack": one_hot(scan.top, n, real),
        "i": one_hot(scan.candidate, n, real),
        "phase": one_hot(phase, 5, real),
    }
    last = min(max(steps - 1, 2), 2 * n)  # what is on the stack where the execution ends or is cut
    in_hull = (scan.on <= last) & (scan.off > last)
    return Run(hints, {"in_hull": marks(in_hull, real)}, scan.lengths)


def _ascending(key: Float[Array, "batch n"]) -> Int[Array, "batch n"]:
    """The order of the keys, equal ones by index: by counting what comes before each, as XLA's sort takes long."""
    batch, n = key.shape
    ids = np.arange(n, dtype=np.int32)
    one, other = key[:, :, None], key[:, None, :]
    before = jnp.where(jnp.asarray(ids[:, None] < ids), one <= other, one < other).astype(jnp.int32)
    while before.shape[1] % 2 == 0:  # halves first, as in `smallest`: one pass, and nothing is kept in between
        half = before.shape[1] // 2
        before = before[:, :half] + before[:, half:]
    place = jnp.sum(before, axis=1, dtype=jnp.int32) + n * jnp.arange(batch, dtype=jnp.int32)[:, None]
    order = jnp.zeros(batch * n, jnp.int32).at[place.reshape(-1)]
    return order.set(jnp.tile(ids, batch), unique_indices=True, mode="promise_in_bounds").reshape(batch, n)


class Scan(NamedTuple):
    """Graham's scan; a frame beyond the last, 2n + 1, is the one of what does not happen."""

    top: Int[Array, "steps batch"]  # of the stack
    candidate: Int[Array, "steps batch"]
    on: Int[Array, "batch n"]  # the frame in which a point goes on the stack
    off: Int[Array, "batch n"]  # and in which it comes off
    below: Int[Array, "batch n"]  # the point under it; under the lowest one, itself
    lengths: Int[Array, " batch"]


def _scan(x: Float[Array, "batch n"], y: Float[Array, "batch n"], order: Int[Array, "batch n"], steps: int) -> Scan:
    batch, n = x.shape
    best, never = order[:, 0], 2 * n + 1
    small = short(max(never, steps))

    def step(old: State, memory: State, rows: Access, t: Array) -> tuple[State, State, State]:
        place, top, below = old["place"], old["top"], old["below"]
        candidate = rows.get(order, place)
        bx, by = rows.get(x, below), rows.get(y, below)
        ax, ay = rows.get(x, top) - bx, rows.get(y, top) - by
        inside = no_left_turn(ax, ay, rows.get(x, candidate) - bx, rows.get(y, candidate) - by)
        off = (place >= 3) & inside & (top != below)
        memory = {
            "turned": rows.put(memory["turned"], jnp.where(off, n + top, candidate), t),
            "below": rows.put(memory["below"], jnp.where(off, top, candidate), jnp.where(off, below, top)),
        }
        top = jnp.where(off, below, candidate)
        new = {"place": place + ~off, "top": top, "below": rows.get(memory["below"], top).astype(jnp.int32)}
        return new, memory, {"top": top.astype(small), "candidate": candidate.astype(small)}

    ids, t = jnp.arange(n, dtype=jnp.int32), jnp.arange(steps, dtype=jnp.int32)[:, None]
    turned = jnp.concatenate([jnp.where(ids == best[:, None], 1, never), jnp.full((batch, n), never)], axis=1)
    shown = jnp.where(t < 3, jnp.where(t == 0, 0, best), NOTHING).astype(small)
    record, memory, lengths = unroll_rows(
        step,
        lambda state: state["place"] < n,
        {"place": jnp.ones(batch, jnp.int32), "top": best, "below": best},  # the candidate's place in the order
        {"turned": turned.astype(small), "below": jnp.broadcast_to(ids, (batch, n)).astype(small)},
        {"top": shown, "candidate": shown},
        first=3,
    )
    on, off = memory["turned"][:, :n], memory["turned"][:, n:]
    return Scan(record["top"], record["candidate"], on, off, memory["below"], lengths)


def jarvis_march(inputs: dict[str, Array], steps: int) -> Run:
    """From the lowest point on, the next hull point is the one that has no other to its right.

    Frame 0 is empty. Each round has a frame for its start and one for each point, and the last comes back to the hull.
    """
    x, y, real = inputs["x"], inputs["y"], inputs["pos"].dtype
    batch, n = x.shape
    best = _lowest_point(x, y).node
    march = _march(x, y, best, steps)
    ids, t = jnp.arange(n, dtype=jnp.int32), np.arange(steps, dtype=np.int32)
    number, point = np.divmod(t - 1, np.int32(n + 1))  # the round, -1 at frame 0; 0 at its start, then 1 + the point
    begun, seen = number >= 0, np.where(number < 0, 0, np.maximum(point - 1, 0))
    inside = jnp.asarray(t)[:, None] < march.lengths
    inside_of_nodes = jnp.asarray(t)[:, None, None] < jnp.broadcast_to(march.lengths[:, None], (batch, n))

    def marked(index: Int[Array, "steps #batch"], classes: int) -> Float[Array, "steps batch classes"]:
        return one_hot(jnp.where(inside, index, NOTHING), classes, real)

    hints = {
        "pred_h": pointer(jnp.where(inside_of_nodes, jnp.maximum(ids - 1, 0), 0), real),
        "in_hull_h": marks((march.joined <= jnp.asarray(number)[:, None, None]) & inside_of_nodes, real),
        "best": marked(jnp.where(jnp.asarray(begun)[:, None], best, 0), n),
        "last_point": one_hot(march.point, n, real),
        "endpoint": one_hot(march.endpoint, n, real),
        "i": marked(jnp.asarray(seen)[:, None], n),
        "phase": marked(jnp.asarray(begun, jnp.int32)[:, None], 2),
    }
    return Run(hints, {"in_hull": marks(march.joined < n, real)}, march.lengths)


class March(NamedTuple):
    """Jarvis's march: in each round one hull point looks along all points for the next one."""

    point: Int[Array, "steps batch"]  # the round's hull point
    endpoint: Int[Array, "steps batch"]  # the outermost so far
    joined: Int[Array, "batch n"]  # the round that starts from this point, n where none does
    lengths: Int[Array, " batch"]


def _march(x: Float[Array, "batch n"], y: Float[Array, "batch n"], best: Int[Array, " batch"], steps: int) -> March:
    batch, n = x.shape

    def step(old: State, memory: State, rows: Access, t: Array) -> tuple[State, State, State]:
        starts, i = old["i"] < 0, jnp.maximum(old["i"], 0)
        point, end = jnp.where(starts, old["end"], old["point"]), jnp.where(starts, 0, old["end"])
        px, py = rows.get(x, point), rows.get(y, point)
        ex, ey = rows.get(x, end) - px, rows.get(y, end) - py
        further_out = no_left_turn(ex, ey, rows.get(x, i) - px, rows.get(y, i) - py)
        takes = (further_out & (i != point) & (i != end)) | (end == point)
        end = jnp.where(takes & ~starts, i, end)
        joined = rows.put(memory["joined"], jnp.where(starts, point, n), old["number"])
        last = old["i"] == n - 1
        new = {
            "number": old["number"] + last,
            "i": jnp.where(last, -1, old["i"] + 1),
            "point": point,
            "end": end,
            "joined": rows.get(joined, end),
        }
        return new, {"joined": joined}, {"point": point, "end": end}

    zero = jnp.zeros(batch, jnp.int32)
    # The round; the next point to look at, -1 at a round's start; and the round that starts from the end.
    start = {"number": zero, "i": zero - 1, "point": best, "end": best, "joined": zero + n}
    shown = jnp.where(jnp.arange(steps)[:, None] == 0, zero, NOTHING)
    record, memory, lengths = unroll_rows(
        step,
        lambda state: (state["i"] >= 0) | (state["joined"] == n),
        start,
        {"joined": jnp.full((batch, n + 1), n, jnp.int32)},  # one more, to write what nobody reads
        {"point": shown, "end": shown},
        first=1,
    )
    return March(record["point"], record["end"], memory["joined"][:, :n], lengths)


SEGMENTS_INTERSECT = Algorithm(
    "segments_intersect",
    SEGMENTS_SPEC,
    segments_intersect,
    TwoSegments(),
    max_steps=lambda n: 5,
    samples_multiplier=64,
    nodes=4,
)
GRAHAM_SCAN = Algorithm("graham_scan", GRAHAM_SPEC, graham_scan, PointsInDisk(), max_steps=lambda n: 2 * n + 1)
JARVIS_MARCH = Algorithm(
    "jarvis_march",
    JARVIS_SPEC,
    jarvis_march,
    PointsInDisk(),
    max_steps=lambda n: 1 + n * (n + 1),
    order_is_constant=True,
    counts_first=True,
)
