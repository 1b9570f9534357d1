"""Programs over arrays: every element is a node, and sees all others."""

from dataclasses import replace

from mechgap.algorithms.divide_and_conquer import KADANE_SPEC
from mechgap.algorithms.processing import with_order_given, with_permutations
from mechgap.algorithms.searching import BINARY_SEARCH_SPEC, MINIMUM_SPEC
from mechgap.algorithms.sorting import INSERTION_SORT_SPEC
from mechgap.programs.expressions import graph, maximum, me, other, when
from mechgap.programs.graph import Bool, GraphProgram, Node, Real, Select, argmax, argmin

FIRST = argmin("first", other.id)
BEFORE = argmax("before", other.id, where=other.id < me.id)  # the element to the left; itself for the first
AFTER = argmin("after", other.id, where=me.id < other.id)
STARTS = me.id.equals(FIRST.id)
IS_FIRST, IS_LAST = ~BEFORE.found, ~AFTER.found
ORDER = Node("order", BEFORE.id)  # shown as `pred_h` by algorithms that never change it


def minimum(pred_as_input: bool = False) -> GraphProgram:
    """One pass from the left; the smallest key so far changes hands only for a strictly smaller one.

    With `pred_as_input`, the order of the elements is given instead of shown, as the reference training script has it.
    """
    smallest = argmin("smallest", other.id, where=other.is_min)
    looked_at = argmin("looked_at", other.id, where=other.is_next)
    program = GraphProgram(
        name="minimum",
        spec=MINIMUM_SPEC,
        state=(ORDER, Bool("is_min", STARTS), Bool("is_i", STARTS)),
        selects=(looked_at, smallest, BEFORE, FIRST),
        lets=(
            Bool("is_next", BEFORE.found & BEFORE.is_i),
            Bool("beats", looked_at.found & (looked_at.heard("key") < smallest.heard("key"))),
        ),
        updates={
            "order": me.order,
            "is_min": when(me.beats, me.is_next, me.is_min),
            "is_i": when(looked_at.found, me.is_next, me.is_i),
        },
        hints={"pred_h": me.order, "min_h": me.is_min, "i": me.is_i},
        outputs={"min": me.is_min},
        weights={"key": (0.0, 1.0)},
        full=True,
        compared="looked_at",
        algorithm="minimum",
    )
    return order_given(program) if pred_as_input else program


def order_given(program: GraphProgram) -> GraphProgram:
    """The same program where the order of the elements is an input, and not shown."""
    return replace(
        program,
        spec=with_order_given(program.spec),
        state=tuple(v for v in program.state if v != ORDER),
        updates=tuple(pair for pair in program.updates if pair[0] != ORDER.name),
        hints=tuple(pair for pair in program.hints if pair[0] != "pred_h"),
    )


def binary_search(max_nodes: int = 1024, pred_as_input: bool = False) -> GraphProgram:
    """Halve the range until one place is left: the first key that is not below the target, or the last place.

    The middle is the last place whose position is at most that of the centre, so positions must be regular; a quarter
    of the gap between those of `max_nodes` places tells it from the next. With `pred_as_input`, the order of the
    elements is given instead of shown, as the reference training script has it.
    """
    last = argmax("last", other.id)
    middle = argmin("middle", other.id, where=other.is_mid)
    lowest = argmin("lowest", other.id, where=other.now_low)
    highest = argmin("highest", other.id, where=other.now_high)
    centre = argmax("centre", other.id, where=other.before_centre)
    first_centre = argmax("first_centre", other.id, where=other.in_first_half)
    quarter = 0.25 / max_nodes
    program = GraphProgram(
        name="binary_search",
        spec=BINARY_SEARCH_SPEC,
        state=(
            ORDER,
            Bool("is_low", STARTS),
            Bool("is_high", me.id.equals(last.id)),
            Bool("is_mid", me.id.equals(first_centre.id)),
            Bool("goes_on", ~FIRST.id.equals(last.id)),
        ),
        selects=(middle, lowest, highest, centre, first_centre, BEFORE, FIRST, last),
        lets=(
            Bool("in_first_half", me.pos < 0.5 * FIRST.pos + 0.5 * last.pos + quarter),
            Bool("rises", me.goes_on & (middle.heard("key") < graph.target)),
            Bool("falls", me.goes_on & ~me.rises),
            Bool("now_low", when(me.rises, BEFORE.found & BEFORE.is_mid, me.is_low)),
            Bool("now_high", when(me.falls, me.is_mid, me.is_high)),
            Bool("before_centre", me.pos < 0.5 * lowest.pos + 0.5 * highest.pos + quarter),
        ),
        updates={
            "order": me.order,
            "is_low": me.now_low,
            "is_high": me.now_high,
            "is_mid": me.id.equals(centre.id),
            "goes_on": ~lowest.id.equals(highest.id),
        },
        hints={"pred_h": me.order, "low": me.is_low, "high": me.is_high, "mid": me.is_mid},
        outputs={"return": me.is_high},
        weights={"key": (0.0, 1.0), "target": (0.0, 1.0)},
        full=True,
        compared="middle",
        regular=True,
        algorithm="binary_search",
    )
    return order_given(program) if pred_as_input else program


def find_maximum_subarray_kadane(max_sum: float = 32.0, pred_as_input: bool = False) -> GraphProgram:
    """The best sum that ends at j extends the best one that ends before j, or starts anew at j where that is negative.

    Sums are below `max_sum`. With `pred_as_input`, the order of the elements is given instead of shown, as the
    reference training script has it.
    """
    looked_at = argmin("looked_at", other.id, where=other.is_next)
    found = looked_at.found
    program = GraphProgram(
        name="find_maximum_subarray_kadane",
        spec=KADANE_SPEC,
        state=(
            ORDER,
            *(Bool(name, STARTS) for name in ("is_low", "is_high", "is_i", "is_j")),
            Real("best", FIRST.heard("key"), -1, max_sum),
            Real("sum", FIRST.heard("key"), -1, max_sum),
        ),
        selects=(looked_at, BEFORE, FIRST),
        lets=(
            Bool("is_next", BEFORE.found & BEFORE.is_j),
            Real("now", looked_at.heard("key") + maximum(me.sum, 0), -1, max_sum + 1),
            Bool("now_i", when(found & (me.sum < 0), me.is_next, me.is_i)),
            Bool("beats", found & (me.best < me.now)),
        ),
        updates={
            "order": me.order,
            "is_low": when(me.beats, me.now_i, me.is_low),
            "is_high": when(me.beats, me.is_next, me.is_high),
            "is_i": me.now_i,
            "is_j": when(found, me.is_next, me.is_j),
            "best": when(me.beats, me.now, me.best),
            "sum": when(found, me.now, me.sum),
        },
        hints={
            "pred_h": me.order,
            "best_low": me.is_low,
            "best_high": me.is_high,
            "best_sum": me.best,
            "i": me.is_i,
            "j": me.is_j,
            "sum": me.sum,
        },
        outputs={"start": me.is_low, "end": me.is_high},
        weights={"key": (-1.0, 1.0)},
        full=True,
        algorithm="find_maximum_subarray_kadane",
    )
    return order_given(program) if pred_as_input else program


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
