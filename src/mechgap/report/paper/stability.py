"""Table 16: compiled networks, trained on; every form of them before, at the start and after."""

from collections.abc import Iterable, Mapping

import numpy as np

from mechgap.report.paper.results import BEST, LAST, Result, Sample
from mechgap.report.paper.verdicts import (
    NEVER,
    PERCENT,
    REPRODUCED,
    Details,
    Entry,
    Found,
    Line,
    judge_score,
    printed,
    summed_up,
)

FORMS = {"plain": "", "redundant channels": ", redundant", "rotated": ", rotated", "both": ", redundant, rotated"}
HEADER = (
    *("margin", "form", "score before", "score after", "after the last step"),
    *("loss at step 0", "norm of its gradient", "of the part through attention", "rows not one-hot"),
)
NOT_MEASURED = "–"
SAME = 0.01  # losses that differ by less, relatively, are of networks that compute the same
Means = Mapping[str, float]  # form -> score


def trained_on(entry: Entry, result: Result) -> Found:
    """A grid of margins and forms; the verdict is on the plain form, since the paper has no other."""
    best, last = ({s.setting: s for s in result.samples(m)} if result.configs else {} for m in (BEST, LAST))
    plain = [f"margin {margin:g}" for margin in result.study.margins if f"margin {margin:g}" in best]
    if not plain:
        return [Line(entry["label"], printed(entry), verdict=NEVER)], []
    verdicts = [judge_score(entry, best[name], result) for name in plain]
    worst = next((verdict for verdict in verdicts if verdict != REPRODUCED), REPRODUCED)
    ours, after = (_range(_means(table).get(name) for name in plain) for table in (best, last))
    networks = str(sum(best[name].trained for name in plain))
    line = Line(f"{entry['label']}, plain, {len(plain)} margins", printed(entry), ours, "", networks, after, worst)
    rows = [
        (f"{margin:g}", words, *_cells(f"margin {margin:g}{form}", best, last, result.first_steps))
        for margin in result.study.margins
        for words, form in FORMS.items()
        if f"margin {margin:g}{form}" in best
    ]
    dashes = f"{NOT_MEASURED} is what was not measured." if any(NOT_MEASURED in row for row in rows) else ""
    said = (_after(_means(best)), _sameness(result.first_steps), _gradients(plain, result.first_steps), dashes)
    return [line], [Details(f"{entry['label']}, form by form", HEADER, tuple(rows), " ".join(filter(None, said)))]


def _cells(
    name: str, best: Mapping[str, Sample], last: Mapping[str, Sample], steps: Mapping[str, Means]
) -> tuple[str, ...]:
    step = steps.get(name, {})

    def shown(field: str, form: str, factor: float = 1.0) -> str:
        return format(factor * step[field], form) if field in step else NOT_MEASURED

    start = (shown("loss", ".4g"), shown("gradient_norm", ".3g"), shown("attention_gradient_norm", ".3g"))
    soft = f"{shown('soft_rows', '.1f', PERCENT)} %" if "soft_rows" in step else NOT_MEASURED
    scores = (summed_up(best[name].values, BEST), summed_up(last[name].values, LAST))
    return shown("score", ".2f", PERCENT), *scores, *start, soft


def _means(samples: Mapping[str, Sample]) -> dict[str, float]:
    return {name: PERCENT * float(s.values.mean()) for name, s in samples.items() if len(s.values)}


def _range(values: Iterable[float | None]) -> str:
    known = [x for x in values if x is not None]
    return " to ".join(dict.fromkeys((f"{min(known):.2f}", f"{max(known):.2f}"))) if known else ""


def _after(means: Means) -> str:
    """Whether another form than the plain one helps."""
    others = [name for name in means if "," in name]
    if not others:
        return ""
    better = sum(means[name] > means.get(name.partition(",")[0], np.inf) for name in others)
    copies = [_range(x for name, x in means.items() if ("redundant" in name) == has) for has in (False, True)]
    count = f"{better} of the {len(others)} other forms {'is' if better == 1 else 'are'}"
    return (
        f"Trained on, the score is {copies[0]} without redundant channels and {copies[1]} with them; {count} above the "
        f"plain form of the same margin."
    )


def _sameness(steps: Mapping[str, Means]) -> str:
    """Whether the forms of a margin compute the same, as they are meant to."""
    others = [name for name in steps if "," in name]
    if not others:
        return ""
    plain = {name: steps[name.partition(",")[0]]["loss"] for name in others}
    apart = sum(abs(steps[name]["loss"] - plain[name]) > SAME * plain[name] for name in others)
    if not apart:
        return "At step 0 all forms of a margin have the same loss, to 1 %: they compute the same."
    return (
        f"At step 0 the loss of {apart} of the {len(others)} other forms is not that of the plain form of the same "
        f"margin, to 1 %: with weights as large as these, rounding makes other functions of them, and their scores say "
        f"little about the form."
    )


def _gradients(plain: list[str], steps: Mapping[str, Means]) -> str:
    """What passes through attention at the smallest and at the largest margin."""
    known = [name for name in plain if "soft_rows" in steps.get(name, {})]
    if not known:
        return ""
    said = [
        f"{steps[name]['attention_gradient_norm']:.3g} at {name}, where {PERCENT * steps[name]['soft_rows']:.1f} % of "
        f"the rows are not one-hot"
        for name in dict.fromkeys((known[0], known[-1]))
    ]
    return f"The gradient through attention of the plain form has a norm of {', and of '.join(said)}."
