"""Named families of graphs and arrays, for certificates and tests: what random ones alone would miss."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

Edges = Callable[[int, np.random.RandomState], np.ndarray]


def _from_pairs(n: int, pairs: list) -> np.ndarray:
    edges = np.zeros((n, n), bool)
    for i, j in pairs:
        edges[i, j] = edges[j, i] = True
    return edges


def _erdos_renyi(p: float) -> Edges:
    def draw(n: int, rng: np.random.RandomState) -> np.ndarray:
        upper = np.triu(rng.uniform(size=(n, n)) < p, 1)
        return upper | upper.T

    return draw


def _path(n: int, rng: np.random.RandomState) -> np.ndarray:
    order = rng.permutation(n)
    return _from_pairs(n, list(pairwise(order)))


def _cycle(n: int, rng: np.random.RandomState) -> np.ndarray:
    order = rng.permutation(n)
    return _from_pairs(n, list(zip(order, np.roll(order, 1), strict=True)) if n > 2 else [])


def _star(n: int, rng: np.random.RandomState) -> np.ndarray:
    centre = int(rng.randint(n))
    return _from_pairs(n, [(centre, i) for i in range(n) if i != centre])


def _grid(n: int, rng: np.random.RandomState) -> np.ndarray:
    width = int(np.ceil(np.sqrt(n)))
    right = [(i, i + 1) for i in range(n - 1) if (i + 1) % width]
    return _from_pairs(n, right + [(i, i + width) for i in range(n - width)])


def _tree(n: int, rng: np.random.RandomState) -> np.ndarray:
    order = rng.permutation(n)
    return _from_pairs(n, [(order[i], order[rng.randint(i)]) for i in range(1, n)])


def _complete(n: int, rng: np.random.RandomState) -> np.ndarray:
    return ~np.eye(n, dtype=bool)


def _empty(n: int, rng: np.random.RandomState) -> np.ndarray:
    return np.zeros((n, n), bool)


def _disconnected(n: int, rng: np.random.RandomState) -> np.ndarray:
    side = rng.uniform(size=n) < 0.5
    return _erdos_renyi(0.5)(n, rng) & (side[:, None] == side[None, :])


FAMILIES: dict[str, Edges] = {
    **{f"erdos_renyi_{p:g}": _erdos_renyi(p) for p in (0.05, 0.1, 0.3, 0.5, 0.9)},
    "path": _path,
    "cycle": _cycle,
    "star": _star,
    "grid": _grid,
    "tree": _tree,
    "complete": _complete,
    "empty": _empty,
    "disconnected": _disconnected,
}


ARRAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "uniform": lambda keys: keys,
    "ascending": np.sort,
    "descending": lambda keys: np.sort(keys)[..., ::-1],
    "narrow": lambda keys: 0.5 + keys / 64,
    "zigzag": lambda keys: np.where(np.arange(keys.shape[-1]) % 2, keys / 2, 1 - keys / 2),
}


def draw_array(family: str, n: int, count: int, seed: int) -> dict[str, np.ndarray]:
    """A batch of arrays of a family: `key` [count, n], all different, in [0, 1]."""
    if family not in ARRAYS:
        raise ValueError(f"No family {family!r} of arrays. Valid: {', '.join(sorted(ARRAYS))}.")
    return {"key": np.ascontiguousarray(ARRAYS[family](np.random.RandomState(seed).uniform(size=(count, n))))}


def draw_activities(family: str, n: int, count: int, seed: int) -> dict[str, np.ndarray]:
    """Activities from `s` to `f`, [count, n]; the ends are an array of the family."""
    f = draw_array(family, n, count, seed)["key"]
    return {"s": f * np.random.RandomState(seed + 1).uniform(size=(count, n)), "f": f}


def draw_tasks(family: str, n: int, count: int, seed: int) -> dict[str, np.ndarray]:
    """Tasks with a deadline `d`, one of 1..n, and a value `w`, [count, n]; the values are an array of the family."""
    return {
        "d": np.random.RandomState(seed + 1).randint(1, n + 1, size=(count, n)),
        "w": draw_array(family, n, count, seed)["key"],
    }


def draw_target(family: str, n: int, count: int, seed: int) -> dict[str, np.ndarray]:
    """Sorted keys, [count, n], and a `target` [count]: any number, or every other time one of the keys."""
    key, rng = np.sort(draw_array(family, n, count, seed)["key"]), np.random.RandomState(seed + 1)
    target, chosen = rng.uniform(size=count), rng.randint(n, size=count)
    target[1::2] = key[np.arange(count), chosen][1::2]
    return {"key": key, "target": target}


def draw_family(
    family: str, n: int, count: int, seed: int, *, weighted: bool, self_loops: bool = True, directed: bool = False
) -> dict[str, np.ndarray]:
    """A batch of graphs of a family with random sources: `A` [count, n, n], and `s` one-hot.

    Weights are uniform in (0.03, 1); half of the nodes get a self-loop, as in the benchmark. A graph is symmetric; a
    directed one has lost one direction of half of its edges.
    """
    if family not in FAMILIES:
        raise ValueError(f"No family {family!r}. Valid: {', '.join(sorted(FAMILIES))}.")
    rng = np.random.RandomState(seed)
    matrices = []
    for _ in range(count):
        edges = FAMILIES[family](n, rng)
        if self_loops:
            edges = edges | np.diag(rng.uniform(size=n) < 0.5)
        if directed:
            there, lost = rng.uniform(size=(2, n, n))
            one_way = np.triu(there, 1) + np.triu(there, 1).T < 0.5
            edges = edges & ~(one_way & (np.triu(lost < 0.5, 1) | np.tril((lost >= 0.5).T, -1)))
        weights = rng.uniform(0.03, 1, size=(n, n))
        weights = np.triu(weights) + np.triu(weights, 1).T
        matrices.append(edges * weights if weighted else edges * 1.0)
    return {"A": np.stack(matrices), "s": np.eye(n)[rng.randint(n, size=count)]}
