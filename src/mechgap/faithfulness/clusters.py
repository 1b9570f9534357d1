"""Whether networks resemble each other: distances between their attentions, a Ward tree, and which clusters last."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from mechgap.faithfulness.internal import row_distance

COLOUR_SHARE = 0.7  # of the tree's height: where dendrograms are usually cut
RESAMPLES = 100
OVERLAP = 0.75  # a cluster is stable if it finds itself again, on average, to this share (Jaccard)


@dataclass(frozen=True)
class Clusters:
    """Groups of networks that attend alike.

    Attributes:
        linkage: the Ward tree, as scipy writes it.
        labels: the cluster of every network where the tree is cut at 0.7 of its height, counted from 1.
        cut: how many clusters that gives.
        stable: how many of them have two networks or more and last when the graphs are drawn again (bootstrap).
        stability: of every cluster 1, 2, ...: the mean Jaccard overlap with its best match; NaN for single networks.
    """

    linkage: np.ndarray
    labels: np.ndarray
    cut: int
    stable: int
    stability: np.ndarray


def attention_distances(
    attention: Float[Array | np.ndarray, "members steps batch heads n n"],
    inside: Bool[Array | np.ndarray, "steps batch"],
) -> Float[np.ndarray, "batch members members"]:
    """Between every two networks, for every sample: the mean total variation of their rows, head by head."""
    return np.asarray(jax.device_get(_distances(jnp.asarray(attention), jnp.asarray(inside))))


@partial(jax.jit)
def _distances(attention: Array, inside: Array) -> Array:
    steps = jnp.maximum(jnp.sum(inside, axis=0), 1)

    def to_all(one: Array) -> Array:
        def to_one(other: Array) -> Array:
            rows = jnp.mean(row_distance(one, other), axis=(2, 3))  # over heads and rows: [steps, batch]
            return jnp.sum(jnp.where(inside, rows, 0), axis=0) / steps

        return jax.lax.map(to_one, attention)

    return jnp.moveaxis(jax.lax.map(to_all, attention), -1, 0)


def find_clusters(distances: Float[np.ndarray, "batch members members"], seed: int = 0) -> Clusters:
    """Ward clusters of the mean distance, and how they fare when the samples are drawn again."""
    members = distances.shape[1]
    if members < 3:
        alone = np.arange(1, members + 1)
        return Clusters(np.zeros((0, 4)), alone, members, 0, np.full(members, np.nan))
    tree = _ward(distances.mean(0))
    labels = _cut(tree)
    rng = np.random.default_rng(seed)
    overlaps = np.zeros((RESAMPLES, labels.max()))
    for i in range(RESAMPLES):
        drawn = rng.integers(0, len(distances), len(distances))
        overlaps[i] = _overlaps(labels, _cut(_ward(distances[drawn].mean(0))))
    sizes = np.bincount(labels)[1:]
    stability = np.where(sizes > 1, overlaps.mean(0), np.nan)
    return Clusters(tree, labels, int(labels.max()), int(np.sum(stability >= OVERLAP)), stability)


def _ward(distance: np.ndarray) -> np.ndarray:
    symmetric = (distance + distance.T) / 2
    np.fill_diagonal(symmetric, 0)
    return hierarchy.linkage(squareform(symmetric, checks=False), method="ward")


def _cut(tree: np.ndarray) -> np.ndarray:
    return hierarchy.fcluster(tree, COLOUR_SHARE * tree[:, 2].max(), criterion="distance")


def _overlaps(labels: np.ndarray, others: np.ndarray) -> np.ndarray:
    """For every cluster the largest Jaccard overlap with one of the other clustering."""
    mine = labels[:, None] == np.arange(1, labels.max() + 1)
    theirs = others[:, None] == np.arange(1, others.max() + 1)
    both = mine.T.astype(float) @ theirs
    either = mine.sum(0)[:, None] + theirs.sum(0)[None, :] - both
    return (both / either).max(1)
