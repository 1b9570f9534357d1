"""Several seeds of any model, trained at once: one program, a map over the seeds inside."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from jaxtyping import Array, PRNGKeyArray

from mechgap.storage import writable_folder
from mechgap.training.progress import Watch
from mechgap.training.state import load_state, save_state

FORMAT, FILE = "mechgap.training.state/1", "state.safetensors"
CHECKPOINT_SECONDS = 60.0
ALL_STEPS, ENOUGH, STOPPED = "all steps", "enough", "stopped before all steps"  # how a training ends
# Adafactor factors second moments over the two largest axes, which are those of a matrix: these are at least 64 (heads
# of width 64 are), and heads are fewer. Layers are no axis of it, see `optimiser_of`.
FACTORED_FROM = 64
OPTIMISERS = {"adam": optax.adam, "adafactor": lambda rate: optax.adafactor(rate, min_dim_size_to_factor=FACTORED_FROM)}
CONSTANT, DECAY = "constant", "decay"
SCHEDULES = (CONSTANT, DECAY)
WARM_UP, LEFT = 100, 0.01  # steps of the rising learning rate, and what is left of it at the end, in ALTA's own code


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    Attributes:
        steps: the most.
        batch: examples per step; whoever draws them decides what that means.
        learning_rate: the largest.
        optimiser: "adam" or "adafactor".
        schedule: of the learning rate: "constant"; or "decay": it rises from 0 within `WARM_UP` steps, and falls
            exponentially to `LEFT` of itself.
        seeds: how many models.
        first_seed: the others follow.
        chunk: steps between two looks at the clock.
        clip: the largest global norm of a gradient; 0 for no limit.
        enough: stop where every model has reached this share of right answers on training data; None never does.
    """

    steps: int
    batch: int
    learning_rate: float
    optimiser: str = "adam"
    seeds: int = 1
    first_seed: int = 0
    chunk: int = 100
    clip: float = 0.0
    enough: float | None = None
    schedule: str = CONSTANT

    def __post_init__(self) -> None:
        if self.optimiser not in OPTIMISERS:
            raise ValueError(f"optimiser must be one of {', '.join(OPTIMISERS)}; got {self.optimiser!r}.")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be {' or '.join(SCHEDULES)}; got {self.schedule!r}.")
        for name in ("steps", "batch", "seeds", "chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}.")


@dataclass(frozen=True)
class Trained:
    """Models with a leading seed axis.

    Attributes:
        steps: how many they took.
        losses: the mean loss of every chunk [chunks, seeds].
        seconds: without compiling; of all parts of a training that was killed and went on, up to where each was kept.
        before: of them, those of earlier parts.
        ended: `ALL_STEPS`; or `ENOUGH` where the recipe's share of right answers was reached before, `STOPPED` where
            time was up.
    """

    models: Any
    steps: int
    losses: np.ndarray
    seconds: float
    ended: str
    before: float = 0.0


def without_diverged(trained: Trained) -> tuple[Trained, list[int]]:
    """The models whose last loss and weights are finite numbers, and which of all they are, from 0 on."""
    sound = np.isfinite(trained.losses[-1])
    for leaf in jax.tree.leaves(eqx.filter(trained.models, eqx.is_inexact_array)):
        sound &= np.isfinite(np.asarray(leaf)).reshape(len(sound), -1).all(axis=1)
    left = np.flatnonzero(sound)
    if len(left) == len(sound):
        return trained, left.tolist()
    models = jax.tree.map(lambda x: x[left] if eqx.is_array(x) else x, trained.models)
    return replace(trained, models=models, losses=trained.losses[:, left]), left.tolist()


def learning_rate(recipe: Recipe) -> float | optax.Schedule:
    """The one of all steps, or step -> learning rate."""
    peak = recipe.learning_rate
    if recipe.schedule == CONSTANT:
        return peak
    return optax.warmup_exponential_decay_schedule(0.0, peak, WARM_UP, recipe.steps, LEFT, end_value=LEFT * peak)


def optimiser_of(recipe: Recipe, layered: Any = None) -> optax.GradientTransformation:
    """What changes the weights of one model.

    Args:
        recipe: says which.
        layered: truths that fit the weights: whether the first axis of each is of layers. Adafactor then sees every
            layer by itself, so that it factors within matrices alone, and limits and scales a change by one matrix, as
            it does in T5; None where there is no such axis. Adam sees every number by itself in any case.
    """
    optimiser = OPTIMISERS[recipe.optimiser](learning_rate(recipe))
    if layered is not None and recipe.optimiser == "adafactor":
        optimiser = _by_layer(optimiser, layered)
    return optax.chain(optax.clip_by_global_norm(recipe.clip), optimiser) if recipe.clip else optimiser


def _by_layer(optimiser: optax.GradientTransformation, layered: Any) -> optax.GradientTransformation:
    def init(weights: Any) -> tuple:
        stacks, others = eqx.partition(weights, layered)
        return jax.vmap(optimiser.init)(stacks), optimiser.init(others)

    def update(gradient: Any, moments: tuple, weights: Any) -> tuple[Any, tuple]:
        (stacks, others), (of_stacks, of_others) = (eqx.partition(x, layered) for x in (gradient, weights))
        changes, stacked = jax.vmap(optimiser.update)(stacks, moments[0], of_stacks)
        change, later = optimiser.update(others, moments[1], of_others)
        return eqx.combine(changes, change), (stacked, later)

    return optax.GradientTransformation(init, update)


def train_many(
    init: Callable[[PRNGKeyArray], Any],
    loss: Callable[[Any, Any], Array],
    draw: Callable[[PRNGKeyArray], Any],
    recipe: Recipe,
    *,
    accuracy: Callable[[Any], np.ndarray] | None = None,
    unchanged: Callable[[Any], Any] | None = None,
    layered: Callable[[Any], Any] | None = None,
    folder: str | Path | None = None,
    stop_after: float | None = None,
    title: str = "training",
    quiet: bool | None = None,
) -> Trained:
    """Train models from different seeds.

    Args:
        init: key -> a model with random weights.
        loss: (model, batch) -> a number.
        draw: key -> a batch. Arrays that it draws from are bound by `jax.tree_util.Partial`: others become constants of
            the compiled program.
        recipe: how.
        accuracy: (models) -> [seeds], looked at now and then where the recipe says when it is enough.
        unchanged: (gradient) -> where weights and moments are to stay as they are, as truths that fit the weights; not
            for models with `layered` weights.
        layered: (weights) -> which of them have an axis of layers, see `optimiser_of`.
        folder: keeps the state once a minute, or after every chunk that takes longer, and goes on from there where a
            run was killed or stopped.
        stop_after: after so many seconds, compiling included, it ends with the chunk that it is in.
        title: of the progress bar.
        quiet: no progress bar; by default where there is no terminal.
    """
    if recipe.enough is not None and accuracy is None:
        raise ValueError(
            f"enough = {recipe.enough:g} means nothing to {title}: right answers are not looked at while it trains. "
            f"Leave it out."
        )
    entered = time.perf_counter()
    keys = jax.vmap(jax.random.key)(recipe.first_seed + jnp.arange(recipe.seeds))
    models = eqx.filter_jit(eqx.filter_vmap(init))(keys)
    weights, fixed = eqx.partition(models, eqx.is_inexact_array)
    optimiser = optimiser_of(recipe, None if layered is None else layered(weights))
    state = (weights, jax.vmap(optimiser.init)(weights))

    def one_step(carry: tuple, key: PRNGKeyArray, draw: Callable) -> tuple[tuple, Array]:
        weights, moments = carry
        batch = draw(key)
        value, gradient = jax.value_and_grad(lambda w: loss(eqx.combine(w, fixed_of_one), batch))(weights)
        change, later = optimiser.update(gradient, moments, weights)
        if unchanged is not None:
            still = unchanged(gradient)
            of_moments = optax.tree_map_params(
                optimiser, lambda _, s: s, later, still, transform_non_params=lambda _: False
            )
            later = jax.tree.map(jnp.where, of_moments, moments, later)
            change = jax.tree.map(lambda s, x: jnp.where(s, 0, x), still, change)
        return (optax.apply_updates(weights, change), later), value

    fixed_of_one = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, fixed)

    def many_steps(
        carry: tuple, seed_key: PRNGKeyArray, step: Array, count: int, draw: Callable
    ) -> tuple[tuple, Array]:
        step_keys = jax.vmap(lambda i: jax.random.fold_in(seed_key, i))(step + jnp.arange(count))
        carry, values = jax.lax.scan(partial(one_step, draw=draw), carry, step_keys)
        return carry, jnp.mean(values)

    @eqx.filter_jit
    def advance(state: tuple, keys: Array, step: Array, count: int, draw: Callable) -> tuple[tuple, Array]:
        return jax.vmap(lambda carry, key: many_steps(carry, key, step, count, draw))(state, keys)

    step, losses, state, ended, spent = _resumed(folder, state)
    data_keys = jax.vmap(lambda k: jax.random.fold_in(k, 1))(keys)

    @cache
    def program(count: int) -> Callable:
        return advance.lower(state, data_keys, jnp.uint32(0), count, draw).compile()  # type: ignore[attr-defined]

    with Watch(title, recipe.steps, step, recipe.seeds, quiet) as watch:
        if step < recipe.steps and ended != ENOUGH:
            program(min(recipe.chunk, recipe.steps - step))  # before the clock starts
        watch.start()
        saved = time.perf_counter()
        begun = saved - spent
        while step < recipe.steps and ended == ALL_STEPS:
            count = min(recipe.chunk, recipe.steps - step)
            state, value = program(count)(state, data_keys, jnp.uint32(step), count, draw)
            step += count
            losses.append(np.asarray(value))
            share = float("nan")
            if accuracy is not None and recipe.enough is not None and len(losses) % 10 == 0:
                share = float(np.min(accuracy(eqx.combine(state[0], fixed))))
            is_late = stop_after is not None and time.perf_counter() - entered > stop_after
            if recipe.enough is not None and share >= recipe.enough:
                ended = ENOUGH
            elif is_late and step < recipe.steps:
                ended = STOPPED
            watch.report(step, float(np.mean(losses[-1])), share, int(np.sum(~np.isfinite(losses[-1]))))
            if folder is not None and time.perf_counter() - saved > CHECKPOINT_SECONDS:
                saved = time.perf_counter()
                _save(folder, step, losses, state, ended, saved - begun)
    seconds = time.perf_counter() - begun
    if folder is not None:
        _save(folder, step, losses, state, ended, seconds)
    return Trained(eqx.combine(state[0], fixed), step, np.stack(losses), seconds, ended, spent)


def forget_state(folder: str | Path) -> None:
    """Delete what a training would go on from, once its result is kept."""
    (Path(folder) / FILE).unlink(missing_ok=True)


def _save(folder: str | Path, step: int, losses: list[np.ndarray], state: Any, ended: str, seconds: float) -> None:
    save_state(Path(folder) / FILE, FORMAT, state, losses, step=step, ended=ended, seconds=seconds)


def _resumed(folder: str | Path | None, state: Any) -> tuple[int, list[np.ndarray], Any, str, float]:
    kept = None if folder is None else load_state(writable_folder(folder) / FILE, FORMAT, state)
    if kept is None:
        return 0, [], state, ALL_STEPS, 0.0
    spent = float(kept.about.get("seconds", 0.0))  # older files do not say
    ended = ENOUGH if kept.about["ended"] == ENOUGH else ALL_STEPS  # who was stopped goes on
    return int(kept.about["step"]), list(kept.losses), kept.state, ended, spent
