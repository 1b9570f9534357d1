"""Our training against the reference's: loss, gradients and the optimiser's step, on the same parameters and batch.

tests/oracle/make_network_golden.py writes the files, in the oracle environment.
"""

import subprocess
from functools import partial
from itertools import product
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mechgap.networks import ClrsNet, NetConfig, from_reference, predict, to_reference
from mechgap.training.loss import losses
from mechgap.training.optimiser import apply, initial, regularised
from test_networks_reference import PATHS, load, parameters, spec_of, under

GOLDEN = Path(__file__).with_name("golden")
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}
# The default tests go through both precisions and padding once; `make test-all` runs every file in both precisions.
QUICK = {
    "float32": ("bfs_encoded_decoded_norm",),
    "float64": ("bfs_triplet_gmpnn",),
}
PADDED = (("bfs_encoded_decoded_norm", "float32"), ("graham_scan_default", "float64"))
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
        marked.append(pytest.param(path, dtype, 0, id=f"{case}-{dtype}", marks=marks))
        if (case, dtype) in PADDED:
            marked.append(pytest.param(path, dtype, 3, id=f"{case}-{dtype}-padded", marks=marks))
    return marked


@pytest.mark.parametrize(("path", "dtype", "padding"), cases())
def test_loss_and_gradients_are_the_references(path: Path, dtype: str, padding: int) -> None:
    """Frames of padding behind every execution change nothing."""
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


def test_the_optimiser_lands_where_the_references_does() -> None:
    """Adam behind a clip, written out in NumPy from its definition, on the reference's own gradients."""
    header, arrays = load(GOLDEN / "network_bfs_encoded_decoded_norm.npz")
    with jax.enable_x64(True):
        config = NetConfig(**header["config"])
        net = from_reference(parameters(arrays, "float64"), spec_of(header), config)
        tree = {k: {} for k in parameters(arrays, "float64")}
        for name, x in under(arrays, "float64/gradient/").items():
            module, key = name.split(" ")
            tree[module][key] = x
        gradient = from_reference(tree, spec_of(header), config)
        for clip in (1.0, 0.0):
            moved, state = net, initial(net)
            for _ in range(3):
                moved, state, norm = apply(moved, gradient, state, learning_rate=1e-3, grad_clip=clip)
            flat = np.concatenate([np.ravel(g) for g in jax.tree.leaves(gradient)])
            np.testing.assert_allclose(norm, np.linalg.norm(flat))
            assert np.linalg.norm(flat) > 1, "nothing is clipped"
            expected = by_hand(np.concatenate([np.ravel(w) for w in jax.tree.leaves(net)]), flat, clip, 3)
            landed = np.concatenate([np.ravel(w) for w in jax.tree.leaves(moved)])
            np.testing.assert_allclose(landed, expected, rtol=1e-12, atol=1e-12)


def by_hand(w: np.ndarray, g: np.ndarray, clip: float, steps: int) -> np.ndarray:
    g = g if not clip else g * min(1.0, clip / np.linalg.norm(g))
    m = v = 0
    for t in range(1, steps + 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - 1e-3 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w


def test_a_frozen_processor_counts_in_the_norm_and_does_not_move() -> None:
    header, arrays = load(GOLDEN / "network_bfs_none_plain.npz")
    net = from_reference(parameters(arrays, "float32"), spec_of(header), NetConfig(**header["config"]))
    ones = jax.tree.map(jnp.ones_like, net)
    moved, _, norm = apply(net, ones, initial(net), learning_rate=0.1, grad_clip=1.0, freeze_processor=True)
    np.testing.assert_allclose(norm, np.sqrt(sum(x.size for x in jax.tree.leaves(net))), rtol=1e-6)
    same = jax.tree.map(lambda a, b: bool(jnp.array_equal(a, b)), moved, net)
    assert all(jax.tree.leaves(same.processor))
    assert not any(jax.tree.leaves((same.encoders, same.decoders)))


def test_nothing_moves_on_a_gradient_that_is_not_finite() -> None:
    header, arrays = load(GOLDEN / "network_bfs_none_plain.npz")
    net = from_reference(parameters(arrays, "float32"), spec_of(header), NetConfig(**header["config"]))
    broken = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), net)
    moved, state, _ = apply(net, broken, initial(net), learning_rate=0.1, grad_clip=1.0)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool(jnp.array_equal(a, b)), moved, net)))
    assert all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(state))


def test_regularisation_is_the_gradient_of_its_term() -> None:
    header, arrays = load(GOLDEN / "network_bfs_none_plain.npz")
    net = from_reference(parameters(arrays, "float32"), spec_of(header), NetConfig(**header["config"]))
    zero = jax.tree.map(jnp.zeros_like, net)

    def term(net: ClrsNet) -> jax.Array:
        return sum(0.1 * jnp.sum(jnp.abs(w)) + 0.3 * jnp.sum(w**2) for w in jax.tree.leaves(net))

    expected = jax.grad(term)(net)
    ours = regularised(zero, net, 0.1, 0.3)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


# The reference's own update, three times on the gradients of a golden file: given clip, golden file and result.
LIVE = """
import sys
sys.path.insert(0, sys.argv[1])
import make_network_golden as made
import numpy as np
import optax

clip, golden, result = float(sys.argv[2]), dict(np.load(sys.argv[3])), sys.argv[4]
adam = optax.chain(optax.clip_by_global_norm(clip), optax.scale_by_adam(), optax.scale(-1e-3))
spec, feedback = made.batch("bfs")
model = made.build(spec, feedback, made.DEFAULT)
model.opt = adam if clip else optax.adam(1e-3)
model.opt_state_skeleton = model.opt.init(np.zeros(1))

def tree(prefix):
    found = {}
    for name, x in golden.items():
        if name.startswith(prefix):
            module, key = name.removeprefix(prefix).split(" ")
            found.setdefault(module, {})[key] = x.astype(np.float32)
    return found

parameters, gradients = tree("parameter/"), tree("float64/gradient/")
state = model.opt.init(parameters)
for _ in range(3):
    parameters, state = model._update_params(parameters, gradients, state, 0)
np.savez(result, **{f"{m} {k}": np.asarray(x) for m, xs in parameters.items() for k, x in xs.items()})
"""


@pytest.mark.slow
@pytest.mark.parametrize("clip", [1.0, 0.0])
def test_the_optimiser_lands_where_the_live_reference_does(tmp_path: Path, clip: float) -> None:
    root = Path(__file__).parents[1]
    python = root / ".oracle" / "bin" / "python"
    if not python.exists():
        pytest.skip("the reference is not installed; run `make oracle`")
    golden = GOLDEN / "network_bfs_encoded_decoded_norm.npz"
    command = [python, "-c", LIVE, root / "tests" / "oracle", str(clip), golden, tmp_path / "landed.npz"]
    subprocess.run([str(x) for x in command], check=True, capture_output=True)
    theirs = dict(np.load(tmp_path / "landed.npz"))
    header, arrays = load(golden)
    config = NetConfig(**header["config"])
    net = from_reference(parameters(arrays, "float32"), spec_of(header), config)
    tree: dict[str, Arrays] = {}
    for name, x in under(arrays, "float64/gradient/").items():
        module, key = name.split(" ")
        tree.setdefault(module, {})[key] = x.astype("float32")
    gradient, state = from_reference(tree, spec_of(header), config), initial(net)
    for _ in range(3):
        net, state, _ = apply(net, gradient, state, learning_rate=1e-3, grad_clip=clip)
    for module, xs in to_reference(net).items():
        for key, x in xs.items():
            np.testing.assert_allclose(x, theirs[f"{module} {key}"], rtol=1e-6, atol=1e-7)
