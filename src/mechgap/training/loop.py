"""The training loop: read it from top to bottom."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mechgap.algorithms import algorithm
from mechgap.networks import ClrsNet
from mechgap.training.checkpoint import (
    is_finished,
    load_checkpoint,
    load_result,
    open_folder,
    save_checkpoint,
    save_result,
)
from mechgap.training.config import ARCHITECTURE, TrainConfig
from mechgap.training.data import Batch, frames_for, run_once, sample_chunks, test_batch, validation_batch
from mechgap.training.ensemble import Plan, State, initial_state, plan_of
from mechgap.training.manifest import made_with
from mechgap.training.members import make_members
from mechgap.training.programs import (
    everywhere,
    make_mesh,
    spread,
    step_programs,
    test_program,
    validation_program,
)
from mechgap.training.progress import Watch
from mechgap.training.result import Ensemble, Table
from mechgap.training.scores import scores
from mechgap.training.weights import digest, network_of, starting_point

CHECKPOINT_SECONDS = 60.0
CHECKPOINT_SHARE = 20  # checkpoints take at most a twentieth of the time
TEST_SAMPLES = 32  # at a time


def train(
    algorithm: str,
    *,
    init_from: Any = None,
    folder: str | Path | None = None,
    devices: Sequence[jax.Device] | None = None,
    quiet: bool | None = None,
    **settings: Any,
) -> Ensemble:
    """Train networks on an algorithm, all seeds at once.

    Args:
        algorithm: its name, e.g. "bfs".
        init_from: weights for all seeds to start from: a file, a network or a compiled program; its architecture is
            taken over where the settings do not say otherwise.
        folder: where to keep runs; each has a folder of its own there, is resumed where it was killed, and is not
            repeated. None keeps nothing.
        devices: share the seeds among these; by default all local ones.
        quiet: no progress bar; by default where there is no terminal.
        settings: see `TrainConfig`, e.g. seeds=8, steps=300.
    """
    if init_from is not None:
        settings = _adopted(init_from) | settings
        settings["init_from"] = str(init_from) if isinstance(init_from, str | Path) else "given in Python"
    config = TrainConfig.from_settings({"algorithm": algorithm, **settings})
    return fit([config], init_from=init_from, folder=folder, devices=devices, quiet=quiet)


def fit(
    configs: Sequence[TrainConfig],
    *,
    init_from: Any = None,
    folder: str | Path | None = None,
    devices: Sequence[jax.Device] | None = None,
    quiet: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Ensemble:
    """Train all seeds of all configs as one ensemble; the configs may differ in numbers and seeds only.

    `init_from` is as in `train`, or a list with one of these per config.
    """
    config, plan, members = configs[0], plan_of(configs[0]), make_members(configs)
    start, weights = _starts(plan, configs, config.init_from if init_from is None else init_from)
    shapes = jax.eval_shape(lambda: initial_state(plan, members, start))
    place = None if folder is None else open_folder(folder, configs, weights, _bytes(shapes))
    if place is not None and is_finished(place):
        return load_result(place)

    mesh = make_mesh(len(members.seed), devices)
    members = spread(members, mesh)
    kept = None if place is None else load_checkpoint(place, shapes)
    state, history = kept if kept else (run_once(lambda: initial_state(plan, members, start)), _no_history())
    state = spread(state, mesh)
    resumed = int(history["step"][-1]) if history["step"] else 0
    began = time.perf_counter()
    with Watch(config.algorithm, config.steps, resumed, len(members.seed), quiet) as watch:
        trained = everywhere(_validation_data(plan, config), mesh)
        steps = step_programs(plan, config.sizes, state, members, mesh)
        validate = validation_program(plan, trained, state, mesh)
        compiled, saved, pause = time.perf_counter(), time.perf_counter(), checkpoint_seconds
        watch.start()
        for done in range(resumed + 1, config.steps + 1):
            state, _ = steps[config.sizes[(done - 1) % len(config.sizes)]](state, members)
            if done % config.eval_every and done != config.steps:
                continue
            state, report = validate(trained, state)
            _remember(history, done, jax.device_get(report))
            watch.report(done, _mean(history, "loss"), _mean(history, "validation"), int(history["diverged"][-1].sum()))
            if place is not None and done < config.steps and time.perf_counter() - saved >= pause:
                begun = time.perf_counter()
                save_checkpoint(place, state, history)
                saved = time.perf_counter()
                pause = max(checkpoint_seconds, CHECKPOINT_SHARE * (saved - begun) if checkpoint_seconds else 0)
        jax.block_until_ready(state.step)
        ended = time.perf_counter()
        watch.say("testing")
        tests = _tests(plan, config, state, mesh)
    times = {"compile_s": compiled - began, "train_s": ended - compiled, "test_s": time.perf_counter() - ended}
    ensemble = _result(configs, state, history, tests, _manifest(plan, config, mesh.devices.size, times))
    if place is not None:
        save_result(place, ensemble)
    return ensemble


def _starts(plan: Plan, configs: Sequence[TrainConfig], init_from: Any) -> tuple[ClrsNet | None, str | None]:
    """The weights that every member starts from, with a leading member axis, and a hash of them."""
    if init_from is None:
        return None, None
    given = list(init_from) if isinstance(init_from, list | tuple) else [init_from] * len(configs)
    if len(given) != len(configs):
        raise ValueError(f"init_from must be one network, or one per config: {len(configs)}; got {len(given)}.")
    starts = [starting_point(x, plan.source.spec, plan.architecture) for x in given]
    rows = [start for start, config in zip(starts, configs, strict=True) for _ in config.seed_range]
    hashes = dict.fromkeys(digest(start) for start in starts)
    return jax.tree.map(lambda *x: jnp.stack(x), *rows), "+".join(hashes)


def _adopted(init_from: Any) -> dict[str, Any]:
    """The architecture of a network to start from, as settings."""
    config = network_of(init_from).config
    bias = config.pre_attention_bias
    adopted = {name: getattr(config, name) for name in ARCHITECTURE if name not in ("precision", "pre_attention_bias")}
    if bias is None:
        return adopted
    return adopted | {"pre_attention_bias": True, "sizes": (bias,), "length_generalize": False}


def _validation_data(plan: Plan, config: TrainConfig) -> Batch:
    count = config.validation_samples or 64 * algorithm(config.algorithm).samples_multiplier
    return validation_batch(plan.source, max(config.sizes), count)


def _tests(plan: Plan, config: TrainConfig, state: State, mesh: Any) -> dict[str, np.ndarray]:
    """The test score of every member at its best validation and after the last step, streaming over the samples."""
    totals: dict[str, dict[str, np.ndarray]] = {"test_best": {}, "test_last": {}}
    for chunk in sample_chunks(test_batch(config), TEST_SAMPLES):
        batch = everywhere(chunk, mesh)
        program = test_program(plan, batch, state.network, mesh)
        for name, networks in (("test_best", state.best), ("test_last", state.network)):
            for output, counts in jax.device_get(program(batch, networks)).items():
                totals[name][output] = totals[name].get(output, 0) + counts.astype(np.float64)
    return {name: scores(plan.source.spec, counts)["score"] for name, counts in totals.items()}


def _no_history() -> dict[str, list]:
    return {"step": [], "loss": [], "validation": [], "diverged": []}


def _remember(history: dict[str, list], step: int, report: dict[str, np.ndarray]) -> None:
    since = step - (int(history["step"][-1]) if history["step"] else 0)
    loss = report["loss_sum"] / np.float32(since)
    values = {"step": np.int64(step), "loss": loss, "validation": report["validation"], "diverged": report["diverged"]}
    for name, value in values.items():
        history[name].append(value)


def _mean(history: dict[str, list], name: str) -> float:
    sound = ~history["diverged"][-1]
    return float(history[name][-1][sound].mean()) if sound.any() else float("nan")


def _result(
    configs: Sequence[TrainConfig], state: State, history: dict[str, list], tests: Table, manifest: dict[str, Any]
) -> Ensemble:
    host = jax.device_get(state)
    metrics: Table = {
        "seed": np.concatenate([np.array(config.seed_range, np.int64) for config in configs]),
        "setting": np.concatenate([np.full(config.seeds, i, np.int64) for i, config in enumerate(configs)]),
        "best_step": host.best_step.astype(np.int64),
        "validation": host.best_score.astype(np.float64),
        **tests,
        "loss": history["loss"][-1].astype(np.float64),
        "diverged": host.diverged,
    }
    stacked = {name: np.stack(values) for name, values in history.items()}
    return Ensemble(tuple(configs), host.best, host.network, metrics, stacked, manifest)


def _manifest(plan: Plan, config: TrainConfig, devices: int, times: dict[str, float]) -> dict[str, Any]:
    return {
        **made_with(devices),
        "frames": {str(n): frames_for(plan.source, n) for n in sorted(set(config.sizes))},
        "times": {name: round(value, 3) for name, value in times.items()},
    }


def _bytes(shapes: Any) -> int:
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(shapes))
