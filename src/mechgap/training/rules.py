"""What settings a training run may have: their names, their values, and what does not go together."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from mechgap.algorithms import TRAIN_P, algorithm
from mechgap.algorithms.inputs import nearest

SMALLEST = 4  # nodes that every algorithm can have
REGULARISATIONS = ("none", "L1", "L2")
# The names of the reference training script and of the paper's tables, for those who type them.
REFERENCE_NAMES = {
    "algorithms": "algorithm",
    "batch_size": "batch",
    "dropout_prob": "dropout",
    "enforce_permutations": "permutations",
    "enforce_pred_as_input": "pred_as_input",
    "grad_clip_max_norm": "grad_clip",
    "hidden_size": "hidden",
    "hint_repred_mode": "hint_repred",
    "hint_teacher_forcing": "teacher_forcing",
    "nb_heads": "heads",
    "nb_msg_passing_steps": "message_passing_steps",
    "nb_triplet_fts": "triplet_features",
    "processor_type": "processor",
    "regularization": "regularisation",
    "regularization_weight": "regularisation_weight",
    "train_lengths": "sizes",
    "train_steps": "steps",
    "use_edge_info": "edge_info",
    "use_ln": "use_layer_norm",
    "use_pre_att_bias": "pre_attention_bias",
}


def check_names(settings: Iterable[str], names: list[str]) -> None:
    """Refuse names that are not settings."""
    problems = []
    for name in settings:
        if name in REFERENCE_NAMES:
            problems.append(f"No setting {name!r}; the reference's {name!r} is {REFERENCE_NAMES[name]!r} here.")
        elif name not in names:
            problems.append(f"No setting {name!r}. {nearest(name, names)}")
    if problems:
        raise ValueError("\n  ".join(problems))


def checked(settings: dict[str, Any]) -> dict[str, Any]:
    """All settings of a `TrainConfig` in plain form; every impossible value is named at once."""
    return obeying(RULES, settings, _conflicts)


Rule = tuple[Callable[[Any], bool], str]  # whether settings obey it, and what a setting must be


def obeying(
    rules: Mapping[str, Rule], settings: dict[str, Any], conflicts: Callable[[SimpleNamespace], Iterable[str]]
) -> dict[str, Any]:
    """All settings in plain form (TOML has lists, and writes 1 for 1.0); every impossible value is named at once.

    Args:
        rules: of the settings, by name.
        settings: as they were given.
        conflicts: what does not go together, said of settings that obey the rules.
    """
    given = SimpleNamespace(**{name: _plain(name, value) for name, value in settings.items()})
    problems = [f"{k} must be {say}; got {getattr(given, k)!r}." for k, (ok, say) in rules.items() if not ok(given)]
    problems = problems or list(conflicts(given))
    if problems:
        raise ValueError("Bad training settings:\n  " + "\n  ".join(problems))
    return vars(given)


def _plain(name: str, value: Any) -> Any:
    if name in _SCHEDULES:
        return _plain_schedule(value)
    if isinstance(value, list | tuple):
        return tuple(_plain(name, x) for x in value)
    return _as_real(value) if name in _REALS else value


def _plain_schedule(value: Any) -> Any:
    """Weights become reals, so that equal runs have equal names; steps stay whole."""
    if not isinstance(value, list | tuple):
        return _as_real(value)
    pairs = (tuple(x) if isinstance(x, list) else x for x in value)
    return tuple((x[0], _as_real(x[1])) if isinstance(x, tuple) and len(x) == 2 else x for x in pairs)


def _as_real(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def several(value: Any) -> Any:
    """A lone number is a list of one; TOML and JSON have lists where a config has tuples."""
    if isinstance(value, int | float):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def names_in(given: str | Sequence[str]) -> tuple[str, ...]:
    """Names, of which a text has one, or several with commas or blanks between them."""
    return tuple(given.replace(",", " ").split()) if isinstance(given, str) else tuple(given)


def whole(value: Any, least: int) -> bool:
    """Whether a value is a whole number (True and False are none) of at least some size."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def real(value: Any, low: float = -math.inf, high: float = math.inf) -> bool:
    """Whether a value in plain form is a finite number between two others."""
    return isinstance(value, float) and math.isfinite(value) and low <= value <= high


def _is_schedule(value: Any) -> bool:
    if real(value, 0):
        return True
    pairs = isinstance(value, tuple) and value and all(isinstance(x, tuple) and len(x) == 2 for x in value)
    if not pairs or not all(whole(step, 0) and real(weight, 0) for step, weight in value):
        return False
    steps = [step for step, _ in value]
    return steps[0] == 0 and all(a < b for a, b in pairwise(steps))


def count(name: str) -> Rule:
    """The rule of a setting that counts something."""
    return lambda config: whole(getattr(config, name), 1), "a whole number, 1 or more"


def _is_word(name: str) -> Callable[[Any], bool]:
    return lambda config: isinstance(getattr(config, name), str)


def _follows_schedule(name: str) -> Callable[[Any], bool]:
    return lambda config: _is_schedule(getattr(config, name))


def _is_flag(name: str) -> Callable[[Any], bool]:
    return lambda config: isinstance(getattr(config, name), bool)


_REALS = ("learning_rate", "grad_clip", "dropout", "teacher_forcing", "regularisation_weight", "p")
_COUNTS = ("seeds", "steps", "batch", "eval_every", "hidden", "heads", "message_passing_steps", "triplet_features")
_WORDS = ("algorithm", "hint_mode", "hint_repred", "encoder_init", "processor")
_FLAGS = (
    *("random_pos", "permutations", "pred_as_input", "shared_data_stream", "length_generalize"),
    *("freeze_processor", "pre_attention_bias", "use_layer_norm", "edge_info", "full_adjacency", "simplify_decoders"),
)
_SCHEDULES = ("hint_weight", "output_weight")
_SCHEDULE = "a weight of at least 0, or [[0, weight], [step, weight], ...] with rising steps"
RULES: dict[str, Rule] = {
    **{name: (_is_word(name), "a word") for name in _WORDS},
    **{name: count(name) for name in _COUNTS},
    "first_seed": (
        lambda c: whole(c.first_seed, 0) and whole(c.seeds, 1) and c.first_seed + c.seeds <= 2**32,
        "a whole number from 0 on, and first_seed + seeds at most 2**32",
    ),
    "sizes": (
        lambda c: isinstance(c.sizes, tuple) and bool(c.sizes) and all(whole(n, 2) for n in c.sizes),
        "a list of numbers of nodes, each 2 or more",
    ),
    "p": (
        lambda c: isinstance(c.p, tuple) and bool(c.p) and all(real(x, 0, 1) for x in c.p),
        "a list of probabilities",
    ),
    "validation_samples": (
        lambda c: c.validation_samples is None or whole(c.validation_samples, 1),
        "a whole number, 1 or more, or left out for the reference's",
    ),
    "learning_rate": (lambda c: real(c.learning_rate, 0) and c.learning_rate > 0, "a number above 0, e.g. 1e-4"),
    "grad_clip": (lambda c: real(c.grad_clip, 0), "a number of at least 0; 0 turns clipping off"),
    "dropout": (lambda c: real(c.dropout, 0) and c.dropout < 1, "a probability below 1"),
    "teacher_forcing": (lambda c: real(c.teacher_forcing, 0, 1), "a probability"),
    "regularisation": (lambda c: c.regularisation in REGULARISATIONS, f"one of {', '.join(REGULARISATIONS)}"),
    "regularisation_weight": (lambda c: real(c.regularisation_weight, 0), "a number of at least 0"),
    **{name: (_follows_schedule(name), _SCHEDULE) for name in _SCHEDULES},
    "precision": (lambda c: c.precision is None or isinstance(c.precision, str), "a word, or left out"),
    "init_from": (lambda c: c.init_from is None or isinstance(c.init_from, str), "a file name, or left out"),
    **{name: (_is_flag(name), "true or false") for name in _FLAGS},
}


def _conflicts(config: SimpleNamespace) -> Iterable[str]:
    drawn = algorithm(config.algorithm).distribution.p
    if not drawn and config.p != TRAIN_P:
        yield f"{config.algorithm!r} draws no graph, so p means nothing there; leave p out."
    if config.pre_attention_bias and (config.length_generalize or len(set(config.sizes)) > 1):
        yield (
            f"pre_attention_bias ties a network to one size of graph; got sizes {list(config.sizes)} and "
            f"length_generalize {str(config.length_generalize).lower()}. Set sizes to one number, e.g. [16], and "
            f"length_generalize to false."
        )
