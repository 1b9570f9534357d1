"""A compiled network for human eyes: what every channel does, as tables."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from mechgap.algorithms.families import draw_family
from mechgap.compiler import compile as compile_program
from mechgap.compiler.affine import Affine
from mechgap.compiler.layout import lay_out
from mechgap.compiler.readout import Classified, OnEdges, Pointer, Pooled
from mechgap.compiler.readout import Linear as LinearReadout
from mechgap.compiler.to_gatv2 import Compiled
from mechgap.report.drawing import save_figure
from mechgap.report.parameters import draw_attention, draw_parameters, parameter_counts, unit_names
from mechgap.trace import Stage

if TYPE_CHECKING:
    pass

PAPER_SIZES = "paper: about 500 in all at hidden 4, about 5e6 at hidden 128"


def inspect_program(
    name: str,
    plot: Path | None = None,
    *,
    hidden: int | None = 128,
    layer_norm: bool = False,
    attention: Path | None = None,
    nodes: int = 8,
    seed: int = 0,
) -> Compiled:
    """Compile a program and print all there is to know about it.

    Args:
        name: of a program in the library.
        plot: also draw the weights into this file.
        hidden: the hidden size; None for the smallest.
        layer_norm: compile for a network with a layer norm.
        attention: also draw the attention on a random graph into this file.
        nodes: of that graph.
        seed: of that graph.
    """
    compiled = compile_program(name, hidden=hidden, layer_norm=layer_norm)
    console = Console()
    console.print(str(compiled.program), markup=False, highlight=False)
    for table in inspection_tables(compiled):
        console.print()
        console.print(table)
    console.print(f"\n{compiled.certificate}", markup=False, highlight=False)
    if plot is not None:
        save_figure(draw_parameters(compiled), plot)
        console.print(f"drew {plot}", markup=False)
    if attention is not None:
        kind = {"weighted": "A" in dict(compiled.program.weights), "directed": not compiled.program.undirected}
        drawn = draw_family("erdos_renyi_0.3", nodes, 1, seed, **kind)
        given: dict[str, Any] = {k: x for k, x in drawn.items() if k in compiled.program.spec.names(Stage.INPUT)}
        save_figure(draw_attention(compiled.run(**given), title=f"{name}, n = {nodes}, seed {seed}"), attention)
        console.print(f"drew {attention}", markup=False)
    return compiled


def inspection_tables(compiled: Compiled) -> list[Table]:
    """What is where: hidden channels, attention channels, decoders, constants, and the number of parameters."""
    return [_channels(compiled), _attention(compiled), _decoders(compiled), _constants(compiled), _counts(compiled)]


def _table(title: str, *columns: str, caption: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in ("ω", "total", "non-zero") else "left")
    return table


def _channels(compiled: Compiled) -> Table:
    legend = (
        "x.y is an input of x, x\\[y] a hidden channel; sender is whom the select chose, sender_edge the edge to it."
    )
    table = _table("hidden state", "channel", "holds", "next value", caption=legend)
    kept = _holds(compiled)
    for name, form in compiled.plan.channels.items():
        table.add_row(name, kept.get(name, ""), f"relu({_form(form)})")
    norm = compiled.plan.layer_norm
    if norm is not None:
        table.add_row("constant", "Q, for the layer norm", f"{norm.Q:g}")
        table.add_row("reference", "0, to which all reads are relative", "0")
        table.add_row("balance", f"{norm.total:g} less what changes slowly", f"relu({_form(norm.balance)})")
    return table


def _holds(compiled: Compiled) -> dict[str, str]:
    """What a channel is for, where its name does not say it."""
    plan = compiled.plan
    if plan.micro_steps == 1:
        storages = lay_out(compiled.program).values()
        return {c: f"{s.variable.name}: {type(s).__name__}" for s in storages for c in s.channels}
    heard = {name: f"heard by head {head + 1}" for name, head in plan.hears.items()}
    return heard | {
        f"{v.name}.{part}": f"{v.name}: Register" for v in compiled.program.state for part in ("new", "old")
    }


def _attention(compiled: Compiled) -> Table:
    caption = "The logit of a neighbour is the sum of ω leaky(form)."
    table = _table("attention", "channel", "ω", "form", caption=caption)
    for name, unit in zip(unit_names(compiled), compiled.plan.attention, strict=True):
        table.add_row(name, f"{unit.weight:g}", _form(unit.form))
    return table


def _decoders(compiled: Compiled) -> Table:
    table = _table("decoders", "shows", "logit", caption="Of node i; pointers of node i at node j; other is j.")
    for name, readout in compiled.plan.readouts.items():
        match readout:
            case Pointer():
                terms = list(_pointer_terms(readout))
            case Classified(forms):
                terms = [_form(form) for form in forms]
            case LinearReadout(form) | Pooled(form) | OnEdges(form):
                terms = [_form(form)]
        table.add_row(f"{name}\n[dim]{compiled.program.spec[name].kind}[/dim]", "\n".join(terms))
    return table


def _pointer_terms(readout: Pointer) -> Iterator[str]:
    for mine, theirs, weight in readout.terms:
        yield f"{weight:.3g} max({_form(mine, {'me': 'i'})}, {_form(theirs, {'me': 'j'})})"


def _constants(compiled: Compiled) -> Table:
    table = _table("constants", "constant", "value", "why")
    numbers = compiled.numbers
    rows = [
        ("n", f"{numbers.max_nodes}", "the largest graph"),
        ("g", f"{numbers.min_gap:.3g}", "the smallest gap between two positions"),
        ("dtype", f"{numbers.dtype}, u = {numbers.roundoff:.2g}", "of weights and values"),
        ("m", f"{numbers.margin:.4g} nats", "ln n + ln 1/u + 4: what leaks from all losers is below u"),
        ("K = m/g", f"{numbers.self_slope:.4g}", "what a logit loses per unit of distance between positions"),
    ]
    for select, found in zip(compiled.program.selects, compiled.selects, strict=True):
        ties = "go to the lowest node" if found.resolves_ties else "are outside the domain"
        name = "r" if len(compiled.selects) == 1 else f"r of {select.name}"
        where = "" if compiled.plan.heads == 1 else f"head {found.head + 1} in micro-step {found.micro_step + 1}; "
        rows.append((name, f"{found.resolution:.3g}", f"{where}keys must differ by this much; ties {ties}"))
    if compiled.plan.layer_norm is not None:
        rows.append(("Q", f"{compiled.plan.layer_norm.Q:g}", "the constant that fixes mean and deviation"))
        rows.append(("noise", f"{numbers.layer_norm_noise:.2g}", "what the norm adds to a value, per unit of range"))
    for row in rows:
        table.add_row(*row)
    return table


def _counts(compiled: Compiled) -> Table:
    title = f"parameters at hidden {compiled.network.config.hidden}"
    table = _table(title, "part", "total", "non-zero", caption=PAPER_SIZES)
    for name, (total, used) in parameter_counts(compiled).items():
        table.add_row(name, f"{total:,}", f"{used:,}")
    return table


def _form(form: Affine, places: Mapping[str, str] | None = None) -> str:
    """A form as a person writes it."""
    said = []
    for feature, coefficient in form.terms.items():
        place = (places or {}).get(feature.place, feature.place)
        name = f"{place}\\[{feature.name}]" if feature.hidden else f"{place}.{feature.name}"
        said.append((coefficient, "" if abs(coefficient) == 1 else f"{abs(coefficient):.4g} ", name))
    if form.constant or not said:
        said.append((form.constant, f"{abs(form.constant):.4g}", ""))
    text = " ".join(f"{'-' if sign < 0 else '+'} {size}{name}" for sign, size, name in said)
    return text.removeprefix("+ ") if text.startswith("+") else text.replace("- ", "-", 1)
