"""From an algorithm to a page about its gap: the command behind `mechgap gap`."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mechgap.faithfulness.mechanistic_gap import Gap
from mechgap.faithfulness.study import compiled_for, run_study
from mechgap.report.gap_report import write_report
from mechgap.storage import check_folder
from mechgap.training import TrainConfig
from mechgap.training.config import run_name
from mechgap.training.sweep import read_sweep

PRESETS = ("small", "full")
POINTS = 13  # of a landscape, along each side: enough to see it, in half a minute on two cores
SHOWN = {
    "score": "test score",
    "internal/rows": "attention apart from the program's, all rows",
    "internal/decisive": "attention apart from the program's, decisive rows",
    "external/meant": "hints right",
}


def measure_and_report(
    algorithm: str, out: Path, folder: Path, preset: str = "small", changes: Mapping[str, Any] | None = None
) -> Gap:
    """Compile an algorithm, train an ensemble on it, measure the gap between the two, and write a page about it.

    Args:
        algorithm: its name.
        out: the page.
        folder: for results and runs; what is finished there is not trained again.
        preset: "small" is for two cores and a few minutes, "full" has the paper's settings.
        changes: settings that replace the preset's.
    """
    check_folder(out)
    config, console, began = preset_config(algorithm, preset, changes), Console(), time.perf_counter()

    def say(text: str) -> None:
        console.print(f"[dim]{time.perf_counter() - began:5.0f} s[/dim]  {text}", highlight=False)

    compiled = compiled_for(config)
    if compiled is None:
        say(f"{algorithm} has no program to compile yet: only its hints are compared")
    else:
        say(f"compiled {algorithm} into {compiled.network.config.hidden} channels")
    say(f"training {config.seeds} networks of hidden size {config.hidden} for {config.steps} steps")
    place = folder / run_name([config], None)
    _, found = run_study(config, place, runs=folder / "runs", points=POINTS, say=say)
    assert found is not None
    say("writing the page")
    problems = write_report([place], out)
    console.print(gap_table(found))
    for problem in problems:
        console.print(problem, style="red")
    say(f"[bold]wrote {out}[/bold]: open it in a browser; the results are in {place}")
    return found


def preset_config(algorithm: str, preset: str, changes: Mapping[str, Any] | None = None) -> TrainConfig:
    """The settings of a preset for an algorithm, with some values changed."""
    if preset not in PRESETS:
        raise ValueError(f"The preset is one of {', '.join(PRESETS)}; got {preset!r}.")
    changes = {**(changes or {}), "algorithm": algorithm}
    if preset == "full":
        return TrainConfig.from_settings({"seeds": 128, **changes})
    (config,) = read_sweep("small", changes).configs
    return config


def gap_table(found: Gap) -> Table:
    """The headline: ours, and what the compiled, an untrained and a uniform network would get."""
    table = Table(
        title="mean over the networks [95 % interval]; validation split, but for the score", title_justify="left"
    )
    for column in ("", "trained", "compiled", "untrained", "uniform attention"):
        table.add_column(column)
    for name, label in SHOWN.items():
        if name not in found.measures["validation"]:
            continue
        split = "test" if name == "score" else "validation"
        s = found.summary(name, split)
        others = [found.baselines[split].get(b, {}).get(name) for b in ("compiled", "untrained", "uniform")]
        shown = ["-" if x is None else f"{x.mean():.3f}" for x in others]
        table.add_row(label, f"{s['mean']:.3f} [{s['low']:.3f}, {s['high']:.3f}]", *shown)
    return table
