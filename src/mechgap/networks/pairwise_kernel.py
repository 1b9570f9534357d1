"""Scores of pairs of nodes as one fused GPU kernel (Pallas, Triton), which never writes the [n, n, s] tile.

A program holds a block of senders j, [J, S] numbers, in registers and goes through a block of receivers i one by one.
The backward pass does the same and makes every tile again. Sums that leave a program (over i for the senders, over j
for the receivers, over both for the weights) are written out per program and added outside. Heads, graphs and seeds are
further axes of the launch: `vmap` adds them, and an operand they share is read in place.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from mechgap.networks.device import GPU, present_platform
from mechgap.networks.pairwise_recompute import Combine, Operands

# Measured on an H200 (benchmarks/pairwise.py --tune): small tiles of a single warp, which never waits for another.
TILE = 512  # numbers of a tile, 16 a thread; K + 5 tiles are alive at a time
RECEIVERS = 16  # per program, so that few large graphs still fill the card
WIDEST, MOST_EDGE_VALUES = 512, 8  # beyond these even the tile of a single sender spills


class Blocks(NamedTuple):
    """How the work is cut: sizes of arrays in a kernel must be powers of two, and masks hide the rest."""

    n: int
    width: int  # of a head
    senders: int  # J
    receivers: int
    padded: int  # S
    warps: int

    @classmethod
    def of(cls, n: int, width: int, tile: int = TILE, receivers: int = RECEIVERS, warps: int = 1) -> "Blocks":
        """The cut for graphs of n nodes and heads of this width."""
        padded = pl.next_power_of_2(width)
        senders = max(1, min(pl.next_power_of_2(n), tile // padded))
        return cls(n, width, senders, min(n, receivers), padded, warps)

    @property
    def grid(self) -> tuple[int, int]:
        """Programs: blocks of senders by blocks of receivers."""
        return pl.cdiv(self.n, self.senders), pl.cdiv(self.n, self.receivers)


def fits(x: Operands) -> bool:
    """Whether the kernel takes these: float32, few values on an edge, heads that are not too wide."""
    single = all(array.dtype == jnp.float32 for array in x)
    return single and 1 <= x.weight.shape[0] <= MOST_EDGE_VALUES and x.vectors.shape[1] <= WIDEST


def forward(combine: Combine, x: Operands, blocks: Blocks | None = None) -> Float[Array, "heads n n"]:
    """The scores."""
    return _per_head(partial(_forward, combine, blocks), x, x.left.shape[0])


def backward(
    combine: Combine, x: Operands, scores: Float[Array, "heads n n"], blocks: Blocks | None = None
) -> Operands:
    """The gradients, from the gradient of the scores."""
    n, heads = x.left.shape[0], x.vectors.shape[0]
    one = _per_head(partial(_backward, combine, blocks), x, n, scores)
    return Operands(
        left=jnp.moveaxis(one.left, 0, 1).reshape(n, -1),
        right=jnp.moveaxis(one.right, 0, 1).reshape(n, -1),
        edge=one.edge[0] if heads == 1 else jnp.sum(one.edge, axis=0),
        weight=jnp.moveaxis(one.weight, 0, 1).reshape(x.weight.shape),
        vectors=one.vectors.reshape(x.vectors.shape),
    )


def interpreted() -> bool:
    """Whether kernels are interpreted: where there is no GPU to compile them for."""
    return present_platform() != GPU


def _per_head(function: Callable[..., Any], x: Operands, n: int, *scores: Array) -> Any:
    heads = x.vectors.shape[0]
    split = x._replace(
        left=x.left.reshape(n, heads, -1),
        right=x.right.reshape(n, heads, -1),
        weight=x.weight.reshape(-1, *x.vectors.shape),
    )
    axes: Any = Operands._make((1, 1, None, 1, 0))
    return jax.vmap(function, in_axes=(axes, *(0 for _ in scores)))(split, *scores)


def _forward(combine: Combine, blocks: Blocks | None, x: Operands) -> Float[Array, "n n"]:
    cut = Blocks.of(*x.left.shape) if blocks is None else blocks
    call = _call(
        partial(_forward_kernel, combine, cut),
        cut,
        jax.ShapeDtypeStruct((cut.n, cut.n), x.left.dtype),
        in_specs=_operand_specs(cut, x.weight.shape[0]),
        out_specs=_pair_spec(cut),
    )
    return call(*x)


def _backward(combine: Combine, blocks: Blocks | None, x: Operands, scores: Float[Array, "n n"]) -> Operands:
    cut = Blocks.of(*x.left.shape) if blocks is None else blocks
    (over_j, over_i), n, width, values = cut.grid, *x.left.shape, x.weight.shape[0]
    outs = {
        "left": ((over_j, n, width), (None, cut.receivers, cut.padded), lambda j, i: (j, i, 0)),
        "right": ((over_i, n, width), (None, cut.senders, cut.padded), lambda j, i: (i, j, 0)),
        "edge": (x.edge.shape, (cut.receivers, cut.senders, values), lambda j, i: (i, j, 0)),
        "weight": ((over_j, over_i, values, width), (None, None, values, cut.padded), lambda j, i: (j, i, 0, 0)),
        "vectors": ((over_j, over_i, width), (None, None, cut.padded), lambda j, i: (j, i, 0)),
    }
    call = _call(
        partial(_backward_kernel, combine, cut),
        cut,
        [jax.ShapeDtypeStruct(shape, x.left.dtype) for shape, _, _ in outs.values()],
        in_specs=[*_operand_specs(cut, values), _pair_spec(cut)],
        out_specs=[pl.BlockSpec(block, index) for _, block, index in outs.values()],
    )
    left, right, edge, weight, vectors = call(*x, scores)
    return Operands(left.sum(0), right.sum(0), edge, weight.sum((0, 1)), vectors.sum((0, 1)))


def _call(
    kernel: Callable[..., None], cut: Blocks, out_shape: Any, in_specs: Any, out_specs: Any
) -> Callable[..., Any]:
    return pl.pallas_call(
        kernel,
        out_shape=out_shape,
        grid=cut.grid,
        in_specs=in_specs,
        out_specs=out_specs,
        interpret=interpreted(),
        compiler_params=triton.CompilerParams(num_warps=cut.warps, num_stages=1),
    )


def _operand_specs(cut: Blocks, values: int) -> list[Any]:
    return [
        pl.BlockSpec((cut.receivers, cut.padded), lambda j, i: (i, 0)),  # left
        pl.BlockSpec((cut.senders, cut.padded), lambda j, i: (j, 0)),  # right
        pl.BlockSpec((cut.receivers, cut.senders, values), lambda j, i: (i, j, 0)),  # edge
        pl.BlockSpec((values, cut.padded), lambda j, i: (0, 0)),  # weight
        pl.BlockSpec((cut.padded,), lambda j, i: (0,)),  # vectors, one head's
    ]


def _pair_spec(cut: Blocks) -> Any:
    return pl.BlockSpec((cut.receivers, cut.senders), lambda j, i: (i, j))


class _Inside:
    """Which numbers of a program's blocks lie inside the arrays; None where all do."""

    def __init__(self, cut: Blocks):
        sender = pl.program_id(0) * cut.senders + jnp.arange(cut.senders)
        self._first_receiver = pl.program_id(1) * cut.receivers
        self._cut = cut
        self.senders = None if cut.n % cut.senders == 0 else sender < cut.n
        self.width = None if cut.width == cut.padded else jnp.arange(cut.padded) < cut.width
        self.tile = _both(
            None if self.senders is None else self.senders[:, None], None if self.width is None else self.width[None, :]
        )

    def receiver(self, i: Array) -> Array | None:
        """Whether the block's receiver i is inside."""
        return None if self._cut.n % self._cut.receivers == 0 else self._first_receiver + i < self._cut.n


class _Program:
    """What one program of either pass reads: its senders and the weights at once, a receiver when asked."""

    def __init__(self, cut: Blocks, left: Any, right: Any, edge: Any, weight: Any, vector: Any):
        self.inside = _Inside(cut)
        self.senders = _load(right.at[:, :], self.inside.tile)
        self.weights = [_load(weight.at[_at(k), :], self.inside.width)[None, :] for k in range(weight.shape[0])]
        self.vector = _load(vector.at[:], self.inside.width)[None, :]
        self._left, self._edge = left, edge

    def masks(self, i: Array) -> tuple[Array | None, Array | None]:
        """For what is stored at receiver i: along the senders, and along the width."""
        here = self.inside.receiver(i)
        return _both(self.inside.senders, here), _both(self.inside.width, here)

    def sides(self, i: Array) -> tuple[Array, Array, list[Array]]:
        """left_i, the tile right_j + edge_ij weight, and the values of edge_ij."""
        on_senders, on_width = self.masks(i)
        values = [_load(self._edge.at[i, :, _at(k)], on_senders)[:, None] for k in range(len(self.weights))]
        terms = [value * weight for value, weight in zip(values, self.weights, strict=True)]
        left = _load(self._left.at[i, :], on_width)[None, :]
        return left, self.senders + sum(terms[1:], terms[0]), values


def _forward_kernel(combine: Combine, cut: Blocks, *refs: Any) -> None:
    *operands, out = refs
    program = _Program(cut, *operands)

    def receiver(i: Array, carry: None) -> None:
        left, right, _ = program.sides(i)
        score = jnp.sum(combine.value(left, right) * program.vector, axis=1)
        _store(out.at[i, :], score, program.masks(i)[0])

    jax.lax.fori_loop(0, cut.receivers, receiver, None)


def _backward_kernel(combine: Combine, cut: Blocks, *refs: Any) -> None:
    operands, scores, gradients = refs[:5], refs[5], Operands(*refs[6:])
    program = _Program(cut, *operands)

    def receiver(i: Array, sums: tuple[Array, Array, list[Array]]) -> tuple[Array, Array, list[Array]]:
        sum_right, sum_vector, sum_weight = sums
        on_senders, on_width = program.masks(i)
        left, right, values = program.sides(i)
        score = _load(scores.at[i, :], on_senders)[:, None]
        pull, (to_left, to_right) = score * program.vector, combine.slopes(left, right)
        of_right = pull * to_right
        of_left = of_right if to_left is to_right else pull * to_left
        _store(gradients.left.at[i, :], jnp.sum(of_left, axis=0), on_width)
        for k, weight in enumerate(program.weights):
            _store(gradients.edge.at[i, :, _at(k)], jnp.sum(of_right * weight, axis=1), on_senders)
        return (
            sum_right + of_right,
            sum_vector + score * combine.value(left, right),
            [total + value * of_right for total, value in zip(sum_weight, values, strict=True)],
        )

    zero = jnp.zeros_like(program.senders)
    start = (zero, zero, [zero for _ in program.weights])
    sum_right, sum_vector, sum_weight = jax.lax.fori_loop(0, cut.receivers, receiver, start)
    inside = program.inside
    _store(gradients.right.at[:, :], sum_right, inside.tile)
    _store(gradients.vectors.at[:], jnp.sum(sum_vector, axis=0), inside.width)
    for k, total in enumerate(sum_weight):
        _store(gradients.weight.at[_at(k), :], jnp.sum(total, axis=0), inside.width)


def _both(a: Array | None, b: Array | None) -> Array | None:
    return (b if a is None else a) if a is None or b is None else a & b


def _load(view: Any, mask: Array | None) -> Array:
    if mask is None:
        return triton.load(view)
    return triton.load(view, mask=jnp.broadcast_to(mask, view.shape), other=0.0)


def _store(view: Any, value: Array, mask: Array | None) -> None:
    triton.store(view, value, mask=None if mask is None else jnp.broadcast_to(mask, value.shape))


def _at(k: int) -> Array:
    return jnp.asarray(k, jnp.int32)  # the interpreter of jax 0.10 takes no Python number among masked indices
