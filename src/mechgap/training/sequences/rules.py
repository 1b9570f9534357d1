"""What settings a training on sequences may have."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from mechgap.training.rules import Rule, count, obeying, whole


def checked_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of `Recipe` and the sizes, in plain form; every impossible value is named at once."""
    return obeying({name: RULES[name] for name in given}, dict(given), lambda settings: ())


def _number(name: str, holds: Callable[[float], bool]) -> Callable[[Any], bool]:
    def is_one(settings: Any) -> bool:
        value = getattr(settings, name)
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return number and holds(value)

    return is_one


def _is(name: str, kind: type) -> Callable[[Any], bool]:
    return lambda settings: isinstance(getattr(settings, name), kind)


_COUNTS = (
    *("steps", "batch", "seeds", "chunk", "train_length", "each"),
    *("layers", "width", "hidden", "heads", "head_width", "span"),
)
_WORDS = ("optimiser", "schedule", "positions", "precision", "distances", "tokens")
RULES: dict[str, Rule] = {
    **{name: count(name) for name in _COUNTS},
    **{name: (_number(name, lambda x: x >= 0), "a number of at least 0") for name in ("clip", "noise", "undefined")},
    **{name: (_number(name, lambda x: x > 0), "a number above 0") for name in ("learning_rate", "enough", "sharpness")},
    "shared": (_is("shared", bool), "true or false"),
    **{name: (_is(name, str), "a word") for name in _WORDS},
    "first_seed": (lambda settings: whole(settings.first_seed, 0), "a whole number from 0 on"),
}
