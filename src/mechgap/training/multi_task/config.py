"""What defines the training of one network on many algorithms."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from types import SimpleNamespace
from typing import Any

from mechgap.algorithms import TRAIN_P, algorithm, benchmark_names
from mechgap.networks.config import NetConfig
from mechgap.training.config import hashed_name
from mechgap.training.rules import RULES, SMALLEST, Rule, check_names, count, names_in, obeying, real, several, whole

ALL = "all"
AS_LONG_AS_NEEDED = 0


@dataclass(frozen=True)
class MultiTaskConfig:
    """One network over several algorithms. The architecture is a `NetConfig` whose settings may be given by name, too.

    Attributes:
        algorithms: what to learn; ("all",) is the whole benchmark. A text is read as on the command line: "bfs,dfs".
        sizes: numbers of nodes, drawn equally often; one number stands for itself.
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
        for name, value in _checked({f.name: getattr(self, f.name) for f in fields(self)}).items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "MultiTaskConfig":
        """A config from names and values, those of the network among them; an unknown name is an error."""
        of_network = [f.name for f in fields(NetConfig)]
        own: dict[str, Any] = {f.name: f.default for f in fields(cls) if f.name != "network"}
        check_names([name for name in settings if name != "algorithms"], [*own, *of_network])
        network = NetConfig(**{k: x for k, x in settings.items() if k in of_network})
        given = own | {k: x for k, x in settings.items() if k in own}
        if "algorithms_per_step" not in settings:
            given["algorithms_per_step"] = min(cls.algorithms_per_step, len(_known(given["algorithms"])))
        return cls(**_checked({**given, "network": network}))

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a JSON file; `from_json` reads them back."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "MultiTaskConfig":
        """What `as_json` wrote."""
        return cls(**_checked({**values, "network": NetConfig(**values["network"])}))

    def name(self) -> str:
        """A name that no other settings have."""
        return hashed_name("together", json.dumps(self.as_json(), sort_keys=True))


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """All settings in plain form; every impossible value is named at once."""
    lists = {name: several(settings[name]) for name in ("sizes", "p")}
    return obeying(_RULES, {**settings, **lists, "algorithms": _known(settings["algorithms"])}, _conflicts)


def _known(names: str | Sequence[str]) -> tuple[str, ...]:
    """The algorithms that are meant, a text having commas or blanks between them; "all" is all but the variants."""
    given = names_in(names)
    if given == (ALL,):
        return benchmark_names()
    if ALL in given or not given or len(set(given)) < len(given):
        raise ValueError(
            f"algorithms must be different names, at least one, or {ALL!r} alone; "
            f"got {', '.join(map(str, given)) or 'none'}."
        )
    return tuple(algorithm(name).name for name in given)


_RULES: dict[str, Rule] = {
    **{name: RULES[name] for name in ("steps", "batch", "seeds", "first_seed", "p", "learning_rate", "grad_clip")},
    **{name: RULES[name] for name in ("random_pos", "permutations", "pred_as_input")},
    **{name: count(name) for name in ("algorithms_per_step", "pool", "validation")},
    "sizes": (
        lambda c: isinstance(c.sizes, tuple) and all(whole(n, SMALLEST) for n in c.sizes) and _differ(c.sizes),
        f"different whole numbers of at least {SMALLEST}, which every algorithm can have",
    ),
    "frames": (
        lambda c: whole(c.frames, AS_LONG_AS_NEEDED) and c.frames != 1,
        f"{AS_LONG_AS_NEEDED} (as many as needed) or a whole number of at least 2",
    ),
    "hint_weight": (lambda c: real(c.hint_weight, 0), "a number of at least 0"),
    "network": (lambda c: isinstance(c.network, NetConfig), "a NetConfig"),
}


def _differ(values: tuple) -> bool:
    return 0 < len(values) == len(set(values))


def _conflicts(config: SimpleNamespace) -> Iterable[str]:
    if config.algorithms_per_step > len(config.algorithms):
        yield (
            f"algorithms_per_step must not be above the number of algorithms, {len(config.algorithms)}; "
            f"got {config.algorithms_per_step}."
        )
    if config.network.pre_attention_bias is not None:
        yield "pre_attention_bias is for one size of graph; leave it out here."
