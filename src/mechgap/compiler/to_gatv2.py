"""Graph programs -> GATv2: the driver, one line per pass."""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from mechgap.compiler.affine import Affine
from mechgap.compiler.attention import Lowered, lower_select
from mechgap.compiler.certificate import Certificate, make_certificate, unclear_frames
from mechgap.compiler.circuit import Circuit
from mechgap.compiler.constants import Numbers, check_positions, exact_margin
from mechgap.compiler.emit import Emitter, LayerNormPlan, Plan
from mechgap.compiler.errors import ChannelOverflow, DomainError, NotExpressible, UnclearChoice
from mechgap.compiler.layout import Reader, lay_out
from mechgap.compiler.readout import Readout, Shows, lower_readout
from mechgap.compiler.updates import lower_updates, slow_channels
from mechgap.networks.clrs_net import ClrsNet
from mechgap.networks.config import NetConfig
from mechgap.networks.execution import run
from mechgap.programs.graph import GraphProgram
from mechgap.programs.graph_interpreter import Interpretation
from mechgap.trace import Location, Stage, Trace, make_trace, to_numpy

# Q: large against the state, small against 1/u; and what a norm adds to a value, per unit of its range, at width 128
# (measured on Bellman-Ford, n <= 64, of Q = 2^11 ... 2^16; it falls with the width, which divides both error terms).
LAYER_NORM_CONSTANT = {"float32": 3 * 2.0**11, "float64": 2.0**26}
LAYER_NORM_NOISE = {"float32": 6e-5, "float64": 1e-8}
LAYER_NORM_WIDTH = 128
FED_BACK = "encoded_decoded"  # the hint mode in which a network is fed the hints that it decoded


@dataclass(frozen=True)
class Compiled:
    """A program as a network.

    Attributes:
        program: what it computes.
        network: the weights; the class that is trained, too.
        plan: which channel holds what.
        selects: where the attention of every select is, and what it can tell apart.
        numbers: the sizes and gaps it was built for.
        certificate: what was checked, or None where certification was left out.
    """

    program: GraphProgram
    network: ClrsNet
    plan: Plan
    selects: tuple[Lowered, ...]
    numbers: Numbers
    certificate: Certificate | None = field(default=None, compare=False)

    def run(self, *, steps: int | None = None, all_heads: bool = False, **inputs: Any) -> Trace:
        """Execute the network on a batch; the trace's attention is that of the selects, [T-1, 1, B, selects, N, N].

        Args:
            steps: the number of frames of every execution; by default each sample's own trace length, which the
                interpreter finds (an oracle, as in the benchmark).
            all_heads: the attention of every micro-step and head instead, [T-1, k, B, heads, N, N].
            inputs: batched, named and encoded as in the spec; `pos` and `adj` may be left out.
        """
        if steps is not None and steps < 2:
            raise ValueError(f"steps counts frames, of which the first is given: 2 or more; got {steps}.")
        meant = self.program.interpret(steps=steps, **inputs)
        shown = self.run_like(meant, all_heads=all_heads)
        self._warn_of_unclear_choices(meant)
        return shown

    def run_like(self, meant: Interpretation, frames: int | None = None, all_heads: bool = False) -> Trace:
        """Execute the network on the inputs, the first frame and the lengths of an interpretation.

        Args:
            meant: what to compare with.
            frames: for how many frames to run, at least those of the interpretation, which are all that is returned;
                one number of frames serves many batches with one compilation.
            all_heads: see `run`.
        """
        self.check_domain(meant.inputs)
        if self.plan.micro_steps > 1 and meant.marked.max(initial=0) > 1:
            raise DomainError(
                f"Program {self.program.name!r} reads the edge to a sender that {meant.marked.max()} nodes could be; "
                f"the network can weigh it only where one node at a time has what the select's where asks of the other."
            )
        first = {name: meant.hints[name][0] for name in self.program.spec.names(Stage.HINT)}
        double = self.numbers.dtype == "float64"
        with jax.enable_x64(double):
            cast = {name: np.asarray(x, self.numbers.dtype) for name, x in meant.inputs.items()}
            first = {name: np.asarray(x, self.numbers.dtype) for name, x in first.items()}
            lengths = meant.lengths.astype(np.int32)
            record = True if all_heads else self.looks
            trace = to_numpy(run(self.network, cast, first, lengths, steps=frames, record=record))
        hints = {name: x[: meant.steps] for name, x in trace.hints.items()}
        attention = trace.attention[: meant.steps - 1]
        return make_trace(trace.spec, trace.inputs, hints, trace.outputs, trace.lengths, attention)

    def _warn_of_unclear_choices(self, meant: Interpretation) -> None:
        unclear = unclear_frames(self, meant)
        graphs = np.flatnonzero(unclear.any(0))
        if graphs.size:
            first = np.argmax(unclear[:, graphs[0]])
            warnings.warn(
                f"In {graphs.size} of {meant.batch} executions of {self.program.name!r} a choice is tied, or closer "
                f"than this network can tell apart (first in execution {graphs[0]}, frame {first}): what lies behind "
                f"it may differ from the program's. Move the values apart, or leave these inputs out.",
                UnclearChoice,
                stacklevel=3,
            )

    @property
    def looks(self) -> tuple[tuple[int, int], ...]:
        """(micro-step, head) of every select: where in the network's attention it is."""
        return tuple((select.micro_step, select.head) for select in self.selects)

    @property
    def compared(self) -> int:
        """Which select is held against trained networks."""
        return [select.name for select in self.program.selects].index(self.program.compared)

    @property
    def _heard_of_the_graph(self) -> list[str]:
        return [name for name in self.program.heard if self.program.spec[name].location == Location.GRAPH]

    @property
    def least_nodes(self) -> int:
        """Of graphs that the network is for."""
        return 2 if self._heard_of_the_graph else 1

    def check_domain(self, inputs: dict[str, np.ndarray]) -> None:
        """Refuse inputs that the weights were not built for."""
        n, least = inputs["pos"].shape[-1], self.numbers.min_gap
        if n > self.numbers.max_nodes:
            raise DomainError(
                f"This network is compiled for up to {self.numbers.max_nodes} nodes; got {n}. "
                f"Compile with max_nodes={n}."
            )
        if n < self.least_nodes:
            raise DomainError(
                f"Program {self.program.name!r} hears {', '.join(self._heard_of_the_graph)} of the graph by where its "
                f"nodes look, and a single node has no choice. Give two nodes or more, or keep it in a variable."
            )
        if inputs["pos"].min() < 0 or inputs["pos"].max() > 1:
            outside = inputs["pos"][(inputs["pos"] < 0) | (inputs["pos"] > 1)].ravel()[0]
            raise DomainError(f"Positions must lie in [0, 1]; got {outside:.6g}. Scale them, e.g. i/n.")
        gaps = np.diff(inputs["pos"], axis=-1)
        if n > 1 and gaps.min() <= 0:
            raise DomainError(
                "Positions must rise from node to node: the lowest node is the one of the lowest position."
            )
        if self.program.regular and not np.allclose(inputs["pos"], np.arange(n) / n, rtol=0, atol=least / 16):
            raise DomainError(
                f"Program {self.program.name!r} calculates with positions, which must be i/n: leave 'pos' out."
            )
        ranges = {name: span for name, span in self.program.weights if name in inputs}
        for name, (low, high) in ranges.items():
            x = inputs[name][inputs[name] != 0] if name == "A" else inputs[name]
            if x.size and (x.min() < low or x.max() > high):
                outside = x[(x < low) | (x > high)].ravel()[0]
                raise DomainError(
                    f"Input {name!r} is declared to lie in [{low:g}, {high:g}]; got {outside:.6g}. Scale it, or "
                    f"declare a wider range: weights={{{name!r}: (low, high)}}."
                )
        if n > 1 and gaps.min() < least * (1 - 1e-6):
            raise DomainError(
                f"Two positions differ by {gaps.min():.3g}, but this network tells positions apart that differ by "
                f"{least:.3g}. Compile with min_gap={gaps.min():.3g}, or keep positions further apart."
            )
        if self.program.undirected and "A" in inputs and np.any(inputs["A"] != np.swapaxes(inputs["A"], 1, 2)):
            raise DomainError(
                f"Program {self.program.name!r} is for undirected graphs, but A is not symmetric: node i sees A[i, j], "
                f"its own side of an edge. Pass np.maximum(A, A.transpose(0, 2, 1))."
            )


def compile_graph_program(
    program: GraphProgram,
    *,
    hidden: int | None = 128,
    max_nodes: int = 1024,
    min_gap: float | None = None,
    layer_norm: bool = False,
    dtype: str = "float32",
    margin: float | None = None,
    hint_mode: str = "encoded_decoded",
    hint_repred: str = "soft",
    certify: str = "quick",
) -> Compiled:
    """Write the weights with which a GATv2 network runs the program.

    Args:
        program: what to compile.
        hidden: the hidden size; None for the smallest that will do.
        max_nodes: the largest graph.
        min_gap: the smallest difference of two positions; by default 1/max_nodes, that of regular positions.
        layer_norm: survive the layer norm of the trained architecture.
        dtype: "float32" or "float64".
        margin: of the softmax, in nats; by default large enough to be exact. A smaller one gives softer attention.
        hint_mode: of the network; the compiled state is in the hidden channels, so any mode will do, unless the program
            reads hints that are fed back.
        hint_repred: likewise.
        certify: "quick" checks 64 graphs, "full" all families at several sizes, "none" nothing.
    """
    _check_arguments(hidden, max_nodes, min_gap, dtype, margin, certify)
    if program.heeded and hint_mode != FED_BACK:
        raise NotExpressible(
            f"Program {program.name!r} reads hints that are fed back ({', '.join(program.heeded)}), which a network of "
            f"hint_mode={hint_mode!r} is not. Compile with hint_mode={FED_BACK!r}."
        )
    numbers = Numbers(max_nodes, min_gap or 1 / max_nodes, dtype, margin or exact_margin(max_nodes, dtype))
    check_positions(numbers)
    plan, selects = _planned(program, numbers, layer_norm)
    hidden = hidden or plan.least_width
    if layer_norm:
        numbers = replace(numbers, layer_norm_noise=LAYER_NORM_NOISE[dtype] * LAYER_NORM_WIDTH / hidden)
        plan, selects = _planned(program, numbers, layer_norm)
    config = NetConfig(
        hidden=hidden,
        heads=_heads(plan, hidden),
        message_passing_steps=plan.micro_steps,
        use_layer_norm=layer_norm,
        edge_info=plan.uses_edge_info,
        full_adjacency=plan.full_adjacency,
        hint_mode=hint_mode,
        hint_repred=hint_repred,
        precision="highest",
    )
    with jax.enable_x64(dtype == "float64"):
        network = Emitter(plan, config, dtype).network()
    compiled = Compiled(program, network, plan, selects, numbers)
    return compiled if certify == "none" else replace(compiled, certificate=make_certificate(compiled, certify))


def _heads(plan: Plan, hidden: int) -> int:
    """The smallest number of heads that divides the hidden size and leaves every head room enough."""
    fitting = [h for h in range(plan.heads, hidden + 1) if hidden % h == 0]
    roomy = [h for h in fitting if max(plan.needs(h).values()) <= hidden]
    if roomy:
        return roomy[0]
    needs = plan.needs(plan.heads)
    listed = ", ".join(f"{k} {v}" for k, v in needs.items())
    among = "" if plan.heads == 1 else f" in equal parts for {plan.heads} heads or some more"
    raise ChannelOverflow(
        f"hidden = {hidden} is too small: the program needs {max(needs.values())} channels{among} ({listed}). "
        f"Compile with hidden={plan.least_width}."
    )


def _check_arguments(hidden: Any, max_nodes: Any, min_gap: Any, dtype: Any, margin: Any, certify: Any) -> None:
    problems = []
    if hidden is not None and (not isinstance(hidden, int) or hidden < 1):
        problems.append(f"hidden must be a whole number of at least 1, or None for the smallest; got {hidden!r}.")
    if not isinstance(max_nodes, int) or max_nodes < 1:
        problems.append(f"max_nodes must be a whole number of at least 1; got {max_nodes!r}.")
    if min_gap is not None and not 0 < min_gap <= 1:
        problems.append(f"min_gap must be in (0, 1], the smallest difference of two positions; got {min_gap!r}.")
    if dtype not in ("float32", "float64"):
        problems.append(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
    if margin is not None and not margin > 0:
        problems.append(f"margin must be positive, in nats, or None for exact; got {margin!r}.")
    if certify not in ("quick", "full", "none"):
        problems.append(f"certify must be 'quick', 'full' or 'none'; got {certify!r}.")
    if problems:
        raise ValueError("Cannot compile:\n  " + "\n  ".join(problems))


def _planned(program: GraphProgram, numbers: Numbers, layer_norm: bool) -> tuple[Plan, tuple[Lowered, ...]]:
    """All forms of the program, and what its selects can tell apart."""
    if len(program.selects) > 1 or program.lets or program.full or program.heeded:
        return _several_steps(program, numbers, layer_norm)
    try:
        return _one_step(program, numbers, layer_norm)
    except NotExpressible as too_deep:
        try:
            return _several_steps(program, numbers, layer_norm)
        except NotExpressible as error:
            raise NotExpressible(f"In one step: {too_deep}\nIn several micro-steps: {error}") from error


def _several_steps(program: GraphProgram, numbers: Numbers, layer_norm: bool) -> tuple[Plan, tuple[Lowered, ...]]:
    """Several selects, or updates of any depth: a circuit, through which every step goes in micro-steps."""
    if layer_norm:
        raise NotExpressible(
            f"Program {program.name!r} takes several micro-steps, which no layer norm may disturb. "
            f"Compile with layer_norm=False."
        )
    circuit = Circuit(program, numbers)
    plan = Plan(
        spec=program.spec,
        channels=circuit.channels,
        attention=circuit.attention,
        readouts=_readouts(program, circuit, numbers),
        hears=circuit.heads,
        micro_steps=circuit.micro_steps,
        full_adjacency=program.full,
        tells_apart=circuit.tells_apart,
        heeded=program.heeded,
    )
    return plan, circuit.selects


def _one_step(program: GraphProgram, numbers: Numbers, layer_norm: bool) -> tuple[Plan, tuple[Lowered, ...]]:
    """One select, and updates that one ReLU each can do: the paper's programs, in as few channels as can be."""
    storages = lay_out(program)
    reader = Reader(program, storages)
    select = lower_select(program, reader, numbers)
    channels = lower_updates(reader, numbers)
    plan = Plan(
        spec=program.spec,
        channels=channels,
        attention=select.units,
        readouts=_readouts(program, reader, numbers),
        layer_norm=_balanced(channels, slow_channels(storages), numbers.dtype) if layer_norm else None,
    )
    return plan, (select,)


def _readouts(program: GraphProgram, reader: Shows, numbers: Numbers) -> dict[str, Readout]:
    shown = (*program.hints, *program.outputs)
    return {name: lower_readout(program.spec[name], value, reader, numbers) for name, value in shown}


def _balanced(channels: dict[str, Affine], slow: dict[str, float], dtype: str) -> LayerNormPlan:
    total = sum(slow.values())
    balance = Affine(constant=total)
    for name in slow:
        balance = balance - channels[name]
    return LayerNormPlan(LAYER_NORM_CONSTANT[dtype], total, balance)
