"""Finding a needle in a haystack: shift by shift, and by the failure function of Knuth, Morris and Pratt.

The nodes are the haystack's characters, then the needle's. Needles of one batch may differ in length.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import CHARACTERS, NeedleInHaystack
from mechgap.algorithms.unroll import State, at, frames_before, lowest, one_hot, pointer, unroll
from mechgap.algorithms.variables import ORDER_HINT, POSITION, node_mark
from mechgap.trace import Kind, Location, Spec, Stage, Variable

STRING_INPUTS = (
    Variable("string", Stage.INPUT, Location.NODE, Kind.MASK),
    POSITION,
    Variable("key", Stage.INPUT, Location.NODE, Kind.CATEGORICAL, classes=CHARACTERS),
)
MATCH = Variable("match", Stage.OUTPUT, Location.NODE, Kind.MASK_ONE)


def _flag(name: str) -> Variable:
    return Variable(name, Stage.HINT, Location.GRAPH, Kind.MASK)


NAIVE_SPEC = Spec((*STRING_INPUTS, MATCH, ORDER_HINT, node_mark("s"), node_mark("i"), node_mark("j")))
KMP_SPEC = Spec(
    (
        *STRING_INPUTS,
        MATCH,
        ORDER_HINT,
        Variable("pi", Stage.HINT, Location.NODE, Kind.POINTER),
        Variable("is_reset", Stage.HINT, Location.NODE, Kind.MASK),
        node_mark("k"),
        _flag("k_reset"),
        node_mark("q"),
        _flag("q_reset"),
        node_mark("s"),
        node_mark("i"),
        _flag("phase"),
    )
)


class Strings(NamedTuple):
    """A batch of pairs of strings."""

    characters: Int[Array, "batch n"]  # the haystack's, then the needle's
    head: Int[Array, " batch"]  # the needle's first node, and the haystack's length
    needle: Int[Array, " batch"]  # its length

    def at(self, node: Int[Array, " batch"]) -> Int[Array, " batch"]:
        """The characters at the nodes."""
        return at(self.characters, node)

    def order(self, steps: int, real: jnp.dtype) -> Array:
        """The constant hint `pred_h` [T, B, n]: the node before, in the same string."""
        ids = jnp.arange(self.characters.shape[-1], dtype=jnp.int32)
        before = jnp.where((ids == 0) | (ids == self.head[:, None]), ids, ids - 1)
        return pointer(jnp.broadcast_to(before, (steps, *before.shape)), real)


def _strings(inputs: dict[str, Array]) -> Strings:
    needle = jnp.sum(inputs["string"] != 0, axis=-1, dtype=jnp.int32)
    characters = jnp.sum(inputs["key"] * jnp.arange(CHARACTERS), axis=-1).astype(jnp.int8)
    return Strings(characters, characters.shape[-1] - needle, needle)


class Shifts(NamedTuple):
    """What the naive matcher does at every shift of the needle."""

    found: Int[Array, " batch"]  # the first shift at which all of the needle agrees, or the needle's head
    ends: Int[Array, "batch n"]  # by shift: the frame after its last


def _shifts(strings: Strings) -> Shifts:
    batch, n = strings.characters.shape
    padded = jnp.pad(strings.characters, ((0, 0), (0, n)))

    def further(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        j, agreeing, agreed = state
        under = jax.lax.dynamic_slice_in_dim(padded, j, n, axis=1)  # by shift: what lies under the needle's j
        here = strings.at(jnp.minimum(strings.head + j, n - 1))[:, None]
        agreeing = agreeing & (under == here) & (j < strings.needle[:, None])
        return j + 1, agreeing, agreed + agreeing

    shift = jnp.arange(n, dtype=jnp.int32)
    possible = shift <= (strings.head - strings.needle)[:, None]
    nothing = jnp.zeros((batch, n), jnp.int32)
    _, _, agreed = jax.lax.while_loop(lambda state: jnp.any(state[1]), further, (jnp.int32(0), possible, nothing))
    whole = possible & (agreed == strings.needle[:, None])
    first = lowest(whole)
    frames = jnp.where(possible & (shift <= first[:, None]), jnp.minimum(agreed + 1, strings.needle[:, None]), 0)
    return Shifts(jnp.where(first < n, first, strings.head), jnp.cumsum(frames, axis=-1))


def naive_string_matcher(inputs: dict[str, Array], steps: int) -> Run:
    """The needle is laid at every place in turn and compared from the left, up to the first difference.

    A frame is one comparison: of the haystack's i with the needle's j, the needle lying at s.
    """
    real, n = inputs["pos"].dtype, inputs["pos"].shape[-1]
    strings = _strings(inputs)
    found, ends = _shifts(strings)
    t = jnp.arange(steps, dtype=jnp.int32)[:, None]
    by_shift = ends.T[:, None]
    past = by_shift <= t  # [n, T, B]: the shifts that have failed; reduced along the first axis, which is fast
    s = jnp.sum(past, axis=0, dtype=jnp.int32)
    j = t - jnp.max(jnp.where(past, by_shift, 0), axis=0)
    hints = {
        "pred_h": strings.order(steps, real),
        "s": one_hot(s, n, real),
        "i": one_hot(s + j, n, real),
        "j": one_hot(strings.head + j, n, real),
    }
    lengths = jnp.minimum(ends[:, -1], steps)
    return Run(frames_before(lengths, hints), {"match": one_hot(found, n, real)}, lengths)


def kmp_matcher(inputs: dict[str, Array], steps: int) -> Run:
    """The needle's failure function, then the haystack from left to right without ever going back.

    Both phases do the same: a prefix of the needle (its last node is k while the needle is read, q while the haystack
    is) grows by the next character where the two agree. Otherwise it falls back along pi, one frame per fall, until it
    is empty, which is what a reset says: the node is then the head. An empty prefix that cannot grow stays empty.
    """
    real, n = inputs["pos"].dtype, inputs["pos"].shape[-1]
    ids = jnp.arange(n, dtype=jnp.int32)
    strings = _strings(inputs)
    head, is_head = strings.head, ids == strings.head[:, None]

    def compare(state: State) -> tuple[Array, Array, Array, Array, Array]:
        building = state["next"] < n
        prefix = jnp.where(building, state["k"], state["q"])
        empty = jnp.where(building, state["k_reset"], state["q_reset"])
        longer = jnp.where(empty, head, prefix + 1)
        agrees = strings.at(jnp.minimum(longer, n - 1)) == strings.at(jnp.where(building, state["next"], state["i"]))
        return building, prefix, longer, agrees, ~empty & ~agrees

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        building, prefix, longer, agrees, falls = compare(old)
        to_nothing = jnp.where(falls, at(old["is_reset"], prefix), ~agrees)
        to = jnp.where(falls, at(old["pi"], prefix), jnp.where(agrees, longer, head))
        starts = ~building & ~old["phase"]
        matches = old["phase"] & ~falls
        settled = (building & ~falls)[:, None] & (ids == old["next"][:, None])
        i = old["i"] + matches
        new = {
            "t": old["t"] + 1,
            "next": old["next"] + (building & ~falls),
            "pi": jnp.where(settled, to[:, None], old["pi"]),
            "is_reset": jnp.where(settled, to_nothing[:, None], old["is_reset"]),
            "settled": jnp.where(settled, old["t"][:, None] + 1, old["settled"]),
            "k": jnp.where(building, to, old["k"]),
            "k_reset": jnp.where(building, to_nothing, old["k_reset"]),
            "q": jnp.where(building, old["next"], jnp.where(starts, head, to)),
            "q_reset": building | starts | to_nothing,
            "i": i,
            "s": jnp.maximum(i - strings.needle + 1, 0),
            "phase": old["phase"] | starts,
        }
        found = matches & agrees & (longer == n - 1)
        return new, ~found & (i < head)

    zero = jnp.zeros(head.shape, jnp.int32)
    start = {
        "t": zero,
        "next": head + 1,
        "pi": jnp.broadcast_to(ids, is_head.shape),
        "is_reset": is_head,
        "settled": jnp.where(is_head, 0, 2 * n),  # the frame from which on pi and is_reset hold
        "k": head,
        "k_reset": zero == 0,
        "q": jnp.minimum(head + 1, n - 1),
        "q_reset": zero == 0,
        "i": zero,
        "s": zero,
        "phase": zero != 0,
    }
    shown = ("k", "k_reset", "q", "q_reset", "s", "i", "phase")
    frames, last, lengths = unroll(step, start, steps, lambda state: {name: state[name] for name in shown})
    known = last["settled"] <= jnp.arange(steps)[:, None, None]
    hints = {
        "pred_h": strings.order(steps, real),
        "pi": pointer(jnp.where(known, last["pi"], ids), real),
        "is_reset": (known & last["is_reset"]).astype(real),
        **{name: one_hot(frames[name], n, real) for name in ("k", "q", "s", "i")},
        **{name: frames[name].astype(real) for name in ("k_reset", "q_reset", "phase")},
    }
    building, _, longer, agrees, _ = compare(last)
    found = ~building & agrees & (longer == n - 1)
    match = one_hot(jnp.where(found, last["s"], head), n, real)
    return Run(frames_before(lengths, hints), {"match": match}, lengths)


def _longest_naive(n: int) -> int:
    """Of all lengths m of the needle: n - 2m + 1 shifts with m comparisons each."""
    return max((n - 2 * m + 1) * m for m in range(1, max(n // 2, 1) + 1))


NAIVE_STRING_MATCHER = Algorithm(
    "naive_string_matcher",
    NAIVE_SPEC,
    naive_string_matcher,
    NeedleInHaystack(),
    max_steps=_longest_naive,
    samples_multiplier=64,
    order_is_constant=True,
    counts_first=True,
)
KMP_MATCHER = Algorithm(
    "kmp_matcher",
    KMP_SPEC,
    kmp_matcher,
    NeedleInHaystack(),
    max_steps=lambda n: 2 * n - 1,
    samples_multiplier=64,
    order_is_constant=True,
)
