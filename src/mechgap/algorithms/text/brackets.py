"""Numbers, lists and matrices as they stand in a text, taken apart without asking what they mean."""

import re

Nested = str | list[str] | list[list[str]]  # the words of a number, a list, a matrix

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")
_BETWEEN_ROWS = re.compile(r"\]\s*,\s*\[")


class Unreadable(Exception):  # noqa: N818  a finding about a text, which its reader words as an error or a score
    """Why a text has no structure; the message is a clause."""


def parts(text: str) -> list[str]:
    """A text cut at its commas outside of brackets; `a, [[b c], [d e]]` has two parts."""
    depth, start, found = 0, 0, []
    for place, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if depth < 0:
            raise Unreadable(f"the brackets are unbalanced: {character!r} at place {place} closes nothing")
        if character == "," and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
    if depth:
        raise Unreadable(f"the brackets are unbalanced: {depth} of them {'is' if depth == 1 else 'are'} never closed")
    return [*found, text[start:].strip()]


def read(text: str) -> Nested:
    """The words of one part; the brackets must be balanced."""
    if not text.startswith("["):
        words = text.split()
        if len(words) != 1 or "[" in text or "]" in text:
            raise Unreadable("a value is missing" if not words else "a value is not one number, list or matrix")
        return words[0]
    if not text.startswith("[["):
        return _row(text[1:-1] if text.endswith("]") else text)
    if not text.endswith("]]"):
        raise Unreadable("a matrix does not end in ']]'")
    return [_row(row) for row in _BETWEEN_ROWS.split(text[2:-2])]


def _row(text: str) -> list[str]:
    if any(bracket in text for bracket in "[](),"):
        raise Unreadable("a list holds more than numbers with spaces between them")
    return text.split()
