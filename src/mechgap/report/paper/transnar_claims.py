"""What TransNAR's paper and a summary of it claim in words, beside what our models do."""

from collections.abc import Mapping, Sequence

import numpy as np

from mechgap.report.paper.transnar_gains import JUDGED, judged_line, undecided, verdict_on, with_reserve
from mechgap.report.paper.transnar_growing import at_times_the_largest
from mechgap.report.paper.transnar_results import COUNTED, ERRORS, MAIN, WITHOUT_GAIN, Gain, Results, merged
from mechgap.report.paper.verdicts import IMPOSSIBLE, NEVER, SHOWN, SMALL, Found, Line
from mechgap.training.transnar.evaluation import AS_TRAINED

SUMMARY_GAIN, SUMMARY_FACTOR, PAPER_GAIN, SEVERAL = 11.0, 4, 20.0, 3
NOTHING = 1.0  # percent: who knows less answers nothing right
EMERGING = ("graham_scan", "jarvis_march", "mst_prim")


def claims(results: Results) -> Found:
    """What is claimed in words."""
    claimed = f"up to {SUMMARY_GAIN:.0f} % (summary)"
    four = _larger_inputs(results)
    if not results.has("transnar", "transformer"):
        return [Line("Gain in CLRS score", claimed, verdict=NEVER), four], []
    sizes = [n for n in results.sizes(*MAIN) if n <= max(JUDGED)]
    if not {*JUDGED} <= {*sizes}:
        asked = f"{SMALL}: not asked at both {JUDGED[0]} and {JUDGED[1]}"
        return [Line("Gain in CLRS score", claimed, verdict=asked), four], []
    gains = {n: results.gain("transnar", "transformer", n) for n in sizes}
    known = results.algorithms("transnar")
    lines = [_summary_gain(results, gains, claimed), _large_gains(results, sizes)]
    lines += [_emergence(results, name) for name in EMERGING if name in known]
    lines += [_no_gain(results, name) for name in WITHOUT_GAIN if name in known]
    if results.has(*COUNTED):
        lines.append(_capped(results))
    return [*lines, four], []


def _capped(results: Results) -> Line:
    """Whether TransNAR with counted positions knows nothing where its Transformer does."""
    mine, plain = COUNTED
    cases = [
        (n, name)
        for n in results.sizes(mine, plain)
        if n in JUDGED
        for name, score in merged(results.table(plain, n)).items()
        if score < NOTHING
    ]
    seeds = [slice(i, i + 1) for i in range(len(results.models[mine]["metrics"]["scores"]["models"][AS_TRAINED]))]
    more: list[str] = []
    surely = False  # somewhere every network has more
    for n, name in cases:
        score, before = (merged(results.table(model, n))[name] for model in COUNTED)
        if score < NOTHING:
            continue
        keys = ("clrs", "error")
        scores, errors = ([merged(results.table(mine, n, key, seeds=one)) for one in seeds] for key in keys)
        by_seed = " and ".join(f"{one[name]:.1f}" for one in scores)
        more.append(f"{name} {before:.1f} → {score:.1f} ({by_seed}) at {n}")
        far = (ERRORS * one.get(name, np.inf) for one in errors)
        surely |= all(one[name] - NOTHING > least for one, least in zip(scores, far, strict=True))
    said = "; ".join([f"in {len(cases) - len(more)} of {len(cases)} cases nothing either", *more])
    if not cases:
        verdict = f"{SHOWN}: there is no such case"
    elif more and not surely:
        why = "not decided; nowhere has every network more by two standard errors over questions"
        verdict = undecided(results, COUNTED, why)
    else:
        why = "somewhere every network has more than that by two standard errors over questions"
        verdict = verdict_on(results, COUNTED, not more, why)
    label = f"Counted positions: TransNAR where its Transformer has less than {NOTHING:.0f} %, at 10 or 14"
    return Line(label, "nothing either", said, networks=results.networks(*COUNTED), verdict=verdict)


def _larger_inputs(results: Results) -> Line:
    """What the paper cannot have seen, and what small models do at that size."""
    verdict = (
        f"{IMPOSSIBLE}: the paper trains on n of 4 to 8 and 12 and tests at 10, 12 and 14, at most 14/12 = 1.2 times "
        f"the largest of training; see the item on larger n for ours"
    )
    ours, networks = at_times_the_largest(results, SUMMARY_FACTOR)
    paper = f"up to {SUMMARY_FACTOR}x (summary)"
    return Line(f"{SUMMARY_FACTOR}x larger inputs", paper, ours, networks=networks, verdict=verdict)


def _large_gains(results: Results, sizes: Sequence[int]) -> Line:
    """How many algorithms gain more than the paper says that several do, and more than their questions could make."""
    # The error of two algorithms that count as one is the mean of theirs, as if they had the same questions.
    found = [(merged(_apart(results, n)), merged(_errors(results, n))) for n in sizes]
    names = list(found[0][0])
    above = sorted(a for a in names if any(gained[a] - PAPER_GAIN > ERRORS * error[a] for gained, error in found))
    within = sorted(a for a in names if a not in above and any(gained[a] > PAPER_GAIN for gained, _ in found))
    said = f"{len(above)} of {len(names)}: {', '.join(above)}" if above else f"none of {len(names)}"
    said += f"; by no more than two standard errors: {', '.join(within)}" if within else ""
    odd = [a for a in (*above, *within) if a in WITHOUT_GAIN]
    said += f" (without a gain in the paper: {', '.join(odd)})" if odd else ""
    paper = f"more than {PAPER_GAIN:.0f} points on several"
    few = f"by more than two standard errors over questions, fewer than {SEVERAL} algorithms, which we call several"
    return judged_line(results, "Large gains, at any of the sizes", paper, said, "", len(above) >= SEVERAL, few)


def _no_gain(results: Results, name: str) -> Line:
    """Whether there is none where the paper has none."""
    gains = {n: _apart(results, n)[name] for n in JUDGED}
    errors = {n: _errors(results, n)[name] for n in JUDGED}
    said = ", ".join(f"{gain:+.1f} at {n}" for n, gain in gains.items())
    if all(gain <= ERRORS * errors[n] for n, gain in gains.items()):
        # That no gain is seen among few questions does not show that there is none.
        within = " and ".join(f"{ERRORS * error:.1f}" for error in errors.values())
        verdict = undecided(results, MAIN, f"within two standard errors over questions, {within}")
    else:
        verdict = verdict_on(results, MAIN, False, "there is a gain of more than two standard errors over questions")
    return Line(f"{name}: no gain", "none", said, networks=results.networks(*MAIN), verdict=verdict)


def _summary_gain(results: Results, gains: Mapping[int, Gain], claimed: str) -> Line:
    """What the summary says and the paper does not: whether it is reached, excluded, or neither."""
    reached = {n: gain for n, gain in gains.items() if gain.counts and gain.mean >= SUMMARY_GAIN}
    largest = max(reached or gains, key=lambda n: (not gains[n].reserve, gains[n].mean) if reached else gains[n].mean)
    said = ", ".join(f"{gain} at {n}" for n, gain in gains.items())
    if reached:
        verdict = with_reserve(verdict_on(results, MAIN, True, ""), gains[largest].reserve)
    elif all(gain.ends[1] < SUMMARY_GAIN for gain in gains.values()):
        verdict = verdict_on(results, MAIN, False, "it is above all our intervals; the paper has no such number")
    else:
        verdict = undecided(results, MAIN, "neither reached nor excluded; the paper has no such number")
    label = "Gain in CLRS score, points of the mean over algorithms"
    return Line(
        label, claimed, said, f"{gains[largest].interval} at {largest}", results.networks(*MAIN), verdict=verdict
    )


def _emergence(results: Results, name: str) -> Line:
    """Whether TransNAR knows answers where the Transformer has none but by chance."""
    holds, said = False, []
    for n in JUDGED:
        plain, mine = (results.table(model, n)[name] for model in ("transformer", "transnar"))
        floor, error = results.beside("transnar", n, "exact", "floor")[name], _error(results, "transnar", n, name)
        holds |= plain < floor and mine - floor > ERRORS * error
        said.append(f"{plain:.1f} → {mine:.1f} ± {error:.1f} at {n} (floor {floor:.1f})")
    why = (
        "at no size is TransNAR above the best constant answer by more than two standard errors over questions while "
        "the Transformer is below"
    )
    paper = "only TransNAR above the best constant answer, at 10 or 14"
    return judged_line(results, f"{name}: answers emerge", paper, ", ".join(said), "", holds, why)


def _apart(results: Results, n: int) -> dict[str, float]:
    mine, theirs = results.table("transnar", n), results.table("transformer", n)
    return {name: mine[name] - theirs[name] for name in mine}


def _errors(results: Results, n: int) -> dict[str, float]:
    """Algorithm -> the standard error of the difference of two models, over its questions."""
    names = results.table("transnar", n)
    return {a: float(np.hypot(_error(results, MAIN[0], n, a), _error(results, MAIN[1], n, a))) for a in names}


def _error(results: Results, model: str, n: int, name: str) -> float:
    """The standard error of one model's score, over questions: seeds have the same ones, and do not narrow it."""
    return results.table(model, n, "error").get(name, np.inf)
