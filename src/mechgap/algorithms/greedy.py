"""Greedy choices: activities that do not overlap, and tasks done before their deadlines."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import Activities, Tasks
from mechgap.algorithms.searching import standing_order
from mechgap.algorithms.unroll import State, frames_before, one_hot, unroll
from mechgap.algorithms.variables import ORDER_HINT, POSITION, node_mark
from mechgap.trace import Kind, Location, Spec, Stage, Variable

SELECTED = (
    Variable("selected", Stage.OUTPUT, Location.NODE, Kind.MASK),
    ORDER_HINT,
    Variable("selected_h", Stage.HINT, Location.NODE, Kind.MASK),
)

ACTIVITY_SELECTOR_SPEC = Spec(
    (
        POSITION,
        Variable("s", Stage.INPUT, Location.NODE, Kind.SCALAR),
        Variable("f", Stage.INPUT, Location.NODE, Kind.SCALAR),
        *SELECTED,
        node_mark("m"),
        node_mark("k"),
    )
)

TASK_SCHEDULING_SPEC = Spec(
    (
        POSITION,
        Variable("d", Stage.INPUT, Location.NODE, Kind.SCALAR),
        Variable("w", Stage.INPUT, Location.NODE, Kind.SCALAR),
        *SELECTED,
        node_mark("i"),
        Variable("t", Stage.HINT, Location.GRAPH, Kind.SCALAR),
    )
)


def choose_in_turn(
    key: Array, steps: int, fits: Callable[[State, Array], Bool[Array, " batch"]]
) -> tuple[dict[str, Array], State, Array]:
    """Go through the nodes from the smallest key on, the lowest index of equal ones first, and choose those that fit.

    Frame 0 looks at node 0 and has chosen none; the first node in turn is always chosen.

    Args:
        key: [B, n].
        steps: T.
        fits: (state, node [B]) -> whether the node goes with the chosen ones; the state holds the `latest` of them
            and their `count`.

    Returns:
        The record: `node` in turn, `latest`, `count`, all [T, B], and `chosen` [T, B, n]; the last state; the lengths.
    """
    batch, n = key.shape
    ids = jnp.arange(n, dtype=jnp.int32)
    order = jnp.argsort(key, axis=-1, stable=True).astype(jnp.int32)

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        turn = old["turn"]
        node = jnp.take_along_axis(order, jnp.minimum(turn, n - 1)[:, None], axis=-1)[:, 0]
        chosen = (turn == 0) | fits(old, node)
        new = {
            "turn": turn + 1,
            "node": node,
            "latest": jnp.where(chosen, node, old["latest"]),
            "count": old["count"] + chosen,
            "chosen": old["chosen"] | (chosen[:, None] & (ids == node[:, None])),
        }
        return new, turn < n

    zero = jnp.zeros(batch, jnp.int32)
    start = {"turn": zero, "node": zero, "latest": zero, "count": zero, "chosen": jnp.zeros((batch, n), bool)}
    return unroll(step, start, steps, lambda state: state)


def activity_selector(inputs: dict[str, Array], steps: int) -> Run:
    """From the activity that ends first on, take each that starts no earlier than the latest taken one ends."""
    s, f, real = inputs["s"], inputs["f"], inputs["pos"].dtype
    batch, n = f.shape

    def fits(state: State, node: Array) -> Bool[Array, " batch"]:
        start, end = (jnp.take_along_axis(x, at[:, None], axis=-1)[:, 0] for x, at in ((s, node), (f, state["latest"])))
        return start >= end

    record, last, lengths = choose_in_turn(f, steps, fits)
    hints = {
        "pred_h": standing_order((steps, batch, n), real),
        "selected_h": record["chosen"].astype(real),
        "m": one_hot(record["node"], n, real),
        "k": one_hot(record["latest"], n, real),
    }
    return Run(frames_before(lengths, hints), {"selected": last["chosen"].astype(real)}, lengths)


def task_scheduling(inputs: dict[str, Array], steps: int) -> Run:
    """From the most valuable task on, take each whose deadline is later than the number of tasks taken."""
    d, w, real = inputs["d"], inputs["w"], inputs["pos"].dtype
    batch, n = w.shape

    def fits(state: State, node: Array) -> Bool[Array, " batch"]:
        return state["count"] < jnp.take_along_axis(d, node[:, None], axis=-1)[:, 0]

    record, last, lengths = choose_in_turn(-w, steps, fits)
    hints = {
        "pred_h": standing_order((steps, batch, n), real),
        "selected_h": record["chosen"].astype(real),
        "i": one_hot(record["node"], n, real),
        "t": record["count"].astype(real),
    }
    return Run(frames_before(lengths, hints), {"selected": last["chosen"].astype(real)}, lengths)


ACTIVITY_SELECTOR = Algorithm(
    "activity_selector",
    ACTIVITY_SELECTOR_SPEC,
    activity_selector,
    Activities(),
    max_steps=lambda n: n + 1,
    order_is_constant=True,
)
TASK_SCHEDULING = Algorithm(
    "task_scheduling",
    TASK_SCHEDULING_SPEC,
    task_scheduling,
    Tasks(),
    max_steps=lambda n: n + 1,
    order_is_constant=True,
)
