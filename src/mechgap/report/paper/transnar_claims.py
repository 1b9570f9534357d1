"""What TransNAR's paper and its summary claim in words, beside what our models do."""

from collections.abc import Mapping

import numpy as np

from mechgap.report.paper.transnar_gains import JUDGED, judged_line, verdict_on
from mechgap.report.paper.transnar_results import ERRORS, MAIN, WITHOUT_GAIN, Gain, Results, merged
from mechgap.report.paper.verdicts import IMPOSSIBLE, NEVER, SHOWN, SMALL, Found, Line

SUMMARY_GAIN, SUMMARY_FACTOR, PAPER_GAIN, SEVERAL = 11.0, 4, 20.0, 3
EMERGING = ("graham_scan", "jarvis_march", "mst_prim")


def claims(results: Results) -> Found:
    """What is claimed in words."""
    claimed = f"up to {SUMMARY_GAIN:.0f} % (summary)"
    factor = (
        f"{IMPOSSIBLE}: the paper trains on n of 4 to 8 and 12 and tests at 10, 12 and 14, at most 14/12 = 1.2 times "
        f"the largest of training; see the item on larger n for ours"
    )
    four = Line(f"{SUMMARY_FACTOR}x larger inputs", f"up to {SUMMARY_FACTOR}x (summary)", verdict=factor)
    if not results.has("transnar", "transformer"):
        return [Line("Gain in CLRS score", claimed, verdict=NEVER), four], []
    sizes = [n for n in results.sizes("transnar") if n <= max(JUDGED)]
    if not sizes:
        return [Line("Gain in CLRS score", claimed, verdict=f"{SMALL}: asked at none of the paper's sizes"), four], []
    gains = {n: results.gain("transnar", "transformer", n) for n in sizes}
    lines = [_summary_gain(results, gains, claimed)]
    apart = {n: _apart(results, n) for n in sizes}
    most = merged({a: max(apart[n][a] for n in sizes) for a in apart[sizes[0]]})
    above = sorted(a for a, gained in most.items() if gained > PAPER_GAIN)
    said = f"{len(above)} of {len(most)}: {', '.join(above)}" if above else f"none of {len(most)}"
    odd = [a for a in above if a in WITHOUT_GAIN]
    said += f" (without a gain in the paper: {', '.join(odd)})" if odd else ""
    paper, few = (
        f"more than {PAPER_GAIN:.0f} points on several",
        f"fewer than {SEVERAL} algorithms, which we call several",
    )
    lines.append(judged_line(results, "Large gains, at any of the sizes", paper, said, "", len(above) >= SEVERAL, few))
    for name in (a for a in EMERGING if a in apart[sizes[0]]):
        lines.append(_emergence(results, name))
    for name in (a for a in WITHOUT_GAIN if a in most):
        judged = [n for n in JUDGED if n in sizes]
        within = [f"{ERRORS * _error(results, n, name):.1f}" for n in judged]
        said = ", ".join(f"{apart[n][name]:+.1f} at {n}" for n in judged)
        if all(apart[n][name] <= ERRORS * _error(results, n, name) for n in judged):
            # That no gain is seen among few questions does not show that there is none.
            verdict = f"{SHOWN}: within two standard errors over questions, {' and '.join(within)}"
        else:
            verdict = verdict_on(results, MAIN, False, "there is a gain")
        lines.append(Line(f"{name}: no gain", "none", said, networks=results.networks(*MAIN), verdict=verdict))
    return [*lines, four], []


def _summary_gain(results: Results, gains: Mapping[int, Gain], claimed: str) -> Line:
    """What the summary says and the paper does not: whether it is reached, excluded, or neither."""
    largest = max(gains, key=lambda n: gains[n].mean)
    said = ", ".join(f"{gain} at {n}" for n, gain in gains.items())
    if any(gain.counts and gain.mean >= SUMMARY_GAIN for gain in gains.values()):
        verdict = verdict_on(results, MAIN, True, "")
    elif all(gain.ends[1] < SUMMARY_GAIN for gain in gains.values()):
        verdict = verdict_on(results, MAIN, False, "it is above all our intervals; the paper has no such number")
    else:
        verdict = f"{SHOWN}: neither reached nor excluded; the paper has no such number"
    label = "Gain in CLRS score, points of the mean over algorithms"
    return Line(
        label, claimed, said, f"{gains[largest].interval} at {largest}", results.networks(*MAIN), verdict=verdict
    )


def _emergence(results: Results, name: str) -> Line:
    """Whether TransNAR knows answers where the Transformer has none but by chance."""
    found = {}
    for n in (n for n in results.sizes("transnar") if n in JUDGED):
        plain, with_reasoner = (results.table(model, n)[name] for model in ("transformer", "transnar"))
        floor = results.beside("transnar", n, "exact", "floor")[name]
        found[n] = (plain, with_reasoner, floor)
    holds = any(plain < floor and with_reasoner > floor for plain, with_reasoner, floor in found.values())
    said = ", ".join(f"{a:.1f} → {b:.1f} at {n} (floor {floor:.1f})" for n, (a, b, floor) in found.items())
    why = "at no size is TransNAR above, and the Transformer below, the best constant answer"
    paper = "only TransNAR above the best constant answer, at 10 or 14"
    return judged_line(results, f"{name}: answers emerge", paper, said, "", holds, why)


def _apart(results: Results, n: int) -> dict[str, float]:
    mine, theirs = results.table("transnar", n), results.table("transformer", n)
    return {name: mine[name] - theirs[name] for name in mine}


def _error(results: Results, n: int, name: str) -> float:
    """The standard error of the difference of two models on one algorithm, over its questions."""
    mine, theirs = (results.table(model, n, "error").get(name, np.inf) for model in ("transnar", "transformer"))
    return float(np.hypot(mine, theirs))
