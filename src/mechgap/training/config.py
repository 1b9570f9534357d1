"""What defines a training run: one frozen dataclass for Python, TOML and the command line."""

import hashlib
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from mechgap.algorithms import TRAIN_P, algorithm
from mechgap.algorithms.inputs import nearest
from mechgap.networks.config import NetConfig

Schedule = float | tuple[tuple[int, float], ...]  # a weight, or ((from step, weight), ...)

TEST_SIZE = 64  # the benchmark's
REGULARISATIONS = ("none", "L1", "L2")
# What only changes numbers: these are traced, so that runs that differ in them are members of one ensemble.
NUMERIC = (
    *("learning_rate", "grad_clip", "dropout", "teacher_forcing"),
    *("regularisation", "regularisation_weight", "hint_weight", "output_weight"),
)
MEMBERSHIP = (*NUMERIC, "seeds", "first_seed")
ARCHITECTURE = tuple(f.name for f in fields(NetConfig))
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
    "regularization": "regularisation",
    "regularization_weight": "regularisation_weight",
    "train_lengths": "sizes",
    "train_steps": "steps",
    "use_edge_info": "edge_info",
    "use_ln": "use_layer_norm",
    "use_pre_att_bias": "pre_attention_bias",
}


@dataclass(frozen=True)
class TrainConfig:
    """One setting, trained from several seeds. The defaults are the paper's (Table 8).

    Attributes:
        algorithm: what to learn.
        seeds: how many networks; they have the seeds first_seed, first_seed + 1, ...
        first_seed: the first of them.
        steps: of the optimiser.
        batch: samples per step and network.
        sizes: numbers of nodes, one per step in turn.
        p: edge probabilities, of which each training and validation sample draws one.
        random_pos: positions are sorted uniform numbers in training and validation, i/n in the test.
        permutations: orders are learned as permutation matrices.
        pred_as_input: an order that never changes is an input.
        shared_data_stream: all networks see the same batches; otherwise each seed draws its own.
        eval_every: steps between two validations, on graphs of the largest of `sizes`.
        validation_samples: how many, the same for all networks; by default 64 times the benchmark's multiplier.
        length_generalize: test on 64 nodes; otherwise on the largest of `sizes`.
        learning_rate: of Adam.
        grad_clip: the largest global norm of a gradient; 0 for no limit.
        dropout: the probability that a number of a new hidden state is dropped.
        teacher_forcing: the probability that a step is fed the true hints.
        regularisation: "L1" adds weight · Σ|w| to the loss, "L2" weight · Σw², "none" nothing.
        regularisation_weight: that weight.
        hint_weight: of the hints' losses: a number, or ((0, w0), (step, w1), ...), each weight from its step on.
        output_weight: of the outputs' losses, likewise. ((0, 0), (k, 1)) learns the hints alone for k steps.
        freeze_processor: only encoders and decoders learn.
        init_from: a file of weights to start from (see `mechgap.training.weights`), e.g. a compiled network's.
        hidden, heads, message_passing_steps, use_layer_norm, edge_info, full_adjacency, hint_mode, hint_repred,
            encoder_init, simplify_decoders, precision: see `NetConfig`.
        pre_attention_bias: learn a bias before attention (Eq. 14), for one size of graph only.
    """

    algorithm: str = "bfs"
    seeds: int = 8
    first_seed: int = 0
    steps: int = 10_000
    batch: int = 32
    sizes: tuple[int, ...] = (4, 7, 11, 13, 16)
    p: tuple[float, ...] = TRAIN_P
    random_pos: bool = True
    permutations: bool = True
    pred_as_input: bool = True
    shared_data_stream: bool = False
    eval_every: int = 50
    validation_samples: int | None = None
    length_generalize: bool = True
    learning_rate: float = 1e-4
    grad_clip: float = 1.0
    dropout: float = 0.0
    teacher_forcing: float = 0.0
    regularisation: str = "none"
    regularisation_weight: float = 1e-4
    hint_weight: Schedule = 1.0
    output_weight: Schedule = 1.0
    freeze_processor: bool = False
    init_from: str | None = None
    hidden: int = 128
    heads: int = 1
    message_passing_steps: int = 1
    use_layer_norm: bool = True
    edge_info: bool = False
    pre_attention_bias: bool = False
    full_adjacency: bool = False
    hint_mode: str = "encoded_decoded"
    hint_repred: str = "soft"
    encoder_init: str = "xavier_on_scalars"
    simplify_decoders: bool = False
    precision: str | None = None

    def __post_init__(self) -> None:
        for name, value in checked({f.name: getattr(self, f.name) for f in fields(self)}).items():
            object.__setattr__(self, name, value)
        self.network_config()

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "TrainConfig":
        """A config from names and values; an unknown name is an error that says what was probably meant."""
        check_names(settings)
        return cls(**checked({f.name: settings.get(f.name, f.default) for f in fields(cls)}))

    @classmethod
    def from_toml(cls, text: str) -> "TrainConfig":
        """A config from a TOML document of plain values."""
        return cls.from_settings(parse_toml(text, "these settings"))

    def with_settings(self, settings: Mapping[str, Any]) -> "TrainConfig":
        """The same config with some values changed."""
        return self.from_settings({**asdict(self), **settings})

    def network_config(self) -> NetConfig:
        """The architecture."""
        shared = {name: getattr(self, name) for name in ARCHITECTURE}
        return NetConfig(**shared | {"pre_attention_bias": max(self.sizes) if self.pre_attention_bias else None})

    @property
    def test_size(self) -> int:
        """The number of nodes to test on."""
        return TEST_SIZE if self.length_generalize else max(self.sizes)

    @property
    def seed_range(self) -> range:
        """The seeds of the networks."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def shape(self) -> tuple:
        """What decides the compiled programs and the data: configs of equal shape train as one ensemble."""
        return tuple(getattr(self, f.name) for f in fields(self) if f.name not in MEMBERSHIP)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a JSON file; `from_settings` reads them back."""
        return json.loads(json.dumps(asdict(self)))


def check_names(settings: Mapping[str, Any]) -> None:
    """Refuse names that are not settings."""
    names = [f.name for f in fields(TrainConfig)]
    problems = []
    for name in settings:
        if name in REFERENCE_NAMES:
            problems.append(f"No setting {name!r}; the reference's {name!r} is {REFERENCE_NAMES[name]!r} here.")
        elif name not in names:
            problems.append(f"No setting {name!r}. {nearest(name, names)}")
    if problems:
        raise ValueError("\n  ".join(problems))


def checked(settings: dict[str, Any]) -> dict[str, Any]:
    """All settings in plain form (TOML has lists, and writes 1 for 1.0); every impossible value is named at once."""
    given = SimpleNamespace(**{name: _plain(name, value) for name, value in settings.items()})
    problems = [f"{k} must be {say}; got {getattr(given, k)!r}." for k, (ok, say) in _RULES.items() if not ok(given)]
    problems = problems or list(_conflicts(given))
    if problems:
        raise ValueError("Bad training settings:\n  " + "\n  ".join(problems))
    return vars(given)


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """A TOML document, or a ValueError that says where it is wrong."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"Cannot read {where} as TOML: {error}.") from error


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Settings from the command line, `name=value` each; a value is written as in TOML, a word may lack quotes.

    >>> parse_assignments(["hidden=4", "hint_mode=none", "sizes=[4, 7]"])
    {'hidden': 4, 'hint_mode': 'none', 'sizes': [4, 7]}
    """
    settings = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise ValueError(f"A setting is written name=value, e.g. hidden=4; got {assignment!r}.")
        try:
            settings[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            settings[name.strip()] = value.strip()
    return settings


def run_name(configs: Iterable[TrainConfig], weights: str | None) -> str:
    """The name of a run: its algorithm and a hash of what defines it."""
    described = [config.as_json() for config in configs]
    text = json.dumps({"configs": described, "weights": weights}, sort_keys=True)
    return f"{described[0]['algorithm']}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_plain(name, x) for x in value)
    if isinstance(value, int) and not isinstance(value, bool) and name in _REALS:
        return float(value)
    return value


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _real(value: Any, low: float = -math.inf, high: float = math.inf) -> bool:
    return isinstance(value, float) and math.isfinite(value) and low <= value <= high


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _real(float(value), 0)


def _is_schedule(value: Any) -> bool:
    if _is_number(value):
        return True
    pairs = isinstance(value, tuple) and value and all(isinstance(x, tuple) and len(x) == 2 for x in value)
    if not pairs or not all(_whole(step, 0) and _is_number(weight) for step, weight in value):
        return False
    steps = [step for step, _ in value]
    return steps[0] == 0 and all(a < b for a, b in pairwise(steps))


def _counts(name: str) -> Callable[[Any], bool]:
    return lambda config: _whole(getattr(config, name), 1)


def _is_word(name: str) -> Callable[[Any], bool]:
    return lambda config: isinstance(getattr(config, name), str)


def _is_flag(name: str) -> Callable[[Any], bool]:
    return lambda config: isinstance(getattr(config, name), bool)


Rule = tuple[Callable[[Any], bool], str]
_REALS = ("learning_rate", "grad_clip", "dropout", "teacher_forcing", "regularisation_weight", "p")
_COUNTS = ("seeds", "steps", "batch", "eval_every", "hidden", "heads", "message_passing_steps")
_WORDS = ("algorithm", "hint_mode", "hint_repred", "encoder_init")
_FLAGS = (
    *("random_pos", "permutations", "pred_as_input", "shared_data_stream", "length_generalize"),
    *("freeze_processor", "pre_attention_bias", "use_layer_norm", "edge_info", "full_adjacency", "simplify_decoders"),
)
_SCHEDULE = "a weight of at least 0, or [[0, weight], [step, weight], ...] with rising steps"
_RULES: dict[str, Rule] = {
    **{name: (_is_word(name), "a word") for name in _WORDS},
    **{name: (_counts(name), "a whole number, 1 or more") for name in _COUNTS},
    "first_seed": (
        lambda c: _whole(c.first_seed, 0) and _whole(c.seeds, 1) and c.first_seed + c.seeds <= 2**32,
        "a whole number from 0 on, and first_seed + seeds at most 2**32",
    ),
    "sizes": (
        lambda c: isinstance(c.sizes, tuple) and bool(c.sizes) and all(_whole(n, 2) for n in c.sizes),
        "a list of numbers of nodes, each 2 or more",
    ),
    "p": (
        lambda c: isinstance(c.p, tuple) and bool(c.p) and all(_real(x, 0, 1) for x in c.p),
        "a list of probabilities",
    ),
    "validation_samples": (
        lambda c: c.validation_samples is None or _whole(c.validation_samples, 1),
        "a whole number, 1 or more, or left out for the reference's",
    ),
    "learning_rate": (lambda c: _real(c.learning_rate, 0) and c.learning_rate > 0, "a number above 0, e.g. 1e-4"),
    "grad_clip": (lambda c: _real(c.grad_clip, 0), "a number of at least 0; 0 turns clipping off"),
    "dropout": (lambda c: _real(c.dropout, 0) and c.dropout < 1, "a probability below 1"),
    "teacher_forcing": (lambda c: _real(c.teacher_forcing, 0, 1), "a probability"),
    "regularisation": (lambda c: c.regularisation in REGULARISATIONS, f"one of {', '.join(REGULARISATIONS)}"),
    "regularisation_weight": (lambda c: _real(c.regularisation_weight, 0), "a number of at least 0"),
    "hint_weight": (lambda c: _is_schedule(c.hint_weight), _SCHEDULE),
    "output_weight": (lambda c: _is_schedule(c.output_weight), _SCHEDULE),
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
