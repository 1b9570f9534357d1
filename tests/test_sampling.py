"""The two ways to draw inputs follow one distribution."""

import jax
import numpy as np
import pytest
from scipy import stats

import mechgap as mg
from mechgap.algorithms import TRAIN_P

COUNT, N = 1024, 7


def both(name: str, p=None) -> tuple[dict, dict]:
    algorithm = mg.algorithm(name)
    host = algorithm.benchmark_sampler(11, N, COUNT, p=p).next().inputs
    device = algorithm.sample(jax.random.key(11), N, COUNT, p=p)
    return host, {k: np.asarray(v) for k, v in device.items()}


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


@pytest.mark.parametrize(("name", "field"), [("bellman_ford", "A"), ("minimum", "key"), ("insertion_sort", "key")])
def test_values_follow_one_distribution(name: str, field: str) -> None:
    host, device = both(name)
    mine, theirs = host[field][host[field] != 0], device[field][device[field] != 0]
    assert stats.ks_2samp(mine, theirs).pvalue > 1e-4


def test_random_positions_are_sorted_uniforms() -> None:
    algorithm = mg.algorithm("bfs")
    device = np.asarray(algorithm.sample(jax.random.key(1), N, COUNT, random_pos=True)["pos"])
    host = algorithm.benchmark_sampler(1, N, COUNT, random_pos=np.random.RandomState(2)).next().inputs["pos"]
    assert np.all(np.diff(device, axis=-1) >= 0)
    assert np.all(np.diff(host, axis=-1) >= 0)
    for i in range(N):
        assert stats.ks_2samp(device[:, i], host[:, i]).pvalue > 1e-4


def test_one_key_gives_one_batch_and_another_key_another() -> None:
    algorithm = mg.algorithm("bellman_ford")
    first, again, other = (algorithm.sample(jax.random.key(k), N, 4)["A"] for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.any(np.asarray(first) != np.asarray(other))
