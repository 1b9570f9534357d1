"""Programs that exchange the elements of an array: a node is a place, which holds an element, and an element."""

from dataclasses import replace

from mechgap.algorithms.processing import with_permutations
from mechgap.algorithms.sorting import BUBBLE_SORT
from mechgap.programs.expressions import me, other, when
from mechgap.programs.graph import ALWAYS, Bool, GraphProgram, Node, Real, Select, argmax, argmin, match
from mechgap.programs.library.arrays import AFTER, BEFORE, IS_FIRST, IS_LAST


def bubble_sort(permutations: bool = False) -> GraphProgram:
    """Pass i carries the smallest of the elements from place i on down to place i, by one exchange per frame at most.

    In every frame the element at place j drops to the place before, if it is smaller. The end is a pass that compares
    the last two places again and again. With `permutations`, the result is shown as the reference training script has
    it: a closed chain, in which the first element points to the last, and a mask of the first.
    """
    held = match("held", other.id.equals(me.element))
    place = match("place", other.id.equals(me.at))
    there = match("there", other.id.equals(me.now_at))  # the place after the exchange
    right = argmin("right", other.id, where=other.now_j)
    program = GraphProgram(
        name="bubble_sort",
        spec=BUBBLE_SORT.spec,
        state=(
            # Of places:
            Node("element"),
            Bool("at_j", IS_FIRST),
            Bool("after_i", IS_FIRST),  # where the pass ends: i + 1
            # Of elements:
            Node("at"),
            Node("pred", BEFORE.id),
            Bool("is_i", IS_FIRST),
            Bool("is_j", IS_FIRST),
            # Known to all:
            Bool("turns", ALWAYS),  # the next pass begins
        ),
        selects=(right, held, place, there, BEFORE, AFTER),
        lets=(
            Bool("now_j", (me.turns & IS_LAST) | (~me.turns & AFTER.found & AFTER.at_j)),
            Bool("now_after_i", (me.turns & BEFORE.found & BEFORE.after_i) | (me.after_i & (~me.turns | IS_LAST))),
            Bool("now_i", AFTER.now_after_i & (~me.now_after_i | IS_FIRST)),
            Real("weight", held.heard("key")),
            Bool("drops", me.now_j & (me.weight < BEFORE.weight)),
            Node("goes_to", when(me.drops, BEFORE.id, when(AFTER.drops, AFTER.id, me.id))),
            Node("now_at", place.goes_to),
            Node("holds", when(me.drops, BEFORE.element, when(AFTER.drops, AFTER.element, me.element))),
            Node("left", BEFORE.holds),
        ),
        updates={
            "element": me.holds,
            "at_j": me.now_j,
            "after_i": me.now_after_i,
            "at": me.now_at,
            "pred": there.left,
            "is_i": there.now_i,
            "is_j": there.now_j,
            "turns": right.now_after_i,
        },
        hints={"pred_h": me.pred, "i": me.is_i, "j": me.is_j},
        outputs={"pred": me.pred},
        weights={"key": (0.0, 1.0)},
        full=True,
        compared="right",
        algorithm="bubble_sort",
    )
    return _closed(program, there) if permutations else program


def _closed(program: GraphProgram, there: Select) -> GraphProgram:
    """The same program, which also keeps its chain closed."""
    last = argmax("last", other.id)
    return replace(
        program,
        spec=with_permutations(program.spec),
        state=(*program.state, Bool("is_first", IS_FIRST), Node("around", BEFORE.id)),
        selects=(*program.selects, last),
        lets=(*program.lets, Bool("starts", IS_FIRST)),
        updates={
            **dict(program.updates),
            "is_first": there.starts,
            "around": when(there.starts, last.holds, there.left),
        },
        outputs={"pred": me.around, "pred_mask": me.is_first},
    )
