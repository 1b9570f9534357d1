"""Attention as a fused kernel: the same as by its definition, in both passes; interpreted here, lowered for a GPU."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from mechgap.networks import attention_kernel, transformer
from mechgap.networks.attention_kernel import NEVER, Operands, mix, serves
from mechgap.networks.transformer import Transformer, TransformerConfig, TransformerSize, attention_of, run_layers

SEQUENCES = 3
AXES: Any = Operands(0, 0, 0, 0, None, None)  # biases and the null slot are of all sequences  # type: ignore[arg-type]


def operands(
    length: int, sources: int, heads: int, width: int, of_values: int, dtype: Any = jnp.float32, causal: bool = False
) -> Operands:
    """Of several sequences, which have different lengths; one looks nowhere but at the null slot."""
    rng = np.random.default_rng(0)
    some = lambda *shape: jnp.asarray(rng.normal(size=shape), dtype)  # noqa: E731
    lengths = np.array([sources, 0, sources // 2])
    return Operands(
        query=some(SEQUENCES, length, heads, width),
        key=some(SEQUENCES, sources, heads, width),
        value=some(SEQUENCES, sources, heads, of_values),
        allowed=jnp.asarray(
            (np.arange(sources) < lengths[:, None])[:, None]
            & (np.tri(length, sources, dtype=bool) if causal else np.ones((length, sources), bool))
        ),
        bias=some(heads, length, sources).astype(jnp.float32),
        null=jnp.asarray([NEVER, 0.5, -1.0][:heads]),
    )


def by_definition(x: Operands) -> jax.Array:
    return jnp.einsum("hij,jhm->ihm", attention_of(x).astype(x.value.dtype), x.value)


def both_passes(function: Callable, x: Operands) -> tuple[jax.Array, Operands]:
    """What it makes, and the gradients of a weighted sum of it."""
    out = jax.vmap(function, in_axes=(AXES,))(x)
    weight = jnp.asarray(np.random.default_rng(1).normal(size=out.shape), jnp.float32)

    def total(moved: Operands) -> jax.Array:
        made = jax.vmap(function, in_axes=(AXES,))(moved._replace(allowed=x.allowed))
        return jnp.sum(made.astype(jnp.float32) * weight)

    return out, jax.grad(total)(x._replace(allowed=None))  # type: ignore[arg-type]


SIZES = [(21, 21, 3, 8, 8), (5, 9, 2, 16, 3), (16, 17, 1, 4, 20)]
LARGEST, SMALLEST = (64, 64, 1, 128, 128), (1, 1, 2, 8, 8)


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("sizes", [*SIZES, LARGEST, SMALLEST])
def test_it_is_attention(sizes: tuple[int, ...], causal: bool) -> None:
    x = operands(*sizes, causal=causal)
    (out, slopes), (meant, right) = (jax.jit(partial(both_passes, f))(x) for f in (mix, by_definition))
    np.testing.assert_allclose(out, meant, rtol=1e-5, atol=1e-5)
    for name in ("query", "key", "value", "bias", "null"):
        np.testing.assert_allclose(getattr(slopes, name), getattr(right, name), rtol=1e-5, atol=1e-5, err_msg=name)
    assert float(jnp.abs(right.null).max()) > 0.01 or sizes[2] == 1, "there is something to compare"


def test_seeds_are_one_more_axis() -> None:
    """As in training: a map over networks, which have biases and null slots of their own, around one over sequences."""
    one = operands(*SIZES[0])
    seeds = jax.tree.map(lambda a: jnp.stack([a, a]), one)
    seeds = seeds._replace(bias=seeds.bias.at[1].multiply(-1), null=seeds.null.at[1].set(0.25))
    (out, slopes), (meant, right) = (jax.jit(jax.vmap(partial(both_passes, f)))(seeds) for f in (mix, by_definition))
    np.testing.assert_allclose(out, meant, rtol=1e-5, atol=1e-5)
    for name in ("query", "key", "value", "bias", "null"):
        np.testing.assert_allclose(getattr(slopes, name), getattr(right, name), rtol=1e-5, atol=1e-5, err_msg=name)
    assert float(jnp.abs(out[0] - out[1]).max()) > 0.1


def test_in_bfloat16_it_differs_by_rounding() -> None:
    x = operands(*SIZES[0], dtype=jnp.bfloat16)
    (out, slopes), (meant, right) = (jax.jit(partial(both_passes, f))(x) for f in (mix, by_definition))
    assert out.dtype == slopes.query.dtype == jnp.bfloat16
    assert slopes.bias.dtype == slopes.null.dtype == jnp.float32
    for a, b in (
        (out, meant),
        *((getattr(slopes, n), getattr(right, n)) for n in ("query", "key", "value", "bias", "null")),
    ):
        wide = np.asarray(b, np.float32)
        np.testing.assert_allclose(np.asarray(a, np.float32), wide, atol=0.02 * np.abs(wide).max())


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated")  # by jax 0.11
def test_it_is_one_launch_for_each_pass_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_kernel, "interpreted", lambda: False)
    x = operands(21, 21, 3, 64, 64, jnp.bfloat16)
    forward = lambda x: jax.vmap(mix, in_axes=(AXES,))(x)  # noqa: E731
    card = AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="cuda")
    with use_abstract_mesh(AbstractMesh((), (), abstract_device=card)):
        texts = [
            jax.jit(function).trace(x).lower(lowering_platforms=("cuda",)).as_text()
            for function in (forward, lambda x: both_passes(mix, x))
        ]
    assert [text.count("@__gpu$xla.gpu.triton(") for text in texts] == [1, 2]
    assert "x3x21x21xf32" not in texts[0], "no logits in memory"


def test_what_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = first_of(operands(21, 9, 3, 64, 64, jnp.bfloat16))
    assert not serves(narrow), "on a CPU"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert serves(narrow)
    refused = [(65, 9, 1, 8, 8), (9, 65, 1, 8, 8), (9, 9, 1, 129, 8), (9, 9, 1, 8, 129)]
    assert not any(serves(first_of(operands(*sizes, dtype=jnp.bfloat16))) for sizes in refused)
    assert not serves(first_of(operands(21, 9, 3, 64, 64))), "float32"
    monkeypatch.setenv("MECHGAP_ATTENTION", "plain")
    assert not serves(narrow)
    monkeypatch.setenv("MECHGAP_ATTENTION", "fused")
    with pytest.raises(ValueError, match="MECHGAP_ATTENTION must be plain or kernel; got 'fused'"):
        serves(narrow)
    monkeypatch.setenv("MECHGAP_ATTENTION", "kernel")
    with jax.default_device("cpu"):
        assert not serves(narrow), "where a CPU is asked for"
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert not serves(narrow)


def first_of(x: Operands) -> Operands:
    """The first sequence."""
    return Operands(*(a[0] for a in x[:4]), *x[4:])


def test_a_transformer_learns_the_same_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    size = TransformerSize(inputs=3, outputs=2, width=16, hidden=32, heads=2, head_width=8, layers=2, biases=5)
    net = Transformer.init(size, TransformerConfig(activation="gelu"), key=jax.random.key(0))
    ids, lengths = jnp.array([[2, 0, 1, 1], [2, 1, 0, 0]]), jnp.array([4, 2])

    def slopes(net: Transformer) -> jax.Array:
        streams = jax.vmap(lambda i, n: run_layers(net, i, n, layers=2)[n - 1])(ids, lengths)
        return jnp.sum(jnp.sin(streams))

    plain = eqx.filter_jit(eqx.filter_grad(slopes))(net)
    asked = []
    monkeypatch.setattr(transformer.attention_kernel, "serves", lambda x: not asked.append(x))
    fused = eqx.filter_jit(eqx.filter_grad(lambda net: slopes(net)))(net)
    assert asked
    for a, b in zip(jax.tree.leaves(fused), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
