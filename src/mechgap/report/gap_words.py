"""What the report calls things: measures in words, numbers as text, and the verdict in a sentence."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mechgap.faithfulness.correlation import mean_interval
from mechgap.faithfulness.mechanistic_gap import Gap
from mechgap.training.result import Table

BEST_EQUIVALENT = "internal/best_equivalent"
LABELS = {
    "score": "score",
    "internal/rows": "attention distance, all rows",
    "internal/decisive": "attention distance, decisive rows",
    "internal/idle": "attention distance, idle rows",
    "internal/eq24": "attention distance, Eq. 24 to the letter (0 … 2/n)",
    "internal/mean_head": "attention distance, mean of the heads",
    "internal/mixture": "attention distance, best mixture of the heads",
    BEST_EQUIVALENT: "attention distance, nearest equivalent α*",
    "external/meant": "trace agreement",
    "external/printed": "trace agreement, margins as printed",
}
PREFIXES = {
    "internal/equivalent/": "attention distance, equivalent α*: ",
    "external/meant/": "trace agreement: ",
    "external/printed/": "trace agreement, margins as printed: ",
    "hint_score/": "benchmark's hint score: ",
}
OF_SEVERAL_HEADS = ("internal/mean_head", "internal/mixture")
ORDER = (
    "score",
    "internal/rows",
    "internal/decisive",
    "internal/idle",
    "internal/equivalent/",
    "internal/",
    "external/meant",
)
BASELINES = ("compiled", "uniform", "untrained")
NOTHING = "–"
ALMOST = 6  # digits at most of a number that is nearly 1
# The verdict's thresholds, as shares of the distance that uniform attention has.
SAME, PARTLY, NOT_AT_ALL = 0.1, 0.5, 0.9
SOLVED, FAILED, FOLLOWED = 0.95, 0.6, 0.95


@dataclass(frozen=True)
class Headline:
    """One number of the first table: its mean over networks, a 95 % interval, and what it is to be held against.

    Attributes:
        measure: its name in the files, or `BEST_EQUIVALENT`; a paper's number goes by the same name.
        detail: which of the equivalent α* is the nearest.
        baselines: "compiled", "uniform", "untrained", "another seed" -> value, where it is known.
    """

    measure: str
    label: str
    split: str
    n: int
    mean: float
    interval: tuple[float, float]
    baselines: dict[str, float]
    detail: str = ""


def label_of(measure: str) -> str:
    """A measure in words."""
    for prefix, words in PREFIXES.items():
        if measure.startswith(prefix):
            return words + measure.removeprefix(prefix)
    return LABELS.get(measure, measure)


def in_order(measures: Iterable[str]) -> list[str]:
    """Measures as they stand in tables: what is read first comes first."""

    def place(name: str) -> tuple[int, str]:
        return next((i for i, start in enumerate(ORDER) if name.startswith(start)), len(ORDER)), name

    return sorted(measures, key=place)


def repeated(gap: Gap) -> tuple[str, ...]:
    """Measures that say nothing of their own: of one head, the best, the mean and any mixture are the same."""
    attention = gap.shown.get("attention")  # [members, steps, samples, heads, n, n]
    return OF_SEVERAL_HEADS if attention is not None and attention.shape[3] == 1 else ()


def without_repeats(gap: Gap) -> Gap:
    """A gap whose every measure is shown."""
    again = repeated(gap)

    def kept(tables: Mapping[str, Table]) -> dict[str, Table]:
        return {split: {name: x for name, x in table.items() if name not in again} for split, table in tables.items()}

    baselines = {split: kept(tables) for split, tables in gap.baselines.items()}
    return replace(gap, measures=kept(gap.measures), curves=kept(gap.curves), baselines=baselines)


def number(x: float | None, digits: int = 3) -> str:
    """A number for a table; a dash where it is not known."""
    if x is None or not math.isfinite(x):
        return NOTHING
    if x != 0 and (abs(x) < 10**-digits or abs(x) >= 1e5):
        return f"{x:.2g}"
    shown = f"{x:.{digits}f}"
    if abs(float(shown)) == 1 and 1 - abs(x) > 10**-ALMOST:  # 0.9997 is not 1.000, but 0.9999999 is rounding
        return number(x, digits + 1)
    return shown


def interval(bounds: tuple[float, float], digits: int = 3) -> str:
    """An interval for a table."""
    low, high = (number(x, digits) for x in bounds)
    return NOTHING if NOTHING in (low, high) else f"{low} to {high}"


def main_split(gap: Gap) -> str:
    """The split of the headline: validation, where networks were selected and graphs are as in training."""
    return "validation" if "validation" in gap.measures else next(iter(gap.measures), "validation")


def scores(gap: Gap) -> np.ndarray | None:
    """The test score of every network that did not diverge; None where no file says it."""
    known = "test_best" in gap.members or "score" in gap.measures.get("test", {})
    return gap.score if known and gap.sound.any() else None


def headlines(gap: Gap) -> list[Headline]:
    """The numbers that stand first."""
    split, found = main_split(gap), []
    score = scores(gap)
    if score is not None:
        found.append(_headline(gap, "score", "test", score))
    if not gap.sound.any():
        return found
    known = gap.measures.get(split, {})
    for name in ("internal/rows", "internal/decisive"):
        if name in known:
            found.append(_headline(gap, name, split, gap.values(name, split)))
    if "internal/rows" in known:
        best, values = gap.best_equivalent(split)
        name = "internal/rows" if best == "itself" else f"internal/equivalent/{best}"
        nearest = _headline(gap, name, split, values)
        found.append(replace(nearest, measure=BEST_EQUIVALENT, label=label_of(BEST_EQUIVALENT), detail=best))
    if "external/meant" in known:
        found.append(_headline(gap, "external/meant", split, gap.values("external/meant", split)))
    return found


def verdict(gap: Gap) -> str:
    """What the numbers say: a sentence about graphs as in training, and one about the test's, which are larger."""
    who = f"{int(gap.sound.sum())} {gap.algorithm} network{'s' if gap.sound.sum() != 1 else ''}"
    if scores(gap) is None:
        return f"Nothing can be said of the {who}: no score is known."
    split = main_split(gap)
    numbers = _numbers(gap, split)
    where = split if "score" in gap.measures.get(split, {}) else "test"
    right = numbers["score"].mean
    answers = "answer" if right >= SOLVED else "often answer" if right >= FAILED else "seldom answer"
    said = f"On {_graphs(gap, where)} the {who} {answers} right (score {number(right)})"
    if "external/meant" in numbers:
        share = numbers["external/meant"].mean
        follow = "name" if share >= FOLLOWED else "name most of" if share >= FAILED else "lose"
        joined = "but" if (right >= FAILED) != (share >= FAILED) else "and"
        said += f" {joined} {follow} the algorithm's intermediate states ({number(share)} of them right)"
    if "internal/rows" in numbers:
        said += f"; {_attention(numbers)}."
    else:
        said += "; no program was compiled to compare their attention with."
    return said if where == "test" else f"{said} {_on_test(gap)}"


def _on_test(gap: Gap) -> str:
    """The same numbers on the test graphs, as far as they are known."""
    numbers = _numbers(gap, "test")
    said = [f"score {number(numbers['score'].mean)}"]
    if "external/meant" in numbers:
        said.append(f"{number(numbers['external/meant'].mean)} of the states")
    if "internal/decisive" in numbers and math.isfinite(numbers["internal/decisive"].mean):
        own = numbers["internal/decisive"]
        said.append(f"attention {number(own.mean)} away (uniform {number(own.baselines.get('uniform'))})")
    return f"On {_graphs(gap, 'test')}: {', '.join(said)}."


def _graphs(gap: Gap, split: str) -> str:
    nodes = gap.about.get("splits", {}).get(split, {}).get("n")
    return f"{split} graphs" + (f" ({nodes} nodes)" if nodes else "")


def _numbers(gap: Gap, split: str) -> dict[str, Headline]:
    """What a sentence about a split needs; the test score is that of the whole test split."""
    known = gap.measures.get(split, {})
    score = gap.values("score", split) if split != "test" and "score" in known else gap.score
    found = {"score": _headline(gap, "score", split, score)}
    for name in ("internal/rows", "internal/decisive", "external/meant"):
        if name in known:
            found[name] = _headline(gap, name, split, gap.values(name, split))
    return found


def _attention(numbers: dict[str, Headline]) -> str:
    where = "internal/decisive" if math.isfinite(_mean(numbers.get("internal/decisive"))) else "internal/rows"
    own = numbers[where]
    rows = "where the algorithm moves information" if where == "internal/decisive" else "over all rows"
    uniform = own.baselines.get("uniform", float("nan"))
    if not uniform > 0:
        return f"{rows} their attention is {number(own.mean)} from the program's (0 is the same, 1 disjoint)"
    share = own.mean / uniform
    words = (
        "they attend as the program does"
        if share <= SAME
        else "they attend partly as the program does"
        if share <= PARTLY
        else "they do not attend as the program does"
        if share <= NOT_AT_ALL
        else "their attention is no nearer to the program's than uniform attention is"
    )
    return f"{words} ({rows} {number(own.mean)} away, uniform attention {number(uniform)}; 0 is the same, 1 disjoint)"


def _mean(headline: Headline | None) -> float:
    return float("nan") if headline is None else headline.mean


def _headline(gap: Gap, measure: str, split: str, values: np.ndarray) -> Headline:
    tables = gap.baselines.get(split, {})
    held = {b: float(np.mean(tables[b][measure])) for b in BASELINES if measure in tables.get(b, {})}
    if measure == "internal/rows" and len(gap.distances):
        held["another seed"] = gap.other_seed()
    mean, label = float(values.astype(float).mean()), "test score" if measure == "score" else label_of(measure)
    return Headline(measure, label, split, len(values), mean, mean_interval(values), held)
