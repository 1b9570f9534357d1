"""The loss around a network: filter-normalised random planes (Li et al. 2018), and how sharp the minimum is.

A direction is normal noise in which every filter, the weights into one unit, has the norm of that filter in the network
itself. Biases and norms stay, as in the original. So does a filter that is zero: around a compiled network, most of
whose weights are zero, the plane spans only what the program uses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from mechgap.compiler.robustness import shaken
from mechgap.networks import ClrsNet, predict
from mechgap.storage import read_tensors, write_tensors
from mechgap.training.data import Batch
from mechgap.training.ensemble import answers, map_members, members_at_once
from mechgap.training.loss import losses
from mechgap.training.scores import traced_score

FORMAT, FILE = "mechgap.landscape/1", "landscape.safetensors"
SCALES = {"general": 1.0, "local": 0.1}  # half the width of the plane, in norms of the weights
RADII = (0.01, 0.05, 0.1, 0.5)  # a direction has the norm of the weights it moves, so these are relative
POINTS = 21
DIRECTIONS = 16  # of which the sharpness is the mean
NOISE = (0.01, 0.03, 0.1, 0.3)
DRAWS = 8  # of noise, per scale


@dataclass(frozen=True)
class Landscape:
    """The loss on a plane through a network.

    Attributes:
        name: whose: "compiled", "learned", "initial", ...
        scale: "general" or "local".
        axis: [points], distances along both directions; 0 is the network itself.
        loss: [points, points].
        sharpness: radius -> by how much the loss rises at that distance, on average over random directions; and "loss".
        noise: scale -> the score with every weight w replaced by w (1 + scale x), x normal; the mean over draws.
    """

    name: str
    scale: str
    axis: Float[np.ndarray, " points"]
    loss: Float[np.ndarray, "points points"]
    sharpness: dict[str, float]
    noise: dict[str, float] = field(default_factory=dict)


def landscapes(
    network: ClrsNet,
    batch: Batch,
    name: str,
    *,
    key: PRNGKeyArray,
    scales: Mapping[str, float] = SCALES,
    points: int = POINTS,
) -> tuple[Landscape, ...]:
    """The planes through a network, one per scale along the same two directions, and its sharpness."""
    first, second, *others = jax.random.split(key, 2 + DIRECTIONS)
    axes = {scale: np.linspace(-half, half, points) for scale, half in scales.items()}
    plane = [(first, second, x, y) for axis in axes.values() for x in axis for y in axis]
    spokes = [(other, second, radius, 0.0) for other in others for radius in RADII]
    at_once = members_at_once(batch, network.config.hidden)
    centre = [(first, second, 0.0, 0.0)]
    keys_a, keys_b, x, y = zip(*plane, *spokes, *centre, strict=True)
    places = (jnp.stack(keys_a), jnp.stack(keys_b), jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
    *found, own = np.asarray(_losses_at(network, batch, places, at_once))
    rises = np.mean(np.reshape(found[len(plane) :], (DIRECTIONS, len(RADII))), axis=0) - own
    sharpness = {"loss": float(own)} | {str(r): float(rise) for r, rise in zip(RADII, rises, strict=True)}
    planes = np.reshape(found[: len(plane)], (len(axes), points, points)).astype(np.float32)
    noise = scores_under_noise(network, batch, key=key)
    return tuple(
        Landscape(name, scale, axis.astype(np.float32), loss, sharpness, noise)
        for (scale, axis), loss in zip(axes.items(), planes, strict=True)
    )


def scores_under_noise(
    network: ClrsNet, batch: Batch, *, key: PRNGKeyArray, scales: Sequence[float] = NOISE, draws: int = DRAWS
) -> dict[str, float]:
    """The score under relative noise on every weight, the mean over draws; every scale shakes along the same ones."""
    keys = jax.random.split(key, draws)
    places = [(k, scale) for scale in (0.0, *scales) for k in keys]
    given = (jnp.stack([k for k, _ in places]), jnp.asarray([scale for _, scale in places], jnp.float32))
    found = np.asarray(_scores_at(network, batch, given, members_at_once(batch, network.config.hidden)))
    means = found.reshape(-1, draws).mean(1)
    return {f"{scale:g}": float(mean) for scale, mean in zip((0.0, *scales), means, strict=True)}


def random_direction(network: ClrsNet, *, key: PRNGKeyArray) -> ClrsNet:
    """Noise with the norms of the network's own filters; zero for everything that is not a matrix."""
    leaves, structure = jax.tree.flatten(network)
    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(structure, [_filtered(jnp.asarray(w), k) for w, k in zip(leaves, keys, strict=True)])


def loss_of(network: ClrsNet, batch: Batch) -> Float[Array, ""]:
    """The training loss of a network on a batch, all weights 1."""
    steps = next(iter(batch.hints.values())).shape[0]
    prediction = predict(network, batch.inputs, batch.hints, batch.lengths, steps=steps, record=False)
    return losses(network.spec, prediction, batch.hints, batch.outputs, batch.lengths).total()


def save_landscapes(folder: str | Path, found: Sequence[Landscape]) -> None:
    """Write landscape.safetensors."""
    tensors = {f"{x.name}/{x.scale}/loss": x.loss for x in found} | {f"{x.name}/{x.scale}/axis": x.axis for x in found}
    entries = [{"name": x.name, "scale": x.scale, "sharpness": x.sharpness, "noise": x.noise} for x in found]
    write_tensors(Path(folder) / FILE, tensors, {"format": FORMAT, "entries": entries})


def load_landscapes(folder: str | Path) -> tuple[Landscape, ...]:
    """Read what `save_landscapes` wrote."""
    tensors, header = read_tensors(Path(folder) / FILE, FORMAT)

    def entry(about: dict[str, Any]) -> Landscape:
        place = f"{about['name']}/{about['scale']}"
        axis, loss = tensors[f"{place}/axis"], tensors[f"{place}/loss"]
        return Landscape(about["name"], about["scale"], axis, loss, about["sharpness"], about["noise"])

    return tuple(entry(about) for about in header["entries"])


def _filtered(weight: Array, key: PRNGKeyArray) -> Array:
    if weight.ndim != 2:
        return jnp.zeros_like(weight)
    noise = jax.random.normal(key, weight.shape, weight.dtype)
    axis = 0 if weight.shape[0] > 1 else 1  # a filter is a column; a head's attention vector is a row
    norm = jnp.linalg.norm(noise, axis=axis, keepdims=True)
    return noise * jnp.linalg.norm(weight, axis=axis, keepdims=True) / jnp.maximum(norm, 1e-12)


@eqx.filter_jit
def _losses_at(network: ClrsNet, batch: Batch, places: tuple[Array, ...], at_once: int) -> Float[Array, " places"]:
    """The loss at network + x a + y b, where a and b are the random directions of two keys."""

    def at(place: tuple[Array, ...]) -> Array:
        key_a, key_b, x, y = place
        a, b = random_direction(network, key=key_a), random_direction(network, key=key_b)
        return loss_of(jax.tree.map(lambda w, a, b: w + x * a + y * b, network, a, b), batch)

    return map_members(at, places, at_once)


@eqx.filter_jit
def _scores_at(network: ClrsNet, batch: Batch, places: tuple[Array, Array], at_once: int) -> Float[Array, " places"]:
    """The score of the network with noise of a key and a scale on its weights."""

    def at(place: tuple[Array, Array]) -> Array:
        key, scale = place
        return traced_score(network.spec, answers(shaken(network, scale, "relative", key=key), batch))

    return map_members(at, places, at_once)
