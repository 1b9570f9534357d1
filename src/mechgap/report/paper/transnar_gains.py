"""How much better one text model is than another: reasoner, positions, controls, unseen algorithms, distillation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mechgap.report.paper.transnar_results import (
    ALONE,
    COUNTED,
    ERRORS,
    MAIN,
    NEEDED,
    WITHOUT_GAIN,
    Results,
    above_constant,
    merged,
    model_name,
    points,
    score_name,
)
from mechgap.report.paper.transnar_tables import by_algorithm, overview, parse_scores
from mechgap.report.paper.verdicts import DIFFERS, PERCENT, REPRODUCED, SHOWN, SMALL, UNLIKE, Details, Found, Line
from mechgap.training.transnar.result import TAUGHT

JUDGED = (10, 14)  # sizes of the claim
TEACHER = 0  # the seed that answers for the student


def grid(results: Results) -> Found:
    """The 2 x 2, and whether the main claim holds."""
    lines: list[Line] = []
    if results.has("transnar", "transformer"):
        for n in results.sizes(*MAIN):
            for key in ("clrs", "shape"):
                label = f"TransNAR above the Transformer, {score_name(key)}, n = {n}"
                lines.append(gain_line(results, label, "transnar", "transformer", n, key, judged=n <= max(JUDGED)))
        lines += _without_two(results)
    if results.has("transnar", "transformer", "transnar_shuffled"):
        for n in results.sizes("transnar_shuffled", *MAIN):
            label = f"TransNAR with shuffled states above the Transformer, CLRS, n = {n}"
            lines.append(gain_line(results, label, "transnar_shuffled", "transformer", n))
        lines.insert(0, _claim(results))
    for name, counted in zip(MAIN, COUNTED, strict=True):
        if results.has(name, counted):
            for n in results.sizes(name, counted):
                label = f"{model_name(name)}: randomised above counted positions, CLRS, n = {n}"
                lines.append(gain_line(results, label, name, counted, n, judged=n in JUDGED))
    if results.has(*COUNTED):
        for n in results.sizes(*COUNTED):
            label = f"both with counted positions: TransNAR above the Transformer, CLRS, n = {n}"
            lines.append(gain_line(results, label, COUNTED[0], COUNTED[1], n))
    lines += [_above_constant(results, n) for n in (results.sizes("transnar") if results.has("transnar") else ())]
    models = [name for name in NEEDED["grid"] if results.has(name)]
    return lines, [overview(results, models), *by_algorithm(results, models), parse_scores(results)[1]]


def _without_two(results: Results) -> list[Line]:
    """The gain where the paper reports none left out: what carries it."""
    left = [name for name in results.algorithms("transnar") if name not in WITHOUT_GAIN]
    words = f"TransNAR above the Transformer without {' and '.join(WITHOUT_GAIN)}, CLRS"
    return [gain_line(results, f"{words}, n = {n}", *MAIN, n, names=left) for n in results.sizes(*MAIN) if left]


def _above_constant(results: Results, n: int) -> Line:
    """Of which algorithms TransNAR knows more than the best constant answer: means hide it."""
    scores, errors = (merged(results.table("transnar", n, key)) for key in ("clrs", "error"))
    above, within = above_constant(scores, merged(results.beside("transnar", n, "exact", "floor")), errors)
    said = f"{len(above)} of {len(scores)}" + (f": {', '.join(above)}" if above else "")
    said += f"; by no more than two standard errors over questions: {', '.join(within)}" if within else ""
    label = f"TransNAR above the best constant answer, algorithms, n = {n}"
    return Line(label, "", said, networks=results.networks("transnar"), verdict=SHOWN)


def _claim(results: Results) -> Line:
    """The whole claim in one verdict."""
    names = (*MAIN, "transnar_shuffled")
    sizes = [n for n in JUDGED if n in results.sizes(*names)]
    gains = {n: results.gain("transnar", "transformer", n) for n in sizes}
    shuffled = {n: results.gain("transnar_shuffled", "transformer", n) for n in sizes}
    problems = [f"at {n} {gains[n].words}" for n in sizes if not gains[n].counts]
    problems += [f"with shuffled states there is a gain at {n}, too" for n in sizes if shuffled[n].counts]
    above = {n: results.gain("transnar", "transnar_shuffled", n) for n in sizes}
    problems += [f"above shuffled states at {n} {above[n].words}" for n in sizes if not above[n].counts]
    said = ", ".join(f"{gains[n]} and shuffled {shuffled[n]} at {n}" for n in sizes)
    reserve = next((gain.reserve for gain in (*gains.values(), *above.values()) if gain.reserve), "")
    verdict = verdict_on(results, names, not problems, "; ".join(problems)) if sizes == list(JUDGED) else SMALL
    verdict = with_reserve(verdict, reserve)
    label = "The claim: a gain at 10 and at 14 that shuffled states lose"
    return Line(label, "above", said, networks=results.networks(*names), verdict=verdict)


def controls(results: Results) -> Found:
    """Other trainings and other ways to ask."""
    lines = []
    for other, words in (
        ("transformer_deep", "a Transformer with as many parameters"),
        ("transnar_shuffled", "TransNAR with shuffled states"),
    ):
        if results.has("transnar", other):
            for n in results.sizes("transnar", other):
                lines.append(gain_line(results, f"TransNAR above {words}, CLRS, n = {n}", "transnar", other, n))
    for where in ("first", "last", "every_second"):
        if results.has("transnar", "transformer", f"transnar_{where}"):
            for n in results.sizes(f"transnar_{where}", "transformer"):
                label = f"cross-attention {where.replace('_', ' ')} only, above the Transformer, CLRS, n = {n}"
                lines.append(gain_line(results, label, f"transnar_{where}", "transformer", n))
    models = [name for name in NEEDED["controls"] if results.has(name)]
    return lines, [overview(results, models, every_way=True)]


def compiled(results: Results) -> Found:
    """An exact reasoner against a trained one."""
    exact, trained = "transnar_compiled", "transnar_eight"
    if not results.has(exact, trained):
        return [], []
    lines = [_helps_more(results, exact, trained)]
    lines += [
        gain_line(results, f"exact above trained reasoner, {score_name(key)}, n = {n}", exact, trained, n, key)
        for n in results.sizes(exact, trained)
        for key in ("clrs", "shape")
    ]
    models = [trained, exact]
    if results.has("transformer"):
        models = ["transformer", *models]
        lines += [
            gain_line(results, f"{words} reasoner above none, CLRS, n = {n}", name, "transformer", n)
            for n in results.sizes(exact, trained, "transformer")
            for name, words in ((trained, "trained"), (exact, "exact"))
        ]
    known = results.algorithms(exact)
    return lines, [overview(results, [trained, exact]), *by_algorithm(results, models, known)]


def _helps_more(results: Results, exact: str, trained: str) -> Line:
    """The question in one line."""
    gains = {n: results.gain(exact, trained, n) for n in results.sizes(exact, trained)}
    said = ", ".join(f"{gain} at {n} ({_extremes(results, exact, trained, n)})" for n, gain in gains.items())
    more, less = (
        [str(n) for n, gain in gains.items() if abs(gain.mean) > ERRORS * gain.error and (gain.mean > 0) == up]
        for up in (True, False)
    )
    if results.unlike(exact, trained) or results.asked_closer(exact, trained):
        verdict = verdict_on(results, (exact, trained), False, "")
    elif not more and not less:
        verdict = f"{SHOWN}: not decided; all differences are within two standard errors over algorithms"
    else:
        verdict = f"{SHOWN}: more at n = {', '.join(more) or 'none'}, less at n = {', '.join(less) or 'none'}"
    label = "Does an exact reasoner help more than a trained one? CLRS"
    return Line(label, "", said, networks=results.networks(exact, trained), verdict=verdict)


def _extremes(results: Results, name: str, other: str, n: int) -> str:
    """The differences of single algorithms that are farthest apart: a mean may be small because they cancel out."""
    apart = results.apart(name, other, n)
    ends = dict.fromkeys((min(apart, key=apart.__getitem__), max(apart, key=apart.__getitem__)))
    return " to ".join(f"{points(apart[one])} on {one}" for one in ends)


def unseen(results: Results) -> Found:
    """Algorithms that the reasoner has no encoders for."""
    mine = "transnar_unseen"
    if not results.has(mine, "transnar", "transformer"):
        return [], []
    known = set(results.beside(mine, results.sizes(mine)[0], "reasoner"))
    never = [a for a in results.algorithms(mine) if a not in known]
    lines = [
        gain_line(results, f"{words}, above the Transformer, CLRS, n = {n}", mine, "transformer", n, names=some)
        for words, some in ((f"never seen ({', '.join(never)})", never), ("seen", sorted(known)))
        for n in results.sizes(mine, "transformer")
        if some
    ]
    told = results.models[mine]["manifest"]["stand_ins"]
    rows = tuple((name, told[name]) for name in never)
    shown = list(by_algorithm(results, ["transformer", "transnar", mine], never, f"{ALONE} that saw all"))
    return lines, [Details("What the reasoner is told", ("asked about", "told"), rows), *shown]


def _taught_it(teacher: Mapping[str, Any], student: Mapping[str, Any]) -> bool:
    """Whether these very weights are known to have answered; results without fingerprints are of one training."""
    known = teacher["manifest"].get("fingerprints")
    return student["manifest"].get("taught_by") == (known and known[TEACHER])


def distillation(results: Results) -> Found:
    """What a plain Transformer learns from TransNAR."""
    student, right = "student", "student_of_right_answers"
    if not results.has(student, "transformer"):
        return [], []
    lines = []
    for n in results.sizes(student, "transformer"):
        lines.append(gain_line(results, f"student above the Transformer, CLRS, n = {n}", student, "transformer", n))
    if results.has("transnar"):
        who = "its teacher" if _taught_it(results.models["transnar"], results.models[student]) else "TransNAR"
        for n in results.sizes(student, "transnar"):
            label = f"student above {who}, CLRS, n = {n}"
            lines.append(gain_line(results, label, student, "transnar", n, of_other=slice(TEACHER, TEACHER + 1)))
    if results.has(right):
        for n in results.sizes(student, right):
            label = f"student above one with right answers, CLRS, n = {n}"
            lines.append(gain_line(results, label, student, right, n))
        for n in results.sizes(right, "transformer"):
            label = f"one with right answers above the Transformer, CLRS, n = {n}"
            lines.append(gain_line(results, label, right, "transformer", n))
    models = [name for name in NEEDED["distillation"] if results.has(name)]
    taught = results.models[student]["metrics"].get(TAUGHT, {})
    rows = tuple((n, f"{PERCENT * share:.1f}") for n, share in taught.items())
    return lines, [
        Details("What the student is told, by n", ("n", "mean CLRS score over all questions, %"), rows),
        overview(results, models),
    ]


def gain_line(
    results: Results,
    label: str,
    name: str,
    other: str,
    n: int,
    key: str = "clrs",
    *,
    names: Sequence[str] | None = None,
    judged: bool = False,
    of_other: slice = slice(None),
) -> Line:
    """A difference of two models; judged where the paper says that there is one."""
    gain = results.gain(name, other, n, key, names, of_other)
    seeds = results.gains_by_seed(name, other, n, key, names) if of_other == slice(None) else []
    by_seed = f" ({' and '.join(map(points, seeds))})" if len(seeds) > 1 else ""
    if judged or results.unlike(name, other) or results.asked_closer(name, other):
        verdict = with_reserve(verdict_on(results, (name, other), gain.counts, gain.words), gain.reserve)
    else:
        verdict = f"{SHOWN}: {gain.words}"
    paper, networks = "above" if judged else "", results.networks(name, other, of_other=of_other)
    return Line(label, paper, f"{gain}{by_seed}", gain.interval, networks, verdict=verdict)


def undecided(results: Results, names: Sequence[str], why: str) -> str:
    """Something is shown and not judged, where the models can be compared at all."""
    verdict = verdict_on(results, names, True, "")
    return f"{SHOWN}: {why}" if verdict == REPRODUCED else verdict


def with_reserve(verdict: str, reserve: str) -> str:
    """The same, and what it rests on where a gain counts that Student's t does not tell from none."""
    return f"{REPRODUCED}: by two standard errors{reserve}" if reserve and verdict == REPRODUCED else verdict


def judged_line(
    results: Results, label: str, paper: str, ours: str, interval: str, holds: bool | np.bool_, why_not: str
) -> Line:
    return Line(label, paper, ours, interval, results.networks(*MAIN), "", verdict_on(results, MAIN, holds, why_not))


def verdict_on(results: Results, names: Sequence[str], holds: bool | np.bool_, why_not: str) -> str:
    if differing := results.unlike(*names):
        return f"{UNLIKE}: they were trained or asked with different {', '.join(differing)}"
    if closer := results.asked_closer(*names):
        who = " and ".join(map(model_name, closer))
        return f"{UNLIKE}: asked at positions closer together than in training: {who}"
    if not results.comparable(*names):
        return SMALL
    return REPRODUCED if holds else f"{DIFFERS}: {why_not}"
