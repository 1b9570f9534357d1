"""End-to-end training on SCAN: an encoder reads a command, a decoder writes its actions (ALTA D.4, Table 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from mechgap.networks.encoder_decoder import EncoderDecoder
from mechgap.networks.transformer import BUCKETS
from mechgap.programs.library.scan_grammar import LONGEST_ACTIONS, SYMBOLS, WORDS
from mechgap.programs.tasks import Task
from mechgap.training.many import Recipe, Trained, train_many
from mechgap.training.sequences.end_to_end import PRECISIONS, TrainedSize

LONGEST_COMMAND = 9  # words
BEGIN, END = len(SYMBOLS), len(SYMBOLS) + 1  # beside the actions; 0 fills up


@dataclass(frozen=True)
class ScanSize(TrainedSize):
    """An encoder and a decoder for SCAN; the paper's by default. A word, and an action, is a token."""

    layers: int = 2
    shared: bool = True
    positions: str = "relative"
    width: int = 128
    hidden: int = 512
    heads: int = 8
    head_width: int = 128
    precision: str = PRECISIONS[0]
    distances: str = BUCKETS

    def network(self, key: PRNGKeyArray) -> EncoderDecoder:
        """One with random weights."""
        size = self.size(len(WORDS), len(SYMBOLS) + 2, LONGEST_COMMAND, LONGEST_COMMAND)
        return EncoderDecoder.init(size, self.config, self.biases(LONGEST_ACTIONS), key=key)


@dataclass(frozen=True)
class Commands:
    """Commands and actions as numbers: read [N, words], lengths [N], written [N, actions + 2] from BEGIN to END."""

    read: np.ndarray
    lengths: np.ndarray
    written: np.ndarray

    @classmethod
    def of(cls, task: Task, texts: Sequence[str]) -> "Commands":
        """The commands of a task."""
        read, written = np.zeros((len(texts), LONGEST_COMMAND), int), np.zeros((len(texts), LONGEST_ACTIONS + 2), int)
        for i, text in enumerate(texts):
            words = [WORDS.index(word) for word in text.split()]
            actions = [SYMBOLS.index(action) for action in task.answer(text).split()]
            read[i, : len(words)] = words
            written[i, : len(actions) + 2] = [BEGIN, *actions, END]
        return cls(read, np.array([len(text.split()) for text in texts]), written)


def train_scan(size: ScanSize, task: Task, recipe: Recipe, **options: Any) -> Trained:
    """Train on the commands of a split, drawn anew for every step; options as for `train_many`."""
    given = Commands.of(task, task.train)
    longest = int(np.count_nonzero(given.written, axis=1).max())  # nothing before it looks at what fills up behind it
    arrays = tuple(jnp.asarray(x) for x in (given.read, given.lengths, given.written[:, :longest]))

    def draw(key: PRNGKeyArray) -> tuple[Array, ...]:
        at = jax.random.randint(key, (recipe.batch,), 0, len(given.read))
        return tuple(x[at] for x in arrays)

    def loss(net: EncoderDecoder, batch: tuple[Array, ...]) -> Array:
        meant = batch[-1][:, 1:]
        logits = action_logits(net, batch, size.layers)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), meant[..., None], axis=-1)[..., 0]
        counted = meant > 0
        return -jnp.sum(jnp.where(counted, chosen, 0)) / jnp.sum(counted)

    some = tuple(x[:: max(1, len(given.read) // 512)] for x in arrays)

    def accuracy(nets: Any) -> np.ndarray:
        return np.asarray(_right(nets, some, size.layers)).mean(1)

    return train_many(size.network, loss, draw, recipe, accuracy=accuracy, **options)


def action_logits(
    net: EncoderDecoder, commands: tuple[Array, ...], layers: int
) -> Float[Array, "commands actions tokens"]:
    """What the decoder says after every token that is written, for the arrays of `Commands`."""
    with jax.default_matmul_precision(net.config.precision):  # the decoder's own; the encoder sees to its own
        return jax.vmap(lambda r, n, w: net(r, n, w[:-1], layers))(*commands)


def scan_right(
    nets: EncoderDecoder, task: Task, texts: Sequence[str], size: ScanSize, together: int = 256
) -> np.ndarray:
    """[seeds, texts]: whether greedy decoding gives exactly the right actions."""
    given, found = Commands.of(task, texts), []
    for start in range(0, len(texts), together):
        at = np.arange(start, start + together) % len(texts)  # the last part as large as the others: one compilation
        part = tuple(jnp.asarray(x[at]) for x in (given.read, given.lengths, given.written))
        found.append(np.asarray(_right(nets, part, size.layers)))
    return np.concatenate(found, axis=1)[:, : len(texts)]


@eqx.filter_jit
def _right(nets: EncoderDecoder, commands: tuple[Array, ...], layers: int) -> Array:
    meant = commands[-1][:, 1:]

    def one(net: EncoderDecoder) -> Array:
        said = jnp.argmax(action_logits(net, commands, layers), axis=-1)
        return jnp.all((said == meant) | (meant == 0), axis=1)

    return jax.lax.map(one, nets)
