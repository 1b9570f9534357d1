"""Sorting an array: insertion sort, bubble sort, heapsort and quicksort.

Bubble sort and heapsort exchange elements of an array. Their state is the array of elements by place; an element is a
number that says both its key's rank and its node, so that exchanging and comparing are one gather each, and integers
decide as the keys would: the ranks are taken in the keys' own precision. For quicksort see `partition`.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import UniformKeys
from mechgap.algorithms.partition import beginning, compared, nodes_at, standing
from mechgap.algorithms.rows import NOTHING, Access, short, unroll_rows
from mechgap.algorithms.searching import ARRAY_INPUTS
from mechgap.algorithms.unroll import State, at, expanded, one_hot, pointer, unroll
from mechgap.algorithms.variables import ORDER_HINT, node_mark
from mechgap.trace import Kind, Location, Spec, Stage, Variable


def sorting_spec(*marks: str, before: tuple[Variable, ...] = (), after: tuple[Variable, ...] = ()) -> Spec:
    """The interface of a sort: the order as a chain of predecessors, and the nodes that its variables stand at."""
    return Spec(
        (
            *ARRAY_INPUTS,
            Variable("pred", Stage.OUTPUT, Location.NODE, Kind.POINTER, permutation=True),
            ORDER_HINT,
            *before,
            *(node_mark(name) for name in marks),
            *after,
        )
    )


INSERTION_SORT_SPEC = sorting_spec("i", "j")


def insertion_sort(inputs: dict[str, Array], steps: int) -> Run:
    """Element j joins the sorted prefix behind the last element that is not greater.

    The order is a chain of predecessors over all elements: the sorted prefix first, then the rest as it stands. In
    frame j, `i` marks the element that j was put in front of, j itself where it stayed in place.
    """
    n, real = inputs["key"].shape[-1], inputs["pos"].dtype
    ids = jnp.arange(n, dtype=jnp.int32)
    order = jnp.argsort(inputs["key"], axis=-1, stable=True).astype(jnp.int32)
    rank = jnp.argsort(order, axis=-1).astype(jnp.int32)  # an element's place in the fully sorted array

    def element(place: Array) -> Array:
        return jnp.take_along_axis(order, jnp.clip(place, 0, n - 1), axis=-1)

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        j = old["j"][:, None] + 1
        here = jnp.take_along_axis(rank, jnp.minimum(j, n - 1), axis=-1)
        prefix = ids < j
        before = jnp.max(jnp.where(prefix & (rank < here), rank, -1), axis=-1, keepdims=True)
        after = jnp.min(jnp.where(prefix & (rank > here), rank, n), axis=-1, keepdims=True)
        largest = element(jnp.max(jnp.where(prefix, rank, -1), axis=-1, keepdims=True))
        moves = after < n
        pred = jnp.where(ids == j, jnp.where(before < 0, j, element(before)), old["pred"])
        pred = jnp.where(moves & (ids == element(after)), j, pred)
        pred = jnp.where(moves & (ids == j + 1), largest, pred)  # the rest now hangs on the prefix's last element
        i = jnp.where(moves, element(after), j)[:, 0]
        return {"pred": pred, "i": i, "j": j[:, 0]}, j[:, 0] < n

    batch = inputs["key"].shape[0]
    zero = jnp.zeros(batch, jnp.int32)
    start = {"pred": jnp.broadcast_to(jnp.maximum(ids - 1, 0), (batch, n)), "i": zero, "j": zero}

    def show(state: State) -> dict[str, Array]:
        marks = {name: one_hot(state[name], n, real) for name in ("i", "j")}
        return {"pred_h": pointer(state["pred"], real), **marks}

    hints, last, lengths = unroll(step, start, steps, show)
    return Run(hints, {"pred": last["pred"]}, lengths)


def bubble_sort(inputs: dict[str, Array], steps: int) -> Run:
    """Pass i carries the smallest of the elements from place i on down to place i, one exchange of neighbours at most
    per frame.

    Equal keys never change places, so ranks without ties decide as the keys do. Every execution compares the same
    places in the same frame.
    """
    (batch, n), real = inputs["key"].shape, inputs["pos"].dtype
    ids = jnp.arange(n, dtype=jnp.int32)
    rank = jnp.argsort(jnp.argsort(inputs["key"], axis=-1, stable=True), axis=-1).astype(jnp.int32)
    pairs = [(0, 0), *((i, j) for i in range(n) for j in range(n - 1, i, -1)), (0, 0)]
    passes, places = jnp.asarray(pairs, jnp.int32).T

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        frame = jnp.minimum(old["frame"] + 1, len(pairs) - 1)
        i, j = passes[frame[0]], places[frame[0]]
        element = old["element"]
        # The places before and after the pair may not exist; the chain then begins here, or nobody hangs on the pair.
        around = jnp.pad(element, [(0, 0), (2, 1)], constant_values=-1)
        outer, left, right, following = jnp.unstack(jax.lax.dynamic_slice_in_dim(around, j, 4, axis=1), axis=1)
        low, high = jnp.minimum(left, right), jnp.maximum(left, right)
        element = jnp.where(ids == j - 1, low[:, None], jnp.where(ids == j, high[:, None], element))
        new = {
            "element": element,
            "pred": _rechained(old["pred"], [jnp.where(outer < 0, low, outer), low, high, following]),
            "i": jax.lax.dynamic_index_in_dim(element, i, axis=1, keepdims=False) % n,
            "j": high % n,
            "frame": frame,
        }
        return new, frame < len(pairs) - 1

    zero = jnp.zeros(batch, jnp.int32)
    chain = jnp.broadcast_to(jnp.maximum(ids - 1, 0), (batch, n))
    start = {"element": rank * n + ids, "pred": chain, "i": zero, "j": zero, "frame": zero}

    def show(state: State) -> dict[str, Array]:
        return {"pred_h": pointer(state["pred"], real), "i": state["i"], "j": state["j"]}

    record, last, lengths = unroll(step, start, steps, show)
    return Run(expanded(record, lengths, {"i": n, "j": n}, real), {"pred": last["pred"]}, lengths)


def _rechained(pred: Int[Array, "batch n"], chain: list[Int[Array, " batch"]]) -> Int[Array, "batch n"]:
    """The predecessors after each element of the chain was hung on the one before it; a negative one is nobody."""
    ids = jnp.arange(pred.shape[-1], dtype=jnp.int32)
    for before, element in itertools.pairwise(chain):
        here = (ids == element[:, None] % len(ids)) & (element[:, None] >= 0)
        pred = jnp.where(here, before[:, None] % len(ids), pred)
    return pred


class _Places(NamedTuple):
    """An array whose elements are exchanged, and where each node is in it."""

    element: Int[Array, "batch n"]  # by place: rank * n + node; equal keys have equal ranks
    place: Int[Array, "batch n"]  # by node

    @classmethod
    def of(cls, key: Array) -> "_Places":
        batch, n = key.shape
        ids = jnp.arange(n, dtype=jnp.int32)
        rank = jnp.sum(key[:, None, :] < key[:, :, None], axis=-1, dtype=jnp.int32)
        return cls(rank * n + ids, jnp.broadcast_to(ids, (batch, n)))

    def rank(self, place: Int[Array, " batch"]) -> Int[Array, " batch"]:
        return at(self.element, place) // self.place.shape[-1]

    def node(self, place: Int[Array, " batch"]) -> Int[Array, " batch"]:
        return at(self.element, place) % self.place.shape[-1]

    def exchanged(self, one: Int[Array, " batch"], other: Int[Array, " batch"]) -> "_Places":
        ids = jnp.arange(self.place.shape[-1], dtype=jnp.int32)
        here, there = one[:, None], other[:, None]
        at_here, at_there = at(self.element, one)[:, None], at(self.element, other)[:, None]
        element = jnp.where(ids == here, at_there, jnp.where(ids == there, at_here, self.element))
        place = jnp.where(self.place == here, there, jnp.where(self.place == there, here, self.place))
        return _Places(element, place)

    def nodes_at(self, place: Int[Array, "batch n"]) -> Int[Array, "batch n"]:
        return jnp.take_along_axis(self.element, place, axis=-1) % self.place.shape[-1]

    def chain(self) -> Int[Array, "batch n"]:
        """By node: who stands one place before it; the first points to itself."""
        return self.nodes_at(jnp.maximum(self.place - 1, 0))

    def heap(self, size: Int[Array, " batch"]) -> Int[Array, "batch n"]:
        """By node: its parent in the heap of the first `size` places; the root and the rest point to themselves."""
        ids = jnp.arange(self.place.shape[-1], dtype=jnp.int32)
        return jnp.where(self.place < size[:, None], self.nodes_at(jnp.maximum(self.place - 1, 0) // 2), ids)


HEAPSORT_MARKS = ("i", "j", "largest", "heap_size")
HEAPSORT_SPEC = sorting_spec(
    *HEAPSORT_MARKS,
    before=(Variable("parent", Stage.HINT, Location.NODE, Kind.POINTER),),
    after=(Variable("phase", Stage.HINT, Location.GRAPH, Kind.CATEGORICAL, classes=3),),
)
BUILD, TAKE, SIFT = range(3)  # heapsort's phases: from the last place on make a heap; then, in turns, take and repair


def heapsort(inputs: dict[str, Array], steps: int) -> Run:
    """Make a heap, then exchange its largest element with its last one and repair the smaller heap, until one is left.

    A frame is one level of a sift, or one taking. `i` stands at the place where the sift began or, in the second half,
    at the place last taken; in the frame of a taking it is the heap's new root, and `largest` is node 0, as in the
    benchmark.
    """
    (batch, n), real = inputs["key"].shape, inputs["pos"].dtype

    def step(old: State) -> tuple[State, Bool[Array, " batch"]]:
        places = _Places(old["element"], old["place"])
        sifts_on = old["hole"] >= 0
        builds_on = ~sifts_on & (old["phase"] == BUILD) & (old["anchor"] > 0)
        takes = ~sifts_on & ~builds_on
        size = old["size"] - takes
        anchor = jnp.where(takes, size, old["anchor"] - builds_on)
        hole = jnp.where(sifts_on, old["hole"], jnp.where(takes, 0, anchor))
        largest = hole
        for child in (2 * hole + 1, 2 * hole + 2):
            inside = jnp.minimum(child, n - 1)
            largest = jnp.where((child < size) & (places.rank(inside) > places.rank(largest)), inside, largest)
        places = places.exchanged(hole, jnp.where(takes, size, largest))
        new = {
            **places._asdict(),
            "size": size,
            "anchor": anchor,
            "hole": jnp.where(takes, 0, jnp.where(largest == hole, -1, largest)),
            "phase": jnp.where(takes, TAKE, jnp.where(old["phase"] == BUILD, BUILD, SIFT)),
            "i": places.node(jnp.where(takes, 0, anchor)),
            "j": places.node(jnp.where(takes, size, hole)),
            "largest": jnp.where(takes, 0, places.node(largest)),
            "heap_size": places.node(size - 1),
        }
        return new, size > 0

    last_node, whole = jnp.full(batch, n - 1, jnp.int32), jnp.full(batch, n, jnp.int32)
    start = {
        **_Places.of(inputs["key"])._asdict(),
        "size": whole,
        "anchor": whole,
        "hole": jnp.full(batch, -1, jnp.int32),
        "phase": jnp.full(batch, BUILD, jnp.int32),
        **dict.fromkeys(HEAPSORT_MARKS, last_node),
    }

    def show(state: State) -> dict[str, Array]:
        places = _Places(state["element"], state["place"])
        return {
            "pred_h": pointer(places.chain(), real),
            "parent": pointer(places.heap(state["size"]), real),
            **{name: state[name] for name in (*HEAPSORT_MARKS, "phase")},
        }

    record, last, lengths = unroll(step, start, steps, show)
    hints = expanded(record, lengths, {**dict.fromkeys(HEAPSORT_MARKS, n), "phase": 3}, real)
    return Run(hints, {"pred": _Places(last["element"], last["place"]).chain()}, lengths)


def most_heapsort_frames(n: int) -> int:
    """Frame 0; every sift down to the lowest leaf under its place; and a frame for every taking."""

    def levels(place: int, size: int) -> int:
        return 1 + levels(2 * place + 1, size) if 2 * place + 1 < size else 1

    return 1 + sum(levels(place, n) for place in range(n)) + sum(1 + levels(0, size) for size in range(1, n))


QUICKSORT_MARKS = ("p", "r", "i", "j")


def quicksort(inputs: dict[str, Array], steps: int) -> Run:
    """Partition the leftmost segment that is longer than one, by its last element, until there is none.

    A frame is one comparison, or the exchange that puts the pivot in its place; there is no frame before the first
    comparison. (The benchmark fails on a single element; here it has one frame, of the array as it is.)
    """
    key, real = inputs["key"], inputs["pos"].dtype
    batch, n = key.shape

    def step(here: State, memory: State, rows: Access, t: Array) -> tuple[State, State, State]:
        p, r, j = here["p"], here["r"], here["j"]
        memory, i = compared(here, memory, rows, key)
        order, parted = memory["order"], j == r
        shown = {
            "pred_h": rows.row(memory["pred"]),
            **{name: rows.get(order, place) for name, place in (("p", p), ("r", r), ("i", i), ("j", j))},
        }
        # Left of the pivot first; what is right of it waits on a stack, if it is longer than one.
        goes_left, waits = parted & (i - p > 1), parted & (r - i > 1)
        put_on = jnp.where(waits, here["waiting"], n)
        first, last = rows.put(memory["first"], put_on, i + 1), rows.put(memory["last"], put_on, r)
        waiting = here["waiting"] + waits
        takes_off = parted & ~goes_left
        top = jnp.where(takes_off & (waiting > 0), waiting - 1, n)
        p = jnp.where(takes_off, rows.get(first, top), p)
        r = jnp.where(takes_off, rows.get(last, top), jnp.where(goes_left, i - 1, r))
        new = {"p": p, "r": r, "i": jnp.where(parted, p, i), "j": jnp.where(parted, p, j + 1)}
        new |= {"waiting": waiting - takes_off, **nodes_at(new, order, rows)}
        return new, {**memory, "first": first, "last": last}, shown

    stack = jnp.zeros((batch, n + 1), jnp.int32)  # one more, to write what nobody reads
    record, memory, lengths = unroll_rows(
        step,
        lambda state: state["waiting"] >= 0,
        beginning(batch, n) | {"waiting": jnp.zeros(batch, jnp.int32)},
        {**standing(batch, n), "first": stack, "last": stack},
        {
            "pred_h": jnp.zeros((steps, batch, n), short(n)),
            **dict.fromkeys(QUICKSORT_MARKS, jnp.full((steps, batch), NOTHING, jnp.int32)),
        },
        first=0,
    )
    hints = {
        "pred_h": pointer(record["pred_h"].astype(jnp.int32), real),
        **{name: one_hot(record[name], n, real) for name in QUICKSORT_MARKS},
    }
    return Run(hints, {"pred": memory["pred"].astype(jnp.int32)}, lengths)


INSERTION_SORT = Algorithm("insertion_sort", INSERTION_SORT_SPEC, insertion_sort, UniformKeys(), max_steps=lambda n: n)
BUBBLE_SORT = Algorithm(
    "bubble_sort", sorting_spec("i", "j"), bubble_sort, UniformKeys(), max_steps=lambda n: 1 + n * (n - 1) // 2
)
HEAPSORT = Algorithm("heapsort", HEAPSORT_SPEC, heapsort, UniformKeys(), max_steps=most_heapsort_frames)
# The longest execution cuts only the last element off each time.
QUICKSORT = Algorithm(
    "quicksort",
    sorting_spec(*QUICKSORT_MARKS),
    quicksort,
    UniformKeys(),
    max_steps=lambda n: max(1, n * (n + 1) // 2 - 1),
    counts_first=True,
)
