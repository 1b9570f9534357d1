"""What ALTA says in words of its figures on parity, beside our networks, by rules that the page states."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from mechgap.faithfulness.sequence_result import Curve, SequenceResult, seen_ones
from mechgap.faithfulness.sequence_texts import texts_in
from mechgap.programs.tasks import PARITY_TESTS, parity_task
from mechgap.report.alta_shares import bounds, interval, percent, tested_on
from mechgap.report.paper.alta_rows import DRAWN_OTHERWISE, departures, is_comparable, judged, planned_studies
from mechgap.report.paper.verdicts import NEVER, SHOWN, SMALL, Line

CHANCE, NEAR = 0.5, 0.05
LEARNED = 0.95  # the share of right answers from which on texts of a kind count as learned
BELOW = 0.10  # a program's share of right answers, by length: what may be missing of it
SURE = 0.10  # from 0 or from 1, where all texts with a number of ones get one answer
SLIGHTLY = 1.25  # times as many ones as training shows is "slightly more"


@dataclass(frozen=True)
class Found:
    """Numbers of ours, and whether they are as a claim says; None where they cannot tell, for some reason."""

    ours: str
    holds: bool | None
    interval: str = ""
    texts: str = ""
    why_not: str = ""


def claim_lines(claims: Mapping[str, Any], results: Mapping[str, SequenceResult]) -> Iterator[Line]:
    """A line per claim and network.

    Args:
        claims: the `studies`; and what is `said`: the `rule` of `RULES` that decides, the `label` of what is measured,
            what the `paper` says, and perhaps `because` of what ours may differ, and of which `studies` alone it is.
        results: study -> what there is.
    """
    for claim in claims.get("said", ()):
        for study in claim.get("studies", claims["studies"]):
            line = Line(f"{claim['label']}: {study}", claim["paper"], verdict=NEVER)
            yield _judged(line, claim, results[study]) if study in results else line


def _judged(line: Line, claim: Mapping[str, Any], result: SequenceResult) -> Line:
    longest, planned = result.study.train_length, planned_studies()[result.folder.name]
    line = replace(line, networks=str(len(result.metrics)), verdict=SMALL)
    if not any(ones > SLIGHTLY * longest for ones in result.curves["right by ones"]):
        return line
    found = RULES[claim["rule"]](result)
    line = replace(line, ours=found.ours, interval=found.interval, texts=found.texts)
    if not is_comparable(result, planned):
        return line
    if min(_shares(result, f"length <= {longest}")) < LEARNED:
        return replace(line, verdict=f"{SHOWN}: it did not learn texts as long as those of training")
    if found.holds is None:
        return replace(line, verdict=f"{SHOWN}: {found.why_not}")
    return replace(line, verdict=judged(found.holds, list(departures(result, planned)), claim))


def _more_ones(result: SequenceResult) -> Found:
    """Texts with more ones than training shows are right by chance."""
    name = f"ones > {result.study.train_length}"
    return replace(_slice(result, name), holds=_is_chance(_shares(result, name)))


def _longer(result: SequenceResult) -> Found:
    """Longer texts are right more often than any one answer is."""
    name, task = f"length > {result.study.train_length}", result.study.task
    if tested_on(name, result.manifest):
        return replace(_slice(result, name), why_not=DRAWN_OTHERWISE)
    low, _ = bounds(_shares(result, name), texts_in(result)[name]) or (0.0, 1.0)
    return replace(_slice(result, name), holds=low > _one_answer(task.tests[name]))


def _longer_by_chance(result: SequenceResult) -> Found:
    """Longer texts are right by chance, and not more often than any one answer is."""
    shares = _shares(result, f"length > {result.study.train_length}")
    longer = _longer(result)
    return longer if longer.holds is None else replace(longer, holds=_is_chance(shares) and not longer.holds)


def _falls(result: SequenceResult) -> Found:
    """Of longer texts, the shorter half is right more often than the other: their intervals do not meet."""
    if result.manifest.get("tests", 1) < PARITY_TESTS:
        return Found("", None, why_not=DRAWN_OTHERWISE)
    longest, curve = result.study.train_length, result.curves["right by length"]
    sizes = Counter(map(len, _texts(longest, result.study.each)))
    lengths = sorted(length for length in sizes if length > longest)
    halves = [lengths[: len(lengths) // 2], lengths[len(lengths) // 2 :]]
    counts = [sum(sizes[length] for length in half) for half in halves]
    shares = [
        [sum(sizes[length] * curve[length][seed] for length in half) / count for seed in range(len(result.metrics))]
        for half, count in zip(halves, counts, strict=True)
    ]
    said = (f"{percent(of)} of {half[0]} to {half[-1]} bits" for of, half in zip(shares, halves, strict=True))
    sure = "; ".join(interval(of, count) for of, count in zip(shares, counts, strict=True))
    (low, _), (_, high) = (bounds(of, count) or (0.0, 1.0) for of, count in zip(shares, counts, strict=True))
    return Found(", ".join(said), low > high, sure, ", ".join(map(str, counts)))


def _as_sum_by_ones(result: SequenceResult) -> Found:
    """Every number of ones that training shows is known, whatever the length."""
    longest = result.study.train_length
    seen = {ones: min(values) for ones, values in result.curves["right by ones"].items() if ones <= longest}
    least = min(seen, key=lambda ones: seen[ones])
    said = f"{seen[least]:.0%} with {least} ones, the least; {_mean(seen.values()):.0%} on average"
    return Found(said, seen[least] >= LEARNED)


def _as_sum_by_length(result: SequenceResult) -> Found:
    """Longer texts are right as often as a program gets them that knows as many ones as training shows."""
    longest, curve = result.study.train_length, result.curves["right by length"]
    ours = {length: min(values) for length, values in curve.items() if length > longest}
    first, last = (f"{ours[length]:.0%} at {length} bits" for length in (min(ours), max(ours)))
    if result.manifest.get("tests", 1) < PARITY_TESTS:
        return Found(f"{first}, {last}", None, why_not=DRAWN_OTHERWISE)
    texts = _texts(longest, result.study.each)
    known = {n: _mean(t.count("1") <= longest for t in texts if len(t) == n) for n in ours}
    program = {n: share + (1 - share) * CHANCE for n, share in known.items()}
    worst = max(ours, key=lambda n: program[n] - ours[n])
    said = f"{first}, {ours[worst]:.0%} at {worst}, where it gets {program[worst]:.0%}, {last}"
    return Found(said, program[worst] - ours[worst] <= BELOW)


def _due_to_seen_ones(result: SequenceResult) -> Found:
    """Longer texts are right more often than any one answer where training shows their number of ones, only there."""
    known, longest = _longer_seen(result), result.study.train_length
    more = _shares(result, f"ones > {longest}")
    if known is None:
        return Found("", None, why_not=DRAWN_OTHERWISE)
    shares, count = known
    low, _ = bounds(shares, count) or (0.0, 1.0)
    texts = (text for text in result.study.task.tests[f"length > {longest}"] if text.count("1") <= longest)
    said = f"{percent(shares)} with up to {longest} ones, {percent(more)} with more"
    return Found(said, low > _one_answer(texts) and _is_chance(more), interval(shares, count), str(count))


def _seen_ones_suffice(result: SequenceResult) -> Found:
    """Longer texts are right wherever training shows their number of ones."""
    known = _longer_seen(result)
    if known is None:
        return Found("", None, why_not=DRAWN_OTHERWISE)
    shares, count = known
    return Found(percent(shares), min(shares) >= LEARNED, interval(shares, count), str(count))


def _oscillates(result: SequenceResult) -> Found:
    """With slightly more ones than training shows right answers are all or none, in turn."""
    return _from_where(result, "right by ones", _alternate)


def _resorts(result: SequenceResult) -> Found:
    """With slightly more ones than training shows there is one answer."""
    return _from_where(result, "mean prediction by ones", lambda sides: len(set(sides)) == 1)


RULES: dict[str, Callable[[SequenceResult], Found]] = {
    "more ones": _more_ones,
    "longer": _longer,
    "longer by chance": _longer_by_chance,
    "falls": _falls,
    "as sum, by ones": _as_sum_by_ones,
    "as sum, by length": _as_sum_by_length,
    "due to seen ones": _due_to_seen_ones,
    "seen ones suffice": _seen_ones_suffice,
    "oscillates": _oscillates,
    "one answer": _resorts,
}


def _from_where(result: SequenceResult, kind: str, fits: Callable[[list[int]], bool]) -> Found:
    """From which number of ones on a curve of each network is near 0 or 1 throughout, with sides that fit."""
    longest, curve = result.study.train_length, result.curves[kind]
    starts = [_start(curve, longest, seed, fits) for seed in range(len(result.metrics))]
    said = ", ".join("nowhere" if start is None else f"from {start} ones on" for start in starts)
    return Found(said, all(start is not None and start <= SLIGHTLY * longest for start in starts))


def _alternate(sides: list[int]) -> bool:
    return all(a != b for a, b in pairwise(sides))


def _start(curve: Curve, longest: int, seed: int, fits: Callable[[list[int]], bool]) -> int | None:
    beyond, found, sides = sorted(ones for ones in curve if ones > longest), None, list[int]()
    for ones in reversed(beyond):
        value = curve[ones][seed]
        sides = [round(value), *sides]
        if min(value, 1 - value) > SURE or not fits(sides):
            break
        found = ones
    return found


def _longer_seen(result: SequenceResult) -> tuple[list[float], int] | None:
    """Of longer texts with as many ones as training shows: right answers of every network, and how many there are.

    Older results do not say, but their curves do: all texts with so many ones, without the shorter ones, which have no
    more. There each text counts once. None where longer texts were drawn otherwise.
    """
    study, name = result.study, seen_ones(result.study.train_length)
    if result.manifest.get("tests", 1) < PARITY_TESTS:
        return None
    if name in result.metrics[0]:
        return _shares(result, name), texts_in(result)[name]
    longest, texts = study.train_length, _texts(study.train_length, study.each)
    by_ones, by_length = (Counter(map(of, texts)) for of in (lambda text: text.count("1"), len))
    count = sum(n for ones, n in by_ones.items() if ones <= longest) - sum(
        n for length, n in by_length.items() if length <= longest
    )
    seen, short = (
        [
            sum(n * result.curves[kind][group][seed] for group, n in sizes.items() if group <= longest)
            for seed in range(len(result.metrics))
        ]
        for kind, sizes in (("right by ones", by_ones), ("right by length", by_length))
    )
    return [(a - b) / count for a, b in zip(seen, short, strict=True)], count


@cache
def _texts(longest: int, each: int) -> tuple[str, ...]:
    """The different texts that curves are of: those as long as in training, and the longer ones."""
    tests = parity_task(longest, 2 * longest, each=each).tests
    return tuple(sorted({text for name in tests if name.startswith("length") for text in tests[name]}))


def _slice(result: SequenceResult, name: str) -> Found:
    shares, count = _shares(result, name), texts_in(result)[name]
    return Found(percent(shares) + tested_on(name, result.manifest), None, interval(shares, count), str(count))


def _shares(result: SequenceResult, name: str) -> list[float]:
    return [seed[name] for seed in result.metrics]


def _is_chance(shares: Sequence[float]) -> bool:
    return abs(float(np.mean(shares)) - CHANCE) <= NEAR


def _one_answer(texts: Iterable[str]) -> float:
    """How often the better one of two answers is right that are given to all texts."""
    odd = _mean(text.count("1") % 2 for text in texts)
    return max(odd, 1 - odd)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
