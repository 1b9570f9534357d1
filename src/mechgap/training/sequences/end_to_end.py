"""End-to-end training on parity: a Transformer sees bits and learns the answer alone (ALTA D.1, Table 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from mechgap.networks.transformer import (
    BFLOAT16,
    BUCKETS,
    EACH,
    T5_BUCKETS,
    Transformer,
    TransformerConfig,
    TransformerSize,
    run_layers,
)
from mechgap.training.many import Recipe, Trained, train_many

START = 2  # the token before the bits
POSITIONS = ("relative", "absolute")
DISTANCES = (BUCKETS, EACH)
PRECISIONS = (BFLOAT16, "BF16_BF16_F32", "default", "highest")  # on a CPU all of them are float32
LOOKED_AT = 1024  # texts, drawn once as those of training are, that tell whether training is enough


@dataclass(frozen=True)
class TrainedSize:
    """A Transformer that is trained end to end.

    Attributes:
        layers: how many.
        shared: all of them have the same weights.
        positions: "relative" or "absolute".
        precision: on an accelerator. "bfloat16": layers compute in it, see `computing`. The others are of matrix
            products alone, as JAX calls them: "BF16_BF16_F32" multiplies bfloat16 and adds up float32.
        distances: of relative positions: "buckets" as in T5, or "each" distance that training shows by itself.
    """

    layers: int
    shared: bool
    positions: str
    width: int
    hidden: int
    heads: int
    head_width: int
    precision: str
    distances: str

    def __post_init__(self) -> None:
        if self.positions not in POSITIONS:
            raise ValueError(f"positions must be {' or '.join(POSITIONS)}; got {self.positions!r}.")
        if self.distances not in DISTANCES:
            raise ValueError(f"distances must be {' or '.join(DISTANCES)}; got {self.distances!r}.")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}; got {self.precision!r}.")

    @property
    def config(self) -> TransformerConfig:
        """What is fixed about it."""
        return TransformerConfig(
            shared=self.shared, activation="gelu", precision=self.precision, distances=self.distances
        )

    def biases(self, span: int) -> int:
        """How many biases a head has for distances of up to `span`."""
        return T5_BUCKETS if self.distances == BUCKETS else 2 * span + 1

    def size(self, inputs: int, outputs: int, longest: int, span: int) -> TransformerSize:
        """For so many tokens and classes: with embeddings of `longest` positions, or with biases up to a distance."""
        absolute = self.positions == "absolute"
        return TransformerSize(
            inputs=inputs,
            outputs=outputs,
            width=self.width,
            hidden=self.hidden,
            heads=self.heads,
            head_width=self.head_width,
            layers=self.layers,
            positions=longest if absolute else None,
            biases=1 if absolute else self.biases(span),
        )


@dataclass(frozen=True)
class ParitySize(TrainedSize):
    """A Transformer for parity; the paper's by default.

    Attributes:
        train_length: the longest text to learn from.
        test_length: the longest text ever.
    """

    layers: int = 8
    shared: bool = False
    positions: str = "relative"
    width: int = 512
    hidden: int = 2048
    heads: int = 6
    head_width: int = 64
    precision: str = BFLOAT16
    distances: str = BUCKETS
    train_length: int = 20
    test_length: int = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.train_length < self.test_length:
            raise ValueError(f"Give lengths 1 <= train < test; got {self.train_length} and {self.test_length}.")

    def transformer(self, key: PRNGKeyArray) -> Transformer:
        """One with random weights."""
        return Transformer.init(self.size(3, 2, self.test_length + 1, self.train_length), self.config, key=key)


def train_parity(size: ParitySize, recipe: Recipe, **options: Any) -> Trained:
    """Train Transformers on bits that are drawn anew for every step, see `draw_bits`; options as for `train_many`."""

    def draw(key: PRNGKeyArray, count: int = recipe.batch) -> tuple[Array, Array]:
        return jax.vmap(lambda k: draw_bits(k, size.train_length))(jax.random.split(key, count))

    def loss(net: Transformer, batch: tuple[Array, Array]) -> Array:
        ids, lengths = batch
        logits = jax.vmap(lambda i, n: parity_logits(net, i, n, size.layers))(ids, lengths)
        odd = jnp.sum(jnp.where(ids == 1, 1, 0), axis=1) % 2
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), odd[:, None], axis=1))

    fresh = draw(jax.random.key(10**6), LOOKED_AT)

    def accuracy(nets: Any) -> np.ndarray:
        made = _predict(nets, *fresh, size.layers)
        return np.mean(np.asarray(made) == np.asarray(jnp.sum(fresh[0] == 1, axis=1) % 2), axis=1)

    layered = None if size.shared else of_layers
    return train_many(size.transformer, loss, draw, recipe, accuracy=accuracy, layered=layered, **options)


def of_layers(weights: Any) -> Any:
    """Which weights have an axis of layers, where layers do not share them: those of blocks."""
    is_block = lambda path, _: any(getattr(part, "name", None) == "block" for part in path)  # noqa: E731
    return jax.tree_util.tree_map_with_path(is_block, weights)


def draw_bits(key: PRNGKeyArray, longest: int) -> tuple[Int[Array, " tokens"], Int[Array, ""]]:
    """START and bits: every number of ones is as likely, then every length that can hold it."""
    one_key, length_key, place_key = jax.random.split(key, 3)
    ones = jax.random.randint(one_key, (), 0, longest + 1)
    length = jax.random.randint(length_key, (), jnp.maximum(ones, 1), longest + 1)
    order = jnp.where(jnp.arange(longest) < length, jax.random.uniform(place_key, (longest,)), 2.0)
    bits = (jnp.argsort(jnp.argsort(order)) < ones).astype(jnp.int32)
    return jnp.concatenate([jnp.array([START], jnp.int32), bits]), length + 1


def parity_logits(
    net: Transformer, ids: Int[Array, " tokens"], length: Int[Array, ""], layers: int
) -> Float[Array, " classes"]:
    """What the last position says, as in the programs."""
    stream = run_layers(net, ids, length, layers=layers)
    return net.read(stream)[length - 1]


def predictions(nets: Transformer, texts: Sequence[str], size: ParitySize, together: int = 256) -> np.ndarray:
    """[seeds, texts]: the parity that every network answers."""
    ids = np.zeros((len(texts), size.test_length + 1), np.int32)
    for i, text in enumerate(texts):
        ids[i, : len(text) + 1] = [START, *(int(bit) for bit in text)]
    lengths = np.array([len(text) + 1 for text in texts])
    found = []
    for start in range(0, len(texts), together):
        at = np.arange(start, start + together) % len(texts)  # the last part as large as the others: one compilation
        found.append(np.asarray(_predict(nets, jnp.asarray(ids[at]), jnp.asarray(lengths[at]), size.layers)))
    return np.concatenate(found, axis=1)[:, : len(texts)]


@eqx.filter_jit
def _predict(nets: Transformer, ids: Array, lengths: Array, layers: int) -> Int[Array, "seeds texts"]:
    one = lambda net: jax.vmap(lambda i, n: parity_logits(net, i, n, layers))(ids, lengths)  # noqa: E731
    return jnp.argmax(jax.lax.map(one, nets), axis=-1)
