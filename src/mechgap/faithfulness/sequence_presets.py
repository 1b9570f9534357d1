"""Every training of ALTA's section on learnability, with the paper's settings: experiments/alta/studies.toml, read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from mechgap.algorithms.inputs import nearest
from mechgap.networks.transformer import EACH
from mechgap.programs.tasks import Task, parity_task, scan_task
from mechgap.training.config import parse_toml
from mechgap.training.many import Recipe
from mechgap.training.sequences.end_to_end import ParitySize
from mechgap.training.sequences.probed import ProbedSize
from mechgap.training.sequences.rules import RULES, checked_settings
from mechgap.training.sequences.scan import WORD, ScanSize
from mechgap.training.sequences.supervise import MlpSize

KINDS = ("supervision", "probed", "end_to_end", "scan")
LOOKED_AT = ("end_to_end", "scan")  # while they train: whether right answers are enough


@dataclass(frozen=True)
class SequenceStudy:
    """What is trained: an MLP on the traces of the program of that name, or a Transformer on parity or SCAN.

    Attributes:
        split: of SCAN, see `scan_task`.
    """

    name: str
    kind: str
    recipe: Recipe
    train_length: int = 20
    each: int = 100
    mlp: MlpSize | None = None
    probed: ProbedSize | None = None
    transformer: ParitySize | ScanSize | None = None
    split: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "SequenceStudy":
        """The study of a config.json.

        A setting that it lacks is younger, and has the default that does what was done without it; only distances had
        a bias each before they had buckets. Noise relative to each channel was a setting once, which is not read.
        """
        given = {name: value for name, value in config.items() if value is not None}
        if "mlp" in given:
            given["mlp"] = {name: value for name, value in given["mlp"].items() if name != "relative_noise"}
        kinds: dict[str, Any] = {"recipe": Recipe, "mlp": MlpSize, "probed": ProbedSize}
        parts = {name: kind(**given[name]) for name, kind in kinds.items() if name in given}
        if "transformer" in given:
            before = {"distances": EACH} if given["transformer"]["positions"] == "relative" else {}
            size: Any = ScanSize if given["kind"] == "scan" else ParitySize
            parts["transformer"] = size(**before | given["transformer"])
        return cls(**given | parts)

    @property
    def task(self) -> Task:
        """Commands of a split of SCAN; or bits to learn from, and twice as long ones to be tested on."""
        if self.split is not None:
            return scan_task(self.split)
        return parity_task(self.train_length, 2 * self.train_length, each=self.each)

    def takes(self, setting: str) -> bool:
        """Whether a setting means anything to it."""
        if setting in ("train_length", "each"):
            return self.split is None
        if setting == "enough":
            return self.kind in LOOKED_AT
        parts = (self.recipe, self.mlp, self.probed, self.transformer)
        return any(setting in part.__dataclass_fields__ for part in parts if part is not None)


def check_settings_are_used(changes: Mapping[str, Any], studies: Iterable[SequenceStudy]) -> None:
    """Refuse settings that mean nothing to any of some studies."""
    chosen = list(studies)
    for setting in changes:
        if not any(study.takes(setting) for study in chosen):
            raise ValueError(
                f"The setting {setting!r} means nothing to {', '.join(study.name for study in chosen)}; leave it out."
            )


def sequence_studies(preset: str = "full", changes: Mapping[str, Any] | None = None) -> dict[str, SequenceStudy]:
    """Name -> study, as experiments/alta/studies.toml has them; `changes` replace single settings of any part."""
    if preset not in ("full", "quick"):
        raise ValueError(f"No preset {preset!r}. {nearest(preset, ['quick', 'full'])}")
    document, given = _document(), dict(changes or {})
    quick = document["quick"] if preset == "quick" else {}
    for name in given:
        if name not in RULES:
            raise ValueError(f"No setting {name!r}. {nearest(name, sorted(RULES))}")
    given = checked_settings(given)

    def settings(part: Any, *layers: Mapping[str, Any]) -> dict[str, Any]:
        names = {*part.__dataclass_fields__} - (set() if kind in LOOKED_AT else {"enough"})
        merged = {k: v for layer in layers for k, v in layer.items() if k in names}
        return merged | {k: v for k, v in given.items() if k in names}

    found = {}
    for kind in KINDS:
        for name, values in (_scan_studies(document[kind]) if kind == "scan" else document[kind]).items():
            recipe = settings(
                Recipe, document["recipe"].get(kind, {}), values.get("recipe", {}), quick.get("recipe", {})
            )
            task = quick.get("task", {}) | {k: given[k] for k in ("train_length", "each") if k in given}
            length = task.get("train_length", 20)
            parts: dict[str, Any] = {}
            if kind == "supervision":
                parts["mlp"] = MlpSize(**settings(MlpSize, values["mlp"], quick.get("mlp", {})))
            elif kind == "probed":
                parts["probed"] = ProbedSize(**settings(ProbedSize, values["probed"]))
            else:
                whole: Any = ParitySize if kind == "end_to_end" else ScanSize
                lengths = {"train_length": length, "test_length": 2 * length} if kind == "end_to_end" else {}
                size = settings(whole, values["transformer"], quick.get("transformer", {}))
                parts["transformer"] = whole(**(size | lengths))
            found[name] = SequenceStudy(name, kind, Recipe(**recipe), **task, **parts, split=values.get("split"))
    return found


def scan_study(split: str, layers: int, shared: bool, positions: str, tokens: str = WORD) -> str:
    """The name of a study, e.g. scan_16; what differs from the length split, shared weights, relative positions, words.

    All but the first two are as in `ScanSize`.
    """
    what = ("" if shared else "separate", positions.replace("relative", ""), tokens.replace(WORD, ""))
    return "_".join(part for part in ("scan", split.replace("length", ""), str(layers), *what) if part)


def _scan_studies(table: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    studies = {}
    for network in table["networks"]:
        size = {name: value for name, value in network.items() if name != "splits"}
        for split in network.get("splits", table["splits"]):
            for layers in network["layers"]:
                one = size | {"layers": layers}
                studies[scan_study(split, **one)] = {"split": split, "transformer": one}
    return studies


@cache
def _document() -> dict[str, Any]:
    return parse_toml((files("mechgap.experiments") / "alta" / "studies.toml").read_text(), "alta/studies.toml")
