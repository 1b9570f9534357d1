"""The two operations on every pair of nodes: attention scores and pointer scores.

They hold nearly all of a network's arithmetic. None of their three forms ever keeps an [n, n, s] array for the backward
pass: it is made again from [n, s] and [n, n, K] ones, K being the few values that live on an edge.

| form      | what it is                                            | used                                      |
|-----------|-------------------------------------------------------|-------------------------------------------|
| plain     | the definition below, made again by `jax.checkpoint`  | wherever neither of the others is         |
| recompute | its backward pass by hand (pairwise_recompute.py)     | on a CPU                                  |
| kernel    | both passes as a fused kernel (pairwise_kernel.py)    | on an NVIDIA GPU, in float32, if it fits  |

The form is chosen when a function is traced. `use_form`, or the variable MECHGAP_PAIRWISE, chooses another one. Only
the plain form has forward-mode derivatives and derivatives of derivatives.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mechgap.networks import pairwise_recompute
from mechgap.networks.device import CPU, GPU, present_platform
from mechgap.networks.pairwise_recompute import LEAK, LEAKY_SUM, MAXIMUM, Combine, Operands, on_pairs

FORMS = ("plain", "recompute", "kernel")
VARIABLE = "MECHGAP_PAIRWISE"
_asked: ContextVar[str | None] = ContextVar("pairwise_form", default=None)


def attention_scores(
    sender: Float[Array, "n s"],
    receiver: Float[Array, "n s"],
    edge: Float[Array, "n n K"],
    weight: Float[Array, "K s"],
    vectors: Float[Array, "heads m"],
) -> Float[Array, "heads n n"]:
    """a[h, i, j] = ω_h · leaky(ζ_ij)_h with ζ_ij = receiver_i + sender_j + edge_ij W, split into heads (Eq. 6, 7)."""
    x = Operands(receiver, sender, edge, weight, vectors)
    form = form_for(x)
    if form == "plain":
        return plain_attention_scores(sender, receiver, edge, weight, vectors)
    return _scores(form, LEAKY_SUM, _setting("jax_default_matmul_precision"), x)


def pointer_scores(
    source: Float[Array, "n s"],
    target: Float[Array, "n s"],
    edge: Float[Array, "n n K"],
    weight: Float[Array, "K s"],
    vector: Float[Array, " s"],
) -> Float[Array, "n n"]:
    """y[i, j] = w · max(source_i, target_j + edge_ji W): the edge is read from j to i (Eq. 27-29)."""
    x = Operands(source, target, jnp.swapaxes(edge, 0, 1), weight, vector[None])
    form = form_for(x)
    if form == "plain":
        return plain_pointer_scores(source, target, edge, weight, vector)
    return _scores(form, MAXIMUM, _setting("jax_default_matmul_precision"), x)[0]


@jax.checkpoint
def plain_attention_scores(
    sender: Float[Array, "n s"],
    receiver: Float[Array, "n s"],
    edge: Float[Array, "n n K"],
    weight: Float[Array, "K s"],
    vectors: Float[Array, "heads m"],
) -> Float[Array, "heads n n"]:
    """The definition of `attention_scores`."""
    zeta = receiver[:, None, :] + (sender[None, :, :] + on_pairs(edge, weight))
    split = jax.nn.leaky_relu(zeta, LEAK).reshape(*zeta.shape[:2], *vectors.shape)
    return jnp.einsum("ijhm,hm->hij", split, vectors)


@jax.checkpoint
def plain_pointer_scores(
    source: Float[Array, "n s"],
    target: Float[Array, "n s"],
    edge: Float[Array, "n n K"],
    weight: Float[Array, "K s"],
    vector: Float[Array, " s"],
) -> Float[Array, "n n"]:
    """The definition of `pointer_scores`; where both are equal, the gradient of the maximum is split in halves."""
    reversed_edge = jnp.swapaxes(edge, 0, 1)
    best = jnp.maximum(source[:, None, :], target[None, :, :] + on_pairs(reversed_edge, weight))
    return best @ vector


@contextmanager
def use_form(form: str) -> Iterator[None]:
    """Trace with this form wherever it can serve, whatever the device; a kernel on a CPU is interpreted, slowly."""
    token = _asked.set(_checked(form, "form"))
    try:
        yield
    finally:
        _asked.reset(token)


def present_form() -> str:
    """The form that functions are traced with now, wherever it can serve: the one asked for, or the device's own."""
    return _checked(_asked.get() or os.environ.get(VARIABLE) or _by_device(), VARIABLE)


def form_for(x: Operands) -> str:
    """The form that serves these operands: the present one, where it can, else the plain one."""
    form = present_form()
    if x.weight.shape[0] == 0 or len({array.dtype for array in x}) > 1:
        return "plain"
    return "plain" if form == "kernel" and not _kernel().fits(x) else form


def _by_device() -> str:
    return {CPU: "recompute", GPU: "kernel"}.get(present_platform(), "plain")


def _setting(name: str) -> Any:
    return getattr(jax.config, name)  # its present value, inside a context manager too


def _checked(form: str, name: str) -> str:
    if form not in FORMS:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, FORMS))}; got {form!r}.")
    return form


def _kernel() -> Any:
    from mechgap.networks import pairwise_kernel  # Pallas takes a while to import, and a CPU never needs it

    return pairwise_kernel


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _scores(form: str, combine: Combine, precision: Any, x: Operands) -> Array:
    """The backward pass may be traced long after the forward one: it keeps the precision of matrix products."""
    with jax.default_matmul_precision(precision):
        return _passes(form).forward(combine, x)


def _scores_forward(form: str, combine: Combine, precision: Any, x: Operands) -> tuple[Array, Operands]:
    return _scores(form, combine, precision, x), x


def _scores_backward(form: str, combine: Combine, precision: Any, x: Operands, scores: Array) -> tuple[Operands]:
    with jax.default_matmul_precision(precision):
        return (_passes(form).backward(combine, x, scores),)


def _passes(form: str) -> Any:
    return _kernel() if form == "kernel" else pairwise_recompute


_scores.defvjp(_scores_forward, _scores_backward)
