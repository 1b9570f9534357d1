"""Graphs as pictures: one panel per frame, the state on the nodes, the pointers as arrows."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mechgap.storage import check_folder
from mechgap.trace import Kind, Location, Stage, Trace, Variable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILL = ("#ffffff", "#f2b134", "#3d5a80")  # untouched, active, done
INK, EDGE, ARROW, MARK = "#1d2733", "#d5dae0", "#c8553d", "#2a7f62"
MOST_PANELS = 48


def draw_trace(trace: Trace, sample: int = 0, title: str = "") -> "Figure":
    """Draw one execution.

    A node's fill is its mask or class, the number under its name its first scalar hint, the green letters beside it
    the one-hot hints that mark it; arrows are the first pointer hint, grey lines the edges. A long execution shows
    every k-th frame, and its last one.
    """
    figure_class = matplotlib_figure()
    length = int(trace.lengths[sample])
    frames = _chosen_frames(length)
    most, width, height = (6, 2.6, 2.75) if _is_graph(trace) else (3, 5.0, 2.2)
    columns = min(most, len(frames))
    rows = math.ceil(len(frames) / columns)
    figure = figure_class(figsize=(width * columns, height * rows + 0.4), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    places = _places(trace)
    for axis in axes:
        axis.set_axis_off()
    for axis, t in zip(axes, frames, strict=False):
        _draw_frame(axis, trace, sample, t, places)
    every = f", every {frames[1] - frames[0]}th of {length} frames" if len(frames) < length else ""
    figure.suptitle(f"{title}{every}", color=INK)
    return figure


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure; the ending decides the format."""
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"Cannot draw into {str(path)!r}: the name must end in .png, .svg or .pdf.")
    check_folder(path)
    figure.savefig(path, dpi=130)


def matplotlib_figure() -> type:
    try:
        from matplotlib.figure import Figure  # without pyplot: no display, no global state
    except ImportError as error:
        raise ImportError("Drawing needs matplotlib: pip install 'mechgap[report]'.") from error
    return Figure


def _chosen_frames(length: int) -> list[int]:
    stride = math.ceil(length / MOST_PANELS)
    frames = list(range(0, length, stride))
    return frames if frames[-1] == length - 1 else [*frames, length - 1]


def _is_graph(trace: Trace) -> bool:
    return "A" in trace.inputs


def _places(trace: Trace) -> np.ndarray:
    """A circle for graphs, a line for arrays."""
    n = trace.nodes
    if not _is_graph(trace):
        return np.stack([np.linspace(-1, 1, n) if n > 1 else np.zeros(1), np.zeros(n)], axis=1)
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _first(trace: Trace, *kinds: Kind) -> Variable | None:
    hints = trace.spec.at(Stage.HINT)
    return next((v for v in hints if v.kind in kinds and v.location == Location.NODE), None)


def _draw_frame(axis: "Axes", trace: Trace, sample: int, t: int, places: np.ndarray) -> None:
    axis.set_title(f"step {t}", fontsize=9, color=INK)
    tall = 1.45 if _is_graph(trace) else 0.55
    axis.set(xlim=(-1.45, 1.45), ylim=(-tall, tall), aspect="equal")
    frame = {name: np.asarray(x[t, sample]) for name, x in trace.hints.items()}
    if _is_graph(trace):
        for i, j in np.argwhere(np.asarray(trace.inputs["A"][sample])):
            if i != j:
                axis.plot(*places[[i, j]].T, color=EDGE, linewidth=0.8, zorder=1)
    pointer = _first(trace, Kind.POINTER)
    if pointer is not None:
        for i, j in enumerate(frame[pointer.name].astype(int)):
            if i != j:
                _arrow(axis, places[i], places[j], bend=0.0 if _is_graph(trace) else 0.6)
    size = float(np.clip(2600 / trace.nodes, 60, 330))
    axis.scatter(places[:, 0], places[:, 1], s=size, c=_fills(trace, frame), edgecolors=INK, linewidths=0.8, zorder=3)
    _label(axis, trace, sample, frame, places)


def _arrow(axis: "Axes", tail: np.ndarray, head: np.ndarray, bend: float) -> None:
    style: dict[str, Any] = {
        "arrowstyle": "-|>",
        "color": ARROW,
        "linewidth": 1.4,
        "shrinkA": 7,
        "shrinkB": 8,
        "connectionstyle": f"arc3,rad={bend}",
    }
    axis.annotate("", xy=tuple(head), xytext=tuple(tail), arrowprops=style, zorder=2)


def _fills(trace: Trace, frame: dict[str, np.ndarray]) -> list[str]:
    state = _first(trace, Kind.MASK, Kind.CATEGORICAL)
    if state is None:
        return [FILL[0]] * trace.nodes
    value = frame[state.name]
    index = np.argmax(value, axis=-1) if state.kind == Kind.CATEGORICAL else value.astype(int)
    return [FILL[min(int(i), 2)] for i in index]


def _label(axis: "Axes", trace: Trace, sample: int, frame: dict[str, np.ndarray], places: np.ndarray) -> None:
    small = 7 if trace.nodes <= 20 else 4
    scalar = _first(trace, Kind.SCALAR)
    numbers = frame[scalar.name] if scalar is not None else trace.inputs.get("key", np.zeros((1, 0)))[sample]
    marks = [v.name for v in trace.spec.at(Stage.HINT) if v.kind == Kind.MASK_ONE]
    for i, (x, y) in enumerate(places):
        dark = _fills(trace, frame)[i] == FILL[2]
        axis.text(x, y, str(i), ha="center", va="center", fontsize=small, color="white" if dark else INK, zorder=4)
        if len(numbers) > i and numbers[i] != 0:
            inner = places[i] * 0.74 if _is_graph(trace) else places[i] - (0, 0.42)
            axis.text(
                inner[0],
                inner[1],
                f"{numbers[i]:.2f}",
                ha="center",
                va="center",
                fontsize=small - 1.5,
                color=INK,
                zorder=4,
            )
        here = " ".join(name for name in marks if frame[name][i] == 1)
        outer = places[i] * 1.28 if _is_graph(trace) else places[i] + (0, 0.42)
        axis.text(outer[0], outer[1], here, ha="center", va="center", fontsize=small - 1, color=MARK, zorder=4)
