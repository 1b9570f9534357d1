"""A Transformer encoder or decoder: ALTA programs are compiled into it, and it is what gets trained on the same tasks.

    x = tokens[ids] + positions                                          (positions may be left out)
    per layer:  x = x + Σ_h softmax_j(q_i · k_j + bias_{j - i}) v_j O_h     with a null slot that attends nothing
                x = x + mlp(x)

All layers share one block (a Universal Transformer), or have one each. A compiled one has clipped ReLUs and no layer
norm, a trained one usually GELUs and a norm before attention and MLP. Methods have no batch axis; `run_batch` has.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mechgap.networks.device import CPU, present_platform
from mechgap.networks.layers import AnyLinear, LayerNorm, Linear

NEVER = -1e9  # the logit of what must not be looked at
EACH, BUCKETS = "each", "buckets"  # what shares a bias: nothing up to a span; or what shares a bucket of T5's
T5_BUCKETS, T5_FURTHEST = 32, 128  # beyond the second, all distances are in one bucket
BFLOAT16 = "bfloat16"  # a precision, see `computing`
UNROLLED = 8  # layers that are straight-line code on an accelerator: small kernels wait for their launch otherwise


@dataclass(frozen=True)
class TransformerConfig:
    """What is fixed about a Transformer.

    Attributes:
        causal: a position looks at itself and earlier ones only.
        shared: all layers share one block.
        precision: of matrix products; None for JAX's default. `BFLOAT16` concerns more, see `computing`.
        activation: of the MLP, see `ACTIVATIONS`.
        distances: `EACH` or `BUCKETS`, see `places_of_distances`.
    """

    causal: bool = False
    shared: bool = True
    precision: str | None = None
    activation: str = "clipped"
    distances: str = EACH


class Heads(eqx.Module):
    """All attention heads of a layer; the widths are those of the widest head.

    Attributes:
        query, key, value, out: per head, from and to the residual stream.
        relative: per head, what is added to the logit, by the place that a distance has in it.
        null: per head, the logit of a slot that is always there and adds nothing to the stream.
    """

    query: Float[Array, "*layers heads d k"]
    key: Float[Array, "*layers heads d k"]
    value: Float[Array, "*layers heads d m"]
    out: Float[Array, "*layers heads m d"]
    relative: Float[Array, "*layers heads biases"]
    null: Float[Array, "*layers heads"]


class Block(eqx.Module):
    """One layer.

    Attributes:
        norms: applied to what attention reads and to what the MLP reads, or none.
    """

    heads: Heads | None
    mlp: tuple[AnyLinear, ...]
    norms: tuple[LayerNorm, ...] = ()


class Layer(NamedTuple):
    """What one layer did: the stream after attention and after the MLP, and the attention [heads, L, L]."""

    attended: Float[Array, "length d"]
    stream: Float[Array, "length d"]
    attention: Float[Array, "heads length length"]


class Transformer(eqx.Module):
    """A Transformer over tokens.

    Attributes:
        tokens: the embedding of every token.
        positions: the embedding of every position, or None.
        block: of all layers, with a leading layer axis where they are not shared.
        output: reads the result off the stream.
        norm: applied to what it reads, or None.
    """

    tokens: Float[Array, "inputs d"]
    positions: Float[Array, "positions d"] | None
    block: Block
    output: Linear
    config: TransformerConfig = eqx.field(static=True)
    norm: LayerNorm | None = None

    @classmethod
    def init(cls, size: "TransformerSize", config: TransformerConfig, *, key: PRNGKeyArray) -> "Transformer":
        """A Transformer with random weights, a norm before attention and MLP, and no null slot."""
        token_key, position_key, block_key, output_key = jax.random.split(key, 4)
        d, place = size.width, (size.positions, size.width)
        block_keys = block_key if config.shared else jax.random.split(block_key, size.layers)
        make = partial(init_block, size)
        return cls(
            tokens=jax.random.normal(token_key, (size.inputs, d)),
            positions=None if size.positions is None else jax.random.normal(position_key, place),  # type: ignore[arg-type]
            block=make(block_keys) if config.shared else jax.vmap(make)(block_keys),
            output=Linear.init(d, size.outputs, key=output_key),
            config=config,
            norm=LayerNorm.init(d),
        )

    def embed(self, ids: Int[Array, " length"]) -> Float[Array, "length d"]:
        """The stream before the first layer."""
        x = self.tokens[ids]
        return x if self.positions is None else x + self.positions[: ids.shape[0]]

    def layer(self, block: Block, x: Float[Array, "length d"], inside: Bool[Array, " length"]) -> Layer:
        """Apply one layer; positions that are not inside are not looked at."""
        with jax.default_matmul_precision(self.config.precision):
            attended, attention = x, jnp.zeros((0, *x.shape[:1] * 2), x.dtype)
            before_attention, before_mlp = block.norms or (_unchanged, _unchanged)
            if block.heads is not None:
                seen, here = before_attention(x), jnp.arange(len(x))
                allowed = inside[None, :] & ((here[None, :] <= here[:, None]) if self.config.causal else True)
                bias = by_distance(block.heads.relative, len(x), self.config.distances, self.config.causal)
                added, attention = attend(block.heads, seen, seen, jnp.broadcast_to(allowed, (len(x), len(x))), bias)
                attended = x + added
            hidden = before_mlp(attended)
            for i, layer in enumerate(block.mlp):
                hidden = layer(hidden)
                hidden = ACTIVATIONS[self.config.activation](hidden) if i + 1 < len(block.mlp) else hidden
            return Layer(attended, attended + hidden if block.mlp else attended, attention)

    def read(self, x: Float[Array, "length d"]) -> Float[Array, "length outputs"]:
        """The result of a stream."""
        with jax.default_matmul_precision(self.config.precision):
            return self.output(x if self.norm is None else self.norm(x))


def attend(
    heads: Heads,
    x: Float[Array, "length d"],
    source: Float[Array, "sources d"],
    allowed: Bool[Array, "length sources"],
    bias: Float[Array, "heads length sources"] | float = 0.0,
) -> tuple[Float[Array, "length d"], Float[Array, "heads length sources"]]:
    """What all heads add to a stream that looks at a source (itself, or another one), and their attention.

    Nothing but what is allowed is looked at; the bias is added to the logits.
    """
    narrow, wide = heads.query.dtype, jnp.promote_types(heads.query.dtype, jnp.float32)
    x, source = x.astype(narrow), source.astype(narrow)
    query, key = jnp.einsum("ld,hdk->lhk", x, heads.query), jnp.einsum("ld,hdk->lhk", source, heads.key)
    logits = jnp.einsum("ihk,jhk->hij", query, key, preferred_element_type=wide) + bias
    logits = jnp.where(allowed, logits, NEVER)
    null = jnp.broadcast_to(heads.null[:, None, None], (*logits.shape[:2], 1))
    attention = jax.nn.softmax(jnp.concatenate([logits, null], axis=-1), axis=-1)[..., :-1]
    value = jnp.einsum("ld,hdm->lhm", source, heads.value)
    mixed = jnp.einsum("hij,jhm->ihm", attention.astype(narrow), value)
    return jnp.einsum("ihm,hmd->id", mixed, heads.out), attention


Weights = TypeVar("Weights", bound=eqx.Module)


def computing(block: Weights, precision: str | None) -> Weights:
    """A layer with the weights that it computes with: with `BFLOAT16` on an accelerator they are of that type.

    What a layer computes from them is bfloat16, too, but for the stream that it adds to, means and variances, and
    softmax with its logits. Shared weights become so layer by layer, so that their gradients add up in float32.
    """
    if precision != BFLOAT16 or not on_accelerator():
        return block
    is_added = lambda path: getattr(path[-1], "name", "") in ("relative", "null")  # noqa: E731
    return jax.tree_util.tree_map_with_path(lambda path, w: w if is_added(path) else w.astype(jnp.bfloat16), block)


def on_accelerator() -> bool:
    """Whether this is none of a CPU, where bfloat16 is slow and launching a kernel is not."""
    return present_platform() != CPU


@dataclass(frozen=True)
class TransformerSize:
    """How large a Transformer is that is to be trained.

    Attributes:
        inputs, outputs: how many tokens and classes.
        width: of the residual stream.
        hidden: of the MLP.
        heads, head_width: of attention.
        layers: how many blocks, where they are not shared.
        positions: how many embeddings of positions; None for none.
        biases: of distances, per head; a single one is for all distances, and changes nothing.
    """

    inputs: int
    outputs: int
    width: int
    hidden: int
    heads: int
    head_width: int
    layers: int
    positions: int | None = None
    biases: int = 1


def init_block(size: TransformerSize, key: PRNGKeyArray) -> Block:
    """One layer with random weights."""
    head_key, mlp_key = jax.random.split(key)
    norms = LayerNorm.init(size.width), LayerNorm.init(size.width)
    return Block(init_heads(size, key=head_key), init_mlp(size, key=mlp_key), norms)


def init_heads(size: TransformerSize, *, key: PRNGKeyArray) -> Heads:
    """Heads with random weights, as large as T5's: Adafactor changes a weight in proportion to its size.

    So nothing that is to learn may start at 0, biases of distances neither, nor smaller for more layers.
    """
    d, h, k = size.width, size.heads, size.head_width
    # The 1 / sqrt(k) of scaled products is in the queries.
    spreads = {"query": 1 / math.sqrt(d * k), "key": 1 / math.sqrt(d), "value": 1 / math.sqrt(d)}
    spreads["out"] = 1 / math.sqrt(h * k)
    *keys, distance_key = jax.random.split(key, len(spreads) + 1)
    weights = {
        name: spread * jax.random.normal(one, (h, k, d) if name == "out" else (h, d, k))
        for one, (name, spread) in zip(keys, spreads.items(), strict=True)
    }
    relative = jax.random.normal(distance_key, (h, size.biases)) * math.sqrt(2 / (h + size.biases)) * (size.biases > 1)
    return Heads(**weights, relative=relative, null=jnp.full(h, NEVER))


def init_mlp(size: TransformerSize, *, key: PRNGKeyArray) -> tuple[Linear, Linear]:
    """Two layers with random weights."""
    first_key, second_key = jax.random.split(key)
    first = Linear.init(size.width, size.hidden, key=first_key)
    return first, Linear.init(size.hidden, size.width, key=second_key)


class Halt(NamedTuple):
    """When an execution has ended: `vector · x` is above ½ at every position."""

    vector: Float[Array, " d"]


class Execution(NamedTuple):
    """A batch that was run: the last stream, how many layers each took, and whether each ended by itself."""

    stream: Float[Array, "batch length d"]
    layers: Int[Array, " batch"]
    halted: Bool[Array, " batch"]
    flagged: Bool[Array, "batch length"]


def run_batch(
    net: Transformer,
    ids: Int[Array, "batch length"],
    lengths: Int[Array, " batch"],
    *,
    layers: int,
    halt: Halt | None = None,
    flag: Any = None,
) -> Execution:
    """Run a batch until every execution has halted, or for at most `layers` layers.

    Args:
        net: shared layers run as often as needed; otherwise it has at least `layers` of them.
        ids: sequences; what lies beyond a length is ignored.
        lengths: of the sequences.
        layers: the most.
        halt: when an execution has ended; its stream stays as it is from then on. None runs all layers.
        flag: (stream after attention [length, d]) -> [length], collected over all layers: positions to be reported.
    """
    inside = jnp.arange(ids.shape[1]) < lengths[:, None]

    def ended(x: Array) -> Array:
        if halt is None:
            return jnp.zeros(len(ids), bool)
        return jnp.all((x @ halt.vector > 0.5) | ~inside, axis=1)

    def more(carry: tuple) -> Array:
        t, _, done, _, _ = carry
        return (t < layers) & ~jnp.all(done)

    def advance(carry: tuple) -> tuple:
        t, x, done, taken, flagged = carry
        block = net.block if net.config.shared else jax.tree.map(lambda w: w[t], net.block)
        seen = jax.vmap(lambda one, where: net.layer(block, one, where))(x, inside)
        running = ~done
        if flag is not None:
            flagged = flagged | (jax.vmap(flag)(seen.attended) & inside & running[:, None])
        x = jnp.where(running[:, None, None], seen.stream, x)
        return t + 1, x, done | ended(x), taken + running, flagged

    x = jax.vmap(net.embed)(ids)
    start = (jnp.int32(0), x, ended(x), jnp.zeros(len(ids), jnp.int32), jnp.zeros(ids.shape, bool))
    _, x, done, taken, flagged = jax.lax.while_loop(more, advance, start)
    return Execution(x, taken, done, flagged)


def run_layers(
    net: Transformer, ids: Int[Array, " length"], length: Int[Array, ""], *, layers: int
) -> Float[Array, "length d"]:
    """One sequence through a fixed number of layers: the last stream. Can be differentiated."""
    return _scanned(net, ids, length, layers, lambda seen: None)[0]


def watch_layers(net: Transformer, ids: Int[Array, " length"], length: Int[Array, ""], *, layers: int) -> Layer:
    """What every layer does with one sequence, each field with a leading layer axis."""
    return _scanned(net, ids, length, layers, lambda seen: seen)[1]


def _scanned(
    net: Transformer, ids: Array, length: Array, layers: int, keep: Callable[[Layer], Layer | None]
) -> tuple[Array, Any]:
    inside = jnp.arange(ids.shape[0]) < length

    def apply(block: Block, x: Array) -> tuple[Array, Layer | None]:
        seen = net.layer(block, x, inside)
        return seen.stream, keep(seen)

    if on_accelerator():  # a step is bound by memory there: on the way back all but products is computed again
        products = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
        # Without barriers, straight-line layers share cast weights. Where no loop is left, XLA decides what it keeps.
        apply = jax.checkpoint(apply, policy=products, prevent_cse=False)

    def advance(x: Array, block: Block | None) -> tuple[Array, Layer | None]:
        return apply(computing(net.block, net.config.precision) if block is None else block, x)

    blocks = None if net.config.shared else computing(net.block, net.config.precision)
    return jax.lax.scan(advance, net.embed(ids), blocks, length=layers, unroll=straight_layers(layers))


def straight_layers(layers: int) -> int:
    """How many of so many layers are straight-line code."""
    return min(layers, UNROLLED) if on_accelerator() else 1


def room_for(size: int) -> int:
    """The next power of two, 8 at least: one compilation serves many lengths and batches."""
    return max(8, 1 << (size - 1).bit_length())


def clipped(x: Array) -> Array:
    """The clipped ReLU: 0 below 0, 1 above 1."""
    return jnp.clip(x, 0, 1)


ACTIVATIONS = {"clipped": clipped, "relu": jax.nn.relu, "gelu": jax.nn.gelu}


def _unchanged(x: Array) -> Array:
    return x


def by_distance(
    relative: Float[Array, "heads biases"], length: int, distances: str = EACH, causal: bool = False
) -> Float[Array, "heads length length"]:
    """What is added to the logits, by query and key; arguments as for `places_of_distances`."""
    distance = np.arange(length)[None, :] - np.arange(length)[:, None]
    return relative[:, places_of_distances(distance, relative.shape[-1], distances, causal)]


def places_of_distances(
    distance: Int[np.ndarray, "*shape"], biases: int, distances: str, causal: bool
) -> Int[np.ndarray, "*shape"]:
    """Which of a head's biases is added at a distance key - query.

    Args:
        distance: any.
        biases: how many there are; a single one is for all distances.
        distances: `EACH`: from -span to span in order, and the ends count beyond. `BUCKETS`, as in T5 (Raffel et al.
            2020): half of the biases are for keys behind the query; of each half, the first half are for one distance
            each, and the others for ranges that grow in proportion up to `T5_FURTHEST`.
        causal: with buckets, all biases are for the query's own place and keys before it.
    """
    if distances == EACH or biases == 1:
        span = (biases - 1) // 2
        return np.clip(distance, -span, span) + span
    buckets = biases if causal else biases // 2
    far = np.maximum(-distance, 0) if causal else np.abs(distance)
    exact = buckets // 2
    # What begins a bucket must not be rounded into the one before it
    share = np.log(np.maximum(far, 1) / exact + np.finfo(np.float32).eps) / np.log(T5_FURTHEST / exact)
    place = np.where(far < exact, far, np.minimum(exact + (share * (buckets - exact)).astype(int), buckets - 1))
    return place if causal else place + buckets * (distance > 0)
