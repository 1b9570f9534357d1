"""The three forms of the operations on node pairs: errors, time of a forward and backward pass, and of a whole step.

    PYTHONPATH=src python benchmarks/pairwise.py

Part 1 checks and times `attention_scores` and `pointer_scores` over 128 seeds of 32 graphs (4 seeds at n = 64), hidden
size 128, 3 values on an edge. Errors are norms of differences from the plain form over its norm, of the scores and of
the worst gradient. Part 2 times a step of 128 networks that learn breadth-first search
(forward pass, a simple loss, gradients), batch 32. `--tune` also times the kernel cut into other blocks.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

import mechgap as mg
from mechgap.networks import ClrsNet, NetConfig, pairwise_kernel
from mechgap.networks.pairwise import FORMS, attention_scores, pointer_scores, use_form
from mechgap.networks.pairwise_recompute import LEAKY_SUM, MAXIMUM, Operands

VALUES = 3
FRAMES = {4: 4, 7: 6, 11: 9, 13: 10, 16: 10}  # of the reference
OPERATIONS = {"attention": attention_scores, "pointer": pointer_scores}


def operands(name: str, n: int, seeds: int, graphs: int, hidden: int) -> tuple[jax.Array, ...]:
    """Random ones; all graphs of a seed share its weights."""
    lead = (seeds, graphs)
    shapes = [(*lead, n, hidden), (*lead, n, hidden), (*lead, n, n, VALUES), (seeds, VALUES, hidden)]
    shapes.append((seeds, 1, hidden) if name == "attention" else (seeds, hidden))
    keys = jax.random.split(jax.random.key(n), len(shapes))
    return tuple(jax.random.normal(k, shape) for k, shape in zip(keys, shapes, strict=True))


def both_passes(operation: Callable) -> Callable:
    """Scores and gradients of many graphs."""
    mapped = jax.vmap(jax.vmap(operation, in_axes=(0, 0, 0, None, None)))

    def run(*given: jax.Array) -> Any:
        scores, pull = jax.vjp(mapped, *given)
        return scores, pull(jnp.cos(jnp.arange(scores.size, dtype=scores.dtype)).reshape(scores.shape))

    return run


def compiled(jobs: dict[Any, tuple[str, Callable, tuple]]) -> dict[Any, Any]:
    """Programs of (form, function, arguments), traced one by one and compiled side by side; None where that failed."""

    def attempt(make: Callable[[], Any], what: Any) -> Any:
        try:
            return make()
        except Exception as error:  # one failure must not cost the other numbers
            print(f"FAILED {what}: {type(error).__name__}: {str(error)[:600]}", flush=True)
            return None

    lowered = {}
    for what, (form, function, given) in jobs.items():
        with use_form(form):
            fresh = partial(function)  # jit would remember the trace of another form
            lowered[what] = attempt(lambda f=fresh, a=given: jax.jit(f).lower(*a), what)
    with ThreadPoolExecutor(16) as pool:
        done = pool.map(lambda item: item[1] and attempt(item[1].compile, item[0]), lowered.items())
        return dict(zip(lowered, done, strict=True))


def milliseconds(program: Callable, given: tuple, repeats: int) -> float:
    """The median over five rounds of several calls each."""
    jax.block_until_ready(program(*given))
    rounds = []
    for _ in range(5):
        begun = time.perf_counter()
        jax.block_until_ready([program(*given) for _ in range(repeats)][-1])
        rounds.append((time.perf_counter() - begun) / repeats)
    return 1e3 * statistics.median(rounds)


def errors(found: Any, expected: Any) -> tuple[float, float]:
    """Of the scores, and of the worst gradient."""

    def error(x: jax.Array, y: jax.Array) -> float:
        return float(jnp.linalg.norm(x - y) / jnp.linalg.norm(y))

    return error(found[0], expected[0]), max(error(x, y) for x, y in zip(found[1], expected[1], strict=True))


def operations_table(console: Console, seeds: int, graphs: int, hidden: int, sizes: list[int], repeats: int) -> None:
    """Part 1."""
    counts = {n: (seeds if n < 64 else max(1, seeds // 32)) for n in sizes}
    given = {(name, n): operands(name, n, counts[n], graphs, hidden) for n in sizes for name in OPERATIONS}
    jobs = {
        (form, *at): (form, both_passes(OPERATIONS[at[0]]), arguments)
        for at, arguments in given.items()
        for form in FORMS
    }
    with jax.default_matmul_precision("highest"):
        programs = compiled(jobs)
    table = Table(title=f"forward and backward, {graphs} graphs a seed, hidden {hidden}: ms (error, gradient's error)")
    for heading in ("operation", "n", "seeds", *FORMS):
        table.add_column(heading, justify="right")
    for (name, n), arguments in given.items():
        reference = programs["plain", name, n](*arguments)
        row = []
        for form in FORMS:
            program = programs[form, name, n]
            if program is None:
                row.append("failed")
                continue
            forward, backward = errors(program(*arguments), reference)
            row.append(f"{milliseconds(program, arguments, repeats):.3f} ({forward:.0e}, {backward:.0e})")
        table.add_row(name, str(n), str(counts[n]), *row)
    console.print(table)


def tuning_table(console: Console, seeds: int, graphs: int, hidden: int, sizes: list[int], repeats: int) -> None:
    """The kernel's two passes for several cuts."""
    cuts = [(256, 16, 1), (512, 8, 1), (512, 16, 1), (512, 32, 1), (512, 16, 2), (1024, 16, 1), (1024, 16, 2)]
    cuts += [(1024, 16, 4), (2048, 16, 4), (2048, 16, 8)]
    columns = [(name, n) for n in sizes for name in ("attention", "pointer")]
    jobs: dict[Any, tuple[str, Callable, tuple]] = {}
    for name, n in columns:
        count, combine = seeds if n < 64 else max(1, seeds // 32), LEAKY_SUM if name == "attention" else MAXIMUM
        *first, last = operands(name, n, count, graphs, hidden)
        x, axes = Operands(*first, last.reshape(count, 1, hidden)), Operands._make((0, 0, 0, None, None))
        scores = jax.random.normal(jax.random.key(1), (count, graphs, 1, n, n))
        for cut in cuts:
            blocks = pairwise_kernel.Blocks.of(n, hidden, *cut)
            forward = partial(pairwise_kernel.forward, combine, blocks=blocks)
            backward = partial(pairwise_kernel.backward, combine, blocks=blocks)
            jobs[name, n, cut, 0] = ("kernel", jax.vmap(jax.vmap(forward, in_axes=(axes,))), (x,))
            jobs[name, n, cut, 1] = ("kernel", jax.vmap(jax.vmap(backward, in_axes=(axes, 0))), (x, scores))
    programs = compiled(jobs)
    table = Table(title=f"the kernel by its cut, hidden {hidden}: forward, backward ms")
    for heading in ("tile", "receivers", "warps", *(f"{name}, n = {n}" for name, n in columns)):
        table.add_column(heading, justify="right")
    for cut in cuts:
        row = []
        for name, n in columns:
            keys = [(name, n, cut, 0), (name, n, cut, 1)]
            times = [milliseconds(programs[k], jobs[k][2], repeats) if programs[k] else float("nan") for k in keys]
            row.append(", ".join(f"{t:.3f}" for t in times))
        table.add_row(*map(str, cut), *row)
    console.print(table)


def step_of(n: int, hidden: int, seeds: int, graphs: int) -> tuple[Callable, tuple]:
    """A step of many networks: the gradients of a simple loss."""
    bfs, steps = mg.algorithm("bfs"), FRAMES[n]
    trace = bfs.benchmark_sampler(n, n, graphs, p=0.3).next()
    hints = {name: jnp.asarray(x[:1]) for name, x in trace.hints.items()}
    inputs = {name: jnp.asarray(x) for name, x in trace.inputs.items()}
    keys = jax.random.split(jax.random.key(0), seeds)
    nets = jax.jit(jax.vmap(lambda key: ClrsNet.init(bfs.spec, NetConfig(hidden=hidden), key=key)))(keys)

    def loss(net: ClrsNet) -> jax.Array:
        def one(inputs: dict, hints: dict) -> jax.Array:
            raw = net(inputs, hints, steps, steps=steps, record=False)
            pointers = [
                jnp.mean(jax.nn.logsumexp(x, axis=-1) - x[..., 0]) for x in (raw.hints["pi_h"], raw.outputs["pi"])
            ]
            return jnp.mean(jax.nn.softplus(raw.hints["reach_h"])) + pointers[0] + pointers[1]

        return jnp.mean(jax.vmap(one, in_axes=(0, 1))(inputs, hints))

    return jax.vmap(jax.value_and_grad(loss)), (nets,)


def steps_table(console: Console, seeds: int, graphs: int, hidden: int, sizes: list[int], forms: list[str]) -> None:
    """Part 2."""
    made = {n: step_of(n, hidden, seeds, graphs) for n in sizes}
    table = Table(title=f"a step of {seeds} networks, batch {graphs}, hidden {hidden}: ms")
    for heading in ("form", *(f"n = {n}" for n in sizes), "steps/s over the cycle", "compile s"):
        table.add_column(heading, justify="right")
    for form in forms:
        begun = time.perf_counter()
        programs = compiled({n: (form, function, given) for n, (function, given) in made.items()})
        taken = time.perf_counter() - begun
        times = [milliseconds(programs[n], made[n][1], 3) if programs[n] else float("nan") for n in sizes]
        cells = [*(f"{t:.2f}" for t in times), f"{1e3 * len(times) / sum(times):.1f}", f"{taken:.0f}"]
        print("step", form, *cells, flush=True)  # in case a limit of time cuts the table off
        table.add_row(form, *cells)
    console.print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=128)
    parser.add_argument("--graphs", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--sizes", type=int, nargs="*", default=[4, 7, 11, 13, 16, 64], help="of part 1")
    parser.add_argument("--step-forms", nargs="*", default=["kernel", "plain", "recompute"])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--tune", type=int, nargs="*", default=[], help="sizes to try the kernel's cuts at")
    options = parser.parse_args()
    console = Console(width=None if Console().is_terminal else 150)
    console.print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}")
    shared = (console, options.seeds, options.graphs, options.hidden)
    if options.sizes:
        operations_table(*shared, options.sizes, options.repeats)
    if options.tune:
        tuning_table(*shared, options.tune, options.repeats)
    if options.step_forms:
        steps_table(*shared, list(FRAMES), options.step_forms)


if __name__ == "__main__":
    main()
