"""The certificate: a compiled network against the interpreter and, where there is one, the reference algorithm."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mechgap.algorithms import algorithm
from mechgap.algorithms.families import (
    ARRAYS,
    FAMILIES,
    draw_activities,
    draw_array,
    draw_family,
    draw_target,
    draw_tasks,
)
from mechgap.algorithms.processing import as_permutations
from mechgap.compiler.constants import exact_margin
from mechgap.programs.graph_interpreter import Interpretation, RangeError, interpret
from mechgap.storage import write_text
from mechgap.trace import Kind, Location, Stage, Trace

if TYPE_CHECKING:
    from mechgap.compiler.to_gatv2 import Compiled

QUICK_NODES, QUICK_GRAPHS = 16, 64
FULL_NODES, FULL_GRAPHS = (1, 2, 4, 16, 64), 8
ATTENTION_TOLERANCE = 1e-5  # of an attention row, on rows that are inside the domain
# Inputs that are drawn together -> how; the first that a program has.
NUMBERS = {
    ("key", "target"): draw_target,
    ("key",): draw_array,
    ("s", "f"): draw_activities,
    ("d", "w"): draw_tasks,
}


@dataclass(frozen=True)
class Comparison:
    """How far an execution of the network is from its meaning.

    Attributes:
        graphs: executions compared.
        values: decisions compared (everything but scalars), frames and outputs.
        wrong: those that differ although every choice behind them was clear: each is listed in `failures`.
        near: those outside the domain, behind a choice closer than the resolution (or tied, if ties are not resolved).
        near_wrong: how many of `near` differ.
        unclear: executions with such a choice.
        unclear_wrong: how many of these differ anywhere.
        error: the largest scalar error inside the domain.
        attention_error: the largest difference to α* inside the domain.
        smallest_margin: of a key over the next, and over the bound, among all choices.
    """

    graphs: int = 0
    values: int = 0
    wrong: int = 0
    near: int = 0
    near_wrong: int = 0
    unclear: int = 0
    unclear_wrong: int = 0
    error: float = 0.0
    attention_error: float = 0.0
    smallest_margin: float = np.inf
    failures: tuple[str, ...] = ()

    def __add__(self, other: "Comparison") -> "Comparison":
        return Comparison(
            self.graphs + other.graphs,
            self.values + other.values,
            self.wrong + other.wrong,
            self.near + other.near,
            self.near_wrong + other.near_wrong,
            self.unclear + other.unclear,
            self.unclear_wrong + other.unclear_wrong,
            max(self.error, other.error),
            max(self.attention_error, other.attention_error),
            min(self.smallest_margin, other.smallest_margin),
            (self.failures + other.failures)[:20],
        )


@dataclass(frozen=True)
class Certificate:
    """What was checked, and the domain for which it holds.

    Attributes:
        level: "quick" or "full".
        checked: (families, nodes, graphs) of every batch.
        result: what came out.
        skipped: graphs on which a value leaves its declared range, which the interpreter refuses.
        reference: differences between interpreter and reference algorithm, or None where there is no reference.
        domain: what inputs the network is for.
        exact_margin: whether the softmax margin is large enough for exactness.
    """

    level: str
    checked: tuple[tuple[tuple[str, ...], int, int], ...]
    result: Comparison
    skipped: int
    reference: int | None
    domain: dict[str, Any]
    tolerance: float
    exact_margin: bool
    seconds: float

    @property
    def ok(self) -> bool:
        """Nothing wrong inside the domain, where most values lie, and the interpreter agrees with the reference."""
        r = self.result
        right = (
            r.graphs > 0
            and r.near <= r.values / 2
            and r.wrong == 0
            and r.error <= self.tolerance
            and r.attention_error <= ATTENTION_TOLERANCE
        )
        return right and not self.reference and self.exact_margin

    def save(self, path: str | Path) -> None:
        """Keep the certificate as JSON."""
        write_text(path, json.dumps({"ok": self.ok, **asdict(self)}, indent=1))

    def __str__(self) -> str:
        r = self.result
        sizes = sorted({n for _, n, _ in self.checked})
        families = {family for group, _, _ in self.checked for family in group}
        lines = [
            f"certificate ({self.level}): {'ok' if self.ok else 'NOT OK'}"
            + (f", where choices are clear; {r.unclear} of {r.graphs} executions have others" if r.unclear else ""),
            f"  checked   {r.graphs} graphs of {len(families)} families, n = {', '.join(map(str, sizes))}",
            f"  wrong     {r.wrong} of {r.values} values",
            f"  near      {r.near} values behind a choice closer than the resolution, {r.near_wrong} of them differ; "
            f"in {r.unclear} executions, {r.unclear_wrong} of them wrong somewhere, numbers included",
            f"  error     {r.error:.2g} in scalars (of {self.tolerance:.2g}), {r.attention_error:.2g} in attention",
            f"  margin    {r.smallest_margin:.3g} smallest seen",
        ]
        if self.reference is not None:
            lines.append(f"  reference {self.reference} differences between interpreter and reference algorithm")
        lines += [f"  {k:<9} {v}" for k, v in self.domain.items()]
        if self.skipped:
            lines.append(f"  skipped   {self.skipped} graphs on which a value leaves its declared range")
        if not self.exact_margin:
            lines.append("  margin m  is too small for exactness: attention is soft")
        return "\n".join([*lines, *(f"  failure   {f}" for f in r.failures), f"  took      {self.seconds:.1f} s"])


def compare(compiled: "Compiled", meant: Interpretation, shown: Trace) -> Comparison:
    """Compare one batch, value by value."""
    clear, wrong_somewhere = _clear_frames(compiled, meant), np.zeros(meant.batch, bool)
    tolerance = _tolerance(compiled)
    total = Comparison(graphs=meant.batch, smallest_margin=float(np.min(meant.margins, initial=np.inf)))
    inside = np.broadcast_to((np.arange(meant.steps)[:, None] < meant.lengths)[..., None], clear.shape)
    last = clear[meant.lengths.astype(int) - 1, np.arange(meant.batch)]
    for variable in meant.spec:
        undecoded = variable.stage == Stage.HINT and not compiled.network.config.decode_hints
        if variable.stage == Stage.INPUT or undecoded:
            continue
        right, given = meant.values(variable.stage)[variable.name], shown.values(variable.stage)[variable.name]
        ok, where = (clear, inside) if variable.stage == Stage.HINT else (last, np.ones_like(last))
        if variable.location == Location.GRAPH:
            ok, where = ok.all(-1), where.all(-1)
        if variable.kind in (Kind.CATEGORICAL, Kind.PERMUTATION_POINTER):
            right, given = np.argmax(right, axis=-1), np.argmax(given, axis=-1)
        is_number = variable.kind == Kind.SCALAR
        off = np.nan_to_num(np.abs(right - given), nan=np.inf) if is_number else (right != given)
        if variable.location == Location.EDGE:
            ok, where = (np.broadcast_to(x[..., None], off.shape) for x in (ok, where))
        different = where & (off > tolerance if is_number else off)
        by_graph = np.moveaxis(different, 1 if variable.stage == Stage.HINT else 0, 0)
        wrong_somewhere |= by_graph.reshape(meant.batch, -1).any(1)
        if is_number:
            total += Comparison(error=float(np.max(off, initial=0.0, where=ok & where)))
            continue
        failures = tuple(
            f"{variable.name} at {spot.tolist()} is {given[tuple(spot)]:g}, meant {right[tuple(spot)]:g}"
            for spot in np.argwhere(different & ok)[:5]
        )
        total += Comparison(
            values=int(where.sum()),
            wrong=int((different & ok).sum()),
            near=int((where & ~ok).sum()),
            near_wrong=int((different & ~ok).sum()),
            failures=failures,
        )
    unclear = unclear_frames(compiled, meant).any(0)
    total += Comparison(unclear=int(unclear.sum()), unclear_wrong=int((unclear & wrong_somewhere).sum()))
    if meant.steps > 1 and shown.attention is not None:
        rows = (clear & inside)[1:, :, None]
        off = np.nan_to_num(np.abs(shown.attention - meant.attention)[:, 0].max(-1), nan=np.inf)  # [T-1, B, selects, n]
        total += Comparison(attention_error=float(np.max(off, initial=0.0, where=rows)))
    return total


def unclear_frames(compiled: "Compiled", meant: Interpretation) -> np.ndarray:
    """[T, B]: the frames of executions that lie behind a choice closer than the network can tell apart."""
    inside = np.arange(meant.steps)[:, None] < meant.lengths
    return inside & ~_clear_frames(compiled, meant).all(-1)


def _clear_frames(compiled: "Compiled", meant: Interpretation) -> np.ndarray:
    """[T, B, n]: whether every choice up to that frame was clear: the node's own, or anybody's where all see all."""
    near = np.zeros(meant.margins[:, 0].shape, bool)
    for comparison, least in compiled.plan.tells_apart.items():
        near |= meant.closest.get(comparison, np.inf) < least
    for i, select in enumerate(compiled.selects):
        near |= (meant.tied[:, i] != 0) & (not select.resolves_ties)
        if not select.node_key:
            near |= meant.margins[:, i] < select.resolution
    if compiled.plan.micro_steps > 1:  # one node's choice is soon everybody's
        near = np.broadcast_to(near.any(-1, keepdims=True), near.shape)
    start = np.zeros((1, meant.batch, meant.nodes), bool)
    return ~np.maximum.accumulate(np.concatenate([start, near]), axis=0)


def make_certificate(compiled: "Compiled", level: str) -> Certificate:
    """Run a compiled network against its meaning on many graphs."""
    start = time.perf_counter()
    total, checked, skipped, reference = Comparison(), [], 0, 0
    for families, n, inputs in _batches(compiled, level):
        meant, outside = _interpret_inside(compiled, inputs)
        skipped += outside
        if meant is None:
            continue
        total += compare(compiled, meant, compiled.run_like(meant))
        reference += _reference_differences(compiled, meant)
        checked.append((families, n, meant.batch))
    numbers = compiled.numbers
    return Certificate(
        level=level,
        checked=tuple(checked),
        result=total,
        skipped=skipped,
        reference=reference if compiled.program.algorithm else None,
        domain=_domain(compiled),
        tolerance=_tolerance(compiled),
        exact_margin=numbers.margin >= exact_margin(numbers.max_nodes, numbers.dtype) - 1e-9,
        seconds=time.perf_counter() - start,
    )


def _interpret_inside(compiled: "Compiled", inputs: dict[str, np.ndarray]) -> tuple[Interpretation | None, int]:
    """What the program means on the graphs that stay inside its declared ranges, and how many do not."""
    try:
        return interpret(compiled.program, inputs), 0
    except RangeError:
        count = len(next(iter(inputs.values())))
        inside = [i for i in range(count) if _stays_inside(compiled, {k: x[[i]] for k, x in inputs.items()})]
        kept = {k: x[inside] for k, x in inputs.items()}
        return (interpret(compiled.program, kept) if inside else None), count - len(inside)


def _stays_inside(compiled: "Compiled", inputs: dict[str, np.ndarray]) -> bool:
    try:
        interpret(compiled.program, inputs)
    except RangeError:
        return False
    return True


def _batches(compiled: "Compiled", level: str) -> Iterator[tuple[tuple[str, ...], int, dict[str, np.ndarray]]]:
    program, names = compiled.program, compiled.program.spec.names(Stage.INPUT)
    most = compiled.numbers.max_nodes
    families = tuple(FAMILIES if "A" in names else ARRAYS)
    draw = next((how for inputs, how in NUMBERS.items() if set(inputs) <= set(names)), None)

    def drawn(family: str, n: int, count: int, seed: int) -> dict[str, np.ndarray]:
        batch: dict[str, np.ndarray] = {}
        if "A" in names:
            kind = {"weighted": "A" in dict(program.weights), "directed": not program.undirected}
            batch |= draw_family(family, n, count, seed, **kind)
        if draw is not None:
            batch |= _in_range(draw(family if family in ARRAYS else "uniform", n, count, seed), dict(program.weights))
        batch["pos"] = _positions(n, count, 1.0 if program.regular else compiled.numbers.min_gap, seed)
        return {k: x for k, x in batch.items() if k in names}

    if level == "quick":
        n = min(QUICK_NODES, most)
        parts = [drawn(family, n, QUICK_GRAPHS // len(families) + 1, i) for i, family in enumerate(families)]
        batch = {k: np.concatenate([part[k] for part in parts])[:QUICK_GRAPHS] for k in parts[0]}
        yield families, n, batch
        return
    for n in sorted({max(min(size, most), compiled.least_nodes) for size in FULL_NODES}):
        for i, family in enumerate(families):
            yield (family,), n, drawn(family, n, FULL_GRAPHS, 1000 * n + i)


def _in_range(batch: dict[str, np.ndarray], ranges: dict[str, tuple[float, float]]) -> dict[str, np.ndarray]:
    """Keys are drawn between 0 and 1; a program may be meant for others."""
    low, high = ranges.get("key", (0.0, 1.0))
    return {k: low + (high - low) * x if k == "key" else x for k, x in batch.items()}


def _positions(n: int, count: int, gap: float, seed: int) -> np.ndarray:
    """Regular positions, and every other time irregular ones with pairs as close as the domain allows."""
    regular = np.broadcast_to(np.arange(n) / n, (count, n)).copy()
    if 2 * gap * n > 1:
        return regular
    loose = np.sort(np.random.RandomState(seed).uniform(0, 1 - 2 * gap * n, size=(count, n)), axis=-1)
    loose[:, 1::2] = loose[:, 0 : n - 1 : 2]  # pairs
    regular[1::2] = (loose + 1.01 * gap * np.arange(n))[1::2]
    return regular


def _reference_differences(compiled: "Compiled", meant: Interpretation) -> int:
    if compiled.program.algorithm is None:
        return 0
    trace = algorithm(compiled.program.algorithm).trace(**meant.inputs)
    permuted = any(v.kind == Kind.PERMUTATION_POINTER for v in meant.spec)
    return sum((as_permutations(trace) if permuted else trace).differences(meant).values())


def _tolerance(compiled: "Compiled") -> float:
    """What a scalar may be off by: rounding, per declared range; a layer norm adds its noise."""
    kept = _kept_ranges(compiled).values()
    spans = [high - low for low, high in (*(_range(v) for v in compiled.program.state), *kept)]
    numbers = compiled.numbers
    return (16 * numbers.roundoff + 0.8 * numbers.layer_norm_noise) * max(spans, default=1.0)


def _range(variable: Any) -> tuple[float, float]:
    return getattr(variable, "low", 0.0), getattr(variable, "high", 1.0)


def _kept_ranges(compiled: "Compiled") -> dict[str, tuple[float, float]]:
    """The ranges of numbers that hints keep, by how they are read."""
    declared = dict(compiled.program.weights)
    return {str(read): declared[read.name] for read in compiled.program.memory if read.name in declared}


def _domain(compiled: "Compiled") -> dict[str, Any]:
    numbers, selects = compiled.numbers, compiled.selects
    ranges = [str(v).split(" = ")[0] for v in compiled.program.state if hasattr(v, "high")]
    ranges += [f"{read}: Real[{low:g}, {high:g}]" for read, (low, high) in _kept_ranges(compiled).items()]
    least = "up to" if compiled.least_nodes == 1 else f"{compiled.least_nodes} to"
    names = [select.name for select in compiled.program.selects]
    keys = {name: s.resolution for name, s in zip(names, selects, strict=True) if not s.node_key}
    kind = _apart({**keys, **compiled.plan.tells_apart})
    resolved = all(s.resolves_ties for s in selects)
    return {
        "nodes": f"{least} {numbers.max_nodes}, positions at least {numbers.min_gap:.3g} apart",
        "choices": f"{kind}; ties {'go to the lowest node' if resolved else 'are outside the domain'}",
        **({"ranges": "; ".join(ranges)} if ranges else {}),
        "machine": _machine(compiled),
        "softmax": f"margin {numbers.margin:.3g} nats, {numbers.dtype}",
    }


def _apart(resolutions: dict[str, float]) -> str:
    """What choices are between, and how far apart that must be, where and in which comparison."""
    if not resolutions:
        return "nodes"
    finest, *coarser = sorted(set(resolutions.values()))
    parts = [f"numbers at least {finest:.3g} apart"]
    for least in coarser:
        parts.append(f"{least:.3g} in " + " and ".join(f"'{k}'" for k, x in resolutions.items() if x == least))
    return ", ".join(parts)


def _machine(compiled: "Compiled") -> str:
    """Heads, micro-steps and channels."""
    config, used = compiled.network.config, len(compiled.plan.channels)
    return (
        f"{config.heads} head{'s' * (config.heads > 1)}, {config.message_passing_steps} "
        f"micro-step{'s' * (config.message_passing_steps > 1)} per step, {used} of {config.hidden} channels"
    )
