"""Dynamic programming on tables: matrix chains, common subsequences, search trees."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import SearchProbabilities, TwoStrings, UniformKeys
from mechgap.algorithms.searching import standing_order
from mechgap.algorithms.unroll import State, frames_before, lowest, one_hot, pointer, unroll
from mechgap.algorithms.variables import ORDER_HINT, POSITION
from mechgap.trace import Kind, Location, Spec, Stage, Variable

MATRIX_CHAIN_ORDER_SPEC = Spec(
    (
        POSITION,
        Variable("p", Stage.INPUT, Location.NODE, Kind.SCALAR),
        Variable("s", Stage.OUTPUT, Location.EDGE, Kind.POINTER),
        ORDER_HINT,
        Variable("m", Stage.HINT, Location.EDGE, Kind.SCALAR),
        Variable("s_h", Stage.HINT, Location.EDGE, Kind.POINTER),
        Variable("msk", Stage.HINT, Location.EDGE, Kind.MASK),
    )
)
SPANS_AT_ONCE = 8  # spans that are computed with the same shapes: less waste or less to compile


def matrix_chain_order(inputs: dict[str, Array], steps: int) -> Run:
    """Every chain i..j is split at the best k by the costs of the previous frame, until no cost changes.

    Matrix i is p[i - 1] by p[i], so that node 0 begins no chain. Frame t has the best costs of trees of up to t levels,
    and s[i, j] is as old as the cost it led to. The result has seen one sweep more than the last frame.
    """
    real, (batch, n) = inputs["pos"].dtype, inputs["p"].shape
    cost, split = _chains(inputs["p"].T, steps + 1)
    known = cost < jnp.inf
    m = jnp.where(known, cost, 0)
    changed = jnp.any(m[1:] != m[:-1], axis=(2, 3))
    lengths = jnp.minimum(lowest(~changed.T) + 1, steps)

    def keep(old: Array, frame: tuple[Array, Array]) -> tuple[Array, Array]:
        new = jnp.where(frame[0], frame[1], old)
        return new, new

    begins = jnp.arange(n, dtype=jnp.int32)[:, None]
    improved = known[1:] & (cost[1:] < cost[:-1])
    s = jnp.where(known[1:], begins + split[1:], 0)
    s = jnp.concatenate([jnp.zeros_like(s[:1]), jax.lax.scan(keep, jnp.zeros_like(s[0]), (improved, s))[1]])
    tables = {"m": m, "s_h": pointer(s, real), "msk": known.astype(real)}
    hints = {name: _by_end(x[:steps]) for name, x in tables.items()} | {
        "pred_h": standing_order((steps, batch, n), real)
    }
    result = jnp.take_along_axis(s, lengths[None, :, None, None], axis=0)[0]
    return Run(frames_before(lengths, hints), {"s": pointer(_by_end(result), real)}, lengths)


def _chains(p: Array, sweeps: int) -> tuple[Array, Array]:
    """Costs and splits of every chain after 0, 1, ... sweeps, both [sweep, B, first i, span j - i].

    Sweeps are the inner dimension of this computation and spans the outer one, because a chain's cost is final after
    `span` sweeps and unknown in the first log2(span): most of a sweep over the whole table would change nothing.
    A split is counted from i; the samples are the last axis, since all of them do the same.
    """
    n, batch = p.shape
    spread = jnp.pad(p, ((0, n), (0, 0)))
    ids = jnp.arange(n)
    pairs = jnp.roll(p, 1, axis=0)[None] * spread[ids[:, None] + ids]  # p[i - 1] p[k], by k - i and i
    cost = jnp.full((n, sweeps, n + SPANS_AT_ONCE, batch), jnp.inf, p.dtype).at[0, :, 1:n].set(0)
    split = jnp.zeros((n, sweeps, n, batch), jnp.int32)

    def of_spans(low: int, high: int, tables: tuple[Array, Array]) -> tuple[Array, Array]:
        """The chains of spans low..high - 1, which become known at sweep `first` and are final after sweep `last`."""
        first, last, rows = low.bit_length(), min(high, sweeps) - 1, n - low
        shape = (last + 1 - first, rows, batch)

        def of_span(span: Array, tables: tuple[Array, Array]) -> tuple[Array, Array]:
            cost, split = tables
            # A table of its own: inside the loop XLA would fuse the product with the sum, and round once, not twice.
            work = pairs[: high - 1, :rows] * jax.lax.dynamic_slice_in_dim(spread, span, rows)

            def try_split(k: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
                left = jax.lax.dynamic_slice(cost, (k, first - 1, 0, 0), (1, *shape))[0]
                right = jax.lax.dynamic_slice(cost, (span - 1 - k, first - 1, k + 1, 0), (1, *shape))[0]
                total = left + right + work[k]
                better = total < best[0]
                return jnp.where(better, total, best[0]), jnp.where(better, k, best[1])

            none = jnp.full(shape, jnp.inf, p.dtype), jnp.zeros(shape, jnp.int32)
            best = jax.lax.fori_loop(0, span, try_split, none)

            def written(table: Array, x: Array) -> Array:
                to_the_end = jnp.pad(x, ((0, sweeps - 1 - last), (0, 0), (0, 0)), mode="edge")[None]
                return jax.lax.dynamic_update_slice(table, to_the_end, (span, first, 0, 0))

            return written(cost, best[0]), written(split, best[1])

        return jax.lax.fori_loop(low, high, of_span, tables) if last >= first else tables

    low = 1
    while low < n:
        high = min(2 * low, low + SPANS_AT_ONCE, n)
        cost, split = of_spans(low, high, (cost, split))
        low = high
    return cost[:, :, :n].transpose(1, 3, 2, 0), split.transpose(1, 3, 2, 0)


def _by_end(table: Array) -> Array:
    """[..., i, j - i] -> [..., i, j], where the cells beyond the last j are 0: in memory, row i moves i places on."""
    n = table.shape[-1]
    longer = jnp.pad(table, [(0, 0)] * (table.ndim - 1) + [(0, 1)])
    return longer.reshape(*table.shape[:-2], n * (n + 1))[..., : n * n].reshape(table.shape)


LCS_LENGTH_SPEC = Spec(
    (
        Variable("string", Stage.INPUT, Location.NODE, Kind.MASK),
        POSITION,
        Variable("key", Stage.INPUT, Location.NODE, Kind.CATEGORICAL, classes=4),
        Variable("b", Stage.OUTPUT, Location.EDGE, Kind.CATEGORICAL, classes=4),
        ORDER_HINT,
        Variable("b_h", Stage.HINT, Location.EDGE, Kind.CATEGORICAL, classes=4),
        Variable("c", Stage.HINT, Location.EDGE, Kind.SCALAR),
    )
)
MATCH, FROM_ABOVE, FROM_LEFT = range(3)  # classes of b; the fourth is for pairs of nodes that are no cell of the table


def lcs_length(inputs: dict[str, Array], steps: int) -> Run:
    """Every pair of prefixes takes its length from its three neighbours of the previous frame, until none changes.

    The table stands in the n by n pairs of nodes, at rows of the first string and columns of the second; its first row
    and column are right from frame 0 on. The other cells are -1 in the fourth class. The result has seen one sweep more
    than the last frame.
    """
    key, second, real = inputs["key"], inputs["string"] > 0, inputs["pos"].dtype
    batch, n = second.shape
    ids = jnp.arange(n, dtype=jnp.int32)
    letter = jnp.argmax(key, axis=-1).astype(jnp.int32)
    width = jnp.sum(~second, axis=-1, dtype=jnp.int32)[:, None]  # where the second string begins
    same = letter[:, :, None] == letter[:, None, :]
    cell = ~second[:, :, None] & second[:, None, :]
    top, left = cell & (ids == 0)[:, None], cell & (ids == width)[:, None, :]
    edge = top | left
    # Along the edge a length is 1 from the first match on.
    matched = jnp.cumsum(same & top, axis=2) + jnp.cumsum(same & left, axis=1) > 0
    c_at_edge = jnp.where(edge, matched, False).astype(jnp.int32)
    b_at_edge = jnp.where(same, MATCH, jnp.where(top & matched, FROM_LEFT, FROM_ABOVE))
    inner = cell & ~edge

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        above, before = jnp.roll(old["c"], 1, axis=1), jnp.roll(old["c"], 1, axis=2)
        from_above = above >= before
        c = jnp.where(same, jnp.roll(above, 1, axis=2) + 1, jnp.where(from_above, above, before))
        b = jnp.where(same, MATCH, jnp.where(from_above, FROM_ABOVE, FROM_LEFT))
        c, b = jnp.where(inner, c, old["c"]), jnp.where(inner, b, old["b"])
        return {"c": c, "b": b}, jnp.any(c != old["c"], axis=(1, 2))

    def directions(b: Array) -> Array:
        blank = jnp.array([0.0, 0.0, 0.0, -1.0], real)
        return jnp.where(cell[..., None], one_hot(b, 4, real), blank)

    def show(state: State) -> dict[str, Array]:
        return {"b_h": directions(state["b"]), "c": state["c"].astype(real)}

    start = {"c": c_at_edge, "b": jnp.where(edge, b_at_edge, MATCH)}
    hints, last, lengths = unroll(step, start, steps, show)
    pred = jnp.where((ids == 0) | (ids == width), ids, ids - 1)
    order = frames_before(lengths, {"pred_h": pointer(jnp.broadcast_to(pred, (steps, batch, n)), real)})
    return Run({**hints, **order}, {"b": directions(step(last)[0]["b"])}, lengths)


OPTIMAL_BST_SPEC = Spec(
    (
        POSITION,
        Variable("p", Stage.INPUT, Location.NODE, Kind.SCALAR),
        Variable("q", Stage.INPUT, Location.NODE, Kind.SCALAR),
        Variable("root", Stage.OUTPUT, Location.EDGE, Kind.POINTER),
        ORDER_HINT,
        Variable("root_h", Stage.HINT, Location.EDGE, Kind.POINTER),
        Variable("e", Stage.HINT, Location.EDGE, Kind.SCALAR),
        Variable("w", Stage.HINT, Location.EDGE, Kind.SCALAR),
        Variable("msk", Stage.HINT, Location.EDGE, Kind.MASK),
    )
)
UNKNOWN_COST = 1e9  # the benchmark's: a tree that costs as much is never preferred, and its root stays 0


def optimal_bst(inputs: dict[str, Array], steps: int) -> Run:
    """Trees over the keys between gap i and gap j, by their number of keys; frame t has all of up to t keys.

    The root r leaves a tree between the gaps i and r and one between r + 1 and j.
    """
    p, q, real = inputs["p"], inputs["q"], inputs["pos"].dtype
    batch, n = q.shape
    ids = jnp.arange(n, dtype=jnp.int32)

    def grow(keys: Array, tables: tuple[Array, ...]) -> tuple[Array, ...]:
        """All trees of one more key. Tables are [B, gap, number of keys], by first gap i and by last gap j.

        `by_end` is laid out from n - 1 keys down to 0 and has n more rows and columns, so that the two trees of a
        root, which have keys - 1 keys together, stand at the same place of two slices.
        """
        by_start, by_end, weight, weights, roots = tables
        later_p, later_q = (
            jax.lax.dynamic_slice_in_dim(jnp.pad(x, ((0, 0), (0, n))), keys - lag, n, axis=1)
            for x, lag in ((p, 1), (q, 0))
        )
        weight = weight + later_p + later_q
        right = jax.lax.dynamic_slice(by_end, (0, keys, n - keys), (batch, n, n))
        cost = by_start + right + weight[:, :, None]
        least = jnp.min(cost, axis=-1)
        known = least < UNKNOWN_COST
        best = jnp.where(known, ids + lowest(cost == least[..., None]), 0)
        least = jnp.where(known, least, UNKNOWN_COST)
        exists = ids + keys < n
        by_start = jax.lax.dynamic_update_slice(by_start, jnp.where(exists, least, jnp.inf)[..., None], (0, 0, keys))
        by_end = jax.lax.dynamic_update_slice(by_end, least[..., None], (0, keys, n - 1 - keys))
        weights = jax.lax.dynamic_update_slice(weights, weight[..., None], (0, 0, keys))
        roots = jax.lax.dynamic_update_slice(roots, best[..., None], (0, 0, keys))
        return by_start, by_end, weight, weights, roots

    by_start = jnp.full((batch, n, n), jnp.inf, real).at[:, :, 0].set(q)
    by_end = jnp.full((batch, 2 * n, 2 * n), jnp.inf, real).at[:, :n, n - 1].set(q)
    weights = jnp.zeros((batch, n, n), real).at[:, :, 0].set(q)
    tables = (by_start, by_end, q, weights, jnp.zeros((batch, n, n), jnp.int32))
    by_start, _, _, weights, roots = jax.lax.fori_loop(1, n, grow, tables)

    keys = ids - ids[:, None]  # of the tree between the gaps i and j
    known = (keys >= 0) & (keys <= jnp.arange(steps, dtype=jnp.int32)[:, None, None, None])
    lengths = jnp.full(batch, min(n, steps), jnp.int32)
    inside = jnp.arange(steps)[:, None, None, None] < n

    def frames(table: Array) -> Array:
        return jnp.where(known & inside, by_last_gap(table), jnp.zeros((), table.dtype))

    def by_last_gap(table: Array) -> Array:
        return jnp.take_along_axis(table, jnp.broadcast_to(jnp.maximum(keys, 0), table.shape), axis=-1)

    hints = {
        "root_h": pointer(frames(roots), real),
        "e": frames(by_start),
        "w": frames(weights),
        "msk": jnp.broadcast_to((known & inside).astype(real), (steps, batch, n, n)),
    }
    order = frames_before(lengths, {"pred_h": standing_order((steps, batch, n), real)})
    root = jnp.where(keys > 0, by_last_gap(roots), 0)
    return Run({**hints, **order}, {"root": pointer(root, real)}, lengths)


MATRIX_CHAIN_ORDER = Algorithm(
    "matrix_chain_order",
    MATRIX_CHAIN_ORDER_SPEC,
    matrix_chain_order,
    UniformKeys(name="p"),
    max_steps=lambda n: max(n - 1, 1),
    order_is_constant=True,
)
LCS_LENGTH = Algorithm(
    "lcs_length",
    LCS_LENGTH_SPEC,
    lcs_length,
    TwoStrings(),
    max_steps=lambda n: max(n - 2, 1),
    order_is_constant=True,
)
OPTIMAL_BST = Algorithm(
    "optimal_bst",
    OPTIMAL_BST_SPEC,
    optimal_bst,
    SearchProbabilities(),
    max_steps=lambda n: n,
    order_is_constant=True,
)
