"""What defines the training of one network on many algorithms."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from mechgap.algorithms import TRAIN_P, algorithm, benchmark_names
from mechgap.networks.config import NetConfig
from mechgap.training.config import hashed_name
from mechgap.training.rules import check_names

ALL = "all"
AS_LONG_AS_NEEDED = 0


@dataclass(frozen=True)
class MultiTaskConfig:
    """One network over several algorithms. The architecture is a `NetConfig` whose settings may be given by name, too.

    Attributes:
        algorithms: what to learn; ("all",) is the whole benchmark.
        sizes: numbers of nodes, drawn equally often.
        steps: of the optimiser.
        algorithms_per_step: how many different algorithms a step sees.
        batch: samples of each of them.
        pool: samples of every algorithm and size, drawn once before training.
        frames: T, for every execution. 0: as many as the longest in the pool; a network that is fed no hints needs not
            know how long an execution is, and runs T - 1 steps whatever is asked.
        p: edge probabilities, of which each sample draws one (see `mechgap.training.data.source_of`).
        random_pos: positions are sorted uniform numbers in training.
        permutations: orders are learned as permutation matrices.
        pred_as_input: an order that never changes is an input.
        validation: samples of every algorithm, at the largest size.
        learning_rate: of Adam.
        grad_clip: the largest global norm of a gradient; 0 for no limit.
        hint_weight: of the hints' losses.
        seeds: how many networks.
        first_seed: the others follow.
        network: the architecture.
    """

    algorithms: tuple[str, ...] = (ALL,)
    sizes: tuple[int, ...] = (4, 7, 11, 13, 16)
    steps: int = 10_000
    algorithms_per_step: int = 8
    batch: int = 4
    pool: int = 64
    frames: int = AS_LONG_AS_NEEDED
    p: tuple[float, ...] = TRAIN_P
    random_pos: bool = True
    permutations: bool = True
    pred_as_input: bool = True
    validation: int = 32
    learning_rate: float = 1e-3
    grad_clip: float = 1.0
    hint_weight: float = 1.0
    seeds: int = 1
    first_seed: int = 0
    network: NetConfig = field(default_factory=NetConfig)

    def __post_init__(self) -> None:
        object.__setattr__(self, "algorithms", _known(self.algorithms))
        for name in ("sizes", "p"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        counts = ("steps", "algorithms_per_step", "batch", "pool", "validation", "seeds")
        problems = [
            f"{name} must be a whole number of at least 1; got {getattr(self, name)!r}."
            for name in counts
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1
        ]
        if not self.sizes or not all(isinstance(n, int) and n >= 4 for n in self.sizes):
            problems.append(
                f"sizes must be whole numbers of at least 4, which every algorithm can have; got {self.sizes!r}."
            )
        if not isinstance(self.frames, int) or self.frames < 0 or self.frames == 1:
            problems.append(f"frames must be 0 (as many as needed) or at least 2; got {self.frames!r}.")
        if not isinstance(self.algorithms_per_step, int) or self.algorithms_per_step > len(self.algorithms):
            problems.append(
                f"algorithms_per_step must not be above the number of algorithms, {len(self.algorithms)}; "
                f"got {self.algorithms_per_step!r}."
            )
        if self.network.pre_attention_bias is not None:
            problems.append("pre_attention_bias is for one size of graph; leave it out here.")
        if problems:
            raise ValueError("Bad settings for training on many algorithms:\n  " + "\n  ".join(problems))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "MultiTaskConfig":
        """A config from names and values, those of the network among them; an unknown name is an error."""
        of_network = [f.name for f in fields(NetConfig)]
        own = [f.name for f in fields(cls) if f.name != "network"]
        check_names([name for name in settings if name != "algorithms"], [*own, *of_network])
        network = NetConfig(**{k: x for k, x in settings.items() if k in of_network})
        given: dict[str, Any] = {k: tuple(x) if isinstance(x, list) else x for k, x in settings.items() if k in own}
        if "algorithms_per_step" not in given and "algorithms" in given:
            given["algorithms_per_step"] = min(cls.algorithms_per_step, len(_known(given["algorithms"])))
        return cls(**given, network=network)

    @property
    def seed_range(self) -> range:
        """The seeds of the networks."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a JSON file; `from_json` reads them back."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "MultiTaskConfig":
        """What `as_json` wrote."""
        plain: dict[str, Any] = {k: tuple(x) if isinstance(x, list) else x for k, x in values.items() if k != "network"}
        return cls(**plain, network=NetConfig(**values["network"]))

    def name(self) -> str:
        """A name that no other settings have."""
        return hashed_name("together", json.dumps(self.as_json(), sort_keys=True))


def _known(names: Sequence[str]) -> tuple[str, ...]:
    """The algorithms that are meant; the variants are not part of "all"."""
    given = tuple(names)
    if given == (ALL,):
        return benchmark_names()
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice or not given:
        raise ValueError(f"algorithms must be different names, at least one; got {', '.join(given) or 'none'}.")
    return tuple(algorithm(name).name for name in given)
