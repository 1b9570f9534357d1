"""A training of ALTA's section on learnability, read back from its folder; all damage is said in one way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from mechgap.faithfulness.sequence_presets import KINDS, SequenceStudy
from mechgap.faithfulness.sequences import VERSION
from mechgap.training.checkpoint import read_json

CONFIG, MANIFEST, METRICS, CURVES, GAP = "config.json", "manifest.json", "metrics.json", "curves.json", "gap.json"
CURVE_KINDS = ("right by length", "right by ones", "mean prediction by ones")
SCAN = "scan"
T = TypeVar("T")
Metrics = list[dict[str, float]]
Curve = dict[int, list[float]]  # a length, or a number of ones -> of every network


@dataclass(frozen=True)
class SequenceResult:
    """What a folder holds.

    Attributes:
        metrics: of every network: its seed, and slice -> share of right answers.
        curves: kind -> group -> of every network; empty for SCAN, as is what follows.
        measured: how the gap was; the first version did not say.
        gaps: seed -> program -> its heads and variables.
    """

    folder: Path
    study: SequenceStudy
    manifest: Mapping[str, Any]
    metrics: Metrics
    curves: Mapping[str, Curve]
    measured: Mapping[str, Any]
    gaps: Mapping[str, Any]


def seen_ones(longest: int) -> str:
    """The name of a slice: longer texts with no more ones than those of training have. Older results lack it."""
    return f"length > {longest}, ones <= {longest}"


VECTORS = "vectors right"  # of the traces that an MLP learned from


SHARPNESSES = (1.0, 1 / 4, 1 / 16, 1 / 32, 1 / 64)


def with_heads(sharpness: float, longest: int) -> str:
    """Of texts as long as in training, with heads of that sharpness beside a trained MLP, 1 as they are compiled."""
    return f"sharpness {sharpness:g}, length <= {longest}"


def is_result(folder: Path) -> bool:
    """Whether a folder holds a result; what is written last is asked for."""
    return (folder / MANIFEST).exists()


def read_result(folder: str | Path) -> SequenceResult:
    """A result, or an error that names what is missing or damaged."""
    folder = Path(folder)
    try:
        study = _part(folder, CONFIG, _study)
        manifest = _part(folder, MANIFEST, _manifest)
        metrics = _part(folder, METRICS, partial(_metrics, study, manifest.get("texts")))
        if study.kind == SCAN:
            return SequenceResult(folder, study, manifest, metrics, {}, {}, {})
        curves = _part(folder, CURVES, partial(_curves, len(metrics)))
        measured, gaps = _part(folder, GAP, partial(_gap, len(metrics)))
        return SequenceResult(folder, study, manifest, metrics, curves, measured, gaps)
    except (FileNotFoundError, ValueError) as error:
        said = str(error).rstrip(".")
        raise ValueError(f"{folder} holds no whole result ({said}). Delete it, and train again.") from error


def check(holds: object, said: str) -> None:
    """Raise where something does not hold."""
    if not holds:
        raise ValueError(said)


def is_share(value: object) -> bool:
    """Whether something is a number from 0 to 1."""
    return _is_number(value) and 0 <= value <= 1  # type: ignore[operator]


def _is_whole(number: float) -> bool:
    """Whether something is a whole number, but for rounding."""
    return abs(number - round(number)) < 1e-6


def _part(folder: Path, name: str, make: Callable[[Any], T]) -> T:
    content = read_json(folder / name)
    try:
        return make(content)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"{name}: {type(error).__name__}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _study(content: Any) -> SequenceStudy:
    check(isinstance(content, dict), "no settings")
    known = SequenceStudy.__dataclass_fields__
    for name in content:
        check(name in known, f"there is no setting {name!r}")
    for name in ("name", "kind", "recipe"):
        check(name in content, f"no {name}")
    study = SequenceStudy.of(content)
    check(study.kind in KINDS, f"no kind {study.kind!r}")
    part = {"supervision": study.mlp, "probed": study.probed}.get(study.kind, study.transformer)
    check(part is not None, f"a study of kind {study.kind} without its size")
    check((study.kind == SCAN) == isinstance(study.split, str), "a study is of a split if it is of SCAN")
    check(all(isinstance(n, int) for n in (study.train_length, study.each)), "lengths and counts are whole numbers")
    return study


def _manifest(content: Any) -> dict[str, Any]:
    kinds = {"date": str, "steps": int, "ended": str, "tests": int, "times": dict, "device": dict, "texts": dict}
    for name in ("date", "steps"):
        check(name in content, f"no {name}")
    for name, kind in kinds.items():
        check(isinstance(content.get(name, kind()), kind), f"{name} is {content.get(name)!r}")
    check(all(map(_is_number, content.get("times", {}).values())), "times are numbers")
    counts = content.get("texts", {}).values()
    check(all(type(count) is int and count > 0 for count in counts), "texts are counted by whole numbers above 0")
    return dict(content)


def _metrics(study: SequenceStudy, texts: Mapping[str, int] | None, content: Any) -> Metrics:
    long = study.train_length
    needed = ("test",) if study.kind == SCAN else (f"length <= {long}", f"length > {long}", f"ones > {long}")
    check(isinstance(content, list) and content, "no networks")
    for row in content:
        check(isinstance(row.get("seed"), int), "a network without a seed")
        check(row.keys() == content[0].keys(), "networks were tested on different slices")
        for name in needed:
            check(name in row, f"no right answers on {name}")
        check(all(is_share(row[name]) for name in row if name != "seed"), "right answers are shares from 0 to 1")
        counts = {} if texts is None else {**dict.fromkeys(needed), **texts}
        for name, count in counts.items():
            check(count is not None and name in row, f"{MANIFEST} counts other texts than those of {name}")
            check(_is_whole(row[name] * count), f"{row[name]} is no share of {count} texts")
    return list(content)


def _curves(networks: int, content: Any) -> dict[str, Curve]:
    found = {kind: {int(group): values for group, values in content[kind].items()} for kind in CURVE_KINDS}
    for kind, curve in found.items():
        check(curve, f"{kind} is empty")
        for group, values in curve.items():
            of_all = isinstance(values, list) and len(values) == networks and all(map(is_share, values))
            check(of_all, f"{kind} holds no share per network at {group}")
    return found


def _gap(networks: int, content: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    measured, seeds = _split_gap(content)
    version = measured["version"]
    check(isinstance(version, int), f"its version is {version!r}")
    check(version < VERSION or {"texts", "length"} <= measured.keys(), "it does not say on what it was measured")
    check(len(seeds) == networks, f"{len(seeds)} networks, and {networks} in {METRICS}")
    programs = next(iter(seeds.values())).keys()
    for of_seed in seeds.values():
        check(of_seed and of_seed.keys() == programs, "networks are held against different programs, or none")
        for gap in of_seed.values():
            check(version < VERSION or isinstance(gap["mark"], str), "no word on the mark")
            for one in (*gap["heads"], *gap["variables"]):
                _check_measures(one)
            check(all(isinstance(probe["layer"], int) for probe in gap["variables"]), "a probe without a layer")
    return measured, seeds


def _check_measures(one: Mapping[str, Any]) -> None:
    """Of a head or a variable: numbers, or None where one was not measured; and the same at the answering place."""
    for name in ("distance", "matched", "uniform", "untrained", "accuracy", "control", "majority"):
        check(one.get(name) is None or _is_number(one[name]), f"{name} is {one.get(name)!r}")
    if one.get("answering") is not None:
        _check_measures(one["answering"])


def _split_gap(content: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return content.get("measured", {"version": 1}), content.get("seeds", content)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
