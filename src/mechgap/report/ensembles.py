"""Train and say what came out: the commands behind `mechgap train` and `mechgap sweep`."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mechgap.training import Ensemble, TrainConfig, train
from mechgap.training.multi_task import MultiTask, MultiTaskConfig, train_together
from mechgap.training.sweep import read_sweep, run_sweep, submit_sweep

METRICS = ("test_best", "test_last", "validation")


def train_and_print(algorithm: str, folder: Path | None, settings: dict[str, Any]) -> Ensemble:
    """Train an ensemble and print its scores."""
    TrainConfig.from_settings({"algorithm": algorithm, **settings})  # an unknown name is an error here
    if "algorithm" in settings:
        raise ValueError(f"The algorithm is the command's argument; got the setting {settings['algorithm']!r}, too.")
    ensemble = train(algorithm, folder=folder, **settings)
    Console().print(ensemble_table([ensemble]))
    return ensemble


def train_together_and_print(algorithms: str, folder: Path | None, settings: dict[str, Any]) -> MultiTask:
    """Train networks on several algorithms together and print the score of each algorithm."""
    if "algorithms" in settings:
        raise ValueError(f"The algorithms are the option's; got the setting {settings['algorithms']!r}, too.")
    config = MultiTaskConfig.from_settings({"algorithms": algorithms, **settings})
    result = train_together(config, folder=folder)
    nodes, seconds = result.manifest["nodes"], result.manifest["times"]["train_s"]
    title = f"one network of {len(config.algorithms)} algorithms, padded to {nodes} nodes, {seconds:.0f} s to train"
    table = Table(title=title, title_justify="left")
    for column in ("algorithm", "networks", "diverged", "validation, of those that did not: mean ± std (max)"):
        table.add_column(column)
    for name, scores in result.scores.items():
        kept = scores[~result.diverged]
        said = f"{kept.mean():.4f} ± {kept.std():.4f} ({kept.max():.4f})" if len(kept) else "none"
        table.add_row(name, str(len(result)), str(int(result.diverged.sum())), said)
    Console().print(table)
    return result


def sweep_and_print(
    source: str, folder: Path, shard: str, slurm: int | None, changes: dict[str, Any], dry_run: bool
) -> None:
    """Run this machine's share of a sweep, or hand it to SLURM, and print the scores."""
    sweep, console = read_sweep(source, changes), Console()
    chunks = sweep.chunks()
    members = sum(config.seeds for config in sweep.configs)
    console.print(f"{sweep.name}: {len(sweep.configs)} settings, {members} networks, {len(chunks)} ensembles")
    if dry_run:
        return
    if slurm is not None:
        jobs = submit_sweep(sweep, folder, slurm)
        console.print(f"submitted {len(jobs)} jobs")
        return
    console.print(ensemble_table(run_sweep(sweep, folder, shard=shard)))


def ensemble_table(ensembles: Sequence[Ensemble]) -> Table:
    """One row per setting: how many networks, and their scores as mean ± standard deviation (maximum)."""
    table = Table(title="scores over the networks that did not diverge: mean ± std (max)", title_justify="left")
    for column in ("algorithm", "networks", "diverged", *METRICS, "s to train", "setting"):
        table.add_column(column)
    for ensemble in ensembles:
        for setting in ensemble.settings():
            summaries = [setting.summary(metric) for metric in METRICS]
            said = [f"{s['mean']:.4f} ± {s['std']:.4f} ({s['max']:.4f})" for s in summaries]
            lost = str(int(setting.metrics["diverged"].sum()))
            seconds = f"{ensemble.manifest['times']['train_s']:.0f}"
            table.add_row(setting.algorithm, str(len(setting)), lost, *said, seconds, _differing(setting, ensemble))
    return table


def _differing(setting: Ensemble, of: Ensemble) -> str:
    """What sets a setting apart from the others of its ensemble."""
    mine, others = asdict(setting.configs[0]), [asdict(config) for config in of.configs]
    names = [name for name in mine if len({str(other[name]) for other in others}) > 1]
    return ", ".join(f"{name}={mine[name]}" for name in names if name not in ("seeds", "first_seed"))
