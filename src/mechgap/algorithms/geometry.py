"""Points in the plane: do two segments cross, and which points are the convex hull's (Graham, Jarvis)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import PointsInDisk, TwoSegments
from mechgap.algorithms.unroll import State, at, frames_before, lowest, one_hot, pointer, unroll
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


def _lowest_point(x: Float[Array, "batch n"], y: Float[Array, "batch n"]) -> Int[Array, " batch"]:
    """Of the points with the smallest y, the leftmost; of equal ones, the first."""
    bottom = y == jnp.min(y, axis=-1, keepdims=True)
    left = jnp.min(jnp.where(bottom, x, jnp.inf), axis=-1, keepdims=True)
    return lowest(bottom & (x == left))


def graham_scan(inputs: dict[str, Array], steps: int) -> Run:
    """The points by their angle around the lowest one go on a stack, off which those that then lie inside come first.

    Frames 0 to 2: nothing, the lowest point, the angles. Then each frame takes one point off the stack (phase 3) or
    puts one on it (phase 4). A point goes on once and comes off at most once, so two frame numbers per point say all.

    Where three points or more have the smallest angle, the benchmark takes the lowest point off, too, and never ends
    (as it may where two points are the lowest); here, that point stays.
    """
    x, y, real = inputs["x"], inputs["y"], inputs["pos"].dtype
    batch, n = x.shape
    ids = jnp.arange(n, dtype=jnp.int32)
    best = _lowest_point(x, y)
    is_best = ids == best[:, None]
    angle = jnp.arctan2(y - at(y, best)[:, None], x - at(x, best)[:, None])
    angle = jnp.where(is_best, 0.0, angle)
    order = jnp.argsort(jnp.where(is_best, -1.0, angle), axis=-1, stable=True).astype(jnp.int32)
    never = 2 * n + 1

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        top, t = old["top"], old["t"] + 1
        candidate = at(order, jnp.minimum(old["place"], n - 1))
        below = at(old["below"], top)
        bx, by = at(x, below), at(y, below)
        side = cross(at(x, top) - bx, at(y, top) - by, at(x, candidate) - bx, at(y, candidate) - by)
        off = (old["place"] >= 3) & (side <= 0) & (top != best)
        goes_off = off[:, None] & (ids == top[:, None])
        goes_on = ~off[:, None] & (ids == candidate[:, None])
        new = {
            "t": t,
            "place": old["place"] + ~off,
            "top": jnp.where(off, below, candidate),
            "below": jnp.where(goes_on, top[:, None], old["below"]),
            "on": jnp.where(goes_on, t[:, None], old["on"]),
            "off": jnp.where(goes_off, t[:, None], old["off"]),
            "candidate": candidate,
            "phase": jnp.where(off, 3, 4),
        }
        return new, old["place"] < n

    one = jnp.ones(batch, jnp.int32)
    start = {
        "t": 2 * one,
        "place": one,  # of the next point, in the order of the angles
        "top": best,
        "below": jnp.broadcast_to(ids, (batch, n)),
        "on": jnp.where(is_best, 1, never),
        "off": jnp.full((batch, n), never, jnp.int32),
        "candidate": best,
        "phase": 2 * one,
    }
    shown = ("top", "candidate", "phase")
    frames, last, lengths = unroll(step, start, max(steps - 2, 1), lambda state: {name: state[name] for name in shown})
    lengths = jnp.minimum(lengths + 2, steps)

    def from_frame_0(name: str, frame_1: Array) -> Int[Array, "steps batch"]:
        return jnp.concatenate([jnp.zeros((1, batch), jnp.int32), frame_1[None], frames[name]])[:steps]

    t = jnp.arange(steps, dtype=jnp.int32)[:, None, None]
    on_stack = (last["on"] <= t) & (t < last["off"])
    hints = {
        "best": one_hot(jnp.where(t[..., 0] == 0, 0, best), n, real),
        "atans": jnp.where(t < 2, 0.0, angle).astype(real),
        "in_hull_h": on_stack.astype(real),
        "stack_prev": pointer(jnp.where(on_stack, last["below"], ids), real),
        "last_stack": one_hot(from_frame_0("top", best), n, real),
        "i": one_hot(from_frame_0("candidate", best), n, real),
        "phase": one_hot(from_frame_0("phase", one), 5, real),
    }
    in_hull = (last["on"] < never) & (last["off"] == never)
    return Run(frames_before(lengths, hints), {"in_hull": in_hull.astype(real)}, lengths)


class March(NamedTuple):
    """Jarvis's march: in each round one hull point looks along all points for the next one."""

    best: Int[Array, " batch"]  # where it starts
    rounds: Int[Array, " batch"]  # how many
    from_: Int[Array, "n batch"]  # by round: the hull point
    endpoint: Int[Array, "n n batch"]  # by round and point: the outermost up to there
    joined: Int[Array, "batch n"]  # the round that starts from this point, n where none does


def _march(inputs: dict[str, Array]) -> March:
    x, y = inputs["x"], inputs["y"]
    batch, n = x.shape
    ids = jnp.arange(n, dtype=jnp.int32)
    best = _lowest_point(x, y)

    def look_round(point: Int[Array, " batch"]) -> tuple[Int[Array, " batch"], Int[Array, "n batch"]]:
        dx, dy = (x - at(x, point)[:, None]).T, (y - at(y, point)[:, None]).T

        def look_at(state: tuple[Array, Array, Array], seen: tuple[Array, Array, Array]) -> tuple[tuple, Array]:
            (end, end_dx, end_dy), (i, i_dx, i_dy) = state, seen
            outside = (cross(end_dx, end_dy, i_dx, i_dy) <= 0) & (i != point) & (i != end)
            takes = outside | (end == point)
            end = jnp.where(takes, i, end)
            return (end, jnp.where(takes, i_dx, end_dx), jnp.where(takes, i_dy, end_dy)), end

        first = (jnp.zeros_like(point), dx[0], dy[0])
        (end, _, _), ends = jax.lax.scan(look_at, first, (ids, dx, dy), unroll=4)
        return end, ends

    def go_round(state: tuple) -> tuple:
        number, point, going, rounds, points, endpoint, joined = state
        end, ends = look_round(point)
        rounds = rounds + going
        points = jax.lax.dynamic_update_index_in_dim(points, point, number, 0)
        endpoint = jax.lax.dynamic_update_index_in_dim(endpoint, ends, number, 0)
        going = going & (at(joined, end) == n)
        joined = jnp.where(going[:, None] & (ids == end[:, None]), number + 1, joined)
        return number + 1, end, going, rounds, points, endpoint, joined

    start = (
        jnp.int32(0),
        best,
        jnp.ones(batch, bool),
        jnp.zeros(batch, jnp.int32),
        jnp.zeros((n, batch), jnp.int32),
        jnp.zeros((n, n, batch), jnp.int32),
        jnp.where(ids == best[:, None], 0, n),
    )
    _, _, _, rounds, points, endpoint, joined = jax.lax.while_loop(lambda state: jnp.any(state[2]), go_round, start)
    return March(best, rounds, points, endpoint, joined)


def jarvis_march(inputs: dict[str, Array], steps: int) -> Run:
    """From the lowest point on, the next hull point is the one that has no other to its right.

    Frame 0 is empty. Each round has a frame for its start and one for each point, and the last comes back to the hull.
    """
    real = inputs["pos"].dtype
    batch, n = inputs["x"].shape
    march = _march(inputs)
    ids = jnp.arange(n, dtype=jnp.int32)
    t = np.arange(steps)
    number, point = np.divmod(t - 1, n + 1)  # the round, -1 at frame 0; 0 at its start, then 1 + the point
    in_room = np.clip(number, 0, n - 1)
    i = np.where(number < 0, 0, np.maximum(point - 1, 0))
    begun = jnp.asarray(number >= 0)[:, None]
    looks = jnp.asarray((number >= 0) & (point > 0))[:, None]
    last_point = jnp.where(begun, march.from_[in_room], 0)
    endpoint = jnp.where(looks, march.endpoint.reshape(n * n, batch)[in_room * n + i], 0)
    everywhere = (steps, batch, n)
    hints = {
        "pred_h": pointer(jnp.broadcast_to(jnp.maximum(ids - 1, 0), everywhere), real),
        "in_hull_h": (march.joined <= jnp.asarray(number)[:, None, None]).astype(real),
        "best": one_hot(jnp.where(begun, march.best, 0), n, real),
        "last_point": one_hot(last_point, n, real),
        "endpoint": one_hot(endpoint, n, real),
        "i": jnp.broadcast_to(one_hot(jnp.asarray(i), n, real)[:, None], everywhere),
        "phase": jnp.broadcast_to(one_hot(begun.astype(jnp.int32), 2, real), (steps, batch, 2)),
    }
    lengths = jnp.minimum(1 + march.rounds * (n + 1), steps)
    return Run(frames_before(lengths, hints), {"in_hull": (march.joined < n).astype(real)}, lengths)


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
