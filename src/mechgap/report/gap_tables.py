"""The tables of the report: rows are grouped by what is measured, so that runs stand under each other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechgap.faithfulness.causal import ABOUT
from mechgap.faithfulness.clusters import COLOUR_SHARE, OVERLAP, Clusters
from mechgap.faithfulness.correlation import Correlation, mean_interval
from mechgap.faithfulness.landscape import Landscape
from mechgap.report.gap_words import (
    BASELINES,
    NOTHING,
    Headline,
    headlines,
    in_order,
    interval,
    label_of,
    number,
    scores,
    verdict,
)
from mechgap.report.result_folder import ResultFolder

Paper = Mapping[str, Any]  # row name -> the paper's number, as it prints it
LEAST_FOR_CLUSTERS = 3
NAMED = 12  # seeds of a cluster


@dataclass(frozen=True)
class Group:
    """Rows under one heading; `name` is what the files call it."""

    label: str
    rows: tuple[tuple[str, ...], ...]
    name: str = ""


@dataclass(frozen=True)
class PageTable:
    """A table with one heading per group of rows."""

    caption: str
    header: tuple[str, ...]
    groups: tuple[Group, ...]
    note: str = ""


@dataclass(frozen=True)
class Analysis:
    """A run and what follows from its gap; computed once for tables, page and figures."""

    run: ResultFolder
    headlines: tuple[Headline, ...]
    verdict: str
    correlations: dict[str, dict[str, Correlation]]
    clusters: Clusters | None


def analyse(run: ResultFolder) -> Analysis:
    """Compute what the page says of a run."""
    gap = run.gap
    if gap is None:
        return _without_gap(run)
    scored = scores(gap) is not None
    correlations = {split: gap.correlations(split) for split in gap.measures} if scored else {}
    clusters = gap.clusters() if len(gap.distances) and gap.sound.sum() >= LEAST_FOR_CLUSTERS else None
    return Analysis(run, tuple(headlines(gap)), verdict(gap), correlations, clusters)


def _without_gap(run: ResultFolder) -> Analysis:
    """What metrics.json alone says: the scores."""
    known = run.metrics and not run.metrics["diverged"].all()
    if not known:
        return Analysis(run, (), "No gap could be read of this run.", {}, None)
    values = run.metrics["test_best"][~run.metrics["diverged"]]
    score = Headline("score", "test score", "test", len(values), _mean(values), mean_interval(values), {})
    said = f"The {len(values)} networks have a test score of {number(score.mean)}; no gap could be read of them."
    return Analysis(run, (score,), said, {}, None)


def headline_table(runs: Sequence[Analysis], paper: Paper) -> PageTable:
    """The first table: every number with its interval and what it is to be held against."""
    groups = []
    for measure in dict.fromkeys(h.measure for a in runs for h in a.headlines):
        found = [(a.run.label, h) for a in runs for h in a.headlines if h.measure == measure]
        details = {h.detail for _, h in found}
        shared = details.pop() if len(details) == 1 else ""
        first = found[0][1]
        label = first.label + (f": {shared}" if shared else "") + (f" ({first.split})" if measure != "score" else "")
        rows = [_headline_row(run if shared else f"{run} {h.detail}".strip(), h) for run, h in found]
        groups.append(Group(label, tuple(rows), measure))
    header = ("run", "mean", "95 % interval", "networks", "compiled", "uniform", "untrained", "another seed")
    note = (
        "Distances: 0 is the program's attention α*, 1 disjoint from it. An equivalent α* is attention that "
        "would serve the algorithm as well in idle rows, where nothing moves; the program's own is another. "
        "Agreement, score: 1 is right everywhere."
    )
    return _with_paper(PageTable("Headline numbers", header, tuple(groups), note), paper, "")


def measure_tables(runs: Sequence[Analysis], paper: Paper) -> dict[str, PageTable]:
    """Split -> every measure of every run."""
    tables = {}
    for split in _splits(runs):
        names = dict.fromkeys(n for a in runs if a.run.gap for n in a.run.gap.measures.get(split, {}))
        groups = [Group(label_of(name), tuple(_measure_rows(runs, split, name)), name) for name in in_order(names)]
        header = ("run", "mean", "95 % interval", "std", "min", "max", *BASELINES)
        tables[split] = _with_paper(PageTable(f"All measures, {split}", header, tuple(groups)), paper, "")
    return tables


def correlation_tables(runs: Sequence[Analysis], paper: Paper) -> dict[str, PageTable]:
    """Split -> the test score against every measure of faithfulness, in the form of Table 1."""
    tables = {}
    for split in _splits(runs):
        names = in_order({n for a in runs for n in a.correlations.get(split, {})})
        groups = []
        for name in names:
            found = [(a.run.label, a.correlations[split][name]) for a in runs if name in a.correlations.get(split, {})]
            groups.append(Group(label_of(name), tuple((label, *_correlation(c)) for label, c in found), name))
        header = ("run", "Pearson r", "95 %", "p", "Spearman ρ", "95 %", "p", "n")
        if groups:
            table = PageTable(f"Test score against faithfulness, {split}", header, tuple(groups))
            tables[split] = _with_paper(table, paper, "correlation/")
    return tables


def causal_tables(runs: Sequence[Analysis], paper: Paper) -> dict[str, PageTable]:
    """Split -> what becomes of the score when attention is replaced."""
    tables = {}
    for split in dict.fromkeys(s for a in runs for s in a.run.causal):
        found = {c for a in runs for c in a.run.causal.get(split, {})}
        groups = []
        for condition in (*(c for c in ABOUT if c in found), *sorted(found - set(ABOUT))):
            groups.append(Group(condition, tuple(_causal_rows(runs, split, condition)), condition))
        header = ("run", "score", "95 % interval", "change", "95 % interval", "hints right", "what it is")
        caption = f"Score when attention is replaced, {split}"
        tables[split] = _with_paper(PageTable(caption, header, tuple(groups)), paper, "causal/")
    return tables


def cluster_table(analysis: Analysis) -> PageTable | None:
    """One row per cluster of two networks or more; single networks are counted in the note."""
    found, gap = analysis.clusters, analysis.run.gap
    if found is None or gap is None:
        return None
    score, inside = scores(gap), gap.measures.get("validation", {}).get("internal/rows")
    rows, alone = [], 0
    for label in range(1, found.cut + 1):
        chosen = found.labels == label
        if chosen.sum() < 2:
            alone += 1
            continue
        seeds = gap.members["seed"][gap.sound][chosen].tolist()
        named = ", ".join(map(str, seeds[:NAMED])) + (" …" if len(seeds) > NAMED else "")
        mean_score = NOTHING if score is None else number(float(score[chosen].mean()))
        distance = NOTHING if inside is None else number(float(inside[gap.sound][chosen].mean()))
        rows.append((str(len(seeds)), number(float(found.stability[label - 1]), 2), mean_score, distance, named))
    groups = tuple(Group(str(i + 1), (row,)) for i, row in enumerate(rows))
    header = ("networks", "stability", "mean score", "attention distance", "seeds")
    note = (
        f"{found.cut} clusters where the tree is cut at {COLOUR_SHARE} of its height; {found.stable} of them stable, "
        f"with a stability of {OVERLAP} or more{f'; {alone} hold a single network' if alone else ''}."
    )
    return PageTable(f"Clusters of {analysis.run.label}", header, groups, note)


def sharpness_table(runs: Sequence[Analysis]) -> PageTable | None:
    """How much the loss rises at a distance from a network, and how it scores under noise."""
    rows: dict[str, dict[str, Landscape]] = {}
    for analysis in runs:
        for entry in analysis.run.landscapes:
            rows.setdefault(entry.name, {})[analysis.run.label] = entry
    found = [entry for table in rows.values() for entry in table.values()]
    radii = sorted({r for entry in found for r in entry.sharpness if r != "loss"}, key=float)
    scales = sorted({scale for entry in found for scale in entry.noise}, key=float)
    if not radii:
        return None

    def cells(entry: Landscape) -> tuple[str, ...]:
        rises = [number(entry.sharpness.get(r)) for r in radii]
        return number(entry.sharpness.get("loss")), *rises, *(number(entry.noise.get(s)) for s in scales)

    groups = tuple(
        Group(name, tuple((label, *cells(entry)) for label, entry in table.items())) for name, table in rows.items()
    )
    header = ("run", "loss", *(f"rise at {r}" for r in radii), *(f"noise {s}" for s in scales))
    note = (
        "The rise of the loss at a distance from the network, in norms of its weights; a flat minimum rises little. "
        "The score is that with every weight shaken by as much of itself."
    )
    return PageTable("Sharpness", header, groups, note)


def settings_tables(runs: Sequence[Analysis]) -> tuple[PageTable, PageTable]:
    """The settings and the versions of every run, differences first."""
    settings = {a.run.label: _flat(a.run.configs[0]) for a in runs if a.run.configs}
    versions = {}
    for a in runs:
        flat = _flat(a.run.manifest)
        if a.run.gap is not None:
            flat = {"measured with mechgap": str(a.run.gap.about.get("mechgap", NOTHING)), **flat}
        if flat:
            versions[a.run.label] = flat
    return _side_by_side("Settings of the training", settings), _side_by_side("Versions, device and times", versions)


def _headline_row(run: str, h: Headline) -> tuple[str, ...]:
    held = [number(h.baselines.get(name)) for name in (*BASELINES, "another seed")]
    return run, number(h.mean), interval(h.interval), str(h.n), *held


def _measure_rows(runs: Sequence[Analysis], split: str, name: str) -> Iterator[tuple[str, ...]]:
    for analysis in runs:
        gap = analysis.run.gap
        if gap is None or name not in gap.measures.get(split, {}) or not gap.sound.any():
            continue
        s = gap.summary(name, split)
        tables = gap.baselines.get(split, {})
        held = [number(float(np.mean(tables[b][name])) if name in tables.get(b, {}) else None) for b in BASELINES]
        spread = (number(s["std"]), number(s["min"]), number(s["max"]))
        yield analysis.run.label, number(s["mean"]), interval((s["low"], s["high"])), *spread, *held


def _correlation(c: Correlation) -> tuple[str, ...]:
    pearson = (number(c.pearson), interval(c.pearson_interval, 2), number(c.pearson_p))
    return *pearson, number(c.spearman), interval(c.spearman_interval, 2), number(c.spearman_p), str(c.n)


def _causal_rows(runs: Sequence[Analysis], split: str, condition: str) -> Iterator[tuple[str, ...]]:
    of_compiled = condition.startswith("compiled network")
    for analysis in runs:
        found = analysis.run.causal.get(split, {})
        if condition not in found:
            continue
        sound = analysis.run.gap.sound if analysis.run.gap is not None else slice(None)
        score = found[condition]["score"][sound]
        own = found.get("compiled network, own" if of_compiled else "own")
        change = None if own is None else score - own["score"][sound]
        hints = found[condition].get("hints")
        yield (
            analysis.run.label,
            number(_mean(score)),
            interval(mean_interval(score)),
            NOTHING if change is None else f"{_mean(change):+.3f}",
            NOTHING if change is None else interval(mean_interval(change)),
            number(None if hints is None else _mean(hints[sound])),
            analysis.run.conditions.get(condition, NOTHING),
        )


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _splits(runs: Iterable[Analysis]) -> list[str]:
    found = {split for a in runs if a.run.gap is not None for split in a.run.gap.measures}
    order = ("validation", "test", "train")
    return [s for s in order if s in found] + sorted(found - set(order))


def _with_paper(table: PageTable, paper: Paper, prefix: str) -> PageTable:
    """With a column for the paper's numbers, where it has any for this table."""
    if not any(prefix + group.name in paper for group in table.groups):
        return table
    groups = []
    for group in table.groups:
        printed = paper.get(prefix + group.name)
        said = NOTHING if printed is None else printed if isinstance(printed, str) else number(float(printed))
        groups.append(Group(group.label, tuple((*row, said) for row in group.rows), group.name))
    return PageTable(table.caption, (*table.header, "paper"), tuple(groups), table.note)


def _side_by_side(caption: str, columns: Mapping[str, Mapping[str, str]]) -> PageTable:
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = {name: tuple(column.get(name, NOTHING) for column in columns.values()) for name in names}
    differing = [name for name in names if len(set(rows[name])) > 1]
    same = [name for name in names if name not in differing]
    note = f"The runs differ in {', '.join(differing)}; these stand first." if differing else ""
    return PageTable(caption, tuple(columns), tuple(Group(name, (rows[name],)) for name in differing + same), note)


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, x in value.items():
        if isinstance(x, Mapping):
            flat |= _flat(x, f"{prefix}{name}.")
        elif isinstance(x, list):
            flat[prefix + name] = ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in x)
        else:
            flat[prefix + name] = str(x)
    return flat
