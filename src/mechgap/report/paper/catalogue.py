"""The tables and figures of Mind the Gap, and the studies behind them, as a catalogue.

What there is stands in experiments/mind_the_gap: studies.toml (ensembles) and items.toml (tables and figures).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

from mechgap.algorithms.inputs import nearest
from mechgap.programs import program_names
from mechgap.training.config import TrainConfig, parse_toml
from mechgap.training.sweep import read_sweep

FILES = {"gap": "gap.safetensors", "causal": "causal.json", "landscape": "landscape.safetensors"}
FIRST_STEP = "first_step.json"
PARTS = (
    *("rows", "correlations", "curves", "landscapes", "clusters", "closest"),
    *("scale", "trained_on", "swaps", "baselines"),
)


@dataclass(frozen=True)
class Study:
    """One ensemble that some table or figure needs.

    Attributes:
        name: of the study and of its result folder.
        sweep: the preset of `mechgap sweep` whose settings it starts from.
        settings: what replaces them; `full` and `quick` replace more.
        measure: of gap, causal and landscape.
        margins: for a study of stability: the softmax margins at which the program is compiled and trained on.
        max_nodes: for the same: what it is compiled for.
        samples: of every split that is measured, at most; by default as many as the preset says.
        presets: preset -> splits, samples and points of what is measured, and settings of all studies.
    """

    name: str
    sweep: str
    settings: Mapping[str, Any]
    presets: Mapping[str, Mapping[str, Any]]
    full: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    measure: tuple[str, ...] = ()
    margins: tuple[float, ...] = ()
    max_nodes: int = 64
    samples: int | None = None

    def configs(self, preset: str, changes: Mapping[str, Any] | None = None) -> tuple[TrainConfig, ...]:
        """What is trained, as one ensemble; `changes` replace single settings."""
        if preset not in self.presets:
            raise ValueError(f"No preset {preset!r}. {nearest(preset, list(self.presets))}")
        own: Mapping[str, Any] = getattr(self, preset)
        settings = {**self.presets[preset].get("settings", {}), **self.settings, **own, **(changes or {})}
        configs = read_sweep(self.sweep, settings).configs
        if not self.margins:
            return configs
        return tuple(config.with_settings({"init_from": form}) for config in configs for form in self.forms())

    def measured(self, preset: str) -> dict[str, Any]:
        """On what is measured: splits, samples of each, and points of landscapes."""
        sizes = {name: self.presets[preset][name] for name in ("splits", "samples", "points")}
        return sizes | {"samples": min(sizes["samples"], self.samples or sizes["samples"])}

    def forms(self) -> list[str]:
        """The names of the compiled networks that a study of stability starts from, as `stability.Variant` has them."""
        kinds = [", redundant" * copies + ", rotated" * turned for copies, turned in product((False, True), repeat=2)]
        return [f"margin {margin:g}{kind}" for margin in self.margins for kind in kinds]

    def files(self) -> list[str]:
        """What a finished result holds beside its scores; swaps of attention need a program."""
        compiled = self.settings["algorithm"] in program_names("graph")
        measured = [FILES[what] for what in self.measure if compiled or what != "causal"]
        return ["metrics.json", "config.json", *measured, *([FIRST_STEP] if self.margins else [])]


@dataclass(frozen=True)
class Item:
    """One table or figure.

    Attributes:
        name: e.g. table10.
        title: what it shows.
        parts: "rows", "correlations", ... -> entries, see `lines`.
        about: what a reader must know beside the numbers.
        section: of the report's page that draws it.
        figures: its name among the report's figures.
        drawn: a picture in docs/, for what no study is needed.
    """

    name: str
    title: str
    parts: Mapping[str, Sequence[Mapping[str, Any]]]
    about: str = ""
    section: str = ""
    figures: str = ""
    drawn: str = ""

    @property
    def studies(self) -> list[str]:
        """The studies it needs, each once."""
        return list(dict.fromkeys(entry["study"] for entries in self.parts.values() for entry in entries))


def load_studies() -> dict[str, Study]:
    """Name -> study."""
    document = _read("studies")
    presets = document["presets"]
    return {name: _study(name, values, presets) for name, values in document["studies"].items()}


def load_items() -> dict[str, Item]:
    """Name -> item, in the paper's order."""
    known = {f.name for f in fields(Item)} - {"name", "parts"}
    items = {}
    for name, values in _read("items")["items"].items():
        _check_names(f"The item {name}", values, (*known, *PARTS))
        parts = {part: values[part] for part in PARTS if part in values}
        items[name] = Item(name=name, parts=parts, **{k: x for k, x in values.items() if k in known})
    return items


def paper_numbers(study: str) -> dict[str, str]:
    """What Tables 1 and 10 print of a study's networks, by the names that `gap_report.write_report` knows."""
    items, found = load_items(), {}
    for row in items["table10"].parts["rows"]:
        if row["study"] == study:
            mean, std, largest = (row[name] / 100 for name in ("mean", "std", "max"))
            found["score"] = f"{mean:.4f} ± {std:.4f} (max {largest:.4f})"
    for row in items["table1"].parts["correlations"]:
        if row["study"] == study:
            pearson, spearman = (
                f"r {row['pearson']} (p {row['pearson_p']})",
                f"ρ {row['spearman']} (p {row['spearman_p']})",
            )
            found[f"correlation/{row['measure']}"] = f"{pearson}, {spearman}"
    return found


def contradictions() -> list[dict[str, str]]:
    """What the paper says in two ways, or cannot hold: title and text, with {NAMES} for numbers of ours."""
    return list(_read("items")["contradictions"])


def find_items(names: Sequence[str]) -> list[Item]:
    """The items of these names; "all" is all of them, in the order in which they are best run."""
    items, first = load_items(), _read("items")["first"]
    if list(names) == ["all"]:
        return [items[name] for name in dict.fromkeys((*first, *items))]
    for name in names:
        if name not in items:
            raise ValueError(f"The paper has no {name!r} here. {nearest(name, ['all', 'list', 'doc', *items])}")
    return [items[name] for name in names]


@cache
def _read(name: str) -> dict[str, Any]:
    path = files("mechgap") / "experiments" / "mind_the_gap" / f"{name}.toml"
    return parse_toml(path.read_text("utf-8"), f"{name}.toml")


def _study(name: str, values: Mapping[str, Any], presets: Mapping[str, Mapping[str, Any]]) -> Study:
    _check_names(f"The study {name}", values, [f.name for f in fields(Study) if f.name not in ("name", "presets")])
    listed: dict[str, Any] = {k: tuple(x) if isinstance(x, list) else x for k, x in values.items()}
    return Study(name=name, presets=presets, **listed)


def _check_names(owner: str, values: Mapping[str, Any], known: Sequence[str]) -> None:
    unknown = [key for key in values if key not in known]
    if unknown:
        raise ValueError(f"{owner} has no {unknown[0]!r}. {nearest(unknown[0], list(known))}")
