"""What a training goes on from after a kill: all arrays of its state, its losses, and a few words, in one file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mechgap.storage import read_tensors, write_tensors

LOSSES = "losses"


class Kept(NamedTuple):
    """What such a file holds; `about` is what was said of it."""

    state: Any
    losses: np.ndarray
    about: dict[str, Any]


def save_state(path: str | Path, kind: str, state: Any, losses: Sequence[Any], **about: Any) -> None:
    """Write a tree of arrays, in the order of its leaves."""
    leaves = {f"{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(state))}
    write_tensors(Path(path), leaves | {LOSSES: np.array(losses)}, {"format": kind, **about})


def load_state(path: str | Path, kind: str, state: Any) -> Kept | None:
    """What was written to a file; nothing where there is none.

    Args:
        path: of the file.
        kind: the format that it must have.
        state: a tree that the one in the file must fit.
    """
    path = Path(path)
    if not path.exists():
        return None
    try:
        tensors, about = read_tensors(path, kind)
    except ValueError as error:
        raise ValueError(f"{error} Delete it to start again.") from error
    leaves, structure = jax.tree.flatten(state)
    found = [tensors.get(f"{i}") for i in range(len(leaves))]
    fits = (x is not None and x.shape == leaf.shape for x, leaf in zip(found, leaves, strict=True))
    if len(tensors) != len(leaves) + 1 or not all(fits):
        raise ValueError(f"{path} is of another model; delete it to start again, or give another folder.")
    return Kept(jax.tree.unflatten(structure, [jnp.asarray(x) for x in found]), tensors[LOSSES], about)
