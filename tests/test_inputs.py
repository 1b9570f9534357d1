"""Bad input: every row of the table says what was given, what was expected and how to fix it."""

import jax
import numpy as np
import pytest

import mechgap as mg
from mechgap.algorithms.inputs import LARGEST

N = 5
A = np.ones((2, N, N))
S = np.eye(N)[[0, 1]]
KEY = np.linspace(0, 1, 2 * N).reshape(2, N)


def changed(x: np.ndarray, index: tuple, value: float) -> np.ndarray:
    x = x.copy()
    x[index] = value
    return x


BAD = {
    "unknown algorithm": (
        lambda: mg.algorithm("belman_ford"),
        r"No algorithm 'belman_ford'. Did you mean 'bellman_ford'",
    ),
    "unknown algorithm, nothing near": (
        lambda: mg.algorithm("xyzzy"),
        r"No algorithm 'xyzzy'. Valid: activity_selector, articulation_points",
    ),
    "unknown input": (
        lambda: mg.algorithm("bfs").trace(A=A, S=S),
        r"no input 'S'. Did you mean 's' .*Valid: A, adj, pos, s",
    ),
    "missing input": (
        lambda: mg.algorithm("bfs").trace(A=A),
        r"needs the inputs 's'; given: \['A'\]. Pass them batched",
    ),
    "no input": (lambda: mg.algorithm("bfs").trace(), r"needs the inputs 's', 'A'; given: none"),
    "wrong rank": (
        lambda: mg.algorithm("bfs").trace(A=A[0], s=S),
        r"must be batched, \[B, n, n\]; got rank 2, .*A\[None\]",
    ),
    "far too wrong rank": (lambda: mg.algorithm("bfs").trace(A=1.0, s=S), r"got rank 0, .*reshape it to \[B, n, n\]"),
    "wrong rank of keys": (
        lambda: mg.algorithm("minimum").trace(key=KEY[0]),
        r"'key' must be batched, \[B, n\]; got rank 1",
    ),
    "wrong shape": (lambda: mg.algorithm("bfs").trace(A=A, s=S[:1]), r"'s' must have shape \(2, 5\) .*; got \(1, 5\)"),
    "wrong shape of pos": (
        lambda: mg.algorithm("dfs").trace(A=A, pos=np.ones((2, 4))),
        r"'pos' must have shape \(2, 5\)",
    ),
    "wrong dtype": (
        lambda: mg.algorithm("bfs").trace(A=A.astype(complex), s=S),
        r"real numbers; got dtype complex128. Convert",
    ),
    "text": (
        lambda: mg.algorithm("minimum").trace(key=[["a", "b"]]),
        r"'key' of 'minimum' must hold real numbers; got dtype <U1",
    ),
    "rows of different lengths": (
        lambda: mg.algorithm("graham_scan").trace(x=KEY, y=[[1.0, 2.0], [3.0]]),
        r"'y' of 'graham_scan' must be an array; got rows of different lengths. Make them",
    ),
    "masked": (
        lambda: mg.algorithm("minimum").trace(key=np.ma.masked_less(KEY, 0)),
        r"'key' of 'minimum' must have a value everywhere; got a masked array. Fill it",
    ),
    "source out of range": (
        lambda: mg.algorithm("bfs").trace(A=A, s=np.array([0, 7])),
        r"'s' is out of range: node 7 does not exist, nodes are 0\.\.4",
    ),
    "scalar source out of range": (
        lambda: mg.algorithm("bfs").trace(A=A, s=5),
        r"node 5 does not exist, nodes are 0\.\.4",
    ),
    "source as an index": (
        lambda: mg.algorithm("bfs").trace(A=A, s=np.array([0, 1])),
        r"must be one-hot.*pass np\.eye\(5\)\[",
    ),
    "no source": (
        lambda: mg.algorithm("bfs").trace(A=A, s=0 * S),
        r"exactly one node per sample; sample 0 marks 0 .*np\.eye\(5\)",
    ),
    "two sources": (lambda: mg.algorithm("bfs").trace(A=A, s=changed(S, (1, 4), 1)), r"sample 1 marks 2"),
    "source not one": (lambda: mg.algorithm("bfs").trace(A=A, s=2 * S), r"with a 1 at the node; got the value 2"),
    "non-square": (
        lambda: mg.algorithm("dijkstra").trace(A=A[:, :4], s=S),
        r"'A' must be square, .*; got shape \(2, 4, 5\)",
    ),
    "negative weight": (
        lambda: mg.algorithm("bellman_ford").trace(A=changed(A, (1, 2, 3), -0.5), s=S),
        r"negative weights; got -0.5 at \[1, 2, 3\]. Shift",
    ),
    "nan": (
        lambda: mg.algorithm("mst_prim").trace(A=changed(A, (0, 1, 1), np.nan), s=S),
        r"finite; got nan at \[0, 1, 1\]",
    ),
    "infinite": (
        lambda: mg.algorithm("dfs").trace(A=changed(A, (0, 1, 1), np.inf)),
        r"got inf at .* Use 0 for 'no edge'",
    ),
    "infinite key": (
        lambda: mg.algorithm("minimum").trace(key=changed(KEY, (1, 0), np.inf)),
        r"'key' must be finite; got inf at \[1, 0\]. Take the sample out",
    ),
    "infinite key in half precision": (
        lambda: mg.algorithm("minimum").trace(key=changed(KEY, (1, 0), -np.inf).astype(np.float16)),
        r"'key' must be finite; got -inf at \[1, 0\]",
    ),
    "large weight": (
        lambda: mg.algorithm("dijkstra").trace(A=changed(A, (0, 1, 2), 2e100), s=S),
        r"'A' must be from -1e\+100 to 1e\+100; got 2e\+100 at \[0, 1, 2\]. Scale",
    ),
    "large keys": (
        lambda: mg.algorithm("minimum").trace(key=KEY - 1e308),
        r"'key' must be from -1e\+100 to 1e\+100; got -1e\+308 at \[0, 0\]",
    ),
    "weight near 0": (
        lambda: mg.algorithm("bfs").trace(A=changed(A, (0, 1, 2), 1e-310), s=S),
        r"'A' must be 0 or at least 1e-100 in size; got 1e-310 at \[0, 1, 2\]. Scale the inputs up, or write 0",
    ),
    "negative key near 0": (
        lambda: mg.algorithm("minimum").trace(key=changed(KEY, (1, 0), -9e-101)),
        r"'key' must be 0 or at least 1e-100 in size; got -9e-101 at \[1, 0\]",
    ),
    "nan key": (
        lambda: mg.algorithm("insertion_sort").trace(key=changed(KEY, (1, 0), np.nan)),
        r"'key' must be finite; got nan",
    ),
    "n = 0": (
        lambda: mg.algorithm("bfs").trace(A=np.ones((2, 0, 0)), s=np.ones((2, 0))),
        r"B, n >= 1; got shape \(2, 0, 0\)",
    ),
    "n = 0, keys": (lambda: mg.algorithm("minimum").trace(key=np.ones((2, 0))), r"B, n >= 1; got shape \(2, 0\)"),
    "two points": (
        lambda: mg.algorithm("segments_intersect").trace(x=KEY[:, :2], y=KEY[:, :2]),
        r"'x' must have 4 nodes, \[B, 4\]; got 2, shape \(2, 2\). Give 4 per sample",
    ),
    "five points": (
        lambda: mg.algorithm("segments_intersect").trace(x=KEY, y=KEY),
        r"'x' must have 4 nodes, \[B, 4\]; got 5, shape \(2, 5\)",
    ),
    "empty batch": (lambda: mg.algorithm("dfs").trace(A=A[:0]), r"B, n >= 1; got shape \(0, 5, 5\)"),
    "adj without an edge": (
        lambda: mg.algorithm("bfs").trace(A=A, s=S, adj=np.eye(N)[None] * S[:, :1, None]),
        r"leave 'adj' out",
    ),
    "adj of other values": (
        lambda: mg.algorithm("bfs").trace(A=A, s=S, adj=0.5 * A),
        r"'adj' must hold 0 and 1 only; got 0.5",
    ),
    "n = 0 on device": (
        lambda: mg.algorithm("bfs").sample(jax.random.key(0), 0, 2),
        r"at least 1; got n = 0, batch = 2",
    ),
    "p above 1": (lambda: mg.algorithm("bfs").sample(jax.random.key(0), 4, 2, p=1.5), r"each in \[0, 1\]; got 1.5"),
    "no p": (lambda: mg.algorithm("bfs").sample(jax.random.key(0), 4, 2, p=()), r"non-empty sequence .*; got \(\)"),
    "p without a graph": (
        lambda: mg.algorithm("minimum").sample(jax.random.key(0), 4, 2, p=0.5),
        r"draws no graph.*leave p out",
    ),
    "unknown split": (lambda: mg.algorithm("bfs").split("tset"), r"No split 'tset'. Did you mean 'test'"),
    "n = 0 in the sampler": (lambda: mg.algorithm("bfs").benchmark_sampler(1, 0, 2), r"n must be at least 1; got 0"),
    "no samples": (lambda: mg.algorithm("bfs").benchmark_sampler(1, 4, 0), r"or -1 for an endless sampler; got 0"),
    "negative seed": (
        lambda: mg.algorithm("bfs").benchmark_sampler(-1, 4, 2),
        r"seed must be from 0 to 4294967295.*; got -1",
    ),
    "random_pos is no generator": (
        lambda: mg.algorithm("bfs").benchmark_sampler(1, 4, 2, random_pos=True),
        r"must be the run's np.random.RandomState .*; got True",
    ),
    "batch above the samples": (
        lambda: mg.algorithm("bfs").benchmark_sampler(1, 4, 2).next(3),
        r"batch of 3 .* the 2 samples",
    ),
    "endless without a batch": (
        lambda: mg.algorithm("bfs").benchmark_sampler(1, 4, -1, track_max_steps=False).next(),
        r"needs a batch size",
    ),
}


@pytest.mark.parametrize("row", BAD)
def test_bad_input_is_refused(row: str) -> None:
    call, message = BAD[row]
    with pytest.raises(ValueError, match=message):
        call()


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"(?s)'A' must not have negative.*'s' must mark exactly one"):
        mg.algorithm("bfs").trace(A=-A, s=0 * S)


def test_the_largest_numbers_are_welcome() -> None:
    largest = np.full((1, 4), LARGEST)
    chain = mg.algorithm("matrix_chain_order").trace(p=largest)
    assert np.all(np.isfinite(chain.hints["m"]))
    assert mg.algorithm("segments_intersect").checked({"x": -largest, "y": largest})["x"].max() == -LARGEST


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float16, np.float32, np.float64])
def test_real_dtypes_are_welcome(dtype: type) -> None:
    given = mg.algorithm("bfs").trace(A=A.astype(dtype), s=S.astype(dtype))
    assert given.differences(mg.algorithm("bfs").trace(A=A, s=S)) == {}
