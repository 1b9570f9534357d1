"""Compiled networks for human eyes: tables, pictures, the page about compiling, and what noise does."""

import io
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console

import mechgap as mg
from mechgap.compiler.robustness import noise_survival, shaken
from mechgap.report.drawing import save_figure
from mechgap.report.inspection import inspect_program, inspection_tables
from mechgap.report.parameters import draw_attention, draw_parameters, parameter_counts, parameter_panels

PAGE = Path(__file__).parents[1] / "docs" / "compile.md"


def compiled(name: str, **options) -> mg.Compiled:
    return mg.compile(name, certify="none", **options)


def text_of(tables) -> str:
    console = Console(width=400, file=io.StringIO(), record=True)
    for table in tables:
        console.print(table)
    return console.export_text()


@pytest.mark.parametrize("name", mg.program_names("graph"))
@pytest.mark.parametrize("hidden", [None, 160])
def test_the_tables_name_every_channel(name: str, hidden: int | None) -> None:
    net = compiled(name, hidden=hidden)
    text = text_of(inspection_tables(net))
    for channel in net.plan.channels:
        assert f"│ {channel} " in text
    for variable in (*net.program.hints, *net.program.outputs):
        assert f"│ {variable[0]} " in text
    assert f"{parameter_counts(net)['all'][0]:,}" in text


def test_the_tables_say_what_a_channel_becomes() -> None:
    text = text_of(inspection_tables(compiled("bfs", hidden=4)))
    assert "relu(sender.s + sender[reach] - me.s)" in text
    assert "pi: WriteOnce" in text
    assert "64 me.s + 64 me[reach] - 32" in text
    assert "ties go to the lowest node" in text


def test_a_layer_norm_has_its_channels_and_constants() -> None:
    text = text_of(inspection_tables(compiled("bfs", layer_norm=True)))
    for word in ("constant", "reference", "balance", "Q", "noise"):
        assert f"│ {word} " in text


@pytest.mark.parametrize(("name", "hidden", "total"), [("bfs", 4, 508), ("bellman_ford", 9, 2345)])
def test_minimal_models_have_the_documented_size(name: str, hidden: int, total: int) -> None:
    net = compiled(name, hidden=None)
    assert net.network.config.hidden == hidden
    counts = parameter_counts(net)
    assert counts["all"][0] == total
    assert counts["all"] == tuple(np.sum([counts[k] for k in ("encoders", "processor", "decoders")], axis=0))
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} | {hidden} |"))
    assert f"| {total:,} | {counts['all'][1]} |" in row


@pytest.mark.parametrize("name", mg.program_names("graph"))
@pytest.mark.parametrize("options", [{"hidden": None}, {"hidden": 160}, {"hidden": 128, "layer_norm": True}])
def test_panels_hold_every_weight_that_is_not_0(name: str, options: dict) -> None:
    """The cropping leaves nothing out; equal decoders are drawn once, the norm not at all."""
    if "layer_norm" in options and mg.program(name).full:
        pytest.skip("several micro-steps, which no layer norm may disturb")
    net = compiled(name, **options)
    drawn = sum(int(np.count_nonzero(panel.values)) for panel in parameter_panels(net))
    decoders = {k: sum(int(np.count_nonzero(x)) for x in jax.tree.leaves(v)) for k, v in net.network.decoders.items()}
    once = {readout: decoders[k] for k, readout in net.plan.readouts.items()}
    norm = 2 * net.network.config.hidden if net.plan.layer_norm is not None else 0
    counts = parameter_counts(net)
    assert drawn == counts["encoders"][1] + counts["processor"][1] - norm + sum(once.values())
    assert all(panel.values.shape == (len(panel.rows), len(panel.columns)) for panel in parameter_panels(net))


def test_panels_are_in_the_papers_order_of_rows_and_columns() -> None:
    panels = {panel.title.split(":")[0]: panel for panel in parameter_panels(compiled("bellman_ford"))}
    assert {"W_val", "W_skip", "W_info", "W_in", "W_out", "W_edge", "ω"} <= set(panels)
    value, info = panels["W_val"], panels["W_info"]
    assert value.values[value.rows.index("dist.gain"), value.columns.index("[dist.sum]")] == 1
    assert info.values[info.rows.index("dist.gain"), info.columns.index("A")] == -1


def test_the_parameters_are_drawn(tmp_path: Path) -> None:
    figure = draw_parameters(compiled("bfs", hidden=4))
    titles = {axis.get_title(loc="left").split(":")[0] for axis in figure.axes}
    assert {"W_val", "W_skip", "W_in", "W_out", "W_edge", "ω"} <= titles
    boxes = [axis.get_position() for axis in figure.axes]
    assert all(b.x0 >= 0 and b.x1 <= 1 and b.y0 >= 0 and b.y1 <= 1 for b in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    save_figure(figure, tmp_path / "weights.png")
    assert (tmp_path / "weights.png").stat().st_size > 20_000


def test_attention_is_drawn_step_by_step() -> None:
    A = np.eye(3, k=1)[None] + np.eye(3, k=-1)[None]
    trace = compiled("bfs", hidden=4).run(A=A, s=np.eye(3)[[0]])
    figure = draw_attention(trace)
    assert [axis.get_title() for axis in figure.axes[:2]] == ["step 1", "step 2"]
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), np.array([[1, 0, 0], [1, 0, 0], [0, 0, 1]]))
    alone = compiled("bfs", hidden=4).run(A=np.zeros((1, 1, 1)), s=np.ones((1, 1)))
    with pytest.raises(ValueError, match="no attention to draw"):
        draw_attention(alone)


def test_inspect_prints_and_draws(tmp_path: Path, capsys) -> None:
    plot, attention = tmp_path / "weights.svg", tmp_path / "attention.png"
    inspect_program("bfs", plot, hidden=None, attention=attention)
    text = capsys.readouterr().out
    assert "program bfs" in text
    assert "parent = argmin over neighbours of other.id" in text
    assert "certificate (quick): ok" in text
    assert plot.exists()
    assert attention.exists()


def test_the_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 3
    assert sum(len(block.splitlines()) for block in blocks[:1]) < 30
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_noise_breaks_a_compiled_network_only_when_it_is_large(kind: str) -> None:
    net = compiled("bfs", hidden=4, max_nodes=16)
    table = noise_survival(net, (0.0, 1e-4, 0.3), draws=2, graphs=5, kind=kind, key=jax.random.key(3))
    none, little, much = table.rows
    assert (none.hints, none.outputs, little.hints, little.outputs) == (1, 1, 1, 1)
    assert much.hints < 0.9
    assert much.worst_hints <= much.hints
    assert table.baseline[0] < 0.6
    assert table.pointers[1] == 2 * 5 * 16
    assert "bfs" in str(table)


def test_relative_noise_leaves_zeros_alone_and_absolute_does_not() -> None:
    net = compiled("bfs", hidden=4).network
    relative, absolute = (shaken(net, 0.1, kind, key=jax.random.key(0)) for kind in ("relative", "absolute"))
    zero = np.asarray(net.processor.graph.weight) == 0
    assert zero.all()
    assert not np.asarray(relative.processor.graph.weight).any()
    assert np.asarray(absolute.processor.graph.weight).all()
    drift = np.asarray(relative.processor.value.weight) - np.asarray(net.processor.value.weight)
    assert 0 < np.abs(drift).max() < 0.5


def test_noise_refuses_what_it_does_not_know() -> None:
    net = compiled("bfs", hidden=4)
    with pytest.raises(ValueError, match=r"kind must be one of 'relative', 'absolute'; got 'both'"):
        noise_survival(net, (0.1,), kind="both", key=jax.random.key(0))
    with pytest.raises(ValueError, match="at least 1; got 0 and 2"):
        noise_survival(net, (0.1,), draws=0, graphs=2, key=jax.random.key(0))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bears", "breaks"), [("bfs", 1e-3, 1e-1), ("bellman_ford", 1e-6, 1e-2)])
def test_the_documented_noise_is_survived(name: str, bears: float, breaks: float) -> None:
    """The table of docs/compile.md: 6 draws x 12 graphs, n = 16."""
    table = noise_survival(compiled(name), (0.0, bears, breaks), key=jax.random.key(0))
    none, little, much = table.rows
    assert (none.hints, none.outputs, little.hints, little.outputs) == (1, 1, 1, 1)
    assert much.hints < 0.7
    accuracies = f"{much.hints:.3f} / {much.outputs:.3f} ({much.worst_hints:.3f} / {much.worst_outputs:.3f})"
    assert accuracies in PAGE.read_text()
