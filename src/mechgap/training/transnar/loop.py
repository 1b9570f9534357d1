"""Train text models on questions and answers, one seed after the other: one compiled step per bucket of lengths."""

import datetime
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from jaxtyping import Array, Bool, Float, Int

from mechgap.networks.cross_attention import Memory
from mechgap.networks.transnar import TransNAR, parameter_count
from mechgap.storage import writable_folder
from mechgap.training.manifest import made_with
from mechgap.training.progress import Watch
from mechgap.training.state import load_state, save_state
from mechgap.training.transnar.config import BFLOAT16, SHUFFLED, TextTrainingConfig
from mechgap.training.transnar.data import (
    TO_PLACE,
    TO_VALIDATE,
    Batch,
    Corpus,
    Group,
    Plan,
    batch_of,
    corpus_of,
    draw_groups,
    in_batches,
)
from mechgap.training.transnar.reasoner import Asked, Reasoner, part_states, shuffled
from mechgap.training.transnar.result import TAUGHT, TextModels, finished, load_text_models, save_text_models
from mechgap.training.transnar.shared_reasoner import SharedReasoner
from mechgap.training.weights import digest as weights_digest

FORMAT, FILE = "mechgap.text_model.state/1", "state-{seed}.safetensors"
CHECKPOINT_SECONDS = 60.0
CHUNK = 20  # steps between two looks at the clock and at the losses, for which the device is waited for
MOST_VALIDATED = 64  # batches
KEPT_BYTES, KEPT_SHARE = 16 * 2**30, 1 / 4  # the most that the states of a reasoner may take on the device
FINGERPRINT = 16  # digits of a hash of weights


class DivergedError(ValueError):
    """A loss or weights became no finite numbers."""


class Pair(NamedTuple):
    """What may learn: the text model, and the reasoner that it looks at."""

    model: TransNAR
    reasoner: Reasoner | None


class Trained(NamedTuple):
    """What came of one seed; the losses of all steps."""

    pair: Pair
    losses: np.ndarray
    seconds: float


def train_text_models(
    config: TextTrainingConfig,
    reasoner: Reasoner | None = None,
    *,
    groups: tuple[Group, ...] | None = None,
    taught_by: str = "",
    teacher_right: Mapping[str, float] | None = None,
    folder: str | Path | None = None,
    quiet: bool | None = None,
) -> TextModels:
    """Train.

    Args:
        config: what.
        reasoner: whom the models look at; None for models that look at none.
        groups: the questions, where they have been drawn before (see `draw_groups`) or answered by a teacher (see
            `distillation`).
        taught_by: the teacher's fingerprint, where there is one.
        teacher_right: what share of its answers is right, which is kept with the metrics.
        folder: keeps the state once a minute and the result, in a folder of its own within; a killed run is resumed, a
            finished one not repeated.
        quiet: no progress bar; by default where there is no terminal.
    """
    check_pair(config, reasoner)
    place = None if folder is None else Path(folder) / config.name(digest(reasoner) + taught_by)
    if config.taught and groups is None:
        raise ValueError('With extra_answers = "teacher" the questions must be given: let a teacher answer them first.')
    if place is not None and finished(place):
        return load_text_models(place)
    began = time.perf_counter()
    corpus = corpus_of(config, draw_groups(config, quiet) if groups is None else groups, reasoner)
    if reasoner is not None:
        corpus = with_states(config, corpus, reasoner)
    drawn = time.perf_counter() - began
    trained = [train_one(config, corpus, reasoner, seed, place, quiet) for seed in config.seed_range]
    models = tuple(one.pair.model for one in trained)
    validation = [validation_loss(config, corpus, one.pair) for one in trained]
    learned = config.train_reasoner != "none"
    result = TextModels(
        config,
        models,
        tuple(one.pair.reasoner for one in trained) if learned else (reasoner,) * len(models),
        metrics={
            "loss": [float(np.mean(one.losses[-CHUNK:])) for one in trained],
            "validation_loss": validation,
            "curve": [_thinned(one.losses) for one in trained],
            **({} if teacher_right is None else {TAUGHT: dict(teacher_right)}),
        },
        manifest={
            **made_with(),
            "date": datetime.date.today().isoformat(),
            "parameters": parameter_count(models[0]),
            "steps": len(trained[0].losses),
            "questions": sum(len(rows) for rows in corpus.train.values()),
            "stand_ins": dict(reasoner.stand_ins) if isinstance(reasoner, SharedReasoner) else {},
            "fingerprints": [fingerprint(model) for model in models],
            **({"reasoner": digest(reasoner)[:FINGERPRINT]} if reasoner is not None else {}),
            **({"taught_by": taught_by} if taught_by else {}),
            "times": {"draw_s": round(drawn, 3), "train_s": [round(one.seconds, 3) for one in trained]},
        },
    )
    if place is not None:
        save_text_models(place, result)
        for seed in config.seed_range:
            (place / FILE.format(seed=seed)).unlink(missing_ok=True)
    return result


def train_one(
    config: TextTrainingConfig,
    corpus: Corpus,
    reasoner: Reasoner | None,
    seed: int,
    place: Path | None = None,
    quiet: bool | None = None,
) -> Trained:
    """The model of one seed."""
    plan = Plan(config, corpus, seed)
    optimiser = optimiser_of(config, plan.steps)
    whole = Pair(initial_model(config, reasoner, seed), reasoner)
    weights, fixed = eqx.partition(whole, learns(config, whole))
    weights = jax.tree.map(jnp.array, weights)  # copies: a step writes over them, and others have the reasoner, too
    state = (weights, optimiser.init(weights))
    advance = step_of(config, optimiser)
    path = None if place is None else writable_folder(place) / FILE.format(seed=seed)
    kept = None if path is None else load_state(path, FORMAT, state)
    step, losses, spent = 0, list[float](), 0.0
    if kept is not None:
        state, losses, step = kept.state, kept.losses.tolist(), int(kept.about["step"])
        spent = float(kept.about.get("seconds", 0.0))  # older files do not say
    saved = time.perf_counter()
    begun = saved - spent
    pending: list[Array] = []
    title = f"{'TransNAR' if config.looks else 'Transformer'}, seed {seed}"
    with Watch(title, plan.steps, step, 1, quiet) as watch:
        watch.start()
        while step < plan.steps:
            rng = np.random.default_rng([seed, TO_PLACE, step])
            batch = batch_of(config, corpus, plan.at(step), rng, reasoner)
            state, value = advance(state, fixed, batch, corpus.kept)
            pending.append(value)
            step += 1
            if step % CHUNK and step < plan.steps:
                continue  # the device works on while the next batch is put together
            losses += [float(x) for x in pending]
            pending = []
            if not _all_finite((losses[-CHUNK:], state[0] if step == plan.steps else ())):
                raise _diverged(title, step, config)
            watch.report(step, float(np.mean(losses[-CHUNK:])), None, 0)
            if path is not None and (step == plan.steps or time.perf_counter() - saved > CHECKPOINT_SECONDS):
                saved = time.perf_counter()
                save_state(path, FORMAT, state, losses, step=step, seconds=saved - begun)
    return Trained(eqx.combine(state[0], fixed), np.array(losses), time.perf_counter() - begun)


def _all_finite(tree: Any) -> bool:
    return all(np.isfinite(np.asarray(x)).all() for x in jax.tree.leaves(tree))


def initial_model(config: TextTrainingConfig, reasoner: Reasoner | None, seed: int) -> TransNAR:
    """Random weights of one seed."""
    widths = (1, 1) if reasoner is None else reasoner.widths
    return eqx.filter_jit(TransNAR.init)(config.model(*widths), key=jax.random.key(seed))


def learns(config: TextTrainingConfig, pair: Pair) -> Pair:
    """Which arrays learn, as a tree of truths."""
    model = jax.tree.map(eqx.is_inexact_array, pair.model)
    of_reasoner = config.train_reasoner != "none"
    return Pair(model, jax.tree.map(lambda x: of_reasoner and eqx.is_inexact_array(x), pair.reasoner))


def optimiser_of(config: TextTrainingConfig, steps: int) -> optax.GradientTransformation:
    """Adam, its rate, and a limit to the gradient."""
    rate: Any = config.learning_rate
    if config.schedule == "cosine":
        rate = optax.warmup_cosine_decay_schedule(0.0, rate, config.warmup, max(steps, config.warmup + 1))
    elif config.warmup:
        rate = optax.linear_schedule(0.0, rate, config.warmup)
    adam = optax.adam(rate)
    return optax.chain(optax.clip_by_global_norm(config.grad_clip), adam) if config.grad_clip else adam


def step_of(config: TextTrainingConfig, optimiser: optax.GradientTransformation) -> Callable:
    """(state, what does not learn, batch, kept states) -> (state, loss), compiled for every length once."""

    @eqx.filter_jit(donate="all-except-first")
    def advance(rest: tuple, state: tuple) -> tuple[tuple, Array]:
        (fixed, batch, kept), (weights, moments) = rest, state
        value, gradient = jax.value_and_grad(lambda w: loss_of(config, eqx.combine(w, fixed), batch, kept))(weights)
        change, moments = optimiser.update(gradient, moments, weights)
        return (optax.apply_updates(weights, change), moments), value

    return lambda state, fixed, batch, kept=None: advance((fixed, batch, kept), state)


def loss_of(config: TextTrainingConfig, pair: Pair, batch: Batch, kept: Memory | None = None) -> Float[Array, ""]:
    """The mean cross-entropy of the tokens of answers."""
    memory = memory_of(config, pair.reasoner, batch.asked, kept)
    model = pair.model.in_bfloat16() if config.precision == BFLOAT16 else pair.model
    ids, wanted, positions = (jnp.asarray(x) for x in (batch.ids, batch.wanted, batch.positions))

    def one(ids: Int[Array, " length"], positions: Array, memory: Memory | None) -> Float[Array, " rest"]:
        logits = model(ids[:-1], positions[:-1], memory)
        picked = jnp.take_along_axis(logits, ids[1:, None], axis=-1)[:, 0]
        return jax.nn.logsumexp(logits, axis=-1) - picked

    each = jax.vmap(one)(ids, positions, memory)
    return mean_where(each, wanted[:, 1:])


def memory_of(
    config: TextTrainingConfig,
    reasoner: Reasoner | None,
    asked: Asked | Int[Array | np.ndarray, " batch"] | None,
    kept: Memory | None = None,
) -> Memory | None:
    """What the model of a config looks at."""
    if reasoner is None or asked is None:
        return None
    if isinstance(asked, Asked):
        memory = reasoner.memory(asked, config.states, config.train_reasoner)
    else:
        memory = jax.tree.map(lambda x: x[asked], kept)
    return shuffled(memory) if config.memory == SHUFFLED else memory


def with_states(config: TextTrainingConfig, corpus: Corpus, reasoner: Reasoner) -> Corpus:
    """With what a reasoner that learns nothing thinks of every question, if there is room: asked once, not every epoch.

    A step then costs as much as one without a reasoner, but for cross-attention.
    """
    nodes, count = corpus.nodes, sum(len(group.ids) for group in corpus.groups)
    numbers = (config.states or 1) * (nodes * reasoner.widths[0] + nodes**2 * reasoner.widths[1])
    if config.train_reasoner != "none" or 4 * numbers * count > room_for_states():
        return corpus
    found = [states for part in corpus.parts for states in part_states(reasoner, part, nodes, config.states)]
    # Put together on the host: the device never holds them twice.
    return replace(corpus, kept=jax.tree.map(lambda *some: jnp.asarray(np.concatenate(some)), *found))


def room_for_states() -> float:
    """How many bytes of the device the states of a reasoner may take; a CPU does not say how much memory it has."""
    memory = jax.local_devices()[0].memory_stats() or {}
    return min(KEPT_BYTES, KEPT_SHARE * memory.get("bytes_limit", float("inf")))


def mean_where(x: Float[Array, "*shape"], where: Bool[Array, "*shape"]) -> Float[Array, ""]:
    """The mean of some values; 0 of none."""
    return jnp.sum(jnp.where(where, x, 0)) / jnp.maximum(jnp.sum(where), 1)


def validation_loss(config: TextTrainingConfig, corpus: Corpus, pair: Pair) -> float | None:
    """The mean loss of tokens of answers that were held out, of some of the batches; None where there are none."""
    if not corpus.validation:
        return None
    rng = np.random.default_rng([config.first_seed, TO_VALIDATE])
    chosen = in_batches(config, {k: rng.permutation(rows) for k, rows in corpus.validation.items()})
    some = [chosen[i] for i in rng.permutation(len(chosen))[:MOST_VALIDATED]]
    weights, fixed = eqx.partition(pair, eqx.is_array)
    loss = jax.jit(lambda weights, batch, kept: loss_of(config, eqx.combine(weights, fixed), batch, kept))
    found, tokens = [], []
    for one in some:
        batch = batch_of(config, corpus, one, rng, pair.reasoner)
        found.append(float(loss(weights, batch, corpus.kept)))
        tokens.append(batch.wanted[:, 1:].sum())
    return float(np.average(found, weights=tokens))


def check_pair(config: TextTrainingConfig, reasoner: Reasoner | None) -> None:
    """Refuse a model that looks at nobody, and a reasoner that does not know what is asked."""
    if config.looks != (reasoner is not None):
        given, wanted = "none" if reasoner is None else "one", "a" if config.looks else "no"
        raise ValueError(
            f"A model with cross_attention = {config.cross_attention!r} needs {wanted} reasoner; got {given}."
        )
    if reasoner is not None:
        for name in config.algorithms:
            reasoner.number(name)


def fingerprint(model: TransNAR) -> str:
    """The start of a hash of a model's weights, which tells two trainings of it apart."""
    return weights_digest(model)[:FINGERPRINT]


def digest(reasoner: Reasoner | None) -> str:
    """A hash of a reasoner's weights; empty for none."""
    if reasoner is None:
        return ""
    about = [type(reasoner).__name__, reasoner.algorithms, reasoner.frames, getattr(reasoner, "stand_ins", ())]
    return hashlib.sha256(json.dumps([about, weights_digest(reasoner)]).encode()).hexdigest()


def _thinned(losses: np.ndarray, most: int = 200) -> list[float]:
    """The means of equal parts of a curve."""
    parts = np.array_split(losses, min(most, len(losses)))
    return [round(float(np.mean(part)), 5) for part in parts]


def _diverged(title: str, step: int, config: TextTrainingConfig) -> DivergedError:
    """To raise before anything is kept of such a model, so that none is asked and compared."""
    rate = config.learning_rate
    return DivergedError(
        f"{title}, diverged: after {step} steps with a learning rate of {rate:g} its loss or its weights are no finite "
        f"numbers. Nothing is kept of these steps; give a lower one, e.g. --set learning_rate={rate / 10:g}."
    )
