"""What defines a training run: one frozen dataclass for Python, TOML and the command line."""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from mechgap.algorithms import TRAIN_P
from mechgap.networks.config import NetConfig
from mechgap.training.rules import check_names, checked

Schedule = float | tuple[tuple[int, float], ...]  # a weight, or ((from step, weight), ...)

TEST_SIZE = 64  # the benchmark's
# What only changes numbers: these are traced, so that runs that differ in them are members of one ensemble.
NUMERIC = (
    *("learning_rate", "grad_clip", "dropout", "teacher_forcing"),
    *("regularisation", "regularisation_weight", "hint_weight", "output_weight"),
)
MEMBERSHIP = (*NUMERIC, "seeds", "first_seed", "init_from")
NEWER = {"processor": "gatv2", "triplet_features": 8}
ARCHITECTURE = tuple(f.name for f in fields(NetConfig))


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
            encoder_init, simplify_decoders, precision, processor, triplet_features: see `NetConfig`.
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
    processor: str = "gatv2"
    triplet_features: int = 8

    def __post_init__(self) -> None:
        for name, value in checked({f.name: getattr(self, f.name) for f in fields(self)}).items():
            object.__setattr__(self, name, value)
        self.network_config()

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "TrainConfig":
        """A config from names and values; an unknown name is an error that says what was probably meant."""
        check_names(settings, [f.name for f in fields(cls)])
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
    described = [_without_newer(config.as_json()) for config in configs]
    text = json.dumps({"configs": described, "weights": weights}, sort_keys=True)
    return hashed_name(described[0]["algorithm"], text)


def _without_newer(described: dict[str, Any]) -> dict[str, Any]:
    """A description without settings that came later, where these are as they were before: the run keeps its name."""
    return {name: x for name, x in described.items() if name not in NEWER or x != NEWER[name]}


def hashed_name(start: str, text: str) -> str:
    """A name that says what a run is, and that no other settings have."""
    return f"{start}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
