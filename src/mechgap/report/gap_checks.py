"""Whether a gap file is whole: tensors that are missing or misshapen are named and left out, the rest can be shown."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from mechgap.faithfulness.mechanistic_gap import Gap
from mechgap.training.result import Table

NEEDED = ("lengths", "attention", "inputs/adj")  # without these nothing can be shown step by step


def checked_gap(gap: Gap, file: Path) -> tuple[Gap, list[str]]:
    """The gap with all that is sound in it, and a line for everything that is not."""
    check = _Check(file, len(gap.members["seed"]))
    members = {k: x for k, x in gap.members.items() if check.shape(f"members/{k}", x, (check.members,))}
    measures = {
        split: {k: x for k, x in table.items() if check.shape(f"measures/{split}/{k}", x, (check.members,))}
        for split, table in gap.measures.items()
    }
    curves = {
        split: {k: x for k, x in table.items() if check.shape(f"curves/{split}/{k}", x, (check.members, -1))}
        for split, table in gap.curves.items()
    }
    _check_names(check, gap, measures)
    distances = gap.distances
    if not check.shape("distances", distances, (-1, check.members, check.members)):
        distances = np.zeros((0, check.members, check.members), np.float32)
    if "test_best" not in members and "score" not in measures.get("test", {}):
        check.say("lacks members/test_best and measures/test/score; there is no score to set against faithfulness.")
    whole = replace(
        gap, members=members, measures=measures, curves=curves, distances=distances, shown=_shown(check, gap.shown)
    )
    return whole, check.problems


class _Check:
    def __init__(self, file: Path, members: int) -> None:
        self.file, self.members = file, members
        self.problems: list[str] = []

    def say(self, what: str) -> None:
        self.problems.append(f"{self.file} {what}")

    def lacks(self, names: list[str]) -> None:
        if names:
            self.say(f"lacks {', '.join(names)}.")

    def shape(self, name: str, x: np.ndarray, expected: tuple[int, ...]) -> bool:
        fits = x.ndim == len(expected) and all(e in (-1, d) for e, d in zip(expected, x.shape, strict=True))
        if not fits:
            said = " x ".join("any" if e < 0 else str(e) for e in expected)
            self.say(f"holds {name} with shape {list(x.shape)}; {said} was expected.")
        return fits


def _check_names(check: _Check, gap: Gap, measures: dict[str, Table]) -> None:
    """Every split has the same measures, and curves and baselines are of measures that are there."""
    splits = set(gap.about.get("splits", {})) | set(gap.curves) | set(gap.baselines)
    check.lacks([f"all of measures/{split}" for split in sorted(splits - set(measures))])
    everywhere = {name for table in gap.measures.values() for name in table}
    everywhere |= {name for table in gap.curves.values() for name in table}
    everywhere |= {name for tables in gap.baselines.values() for table in tables.values() for name in table}
    for split in gap.measures:
        check.lacks([f"measures/{split}/{name}" for name in sorted(everywhere - set(gap.measures[split]))])
    drawn = {name for table in gap.curves.values() for name in table}
    for split in gap.curves:
        check.lacks([f"curves/{split}/{name}" for name in sorted(drawn - set(gap.curves[split]))])


def _shown(check: _Check, shown: Table) -> Table:
    """What the viewer needs; nothing of it where a part is missing without which the rest means nothing."""
    if not shown:
        return {}
    lacking = [f"shown/{name}" for name in NEEDED if name not in shown]
    attention = shown.get("attention")
    if attention is not None and not check.shape("shown/attention", attention, (check.members, -1, -1, -1, -1, -1)):
        return {}
    check.lacks(lacking)
    if lacking or attention is None:
        return {}
    _, steps, samples, _, n, _ = attention.shape
    kept = dict(shown)
    expected = {
        "lengths": (samples,),
        "inputs/adj": (samples, n, n),
        "star": (steps, samples, -1, n, n),
        "decisive": (steps, samples, -1, n),
    }
    for name, sizes in expected.items():
        if name in kept and not check.shape(f"shown/{name}", kept[name], sizes):
            del kept[name]
    if not all(name in kept for name in NEEDED):
        return {}
    if ("star" in kept) != ("decisive" in kept):
        check.lacks(["shown/decisive" if "star" in kept else "shown/star"])
        kept = {k: x for k, x in kept.items() if k not in ("star", "decisive")}
    return _shown_hints(check, kept, steps, samples)


def _shown_hints(check: _Check, shown: Table, steps: int, samples: int) -> Table:
    """Predicted hints go with true ones; where none is predicted, that is how the network was trained."""
    predicted = {k.removeprefix("hints/") for k in shown if k.startswith("hints/")}
    true = {k.removeprefix("truth/") for k in shown if k.startswith("truth/")}
    if predicted:
        check.lacks([f"shown/hints/{name}" for name in sorted(true - predicted)])
    check.lacks([f"shown/truth/{name}" for name in sorted(predicted - true)])
    for name in predicted:
        x = shown[f"hints/{name}"]
        if not check.shape(f"shown/hints/{name}", x, (check.members, steps, samples, *x.shape[3:])):
            true = true - {name}
    both = predicted & true
    return {k: x for k, x in shown.items() if k.split("/")[0] not in ("hints", "truth") or k.split("/", 1)[1] in both}
