"""End-to-end training on SCAN: an encoder reads a command, a decoder writes its actions (ALTA D.4, Table 5)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, PRNGKeyArray

from mechgap.networks.encoder_decoder import EncoderDecoder
from mechgap.networks.transformer import BFLOAT16, BUCKETS
from mechgap.programs.library.scan_grammar import LONGEST_ACTIONS, PUBLISHED, SYMBOLS, WORDS
from mechgap.programs.tasks import Task
from mechgap.training.many import Recipe, Trained, train_many
from mechgap.training.sequences.end_to_end import TrainedSize, of_layers

LONGEST_COMMAND = 9  # words


@dataclass(frozen=True)
class Writing:
    """How actions are written as tokens; 0 fills up.

    Attributes:
        tokens: all there are, 0 first; BEGIN and END come after them.
        of_action: action -> its tokens. None begins as another one does, so that what is written can be read back.
        longest: of all right answers, in tokens.
    """

    tokens: tuple[str, ...]
    of_action: Mapping[str, tuple[int, ...]]
    longest: int

    @property
    def begin(self) -> int:
        """What stands before the first token."""
        return len(self.tokens)

    @property
    def end(self) -> int:
        """What stands behind the last."""
        return len(self.tokens) + 1

    def write(self, actions: Sequence[str]) -> list[int]:
        """From BEGIN to END."""
        return [self.begin, *(token for action in actions for token in self.of_action[action]), self.end]

    def read(self, tokens: Sequence[int]) -> list[str]:
        """The actions that are written."""
        known = {pieces: action for action, pieces in self.of_action.items()}
        found: list[str] = []
        part: tuple[int, ...] = ()
        for token in tokens:
            if token in (0, self.begin, self.end):
                continue
            part = (*part, token)
            if part in known:
                found.append(known[part])
                part = ()
        if part:
            raise ValueError(f"No action is written {' '.join(self.tokens[token] for token in part)!r}.")
        return found


def _in_pieces() -> Writing:
    """I_TURN_LEFT as I _ TURN _ LEFT: 4 pieces on average where turns and other actions alternate."""
    pieces = {action: re.findall("_|[A-Z]+", name) for action, name in PUBLISHED.items()}
    tokens = ("", *dict.fromkeys(piece for parts in pieces.values() for piece in parts))
    of_action = {action: tuple(tokens.index(piece) for piece in parts) for action, parts in pieces.items()}
    # The longest answers are of 24 turns of 5 pieces, each with another action of 3 (around, thrice, on both sides)
    return Writing(tokens, of_action, LONGEST_ACTIONS // 2 * (5 + 3))


WORD, PIECE = "words", "pieces"
WRITINGS = {
    WORD: Writing(SYMBOLS, {action: (SYMBOLS.index(action),) for action in PUBLISHED}, LONGEST_ACTIONS),
    PIECE: _in_pieces(),
}


@dataclass(frozen=True)
class ScanSize(TrainedSize):
    """An encoder and a decoder for SCAN; the paper's by default. A word of a command is a token.

    Attributes:
        tokens: of actions: an action is one of the "words", or made of "pieces" as published names are, which makes
            training show longer distances.
    """

    layers: int = 2
    shared: bool = True
    positions: str = "relative"
    width: int = 128
    hidden: int = 512
    heads: int = 8
    head_width: int = 128
    precision: str = BFLOAT16
    distances: str = BUCKETS
    tokens: str = WORD

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens not in WRITINGS:
            raise ValueError(f"tokens must be {' or '.join(WRITINGS)}; got {self.tokens!r}.")

    @property
    def writing(self) -> Writing:
        """How it writes actions."""
        return WRITINGS[self.tokens]

    def network(self, key: PRNGKeyArray) -> EncoderDecoder:
        """One with random weights."""
        writing = self.writing
        size = self.size(len(WORDS), len(writing.tokens) + 2, LONGEST_COMMAND, LONGEST_COMMAND)
        return EncoderDecoder.init(size, self.config, self.biases(writing.longest), key=key)


@dataclass(frozen=True)
class Commands:
    """Commands and actions as numbers: read [N, words], lengths [N], written [N, tokens + 2] from BEGIN to END."""

    read: np.ndarray
    lengths: np.ndarray
    written: np.ndarray

    @classmethod
    def of(cls, task: Task, texts: Sequence[str], tokens: str = WORD) -> "Commands":
        """The commands of a task; tokens as in `ScanSize`."""
        writing = WRITINGS[tokens]
        read, written = np.zeros((len(texts), LONGEST_COMMAND), int), np.zeros((len(texts), writing.longest + 2), int)
        for i, text in enumerate(texts):
            words = [WORDS.index(word) for word in text.split()]
            answer = writing.write(task.answer(text).split())
            read[i, : len(words)] = words
            written[i, : len(answer)] = answer
        return cls(read, np.array([len(text.split()) for text in texts]), written)


def train_scan(size: ScanSize, task: Task, recipe: Recipe, **options: Any) -> Trained:
    """Train on the commands of a split, drawn anew for every step; options as for `train_many`."""
    given = Commands.of(task, task.train, size.tokens)
    longest = int(np.count_nonzero(given.written, axis=1).max())  # nothing before it looks at what fills up behind it
    arrays = tuple(jnp.asarray(x) for x in (given.read, given.lengths, given.written[:, :longest]))

    def draw(arrays: tuple[Array, ...], key: PRNGKeyArray) -> tuple[Array, ...]:
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

    layered = None if size.shared else of_layers
    options |= {"accuracy": accuracy, "layered": layered}
    return train_many(size.network, loss, Partial(draw, arrays), recipe, **options)


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
    given, found = Commands.of(task, texts, size.tokens), []
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
