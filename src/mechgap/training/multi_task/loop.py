"""Train one network on many algorithms: a step draws some algorithms, and some samples of each."""

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
from mechgap.networks.slots import SharedNet, Slots, with_empty_slots, without_empty_slots
from mechgap.storage import read_tensors, writable_folder, write_tensors
from mechgap.training.checkpoint import read_json, write_json
from mechgap.training.loss import losses
from mechgap.training.manifest import made_with
from mechgap.training.many import Recipe, forget_state, train_many
from mechgap.training.multi_task.config import MultiTaskConfig
from mechgap.training.multi_task.pool import Pool, Samples, slots_of, sources_of, training_pool, validation_pool
from mechgap.training.scores import count, score_of
from mechgap.training.weights import named, renamed

FORMAT = "mechgap.shared_network/2"  # the first had weights of empty slots, too
FED = "encoded_decoded"  # the hint mode of networks that are told what they found
MOST_CHUNK, CHUNKS = 100, 20  # steps between two looks at the clock, and looks that a training has at least
NETWORK, SCORES, MANIFEST = "network.safetensors", "scores.json", "manifest.json"


@dataclass(frozen=True)
class MultiTask:
    """What came out.

    Attributes:
        networks: with a leading seed axis.
        scores: algorithm -> [seeds], on the validation samples; NaN of a network that diverged.
        manifest: versions, device, times, and the last loss of every network: None where it diverged.
    """

    config: MultiTaskConfig
    networks: SharedNet
    scores: dict[str, np.ndarray]
    manifest: dict[str, Any]

    def __len__(self) -> int:
        return self.config.seeds

    def member(self, index: int = 0) -> SharedNet:
        """One network, without the seed axis."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"There are {len(self)} members, 0 to {len(self) - 1}; got {index}.")
        return jax.tree.map(lambda x: x[index], self.networks)

    @property
    def diverged(self) -> np.ndarray:
        """Which networks diverged [seeds]: their loss became infinite or no number, and with it their weights."""
        return np.array([loss is None for loss in self.manifest["loss"]])


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
    if place is not None:
        writable_folder(place)
    sources = sources_of(config)
    slots = slots_of(sources)
    pool = training_pool(config, slots, sources, quiet)
    held_out = validation_pool(config, slots, sources, quiet)
    frames = config.frames or int(pool.lengths.max())
    trained = train_many(
        lambda key: SharedNet.init(slots, config.network, key=key),
        partial(loss_of, frames=frames, hint_weight=config.hint_weight),
        Partial(partial(draw, config), pool),
        recipe_of(config),
        unchanged=unchanged,
        folder=place,
        title=f"{len(slots.algorithms)} algorithms",
        quiet=quiet,
    )
    diverged = ~np.isfinite(trained.losses[-1])
    fed = config.network.hint_mode == FED and not config.frames  # then executions may be longer than those of the pool
    scores = evaluate(trained.models, held_out, max(frames, int(held_out.lengths.max())) if fed else frames)
    manifest = {
        **made_with(),
        "frames": frames,
        "nodes": pool.nodes,
        "times": {"train_s": round(trained.seconds, 3)},
        "loss": [None if lost else float(x) for x, lost in zip(trained.losses[-1], diverged, strict=True)],
    }
    known = {name: np.where(diverged, np.nan, of_one) for name, of_one in scores.items()}
    result = MultiTask(config, trained.models, known, manifest)
    if place is not None:
        save_multi_task(place, result)
    return result


def recipe_of(config: MultiTaskConfig) -> Recipe:
    """How the networks are trained."""
    return Recipe(
        config.steps,
        config.batch,
        config.learning_rate,
        optimiser="adam",
        seeds=config.seeds,
        first_seed=config.first_seed,
        chunk=min(MOST_CHUNK, max(1, config.steps // CHUNKS)),
        clip=config.grad_clip,
    )


def draw(config: MultiTaskConfig, pool: Pool, key: PRNGKeyArray) -> tuple[Int[Array, " groups"], Samples, PRNGKeyArray]:
    """A batch: the numbers of some algorithms, samples [groups, batch, ...] of each, and a key for the network."""
    of_algorithms, of_samples, of_network = jax.random.split(key, 3)
    algorithms, samples = pool.lengths.shape
    groups = config.algorithms_per_step
    numbers = jax.random.choice(of_algorithms, algorithms, (groups,), replace=False)
    rows = jax.random.randint(of_samples, (groups, config.batch), 0, samples)
    return numbers, pool.at(numbers[:, None], rows), of_network


def unchanged(gradient: SharedNet) -> Any:
    """Where a gradient says nothing: encoders and decoders of algorithms that a step did not draw.

    As in the reference, they and their moments stay: Adam would go on with what it remembers.
    """

    def rows(x: Array) -> Array:
        return jnp.all(x == 0, axis=tuple(range(1, x.ndim)), keepdims=True)

    nowhere = jax.tree.map(lambda x: jnp.zeros((1,) * x.ndim, bool), gradient)
    own = jax.tree.map(rows, (gradient.networks.encoders, gradient.networks.decoders))
    return eqx.tree_at(lambda net: (net.networks.encoders, net.networks.decoders), nowhere, own)


def loss_of(net: SharedNet, batch: tuple, *, frames: int, hint_weight: float) -> Float[Array, ""]:
    """The mean over the algorithms of a batch of what `mechgap.training.loss` says of each."""
    numbers, samples, key = batch
    one = partial(_loss_of_algorithm, net, frames=frames, hint_weight=hint_weight)
    keys = None if key is None else jax.random.split(key, len(numbers))
    return jnp.mean(jax.vmap(one)(numbers, samples, keys))


def _loss_of_algorithm(
    net: SharedNet, number: Array, samples: Samples, key: PRNGKeyArray | None, *, frames: int, hint_weight: float
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
    net: SharedNet, number: Array | int, samples: Samples, frames: int, key: PRNGKeyArray | None = None
) -> Prediction:
    """The predictions of one algorithm's samples [S, ...]."""
    network, asked = net.network(number), net.asked(number)
    # Who is fed no hints is not told either how long an execution is: it runs to the last frame.
    lengths = samples.lengths if network.config.hint_mode == FED else jnp.full_like(samples.lengths, frames)

    def one(inputs: Any, hints: Any, length: Array, present: Array, key: PRNGKeyArray | None) -> Prediction:
        return network(
            inputs,
            hints,
            length,
            steps=frames,
            key=key,
            present=present,
            asked=asked,
            record=False,
            # What all steps of the longest execution leave behind would fill the memory, where each decodes hints.
            recompute=network.config.decode_hints,
        )

    keys = None if key is None else jax.random.split(key, len(lengths))
    return jax.vmap(one)(samples.inputs, samples.hints, lengths, samples.present(), keys)


def evaluate(networks: SharedNet, pool: Pool, frames: int) -> dict[str, np.ndarray]:
    """The score of every algorithm [seeds], from samples that are padded like those of the training."""
    slots = networks.slots

    def counts(net: SharedNet, pool: Pool, number: Array) -> dict[str, Array]:
        samples = pool.at(number)
        decided = postprocess(slots.spec, predict(net, number, samples, frames).outputs)
        return count(slots.spec, decided, samples.outputs, present=samples.present())

    @jax.jit
    def of_all(weights: SharedNet, pool: Pool) -> dict[str, Array]:
        numbers = jnp.arange(len(slots.algorithms))
        return jax.vmap(lambda w: jax.lax.map(partial(counts, eqx.combine(w, fixed), pool), numbers))(weights)

    weights, fixed = eqx.partition(networks, eqx.is_inexact_array)
    found = jax.device_get(of_all(weights, pool))
    return {name: _score(slots, number, found) for number, name in enumerate(slots.algorithms)}


def _score(slots: Slots, number: int, counts: dict[str, np.ndarray]) -> np.ndarray:
    """The mean over an algorithm's outputs."""
    mine = [slot for slot in slots.names[slots.algorithms[number]].values() if slot in counts]
    each = [score_of(slots.spec[slot], counts[slot][:, number].astype(np.float64)) for slot in mine]
    return np.mean(each, axis=0)


def save_multi_task(folder: Path, result: MultiTask) -> None:
    """Write the networks and their scores; the scores last, so that a folder with them is whole. Drops the state."""
    header = {"format": FORMAT, "config": result.config.as_json()}
    write_tensors(folder / NETWORK, without_empty_slots(named(result.networks), result.networks.slots, axis=1), header)
    write_json(folder / MANIFEST, result.manifest)
    # JSON knows no NaN.
    scores = {name: [None if np.isnan(x) else x for x in values.tolist()] for name, values in result.scores.items()}
    write_json(folder / SCORES, scores)
    forget_state(folder)


def load_multi_task(folder: str | Path) -> MultiTask:
    """Read what `train_together` wrote."""
    folder = Path(folder)
    if not (folder / SCORES).exists():
        raise FileNotFoundError(f"{folder} holds no finished run: {SCORES} is missing. Run the training to its end.")
    try:
        return _read(folder)
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"{error} The run is damaged; delete {folder} to train again.") from error


def _read(folder: Path) -> MultiTask:
    tensors, header = read_tensors(folder / NETWORK, FORMAT)
    config = MultiTaskConfig.from_json(header["config"])
    slots = slots_of(sources_of(config))
    keys = jax.eval_shape(lambda: jax.vmap(jax.random.key)(jnp.arange(config.seeds)))
    skeleton = eqx.filter_eval_shape(eqx.filter_vmap(lambda k: SharedNet.init(slots, config.network, key=k)), keys)
    arrays = {name: jnp.asarray(x) for name, x in with_empty_slots(tensors, slots, axis=1).items()}
    networks = renamed(skeleton, arrays, f"The network in {folder / NETWORK}")
    scores = {name: np.array(x, np.float64) for name, x in read_json(folder / SCORES).items()}
    return MultiTask(config, networks, scores, read_json(folder / MANIFEST))
