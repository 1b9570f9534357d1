"""Numbers, lists and matrices as they stand in a text, taken apart without asking what they mean."""

import re

Nested = str | list[str] | list[list[str]]  # the words of a number, a list, a matrix

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")
_BETWEEN_ROWS = re.compile(r"\]\s*,\s*\[")


class Unreadable(Exception):  # noqa: N818  a finding about a text, which its reader words as an error or a score
    """Why a text has no structure; the message is a clause."""


def check_is_text(what: str, given: object) -> None:
    """Refuse what is not a string, such as a number or a missing value from a file."""
    if not isinstance(given, str):
        raise ValueError(f"{what} must be text; got {shortened(given)}. Give a string.")


def shortened(given: object) -> str:
    """What was given, as a message shows it."""
    shown = repr(given)
    return shown if len(shown) <= 62 else f"{shown[:41]} ... {shown[-16:]}"


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


def shape_of(value: Nested) -> tuple[int, ...]:
    """() of a number, (n,) of a list, (n, m) of a matrix; (n, -1) where its rows differ in length."""
    if isinstance(value, str):
        return ()
    if not value or isinstance(value[0], str):
        return (len(value),)
    lengths = {len(row) for row in value}
    return (len(value), lengths.pop() if len(lengths) == 1 else -1)


def words_of(value: Nested) -> list[str]:
    """The words in a row, whatever the value's shape."""
    return [value] if isinstance(value, str) else [word for part in value for word in words_of(part)]


def _row(text: str) -> list[str]:
    if any(bracket in text for bracket in "[](),"):
        raise Unreadable("a list holds more than numbers with spaces between them")
    return text.split()
