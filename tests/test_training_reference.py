"""Our training against the reference's: loss, gradients and the optimiser's step, on the same parameters and batch.

tests/oracle/make_network_golden.py writes the files, in the oracle environment.
"""

from functools import partial
from itertools import product
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from test_networks_reference import PATHS, load, parameters, spec_of, under

from mechgap.networks import ClrsNet, NetConfig, from_reference, predict, to_reference
from mechgap.training.loss import losses
from mechgap.training.optimiser import apply, initial, regularised

GOLDEN = Path(__file__).with_name("golden")
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}
# The default tests go through every kind of variable once; `make test-all` runs every file in both precisions.
QUICK = {
    "float32": ("bfs_encoded_decoded_norm", "bellman_ford_encoded_decoded_norm"),
    "float64": (
        "dfs_decoded_only_plain",
        "floyd_warshall_default",
        "graham_scan_default",
        "segments_intersect_default",
    ),
}
WITH_LOSS = [path for path in PATHS if "float64/loss" in np.load(path).files]

Arrays = dict[str, np.ndarray]


@partial(jax.jit, static_argnums=5, compiler_options={"xla_backend_optimization_level": 0})
def loss_and_gradient(
    net: ClrsNet, inputs: Arrays, hints: Arrays, outputs: Arrays, lengths: np.ndarray, steps: int
) -> tuple[jax.Array, ClrsNet]:
    def objective(net: ClrsNet) -> jax.Array:
        prediction = predict(net, inputs, hints, lengths, steps=steps, record=False)
        return losses(net.spec, prediction, hints, outputs, lengths).total()

    return jax.value_and_grad(objective)(net)


def cases() -> list:
    marked = []
    for path, dtype in product(WITH_LOSS, TOLERANCE):
        case = path.stem.removeprefix("network_")
        marks = [] if case in QUICK[dtype] else [pytest.mark.slow]
        marked.append(pytest.param(path, dtype, id=f"{case}-{dtype}", marks=marks))
    return marked


@pytest.mark.parametrize(("path", "dtype"), cases())
@pytest.mark.parametrize("padding", [0, 3])
def test_loss_and_gradients_are_the_references(path: Path, dtype: str, padding: int) -> None:
    """Frames of padding behind every execution change nothing."""
    if padding and "bfs_encoded_decoded_norm" not in path.stem and "graham_scan" not in path.stem:
        pytest.skip("one file of each precision is padded")
    header, arrays = load(path)
    with jax.enable_x64(dtype == "float64"):
        net = from_reference(parameters(arrays, dtype), spec_of(header), NetConfig(**header["config"]))
        hints = {
            name: np.pad(x, [(0, padding)] + [(0, 0)] * (x.ndim - 1)).astype(dtype)
            for name, x in under(arrays, "hint/").items()
        }
        inputs = {name: x.astype(dtype) for name, x in under(arrays, "input/").items()}
        outputs = {name: x.astype(dtype) if x.dtype.kind == "f" else x for name, x in under(arrays, "output/").items()}
        steps = next(iter(hints.values())).shape[0]
        loss, gradient = loss_and_gradient(net, inputs, hints, outputs, arrays["lengths"].astype(np.int32), steps)
        assert loss.dtype == dtype
    # dfs goes through 14 steps here; float32 rounds along the way.
    tolerance = 1e-4 if (dtype, header["algorithm"]) == ("float32", "dfs") else TOLERANCE[dtype]
    np.testing.assert_allclose(loss, arrays["float64/loss"], rtol=tolerance)
    ours = {f"{module} {k}": x for module, xs in to_reference(gradient).items() for k, x in xs.items()}
    theirs = under(arrays, "float64/gradient/")
    assert set(ours) == set(theirs)
    for name, x in theirs.items():
        np.testing.assert_allclose(ours[name], x, rtol=tolerance, atol=tolerance, err_msg=name)
