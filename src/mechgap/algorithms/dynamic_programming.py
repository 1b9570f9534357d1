"""Dynamic programming on tables: matrix chains, common subsequences, search trees."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import SearchProbabilities, TwoStrings, UniformKeys
from mechgap.algorithms.searching import ORDER_HINT, standing_order
from mechgap.algorithms.unroll import State, frames_before, lowest, one_hot, pointer, unroll
from mechgap.trace import Kind, Location, Spec, Stage, Variable

POSITION = Variable("pos", Stage.INPUT, Location.NODE, Kind.SCALAR)

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


def matrix_chain_order(inputs: dict[str, Array], steps: int) -> Run:
    """Every chain i..j is split at the best k by the costs of the previous frame, until no cost changes.

    Matrix i is p[i - 1] by p[i], so that node 0 begins no chain. The result has seen one sweep more than the last frame.
    """
    p, real = inputs["p"], inputs["pos"].dtype
    batch, n = p.shape
    ids = jnp.arange(n, dtype=jnp.int32)
    i, k, j = ids[:, None, None], ids[:, None], ids
    before = jnp.roll(p, 1, axis=-1)
    splits = (i >= 1) & (i <= k) & (k < j)
    # The choice also keeps XLA from fusing this product with the sum it goes into, which would round once, not twice.
    work = jnp.where(splits, before[:, :, None, None] * p[:, None, :, None] * p[:, None, None, :], jnp.inf)

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        known = jnp.where(old["msk"], old["m"], jnp.inf)
        right = jnp.roll(known, -1, axis=1)  # of k + 1..j
        cost = known[:, :, :, None] + right[:, None, :, :] + work
        least = jnp.min(cost, axis=2)
        best = lowest(cost == least[:, :, None, :], axis=-2)
        found = least < jnp.inf
        better = found & (~old["msk"] | (least < old["m"]))
        m = jnp.where(better, least, old["m"])
        new = {"m": m, "s": jnp.where(better, best, old["s"]), "msk": old["msk"] | found}
        return new, jnp.any(m != old["m"], axis=(1, 2))

    single = jnp.broadcast_to((ids[:, None] == ids) & (ids >= 1), (batch, n, n))
    start = {"m": jnp.zeros((batch, n, n), real), "s": jnp.zeros((batch, n, n), jnp.int32), "msk": single}

    def show(state: State) -> dict[str, Array]:
        return {"m": state["m"], "s_h": pointer(state["s"], real), "msk": state["msk"].astype(real)}

    hints, last, lengths = unroll(step, start, steps, show)
    order = frames_before(lengths, {"pred_h": standing_order((steps, batch, n), real)})
    return Run({**hints, **order}, {"s": pointer(step(last)[0]["s"], real)}, lengths)


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
MATCH, FROM_ABOVE, FROM_LEFT, BLANK = range(4)  # the classes of b


def lcs_length(inputs: dict[str, Array], steps: int) -> Run:
    """Every pair of prefixes takes its length from its three neighbours of the previous frame, until none changes.

    The table stands in the n by n pairs of nodes, at rows of the first string and columns of the second; its first row
    and column are right from frame 0 on. The other cells are -1 in the class BLANK. The result has seen one sweep more
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
        return jnp.where(cell[..., None], one_hot(b, 4, real), -one_hot(jnp.array(BLANK), 4, real))

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
