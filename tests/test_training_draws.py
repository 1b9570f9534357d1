"""What is random in a training step beside the data: dropped numbers of hidden states, and hints that are forced."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mechgap.networks import ClrsNet, Prediction, postprocess
from mechgap.training import TrainConfig
from mechgap.training.data import Batch, draw, frames_for, run_once
from mechgap.training.ensemble import State, initial_state, plan_of, train_predictions
from mechgap.training.members import Members, make_members
from test_training import QUICKLY, TINY

# Decisions are fed back, so that what a network was fed can be written down as a trace.
CONFIG = replace(TINY, seeds=1, sizes=(5,), batch=16, hint_repred="hard")
KEYS = 3000  # draws over which dropout is averaged

predictions = jax.jit(train_predictions, compiler_options=QUICKLY)


@pytest.fixture(scope="module")
def case() -> tuple[ClrsNet, Batch, State]:
    """One network, one batch, and the state of its only member before the first step."""
    plan, members = plan_of(CONFIG), make_members([CONFIG])
    frames = frames_for(plan.source, 5)

    def make() -> tuple[State, Batch]:
        state = initial_state(plan, members, None)
        return state, draw(plan.source, 5, frames, CONFIG.batch, members.seed, state.step)

    state, batch = first_of(run_once(make))
    return state.network, batch, state


def first_of(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[0], tree)


def member(*others: TrainConfig, **changes: Any) -> Members:
    """A member with these settings, of an ensemble that may have others."""
    return first_of(make_members([replace(CONFIG, **changes), *others]))


def hints(prediction: Prediction, step: int) -> np.ndarray:
    """All hint logits of a step: [samples, numbers]."""
    arrays = [np.asarray(x[:, step]) for x in prediction.hints.values()]
    return np.concatenate([x.reshape(len(x), -1) for x in arrays], axis=-1)


@pytest.mark.slow
def test_a_dropout_of_0_is_none(case: tuple) -> None:
    network, batch, state = case
    without, with_it = member(), member(replace(CONFIG, dropout=0.5))
    assert without.dropout is None
    assert float(with_it.dropout) == 0
    ours, theirs = (predictions(network, batch, state, m) for m in (without, with_it))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), ours, theirs)


def test_dropout_draws_anew_at_every_step_and_for_every_seed_and_sample(case: tuple) -> None:
    network, batch, state = case
    alike = Batch(
        inputs={k: jnp.broadcast_to(x[:1], x.shape) for k, x in batch.inputs.items()},
        hints={k: jnp.broadcast_to(x[:, :1], x.shape) for k, x in batch.hints.items()},
        outputs=batch.outputs,
        lengths=batch.lengths,
    )
    later = replace(state, step=state.step + 1)
    first, again, elsewhere, another = (
        hints(predictions(network, alike, now, member(dropout=0.4, first_seed=seed)), 0)
        for now, seed in ((state, 0), (state, 0), (later, 0), (state, 1))
    )
    assert np.array_equal(first, again)
    assert not np.allclose(first, elsewhere)
    assert not np.allclose(first, another)
    assert len(np.unique(first, axis=0)) > 8, "samples of a batch draw apart"


def test_dropout_keeps_the_expected_state(case: tuple) -> None:
    """reach_h is linear in the new state, so that its mean over many draws is what is predicted without dropout."""
    (network, batch, state), some = case, member(dropout=0.4)

    def reached(seed: jax.Array) -> jax.Array:
        return train_predictions(network, batch, state, replace(some, seed=seed)).hints["reach_h"][:, 0]

    seeds = jnp.arange(KEYS, dtype=jnp.uint32)
    drawn = np.asarray(jax.jit(jax.vmap(reached), compiler_options=QUICKLY)(seeds))
    expected = np.asarray(predictions(network, batch, state, member()).hints["reach_h"][:, 0])
    error = drawn.std(axis=0) / np.sqrt(KEYS)
    assert error.min() > 0
    assert np.all(np.abs(drawn.mean(axis=0) - expected) < 5 * error)


def test_full_forcing_feeds_the_truth(case: tuple) -> None:
    """Where the truth is what the network would have fed itself, forcing changes nothing; elsewhere it does."""
    network, batch, state = case
    own = predictions(network, batch, state, member())
    decided = postprocess(network.spec, own.hints)
    told = {k: jnp.concatenate([x[:1], jnp.moveaxis(decided[k], 1, 0).astype(x.dtype)]) for k, x in batch.hints.items()}
    agreeing = eqx.tree_at(lambda b: b.hints, batch, {k: x[: len(batch.hints[k])] for k, x in told.items()})
    assert any(not np.array_equal(x, batch.hints[k]) for k, x in agreeing.hints.items()), "the network errs"
    forced = predictions(network, agreeing, state, member(teacher_forcing=1.0))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), forced, own)
    by_truth = predictions(network, batch, state, member(teacher_forcing=1.0))
    np.testing.assert_allclose(hints(by_truth, 0), hints(own, 0), rtol=1e-5, atol=1e-5, err_msg="frame 0 is given")
    assert not np.allclose(hints(by_truth, 1), hints(own, 1))


def test_half_forcing_forces_some(case: tuple) -> None:
    """At the second step every sample was fed either the truth or its own prediction."""
    network, batch, state = case
    own, always, sometimes = (
        hints(predictions(network, batch, state, member(teacher_forcing=p)), 1) for p in (0.0, 1.0, 0.5)
    )
    forced, free = (np.isclose(sometimes, x, rtol=1e-4, atol=1e-4).all(axis=-1) for x in (always, own))
    assert np.all(forced | free)
    assert np.any(forced & ~free)
    assert np.any(free & ~forced)
