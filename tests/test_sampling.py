"""The two ways to draw inputs follow one distribution."""

from collections.abc import Iterator

import jax
import numpy as np
import pytest
from scipy import stats

import mechgap as mg
from mechgap.algorithms import TRAIN_P
from mechgap.algorithms.distributions import BenchmarkStream
from mechgap.algorithms.inputs import DERIVED
from mechgap.trace import Stage

COUNT, N = 1024, 7
EACH_DISTRIBUTION = {mg.algorithm(name).distribution: name for name in mg.algorithm_names()}.values()


def both(name: str, p=None) -> tuple[dict, dict]:
    """Inputs drawn on the host and on the device; none of them is traced."""
    algorithm = mg.algorithm(name)
    host = algorithm.distribution.draw(BenchmarkStream(11), N, COUNT, algorithm.probabilities(p))
    device = algorithm.sample(jax.random.key(11), N, COUNT, p=p)
    return host, {k: np.asarray(v) for k, v in device.items()}


def statistics(inputs: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """One number of each sample, by name."""
    for name, x in inputs.items():
        if name == "A":
            yield from of_graphs(x)
        elif x.ndim == 1:
            yield name, x
        else:
            values = x.argmax(-1) if x.ndim == 3 else x
            yield from ((f"{name}, first", values[:, 0]), (f"{name}, last", values[:, -1]))
            yield from ((f"{name}, sum", values.sum(-1)), (f"{name}, largest", values.max(-1)))
    if "x" in inputs:
        yield "distance of the first two", np.hypot(*(inputs[k][:, 0] - inputs[k][:, 1] for k in ("x", "y")))
    if "string" in inputs:
        yield "first place of the second string in the first", places(inputs["string"] == 0, inputs["key"])


def of_graphs(A: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    edges = A != 0
    yield "edges", edges.sum((1, 2))
    yield "edges both ways", (edges & edges.mT).sum((1, 2))
    yield "self-loops", np.trace(edges, axis1=1, axis2=2)
    yield "edges of the first node", edges[:, 0].sum(-1)
    yield "paths of two edges", (edges.astype(int) @ edges).sum((1, 2))
    yield "weights", A.sum((1, 2))


def places(is_first: np.ndarray, key: np.ndarray) -> np.ndarray:
    texts = ["".join(map(str, letters)) for letters in key.argmax(-1)]
    return np.array([text[:cut].find(text[cut:]) for text, cut in zip(texts, is_first.sum(-1), strict=True)])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (i % 2)) for i, name in enumerate(EACH_DISTRIBUTION)]
)
def test_the_two_ways_to_draw_follow_one_distribution(name: str) -> None:
    host, device = both(name)
    assert set(host) == set(mg.algorithm(name).spec.names(Stage.INPUT)) - set(DERIVED)
    assert {k: x.shape for k, x in host.items()} == {k: device[k].shape for k in host}
    theirs = dict(statistics({k: device[k] for k in host}))
    for statistic, mine in statistics(host):
        assert stats.ks_2samp(mine, theirs[statistic]).pvalue > 1e-4, statistic


def same_rate(a: np.ndarray, b: np.ndarray) -> None:
    """Two sets of graphs: a difference of the rates beyond five standard errors is a bug, not chance.

    The graphs are the independent draws, not their edges, which share a p.
    """
    a, b = a.reshape(len(a), -1).mean(-1), b.reshape(len(b), -1).mean(-1)
    error = np.sqrt(a.var() / len(a) + b.var() / len(b))
    assert abs(a.mean() - b.mean()) < 5 * error


@pytest.mark.parametrize("p", [None, 0.2, pytest.param(TRAIN_P, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["bfs", "dfs", "bellman_ford"])
def test_graphs_follow_one_distribution(name: str, p) -> None:
    host, device = both(name, p)
    diagonal = np.eye(N, dtype=bool)
    for part in (diagonal, ~diagonal):
        same_rate((host["A"] != 0)[:, part], (device["A"] != 0)[:, part])
    edges = [np.sum(x["A"] != 0, axis=(1, 2)) for x in (host, device)]  # the mixture over p shows in the edge count
    assert stats.ks_2samp(*edges).pvalue > 1e-4
    if name != "dfs":
        for x in (host, device):
            np.testing.assert_array_equal(x["A"], np.swapaxes(x["A"], 1, 2))
        assert stats.chisquare(device["s"].sum(0)).pvalue > 1e-4
        assert np.all(device["s"].sum(-1) == 1)
    else:
        same_rate((host["A"] != np.swapaxes(host["A"], 1, 2)), (device["A"] != np.swapaxes(device["A"], 1, 2)))


def test_the_off_diagonal_rate_is_p_squared() -> None:
    _, device = both("bfs", 0.3)
    off = device["A"][:, ~np.eye(N, dtype=bool)]
    assert abs(off.mean() - 0.09) < 5 * np.sqrt(0.09 * 0.91 / (off.size / 2))


def test_values_follow_one_distribution() -> None:
    host, device = both("bellman_ford")
    mine, theirs = host["A"][host["A"] != 0], device["A"][device["A"] != 0]
    assert stats.ks_2samp(mine, theirs).pvalue > 1e-4


def test_random_positions_are_sorted_uniforms() -> None:
    algorithm = mg.algorithm("bfs")
    device = np.asarray(algorithm.sample(jax.random.key(1), N, COUNT, random_pos=True)["pos"])
    host = algorithm.benchmark_sampler(1, N, COUNT, random_pos=np.random.RandomState(2)).next().inputs["pos"]
    assert np.all(np.diff(device, axis=-1) >= 0)
    assert np.all(np.diff(host, axis=-1) >= 0)
    for i in range(N):
        assert stats.ks_2samp(device[:, i], host[:, i]).pvalue > 1e-4


def test_random_positions_are_sorted_in_every_string_apart() -> None:
    for name in ("lcs_length", "kmp_matcher"):
        inputs = mg.algorithm(name).sample(jax.random.key(1), 9, 50, random_pos=True)
        rises, ends = np.diff(inputs["pos"]) > 0, np.diff(inputs["string"]) > 0
        assert np.all(rises | ends)
        assert not np.all(rises[ends])


def test_one_key_gives_one_batch_and_another_key_another() -> None:
    algorithm = mg.algorithm("bellman_ford")
    first, again, other = (algorithm.sample(jax.random.key(k), N, 4)["A"] for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.any(np.asarray(first) != np.asarray(other))
