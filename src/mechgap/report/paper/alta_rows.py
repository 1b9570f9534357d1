"""Lines of ALTA's tables: the printed share of right answers, ours over so many texts, and what to think of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from mechgap.faithfulness.sequence_presets import SequenceStudy, sequence_studies
from mechgap.faithfulness.sequence_result import SHARPNESSES, VECTORS, SequenceResult, seen_ones, with_heads
from mechgap.faithfulness.sequence_texts import texts_in
from mechgap.networks.transformer import EACH
from mechgap.programs.tasks import published_file
from mechgap.report.alta_shares import interval, percent, tested_on
from mechgap.report.paper.verdicts import DIFFERS, NEVER, NO_REASON, REPRODUCED, SHOWN, SMALL, Line
from mechgap.training.many import ENOUGH

NEAR, SHARE = 5.0, 0.5  # points, and of what is printed: the smaller of both
FEW = 3  # numbers of ones that are named one by one
NO_DATA = "data not available"
DRAWN_OTHERWISE = "longer texts were drawn otherwise"


def has_data(study: SequenceStudy) -> bool:
    """Whether what it is trained on is there; published splits of SCAN are files."""
    file = None if study.split is None else published_file(study.split)
    return file is None or file.exists()


@cache
def planned_studies() -> dict[str, SequenceStudy]:
    """Name -> study, with the paper's settings."""
    return sequence_studies("full")


def row_lines(row: Mapping[str, Any], result: SequenceResult | None) -> list[Line]:
    """A line per slice of the test set; the paper may have no number for it."""
    planned = planned_studies()[row["study"]]
    slices = ("test",) if planned.kind == "scan" else _slices()
    printed = row["paper"] or [""] * len(slices)
    if result is None:
        labels = [f"{row['label']}, {name}" for name in slices]
        verdict = NEVER if has_data(planned) else NO_DATA
        return [Line(x, f"{paper}", verdict=verdict) for x, paper in zip(labels, printed, strict=True)]
    same = is_comparable(result, planned)
    departed = list(departures(result, planned))
    lines: list[Line] = []
    for name, paper in zip(slices, printed, strict=True):
        line = _line(row["label"], name, result)
        if name not in result.metrics[0]:  # shorter texts than the paper's
            lines.append(replace(line, paper=f"{paper}", verdict=SMALL))
            continue
        if not row["paper"]:
            verdict = SHOWN
        elif tested_on(name, result.manifest):
            verdict = f"{SHOWN}: {DRAWN_OTHERWISE}"
        else:
            mean = round(100 * float(np.mean([seed[name] for seed in result.metrics])), 6)  # 55 is within 5 of 50
            verdict = judged(abs(mean - paper) <= min(NEAR, SHARE * paper), departed, row)
            if verdict.startswith(DIFFERS) and (wrong := all_wrong(name, result)):
                verdict += f" ({wrong})"
        if verdict.startswith(REPRODUCED) and lines and lines[0].verdict.startswith(DIFFERS):
            verdict = f"{SHOWN}: it did not learn texts as long as those of training"
        lines.append(replace(line, paper=f"{paper}", verdict=verdict if same else SMALL))
    longest = result.study.train_length
    for name in (seen_ones(longest), VECTORS, *(with_heads(sharpness, longest) for sharpness in SHARPNESSES)):
        if name in result.metrics[0]:
            lines.append(replace(_line(row["label"], name, result), verdict=SHOWN if same else SMALL))
    return lines


def _line(label: str, name: str, result: SequenceResult) -> Line:
    """Ours on a slice, without what the paper says."""
    if name not in result.metrics[0]:
        return Line(f"{label}, {name}")
    shares, count = [seed[name] for seed in result.metrics], texts_in(result).get(name)
    ours = percent(shares) + tested_on(name, result.manifest)
    said = (interval(shares, count), str(len(shares)))
    return Line(f"{label}, {name}", "", ours, *said, texts="" if count is None else str(count))


def is_comparable(result: SequenceResult, planned: SequenceStudy) -> bool:
    """Whether a result is of the planned data and network, trained as planned, for as long as it must be.

    It took all steps, or fewer since all answers that were looked at were right. Seeds may be fewer, and the learning
    rate's schedule, what biases of distances are for, how exactly it was computed, what an MLP was given for undefined
    values, and how sharp compiled heads are beside it may differ.
    """
    found = result.study
    loose = ("steps", "seeds", "first_seed", "chunk", "enough", "schedule")
    recipe = replace(planned.recipe, **{name: getattr(found.recipe, name) for name in loose})
    size = planned.transformer
    if size is not None and found.transformer is not None:
        size = replace(size, distances=found.transformer.distances, precision=found.transformer.precision)
    mlp = planned.mlp
    if mlp is not None and found.mlp is not None:
        mlp = replace(mlp, **{name: getattr(found.mlp, name) for name in ("precision", "undefined", "sharpness")})
    if found != replace(planned, recipe=recipe, transformer=size, mlp=mlp):
        return False
    return result.manifest.get("ended") == ENOUGH or result.manifest["steps"] >= planned.recipe.steps


def departures(result: SequenceResult, planned: SequenceStudy) -> Iterator[str]:
    """What a result that is compared departs from the plan in."""
    found, manifest = result.study, result.manifest
    if manifest.get("ended") == ENOUGH and planned.recipe.enough is None:
        steps = f"{manifest['steps']} of {planned.recipe.steps} steps"
        yield f"ended after {steps}, when all answers that were looked at were right"
    if found.recipe.schedule != planned.recipe.schedule:
        yield f"trained with the learning rate {found.recipe.schedule} (the study has {planned.recipe.schedule} now)"
    if found.mlp is not None and planned.mlp is not None:
        if found.mlp.undefined != planned.mlp.undefined:
            yield f"with undefined values up to {found.mlp.undefined:g} (the study has {planned.mlp.undefined:g} now)"
        if found.mlp.sharpness != planned.mlp.sharpness:
            yield f"with heads of sharpness {found.mlp.sharpness:g} (the study has {planned.mlp.sharpness:g} now)"
    for mine, meant in ((found.mlp, planned.mlp), (found.transformer, planned.transformer)):
        if mine is not None and meant is not None and mine.precision != meant.precision:
            yield f"with products in precision {mine.precision} (the study has {meant.precision} now)"
    if found.transformer is not None and found.transformer.distances == EACH:
        yield "trained with a bias for each distance, not with T5's buckets"


def all_wrong(name: str, result: SequenceResult) -> str:
    """Which numbers of ones a slice is wrong with; empty unless all texts with one number are right, or all wrong."""
    longest = result.study.train_length
    wanted = {f"length <= {longest}": range(longest + 1), f"ones > {longest}": range(longest + 1, 2 * longest + 1)}
    curve = {ones: set(result.curves["right by ones"].get(ones, ())) for ones in wanted.get(name, ())}
    wrong = [ones for ones, shares in curve.items() if shares == {0.0}]
    if not wrong or any(shares not in ({0.0}, {1.0}) for shares in curve.values()):
        return ""
    which = ", ".join(map(str, wrong)) if len(wrong) <= FEW else f"one of {len(wrong)} out of {len(curve)}"
    return f"wrong are all of these texts whose number of ones is {which}, and no others"


def judged(holds: bool, departed: Sequence[str], entry: Mapping[str, Any]) -> str:
    """The verdict: what a result departs from its plan in is said with either one, `because` where it differs."""
    if holds:
        return f"{REPRODUCED}: though {'; '.join(departed)}" if departed else REPRODUCED
    reasons = [*departed, *([entry["because"]] if "because" in entry else [])]
    return f"{DIFFERS}: {'; '.join(reasons) or NO_REASON}"


@cache
def _slices() -> tuple[str, ...]:
    """Of the test set of parity."""
    return tuple(next(iter(planned_studies().values())).task.tests)
