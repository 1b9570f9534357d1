"""Where TransNAR looks: attention of an answer's tokens to the nodes and edges of the reasoner, and at whom it aims.

The token at place t is decided one place before, so what counts for it is where the token before it looked.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mechgap.algorithms import text
from mechgap.algorithms.text import Example, Question
from mechgap.algorithms.text.brackets import parts, read, words_of
from mechgap.networks.cross_attention import Memory, Weights
from mechgap.networks.generation import greedy
from mechgap.networks.transnar import TransNAR
from mechgap.trace import Kind, Location, Variable
from mechgap.training.transnar import TextModels
from mechgap.training.transnar.config import SHUFFLED
from mechgap.training.transnar.evaluation import most_said, positions_to_answer, room_for
from mechgap.training.transnar.reasoner import question_states

AIMS = ("named", "about")
NOBODY = -1
_NUMBERS = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)")


@dataclass(frozen=True, eq=False)
class Looked:
    """An answer, and where each of its tokens looked when it was decided.

    Attributes:
        question: what was asked.
        right: the right answer.
        ids: the tokens of the model's answer; the last is <eos>, unless the answer got too long and was cut.
        layers: those that look, counted from 0.
        gates: tanh(a) and tanh(b) of each: how much of what attention read, and of the block's feed-forward network,
            is added to the stream.
        nodes: attention of every head; rows sum to 1.
        edges: the same, of pairs (i, j).
    """

    question: Question
    right: str
    ids: Int[np.ndarray, " tokens"]
    layers: tuple[int, ...]
    gates: Float[np.ndarray, "layers 2"]
    nodes: Float[np.ndarray, "layers heads tokens n"]
    edges: Float[np.ndarray, "layers heads tokens n n"]

    @property
    def answer(self) -> str:
        """The model's answer."""
        return text.decode(self.ids)

    @cached_property
    def named(self) -> Int[np.ndarray, " tokens"]:
        """The node whose number a token is part of, -1 for others; where keys are sorted, the only node with that key.

        Pointers and single nodes are named; masks and classes name nobody.
        """
        return self._aims(self._named)

    @cached_property
    def about(self) -> Int[np.ndarray, " tokens"]:
        """The node that a number says something about, its place in a list with one number per node; else -1."""
        return self._aims(lambda variable, place, word: place if _is_per_node(variable) else NOBODY)

    def _named(self, variable: Variable, place: int, word: str) -> int:
        if variable.permutation:
            same = np.flatnonzero(self.question.inputs["key"][0] == float(word))
            return int(same[0]) if len(same) == 1 else NOBODY
        names = variable.kind in (Kind.POINTER, Kind.MASK_ONE) and word.isdigit() and int(word) < self.question.nodes
        return int(word) if names else NOBODY

    def _aims(self, node: Callable[[Variable, int, str], int]) -> Int[np.ndarray, " tokens"]:
        pieces, where = cut(self.ids)
        found = np.full(len(pieces), NOBODY)
        for k, ((variable, place), word) in enumerate(zip(self._elements(), pieces[1::2], strict=False)):
            found[2 * k + 1] = node(variable, place, word)
        return found[where]

    def _elements(self) -> list[tuple[Variable, int]]:
        """Of every number of a right answer, the output and its place there; none where executions are written, too."""
        if self.question.start is not None:
            return []
        sizes = [len(words_of(read(part))) for part in parts(self.right.strip())]
        outputs = self.question.layout.answers.values()
        return [(v, place) for v, size in zip(outputs, sizes, strict=True) for place in range(size)]


class Hits(NamedTuple):
    """How often the most attended node is the one that is aimed at, beside two levels of chance.

    Attributes:
        share: of the tokens, by layer; the mean over heads first, then every head.
        dealt: what would be expected if the same looks were dealt out to the tokens at random: a head that always
            looks at one node has no more than that. It says nothing about a single token.
        random: what looks at random nodes would have: the mean of 1/n.
        tokens: how many aim at somebody; with none, shares are not numbers.
    """

    share: Float[np.ndarray, "layers mean_and_heads"]
    dealt: Float[np.ndarray, "layers mean_and_heads"]
    random: float
    tokens: int


def look(result: TextModels, asked: Example | str, *, member: int = 0, position_seed: int = 0) -> Looked:
    """Let a model answer, and see where it looks meanwhile.

    Args:
        result: trained, with cross-attention.
        asked: a question of CLRS-Text, with its right answer or without.
        member: which of the models, one for each seed.
        position_seed: of randomised positions; with 0 the answer is that of `mechgap transnar answer`.
    """
    config, model, reasoner = result.config, result.models[member], result.reasoners[member]
    if reasoner is None:
        raise ValueError(
            'A model with cross_attention = "none" looks at no reasoner. Give one that was trained with it.'
        )
    if config.memory == SHUFFLED:
        raise ValueError("This model sees the states of other questions: where it looks in its own says nothing.")
    assert model.crosses is not None
    example = asked if isinstance(asked, Example) else example_of(asked)
    question = text.parse(example.question)
    memory = jax.tree.map(jnp.asarray, question_states(reasoner, [question], config.states))
    room, new = room_for(example, config.context)
    prompt = text.batch([(example.question, "")], length=room)
    at = jnp.asarray(positions_to_answer(config, [example], room + new, position_seed))
    ids, lengths = jnp.asarray(prompt.ids), jnp.asarray(prompt.lengths)
    answer = np.asarray(greedy(model, ids, lengths, at, memory, max_new=new, eos=text.EOS)[0])
    said = (answer[: np.argmax(answer == text.EOS) + 1] if text.EOS in answer else answer)[: most_said(example)]
    start = int(prompt.lengths[0])
    whole = np.concatenate([prompt.ids[0, :start], answer, prompt.ids[0, start:]])
    weights = _watch(model, jnp.asarray(whole), at[0], memory)
    decided, n = slice(start - 1, start - 1 + len(said)), question.nodes
    nodes, edges = (np.asarray(x)[:, :, decided] for x in weights)
    return Looked(
        question,
        example.answer,
        said,
        model.config.looking,
        np.tanh(model.crosses.gates),
        nodes,
        edges.reshape(*nodes.shape, n),
    )


def example_of(question: str) -> Example:
    """A question with its right answer, which the algorithm gives."""
    parsed = text.parse(question)
    return Example(question, text.right_answers([parsed])[0], parsed.algorithm, parsed.nodes)


def hits(looks: Looked | Sequence[Looked], aim: str = "named") -> Hits:
    """How often tokens look most at the node that they aim at.

    Args:
        looks: answers of one model, to one question or several.
        aim: "named": the node that a token names; "about": the one that it says something about.
    """
    if aim not in AIMS:
        raise ValueError(f"Tokens aim at the node {' or '.join(map(repr, AIMS))}; got {aim!r}.")
    each = [looks] if isinstance(looks, Looked) else list(looks)
    aims: list[np.ndarray] = [getattr(one, aim) for one in each]
    aimed = [target != NOBODY for target in aims]
    target = np.concatenate([t[some] for t, some in zip(aims, aimed, strict=True)])
    most = [with_mean(one.nodes)[:, :, some].argmax(-1) for one, some in zip(each, aimed, strict=True)]
    at = np.concatenate(most, axis=-1)
    if not len(target):
        nothing = np.full(at.shape[:2], np.nan)
        return Hits(nothing, nothing, np.nan, 0)
    ids = np.arange(max(one.question.nodes for one in each))
    looked, wanted = (at[..., None] == ids).mean(-2), (target[:, None] == ids).mean(0)
    random = np.repeat([1 / one.question.nodes for one in each], [some.sum() for some in aimed]).mean()
    return Hits((at == target).mean(-1), looked @ wanted, float(random), len(target))


def with_mean(weights: Float[np.ndarray, "layers heads *rest"]) -> Float[np.ndarray, "layers mean_and_heads *rest"]:
    """The mean over heads, and behind it every head."""
    return np.concatenate([weights.mean(1, keepdims=True), weights], axis=1)


def right_tokens(ids: Int[np.ndarray, " tokens"], right: str) -> Bool[np.ndarray, " tokens"]:
    """Which tokens of an answer are right: a number counts as a whole, and is held against the one at its place."""
    said, where = cut(ids)
    truth = _NUMBERS.split(right)
    same = [_canonical(a) == _canonical(b) for a, b in zip(said, truth, strict=False)]
    same += [False] * (len(said) - len(same))
    same[-1] &= len(said) == len(truth)  # an answer must not end early
    return np.array(same)[where] & ~np.isin(ids, (text.PAD, text.BOS))


def cut(ids: Int[np.ndarray, " tokens"]) -> tuple[list[str], Int[np.ndarray, " tokens"]]:
    """The text of tokens as what stands between numbers and, at odd places, numbers; and where every token ends.

    Special tokens say nothing, and stand in the last piece.
    """
    lengths = np.array([len(text.decode([i])) for i in ids.tolist()], int)
    pieces = _NUMBERS.split(text.decode(ids))
    ends = np.cumsum([len(piece) for piece in pieces])
    return pieces, np.where(lengths > 0, np.searchsorted(ends, np.cumsum(lengths)), len(pieces) - 1)


def _canonical(piece: str) -> str | float:
    return float(piece) if _NUMBERS.fullmatch(piece) else piece.strip()


def _is_per_node(variable: Variable) -> bool:
    return variable.location == Location.NODE and variable.kind != Kind.MASK_ONE and not variable.permutation


@eqx.filter_jit
def _watch(model: TransNAR, ids: Int[Array, " length"], at: Int[Array, " length"], memory: Memory) -> Weights:
    return model.watch(ids, at, jax.tree.map(lambda x: x[0], memory))[1]
