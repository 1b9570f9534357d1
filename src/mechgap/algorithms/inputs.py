"""Complete an algorithm's inputs and refuse what it cannot mean."""

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from mechgap.trace import Kind, Location, Spec, Stage, Values, Variable

DERIVED = ("pos", "adj")  # inputs that follow from the others where they are not given
LARGEST = 1e100  # float64 holds the sum of a million products of three such numbers; no tracer multiplies more
SMALLEST = 1e-100  # but for 0; XLA takes numbers below 2e-308 for 0 on a processor, and a product of three may be one
LARGEST_AS_BITS, SMALLEST_AS_BITS = (np.float64(limit).view(np.uint64) for limit in (LARGEST, SMALLEST))
WHOLE = ("A", "d")  # inputs that the benchmark keeps as integers where they are: unweighted graphs, deadlines


MOST_NAMED = 60  # names that a message lists, where one of them was probably meant


def nearest(name: str, valid: Mapping | tuple | list) -> str:
    """The end of an error message: what was probably meant, and what there is."""
    lowered = {v.lower(): v for v in valid}
    close = [lowered[c] for c in difflib.get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.5)]
    meant = f"Did you mean {' or '.join(repr(c) for c in close)}? " if close else ""
    if close and len(valid) > MOST_NAMED:
        return f"{meant}There are {len(valid)}, e.g. {', '.join(sorted(valid)[:MOST_NAMED])}."
    return f"{meant}Valid: {', '.join(sorted(valid))}."


def completed(spec: Spec, inputs: Values, xp: ModuleType) -> Values:
    """The inputs in spec order with `pos` = i/n and `adj` = (A + I ≠ 0) filled in, by NumPy or jax.numpy."""
    filled = dict(inputs)
    if "pos" not in filled:
        batch, n = inputs[main_input(spec)].shape[:2]
        filled["pos"] = (
            places_in_strings(inputs["string"], xp)
            if "string" in inputs
            else _places(batch, n)
            if xp is np
            else xp.broadcast_to(xp.arange(n) * 1.0 / n, (batch, n))
        )
    if "adj" not in filled and "adj" in spec.names(Stage.INPUT):
        filled["adj"] = adjacency(filled["A"], xp).astype(filled["pos"].dtype)
    return {name: filled[name] for name in spec.names(Stage.INPUT)}


@lru_cache(maxsize=64)
def _places(batch: int, n: int) -> np.ndarray:
    """i/n of every node, read-only; asked for in every call, and half as much work as all checks."""
    return np.broadcast_to(np.arange(n) * 1.0 / n, (batch, n))


def main_input(spec: Spec) -> str:
    """The input that says how many samples and nodes there are."""
    names = [v.name for v in spec.at(Stage.INPUT) if v.location != Location.GRAPH and v.name not in DERIVED]
    return "A" if "A" in names else names[0]


def places_in_strings(string: Any, xp: ModuleType) -> Any:
    """i/length of every character in its own string; the first string's nodes are marked 0, the second's 1."""
    n = string.shape[-1]
    first = xp.sum(string == 0, axis=-1, keepdims=True)
    ids = xp.arange(n)
    # A string may be absent from an input that is yet to be refused, hence the maximum.
    return xp.where(ids < first, ids * 1.0 / xp.maximum(first, 1), (ids - first) * 1.0 / xp.maximum(n - first, 1))


def checked_inputs(
    algorithm: str, spec: Spec, given: Mapping[str, Any], *, nodes: int | None = None
) -> dict[str, np.ndarray]:
    """Complete NumPy inputs, or a ValueError that says what was given, what was expected and how to fix it.

    Args:
        algorithm: for the message.
        spec: what the inputs are.
        given: by name, whatever NumPy makes an array of.
        nodes: how many there must be; by default, any number.
    """
    names = spec.names(Stage.INPUT)
    for name in given:
        if name not in names:
            raise ValueError(f"{algorithm!r} has no input {name!r}. {nearest(name, names)}")
    missing = [name for name in names if name not in given and name not in DERIVED]
    if missing:
        raise ValueError(
            f"{algorithm!r} needs the inputs {', '.join(repr(m) for m in missing)}; given: {sorted(given) or 'none'}. "
            f"Pass them batched, e.g. {algorithm}.trace({', '.join(f'{m}={m}[None]' for m in missing)})."
        )
    arrays = {name: _array(algorithm, name, x) for name, x in given.items()}
    for name, x in arrays.items():
        if x.dtype.kind not in "biuf":
            raise ValueError(
                f"Input {name!r} of {algorithm!r} must hold real numbers; got dtype {x.dtype}. "
                f"Convert it, e.g. np.asarray({name}, float)."
            )
    problems = list(_shape_problems(spec, arrays, nodes)) or list(_value_problems(spec, arrays))
    if problems:
        raise ValueError(f"Bad input for {algorithm!r}:\n  " + "\n  ".join(problems))
    arrays = {
        name: x.astype(float, copy=False) if x.dtype.kind == "f" or name not in WHOLE else x
        for name, x in arrays.items()
    }
    return completed(spec, arrays, np)


def _array(algorithm: str, name: str, given: Any) -> np.ndarray:
    if isinstance(given, np.ma.MaskedArray):
        raise ValueError(
            f"Input {name!r} of {algorithm!r} must have a value everywhere; got a masked array. Fill it: x.filled(0)."
        )
    try:
        return np.asarray(given)
    except ValueError:  # of NumPy, about rows of different lengths
        raise ValueError(
            f"Input {name!r} of {algorithm!r} must be an array; got rows of different lengths. Make them equally long."
        ) from None


def _shape_problems(spec: Spec, arrays: dict[str, np.ndarray], nodes: int | None) -> Iterator[str]:
    main = main_input(spec)
    size, rank = arrays[main].shape, len(spec[main].shape(1))
    pattern = "[B, n]" if rank == 1 else f"[B, n, {'n' if main == 'A' else spec[main].classes}]"
    if len(size) != rank + 1:
        hint = f"for one sample pass {main}[None]" if len(size) == rank else f"reshape it to {pattern}"
        yield f"{main!r} must be batched, {pattern}; got rank {len(size)}, shape {size}: {hint}."
        return
    if 0 in size:
        yield f"{main!r} must have at least one sample and one node, {pattern} with B, n >= 1; got shape {size}."
        return
    if nodes not in (None, size[1]):
        yield f"{main!r} must have {nodes} nodes, [B, {nodes}]; got {size[1]}, shape {size}. Give {nodes} per sample."
        return
    if main == "A" and size[1] != size[2]:
        yield f"'A' must be square, [B, n, n]; got shape {size}: row i holds the edges from node i to every node."
        return
    shapes = {variable.name: shape for variable, shape in spec.shapes(size[1])}
    for name, x in arrays.items():
        expected = (size[0], *shapes[name])
        if x.shape == expected:
            continue
        if spec[name].kind == Kind.MASK_ONE and x.dtype.kind in "iu" and x.ndim <= 1:
            yield from _index_problems(name, x, size[1])
        else:
            yield f"{name!r} must have shape {expected} to go with {main!r} of shape {size}; got {x.shape}."


def _index_problems(name: str, x: np.ndarray, n: int) -> Iterator[str]:
    """A node given by its index instead of one-hot."""
    outside = np.atleast_1d(x)[(np.atleast_1d(x) < 0) | (np.atleast_1d(x) >= n)]
    if outside.size:
        yield f"{name!r} is out of range: node {int(outside[0])} does not exist, nodes are 0..{n - 1}."
    fix = f"pass np.eye({n})[np.atleast_1d({name})]"
    yield f"{name!r} must be one-hot, [B, {n}]; got indices of shape {x.shape}: {fix}."


def _value_problems(spec: Spec, arrays: dict[str, np.ndarray]) -> Iterator[str]:
    joined: Any = adjacency(arrays["A"], np) if "adj" in arrays else None
    if "adj" in arrays and np.array_equal(arrays["adj"], joined):  # nothing can be wrong with it then
        arrays = {name: x for name, x in arrays.items() if name != "adj"}
    for name, x in arrays.items():
        if name == "A" and _is_sound(x):
            continue
        if x.dtype.kind != "f":
            yield from _kind_problems(spec[name], x)
        elif not (_is_small(x) or (float(x.min()) >= -LARGEST and float(x.max()) <= LARGEST)):
            yield _size_problem(name, x)
        elif not _is_far_from_zero(np.abs(x.astype(float, copy=False))):
            yield _near_zero_problem(name, x)
        else:
            yield from _kind_problems(spec[name], x)
    if "string" in arrays:
        yield from _string_problems(arrays["string"], is_needle="match" in spec.names(Stage.OUTPUT))
    if "adj" in arrays and not np.array_equal(arrays["adj"] != 0, joined):
        yield "'adj' must be (A + I) != 0, but differs from that; leave 'adj' out to have it derived."


def _is_sound(x: np.ndarray) -> bool:
    """Whether none is negative, too large, not a number (as bits, all these are larger than others) or near 0."""
    if x.dtype != np.float64 or not x.flags.c_contiguous or x.view(np.uint64).max() > LARGEST_AS_BITS:
        return False
    return _has_none_near_zero(x)


def _is_far_from_zero(x: np.ndarray) -> bool:
    """`_has_none_near_zero` for what is seldom 0: the smallest tells in most cases, and takes a third of the time."""
    return bool(x.min() >= SMALLEST) or _has_none_near_zero(x)


def _has_none_near_zero(x: np.ndarray) -> bool:
    """Whether all, none of which is negative, are 0 or large enough: as bits less 1, 0 is the largest of all."""
    return bool((x.view(np.uint64) - np.uint64(1)).min() >= SMALLEST_AS_BITS - np.uint64(1))


def _is_small(x: np.ndarray) -> bool:
    """Whether all are finite and far from too large, in one pass: no square is larger than the sum of all."""
    return float(np.vdot(x, x)) <= LARGEST


def _size_problem(name: str, x: np.ndarray) -> str:
    """The first number that is infinite, none, or too large."""
    where = np.argwhere(~(np.abs(x.astype(float)) <= LARGEST))[0].tolist()
    value = x[tuple(where)]
    if np.isfinite(value):
        return f"{name!r} must be from {-LARGEST:g} to {LARGEST:g}; got {value} at {where}. Scale the inputs down."
    fix = "Use 0 for 'no edge'." if name == "A" else "Take the sample out."
    return f"{name!r} must be finite; got {value} at {where}. {fix}"


def _near_zero_problem(name: str, x: np.ndarray) -> str:
    """The first number that is too near to 0."""
    where = np.argwhere((x != 0) & (np.abs(x) < SMALLEST))[0].tolist()
    return (
        f"{name!r} must be 0 or at least {SMALLEST:g} in size; got {x[tuple(where)]} at {where}. "
        "Scale the inputs up, or write 0."
    )


def _string_problems(string: np.ndarray, is_needle: bool) -> Iterator[str]:
    n, second = string.shape[-1], string.sum(-1)
    apart = np.array_equal(string, string != 0) and np.all(np.diff(string, axis=-1) >= 0)
    if not apart or np.any((second == 0) | (second == n)):
        yield "'string' must be 0 along the first string and then 1 along the second, at least one of each."
    elif is_needle and np.any(second > n - second):
        sample = int(np.argmax(second))
        yield (
            "'string' marks the needle with 1, and a needle must not be longer than the haystack; "
            f"sample {sample} has a needle of {int(second[sample])} among {n} characters."
        )


def adjacency(A: Any, xp: ModuleType) -> Any:
    """Who may attend whom: every edge, and every node itself. (Weights are never negative: A + I ≠ 0 where A ≠ 0.)"""
    if xp is np:  # in place: these arrays are large, and the diagonal is not
        joined = A != 0
        joined[..., np.arange(A.shape[-1]), np.arange(A.shape[-1])] = True
        return joined
    return (A != 0) | xp.eye(A.shape[-1], dtype=bool)


def _kind_problems(variable: Variable, x: np.ndarray) -> Iterator[str]:
    name = variable.name
    if name == "A" and x.min() < 0:
        where = np.argwhere(x < 0)[0].tolist()
        yield f"'A' must not have negative weights; got {x[tuple(where)]} at {where}. Shift the weights above 0."
    if variable.kind == Kind.MASK_ONE:
        rows = np.argwhere((x != 0).sum(-1) != 1)
        if rows.size:
            marked = int((x[rows[0][0]] != 0).sum())
            yield (
                f"{name!r} must mark exactly one node per sample; sample {rows[0][0]} marks {marked} "
                f"(the source is out of range or missing): pass np.eye({x.shape[-1]})[index]."
            )
        elif np.any((x != 0) & (x != 1)):
            yield f"{name!r} must be one-hot, with a 1 at the node; got the value {x[x != 0].max()}."
    if variable.kind == Kind.CATEGORICAL:
        wrong = np.argwhere(((x != 0).sum(-1) != 1) | (x.max(-1) != 1))
        if wrong.size:
            fix = f"pass np.eye({variable.classes})[{name}]"
            where = wrong[0].tolist()
            yield f"{name!r} must be one-hot over its {variable.classes} classes, but is not at {where}: {fix}."
    if variable.kind == Kind.MASK and variable.location == Location.EDGE and not np.array_equal(x, x != 0):
        yield f"{name!r} must hold 0 and 1 only; got {x[(x != 0) & (x != 1)][0]}."
