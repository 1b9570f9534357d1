"""An ensemble in training: its state, and the pure functions that move it on. Every array has a leading member axis."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from mechgap.networks import ClrsNet, NetConfig, Prediction, postprocess, predict
from mechgap.networks.device import CPU, present_platform
from mechgap.trace import Values
from mechgap.training.config import TrainConfig
from mechgap.training.data import TO_INIT, TO_RUN, Batch, Source, draw, member_key, source_of
from mechgap.training.loss import losses
from mechgap.training.members import Members
from mechgap.training.optimiser import apply, initial, regularised
from mechgap.training.scores import Counts, count, traced_score

CHUNK_BYTES = 2**31  # of one [n, n, hidden] array over samples and members, where a network is only run


class State(eqx.Module):
    """All that changes during training."""

    network: ClrsNet
    optimiser: Any
    best: ClrsNet  # as it was at the best validation
    best_score: Float[Array, "*members"]
    best_step: Int[Array, "*members"]
    step: Int[Array, "*members"]
    loss_sum: Float[Array, "*members"]  # since the last validation
    diverged: Bool[Array, "*members"]  # a loss or gradient was not finite; such a member stays as it was


class Metrics(eqx.Module):
    """What one step tells."""

    loss: Float[Array, "*members"]
    gradient_norm: Float[Array, "*members"]


@dataclass(frozen=True)
class Plan:
    """What is fixed while an ensemble trains; equal plans share their compiled programs.

    Attributes:
        source: the data.
        architecture: of the networks.
        batch: samples per step and member.
        freeze_processor: only encoders and decoders learn.
        at_once: how many members a step computes at the same time; None for all.
    """

    source: Source
    architecture: NetConfig
    batch: int
    freeze_processor: bool
    at_once: int | None


def plan_of(config: TrainConfig, at_once: int | None = None) -> Plan:
    """The plan of a config."""
    at_once = 1 if at_once is None and present_platform() == CPU else at_once
    return Plan(source_of(config), config.network_config(), config.batch, config.freeze_processor, at_once)


def initial_state(plan: Plan, members: Members, start: ClrsNet | None) -> State:
    """Every member before its first step: random weights of its own seed, or its own of `start`."""

    def network(seed: Array) -> ClrsNet:
        return ClrsNet.init(plan.source.spec, plan.architecture, key=member_key(seed, TO_INIT))

    networks = jax.vmap(network)(members.seed) if start is None else start
    count = len(members.seed)
    return State(
        network=networks,
        optimiser=jax.vmap(initial)(networks),
        best=jax.tree.map(jnp.copy, networks),
        best_score=jnp.full(count, -1.0),
        best_step=jnp.zeros(count, jnp.int32),
        step=jnp.zeros(count, jnp.int32),
        loss_sum=jnp.zeros(count),
        diverged=jnp.zeros(count, bool),
    )


def step(plan: Plan, n: int, frames: int, state: State, members: Members) -> tuple[State, Metrics]:
    """One step of every member on fresh graphs of n nodes."""
    batch = draw(plan.source, n, frames, plan.batch, members.seed, state.step)
    return map_members(lambda member: update(plan, *member), (state, members, batch), plan.at_once)


def update(plan: Plan, state: State, member: Members, batch: Batch) -> tuple[State, Metrics]:
    """One step of one member on one batch."""

    def objective(network: ClrsNet) -> Float[Array, ""]:
        prediction = train_predictions(network, batch, state, member)
        parts = losses(network.spec, prediction, batch.hints, batch.outputs, batch.lengths, batch.present)
        return parts.total(member.hint_weight.at(state.step), member.output_weight.at(state.step))

    loss, gradient = jax.value_and_grad(objective)(state.network)
    gradient = regularised(gradient, state.network, member.l1, member.l2)
    stays = state.diverged | ~jnp.isfinite(loss)
    network, optimiser, norm = apply(
        state.network,
        gradient,
        state.optimiser,
        learning_rate=member.learning_rate,
        grad_clip=member.grad_clip,
        freeze_processor=plan.freeze_processor,
        stays=stays,
    )
    state = State(
        network=network,
        optimiser=optimiser,
        best=state.best,
        best_score=state.best_score,
        best_step=state.best_step,
        step=state.step + 1,
        loss_sum=state.loss_sum + loss,
        diverged=stays | ~jnp.isfinite(norm),
    )
    return state, Metrics(loss, norm)


def train_predictions(network: ClrsNet, batch: Batch, state: State, member: Members) -> Prediction:
    """What one member predicts in training, where hints may be forced and hidden states dropped."""
    keys = jax.random.split(member_key(member.seed, TO_RUN, state.step), batch.lengths.shape[0])
    frames = _frames(batch)

    def one(inputs: Values, hints: Values, length: Array, key: Array, present: Array | None) -> Prediction:
        return network(
            inputs,
            hints,
            length,
            steps=frames,
            key=key,
            teacher_forcing=member.teacher_forcing,
            dropout=member.dropout,
            record=False,
            present=present,
        )

    return jax.vmap(one, in_axes=(0, 1, 0, 0, 0))(batch.inputs, batch.hints, batch.lengths, keys, batch.present)


def validate(plan: Plan, batch: Batch, state: State) -> tuple[State, dict[str, Array]]:
    """Score every member, keep those that are better than ever, and start counting losses anew."""
    counts = answer_all(plan, batch, state.network)
    score = jax.vmap(partial(traced_score, plan.source.spec))(counts)
    better = (score > state.best_score) & ~state.diverged
    report = {"validation": score, "loss_sum": state.loss_sum, "diverged": state.diverged}
    state = State(
        network=state.network,
        optimiser=state.optimiser,
        best=jax.vmap(_unless)(~better, state.network, state.best),
        best_score=jnp.where(better, score, state.best_score),
        best_step=jnp.where(better, state.step, state.best_step),
        step=state.step,
        loss_sum=jnp.zeros_like(state.loss_sum),
        diverged=state.diverged,
    )
    return state, report


def answer_all(plan: Plan, batch: Batch, networks: ClrsNet) -> Counts:
    """What every member gets right, as counts with a leading member axis; memory stays flat."""
    fits = members_at_once(batch, plan.architecture.hidden)
    at_once = fits if plan.at_once is None else min(fits, plan.at_once)
    return map_members(lambda network: answers(network, batch), networks, at_once)


def members_at_once(batch: Batch, hidden: int, maps: int = 0) -> int:
    """How many networks to run at the same time on a batch, so that memory stays flat.

    `maps` is how many maps of attention are kept of every sample: of deep networks more than everything else.

    A processor does one member after the other in half the time of all together (measured); an accelerator does not.
    """
    samples, n = batch.inputs["pos"].shape
    return 1 if present_platform() == CPU else max(1, CHUNK_BYTES // (samples * n * n * max(hidden, maps) * 4))


def answers(network: ClrsNet, batch: Batch) -> Counts:
    """What one network gets right on a batch."""
    frames, present = _frames(batch), batch.present
    prediction = predict(network, batch.inputs, batch.hints, batch.lengths, steps=frames, record=False, present=present)
    return count(network.spec, postprocess(network.spec, prediction.outputs), batch.outputs, present)


def map_members(function: Callable[[Any], Any], members: Any, at_once: int | None) -> Any:
    """Apply a function to every member, some at a time."""
    count = jax.tree.leaves(members)[0].shape[0]
    if at_once is None or at_once >= count > 1:
        return jax.vmap(function)(members)
    size = max(d for d in range(1, count + 1) if count % d == 0 and d <= at_once)
    return jax.lax.map(function, members, batch_size=None if size == 1 else size)


def _frames(batch: Batch) -> int:
    return next(iter(batch.hints.values())).shape[0]


def _unless(condition: Bool[Array, ""], new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, b, a), new, old)
