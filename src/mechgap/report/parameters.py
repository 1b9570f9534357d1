"""The weights and the attention of a compiled network as pictures, with names on every axis."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from mechgap.compiler.emit import Emitter
from mechgap.compiler.readout import Classified, OnEdges, Pointer, Pooled
from mechgap.compiler.to_gatv2 import Compiled
from mechgap.report.drawing import ARROW, FILL, INK, matplotlib_figure
from mechgap.trace import Location, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_WRITTEN = 400  # cells of a panel whose values are written out
MOST_STEPS = 8
CELL = (0.43, 0.25)  # inches, as all lengths of a picture
LEFT, ABOVE, BELOW, TITLE, WIDEST = 0.2, 0.3, 1.0, 0.5, 15.5


def parameter_counts(compiled: Compiled) -> dict[str, tuple[int, int]]:
    """Part of the network -> its parameters, and those that are not 0; and all of them together."""
    net = compiled.network
    parts = {"encoders": net.encoders, "processor": net.processor, "decoders": net.decoders, "all": net}
    return {name: _count(part) for name, part in parts.items()}


def _count(part: Any) -> tuple[int, int]:
    leaves = [np.asarray(x) for x in jax.tree.leaves(eqx.filter(part, eqx.is_inexact_array))]
    return sum(x.size for x in leaves), sum(int(np.count_nonzero(x)) for x in leaves)


def unit_names(compiled: Compiled) -> list[str]:
    """Attention channels by role, counted where a role has several."""
    several = compiled.plan.heads > 1
    roles = [f"head {unit.head + 1}: {unit.role}" if several else unit.role for unit in compiled.plan.attention]
    return [f"{role} {roles[:i].count(role) + 1}" if roles.count(role) > 1 else role for i, role in enumerate(roles)]


@dataclass(frozen=True)
class Panel:
    """A weight matrix as it is drawn: what is written in rows, what is read in columns."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: np.ndarray

    def cropped(self) -> "Panel":
        """Without the columns that nothing reads; one is left at least."""
        used = [j for j in range(len(self.columns)) if self.values[:, j].any()] or [0]
        return replace(self, columns=tuple(self.columns[j] for j in used), values=self.values[:, used])


def parameter_panels(compiled: Compiled) -> list[Panel]:
    """Every weight matrix that is not 0, cropped to the channels that have a name."""
    return [panel for panel in _all_panels(compiled) if panel.values.any()]


def _all_panels(compiled: Compiled) -> Iterator[Panel]:
    emitter = Emitter(compiled.plan, compiled.network.config, compiled.numbers.dtype)
    net, s = compiled.network.gatv2, emitter.width
    inputs = {where: list(emitter.features[where]) for where in (Location.NODE, Location.EDGE, Location.GRAPH)}
    units = dict(zip(emitter.unit_columns(), unit_names(compiled), strict=True))
    hidden = {i: name for name, i in emitter.hidden.items()}
    state = dict(enumerate(inputs[Location.NODE])) | {s + i: f"[{name}]" for i, name in hidden.items()}
    on_edges, of_graph = dict(enumerate(inputs[Location.EDGE])), dict(enumerate(inputs[Location.GRAPH]))
    yield _panel("W_val: what a sender says", net.value, hidden, state)
    yield _panel("W_skip: what a node keeps", net.skip, hidden, state)
    if net.info is not None:
        yield _panel("W_info: the sender's edge", net.info, hidden, on_edges).cropped()
    yield _panel("W_in: attention, the sender", net.sender, units, state).cropped()
    yield _panel("W_out: attention, the receiver", net.receiver, units, state).cropped()
    if on_edges:
        yield _panel("W_edge: attention, the edge", net.edge, units, on_edges).cropped()
    if of_graph:
        yield _panel("W_graph: attention, the graph", net.graph, units, of_graph).cropped()
    vectors = np.asarray(net.attention.weight)
    heads, block = tuple(f"head {i + 1}" for i in range(len(vectors))), vectors.shape[1]
    own = np.stack([vectors[:, i % block] * (np.arange(len(vectors)) == i // block) for i in units], axis=1)
    yield Panel(f"ω: head weights  ({len(vectors)} × {block})", heads, tuple(units.values()), own)
    for where, names in inputs.items():
        if not names:
            continue
        weights = np.stack([np.asarray(compiled.network.encoders[name][0].weight)[0] for name in names], axis=1)
        yield Panel(f"encoders, {where}", tuple(names), tuple(names), weights[: len(names)])
    yield from _decoder_panels(compiled, state, on_edges, of_graph)


def _panel(title: str, layer: Any, rows: dict[int, str], columns: dict[int, str]) -> Panel:
    """A layer [inputs, outputs] the papers' way round, of rows and columns that have a name; its bias comes last."""
    weight, at = np.asarray(layer.weight), list(rows)
    shape = f"{weight.shape[1]} × {weight.shape[0]}"
    values, names = weight[list(columns)][:, at].T, list(columns.values())
    if layer.bias is not None and np.any(layer.bias):
        values, names = np.column_stack([values, np.asarray(layer.bias)[at]]), [*names, "bias"]
    return Panel(f"{title}  ({shape})", tuple(rows.values()), tuple(names), values)


def _decoder_panels(
    compiled: Compiled, state: dict[int, str], on_edges: dict[int, str], of_graph: dict[int, str]
) -> Iterator[Panel]:
    """One panel per decoder layer; equal decoders are drawn once, hidden channels are those after the step."""
    s = compiled.network.config.hidden
    after = {i if i < s else i + s: name for i, name in state.items()}
    same: dict[Any, list[str]] = {}
    for name, readout in compiled.plan.readouts.items():
        if name in compiled.network.decoders:
            same.setdefault(readout, []).append(name)
    for readout, names in same.items():
        layers, title = compiled.network.decoders[names[0]], f"decoder {', '.join(names)}"
        if not isinstance(readout, Pointer):
            logits = len(readout.forms) if isinstance(readout, Classified) else 1
            names_of = {i: "logit" if logits == 1 else f"class {i}" for i in range(logits)}
            yield _panel(title, layers[0], names_of, after).cropped()
            if isinstance(readout, Pooled) and of_graph:
                yield _panel(f"{title}: the graph", layers[1], names_of, of_graph).cropped()
            if isinstance(readout, OnEdges):
                yield _panel(f"{title}: the other", layers[1], names_of, after).cropped()
                yield _panel(f"{title}: the edge", layers[2], names_of, on_edges).cropped()
            continue
        terms = {i: f"max {i + 1}" for i in range(len(readout.terms))}
        yield _panel(f"{title}: mine", layers[0], terms, after).cropped()
        yield _panel(f"{title}: theirs", layers[1], terms, after).cropped()
        head = np.asarray(layers[3].weight)[: len(terms)].T
        yield Panel(f"{title}: head", ("logit",), tuple(terms.values()), head)


def draw_parameters(compiled: Compiled) -> "Figure":
    """Draw the weights, a panel per matrix: rows are written, columns are read, one colour scale for all.

    The scale is logarithmic on both sides of 0, since weights span ten decades. What is not drawn is 0.
    """
    panels = parameter_panels(compiled)
    sizes = [_size(panel) for panel in panels]
    places = _shelves(sizes)
    width = max(x + wide for (x, _), (wide, _) in zip(places, sizes, strict=True))
    height = max(y + tall for (_, y), (_, tall) in zip(places, sizes, strict=True)) + BELOW
    figure = matplotlib_figure()(figsize=(width, height))

    def box(left: float, top: float, wide: float, tall: float) -> "Axes":
        return figure.add_axes((left / width, 1 - (top + tall) / height, wide / width, tall / height))

    norm, colours, ticks = _scale(panels)
    for panel, (x, y) in zip(panels, places, strict=True):
        left, top = x + _label_width(panel.rows), y + TITLE + _label_width(panel.columns)
        axis = box(left, top, CELL[0] * len(panel.columns), CELL[1] * len(panel.rows))
        image = _draw_panel(axis, panel, norm, colours)
    bar = box(LEFT, height - 0.45, min(8.0, width - 2 * LEFT), 0.13)
    figure.colorbar(image, cax=bar, orientation="horizontal", ticks=ticks).ax.tick_params(labelsize=7, colors=INK)
    bar.minorticks_off()
    figure.text(LEFT / width, 1 - 0.3 / height, _title(compiled), fontsize=12, color=INK, va="center")
    return figure


def _title(compiled: Compiled) -> str:
    total, used = parameter_counts(compiled)["all"]
    kind = ", layer norm" if compiled.plan.layer_norm is not None else ""
    size = compiled.network.config.hidden
    return f"{compiled.program.name}, hidden {size}{kind}: {total:,} parameters, {used:,} not 0"


def _label_width(names: tuple[str, ...]) -> float:
    """Inches that the longest label takes at 7 points."""
    return 0.15 + 0.062 * max(len(name) for name in names)


def _size(panel: Panel) -> tuple[float, float]:
    """Width and height of a panel in inches, with its labels, title and a gap."""
    wide = _label_width(panel.rows) + max(CELL[0] * len(panel.columns), 0.07 * len(panel.title))
    return wide + 0.3, TITLE + _label_width(panel.columns) + CELL[1] * len(panel.rows)


def _shelves(sizes: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places from left to right, row under row."""
    places, x, y, tallest = [], LEFT, ABOVE, 0.0
    for wide, tall in sizes:
        if x + wide > WIDEST and x > LEFT:
            x, y, tallest = LEFT, y + tallest, 0.0
        places.append((x, y))
        x, tallest = x + wide, max(tallest, tall)
    return places


def _scale(panels: list[Panel]) -> tuple[Any, Any, list[float]]:
    """Colours logarithmic on both sides of 0, from the smallest weight that is not 0 to the largest; and ticks."""
    from matplotlib.colors import LinearSegmentedColormap, SymLogNorm

    sizes = np.abs(np.concatenate([panel.values[panel.values != 0] for panel in panels]))
    least, most = float(sizes.min()), float(sizes.max())
    norm = SymLogNorm(linthresh=least, linscale=0.5, vmin=-most, vmax=most, base=10)
    decades = [10.0**k for k in range(math.ceil(math.log10(least)) + 1, math.floor(math.log10(most)) + 1)]
    colours = LinearSegmentedColormap.from_list("weights", [FILL[2], "#ffffff", ARROW])
    return norm, colours, [*(-x for x in reversed(decades)), 0.0, *decades]


def _draw_panel(axis: "Axes", panel: Panel, norm: Any, colours: Any) -> Any:
    image = axis.pcolormesh(panel.values, norm=norm, cmap=colours, edgecolors="#e3e7ec", linewidth=0.5)
    axis.set_ylim(len(panel.rows), 0)
    axis.xaxis.tick_top()
    axis.set_xticks(np.arange(len(panel.columns)) + 0.5, panel.columns, rotation=90, fontsize=7, color=INK)
    axis.set_yticks(np.arange(len(panel.rows)) + 0.5, panel.rows, fontsize=7, color=INK)
    axis.tick_params(length=0, pad=2)
    axis.spines[:].set_color("#aeb6c0")
    axis.set_title(panel.title, fontsize=8.5, color=INK, loc="left")
    if panel.values.size <= MOST_WRITTEN:
        for (i, j), value in np.ndenumerate(panel.values):
            if value:
                strong = abs(norm(value) - 0.5) > 0.33
                ink = "white" if strong else INK
                axis.text(j + 0.5, i + 0.5, _number(float(value)), ha="center", va="center", fontsize=6.5, color=ink)
    return image


def _number(value: float) -> str:
    """A few characters: 1, -0.01, 8.5e4."""
    if 5e-3 <= abs(value) < 1e4:
        return f"{value:.3g}" if abs(value) < 1e3 else f"{value:.0f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def draw_attention(trace: Trace, sample: int = 0, title: str = "") -> "Figure":
    """Draw the attention of one execution, a panel per step: row i is whom node i listens to."""
    attention = np.asarray(trace.attention)[: int(trace.lengths[sample]) - 1, 0, sample, 0]
    steps = range(len(attention))[:MOST_STEPS]
    if not steps:
        raise ValueError("This execution has no steps, so there is no attention to draw. Take another graph.")
    figure = matplotlib_figure()(figsize=(max(2.3 * len(steps), 3) + 0.5, 2.9), layout="constrained")
    for t, axis in zip(steps, figure.subplots(1, len(steps), squeeze=False)[0], strict=True):
        image = axis.imshow(attention[t], vmin=0, vmax=1, cmap="Blues")
        axis.set_title(f"step {t + 1}", fontsize=9, color=INK)
        axis.set_xlabel("sender j", fontsize=7)
        axis.set_ylabel("node i" if t == 0 else "", fontsize=7)
        axis.tick_params(labelsize=6)
    figure.colorbar(image, ax=figure.axes, shrink=0.7).ax.tick_params(labelsize=7)
    left_out = f", the first {len(steps)} of {len(attention)} steps" if len(attention) > len(steps) else ""
    figure.suptitle(f"{title}{left_out}", color=INK)
    return figure
