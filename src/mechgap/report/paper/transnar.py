"""TransNAR: what the paper and its summary claim, what ours come to, and the controls that the paper lacks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.algorithms.inputs import nearest
from mechgap.report.paper.catalogue import Item
from mechgap.report.paper.lines import Comparison
from mechgap.report.paper.transnar_results import (
    ALONE,
    ERRORS,
    FOLDER,
    STUDIES,
    Gain,
    Results,
    by_algorithm,
    means,
    model_name,
    overview,
    planned_study,
    score_name,
)
from mechgap.report.paper.verdicts import DIFFERS, IMPOSSIBLE, NEVER, PERCENT, REPRODUCED, SHOWN, SMALL, Details, Line
from mechgap.training.config import parse_toml
from mechgap.training.transnar.study import Study, ask_reasoner, read_study, run_study
from mechgap.training.transnar.summary import ASKED_ALONE, bring_reasoners, write_summary

PREFIX = "transnar-"
MAIN = ("transnar", "transformer")
JUDGED = (10, 14)  # sizes of the claim
TEACHER = 0  # the seed that answers for the student
SUMMARY_GAIN, SUMMARY_FACTOR, PAPER_GAIN, SEVERAL = 11.0, 4, 20.0, 3
EMERGING, WITHOUT_GAIN = ("graham_scan", "jarvis_march", "mst_prim"), ("binary_search", "minimum")
Say = Callable[[str], None]
Found = tuple[list[Line], list[Details]]


def is_transnar(name: str) -> bool:
    """Whether an item is one of TransNAR's."""
    return name.startswith(PREFIX)


def transnar_items() -> list[str]:
    """Their names, e.g. transnar-grid."""
    return [f"{PREFIX}{name}" for name in _document()]


def run_transnar_item(
    name: str, preset: str, folder: Path, *, runs: Path, changes: Mapping[str, Any] | None = None, say: Say = print
) -> None:
    """Train the models that an item needs and a folder lacks."""
    from mechgap.report.text_models import compiled_reasoner

    kept, needed = Results(folder), NEEDED[_checked(name)]
    study, place = read_study(STUDIES[preset], changes, needed), runs / FOLDER
    if _checked(name) == "reasoners":
        _run_reasoners(study, folder, place, kept, say)
        return
    as_asked = {model: config.as_json() for model, config in study.models.items() if model in needed}
    done = kept.has(*needed) and all(kept.models[model]["config"] == config for model, config in as_asked.items())
    if done and (_checked(name) != "growing" or _has_growing(kept)):
        say(f"{name}: finished before")
        return
    for one in bring_reasoners(study, folder / FOLDER, place):
        say(f"the reasoner {one!r} comes along, and is not trained again")
    run_study(study, place, compiled=compiled_reasoner, watch=say)
    write_summary(study, place, folder / FOLDER)


def _run_reasoners(study: Study, folder: Path, place: Path, kept: Results, say: Say) -> None:
    """Train the reasoners that a folder lacks, and ask each of them alone."""
    missing = [
        one
        for one, config in study.reasoners.items()
        if kept.reasoners.get(one, {}).get("name") != config.name() or ASKED_ALONE not in kept.reasoners[one]
    ]
    if not missing:
        say("reasoners: finished before")
        return
    for one in bring_reasoners(study, folder / FOLDER, place):
        say(f"the reasoner {one!r} comes along, and is not trained again")
    for one in missing:
        ask_reasoner(study, one, place, watch=say)
        write_summary(study, place, folder / FOLDER)


def transnar_table(name: str, folder: str | Path) -> Comparison:
    """One item, from the results in a folder."""
    entry, results = _document()[_checked(name)], Results(folder)
    needed = NEEDED[_checked(name)]
    missing = [model for model in needed if not results.has(model)]
    lines, details = ITEMS[_checked(name)](results)
    ran = [results.models[model] for model in needed if results.has(model)]
    networks = ", ".join(dict.fromkeys(str(model["config"]["seeds"]) for model in ran)) or "-"
    date = max((model["manifest"].get("date", "-") for model in ran), default="-")
    if missing:
        lines.append(Line(f"Not measured yet: {', '.join(missing)}", verdict=NEVER))
    small = any(SMALL in line.verdict for line in lines)
    about = [entry.get("about", "").strip(), results.how_trained(needed)]
    if results.has("transnar", "transformer") and _checked(name) in ("grid", "claims"):
        about += [results.learned("transnar", "transformer"), results.below_floor("transnar", "transformer")]
    item = Item(name, entry["title"], {}, about="\n\n".join(part for part in about if part))
    return Comparison(item, tuple(lines), tuple(d for d in details if d.rows), networks, date, small)


def grid(results: Results) -> Found:
    """The 2 x 2, and whether the main claim holds."""
    lines: list[Line] = []
    if results.has("transnar", "transformer"):
        for n in results.sizes("transnar"):
            for key in ("clrs", "shape"):
                label = f"TransNAR above the Transformer, {score_name(key)}, n = {n}"
                lines.append(_gain_line(results, label, "transnar", "transformer", n, key, judged=n <= max(JUDGED)))
    if results.has("transnar", "transformer", "transnar_shuffled"):
        for n in results.sizes("transnar"):
            label = f"the same with shuffled states, CLRS, n = {n}"
            lines.append(_gain_line(results, label, "transnar_shuffled", "transformer", n))
        lines.insert(0, _claim(results))
    for name in ("transformer", "transnar"):
        counted = f"{name}_counted_positions"
        if results.has(name, counted):
            for n in results.sizes(name):
                label = f"{model_name(name)}: randomised above counted positions, CLRS, n = {n}"
                lines.append(_gain_line(results, label, name, counted, n, judged=n in JUDGED))
    models = [name for name in NEEDED["grid"] if results.has(name)]
    return lines, [overview(results, models), *by_algorithm(results, models)]


def _claim(results: Results) -> Line:
    """The whole claim in one verdict."""
    sizes = [n for n in JUDGED if n in results.sizes("transnar")]
    names = ("transnar", "transformer", "transnar_shuffled")
    gains = {n: results.gain("transnar", "transformer", n) for n in sizes}
    shuffled = {n: results.gain("transnar_shuffled", "transformer", n) for n in sizes}
    problems = [f"at {n} {gains[n].words}" for n in sizes if not gains[n].counts]
    problems += [f"with shuffled states there is a gain at {n}, too" for n in sizes if shuffled[n].counts]
    above = {n: results.gain("transnar", "transnar_shuffled", n) for n in sizes}
    problems += [f"above shuffled states at {n} {above[n].words}" for n in sizes if not above[n].counts]
    said = ", ".join(f"{gains[n]} and shuffled {shuffled[n]} at {n}" for n in sizes)
    verdict = _verdict(results, names, not problems, "; ".join(problems)) if sizes == list(JUDGED) else SMALL
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
            for n in results.sizes("transnar"):
                lines.append(_gain_line(results, f"TransNAR above {words}, CLRS, n = {n}", "transnar", other, n))
    for where in ("first", "last", "every_second"):
        if results.has("transnar", "transformer", f"transnar_{where}"):
            for n in results.sizes("transnar"):
                label = f"cross-attention {where.replace('_', ' ')} only, above the Transformer, CLRS, n = {n}"
                lines.append(_gain_line(results, label, f"transnar_{where}", "transformer", n))
    models = [name for name in NEEDED["controls"] if results.has(name)]
    return lines, [overview(results, models, every_way=True)]


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
    most = {a: max(apart[n][a] for n in sizes) for a in apart[sizes[0]]}
    above = sorted(a for a, gained in most.items() if gained > PAPER_GAIN)
    said = f"{len(above)} of {len(most)}: {', '.join(above)}" if above else f"none of {len(most)}"
    odd = [a for a in above if a in WITHOUT_GAIN]
    said += f" (without a gain in the paper: {', '.join(odd)})" if odd else ""
    paper, few = (
        f"more than {PAPER_GAIN:.0f} points on several",
        f"fewer than {SEVERAL} algorithms, which we call several",
    )
    lines.append(_judged(results, "Large gains, at any of the sizes", paper, said, "", len(above) >= SEVERAL, few))
    for name in (a for a in EMERGING if a in most):
        lines.append(_emergence(results, name))
    for name in (a for a in WITHOUT_GAIN if a in most):
        judged = [n for n in JUDGED if n in sizes]
        within = [f"{ERRORS * _error(results, n, name):.1f}" for n in judged]
        said = ", ".join(f"{apart[n][name]:+.1f} at {n}" for n in judged)
        if all(apart[n][name] <= ERRORS * _error(results, n, name) for n in judged):
            # That no gain is seen among few questions does not show that there is none.
            verdict = f"{SHOWN}: within two standard errors over questions, {' and '.join(within)}"
        else:
            verdict = _verdict(results, MAIN, False, "there is a gain")
        lines.append(Line(f"{name}: no gain", "none", said, networks=results.networks(*MAIN), verdict=verdict))
    return [*lines, four], []


def _summary_gain(results: Results, gains: Mapping[int, Gain], claimed: str) -> Line:
    """What the summary says and the paper does not: whether it is reached, excluded, or neither."""
    largest = max(gains, key=lambda n: gains[n].mean)
    said = ", ".join(f"{gain} at {n}" for n, gain in gains.items())
    if any(gain.counts and gain.mean >= SUMMARY_GAIN for gain in gains.values()):
        verdict = _verdict(results, MAIN, True, "")
    elif all(gain.ends[1] < SUMMARY_GAIN for gain in gains.values()):
        verdict = _verdict(results, MAIN, False, "it is above all our intervals; the paper has no such number")
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
    return _judged(results, f"{name}: answers emerge", paper, said, "", holds, why)


def compiled(results: Results) -> Found:
    """An exact reasoner against a trained one."""
    exact, trained = "transnar_compiled", "transnar_eight"
    if not results.has(exact, trained):
        return [], []
    lines = [_helps_more(results, exact, trained)]
    lines += [
        _gain_line(results, f"exact above trained reasoner, {score_name(key)}, n = {n}", exact, trained, n, key)
        for n in results.sizes(exact)
        for key in ("clrs", "shape")
    ]
    models = [trained, exact]
    if results.has("transformer"):
        models = ["transformer", *models]
        lines += [
            _gain_line(results, f"{words} reasoner above none, CLRS, n = {n}", name, "transformer", n)
            for n in results.sizes(exact)
            for name, words in ((trained, "trained"), (exact, "exact"))
        ]
    known = results.algorithms(exact)
    return lines, [overview(results, [trained, exact]), *by_algorithm(results, models, known)]


def _helps_more(results: Results, exact: str, trained: str) -> Line:
    """The question in one line."""
    gains = {n: results.gain(exact, trained, n) for n in results.sizes(exact)}
    said = ", ".join(f"{gain} at {n}" for n, gain in gains.items())
    more, less = (
        [str(n) for n, gain in gains.items() if abs(gain.mean) > ERRORS * gain.error and (gain.mean > 0) == up]
        for up in (True, False)
    )
    if results.unlike(exact, trained) or results.asked_closer(exact, trained):
        verdict = _verdict(results, (exact, trained), False, "")
    elif not more and not less:
        verdict = f"{SHOWN}: no, and no less; all differences are within two standard errors over algorithms"
    else:
        verdict = f"{SHOWN}: more at n = {', '.join(more) or 'none'}, less at n = {', '.join(less) or 'none'}"
    label = "Does an exact reasoner help more than a trained one? CLRS"
    return Line(label, "", said, networks=results.networks(exact, trained), verdict=verdict)


def unseen(results: Results) -> Found:
    """Algorithms that the reasoner has no encoders for."""
    mine = "transnar_unseen"
    if not results.has(mine, "transnar", "transformer"):
        return [], []
    known = set(results.beside(mine, results.sizes(mine)[0], "reasoner"))
    never = [a for a in results.algorithms(mine) if a not in known]
    lines = [
        _gain_line(results, f"{words}, above the Transformer, CLRS, n = {n}", mine, "transformer", n, names=some)
        for words, some in ((f"never seen ({', '.join(never)})", never), ("seen", sorted(known)))
        for n in results.sizes(mine)
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
    for n in results.sizes(student):
        lines.append(_gain_line(results, f"student above the Transformer, CLRS, n = {n}", student, "transformer", n))
    if results.has("transnar"):
        who = "its teacher" if _taught_it(results.models["transnar"], results.models[student]) else "TransNAR"
        for n in results.sizes(student):
            label = f"student above {who}, CLRS, n = {n}"
            lines.append(_gain_line(results, label, student, "transnar", n, of_other=slice(TEACHER, TEACHER + 1)))
    if results.has(right):
        for n in results.sizes(student):
            label = f"student above one with right answers, CLRS, n = {n}"
            lines.append(_gain_line(results, label, student, right, n))
        for n in results.sizes(student):
            label = f"one with right answers above the Transformer, CLRS, n = {n}"
            lines.append(_gain_line(results, label, right, "transformer", n))
    models = [name for name in NEEDED["distillation"] if results.has(name)]
    taught = results.models[student]["metrics"].get("teacher_right", {})
    rows = tuple((n, f"{PERCENT * share:.1f}") for n, share in taught.items())
    return lines, [
        Details("What the student is told, by n", ("n", "mean CLRS score, %"), rows),
        overview(results, models),
    ]


def growing(results: Results) -> Found:
    """How far questions can grow, and how scores fall."""
    models = ["transformer", "transnar"]
    if not _has_growing(results):
        never = results.has(*models)  # otherwise it is said that there are no such models
        return [Line("Not measured yet: questions at rising n", verdict=NEVER)] if never else [], []
    found = [results.models[name]["metrics"]["growing"] for name in models]
    sizes, rows = found[0]["evaluation"]["sizes"], []
    for name in results.algorithms("transformer"):
        cells = []
        for n in sizes:
            scores = [means([r["by_size"].get(str(n), []) for r in f["models"]], "clrs").get(name) for f in found]
            floor = means([found[1]["models"][0]["by_size"].get(str(n), [])], "floor").get(name)
            known = None not in scores and floor is not None
            cells.append(f"{scores[0]:.0f} → {scores[1]:.0f} ({floor:.0f})" if known else "")
        last, long = found[0]["last"][name], found[0]["too_long"][name]
        rows.append((name, str(last or "none"), str(long or "none"), *cells))
    context = found[0]["context"]
    header = ("algorithm", "last n that fits", "first that does not", *(f"n = {n}" for n in sizes))
    count = found[0]["evaluation"]["count"]
    title = f"Context of {context} tokens, {count} questions each, among the sizes {', '.join(map(str, sizes))}"
    return [], [Details(title, header, tuple(rows))]


def reasoners(results: Results) -> Found:
    """What reasoners know without any text model."""
    planned = planned_study().reasoners
    asked = {name: results.reasoners[name] for name in planned if ASKED_ALONE in results.reasoners.get(name, {})}
    lines = []
    for name, about in asked.items():
        by_size, config = about[ASKED_ALONE]["by_size"], about["config"]
        scores = {n: list(means([rows], "clrs").values()) for n, rows in by_size.items()}
        floors = {n: list(means([rows], "floor").values()) for n, rows in by_size.items()}
        said = ", ".join(f"{np.mean(x):.1f} ({np.mean(floors[n]):.1f}) at {n}" for n, x in scores.items())
        count, network = len(config["algorithms"]), config["network"]["processor"]
        label = f"{name.replace('_', ' ')}: {network}, {count} algorithms, CLRS score (best constant answer)"
        verdict = SHOWN if config == planned[name].as_json() else SMALL
        lines.append(Line(label, "", said, networks=str(config["seeds"]), verdict=verdict))
    if missing := [name for name in planned if name not in asked]:
        lines.append(Line(f"Not measured yet: {', '.join(missing)}", verdict=NEVER))
    trained = [
        (
            name.replace("_", " "),
            about["config"]["network"]["processor"],
            str(about["config"]["steps"]),
            str(about["config"]["batch"] * about["config"]["algorithms_per_step"]),
            f"{about['manifest']['times']['train_s']:.0f}",
            about["manifest"]["device"]["kind"],
        )
        for name, about in asked.items()
    ]
    header = ("reasoner", "processor", "steps", "samples a step", "s to train", "device")
    return lines, [Details("How they were trained", header, tuple(trained)), *_reasoner_tables(asked)]


def _reasoner_tables(asked: Mapping[str, Any]) -> Iterable[Details]:
    """Scores by algorithm, a table for every number of nodes."""
    for n in sorted({int(n) for about in asked.values() for n in about[ASKED_ALONE]["by_size"]}):
        rows = {name: about[ASKED_ALONE]["by_size"].get(str(n), []) for name, about in asked.items()}
        scores = {name: means([mine], "clrs") for name, mine in rows.items()}
        floors = {name: floor for mine in rows.values() for name, floor in means([mine], "floor").items()}
        cells = [
            (one, *(f"{mine[one]:.1f}" if one in mine else "" for mine in scores.values()), f"{floors[one]:.1f}")
            for one in sorted(floors)
        ]
        header = ("algorithm", *(name.replace("_", " ") for name in scores), "best constant answer")
        yield Details(f"CLRS score of their own answers in percent at n = {n}", header, tuple(cells))


def _has_growing(results: Results) -> bool:
    return all("growing" in results.models.get(name, {}).get("metrics", {}) for name in MAIN)


# Item -> the models that it needs.
NEEDED = {
    "grid": (
        *("transformer", "transnar", "transformer_counted_positions", "transnar_counted_positions"),
        "transnar_shuffled",
    ),
    "controls": (
        *("transformer", "transformer_deep", "transnar", "transnar_shuffled"),
        *("transnar_first", "transnar_last", "transnar_every_second"),
    ),
    "claims": ("transformer", "transnar"),
    "compiled": ("transnar_eight", "transnar_compiled"),
    "unseen": ("transformer", "transnar", "transnar_unseen"),
    "distillation": ("transformer", "transnar", "student", "student_of_right_answers"),
    "growing": ("transformer", "transnar"),
    "reasoners": (),
}
ITEMS: dict[str, Callable[[Results], Found]] = {
    "grid": grid,
    "controls": controls,
    "claims": claims,
    "compiled": compiled,
    "unseen": unseen,
    "distillation": distillation,
    "growing": growing,
    "reasoners": reasoners,
}


def _gain_line(
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
    if judged or results.unlike(name, other) or results.asked_closer(name, other):
        verdict = _verdict(results, (name, other), gain.counts, gain.words)
    else:
        verdict = f"{SHOWN}: {gain.words}"
    paper, networks = "above" if judged else "", results.networks(name, other, of_other=of_other)
    return Line(label, paper, str(gain), gain.interval, networks, verdict=verdict)


def _judged(
    results: Results, label: str, paper: str, ours: str, interval: str, holds: bool | np.bool_, why_not: str
) -> Line:
    return Line(label, paper, ours, interval, results.networks(*MAIN), "", _verdict(results, MAIN, holds, why_not))


def _verdict(results: Results, names: Sequence[str], holds: bool | np.bool_, why_not: str) -> str:
    if differing := results.unlike(*names):
        return f"{SMALL}: they were trained with different {', '.join(differing)}"
    if results.asked_closer(*names):
        return f"{SMALL}: asked with positions closer together than in training"
    if not results.comparable(*names):
        return SMALL
    return REPRODUCED if holds else f"{DIFFERS}: {why_not}"


def _apart(results: Results, n: int) -> dict[str, float]:
    mine, theirs = results.table("transnar", n), results.table("transformer", n)
    return {name: mine[name] - theirs[name] for name in mine}


def _error(results: Results, n: int, name: str) -> float:
    """The standard error of the difference of two models on one algorithm, over its questions."""
    mine, theirs = (results.table(model, n, "error").get(name, np.inf) for model in ("transnar", "transformer"))
    return float(np.hypot(mine, theirs))


def _checked(name: str) -> str:
    known = name.removeprefix(PREFIX)
    if known not in ITEMS:
        raise ValueError(f"TransNAR has no {name!r} here. {nearest(name, transnar_items())}")
    return known


@cache
def _document() -> dict[str, Any]:
    return parse_toml((files("mechgap.experiments") / "transnar" / "items.toml").read_text(), "transnar/items.toml")
