"""The forms of the two operations on pairs of nodes against their plain definition: values, gradients, choice."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mechgap.networks import pairwise, pairwise_kernel, pairwise_recompute
from mechgap.networks.pairwise import attention_scores, pointer_scores, use_form
from mechgap.networks.pairwise_recompute import LEAKY_SUM, MAXIMUM, Operands

M = 6  # the width of a head: no power of two
SIZES = [
    pytest.param(n, heads, values, id=f"{n}-{heads}-{values}", marks=() if n == 7 else pytest.mark.slow)
    for n in (1, 4, 7, 16)
    for heads, values in ((1, 3), (2, 2), (1, 5))
]
FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
OPERATIONS = [pytest.param(attention_scores, id="attention"), pytest.param(pointer_scores, id="pointer")]
Tree = tuple[jax.Array, ...]


def operands(
    operation: Callable, n: int, heads: int, values: int, lead: tuple = (), dtype: type = np.float32, width: int = M
) -> Tree:
    """Random ones, of which the last two have no axis of graphs."""
    rng = np.random.default_rng(n + 100 * heads + 1000 * values)
    s, seeds = heads * width, lead[:1]
    shapes = [(*lead, n, s), (*lead, n, s), (*lead, n, n, values), (*seeds, values, s)]
    last = (*seeds, heads, width) if operation is attention_scores else (*seeds, s)
    return tuple(jnp.asarray(rng.standard_normal(shape), dtype) for shape in (*shapes, last))


def evaluated(form: str, operation: Callable, given: Tree) -> list[np.ndarray]:
    """The scores and the gradients of some uneven sum of them."""

    def both(*given: jax.Array) -> tuple[jax.Array, Tree]:
        scores, pull = jax.vjp(operation, *given)
        return scores, pull(jnp.cos(jnp.arange(scores.size, dtype=scores.dtype)).reshape(scores.shape))

    with use_form(form):
        lowered = jax.jit(both).lower(*given)
    return [np.asarray(x) for x in jax.tree.leaves(lowered.compile(FAST)(*given))]


def assert_close(found: list[np.ndarray], expected: list[np.ndarray], tolerance: float) -> None:
    assert len(found) == len(expected) == 6
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * max(1.0, float(np.max(np.abs(y)))))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("n", "heads", "values"), SIZES)
def test_every_form_is_the_plain_one(operation: Callable, n: int, heads: int, values: int) -> None:
    given = operands(operation, n, heads, values)
    expected = evaluated("plain", operation, given)
    for form in ("recompute", "kernel"):
        assert_close(evaluated(form, operation, given), expected, 1e-5)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_double_precision(operation: Callable) -> None:
    with jax.enable_x64(True):
        given = operands(operation, 7, 2, 3, dtype=np.float64)
        assert given[0].dtype == np.float64
        assert_close(evaluated("recompute", operation, given), evaluated("plain", operation, given), 1e-12)
        with use_form("kernel"):
            assert pairwise.form_for(Operands(*given)) == "plain"


@pytest.mark.parametrize("form", ["plain", "recompute", "kernel"])
def test_ties_split_the_gradient(form: str) -> None:
    """max(1, 1) = 1 gives each side half; where a side is larger it takes all."""
    source, target = jnp.array([[1.0], [2.0]]), jnp.array([[1.0], [1.0]])
    edge, weight, vector = jnp.zeros((2, 2, 1)).at[1, 0, 0].set(3.0), jnp.ones((1, 1)), jnp.array([2.0])
    scores, *gradients = evaluated(form, pointer_scores, (source, target, edge, weight, vector))
    # Score [0, 1] reads edge [1, 0]: its target is 1 + 3. The others see no edge.
    np.testing.assert_array_equal(scores, [[2.0, 8.0], [4.0, 4.0]])
    pull = 2 * np.cos(np.arange(4.0)).reshape(2, 2)
    np.testing.assert_allclose(gradients[0][:, 0], [pull[0, 0] / 2, pull[1, 0] + pull[1, 1]], rtol=1e-5)
    np.testing.assert_allclose(gradients[1][:, 0], [pull[0, 0] / 2, pull[0, 1]], rtol=1e-5)
    np.testing.assert_allclose(gradients[2][:, :, 0], [[pull[0, 0] / 2, 0], [pull[0, 1], 0]], rtol=1e-5)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_ties_of_whole_numbers(operation: Callable) -> None:
    given = tuple(jnp.round(x) for x in operands(operation, 7, 1, 3))
    expected = evaluated("plain", operation, given)
    for form in ("recompute", "kernel"):
        assert_close(evaluated(form, operation, given), expected, 1e-5)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("heads", [1, 2])
def test_over_seeds_and_graphs(operation: Callable, heads: int) -> None:
    """All graphs of a seed share its weights, whose gradients are summed over them."""
    given = operands(operation, 5, heads, 3, lead=(3, 2))
    mapped = jax.vmap(jax.vmap(operation, in_axes=(0, 0, 0, None, None)))
    expected = evaluated("plain", mapped, given)
    for form in ("recompute", "kernel"):
        assert_close(evaluated(form, mapped, given), expected, 1e-5)


@pytest.mark.parametrize("combine", [LEAKY_SUM, MAXIMUM], ids=["leaky", "maximum"])
def test_the_kernel_in_many_programs(combine: pairwise.Combine) -> None:
    """Blocks of 4 senders by 3 receivers out of 7 nodes: the last of each is partly outside."""
    x = Operands(*operands(attention_scores, 7, 2, 3))
    cut = pairwise_kernel.Blocks.of(7, M, tile=32, receivers=3)
    assert (cut.senders, cut.receivers, cut.padded, cut.grid) == (4, 3, 8, (2, 3))
    pull = jnp.sin(jnp.arange(2 * 7 * 7.0)).reshape(2, 7, 7)
    scores = pairwise_kernel.forward(combine, x, cut)
    np.testing.assert_allclose(scores, pairwise_recompute.forward(combine, x), rtol=1e-5, atol=1e-5)
    found = pairwise_kernel.backward(combine, x, pull, cut)
    for a, b in zip(found, pairwise_recompute.backward(combine, x, pull), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("n", "heads", "width"), [(16, 1, 128), (7, 2, 6), (64, 1, 128)])
def test_the_kernel_lowers_for_a_gpu(
    operation: Callable, n: int, heads: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One launch per pass over all seeds and graphs, and no array with two axes of nodes and one of width."""
    monkeypatch.setattr(pairwise_kernel, "interpreted", lambda: False)
    lead = (3, 2)
    given = operands(operation, n, heads, 3, lead=lead, width=width)
    mapped = jax.vmap(jax.vmap(operation, in_axes=(0, 0, 0, None, None)))

    def both(*given: jax.Array) -> tuple[jax.Array, Tree]:
        scores, pull = jax.vjp(mapped, *given)
        return scores, pull(scores)

    with use_form("kernel"):
        text = jax.jit(both).trace(*given).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("@__gpu$xla.gpu.triton(") == 2
    assert f"{n}x{n}x{heads * width}xf32" not in text


def test_the_backward_pass_keeps_the_precision() -> None:
    given = operands(attention_scores, 4, 1, 2)
    with use_form("recompute"), jax.default_matmul_precision("highest"):
        _, pull = jax.vjp(attention_scores, *given)
    text = str(jax.make_jaxpr(pull)(jnp.ones((1, 4, 4))))
    assert text.count("dot_general[") > 2
    assert text.count("HIGHEST") == 2 * text.count("dot_general[")


def chosen(values: int = 3, width: int = 8, dtype: type = np.float32) -> str:
    return pairwise.form_for(Operands(*operands(attention_scores, 4, 1, values, dtype=dtype, width=width)))


def test_the_device_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(pairwise.VARIABLE, raising=False)
    forms = {}
    for platform in ("cpu", "gpu", "tpu"):
        monkeypatch.setattr(jax, "default_backend", lambda platform=platform: platform)
        forms[platform] = (chosen(), chosen(values=9), chosen(width=2048), chosen(dtype=np.float16), chosen(values=0))
    assert forms["cpu"] == ("recompute",) * 4 + ("plain",)
    assert forms["gpu"] == ("kernel",) + ("plain",) * 4
    assert forms["tpu"] == ("plain",) * 5
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with jax.default_device(jax.devices("cpu")[0]):
        assert chosen() == "recompute"


def test_the_form_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pairwise.VARIABLE, "plain")
    assert chosen() == "plain"
    with use_form("kernel"):
        assert chosen() == "kernel"
    assert chosen() == "plain"
    monkeypatch.setenv(pairwise.VARIABLE, "fast")
    with pytest.raises(ValueError, match="MECHGAP_PAIRWISE must be one of 'plain', 'recompute', 'kernel'; got 'fast'"):
        chosen()
    with pytest.raises(ValueError, match=r"form must be one of .*; got 'quick'"), use_form("quick"):
        pass


def test_mixed_types_and_edges_without_values_are_plain() -> None:
    given = operands(attention_scores, 4, 1, 0)
    assert evaluated("recompute", attention_scores, given)[0].shape == (1, 4, 4)
    half = (given[0].astype(jnp.float16), *given[1:])
    assert evaluated("recompute", attention_scores, half)[1].dtype == np.float16


def test_the_plain_form_has_second_derivatives() -> None:
    given = operands(attention_scores, 4, 1, 2)
    with use_form("plain"):
        second = jax.jvp(jax.grad(lambda *x: jnp.sum(attention_scores(*x) ** 2)), given, given)
    assert all(np.all(np.isfinite(x)) for x in second)
