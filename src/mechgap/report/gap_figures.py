"""The figures of the report for papers: SVG, PNG and PDF, drawn by matplotlib from the same values as the page."""

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mechgap.faithfulness.landscape import Landscape
from mechgap.faithfulness.mechanistic_gap import Gap
from mechgap.report.drawing import matplotlib_figure, save_figure
from mechgap.report.gap_data import SPREAD
from mechgap.report.gap_tables import Analysis
from mechgap.report.gap_words import in_order, label_of, main_split, number, scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png", "pdf")
COLOURS = ("#1f66b3", "#c2570c", "#1a7f4b", "#9b3fa0", "#7a6a00", "#5f6b78")  # of runs, as on the page
MARKERS = ("o", "s", "^", "D")
COMPILED, TRAINED = "#0f7b6c", "#c2570c"
SCATTERED = ("internal/rows", "internal/decisive", "external/meant")
CONTOURS = 13
MOST_STEPS = 16  # beside each other
LANDSCAPES = ("learned", "compiled", "initial")


def save_figures(runs: Sequence[Analysis], folder: str | Path) -> list[Path]:
    """Draw every figure that the runs have data for; the files' names say what they show."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in _figures(runs):
        for ending in FORMATS:
            path = folder / f"{name}.{ending}"
            save_figure(figure, path)
            written.append(path)
    return written


def _figures(runs: Sequence[Analysis]) -> Iterator[tuple[str, "Figure"]]:
    measured = [a for a in runs if a.run.gap is not None]
    for name, figure in (("scatter", draw_scatter(measured)), ("curves", draw_curves(measured))):
        if figure is not None:
            yield name, figure
    for analysis in runs:
        label = re.sub(r"[^\w.-]+", "_", analysis.run.label)
        drawn = {
            "dendrogram": draw_dendrogram(analysis),
            "attention": draw_best_match(analysis),
            "landscapes": draw_landscapes(analysis),
        }
        yield from ((f"{what}_{label}", figure) for what, figure in drawn.items() if figure is not None)


def draw_scatter(runs: Sequence[Analysis]) -> "Figure | None":
    """The test score against measures of faithfulness (Figures 1 and 10)."""
    gaps = [(a, a.run.gap) for a in runs if a.run.gap is not None and scores(a.run.gap) is not None]
    names = [n for n in SCATTERED if any(n in gap.measures.get(main_split(gap), {}) for _, gap in gaps)]
    if not names:
        return None
    figure = matplotlib_figure()(figsize=(3.6 * len(names), 3.2), layout="constrained")
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for i, (analysis, gap) in enumerate(gaps):
            split = main_split(gap)
            if name in gap.measures[split]:
                label = f"{analysis.run.label}: r = {number(analysis.correlations[split][name].pearson, 2)}"
                look = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "linewidths": 0}
                axis.scatter(gap.values(name, split), scores(gap), s=16, alpha=0.7, label=label, **look)
        axis.set(xlabel=f"{label_of(name)} ({main_split(gaps[0][1])})", ylabel="test score")
        axis.legend(fontsize=7)
    return figure


def draw_curves(runs: Sequence[Analysis]) -> "Figure | None":
    """Faithfulness over the uniform timescale (Figures 2, 4, 11): a row per split; mean and nine of ten networks."""
    gaps = [(a, a.run.gap) for a in runs if a.run.gap is not None and a.run.gap.curves and a.run.gap.sound.any()]
    splits = [s for s in ("train", "validation", "test") if any(s in gap.curves for _, gap in gaps)]
    every = {name for _, gap in gaps for table in gap.curves.values() for name in table}
    names = [n for n in in_order(every) if not n.startswith("external/printed")]
    if not splits or not names:
        return None
    figure = matplotlib_figure()(figsize=(2.7 * len(names), 2.3 * len(splits)), layout="constrained")
    grid = figure.subplots(len(splits), len(names), squeeze=False, sharex=True, sharey=True)
    for (r, split), (c, name) in ((x, y) for x in enumerate(splits) for y in enumerate(names)):
        axis = grid[r][c]
        for i, (analysis, gap) in enumerate(gaps):
            if name in gap.curves.get(split, {}):
                _draw_band(axis, gap.curves[split][name][gap.sound], COLOURS[i % len(COLOURS)], analysis.run.label)
        axis.set_ylim(0, 1.02)
        if r == 0:
            axis.set_title(label_of(name), fontsize=8)
        if c == 0:
            axis.set_ylabel(split)
        if r == len(splits) - 1:
            axis.set_xlabel("share of the execution", fontsize=8)
    if len(gaps) > 1:
        grid[0][0].legend(fontsize=7)
    return figure


def draw_dendrogram(analysis: Analysis) -> "Figure | None":
    """The Ward tree of the networks over their distances (Figure 5)."""
    found, gap = analysis.clusters, analysis.run.gap
    if found is None or gap is None or not len(found.linkage):
        return None
    from scipy.cluster import hierarchy

    figure = matplotlib_figure()(figsize=(5, 6.4), layout="constrained")
    tree, heat = figure.subplots(2, 1, height_ratios=(1, 4))
    drawn = hierarchy.dendrogram(found.linkage, no_plot=True)
    for x, y in zip(drawn["icoord"], drawn["dcoord"], strict=True):
        tree.plot(x, y, color="#55616f", linewidth=0.7)
    tree.axhline(0.7 * found.linkage[:, 2].max(), color="#c4162a", linestyle="--", linewidth=0.8)
    order = drawn["leaves"]
    tree.set(xlim=(0, 10 * len(order)), xticks=[], title=f"{found.cut} clusters, {found.stable} stable")
    apart = gap.distances.mean(0)[gap.sound][:, gap.sound][order][:, order]
    picture = heat.imshow(apart, cmap="viridis", aspect="auto", interpolation="nearest")
    heat.set(xticks=[], yticks=[], xlabel=f"{len(order)} networks, in the tree's order")
    figure.colorbar(picture, ax=heat, label="distance of attention", shrink=0.8)
    return figure


def draw_best_match(analysis: Analysis, sample: int = 0) -> "Figure | None":
    """Compiled and trained attention of the closest network, step by step (Figure 3)."""
    gap = analysis.run.gap
    if gap is None or "star" not in gap.shown or "internal/rows" not in gap.measures.get("validation", {}):
        return None
    member = gap.closest()
    steps = min(int(gap.shown["lengths"][sample]) - 1, MOST_STEPS)
    star = gap.shown["star"][:steps, sample, 0] / 255
    trained = _best_head(gap, member, sample, steps, star)
    figure = matplotlib_figure()(figsize=(1.5 * steps + 0.8, 4.8), layout="constrained")
    grid = figure.subplots(3, steps, squeeze=False)
    rows = (
        ("compiled", star, _shades("#ffffff", COMPILED), 0),
        (f"trained, seed {gap.members['seed'][member]}", trained, _shades("#ffffff", TRAINED), 0),
        ("difference", trained - star, _shades(COMPILED, "#ffffff", TRAINED), -1),
    )
    for r, (name, values, colours, low) in enumerate(rows):
        for t in range(steps):
            axis = grid[r][t]
            axis.imshow(values[t], cmap=colours, vmin=low, vmax=1, interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            if r == 0:
                axis.set_title(f"step {t + 1}", fontsize=8)
        grid[r][0].set_ylabel(name, fontsize=8)
    return figure


def draw_landscapes(analysis: Analysis) -> "Figure | None":
    """The loss around networks (Figures 12, 13, 16 to 18): a row per width of the plane, colours shared in a row."""
    found = analysis.run.landscapes
    if not found:
        return None
    scales = list(dict.fromkeys(x.scale for x in found))
    names = sorted({x.name for x in found}, key=lambda name: (*LANDSCAPES, name).index(name))
    figure = matplotlib_figure()(figsize=(3 * len(names) + 0.8, 2.7 * len(scales)), layout="constrained")
    grid = figure.subplots(len(scales), len(names), squeeze=False)
    for scale, axes in zip(scales, grid, strict=True):
        values = np.concatenate([x.loss[np.isfinite(x.loss) & (x.loss > 0)] for x in found if x.scale == scale])
        low = float(values.min()) if len(values) else 1.0
        high = max(float(values.max()) if len(values) else 1.0, 1.001 * low)  # a colour scale is never empty
        picture = None
        for axis, name in zip(axes, names, strict=True):
            plane = next((x for x in found if x.scale == scale and x.name == name), None)
            if plane is None:
                axis.set_axis_off()
            else:
                picture = _draw_plane(axis, plane, low, high)
        figure.colorbar(picture, ax=list(axes), label="loss")
    return figure


def _draw_plane(axis: Any, plane: Landscape, low: float, high: float) -> Any:
    from matplotlib.colors import LogNorm

    edge = float(plane.axis[-1])
    loss = np.clip(np.nan_to_num(plane.loss, nan=high, posinf=high), low, high)
    look: dict[str, Any] = {"norm": LogNorm(low, high), "extent": (-edge, edge, edge, -edge)}
    picture = axis.imshow(loss, cmap="viridis", interpolation="bilinear", **look)
    with warnings.catch_warnings():  # where a plane is so flat that no contour crosses it
        warnings.simplefilter("ignore", UserWarning)
        levels = np.geomspace(low, high, CONTOURS)
        axis.contour(plane.axis, plane.axis, loss, levels, colors="k", linewidths=0.4, alpha=0.5)
    rise = plane.sharpness.get("0.05")
    note = "" if rise is None else f", rise at 0.05: {rise:.3g}"
    axis.set_title(f"{plane.name}, {plane.scale}{note}", fontsize=8)
    return picture


def _draw_band(axis: Any, values: np.ndarray, colour: str, label: str) -> None:
    known = np.isfinite(values).any(0)
    if not known.any():
        return
    x = (np.arange(values.shape[1])[known] + 0.5) / values.shape[1]
    low, high = np.nanquantile(values[:, known], SPREAD, axis=0)
    axis.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    axis.plot(x, np.nanmean(values[:, known], axis=0), color=colour, label=label)


def _best_head(gap: Gap, member: int, sample: int, steps: int, star: np.ndarray) -> np.ndarray:
    heads = gap.shown["attention"][member, :steps, sample] / 255
    distances = np.abs(heads - star[:, None]).sum((0, 2, 3))
    return heads[:, int(np.argmin(distances))]


def _shades(*colours: str) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("attention", colours)
