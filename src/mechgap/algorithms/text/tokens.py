"""A small fixed vocabulary for CLRS-Text, and batches of token ids for a Transformer.

A token is a whole word of the format (`bfs:`, `key: `, `], [`), the start of a number (` 0.`), a digit with or without
the space before it, or a single character. A text is cut greedily, the longest token first, so there is one way to cut
it; what a token says is its characters, so that decoding is joining.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from mechgap.algorithms.text.brackets import check_is_text
from mechgap.algorithms.text.layout import ALGORITHMS, START, TRACE, layout
from mechgap.algorithms.text.writing import Example

SPECIAL = ("<pad>", "<bos>", "<eos>")
PAD, BOS, EOS = range(3)
_STRUCTURE = ("\n", "\n\n", " ", ", ", "[", "]", "[[", "]]", "], [", "(", ")", "), (", " | ", TRACE, START)
_NUMBERS = (".", "-", " -", "0.", " 0.", "0.0", " 0.0", "1.0", " 1.0", "-1", " -1", "-0.", " -0.")


def _vocabulary() -> tuple[str, ...]:
    layouts = [layout(name, hints) for name in ALGORITHMS for hints in (False, True)]
    headings = {written.heading.removeprefix(TRACE) for written in layouts}
    words = [f"{name}:\n" for name in ALGORITHMS]
    words += sorted({f"{v.name}: " for written in layouts for v in written.inputs})
    words += sorted(f"{heading}:\n" for heading in headings)
    digits = [space + digit for space in ("", " ") for digit in "0123456789"]
    words += [*_STRUCTURE, *_NUMBERS, *digits]
    return (*SPECIAL, *words, *sorted({c for word in words for c in word} - set(words)))


VOCABULARY = _vocabulary()
_IDS = {word: number for number, word in enumerate(VOCABULARY) if number >= len(SPECIAL)}
_LONGEST_FIRST = re.compile("|".join(re.escape(word) for word in sorted(_IDS, key=len, reverse=True)))


class Batch(NamedTuple):
    """Texts as ids, padded to one length.

    Attributes:
        ids: <bos>, the question, the answer, <eos>, and <pad> up to the length.
        in_answer: where the answer and <eos> stand: what a model is asked for.
        lengths: how many ids are not padding.
    """

    ids: Int[np.ndarray, "batch length"]
    in_answer: Bool[np.ndarray, "batch length"]
    lengths: Int[np.ndarray, " batch"]


def encode(text: str) -> Int[np.ndarray, " length"]:
    """The ids of a text, without <bos> and <eos>.

    >>> [VOCABULARY[i] for i in encode("key: [0.25 1]")]
    ['key: ', '[', '0.', '2', '5', ' 1', ']']
    """
    check_is_text("What is encoded", text)
    ids = [_IDS[word] for word in _LONGEST_FIRST.findall(text)]
    if sum(len(VOCABULARY[i]) for i in ids) != len(text):
        place, wrong = next((i, c) for i, c in enumerate(text) if c not in _IDS)
        raise ValueError(
            f"No token for {wrong!r} at place {place}; CLRS-Text has the characters "
            f"{''.join(sorted(c for c in _IDS if len(c) == 1))!r}. Take it out."
        )
    return np.array(ids, np.int32)


def decode(ids: Sequence[int] | np.ndarray) -> str:
    """The text of ids, up to <eos>; <bos> and <pad> say nothing."""
    given, said = np.asarray(ids), []
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(
            f"Ids must be whole numbers, [length]; got {given.dtype} of shape {given.shape}. "
            "Give one row at a time, and of logits their argmax."
        )
    for number in given.tolist():
        if not 0 <= number < len(VOCABULARY):
            raise ValueError(f"Ids must be from 0 to {len(VOCABULARY) - 1}; got {number}. Cut the logits to these.")
        if number == EOS:
            break
        if number >= len(SPECIAL):
            said.append(VOCABULARY[number])
    return "".join(said)


def batch(examples: Sequence[Example | tuple[str, str]], length: int | None = None) -> Batch:
    """Questions and answers as one array.

    Args:
        examples: from `sample`, or (question, answer); an empty answer gives a prompt: no <eos> then.
        length: pad to it; by default, to the longest text.
    """
    rows = [_row(*((e.question, e.answer) if isinstance(e, Example) else e)) for e in examples]
    longest = max((len(ids) for ids, _ in rows), default=0)
    if not rows or (length is not None and length < longest):
        raise ValueError(
            f"A batch needs a text, and a length that none exceeds; got {len(rows)} texts, the longest of {longest} "
            f"tokens, and length = {length}. Give length={longest} or more, or fewer nodes."
        )
    ids = np.full((len(rows), length or longest), PAD, np.int32)
    in_answer = np.zeros(ids.shape, bool)
    for number, (row, start) in enumerate(rows):
        ids[number, : len(row)] = row
        in_answer[number, start : len(row)] = True
    return Batch(ids, in_answer, np.array([len(row) for row, _ in rows], np.int32))


def _row(question: str, answer: str) -> tuple[np.ndarray, int]:
    """All ids, and where those of the answer start."""
    asked, said = encode(question), encode(answer)
    end = [EOS] if answer else []
    return np.concatenate([[BOS], asked, said, end]).astype(np.int32), 1 + len(asked)
