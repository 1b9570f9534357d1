"""Greedy programs: the nodes take turns by their keys, and each is chosen if it fits those chosen before."""

from mechgap.algorithms.greedy import ACTIVITY_SELECTOR_SPEC, TASK_SCHEDULING_SPEC
from mechgap.programs.expressions import Expression, me, other, when
from mechgap.programs.graph import Bool, GraphProgram, Real, Select, StateVariable, argmax, argmin
from mechgap.programs.library.arrays import BEFORE, IS_FIRST, ORDER, order_given
from mechgap.trace import Spec


def activity_selector(pred_as_input: bool = False) -> GraphProgram:
    """From the activity that ends first on, take each that starts no earlier than the latest taken one ends.

    With `pred_as_input`, the order of the nodes is given instead of shown, as the reference training script has it.
    """
    turn = argmin("turn", other.f, where=~other.done)
    latest = argmin("latest", other.id, where=other.is_k)
    fits = ~me.begun | ~(turn.s < latest.f)
    program = _in_turn(
        "activity_selector",
        ACTIVITY_SELECTOR_SPEC,
        (turn, latest),
        fits,
        mark="m",
        state=(Bool("is_k", IS_FIRST), Bool("begun")),
        updates={"is_k": when(me.takes, me.is_turn, me.is_k), "begun": me.begun | turn.found},
        hints={"k": me.is_k},
        weights={"s": (0.0, 1.0), "f": (0.0, 1.0)},
    )
    return order_given(program) if pred_as_input else program


def task_scheduling(max_nodes: int = 1024, pred_as_input: bool = False) -> GraphProgram:
    """From the most valuable task on, take each whose deadline is later than the number of tasks taken.

    Deadlines are 1 to `max_nodes`. With `pred_as_input`, the order of the nodes is given instead of shown, as the
    reference training script has it.
    """
    turn = argmax("turn", other.w, where=~other.done)
    program = _in_turn(
        "task_scheduling",
        TASK_SCHEDULING_SPEC,
        (turn,),
        me.t < turn.d,
        mark="i",
        state=(Real("t", high=max_nodes, resolution=1.0),),
        updates={"t": me.t + me.takes},
        hints={"t": me.t},
        weights={"d": (1.0, max_nodes), "w": (0.0, 1.0)},
    )
    return order_given(program) if pred_as_input else program


def _in_turn(
    name: str,
    spec: Spec,
    selects: tuple[Select, ...],
    fits: Expression,
    mark: str,
    state: tuple[StateVariable, ...],
    updates: dict[str, Expression],
    hints: dict[str, Expression],
    weights: dict[str, tuple[float, float]],
) -> GraphProgram:
    """The first select finds whose turn it is; `mark` is the hint that shows it."""
    turn = selects[0]
    return GraphProgram(
        name=name,
        spec=spec,
        state=(ORDER, Bool("done"), Bool("selected"), Bool("in_turn", IS_FIRST), *state),
        selects=(*selects, BEFORE),
        lets=(
            Bool("is_turn", turn.found & me.id.equals(turn.id)),
            Bool("takes", turn.found & fits),
        ),
        updates={
            "order": me.order,
            "done": me.done | me.is_turn,
            "selected": me.selected | (me.is_turn & me.takes),
            "in_turn": when(turn.found, me.is_turn, me.in_turn),
            **updates,
        },
        hints={"pred_h": me.order, "selected_h": me.selected, mark: me.in_turn, **hints},
        outputs={"selected": me.selected},
        weights=weights,
        full=True,
        algorithm=name,
    )
