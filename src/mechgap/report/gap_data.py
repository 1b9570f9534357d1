"""What the page's scripts are given: rounded numbers as JSON, and attention and hints as compressed bytes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.cluster import hierarchy

from mechgap.algorithms import algorithm
from mechgap.faithfulness.clusters import COLOUR_SHARE
from mechgap.faithfulness.mechanistic_gap import Gap
from mechgap.report.gap_tables import Analysis
from mechgap.report.gap_words import in_order, label_of, scores
from mechgap.report.page import PageData
from mechgap.trace import Kind, Location, Spec, Variable

DIGITS = 5  # significant; more than any pixel shows
SPREAD = (0.05, 0.95)  # of the networks lie between these


def page_data(runs: Sequence[Analysis]) -> PageData:
    """Everything that is drawn."""
    page = PageData()
    page.values["runs"] = [_run(page, i, analysis) for i, analysis in enumerate(runs)]
    names = {n for a in runs if a.run.gap for table in a.run.gap.measures.values() for n in table}
    page.values["labels"] = {name: label_of(name) for name in in_order(names)}
    return page


def _run(page: PageData, index: int, analysis: Analysis) -> dict[str, Any]:
    run, gap = analysis.run, analysis.run.gap
    values: dict[str, Any] = {"label": run.label, "history": _history(run.history), "landscapes": _landscapes(analysis)}
    if gap is None:
        return values
    score = scores(gap)
    return values | {
        "seeds": gap.members["seed"].tolist(),
        "sound": gap.sound.tolist(),
        "score": None if score is None else _spread_out(score, gap.sound),
        "measures": {s: {k: rounded(x) for k, x in table.items()} for s, table in gap.measures.items()},
        "baselines": {
            s: {b: {k: _number(float(np.mean(x))) for k, x in t.items()} for b, t in tables.items()}
            for s, tables in gap.baselines.items()
        },
        "curves": {s: {k: _band(x[gap.sound]) for k, x in table.items()} for s, table in gap.curves.items()},
        "correlations": {
            s: {k: [_number(c.pearson), _number(c.pearson_p), c.n] for k, c in table.items()}
            for s, table in analysis.correlations.items()
        },
        "clusters": _clusters(page, index, analysis, gap),
        "viewer": _viewer(page, index, gap),
    }


def _viewer(page: PageData, index: int, gap: Gap) -> dict[str, Any] | None:
    """Attention and hints of every network on the shown samples; true hints in the same form as predicted ones."""
    shown = gap.shown
    if not shown:
        return None
    known = _spec_of(gap.algorithm)
    hints = {}
    predicted_names = [k.removeprefix("hints/") for k in shown if k.startswith("hints/")]
    for name in sorted(predicted_names, key=lambda name: [*known, name].index(name)):  # as the algorithm orders them
        variable = known.get(name)
        predicted = shown[f"hints/{name}"]
        kind = variable.kind if variable is not None else _guessed_kind(predicted)
        hints[name] = {
            "kind": str(kind),
            "location": str(variable.location if variable is not None else Location.NODE),
            "predicted": page.keep(f"run{index}-hints-{name}", _plain(predicted)),
            "truth": page.keep(f"run{index}-truth-{name}", _plain(_decoded(kind, shown[f"truth/{name}"]))),
        }
    marks = {
        name: np.argmax(shown[f"inputs/{name}"], axis=-1).tolist()
        for name, variable in known.items()
        if variable.kind == Kind.MASK_ONE and f"inputs/{name}" in shown
    }
    values = {
        "lengths": shown["lengths"].tolist(),
        "adjacency": page.keep(f"run{index}-adjacency", (shown["inputs/adj"] > 0).astype(np.uint8)),
        "attention": page.keep(f"run{index}-attention", shown["attention"].astype(np.uint8)),
        "hints": hints,
        "marks": marks,
        "closest": _closest(gap),
    }
    if "star" in shown:
        values["star"] = page.keep(f"run{index}-star", shown["star"].astype(np.uint8))
        values["decisive"] = page.keep(f"run{index}-decisive", shown["decisive"].astype(np.uint8))
    return values


def _closest(gap: Gap) -> dict[str, Any] | None:
    """The network nearest to the compiled one (Figure 3); without one, that whose hints are right most often."""
    for measure, sign in (("internal/rows", 1), ("external/meant", -1)):
        values = gap.measures.get("validation", {}).get(measure)
        if values is not None and np.isfinite(values[gap.sound]).any():
            ranked = np.where(gap.sound & np.isfinite(values), sign * values, np.inf)
            return {"member": int(np.argmin(ranked)), "measure": measure}
    return None


def _spec_of(name: str) -> Mapping[str, Variable]:
    try:
        spec: Spec = algorithm(name).spec
    except ValueError:  # measured by a mechgap that knows more algorithms
        return {}
    return {variable.name: variable for variable in spec.variables}


def _guessed_kind(predicted: np.ndarray) -> Kind:
    return {"u": Kind.MASK, "i": Kind.POINTER}.get(predicted.dtype.kind, Kind.SCALAR)


def _decoded(kind: Kind, truth: np.ndarray) -> np.ndarray:
    """True hints as the predicted ones are kept: 255 for a mask's 1, an index for one-hot values."""
    match kind:
        case Kind.MASK:
            return np.round(255 * np.clip(truth, 0, 1)).astype(np.uint8)
        case Kind.SCALAR:
            return truth
        case Kind.POINTER:
            return truth.astype(np.int16)
        case _:
            return np.argmax(truth, axis=-1).astype(np.int16)


def _plain(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.dtype.kind == "f" else x


def _clusters(page: PageData, index: int, analysis: Analysis, gap: Gap) -> dict[str, Any] | None:
    found = analysis.clusters
    if found is None or not len(found.linkage):
        return None
    drawn = hierarchy.dendrogram(found.linkage, no_plot=True)
    order = np.array(drawn["leaves"])
    apart = gap.distances.mean(0)[gap.sound][:, gap.sound][order][:, order]
    top = float(apart.max()) or 1.0
    return {
        "members": np.flatnonzero(gap.sound)[order].tolist(),
        "labels": found.labels[order].tolist(),
        "cut": found.cut,
        "height": COLOUR_SHARE,
        "stable": found.stable,
        # scipy puts the leaves at 5, 15, 25, ...; here they stand at 0, 1, 2, ...
        "x": [[_number((x - 5) / 10) for x in link] for link in drawn["icoord"]],
        "y": [[_number(y) for y in link] for link in drawn["dcoord"]],
        "top": _number(top),
        "mean": _number(gap.other_seed()),
        "distances": page.keep(f"run{index}-distances", np.round(255 * apart / top).astype(np.uint8)),
    }


def _landscapes(analysis: Analysis) -> list[dict[str, Any]]:
    return [
        {"name": x.name, "scale": x.scale, "axis": rounded(x.axis), "loss": [rounded(row) for row in x.loss]}
        for x in analysis.run.landscapes
    ]


def _history(history: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    if not history:
        return None
    lost = history.get("diverged")
    bands = {}
    for name in ("loss", "validation"):
        x = history[name].astype(float)
        bands[name] = _band(np.where(lost, np.nan, x).T if lost is not None and lost.shape == x.shape else x.T)
    return {"step": history["step"].tolist(), **bands}


def _band(x: np.ndarray) -> dict[str, list[float | None]]:
    """The mean over networks and between what values most of them lie; [networks, points]."""
    if not len(x):
        return {name: [None] * x.shape[1] for name in ("mean", "low", "high")}
    empty = ~np.isfinite(x).any(0)
    filled = np.where(empty, 0.0, np.where(np.isfinite(x), x, np.nan))  # nanmean warns of columns without any number
    low, high = np.nanquantile(filled, SPREAD, axis=0)
    columns = {"mean": np.nanmean(filled, axis=0), "low": low, "high": high}
    return {name: rounded(np.where(empty, np.nan, column)) for name, column in columns.items()}


def _spread_out(values: np.ndarray, where: np.ndarray) -> list[float | None]:
    column = np.full(len(where), np.nan)
    column[where] = values
    return rounded(column)


def rounded(values: np.ndarray) -> list[float | None]:
    """Numbers for JSON: a few digits, and null for what is not finite."""
    return [_number(float(x)) for x in values]


def _number(x: float) -> float | None:
    return float(f"{x:.{DIGITS}g}") if math.isfinite(x) else None
