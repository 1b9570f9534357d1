"""Train on sequences from the command line: one line per study, beside what the paper prints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mechgap.algorithms.inputs import nearest
from mechgap.faithfulness.sequence_presets import sequence_studies
from mechgap.faithfulness.sequence_study import run_missing
from mechgap.report.paper.alta import printed_numbers
from mechgap.training.checkpoint import read_json


def learn(
    kind: str, names: Sequence[str], preset: str = "quick", folder: Path = Path("runs/alta"), changes: Any = None
) -> None:
    """Run studies that a folder lacks, and print all of them."""
    studies = {n: s for n, s in sequence_studies(preset, changes).items() if s.kind == kind}
    for name in names:
        if name not in studies:
            raise ValueError(f"There is no {kind.replace('_', '-')} study {name!r}. {nearest(name, list(studies))}")
    place, console = folder / preset, Console()
    chosen = [studies[name] for name in names or studies]
    run_missing(chosen, place, place / ".state", lambda said: console.print(said, highlight=False))
    console.print(learning_table({name: place / name for name in names or studies}, full=preset == "full"))
    if preset == "quick":
        console.print("quick: few steps and small networks, which say nothing about the paper.", highlight=False)


def learning_table(folders: Mapping[str, Path], full: bool = True) -> Table:
    """Right answers on every slice, the paper's beside ours."""
    table = Table(title="parity, right answers in percent", title_justify="left")
    first = read_json(next(iter(folders.values())) / "metrics.json")[0]
    slices = [name for name in first if name.startswith(("length", "ones"))]
    for column in ("trained", "seeds", "steps", *slices, *(("paper",) if full else ()), "nearest head", "uniform"):
        table.add_column(column)
    for name, folder in folders.items():
        metrics, manifest = read_json(folder / "metrics.json"), read_json(folder / "manifest.json")
        shares = [np.array([row[s] for row in metrics]) * 100 for s in slices]
        ours = [f"{x.mean():.1f}" + (f" ± {x.std(ddof=1):.1f}" if len(x) > 1 else "") for x in shares]
        printed = [" / ".join(map(str, printed_numbers(name)))] if full else []
        table.add_row(name, str(len(metrics)), str(manifest["steps"]), *ours, *printed, *_heads(folder))
    return table


def _heads(folder: Path) -> tuple[str, str]:
    """The distance of the program's heads from the nearest of the network, and of uniform attention; the mean."""
    gaps = read_json(folder / "gap.json")
    heads = [head for seed in gaps.values() for head in next(iter(seed.values()))["heads"]]
    return f"{np.mean([h['distance'] for h in heads]):.3f}", f"{np.mean([h['uniform'] for h in heads]):.3f}"
