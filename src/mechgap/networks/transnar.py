"""TransNAR's text model: a causal Transformer whose tokens also look at the states of a neural algorithmic reasoner.

    x = tokens[ids]
    per layer:  x = x + O Attention(LN x)                                 causal, with rotary positions
                x = x + FFN(LN x)
                c = W [Attention(LN x, LN nodes); Attention(LN x, LN edges)]
                x = x + tanh(a) c
                x = x + tanh(b) FFN(LN x)                                 a = b = 0 before training
    logits = U LN x

The last three lines are a gated cross-attention block; all layers have one, or some, or none: without any this is a
plain Transformer. Nothing here has a batch axis: `vmap` is the caller's. Layers are stacked; but for
decoding, they are unrolled. docs/transnar.md says what the paper leaves open.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mechgap.networks.cross_attention import CrossBlock, FeedForward, Memory, Source, Weights, attend, split_heads
from mechgap.networks.layers import LayerNorm, Linear
from mechgap.networks.rotary import Rotation, rotate, rotation
from mechgap.networks.transnar_config import TransNARConfig

T = TypeVar("T")


class Seen(NamedTuple):
    """What a unit of layers did: the keys and values of its tokens, and where they looked, with leading axes."""

    own: Source
    weights: Weights | None


class Block(eqx.Module):
    """A layer of the Transformer.

    Attributes:
        mixed: queries, keys and values of all heads in one product.
    """

    norm: LayerNorm
    mixed: Linear
    out: Linear
    mlp: FeedForward
    heads: int = eqx.field(static=True)

    @classmethod
    def init(cls, config: TransNARConfig, key: PRNGKeyArray) -> "Block":
        """Random weights."""
        d, (mixed, out, mlp) = config.width, jax.random.split(key, 3)
        return cls(
            LayerNorm.init(d),
            Linear.init(d, 3 * d, key=mixed, bias=False),
            Linear.init(d, d, key=out, stddev=1 / math.sqrt(2 * config.layers * d)),
            FeedForward.init(config, key=mlp),
            config.heads,
        )

    def __call__(
        self, x: Float[Array, "length d"], by: Rotation, past: Source | None
    ) -> tuple[Float[Array, "length d"], Source]:
        """The next stream, and the keys and values of its tokens, which see earlier ones, themselves and the past."""
        query, key, value = split_heads(self.mixed(self.norm(x)), 3 * self.heads).reshape(3, self.heads, len(x), -1)
        here = jnp.arange(len(x))
        own = Source(rotate(key, by), value, here[None, :] <= here[:, None])
        added, _ = attend(rotate(query, by), *(() if past is None else (past,)), own)
        x = x + self.out(added)
        return x + self.mlp(x), own


class TransNAR(eqx.Module):
    """A decoder-only Transformer over tokens, with or without eyes for a reasoner.

    Attributes:
        tokens: the embedding of every token.
        blocks: the layers, with a leading layer axis.
        crosses: the cross-attention blocks of the layers that have one, with a leading axis; None for none.
        norm, output: read the next token off the stream.
    """

    tokens: Float[Array, "vocabulary d"]
    blocks: Block
    crosses: CrossBlock | None
    norm: LayerNorm
    output: Linear
    config: TransNARConfig = eqx.field(static=True)

    @classmethod
    def init(cls, config: TransNARConfig, *, key: PRNGKeyArray) -> "TransNAR":
        """Random weights; those of the Transformer are the same for one key, whatever the cross-attention."""
        tokens, blocks, crosses, output = jax.random.split(key, 4)
        plain = cls(
            tokens=jax.random.normal(tokens, (config.vocabulary, config.width)),
            blocks=jax.vmap(partial(Block.init, config))(jax.random.split(blocks, config.layers)),
            crosses=None,
            norm=LayerNorm.init(config.width),
            output=Linear.init(config.width, config.vocabulary, key=output),
            config=replace(config, cross_attention="none"),
        )
        return plain.with_cross_attention(config.cross_attention, config.reads, key=crosses)

    def with_cross_attention(self, where: str, reads: str = "final", *, key: PRNGKeyArray) -> "TransNAR":
        """The same Transformer with new cross-attention: with shut gates it goes on where this one was left."""
        config = replace(self.config, cross_attention=where, reads=reads)
        keys = jax.random.split(key, max(len(config.looking), 1))
        crosses = jax.vmap(partial(CrossBlock.init, config))(keys) if config.looking else None
        return TransNAR(self.tokens, self.blocks, crosses, self.norm, self.output, config)

    def plain(self) -> "TransNAR":
        """The same Transformer without cross-attention."""
        config = replace(self.config, cross_attention="none")
        return TransNAR(self.tokens, self.blocks, None, self.norm, self.output, config)

    def in_bfloat16(self) -> "TransNAR":
        """The same with the weights of layers in bfloat16, in which they compute, too.

        The stream that layers add to, means and variances, softmax, gates and logits stay float32.
        """
        blocks, crosses = jax.tree.map(lambda w: w.astype(jnp.bfloat16), (self.blocks, self.crosses))
        if self.crosses is not None:
            crosses = eqx.tree_at(lambda block: block.gates, crosses, self.crosses.gates)
        return TransNAR(self.tokens, blocks, crosses, self.norm, self.output, self.config)

    def __call__(
        self,
        ids: Int[Array, " length"],
        positions: Int[Array, " length"],
        memory: Memory | None = None,
        *,
        opened: Bool[Array, ""] | bool = True,
    ) -> Float[Array, "length vocabulary"]:
        """The logits of the next token after every token.

        Args:
            ids: the tokens; those after a token never matter to it, so padding stands at the end.
            positions: of the tokens, rising.
            memory: what the reasoner computed; None leaves cross-attention out, as shut gates would.
            opened: False shuts all gates, whatever was learned. It may be traced.
        """
        x, _ = self.run(ids, positions, self.project(memory), opened=opened, keep=lambda seen: None)
        return self.read(x)

    def watch(
        self, ids: Int[Array, " length"], positions: Int[Array, " length"], memory: Memory
    ) -> tuple[Float[Array, "length vocabulary"], Weights]:
        """The logits, and where every token looked, with an axis of the layers of `config.looking`."""
        x, weights = self.run(ids, positions, self.project(memory), keep=lambda seen: seen.weights)
        assert weights is not None
        return self.read(x), weights

    def project(self, memory: Memory | None) -> tuple[Source, Source] | None:
        """The keys and values of nodes and of edges for all cross-attention blocks."""
        if memory is None:
            return None
        check_memory(self.config, memory)
        assert self.crosses is not None
        axes = None
        if self.config.reads == "per_layer":
            chosen = jnp.array(self.config.looking)
            memory = memory._replace(nodes=memory.nodes[chosen], edges=memory.edges[chosen])
            axes = Memory(0, 0, None, None)  # type: ignore[arg-type]
        return jax.vmap(CrossBlock.sources, in_axes=(0, axes))(self.crosses, memory)

    def run(
        self,
        ids: Int[Array, " length"],
        positions: Int[Array, " length"],
        sources: tuple[Source, Source] | None,
        *,
        keep: Callable[[Seen], T],
        opened: Bool[Array, ""] | bool = True,
        past: Source | None = None,
    ) -> tuple[Float[Array, "length d"], T]:
        """Tokens through all layers: the last stream, and what is kept of every layer, with a layer axis.

        Args:
            ids, positions: the tokens.
            sources: a memory, projected.
            keep: picks from what a unit of layers did; None is nothing.
            opened: whether gates may be open.
            past: keys and values of earlier tokens, with a layer axis.
        """
        check_length(self.config, len(ids), len(positions))
        by = rotation(positions, self.config.width // self.config.heads, self.config.rotary_base)

        # Training is bound by memory: on the way back all but the layers' products is computed again.
        @partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)
        def advance(x: Array, unit: tuple) -> tuple[Array, Any]:
            blocks, crosses, sources, past = unit
            own, weights = [], None
            for i in range(len(blocks.out.weight)):
                x, one = at(blocks, i)(x, by, at(past, i))
                own.append(one)
            if crosses is not None:
                x, looked = at(crosses, 0)(x, at(sources, 0), opened)
                weights = jax.tree.map(lambda w: w[None], looked)
            return x, keep(Seen(jax.tree.map(lambda *of: jnp.stack(of), *own), weights))

        x, here, looks = self.tokens[ids], 0, 0
        kept: list[T] = []
        for count, size, eyes in self.config.units if sources is not None else ((self.config.layers, 1, False),):
            behind = cut((self.crosses, sources), looks, count, 1) if eyes else (None, None)
            unit = (cut(self.blocks, here, count, size), *behind, cut(past, here, count, size))
            # A loop would copy weights, and what the way back needs, in every layer; decoding has no way back.
            x, some = jax.lax.scan(advance, x, unit, unroll=past is None)
            kept, here, looks = [*kept, some], here + count * size, looks + count * eyes
        return x, joined(kept)

    def read(self, x: Float[Array, "*places d"]) -> Float[Array, "*places vocabulary"]:
        """The logits of a stream."""
        return self.output(self.norm(x))


def parameter_count(model: TransNAR | TransNARConfig) -> int:
    """How many numbers a model has, or would have."""
    if isinstance(model, TransNARConfig):
        model = jax.eval_shape(partial(TransNAR.init, model), key=jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(model))


def at(stacked: T, i: int) -> T:
    """One of some stacked modules or arrays."""
    return jax.tree.map(lambda w: w[i], stacked)


def cut(stacked: T, start: int, count: int, size: int) -> T:
    """`count` times `size` of some stacked modules or arrays, from `start` on, with these two axes in front."""
    return jax.tree.map(lambda w: w[start : start + count * size].reshape(count, size, *w.shape[1:]), stacked)


def joined(kept: list[T]) -> T:
    """What units of layers left behind, on one layer axis; units that left nothing are not counted."""
    some = [one for one in kept if one is not None]
    if not some:
        return kept[0]
    return jax.tree.map(lambda *of: jnp.concatenate([w.reshape(-1, *w.shape[2:]) for w in of]), *some)


def check_length(config: TransNARConfig, tokens: int, positions: int) -> None:
    """Refuse what does not fit, with a sentence."""
    if positions != tokens:
        raise ValueError(f"Every token needs a position; got {tokens} tokens and {positions} positions.")
    if tokens > config.context:
        raise ValueError(
            f"A sequence has at most context = {config.context} tokens, question and answer together; got {tokens}. "
            f"Ask about fewer nodes, or train a model with a larger context."
        )


def check_memory(config: TransNARConfig, memory: Memory) -> None:
    """Refuse a memory that the model cannot look at, with a sentence."""
    n, leading = memory.present.shape[-1], (config.layers,) if config.reads == "per_layer" else ()
    expected = {"nodes": (*leading, n, config.node_width), "edges": (*leading, n, n, config.edge_width)}
    if config.cross_attention == "none":
        raise ValueError('This model has cross_attention = "none" and sees no memory; call it with memory=None.')
    wrong = [
        f"{name} are {list(getattr(memory, name).shape)}, expected {list(shape)}"
        for name, shape in expected.items()
        if getattr(memory, name).shape != shape
    ]
    if wrong:
        raise ValueError(f"With reads = {config.reads!r}: {'; '.join(wrong)}.")
