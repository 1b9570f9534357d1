"""Programs over arrays: every element is a node, and sees all others."""

from dataclasses import replace

from mechgap.algorithms.processing import with_order_given, with_permutations
from mechgap.algorithms.searching import MINIMUM_SPEC
from mechgap.algorithms.sorting import INSERTION_SORT_SPEC
from mechgap.programs.expressions import me, other, when
from mechgap.programs.graph import Bool, GraphProgram, Node, Select, argmax, argmin

FIRST = argmin("first", other.id)
BEFORE = argmax("before", other.id, where=other.id < me.id)  # the element to the left; itself for the first
STARTS = me.id.equals(FIRST.id)


def minimum(pred_as_input: bool = False) -> GraphProgram:
    """One pass from the left; the smallest key so far changes hands only for a strictly smaller one.

    With `pred_as_input`, the order of the elements is given instead of shown, as the reference training script has it.
    """
    smallest = argmin("smallest", other.id, where=other.is_min)
    looked_at = argmin("looked_at", other.id, where=other.is_next)
    order = () if pred_as_input else (Node("order", BEFORE.id),)
    return GraphProgram(
        name="minimum",
        spec=with_order_given(MINIMUM_SPEC) if pred_as_input else MINIMUM_SPEC,
        state=(*order, Bool("is_min", STARTS), Bool("is_i", STARTS)),
        selects=(looked_at, smallest, BEFORE, FIRST),
        lets=(
            Bool("is_next", BEFORE.found & BEFORE.is_i),
            Bool("beats", looked_at.found & (looked_at.heard("key") < smallest.heard("key"))),
        ),
        updates={
            **{v.name: me.order for v in order},
            "is_min": when(me.beats, me.is_next, me.is_min),
            "is_i": when(looked_at.found, me.is_next, me.is_i),
        },
        hints={**({} if pred_as_input else {"pred_h": me.order}), "min_h": me.is_min, "i": me.is_i},
        outputs={"min": me.is_min},
        weights={"key": (0.0, 1.0)},
        full=True,
        compared="looked_at",
        algorithm="minimum",
    )


def insertion_sort(permutations: bool = False) -> GraphProgram:
    """Element j joins the sorted prefix behind the last element that is not greater; nothing is shifted.

    With `permutations`, the result is shown as the reference training script has it: a closed chain, in which the first
    element points to the last, and a mask of the first.
    """
    new = argmin("new", other.id, where=other.is_next)
    lower = argmax("lower", other.key, where=other.is_sorted & ~other.above)
    upper = argmin("upper", other.key, where=other.is_sorted & other.above)
    largest = argmax("largest", other.key, where=other.is_sorted)
    moves = new.found & upper.found
    program = GraphProgram(
        name="insertion_sort",
        spec=INSERTION_SORT_SPEC,
        state=(Node("pred", BEFORE.id), Bool("is_sorted", STARTS), Bool("is_i", STARTS), Bool("is_j", STARTS)),
        selects=(lower, upper, largest, new, BEFORE, FIRST),
        lets=(
            Bool("is_next", BEFORE.found & BEFORE.is_j),
            Bool("follows", BEFORE.found & BEFORE.is_next),  # first of the rest
            Bool("above", new.heard("key") < me.key),
            Bool("is_upper", moves & me.id.equals(upper.id)),
            Bool("hangs", moves & me.follows),  # the rest now hangs on the prefix's last element
        ),
        updates={
            "pred": when(
                me.is_next,
                when(lower.found, lower.id, me.id),
                when(me.is_upper, new.id, when(me.hangs, largest.id, me.pred)),
            ),
            "is_sorted": me.is_sorted | me.is_next,
            "is_i": (me.is_next & ~upper.found) | me.is_upper | (me.is_i & ~new.found),
            "is_j": me.is_next | (me.is_j & ~new.found),
        },
        hints={"pred_h": me.pred, "i": me.is_i, "j": me.is_j},
        outputs={"pred": me.pred},
        weights={"key": (0.0, 1.0)},
        full=True,
        compared="lower",
        algorithm="insertion_sort",
    )
    return _closed(program, new, lower, upper, largest) if permutations else program


def _closed(program: GraphProgram, new: Select, lower: Select, upper: Select, largest: Select) -> GraphProgram:
    """The same program, which also keeps its chain closed."""
    first = Bool("is_first", STARTS)
    stays_first = (me.is_first & (lower.found | ~new.found)) | (me.is_next & ~lower.found)
    end = when(new.found & ~upper.found, new.id, largest.id)  # of the sorted prefix, after this step
    pred = dict(program.updates)["pred"]
    return replace(
        program,
        spec=with_permutations(program.spec),
        state=(*program.state, first, Node("around", BEFORE.id)),
        lets=(*program.lets, Bool("heads", stays_first), Node("end", end)),
        updates={**dict(program.updates), "is_first": me.heads, "around": when(me.heads, me.end, pred)},
        outputs={"pred": me.around, "pred_mask": me.is_first},
    )
