"""Attention over short sequences as one fused GPU kernel for each pass (Pallas, Triton), which writes no logits.

    mixed[i, h] = Σ_j attention[h, i, j] value[j, h]       attention as in `transformer.attention_of`

A program holds all queries, keys and values of one head and one sequence, which a few dozen places allow; XLA pads,
transposes and copies each of them several times. They lie in memory as matrix products leave them, [length, heads,
width]. `vmap` adds sequences as a further axis of the launch, and an operand that they share is read in place. The
backward pass makes the attention again.

It is used wherever it serves; with the variable MECHGAP_ATTENTION=plain, attention is computed by its definition.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float

from mechgap.networks.device import GPU, present_platform

VARIABLE, PLAIN, KERNEL = "MECHGAP_ATTENTION", "plain", "kernel"
NEVER = -1e9  # the logit of what must not be looked at
SMALLEST, LONGEST, WIDEST = 16, 64, 128  # what the card multiplies at least; what its registers hold
WARPS = 2


class Operands(NamedTuple):
    """What attention is made of, see `transformer.attend`."""

    query: Float[Array, "length heads k"]
    key: Float[Array, "sources heads k"]
    value: Float[Array, "sources heads m"]
    allowed: Bool[Array, "length sources"]
    bias: Float[Array, "heads length sources"]
    null: Float[Array, " heads"]


def serves(x: Operands) -> bool:
    """Whether the kernel is for these: bfloat16 on a GPU, and small enough; and nothing else is asked for."""
    form = os.environ.get(VARIABLE, KERNEL)
    if form not in (PLAIN, KERNEL):
        raise ValueError(f"{VARIABLE} must be {PLAIN} or {KERNEL}; got {form!r}.")
    narrow = all(array.dtype == jnp.bfloat16 for array in x[:3])
    sizes = Sizes.of(x)
    return (
        form == KERNEL
        and not interpreted()
        and narrow
        and max(sizes.length, sizes.sources) <= LONGEST
        and max(sizes.width, sizes.of_values) <= WIDEST
    )


def interpreted() -> bool:
    """Whether kernels are interpreted: where there is no GPU to compile them for."""
    return present_platform() != GPU


@jax.custom_vjp
def mix(x: Operands) -> Float[Array, "length heads m"]:
    """What every head reads at every place, in the type of the values."""
    sizes = Sizes.of(x)
    out = jax.ShapeDtypeStruct((sizes.length, *x.value.shape[1:]), x.value.dtype)
    return _call(_forward_kernel, x, (), [out], [_places(sizes.length, sizes.of_values)])[0]


def _forward(x: Operands) -> tuple[Array, Operands]:
    return mix(x), x


def _backward(x: Operands, pull: Float[Array, "length heads m"]) -> tuple[Operands]:
    parts = x._replace(allowed=None)  # type: ignore[arg-type]  # there is no gradient of it
    outs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in parts if a is not None]
    specs = [spec for spec, a in zip(_specs(Sizes.of(x)), parts, strict=True) if a is not None]
    query, key, value, bias, null = _call(_backward_kernel, x, (pull,), outs, specs)
    return (Operands(query, key, value, None, bias, null),)  # type: ignore[arg-type]


mix.defvjp(_forward, _backward)


class Sizes(NamedTuple):
    """Of one head's arrays; a program holds powers of two, and masks hide the rest."""

    length: int
    sources: int
    width: int
    of_values: int

    @classmethod
    def of(cls, x: Operands) -> "Sizes":
        """The sizes of these."""
        return cls(len(x.query), len(x.key), x.query.shape[2], x.value.shape[2])


def _call(kernel: Callable[..., None], x: Operands, pull: tuple[Array, ...], outs: list[Any], specs: list[Any]) -> Any:
    sizes = Sizes.of(x)
    return pl.pallas_call(
        partial(kernel, sizes),
        out_shape=outs,
        grid=(x.query.shape[1],),
        in_specs=[*_specs(sizes), *(_places(sizes.length, sizes.of_values) for _ in pull)],
        out_specs=specs,
        interpret=interpreted(),
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
    )(*x._replace(allowed=x.allowed.astype(jnp.int8)), *pull)  # no truths in memory: they have no address


def _specs(sizes: Sizes) -> Operands:
    pairs = _room(sizes.length), _room(sizes.sources)
    return Operands(
        query=_places(sizes.length, sizes.width),
        key=_places(sizes.sources, sizes.width),
        value=_places(sizes.sources, sizes.of_values),
        allowed=pl.BlockSpec(pairs, lambda head: (0, 0)),  # type: ignore[arg-type]
        bias=pl.BlockSpec((None, *pairs), lambda head: (head, 0, 0)),  # type: ignore[arg-type]
        null=pl.BlockSpec((1,), lambda head: (head,)),  # type: ignore[arg-type]
    )


def _places(count: int, width: int) -> Any:
    return pl.BlockSpec((_room(count), None, _room(width)), lambda head: (0, head, 0))


def _room(size: int) -> int:
    return max(SMALLEST, pl.next_power_of_2(size))


class _Head:
    """What a program reads, and its attention; that to the null slot stands by itself. Outside of arrays all is 0."""

    def __init__(self, sizes: Sizes, refs: Operands) -> None:
        length, sources, width, of_values = (jnp.arange(_room(size)) < size for size in sizes)
        self.here, self.there = length[:, None] & width, sources[:, None] & width  # of queries, of keys
        self.values, self.mixed, self.pairs = (
            sources[:, None] & of_values,
            length[:, None] & of_values,
            length[:, None] & sources,
        )
        self.query, self.key = _load(refs.query, self.here), _load(refs.key, self.there)
        self.value, null = _load(refs.value, self.values), refs.null[:]
        logits = _dot(self.query, self.key, 1, 1) + _load(refs.bias, self.pairs)
        self.allowed = _load(refs.allowed, self.pairs) > 0
        logits = jnp.where(self.allowed, logits, NEVER)
        largest = jnp.maximum(jnp.max(logits, axis=1), null)
        raised = jnp.where(self.pairs, jnp.exp(logits - largest[:, None]), 0.0)
        total = jnp.sum(raised, axis=1) + jnp.exp(null - largest)
        self.attention, self.to_null = raised / total[:, None], jnp.exp(null - largest) / total


def _forward_kernel(sizes: Sizes, *refs: Any) -> None:
    *operands, mixed = refs
    head = _Head(sizes, Operands(*operands))
    _store(mixed, _dot(head.attention.astype(head.value.dtype), head.value, 1, 0), head.mixed)


def _backward_kernel(sizes: Sizes, *refs: Any) -> None:
    operands, pull_ref, (query, key, value, bias, null) = refs[:6], refs[6], refs[7:]
    head = _Head(sizes, Operands(*operands))
    pull, narrow = _load(pull_ref, head.mixed), head.value.dtype
    on_attention = _dot(pull, head.value, 1, 1)
    mean = jnp.sum(on_attention * head.attention, axis=1)  # of the null slot, which adds nothing, it is 0
    on_logits = jnp.where(head.allowed, head.attention * (on_attention - mean[:, None]), 0.0)
    _store(query, _dot(on_logits.astype(narrow), head.key, 1, 0), head.here)
    _store(key, _dot(on_logits.astype(narrow), head.query, 0, 0), head.there)
    _store(value, _dot(head.attention.astype(narrow), pull, 0, 0), head.values)
    _store(bias, on_logits, head.pairs)
    null[:] = -jnp.sum(head.to_null * mean, keepdims=True)


def _dot(a: Array, b: Array, axis_of_a: int, axis_of_b: int) -> Array:
    """A product that is summed in float32 over these axes."""
    axes = (((axis_of_a,), (axis_of_b,)), ((), ()))
    return jax.lax.dot_general(a, b, axes, preferred_element_type=jnp.float32)


def _load(ref: Any, mask: Array) -> Array:
    return triton.load(ref, mask=mask, other=0)


def _store(ref: Any, value: Array, mask: Array) -> None:
    triton.store(ref, value.astype(ref.dtype), mask=mask)
