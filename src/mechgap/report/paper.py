"""The tables and figures of Mind the Gap as a catalogue, and the studies behind them as runs.

What there is stands in experiments/mind_the_gap: studies.toml (ensembles) and items.toml (tables and figures).
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from mechgap.algorithms.inputs import nearest
from mechgap.programs import program_names
from mechgap.training.config import TrainConfig, parse_toml
from mechgap.training.sweep import read_sweep

FOLDERS = {"quick": Path("runs/paper-quick"), "full": Path("results")}  # where results lie unless told otherwise
FILES = {"gap": "gap.safetensors", "causal": "causal.json", "landscape": "landscape.safetensors"}
FIRST_STEP = "first_step.json"
PARTS = ("rows", "correlations", "curves", "landscapes", "clusters", "closest", "scale", "first_steps")
Say = Callable[[str], None]


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
        presets: preset -> samples and points of what is measured, and settings of all studies.
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

    def forms(self) -> list[str]:
        """The names of the compiled networks that a study of stability starts from, as `stability.Variant` has them."""
        kinds = [", redundant" * copies + ", rotated" * turned for copies, turned in product((False, True), repeat=2)]
        return [f"margin {margin:g}{kind}" for margin in self.margins for kind in kinds]

    def files(self) -> list[str]:
        """What a finished result holds beside its scores; swaps of attention need a program."""
        compiled = self.settings["algorithm"] in program_names()
        measured = [FILES[what] for what in self.measure if compiled or what != "causal"]
        return ["metrics.json", "config.json", *measured, *([FIRST_STEP] if self.margins else [])]


@dataclass(frozen=True)
class Item:
    """One table or figure.

    Attributes:
        name: e.g. table10.
        title: what it shows.
        parts: "rows", "correlations", ... -> entries, see `paper_lines`.
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


def run_item(
    name: str,
    preset: str = "quick",
    folder: str | Path | None = None,
    *,
    runs: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    say: Say | None = None,
    quiet: bool | None = None,
) -> list[str]:
    """Run the studies that an item needs and a folder lacks; returns the names of those that were run.

    Args:
        name: of the item, e.g. table10.
        preset: "quick" or "full".
        folder: for the results, one folder per study; by default runs/paper-quick, or results for the full preset.
        runs: where the training keeps its checkpoints and all weights; None for nowhere.
        changes: settings that replace those of the preset, e.g. {"seeds": 8}.
        say: is told what goes on.
        quiet: no progress bar.
    """
    (item,), studies, say = find_items([name]), load_studies(), say or (lambda _: None)
    if preset not in FOLDERS:
        raise ValueError(f"No preset {preset!r}. {nearest(preset, list(FOLDERS))}")
    place = Path(FOLDERS[preset] if folder is None else folder)
    done = []
    for i, study in enumerate(studies[s] for s in item.studies):
        configs = study.configs(preset, changes)
        kept = why_kept(place / study.name, study, configs)
        count, steps = sum(c.seeds for c in configs), configs[0].steps
        plan = f"{item.name}, study {i + 1} of {len(item.studies)}: {study.name}"
        if kept:
            say(f"{plan}: {kept}")
            continue
        say(f"{plan}: {count} networks, {steps} steps, hidden {configs[0].hidden} ({preset})")
        _run(study, configs, preset, place / study.name, runs, say, quiet)
        done.append(study.name)
    return done


def why_kept(folder: Path, study: Study, configs: Sequence[TrainConfig]) -> str:
    """Why a study need not be run; empty where it must be.

    A result is kept where it is finished and of the same settings, or where it took more to make (full beats quick).
    """
    found = read_configs(folder)
    if not found:
        return ""
    if _described(found) == _described(configs):
        return "finished before" if all((folder / name).exists() for name in study.files()) else ""
    return f"{folder} holds a larger run, which is kept" if _effort(found) > _effort(configs) else ""


def read_configs(folder: Path) -> tuple[TrainConfig, ...]:
    """What a result was trained with; nothing where there is no result."""
    if not (folder / "metrics.json").exists() or not (folder / "config.json").exists():
        return ()
    return tuple(TrainConfig.from_settings(c) for c in json.loads((folder / "config.json").read_text())["configs"])


def _run(
    study: Study,
    configs: Sequence[TrainConfig],
    preset: str,
    folder: Path,
    runs: str | Path | None,
    say: Say,
    quiet: bool | None,
) -> None:
    """Train and measure beside the old result, and put the new one in its place when it is whole."""
    from mechgap.faithfulness.study import run_study
    from mechgap.storage import write_text

    beside = folder.parent / f".{folder.name}.unfinished"
    beside.mkdir(parents=True, exist_ok=True)
    sizes = {name: study.presets[preset][name] for name in ("samples", "points")}
    starts = _starts(study, configs[0]) if study.margins else None
    networks = None if starts is None else [starts[str(config.init_from)] for config in configs]
    run_study(configs, beside, runs=runs, measure=study.measure, init_from=networks, say=say, quiet=quiet, **sizes)
    if starts is not None:
        write_text(beside / FIRST_STEP, json.dumps(_first_steps(starts, configs[0], sizes["samples"]), indent=1) + "\n")
    manifest = json.loads((beside / "manifest.json").read_text())
    manifest.setdefault("date", datetime.now(UTC).date().isoformat())
    write_text(beside / "manifest.json", json.dumps(manifest, indent=1) + "\n")
    if folder.exists():
        shutil.rmtree(folder)
    beside.rename(folder)


def _starts(study: Study, config: TrainConfig) -> dict[str, Any]:
    """The compiled networks that a study of stability trains on, by their names."""
    import jax

    from mechgap.faithfulness.stability import variants
    from mechgap.programs import program

    options = {"hidden": config.hidden, "max_nodes": study.max_nodes}
    found = variants(program(config.algorithm), study.margins, key=jax.random.key(0), **options)
    return {variant.name: variant.network for variant in found}


def _first_steps(starts: Mapping[str, Any], config: TrainConfig, samples: int) -> dict[str, dict[str, float]]:
    """Loss and gradient of every form before training, on validation graphs."""
    from dataclasses import asdict

    from mechgap.faithfulness.probes import probe
    from mechgap.faithfulness.stability import first_step

    on = probe(config, "validation", samples)
    return {name: asdict(first_step(network, on.batch)) for name, network in starts.items()}


def _described(configs: Sequence[TrainConfig]) -> list[dict[str, Any]]:
    return [config.as_json() for config in configs]


def _effort(configs: Sequence[TrainConfig]) -> int:
    return sum(c.seeds * c.steps * c.hidden for c in configs)


@cache
def _read(name: str) -> dict[str, Any]:
    path = files("mechgap") / "experiments" / "mind_the_gap" / f"{name}.toml"
    return parse_toml(path.read_text("utf-8"), f"{name}.toml")


def _study(name: str, values: Mapping[str, Any], presets: Mapping[str, Mapping[str, Any]]) -> Study:
    _check_names(f"The study {name}", values, [f.name for f in fields(Study) if f.name not in ("name", "presets")])
    listed = {k: tuple(x) if isinstance(x, list) else x for k, x in values.items()}
    return Study(name=name, presets=presets, **listed)


def _check_names(owner: str, values: Mapping[str, Any], known: Sequence[str]) -> None:
    unknown = [key for key in values if key not in known]
    if unknown:
        raise ValueError(f"{owner} has no {unknown[0]!r}. {nearest(unknown[0], list(known))}")
