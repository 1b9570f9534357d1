"""Table 1: the correlations of score and faithfulness beside the printed ones, and how many networks those are of."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from mechgap.faithfulness.correlation import correlate, implied_count
from mechgap.report.gap_words import in_order, interval, label_of, number, repeated
from mechgap.report.paper.results import Result
from mechgap.report.paper.verdicts import NEVER, SPLITS, Details, Entry, Found, Line, judge

COEFFICIENTS = {"pearson": "Pearson r", "spearman": "Spearman ρ"}
SIGNIFICANT = 0.05
ROUNDING = 0.0005  # of what Table 1 prints


def correlations(entry: Entry, result: Result) -> Found:
    """A score against a measure on every split; without printed numbers the claim is that there is nothing.

    The score is that of the weights that are measured, or, with `score`, another column of metrics.json.
    """
    claimed, known = "pearson" in entry, _with_score(entry, result)
    splits = [s for s in SPLITS if entry["measure"] in known.get(s, {})]
    lines = []
    for split, (name, words) in ((s, c) for s in splits or [""] for c in COEFFICIENTS.items()):
        paper = f"{entry[name]:.3f} (p {entry[f'{name}_p']:.3f})" if claimed else "not significant"
        line = Line(", ".join(filter(None, (entry["label"], words, split))), paper, verdict=NEVER)
        found = known[split][entry["measure"]] if split else {}
        if found.get(name) is not None:  # a constant column has no correlation
            low, high = found[f"{name}_interval"]
            holds = low <= entry[name] <= high if claimed else found[f"{name}_p"] > SIGNIFICANT
            line = replace(
                line,
                ours=f"{number(found[name])} (p {number(found[f'{name}_p'])})",
                interval=interval((low, high), 2),
                networks=str(found["n"]),
                verdict=judge(holds, entry, result),
            )
        lines.append(line)
    return lines, [_every_measure(known, result)] if claimed and known and "score" not in entry else []


def _with_score(entry: Entry, result: Result) -> Mapping[str, Any]:
    """Split -> measure -> the correlation."""
    if "score" not in entry:
        return result.numbers.get("correlations", {})
    if result.gap is None:
        return {}
    score = np.where(result.metrics["diverged"], np.nan, result.metrics[entry["score"]])
    name = entry["measure"]
    return {s: {name: asdict(correlate(score, m[name]))} for s, m in result.gap.measures.items() if name in m}


def implied_table(entries: Sequence[Entry]) -> Details:
    """How many networks the printed pairs of coefficient and p-value are of."""
    table = [(label, f"{low:.1f} to {high:.1f}") for label, (low, high) in implied_ranges(entries).items()]
    table.append(("all together", implied_by_all(entries)))
    return Details("Networks that the printed p-values imply", ("printed pair", "networks"), tuple(table))


def implied_ranges(entries: Sequence[Entry]) -> dict[str, tuple[float, float]]:
    """For every printed pair, the numbers of networks for which both round to what is printed."""
    return {
        f"{entry['label']}, {words}": _implied(entry[name], entry[f"{name}_p"])
        for entry in entries
        if "score" not in entry
        for name, words in COEFFICIENTS.items()
    }


def implied_by_all(entries: Sequence[Entry]) -> str:
    """The whole numbers of networks that all printed pairs allow."""
    ranges = implied_ranges(entries).values()
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    return ", ".join(str(n) for n in range(math.ceil(low), math.floor(high) + 1)) or "none"


def _implied(r: float, p: float) -> tuple[float, float]:
    corners = [implied_count(r + a, p + b) for a in (-ROUNDING, ROUNDING) for b in (-ROUNDING, ROUNDING)]
    return min(corners), max(corners)


def _every_measure(known: Mapping[str, Any], result: Result) -> Details:
    again = () if result.gap is None else repeated(result.gap)
    header = ("split", "measure", "networks", "Pearson r", "95 %", "p", "Spearman ρ", "95 %", "p")
    table = []
    for split in (s for s in SPLITS if s in known):
        for name in in_order(name for name in known[split] if name not in again):
            found, cells = known[split][name], []
            for kind in COEFFICIENTS:
                low, high = (math.nan if x is None else x for x in found[f"{kind}_interval"])
                cells += [number(found[kind]), interval((low, high), 2), number(found[f"{kind}_p"])]
            table.append((split, label_of(name), str(found["n"]), *cells))
    return Details("The test score against every measure", header, tuple(table))
