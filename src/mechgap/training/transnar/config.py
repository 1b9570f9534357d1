"""What defines the training of a text model, and what an evaluation asks."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from mechgap.algorithms import text
from mechgap.algorithms.inputs import nearest
from mechgap.networks.transnar_config import TransNARConfig
from mechgap.training.config import hashed_name
from mechgap.training.rules import check_names
from mechgap.training.transnar.reasoner import GRADIENTS

SCHEDULES = ("constant", "cosine")
PRECISIONS = FLOAT32, BFLOAT16 = ("float32", "bfloat16")
MEMORIES = ("own", "shuffled")
REFUSE, STAND_IN = UNSEEN = ("refuse", "stand_in")
RIGHT, TEACHER = ANSWERS = ("right", "teacher")
# The ten of the first experiments: the paper names the first three as those that gain most, the last two as those that
# do not.
TEN = (
    *("graham_scan", "jarvis_march", "mst_prim", "bfs", "bellman_ford", "dfs", "activity_selector"),
    *("insertion_sort", "minimum", "binary_search"),
)


@dataclass(frozen=True)
class TextTrainingConfig:
    """One kind of text model, trained from several seeds, one after the other.

    Attributes:
        algorithms: what the questions are about; ("all",) is all thirty.
        sizes: n of the questions.
        samples: questions of every algorithm and size, drawn once.
        train_share: of them, that are learned from; the others validate.
        data_seed: of the reference generator's samplers.
        extra_sizes: more sizes, of which there are as many questions as `extra_samples` says, all of them learned from.
        extra_samples: questions of every algorithm and extra size.
        extra_answers: "right", or "teacher": as another text model answers them, right or wrong (distillation).
        buckets: lengths that sequences are padded to; a question that exceeds the last one is an error.
        tokens: in a step, padding included: a bucket of length L has batches of tokens / L.
        steps: of the optimiser; 0: as many as the epochs have.
        epochs: passes over all questions; 0 where steps are given.
        learning_rate: of Adam, after the warm-up.
        warmup: steps over which it rises from 0.
        schedule: what follows: "constant", or "cosine" down to 0 at the last step.
        grad_clip: the largest global norm of a gradient; 0 for no limit.
        random_positions: positions are drawn anew for every sequence and step; otherwise they count.
        memory: "own", or "shuffled": the reasoner's states for another question of the batch.
        train_reasoner: "none": it stays as it is; "last": it learns through its last step; "all": through all steps.
        unseen: algorithms that the reasoner never saw: "refuse", or "stand_in": it thinks about them as about another
            one with the same inputs.
        seeds: how many models.
        first_seed: the others follow.
        precision: "float32", or "bfloat16": the layers learn in it, several times faster on accelerators and slower
            elsewhere; weights and what they answer are float32 in any case.
        width, layers, heads, hidden, context, max_position, cross_attention, reads, rotary_base: see `TransNARConfig`.
    """

    algorithms: tuple[str, ...] = TEN
    sizes: tuple[int, ...] = (4, 5, 6, 7, 8, 12)
    samples: int = 2_000
    train_share: float = 1.0
    data_seed: int = 0
    extra_sizes: tuple[int, ...] = ()
    extra_samples: int = 500
    extra_answers: str = "right"
    buckets: tuple[int, ...] = (64, 128, 256, 512, 1024)
    tokens: int = 32_768
    steps: int = 8_000
    epochs: int = 0
    learning_rate: float = 3e-4
    warmup: int = 500
    schedule: str = "cosine"
    grad_clip: float = 1.0
    random_positions: bool = True
    memory: str = "own"
    train_reasoner: str = "none"
    unseen: str = "refuse"
    seeds: int = 1
    first_seed: int = 0
    width: int = 384
    layers: int = 6
    heads: int = 6
    hidden: int = 1536
    context: int = 1024
    max_position: int = 8192
    cross_attention: str = "all"
    reads: str = "final"
    rotary_base: float = 10_000.0
    precision: str = "float32"

    def __post_init__(self) -> None:
        if self.algorithms == ("all",):
            object.__setattr__(self, "algorithms", text.ALGORITHMS)
        problems = [*self._bad_counts(), *self._bad_choices()]
        if problems:
            raise ValueError("Bad settings for training a text model:\n  " + "\n  ".join(problems))
        self.model(1, 1)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "TextTrainingConfig":
        """A config from names and values; an unknown name is an error."""
        check_names([name for name in settings if name != "algorithms"], [f.name for f in fields(cls)])
        return cls(**_tuples(settings))

    def model(self, node_width: int, edge_width: int) -> TransNARConfig:
        """The architecture, for a reasoner of these widths."""
        names = [f.name for f in fields(TransNARConfig) if f.name in {own.name for own in fields(self)}]
        shared = {name: getattr(self, name) for name in names}
        return TransNARConfig(len(text.VOCABULARY), node_width=node_width, edge_width=edge_width, **shared)

    @property
    def looks(self) -> bool:
        """Whether the model looks at a reasoner."""
        return self.cross_attention != "none"

    @property
    def states(self) -> int | None:
        """How many states of the reasoner the model looks at, one for each layer; None for the last one alone."""
        return self.layers if self.reads == "per_layer" else None

    @property
    def seed_range(self) -> range:
        """The seeds of the models."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def taught(self) -> bool:
        """Whether another model answers some of the questions that this one learns from."""
        return self.extra_answers == TEACHER

    def bucket(self, length: int) -> int:
        """That which a sequence of so many tokens is padded to; its own length where it exceeds all of them."""
        return next((bucket for bucket in self.buckets if bucket >= length), length)

    def batch(self, length: int) -> int:
        """How many sequences of a bucket make a batch."""
        return max(1, self.tokens // length)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a JSON file; `from_settings` reads them back."""
        return json.loads(json.dumps(asdict(self)))

    def name(self, reasoner: str = "") -> str:
        """A name that no other settings have, nor the same with another reasoner or teacher, whose digest is given."""
        start = "transnar" if self.looks else "transformer"
        return hashed_name(start, json.dumps([self.as_json(), reasoner], sort_keys=True))

    def _bad_counts(self) -> list[str]:
        counts = ("samples", "extra_samples", "tokens", "seeds")
        problems = [
            f"{name} must be a whole number of at least 1; got {getattr(self, name)!r}."
            for name in counts
            if not _whole(getattr(self, name), 1)
        ]
        for name, least in (("sizes", 4), ("extra_sizes", 4), ("buckets", 1)):
            given = getattr(self, name)
            if name == "extra_sizes" and not given:
                continue
            if not given or not all(_whole(x, least) for x in given) or list(given) != sorted(set(given)):
                problems.append(f"{name} must be rising whole numbers of at least {least}; got {given!r}.")
        problems += [
            f"{name} must be a whole number of at least 0; got {getattr(self, name)!r}."
            for name in ("steps", "epochs", "warmup")
            if not _whole(getattr(self, name), 0)
        ]
        if not problems and (self.steps == 0) == (self.epochs == 0):
            problems.append(
                f"Give steps or epochs, and 0 for the other; got steps = {self.steps}, epochs = {self.epochs}."
            )
        both = sorted(set(self.sizes) & set(self.extra_sizes))
        if both:
            problems.append(f"extra_sizes must be none of sizes; got {', '.join(map(str, both))} in both.")
        if not problems and self.buckets[-1] > self.context:
            problems.append(f"buckets must not exceed context = {self.context}; got {self.buckets[-1]}. Raise context.")
        if not problems and self.steps and self.warmup >= self.steps and self.schedule == "cosine":
            problems.append(f"warmup must be below steps = {self.steps}; got {self.warmup}.")
        return problems

    def _bad_choices(self) -> list[str]:
        problems = [
            f"CLRS-Text has no algorithm {name!r}. {nearest(name, text.ALGORITHMS)}"
            for name in self.algorithms
            if name not in text.ALGORITHMS
        ]
        if not self.algorithms or len(set(self.algorithms)) < len(self.algorithms):
            problems.append(f"algorithms must be different names, at least one; got {', '.join(self.algorithms)}.")
        choices = {"schedule": SCHEDULES, "memory": MEMORIES, "train_reasoner": GRADIENTS, "unseen": UNSEEN}
        for name, valid in {**choices, "extra_answers": ANSWERS, "precision": PRECISIONS}.items():
            if getattr(self, name) not in valid:
                expected = ", ".join(map(repr, valid))
                problems.append(f"{name} must be one of {expected}; got {getattr(self, name)!r}.")
        if not 0 < self.train_share <= 1:
            problems.append(f"train_share must be above 0 and at most 1; got {self.train_share!r}.")
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)) or self.grad_clip < 0:
            problems.append(
                f"learning_rate must be above 0 and grad_clip at least 0; got {self.learning_rate!r}, "
                f"{self.grad_clip!r}."
            )
        if not self.looks and (self.train_reasoner, self.memory, self.unseen) != ("none", "own", REFUSE):
            problems.append(
                'A model with cross_attention = "none" sees no reasoner: leave train_reasoner, memory and unseen out.'
            )
        if self.extra_answers == TEACHER and not self.extra_sizes:
            problems.append('extra_answers = "teacher" needs extra_sizes: questions for the teacher to answer.')
        if self.train_reasoner == "last" and self.reads != "final":
            problems.append('train_reasoner = "last" needs reads = "final": earlier states get no gradients.')
        return problems


@dataclass(frozen=True)
class EvaluationConfig:
    """What is asked of a trained model.

    Attributes:
        sizes: n of the questions: between those of training, among them, and beyond.
        count: questions of every algorithm and size.
        seed: of the samplers; another one than in training.
        position_seed: of randomised positions.
        together: questions that are answered at once.
    """

    sizes: tuple[int, ...] = (10, 12, 14)
    count: int = 32
    seed: int = 1_000_003
    position_seed: int = 0
    together: int = 64

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be a whole number of at least 1; got {getattr(self, name)!r}."
            for name in ("count", "together")
            if not _whole(getattr(self, name), 1)
        ]
        if not self.sizes or not all(_whole(n, 4) for n in self.sizes):
            problems.append(f"sizes must be whole numbers of at least 4; got {self.sizes!r}.")
        if problems:
            raise ValueError("Bad settings for an evaluation:\n  " + "\n  ".join(problems))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "EvaluationConfig":
        """A config from names and values; an unknown name is an error."""
        check_names(settings, [f.name for f in fields(cls)])
        return cls(**_tuples(settings))


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """TOML and JSON have lists."""
    return {name: tuple(x) if isinstance(x, list) else x for name, x in settings.items()}


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
