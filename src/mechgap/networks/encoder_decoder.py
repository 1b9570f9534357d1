"""A Transformer that reads one sequence and writes another: an encoder, and a decoder that looks at it."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mechgap.networks.layers import LayerNorm, Linear
from mechgap.networks.transformer import (
    ACTIVATIONS,
    Heads,
    Transformer,
    TransformerConfig,
    TransformerSize,
    attend,
    by_distance,
    computing,
    init_heads,
    init_mlp,
    run_layers,
    straight_layers,
)


class DecoderBlock(eqx.Module):
    """One layer of the decoder: it looks at itself until there, then at the encoder, then comes the MLP."""

    own: Heads
    other: Heads
    mlp: tuple[Linear, Linear]
    norms: tuple[LayerNorm, LayerNorm, LayerNorm]


class EncoderDecoder(eqx.Module):
    """Two stacks of equally many layers, each of which shares one block or has one per layer.

    Attributes:
        encoder: reads; its `read` is not used, but for its norm.
        tokens: the embedding of every token that can be written.
        block: of the decoder, with a leading layer axis where layers do not share it.
        norm, output: read the next token off the stream.
    """

    encoder: Transformer
    tokens: Float[Array, "outputs d"]
    block: DecoderBlock
    norm: LayerNorm
    output: Linear
    config: TransformerConfig = eqx.field(static=True)

    @classmethod
    def init(
        cls, size: TransformerSize, config: TransformerConfig, biases: int, *, key: PRNGKeyArray
    ) -> "EncoderDecoder":
        """Random weights.

        Args:
            size: of both stacks; its positions and biases are the encoder's.
            config: of both.
            biases: of distances, in the decoder.
            key: a JAX key.
        """
        encoder_key, token_key, block_key, output_key = jax.random.split(key, 4)
        make = partial(_init_block, size, biases)
        keys = block_key if config.shared else jax.random.split(block_key, size.layers)
        return cls(
            encoder=Transformer.init(size, config, key=encoder_key),
            tokens=jax.random.normal(token_key, (size.outputs, size.width)),
            block=make(keys) if config.shared else jax.vmap(make)(keys),
            norm=LayerNorm.init(size.width),
            output=Linear.init(size.width, size.outputs, key=output_key),
            config=config,
        )

    def __call__(
        self, ids: Int[Array, " read"], length: Int[Array, ""], written: Int[Array, " write"], layers: int
    ) -> Float[Array, "write outputs"]:
        """The logits of the next token after every token that is written.

        Since position i looks at tokens up to i alone, a sequence is decoded right, token by token, exactly where the
        largest logit is right at all its positions when the right tokens are given.
        """
        assert self.encoder.norm is not None
        source = self.encoder.norm(run_layers(self.encoder, ids, length, layers=layers))
        inside = jnp.broadcast_to(jnp.arange(len(ids)) < length, (len(written), len(ids)))
        here = jnp.arange(len(written))
        before = here[None, :] <= here[:, None]

        def advance(x: Array, block: DecoderBlock | None) -> tuple[Array, None]:
            return self._layer(self.block if block is None else block, x, source, before, inside), None

        blocks = None if self.config.shared else self.block
        x, _ = jax.lax.scan(advance, self.tokens[written], blocks, length=layers, unroll=straight_layers(layers))
        return self.output(self.norm(x))

    def _layer(
        self, block: DecoderBlock, x: Array, source: Array, before: Bool[Array, "n n"], inside: Bool[Array, "n m"]
    ) -> Array:
        block = computing(block, self.config.precision)
        first, second, third = block.norms
        bias = by_distance(block.own.relative, len(x), self.config.distances, causal=True)
        x = x + attend(block.own, first(x), first(x), before, bias)[0]
        x = x + attend(block.other, second(x), source, inside)[0]
        return x + block.mlp[1](ACTIVATIONS[self.config.activation](block.mlp[0](third(x))))


def _init_block(size: TransformerSize, biases: int, key: PRNGKeyArray) -> DecoderBlock:
    own, other, mlp = jax.random.split(key, 3)
    return DecoderBlock(
        own=init_heads(replace(size, biases=biases), key=own),
        other=init_heads(replace(size, biases=1), key=other),
        mlp=init_mlp(size, key=mlp),
        norms=(LayerNorm.init(size.width), LayerNorm.init(size.width), LayerNorm.init(size.width)),
    )
