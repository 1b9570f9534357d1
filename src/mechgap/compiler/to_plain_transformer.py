"""A compiled ALTA program as a plain Transformer: absolute positions, ReLU, no layer norm, a block per layer.

What a plain Transformer lacks is written into its weights, so that its parts mean what they always mean:

    the null slot of attention     a token NULL before the sequence, with the slot's logit as a key and no value
    biases by relative position    channels that hold the position one-hot; a query is the biases of all key positions
    the clipped ReLU               relu(z) - relu(z - 1), with twice as many units
    sequences that are shorter     a token PAD, which nobody looks at
    one block for all layers       the same weights in every layer

NULL and PAD look at NULL alone, and a large negative weight keeps the MLP from them: they stay what they are. All
logits of attention are whole numbers, as in the compiled network, so that attention is the same to the bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from mechgap.compiler.alta_weights import MATCH
from mechgap.compiler.to_transformer import CompiledAlta, densely
from mechgap.networks.layers import Linear
from mechgap.networks.transformer import Heads, by_distance
from mechgap.programs.alta import AltaProgram, Categorical, Numeric

NULL, PAD = "NULL", "PAD"
SCALE = 2.0  # what logits are divided by: a power of two, which rounds nothing
# A match is MATCH, and the null slot's logit half of that. Four times the latter outweighs any match by MATCH, and a
# PAD that matches is MATCH below what does not match at all: softmax gives exactly 0 to everything that loses.
ONLY_NULL, NEVER = 4.0, -2 * MATCH
NO_OUTPUT = -2.0  # added to all outputs at NULL and PAD, where those of a sequence are about 0 and 1


@dataclass(frozen=True)
class PlainTransformer:
    """The weights of a plain Transformer.

    Attributes:
        weights: embed, pos_embed, blocks.N.attn.q, .k, .v and .o, blocks.N.mlp.in and .out, unembed, each with .weight
            [outputs, inputs] and, but for embeddings, .bias. Heads are next to each other.
        heads: how many.
        labels: what every channel of the stream means: "variable=value", or its part in brackets.
        tokens: the input ids, NULL and PAD.
        positions: NULL, then those of the sequence.
    """

    weights: Mapping[str, np.ndarray]
    heads: int
    labels: list[str]
    tokens: list[str]
    positions: list[str]


def to_plain_transformer(compiled: CompiledAlta, length: int, depth: int) -> PlainTransformer:
    """The plain Transformer that runs a compiled program on sequences of up to `length`, for `depth` layers."""
    check_plain(compiled.program, length, depth, compiled.longest)
    network, layout = compiled.network, compiled.layout
    own, heads = layout.width, compiled.block.heads or _no_heads(layout.width)
    outside = [own, own + 1]
    places = slice(own + 2, own + 2 + (length if np.any(heads.relative) else 0))
    width = places.stop

    tokens = _wider(network.tokens, (len(network.tokens) + 2, width))
    tokens[[-2, -1], outside] = 1
    positions = np.zeros((length + 1, width), np.float32)
    if network.positions is not None:
        positions[1:, :own] = network.positions[:length]
    positions[1:, places] = np.eye(length, width - places.start)
    block = _attention(heads, layout.one, outside, places) | _mlp(
        tuple(map(densely, compiled.block.mlp)), outside, width
    )
    output = _wider(network.output.weight, (width, network.output.weight.shape[1]))
    output[outside] = NO_OUTPUT
    weights = {
        "embed.weight": tokens,
        "pos_embed.weight": positions,
        **{f"blocks.{layer}.{name}": x for layer in range(depth) for name, x in block.items()},
        **_linear(unembed=output.T),
    }
    labels = ["[one]", *(f"{name}={i}" for name, at in layout.places.items() for i in range(at.stop - at.start))]
    labels += [f"[{name}]" for name in (NULL, PAD, *(f"position {i}" for i in range(width - places.start)))]
    return PlainTransformer(
        weights=weights,
        heads=len(heads.null),
        labels=labels,
        tokens=[*map(str, range(len(network.tokens))), NULL, PAD],
        positions=[NULL, *map(str, range(length))],
    )


def check_plain(program: AltaProgram, length: Any, depth: Any, longest: int) -> None:
    """Refuse what a plain Transformer of that size would not do as the program does it."""
    refused = f"Program {program.name!r} does not fit a plain Transformer, such as TransformerLens has"
    other = [
        f"{name} is {'a number' if isinstance(v, Numeric) else 'a set'}"
        for name, v in program.readable.items()
        if not isinstance(v, Categorical)
    ]
    if other:
        raise ValueError(
            f"{refused}: {', '.join(other)}. All variables must be categorical; numbers and sets need a deeper MLP. "
            f"Write the program with categorical variables, or keep its own network: mechgap alta compile --out."
        )
    if program.halt is not None:
        name, value = program.halt
        firing = [rule for rule in program.rules if value in dict(rule.tests).get(name, (value,))]
        restless = [rule for rule in firing if (rule.target, rule.value) != program.halt]
        if restless:
            raise ValueError(
                f"{refused}: all layers run there, and after the program has ended ({name} = {value}) this rule may "
                f"still fire: '{restless[0]}'. Let all rules test {name}, e.g. begin the function with "
                f"`if z[{name!r}] == {value}: return`."
            )
    for what, given in (("length", length), ("depth", depth)):
        if not isinstance(given, int) or given < 1:
            raise ValueError(f"{what} must be a whole number of at least 1; got {given!r}.")
    if program.positions is not None and length > program.positions:
        raise ValueError(
            f"Program {program.name!r} has {program.positions} positions; got length={length}. "
            f"Build it with more positions, or give a smaller length."
        )
    if length > longest:
        raise ValueError(
            f"This network is compiled for sequences of up to {longest}; got length={length}. "
            f"Compile with longest={length}."
        )
    if program.halt is None and depth != program.layers:
        raise ValueError(
            f"Program {program.name!r} runs exactly {program.layers} layers; got depth={depth}. "
            f"Give depth={program.layers}."
        )


def _attention(heads: Heads, one: int, outside: list[int], places: slice) -> dict[str, np.ndarray]:
    """Queries and keys have what the compiled ones have, then a number per position, then one for NULL and PAD."""
    count, _, content = heads.query.shape
    width, positions = places.stop, places.stop - places.start
    here, last = slice(content, content + positions), content + positions
    size = max(last + 1, heads.value.shape[-1])
    query, key, value = (_wider(x, (count, width, size)) for x in (heads.query, heads.key, heads.value))
    out = _wider(heads.out, (count, size, width))
    query[:, places, here] = by_distance(heads.relative, positions)
    key[:, places, here] = np.eye(positions)
    query[:, one, last] = 1
    query[:, outside, last] = ONLY_NULL
    null, pad = outside
    key[:, null, last] = heads.null
    key[:, pad, last] = NEVER
    q, k, v = (x.transpose(0, 2, 1).reshape(-1, width) for x in (SCALE * query, key, value))
    return _linear(**{"attn.q": q, "attn.k": k, "attn.v": v, "attn.o": out.reshape(-1, width).T})


def _mlp(layers: tuple[Linear, ...], outside: list[int], width: int) -> dict[str, np.ndarray]:
    first, second = layers
    assert first.bias is not None
    units = max(1, len(first.bias))  # a program without heads and rules has none, and 0 would mean "not given"
    into, bias = _wider(first.weight, (width, units)), _wider(first.bias, (units,))
    into[outside] = -(1 + np.maximum(into, 0).sum(0) + np.maximum(bias, 0))  # more than all else together
    out = _wider(second.weight, (units, width))
    doubled = _linear(**{"mlp.in": np.concatenate([into, into], axis=1).T, "mlp.out": np.concatenate([out, -out]).T})
    return doubled | {"mlp.in.bias": np.concatenate([bias, bias - 1])}


def _linear(**weights: np.ndarray) -> dict[str, np.ndarray]:
    """Layers by name, with biases of 0."""
    biases = {f"{name}.bias": np.zeros(len(x), np.float32) for name, x in weights.items()}
    return {f"{name}.weight": x for name, x in weights.items()} | biases


def _wider(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The array in the corner of zeros."""
    return np.pad(x, [(0, wanted - has) for has, wanted in zip(x.shape, shape, strict=True)])


def _no_heads(width: int) -> Heads:
    """A head that adds nothing, for a program without any."""
    into, out = jnp.zeros((1, width, 1)), jnp.zeros((1, 1, width))
    return Heads(into, into, into, out, into[:, 0], into[:, 0, 0])
