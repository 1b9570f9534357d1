"""The parts of an item, each made into lines: the paper's number, ours, and a verdict."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mechgap.faithfulness.correlation import mean_interval
from mechgap.report.gap_words import label_of, number
from mechgap.report.paper.catalogue import Item, load_studies
from mechgap.report.paper.correlations import correlations, implied_table
from mechgap.report.paper.results import BEST, LAST, Result
from mechgap.report.paper.stability import trained_on
from mechgap.report.paper.verdicts import (
    DEVIATIONS,
    IMPOSSIBLE,
    NEVER,
    PERCENT,
    SHOWN,
    SPLITS,
    Details,
    Entry,
    Found,
    Line,
    impossible,
    judge,
    judge_score,
    printed,
    spread,
    summed_up,
)

QUARTER = 4  # start and end of a curve are its first and its last quarter
VISIBLE = 0.02  # what a curve must rise or fall by to count
BASELINE_MEASURES = ("internal/eq24", "internal/rows", "internal/decisive", "external/printed", "external/meant")
LITERAL, PER_ROW = "Eq. 24 to the letter", "total variation per row (Eq. 24 x n/2)"


@dataclass(frozen=True)
class Comparison:
    """An item of the paper beside our results.

    Attributes:
        networks: how many were trained in each study, those that were never run left out.
        date: of the latest run.
        small: whether a run is too small to compare.
    """

    item: Item
    lines: tuple[Line, ...]
    details: tuple[Details, ...]
    networks: str
    date: str
    small: bool

    @property
    def verdict(self) -> str:
        """All verdicts in a word, or counted where they are several."""
        kinds = Counter(line.verdict.partition(":")[0] for line in self.lines if line.verdict)
        if not kinds:
            return SHOWN
        partly = list(kinds) == [NEVER] and any(line.ours for line in self.lines)
        if len(kinds) == 1 and not partly:
            return next(iter(kinds))
        return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def paper_table(item: Item, folder: str | Path) -> Comparison:
    """Compare one table or figure with the results in a folder."""
    studies = load_studies()
    results = {name: Result(studies[name], Path(folder) / name) for name in item.studies}
    lines: list[Line] = []
    details: list[Details] = []
    for part, entries in item.parts.items():
        for entry in entries:
            more_lines, more_details = _PARTS[part](entry, results[entry["study"]])
            lines += more_lines
            details += more_details
    if any("pearson" in entry for entry in item.parts.get("correlations", ())):
        details.append(implied_table(item.parts["correlations"]))
    ran = [result for result in results.values() if result.configs]
    counts = ", ".join(dict.fromkeys(str(result.networks) for result in ran))
    date = max((result.date for result in ran), default="-")
    small = not all(result.comparable for result in ran)
    return Comparison(item, tuple(lines), tuple(dict.fromkeys(details)), counts or "-", date, small)


def rows(entry: Entry, result: Result) -> Found:
    """A mean over networks beside the printed one; a line per setting of the ensemble."""
    metric, paper = entry.get("metric", BEST), printed(entry)
    samples = result.samples(metric) if result.configs else []
    if not samples:
        return [Line(entry["label"], paper, verdict=impossible(entry) or NEVER)], []
    lasts = [summed_up(x.values, LAST) for x in result.samples(LAST)] if metric == BEST else [""] * len(samples)
    lines = []
    for sample, last in zip(samples, lasts, strict=True):
        label = f"{entry['label']}: {sample.setting}" if sample.setting else entry["label"]
        bounds = mean_interval(sample.values)
        said = (summed_up(sample.values, metric), _bounds(bounds, metric) if len(sample.values) else "")
        lines.append(Line(label, paper, *said, sample.networks, last, judge_score(entry, sample, result)))
    return lines, []


def curves(entry: Entry, result: Result) -> Found:
    """A measure in the first and in the last quarter of executions, and whether it changes as it is said to."""
    gap, expected, lines = result.gap, entry.get("expect", ""), []
    for split in (s for s in SPLITS if gap is not None and entry["measure"] in gap.curves.get(s, {})):
        assert gap is not None
        curve = gap.curves[split][entry["measure"]][gap.sound].astype(float)
        part = max(curve.shape[1] // QUARTER, 1)
        start, end = np.nanmean(curve[:, :part], axis=1), np.nanmean(curve[:, -part:], axis=1)
        low, high = mean_interval(end - start)
        holds = {"rises": low > VISIBLE, "falls": high < -VISIBLE}.get(expected)
        line = Line(f"{entry['label']}, {split}", expected, networks=str(len(curve)))
        line = replace(
            line, ours=f"{start.mean():.3f} → {end.mean():.3f}", interval=f"change {low:+.3f} to {high:+.3f}"
        )
        lines.append(line if holds is None else replace(line, verdict=judge(holds, entry, result)))
    return lines or [Line(entry["label"], expected, verdict=NEVER)], []


def landscapes(entry: Entry, result: Result) -> Found:
    """How much the loss rises at a distance from the networks, in norms of their weights, and scores under noise."""
    rises, flatter = {x.name: x.sharpness for x in result.landscapes.values()}, entry.get("expect") == "flatter"
    paper = "learned is flatter than compiled" if flatter else ""
    if "learned" not in rises:
        return [Line(f"{entry['label']}, rise of the loss", paper, verdict=NEVER)], []
    lines = []
    for radius in (r for r in rises["learned"] if r != "loss"):
        said = ", ".join(f"{name} {number(rise[radius])}" for name, rise in rises.items())
        line = Line(f"{entry['label']}, rise of the loss at {radius}", paper, said, networks="1 each")
        if flatter and "compiled" in rises:
            holds = rises["learned"][radius] < rises["compiled"][radius]
            line = replace(line, verdict=judge(holds, entry, result))
        lines.append(line)
    noise = {x.name: x.noise for x in result.landscapes.values() if x.noise}
    if not noise:
        return lines, []
    scales = list(next(iter(noise.values())))
    cells = tuple((name, *(f"{PERCENT * scores[s]:.2f}" for s in scales)) for name, scores in noise.items())
    return lines, [Details(f"{entry['label']}: score with relative noise on every weight", ("network", *scales), cells)]


def clusters(entry: Entry, result: Result) -> Found:
    """How many groups of networks attend alike."""
    line = Line("Consistent clusters", str(entry["count"]), verdict=NEVER)
    if "clusters" in result.numbers:
        found = result.numbers["clusters"]
        verdict = judge(found["stable"] == entry["count"], entry, result)
        said = f"{found['stable']} stable of {found['cut']} at the usual cut of the tree"
        line = replace(line, ours=said, networks=str(result.numbers["networks"]), verdict=verdict)
    return [line], []


def closest(_: Entry, result: Result) -> Found:
    """The network whose attention is nearest to the compiled one's."""
    gap, line = result.gap, Line("Closest network, total variation per row, validation", verdict=NEVER)
    if gap is not None and "internal/rows" in gap.measures.get("validation", {}):
        at = gap.closest()
        value = float(gap.measures["validation"]["internal/rows"][at])
        said = f"seed {int(gap.members['seed'][at])} at {value:.3f}"
        line = replace(line, ours=said, networks=str(int(gap.sound.sum())), verdict="")
    return [line], []


def scale(entry: Entry, result: Result) -> Found:
    """The two distances of section 4.5, as Eq. 24 says to the letter and as the total variation per row."""
    gap, paper = result.gap, f"{entry['closest']:g}"
    never = f"{IMPOSSIBLE}: Eq. 24 is at most 2/n, and {paper} needs n <= {largest_graph(entry)}"
    if gap is None or "internal/eq24" not in gap.measures.get("validation", {}):
        return [Line(f"Closest network, {LITERAL}", paper, verdict=never)], []
    networks, lines = str(int(gap.sound.sum())), []
    for split in (s for s in SPLITS if s in gap.measures):
        n, values = gap.about["splits"][split]["n"], gap.values("internal/eq24", split)
        label, ours = f"Closest network, {LITERAL}, {split}, n = {n}", f"{values.min():.4f} (at most {2 / n:.4f})"
        lines.append(Line(label, paper, ours, networks=networks, verdict=never))
    for split in (s for s in SPLITS if s in gap.measures):
        n, values = gap.about["splits"][split]["n"], gap.values("internal/rows", split).astype(float)
        label, near = f"Closest network, {PER_ROW}, {split}, n = {n}", abs(values.min() - entry["closest"])
        verdict = judge(near <= DEVIATIONS * spread(values), entry, result)
        ours = f"{values.min():.3f} (all: {values.mean():.3f} ± {spread(values):.3f})"
        lines.append(Line(label, paper, ours, networks=networks, verdict=verdict))
    n, apart = gap.about["splits"]["validation"]["n"], between(result)
    for words, factor in ((LITERAL, 2 / n), (PER_ROW, 1.0)):
        label, mean = f"Between two networks, {words}, validation, n = {n}", factor * apart.mean()
        near = abs(mean - entry["between"]) <= DEVIATIONS * factor * spread(apart)
        verdict = judge(near, {"because": "this is not its scale"}, result)
        ours = f"{mean:.4f} ± {factor * spread(apart):.4f}"
        lines.append(Line(label, f"{entry['between']:g}", ours, networks=networks, verdict=verdict))
    return lines, []


def swaps(entry: Entry, result: Result) -> Found:
    """What becomes of the test score when attention is replaced; the interval is of the change."""
    found = result.swaps.get("test", {})
    if not found:
        return [Line(entry["label"], verdict=NEVER)], []
    sound, lines = ~result.metrics["diverged"].astype(bool), []
    for condition, scores in found.items():
        own = found["compiled network, own" if condition.startswith("compiled network") else "own"]
        low, high = mean_interval((scores - own)[sound])
        changed = f"change {PERCENT * low:+.2f} to {PERCENT * high:+.2f}" if own is not scores else ""
        said = (summed_up(scores[sound], BEST), changed, str(int(sound.sum())))
        lines.append(Line(f"{entry['label']}: {condition}", "", *said))
    return lines, []


def baselines(_: Entry, result: Result) -> Found:
    """What the distances of attention and the agreement of traces are to be held against."""
    split = "validation"
    measured, held = (result.numbers.get(name, {}).get(split, {}) for name in ("measures", "baselines"))
    names = [name for name in BASELINE_MEASURES if name in measured]
    kinds = [kind for kind in ("compiled", "uniform", "untrained") if kind in held]
    cells = [
        (label_of(name), number(measured[name]["mean"]), *(number(held[kind].get(name)) for kind in kinds))
        for name in names
    ]
    header = ("", "trained", *kinds)
    return [], [Details(f"Baselines of {result.study.name}, {split}", header, tuple(cells))] if cells else []


_PARTS: dict[str, Callable[[Entry, Result], Found]] = {
    "rows": rows,
    "correlations": correlations,
    "curves": curves,
    "landscapes": landscapes,
    "clusters": clusters,
    "closest": closest,
    "scale": scale,
    "trained_on": trained_on,
    "swaps": swaps,
    "baselines": baselines,
}


def largest_graph(entry: Entry) -> int:
    """The most nodes for which Eq. 24 could be what is printed."""
    return int(2 / entry["closest"])


def between(result: Result) -> np.ndarray:
    """The total variations between the attentions of every two networks."""
    assert result.gap is not None
    apart = result.gap.distances.mean(0)[result.gap.sound][:, result.gap.sound]
    return apart[~np.eye(len(apart), dtype=bool)].astype(float)


def _bounds(bounds: tuple[float, float], metric: str) -> str:
    if "/" in metric:
        return f"{bounds[0]:.4f} to {bounds[1]:.4f}"
    return f"{PERCENT * bounds[0]:.2f} to {PERCENT * bounds[1]:.2f}"
