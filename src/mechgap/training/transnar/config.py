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
from mechgap.training.rules import check_names, names_in, several, whole
from mechgap.training.transnar.reasoner import GRADIENTS

SCHEDULES = ("constant", "cosine")
PRECISIONS = FLOAT32, BFLOAT16 = ("float32", "bfloat16")
MEMORIES = OWN, SHUFFLED = ("own", "shuffled")
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
        algorithms: what the questions are about; ("all",) is all thirty. A text is read as on the command line:
            "bfs,dfs".
        sizes: n of the questions; one number stands for itself, here and wherever there may be several.
        samples: questions of every algorithm and size, drawn once.
        train_share: of them, that are learned from; the others validate.
        data_seed: of the reference generator's samplers.
        extra_sizes: more sizes, of which there are as many questions as `extra_samples` says, all of them learned from.
        extra_samples: questions of every algorithm and extra size.
        extra_answers: "right", or "teacher": as another text model answers them, right or wrong (distillation).
        buckets: lengths that sequences are padded to; a question that exceeds the last one is an error.
        tokens: in a step, padding included: a bucket of length L has batches of tokens / L, at least one sequence.
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
        for name in ("sizes", "extra_sizes", "buckets"):
            object.__setattr__(self, name, several(getattr(self, name)))
        object.__setattr__(self, "algorithms", _algorithms(self.algorithms))
        problems = [*self._bad_counts(), *self._bad_choices(), *self._bad_numbers()]
        if problems:
            raise ValueError("Bad settings for training a text model:\n  " + "\n  ".join(problems))
        self.model(1, 1)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "TextTrainingConfig":
        """A config from names and values; an unknown name is an error."""
        check_names([name for name in settings if name != "algorithms"], [f.name for f in fields(cls)])
        return _filled(cls, settings)

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
        counts = ("samples", "extra_samples", "tokens", "seeds", *("width", "layers", "heads", "hidden"))
        problems = [
            f"{name} must be a whole number of at least 1; got {getattr(self, name)!r}."
            for name in (*counts, "context", "max_position")
            if not whole(getattr(self, name), 1)
        ]
        for name, least in (("sizes", 4), ("extra_sizes", 4), ("buckets", 1)):
            given = getattr(self, name)
            if name == "extra_sizes" and given == ():
                continue
            if not _rising(given, least):
                problems.append(f"{name} must be rising whole numbers of at least {least}; got {given!r}.")
        problems += [
            f"{name} must be a whole number of at least 0; got {getattr(self, name)!r}."
            for name in ("steps", "epochs", "warmup", "data_seed", "first_seed")
            if not whole(getattr(self, name), 0)
        ]
        if not problems and (self.steps == 0) == (self.epochs == 0):
            problems.append(
                f"Give steps or epochs, and 0 for the other; got steps = {self.steps}, epochs = {self.epochs}."
            )
        both = [] if problems else sorted(set(self.sizes) & set(self.extra_sizes))
        if both:
            problems.append(f"extra_sizes must be none of sizes; got {', '.join(map(str, both))} in both.")
        if not problems and self.buckets[-1] > self.context:
            problems.append(f"buckets must not exceed context = {self.context}; got {self.buckets[-1]}. Raise context.")
        if not problems and self.steps and self.warmup >= self.steps and self.schedule == "cosine":
            problems.append(f"warmup must be below steps = {self.steps}; got {self.warmup}.")
        return problems

    def _bad_choices(self) -> list[str]:
        given = self.algorithms
        if not isinstance(given, tuple) or not all(isinstance(name, str) for name in given):
            return [f"algorithms must be names, e.g. bfs,dfs; got {given!r}."]
        problems = [
            f"CLRS-Text has no algorithm {name!r}. {nearest(name, text.ALGORITHMS)}"
            for name in given
            if name not in text.ALGORITHMS
        ]
        if not given or len(set(given)) < len(given):
            problems.append(f"algorithms must be different names, at least one; got {', '.join(given) or 'none'}.")
        choices = {"schedule": SCHEDULES, "memory": MEMORIES, "train_reasoner": GRADIENTS, "unseen": UNSEEN}
        for name, valid in {**choices, "extra_answers": ANSWERS, "precision": PRECISIONS}.items():
            if getattr(self, name) not in valid:
                expected = ", ".join(map(repr, valid))
                problems.append(f"{name} must be one of {expected}; got {getattr(self, name)!r}.")
        if not self.looks and (self.train_reasoner, self.memory, self.unseen) != ("none", OWN, REFUSE):
            problems.append(
                'A model with cross_attention = "none" sees no reasoner: leave train_reasoner, memory and unseen out.'
            )
        if self.extra_answers == TEACHER and not self.extra_sizes:
            problems.append('extra_answers = "teacher" needs extra_sizes: questions for the teacher to answer.')
        if self.train_reasoner == "last" and self.reads != "final":
            problems.append('train_reasoner = "last" needs reads = "final": earlier states get no gradients.')
        return problems

    def _bad_numbers(self) -> list[str]:
        rate, clip, share = self.learning_rate, self.grad_clip, self.train_share
        problems = []
        if not (_real(share) and 0 < share <= 1):
            problems.append(f"train_share must be a number above 0 and at most 1; got {share!r}.")
        if not (_real(rate) and rate > 0):
            problems.append(f"learning_rate must be a number above 0, e.g. 3e-4; got {rate!r}.")
        if not (_real(clip) and clip >= 0):
            problems.append(f"grad_clip must be a number of at least 0; 0 turns clipping off; got {clip!r}.")
        if not (_real(self.rotary_base) and self.rotary_base > 1):
            problems.append(f"rotary_base must be a number above 1; got {self.rotary_base!r}.")
        if not isinstance(self.random_positions, bool):
            problems.append(f"random_positions must be true or false; got {self.random_positions!r}.")
        return problems


@dataclass(frozen=True)
class EvaluationConfig:
    """What is asked of a trained model.

    Attributes:
        sizes: n of the questions: between those of training, among them, and beyond; one number stands for itself.
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
        object.__setattr__(self, "sizes", several(self.sizes))
        problems = [
            f"{name} must be a whole number of at least {least}; got {getattr(self, name)!r}."
            for name, least in {"count": 1, "together": 1, "seed": 0, "position_seed": 0}.items()
            if not whole(getattr(self, name), least)
        ]
        if not isinstance(self.sizes, tuple) or not self.sizes or not all(whole(n, 4) for n in self.sizes):
            problems.append(f"sizes must be whole numbers of at least 4; got {self.sizes!r}.")
        if problems:
            raise ValueError("Bad settings for an evaluation:\n  " + "\n  ".join(problems))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "EvaluationConfig":
        """A config from names and values; an unknown name is an error."""
        check_names(settings, [f.name for f in fields(cls)])
        return _filled(cls, settings)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a JSON file; `from_settings` reads them back."""
        return json.loads(json.dumps(asdict(self)))


def _filled(cls: Any, settings: Mapping[str, Any]) -> Any:
    """A config of settings that may have any type: it says itself what is wrong with them."""
    config = object.__new__(cls)
    for own in fields(cls):
        object.__setattr__(config, own.name, settings.get(own.name, own.default))
    config.__post_init__()
    return config


def _algorithms(given: Any) -> Any:
    if not isinstance(given, str | list | tuple):
        return given
    names = names_in(given)
    return text.ALGORITHMS if names == ("all",) else names


def _rising(values: Any, least: int) -> bool:
    all_whole = isinstance(values, tuple) and all(whole(x, least) for x in values)
    return all_whole and len(values) > 0 and list(values) == sorted(set(values))


def _real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
