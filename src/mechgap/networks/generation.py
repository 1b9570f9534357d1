"""Greedy decoding with a cache: the prompt goes through the layers at once, then one token at a time.

The keys and values of a sequence lie in slots 0, 1, 2, ... of its cache. A prompt may be padded at its end: slots of
padding are not visible, and the answer's tokens take them over.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from mechgap.networks.cross_attention import Memory, Source
from mechgap.networks.transnar import TransNAR, check_length


class Cache(NamedTuple):
    """What decoding remembers of a sequence.

    Attributes:
        keys, values: of all layers and slots.
        length: how many slots are filled.
        sources: the projected memory.
    """

    keys: Float[Array, "layers heads slots k"]
    values: Float[Array, "layers heads slots k"]
    length: Int[Array, ""]
    sources: tuple[Source, Source] | None


def prefill(
    model: TransNAR,
    ids: Int[Array, " room"],
    length: Int[Array, ""],
    positions: Int[Array, " room"],
    memory: Memory | None = None,
    *,
    slots: int,
    opened: Bool[Array, ""] | bool = True,
) -> tuple[Float[Array, " vocabulary"], Cache]:
    """The logits of the first token after a prompt, and a cache with room for `slots` tokens.

    Args:
        model: any; without cross-attention there is no memory.
        ids: the prompt, padded at its end.
        length: of the prompt, at least 1.
        positions: of its tokens; those of the padding do not matter.
        memory: what the reasoner computed, or None.
        slots: at least as many as the prompt's room.
        opened: whether gates may be open.
    """
    sources = model.project(memory)
    x, own = model.run(ids, positions, sources, opened=opened, keep=lambda seen: seen.own)
    room = [(0, 0), (0, 0), (0, slots - len(ids)), (0, 0)]
    return model.read(x[length - 1]), Cache(jnp.pad(own.keys, room), jnp.pad(own.values, room), length, sources)


def step(
    model: TransNAR,
    token: Int[Array, ""],
    position: Int[Array, ""],
    cache: Cache,
    *,
    opened: Bool[Array, ""] | bool = True,
) -> tuple[Float[Array, " vocabulary"], Cache]:
    """The logits of the token after the given one, and the cache with the given one in it."""
    layers, _, slots, _ = cache.keys.shape
    filled = jnp.broadcast_to(jnp.arange(slots) < cache.length, (layers, 1, slots))
    past = Source(cache.keys, cache.values, filled)
    x, own = model.run(token[None], position[None], cache.sources, opened=opened, keep=lambda seen: seen.own, past=past)
    return model.read(x[0]), cache._replace(
        keys=cache.keys.at[:, :, cache.length].set(own.keys[:, :, 0]),
        values=cache.values.at[:, :, cache.length].set(own.values[:, :, 0]),
        length=cache.length + 1,
    )


@eqx.filter_jit
def greedy(
    model: TransNAR,
    ids: Int[Array, "batch room"],
    lengths: Int[Array, " batch"],
    positions: Int[Array, "batch slots"],
    memory: Memory | None = None,
    *,
    max_new: int,
    eos: int,
    opened: Bool[Array, ""] | bool = True,
) -> Int[Array, "batch {max_new}"]:
    """The likeliest next token, again and again, for a batch of prompts.

    One program per shape; it ends where all answers have ended.

    Args:
        model: any.
        ids: prompts, padded at their ends.
        lengths: of the prompts, at least 1 each.
        positions: of prompts and answers: room + max_new per sequence, token i of a sequence at the i-th.
        memory: what the reasoner computed, all arrays with a batch axis; or None.
        max_new: the most tokens of an answer.
        eos: the token that ends an answer.
        opened: False shuts all gates.

    Returns:
        The answers; all eos from their ends on.
    """
    batch, room = ids.shape
    check_length(model.config, room + max_new, positions.shape[1])
    begin = partial(prefill, model, slots=room + max_new, opened=opened)
    advance = jax.vmap(partial(step, model, opened=opened))
    logits, cache = jax.vmap(begin)(ids, lengths, positions[:, :room], memory)

    def more(carry: tuple) -> Array:
        i, token, ended, _, _ = carry
        return (i < max_new) & ~jnp.all(ended | (token == eos))

    def write(carry: tuple) -> tuple:
        i, token, ended, tokens, cache = carry
        ended = ended | (token == eos)
        tokens = tokens.at[:, i].set(jnp.where(ended, eos, token))
        here = jnp.take_along_axis(positions, cache.length[:, None], axis=1)[:, 0]
        logits, cache = advance(token, here, cache)
        return i + 1, likeliest(logits), ended, tokens, cache

    tokens = jnp.full((batch, max_new), eos, jnp.int32)
    start = (jnp.int32(0), likeliest(logits), jnp.zeros(batch, bool), tokens, cache)
    return jax.lax.while_loop(more, write, start)[3]


def likeliest(logits: Float[Array, "*batch vocabulary"]) -> Int[Array, "*batch"]:
    """The token of the largest logit."""
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)
