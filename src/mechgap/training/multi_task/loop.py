"""Train one network on many algorithms: a step draws some algorithms, and some samples of each."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, PRNGKeyArray

from mechgap.networks import Prediction, postprocess
from mechgap.networks.slots import SharedNet, Slots
from mechgap.storage import read_tensors, write_tensors, write_text
from mechgap.training.loss import losses
from mechgap.training.manifest import made_with
from mechgap.training.many import Recipe, train_many
from mechgap.training.multi_task.config import MultiTaskConfig
from mechgap.training.multi_task.pool import Pool, slots_of, sources_of, training_pool, validation_pool
from mechgap.training.scores import count, score_of
from mechgap.training.weights import named, renamed

FORMAT = "mechgap.shared_network/1"
NETWORK, SCORES, MANIFEST = "network.safetensors", "scores.json", "manifest.json"


@dataclass(frozen=True)
class MultiTask:
    """What came out.

    Attributes:
        networks: with a leading seed axis.
        scores: algorithm -> [seeds], on the validation samples.
        manifest: versions, device, times.
    """

    config: MultiTaskConfig
    networks: SharedNet
    scores: dict[str, np.ndarray]
    manifest: dict[str, Any]

    def member(self, seed: int = 0) -> SharedNet:
        """The network of one seed, by its place."""
        return jax.tree.map(lambda x: x[seed], self.networks)


def train_together(
    config: MultiTaskConfig, *, folder: str | Path | None = None, quiet: bool | None = None
) -> MultiTask:
    """Train.

    Args:
        config: what.
        folder: keeps the state once a minute and the result; a killed run is resumed, a finished one not repeated.
        quiet: no progress bar; by default where there is no terminal.
    """
    place = None if folder is None else Path(folder) / config.name()
    if place is not None and (place / SCORES).exists():
        return load_multi_task(place)
    sources = sources_of(config)
    slots = slots_of(sources)
    pool = training_pool(config, slots, sources, quiet)
    held_out = validation_pool(config, slots, sources, quiet)
    recipe = Recipe(
        config.steps,
        config.batch,
        config.learning_rate,
        optimiser="adam",
        seeds=config.seeds,
        first_seed=config.first_seed,
        clip=config.grad_clip,
    )
    frames = config.frames or int(jnp.maximum(pool.lengths.max(), held_out.lengths.max()))
    trained = train_many(
        lambda key: SharedNet.init(slots, config.network, key=key),
        partial(loss_of, frames=frames, hint_weight=config.hint_weight),
        Partial(partial(draw, config), pool),
        recipe,
        folder=place,
        title=f"{len(slots.algorithms)} algorithms",
        quiet=quiet,
    )
    scores = evaluate(trained.models, held_out, frames)
    manifest = {
        **made_with(),
        "frames": frames,
        "nodes": pool.nodes,
        "times": {"train_s": round(trained.seconds, 3)},
        "loss": trained.losses[-1].tolist(),
    }
    result = MultiTask(config, trained.models, scores, manifest)
    if place is not None:
        save_multi_task(place, result)
    return result


def draw(config: MultiTaskConfig, pool: Pool, key: PRNGKeyArray) -> tuple[Int[Array, " groups"], Pool, PRNGKeyArray]:
    """A batch: the numbers of some algorithms, samples [groups, batch, ...] of each, and a key for the network."""
    of_algorithms, of_samples, of_network = jax.random.split(key, 3)
    algorithms, samples = pool.lengths.shape
    groups = config.algorithms_per_step
    numbers = jax.random.choice(of_algorithms, algorithms, (groups,), replace=False)
    rows = jax.random.randint(of_samples, (groups, config.batch), 0, samples)
    return numbers, pool.at(numbers[:, None], rows), of_network


def loss_of(net: SharedNet, batch: tuple, *, frames: int, hint_weight: float) -> Float[Array, ""]:
    """The mean over the algorithms of a batch of what `mechgap.training.loss` says of each."""
    numbers, samples, key = batch
    one = partial(_loss_of_algorithm, net, frames=frames, hint_weight=hint_weight)
    keys = None if key is None else jax.random.split(key, len(numbers))
    return jnp.mean(jax.vmap(one)(numbers, samples, keys))


def _loss_of_algorithm(
    net: SharedNet, number: Array, samples: Pool, key: PRNGKeyArray | None, *, frames: int, hint_weight: float
) -> Float[Array, ""]:
    asked, batch = net.asked(number), samples.as_batch()
    prediction = predict(net, number, samples, frames, key)
    each = losses(net.slots.spec, prediction, batch.hints, batch.outputs, samples.lengths, batch.present)
    total = jnp.zeros(())
    for weight, values in ((1.0, each.outputs), (hint_weight, each.hints)):
        for slot, value in values.items():
            total = total + weight * jnp.where(asked[slot] > 0, value, 0.0)
    return total


def predict(
    net: SharedNet, number: Array | int, samples: Pool, frames: int, key: PRNGKeyArray | None = None
) -> Prediction:
    """The predictions of one algorithm's samples [S, ...]."""
    network, asked = net.network(number), net.asked(number)
    # Who is fed no hints is not told either how long an execution is: it runs to the last frame.
    lengths = (
        samples.lengths if network.config.hint_mode == "encoded_decoded" else jnp.full_like(samples.lengths, frames)
    )

    def one(inputs: Any, hints: Any, length: Array, present: Array, key: PRNGKeyArray | None) -> Prediction:
        return network(inputs, hints, length, steps=frames, key=key, asked=asked, present=present, record=False)

    keys = None if key is None else jax.random.split(key, len(lengths))
    return jax.vmap(one)(samples.inputs, samples.hints, lengths, samples.present(), keys)


def evaluate(networks: SharedNet, pool: Pool, frames: int) -> dict[str, np.ndarray]:
    """The score of every algorithm [seeds], from samples that are padded like those of the training."""
    slots = networks.slots

    def counts(net: SharedNet, number: Array) -> dict[str, Array]:
        samples = pool.at(number)
        decided = postprocess(slots.spec, predict(net, number, samples, frames).outputs)
        return count(slots.spec, decided, samples.outputs, present=samples.present())

    def of_one(net: SharedNet) -> dict[str, Array]:
        return jax.lax.map(lambda number: counts(net, number), jnp.arange(len(slots.algorithms)))

    weights, fixed = eqx.partition(networks, eqx.is_inexact_array)
    found = jax.device_get(jax.jit(jax.vmap(lambda w: of_one(eqx.combine(w, fixed))))(weights))
    return {name: _score(slots, number, found) for number, name in enumerate(slots.algorithms)}


def _score(slots: Slots, number: int, counts: dict[str, np.ndarray]) -> np.ndarray:
    """The mean over an algorithm's outputs."""
    mine = [slot for slot in slots.names[slots.algorithms[number]].values() if slot in counts]
    each = [score_of(slots.spec[slot], counts[slot][:, number].astype(np.float64)) for slot in mine]
    return np.mean(each, axis=0)


def save_multi_task(folder: Path, result: MultiTask) -> None:
    """Write the networks and their scores; the scores last, so that a folder with them is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    header = {"format": FORMAT, "config": result.config.as_json()}
    write_tensors(folder / NETWORK, {k: np.asarray(x) for k, x in named(result.networks).items()}, header)
    write_text(folder / MANIFEST, json.dumps(result.manifest, indent=1) + "\n")
    scores = {name: [float(x) for x in values] for name, values in result.scores.items()}
    write_text(folder / SCORES, json.dumps(scores, indent=1) + "\n")


def load_multi_task(folder: str | Path) -> MultiTask:
    """Read what `train_together` wrote."""
    folder = Path(folder)
    tensors, header = read_tensors(folder / NETWORK, FORMAT)
    config = MultiTaskConfig.from_json(header["config"])
    slots = slots_of(sources_of(config))
    keys = jax.eval_shape(lambda: jax.vmap(jax.random.key)(jnp.arange(config.seeds)))
    skeleton = eqx.filter_eval_shape(eqx.filter_vmap(lambda k: SharedNet.init(slots, config.network, key=k)), keys)
    arrays = {name: jnp.asarray(x) for name, x in tensors.items()}
    networks = renamed(skeleton, arrays, f"The network in {folder / NETWORK}")
    scores = json.loads((folder / SCORES).read_text())
    manifest = json.loads((folder / MANIFEST).read_text())
    return MultiTask(config, networks, {k: np.asarray(x) for k, x in scores.items()}, manifest)
