"""The compiled programs of a plan: one training step per size, one validation, one test; over one or more devices."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mechgap.networks.pairwise import present_form
from mechgap.training.data import Batch, frames_for
from mechgap.training.ensemble import Plan, State, answer_all, step, validate
from mechgap.training.members import Members

AXIS = "members"
Program = Callable[..., Any]

COMPILER_OPTIONS: dict[str, Any] | None = None  # of XLA; tests compile quickly rather than well
_compiled: dict[Any, Program] = {}


def make_mesh(members: int, devices: Sequence[jax.Device] | None) -> Mesh:
    """The devices that share the members: as many of those given as divide their number."""
    given = list(jax.local_devices() if devices is None else devices)
    count = max(d for d in range(1, len(given) + 1) if members % d == 0)
    return Mesh(np.array(given[:count]), (AXIS,))


def spread(tree: Any, mesh: Mesh) -> Any:
    """Put a tree with leading member axes on the devices."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec(AXIS)))


def everywhere(tree: Any, mesh: Mesh) -> Any:
    """Put the same tree on every device."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def step_programs(plan: Plan, sizes: Sequence[int], state: State, members: Members, mesh: Mesh) -> dict[int, Program]:
    """The step of every size, compiled side by side; `program(state, members)` uses up the state it is given."""
    distinct = sorted(set(sizes), reverse=True)  # the slowest first
    threads = min(len(distinct), os.cpu_count() or 1)  # more only cost memory
    with ThreadPoolExecutor(threads) as pool:
        lengths = {n: pool.submit(frames_for, plan.source, n) for n in distinct}

        # Traced by this thread: JAX's settings and the form of pairwise operations may be its own (context managers).
        def begin(n: int) -> Future[Program]:
            frames = lengths[n].result()
            what, function = ("step", plan, n, frames), partial(step, plan, n, frames)
            return pool.submit(_traced(what, function, mesh, (state, members), donated=0))

        started = {n: begin(n) for n in distinct}
        return {n: program.result() for n, program in started.items()}


def validation_program(plan: Plan, batch: Batch, state: State, mesh: Mesh) -> Program:
    """`program(batch, state)` -> (state, report); uses up the state."""
    return _traced(("validate", plan), partial(validate, plan), mesh, (batch, state), donated=1, shared=(0,))()


def test_program(plan: Plan, batch: Batch, networks: Any, mesh: Mesh) -> Program:
    """`program(batch, networks)` -> counts."""
    return _traced(("test", plan), partial(answer_all, plan), mesh, (batch, networks), shared=(0,))()


def _traced(
    what: tuple, function: Program, mesh: Mesh, arguments: tuple, donated: int | None = None, shared: tuple = ()
) -> Callable[[], Program]:
    """Trace a function now; the result compiles it, in any thread, once per plan, shapes, devices and settings.

    The members' axis is split among the devices; `shared` arguments are on every device.
    """
    shapes = tuple((x.shape, str(x.dtype)) for x in jax.tree.leaves(arguments))
    key = (what, shapes, jax.tree.structure(arguments), mesh, _settings())
    if key in _compiled:
        return lambda: _compiled[key]
    if mesh.size > 1:
        specs = tuple(PartitionSpec() if i in shared else PartitionSpec(AXIS) for i in range(len(arguments)))
        function = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False)
    lowered = jax.jit(function, donate_argnums=() if donated is None else donated).lower(*arguments)

    def compile_it() -> Program:
        _compiled[key] = lowered.compile(COMPILER_OPTIONS)
        return _compiled[key]

    return compile_it


def _settings() -> tuple:
    """What else decides how a function is traced."""
    of_jax = ("jax_default_matmul_precision", "jax_enable_x64")
    return (*(getattr(jax.config, name) for name in of_jax), present_form())
