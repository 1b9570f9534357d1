"""Tables of scores of TransNAR's models: means over algorithms, and every algorithm by itself."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mechgap.report.paper.transnar_results import ALONE, MEAN, Results, average, merged, model_name
from mechgap.report.paper.verdicts import PERCENT, Details
from mechgap.training.transnar.evaluation import AS_TRAINED


def overview(results: Results, models: Sequence[str], every_way: bool = False) -> Details:
    """Means over algorithms, and what they are to be held against."""
    rows: list[tuple[str, ...]] = []
    sizes = results.sizes(*models)
    for name in models:
        about = results.models[name]
        for asked in about["metrics"]["scores"]["models"] if every_way else (AS_TRAINED,):
            cells = [_cell(*(results.table(name, n, key, asked) for key in ("shape", "parse", "clrs"))) for n in sizes]
            parameters = f"{about['manifest']['parameters'] / 1e6:.1f} M"
            train = np.mean(about["manifest"]["times"]["train_s"])
            answer = min(run["seconds"] for run in about["metrics"]["scores"]["models"][asked])
            times = f"{train:.0f}", f"{answer:.1f}"
            count = len(about["metrics"]["scores"]["models"][asked])
            counts = (str(count), parameters, str(about["manifest"]["steps"]), *times)
            rows.append((model_name(name), asked, *counts, *cells))
    for who, words in (("reasoner", ALONE), ("exact", "the algorithm itself")):
        having = [name for name in models if sizes and results.beside(name, sizes[0], who)]
        if having:
            tables = [[results.beside(having[0], n, who, key) for key in ("shape", "parse", "clrs")] for n in sizes]
            took = results.models[having[0]]["metrics"]["scores"][who]["seconds"]
            rows.append((words, "", "", "", "", "", f"{took:.1f}", *(_cell(*t) for t in tables)))
    if models:
        floors = [results.floor(models[0], n) for n in sizes]
        rows.append(("best constant answer", "", "", "", "", "", "", *(f"{floor:.1f}" for floor in floors)))
    times = ("s to train", "s to answer")
    header = ("model", "asked", "networks", "parameters", "steps", *times, *(f"n = {n}" for n in sizes))
    title = "Means over algorithms in percent: shape / parse / CLRS ± its standard error"
    note = (
        "Times are of one seed, on a device that other trainings share; those to answer are for all questions at all "
        "sizes, of the fastest seed: where there is one seed, compiling is among them, as it is for the reasoner."
    )
    return Details(title, header, tuple(rows), note if rows else "")


def by_algorithm(
    results: Results, models: Sequence[str], names: Sequence[str] | None = None, alone_is: str = ALONE
) -> Iterable[Details]:
    """CLRS scores of every algorithm at every size, with shape and floor beside them."""
    for n in results.sizes(*models):
        tables = {name: (results.table(name, n), results.table(name, n, "shape")) for name in models}
        floors = results.beside(models[0], n, "exact", "floor")
        alone = next((found for name in models if (found := results.beside(name, n, "reasoner"))), {})
        rows = tuple(
            (
                algorithm,
                *(f"{clrs[algorithm]:.1f} ({shape[algorithm]:.0f})" for clrs, shape in tables.values()),
                f"{alone[algorithm]:.1f}" if algorithm in alone else "",
                f"{floors[algorithm]:.1f}",
            )
            for algorithm in names or floors
        )
        header = ("algorithm", *map(model_name, models), alone_is, "best constant answer")
        yield Details(f"CLRS score (shape) in percent at n = {n}", header, rows)


def parse_scores(results: Results) -> tuple[str, Details]:
    """Whether all answers of all models can be parsed, in words, and a table of those rows where they cannot."""
    models = {**results.models, **{f"{name}, small": about for name, about in results.demonstration.items()}}
    found = [row for name, about in models.items() for row in _parse_rows(name, about["metrics"])]
    below = tuple((*cells, f"{PERCENT * parse:.1f}") for *cells, parse in found if parse < 1)
    said = f"Parse is 100 % in all {len(found)} rows of all models, one for every way to ask, seed, n and algorithm."
    if below:
        said = f"Parse is below 100 % in {len(below)} of the {len(found)} rows of all models, which are listed below."
    header = ("model", "asked", "seed", "n", "algorithm", "parse")
    return said if found else "", Details("Parse scores below 100 %", header, below)


def _parse_rows(name: str, metrics: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str, str, float]]:
    asked = {**metrics.get("scores", {}).get("models", {})}
    if "growing" in metrics:
        asked["at rising n"] = metrics["growing"]["models"]
    for way, runs in asked.items():
        for seed, run in enumerate(runs):
            for n, rows in run["by_size"].items():
                for row in rows:
                    if row["name"] != MEAN:
                        yield model_name(name), way, str(seed), n, row["name"], row["parse"]


def _cell(shape: Mapping[str, float], parse: Mapping[str, float], clrs: Mapping[str, float]) -> str:
    means = [average(x) for x in (shape, parse, clrs)]
    values = np.array(list(merged(clrs).values()))
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{means[0]:.1f} / {means[1]:.1f} / {means[2]:.1f} ± {error:.1f}"
