"""The affine layer and the layer norm that every network here is made of, and how two affine layers become one."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray


class Linear(eqx.Module):
    """y = x W + b over the last axis; W is stored [inputs, outputs], as in the reference.

    The weights start from a normal distribution cut at two standard deviations (the standard deviation is that before
    the cut), by default 1/sqrt(inputs); the bias starts at 0.
    """

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"] | None

    @classmethod
    def init(
        cls, inputs: int, outputs: int, *, key: PRNGKeyArray, bias: bool = True, stddev: float | None = None
    ) -> "Linear":
        """A layer with random weights."""
        scale = 1 / math.sqrt(max(inputs, 1)) if stddev is None else stddev
        weight = jax.random.truncated_normal(key, -2.0, 2.0, (inputs, outputs)) * scale
        return cls(weight, jnp.zeros(outputs, weight.dtype) if bias else None)

    def __call__(self, x: Float[Array, "*places inputs"]) -> Float[Array, "*places outputs"]:
        y = x @ self.weight
        if self.bias is None:
            return y
        wide = jnp.promote_types(y.dtype, jnp.float32)  # so that gradients of a bias in bfloat16 add up in float32
        return (y.astype(wide) + self.bias.astype(wide)).astype(y.dtype)


class SparseLinear(eqx.Module):
    """The same layer, held as its non-zero weights alone: for layers of tens of thousands of mostly idle units.

    Attributes:
        sources, targets: between which input and output each weight stands; the targets rise.
        values: the weights.
    """

    sources: Int[Array, " weights"]
    targets: Int[Array, " weights"]
    values: Float[Array, " weights"]
    bias: Float[Array, " outputs"] | None
    shape: tuple[int, int] = eqx.field(static=True)

    @classmethod
    def of(cls, layer: Linear) -> "SparseLinear":
        """The non-zero weights of a layer."""
        weight = np.asarray(layer.weight)
        targets, sources = np.nonzero(weight.T)
        values = jnp.asarray(weight[sources, targets])
        return cls(jnp.asarray(sources), jnp.asarray(targets), values, layer.bias, weight.shape)

    def dense(self) -> Linear:
        """The layer with all its weights."""
        weight = jnp.zeros(self.shape, self.values.dtype).at[self.sources, self.targets].set(self.values)
        return Linear(weight, self.bias)

    def __call__(self, x: Float[Array, "*places inputs"]) -> Float[Array, "*places outputs"]:
        terms = jnp.moveaxis(x, -1, 0)[self.sources]
        terms = terms * self.values.reshape(-1, *(1,) * (terms.ndim - 1))
        y = jax.ops.segment_sum(terms, self.targets, self.shape[1], indices_are_sorted=True)
        y = jnp.moveaxis(y, 0, -1)
        return y if self.bias is None else y + self.bias


AnyLinear = Linear | SparseLinear


def fold(first: Linear, second: Linear) -> Linear:
    """One layer on [x, rest] that equals second([first(x), rest]); `rest` may be empty.

    (x V + c) W + b = x (V W) + (c W + b): an encoder of few values in front of a wide layer costs a product of the
    widths at every place of a graph; folded, it costs it once.
    """
    width = first.weight.shape[1]
    head, tail = second.weight[:width], second.weight[width:]
    parts = [b for b in (None if first.bias is None else first.bias @ head, second.bias) if b is not None]
    return Linear(jnp.concatenate([first.weight @ head, tail]), sum(parts[1:], parts[0]) if parts else None)


class LayerNorm(eqx.Module):
    """(x - mean) / sqrt(variance + 1e-5) * scale + offset over the last axis.

    Of a stream in float32, a norm with weights in bfloat16 gives bfloat16; its mean and variance are float32.
    """

    scale: Float[Array, " width"]
    offset: Float[Array, " width"]

    @classmethod
    def init(cls, width: int) -> "LayerNorm":
        """The norm before any training: scale 1, offset 0."""
        return cls(jnp.ones(width), jnp.zeros(width))

    def __call__(self, x: Float[Array, "*places width"]) -> Float[Array, "*places width"]:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
        y = centred * jax.lax.rsqrt(variance + 1e-5) * self.scale + self.offset
        return y.astype(jnp.bfloat16) if self.scale.dtype == jnp.bfloat16 else y
