"""Parameters by the reference's own names, both ways: dictionaries of arrays, {module: {"w", "b"}}."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mechgap.networks.clrs_net import ClrsNet, decoded_variables, encoded_variables
from mechgap.networks.config import NetConfig
from mechgap.networks.gatv2 import AttentionVectors, GATv2
from mechgap.networks.layers import LayerNorm, Linear
from mechgap.trace import Spec

CODERS = "net/~_construct_encoders_decoders/algo_0_"
PROCESSOR = "net/gatv2_aggr_clrs_processor/"
NORM = f"{PROCESSOR}layer_norm"
INFO = f"{PROCESSOR}info"  # our name: the reference has no such layer
LAYERS = ("value", "skip", "sender", "receiver", "edge", "graph")  # linear, linear_1, ... linear_5; then the heads

Tree = dict[str, dict[str, Any]]


def to_reference(net: ClrsNet, *, with_info: bool = False) -> Tree:
    """A network's parameters under the reference's names, as NumPy arrays.

    Args:
        net: the network.
        with_info: allow edge information (Eq. 11-13), under the name `INFO`: a bias-free linear layer that has to be
            added to the reference.

    Raises:
        ValueError: where the network has parts that the reference has not.
    """
    _check_expressible(net.config, with_info)
    return jax.tree.map(np.asarray, _tree(net))


def from_reference(
    tree: Mapping[str, Mapping[str, Any]], spec: Spec, config: NetConfig, *, with_info: bool = False
) -> ClrsNet:
    """The network whose parameters a reference tree holds; every name and shape is checked.

    Args:
        tree: {module: {"w", "b"} or {"scale", "offset"}}, in the reference's names.
        spec: the algorithm's variables, as the tree was made for.
        config: the architecture; only what the reference has.
        with_info: allow edge information, under the name `INFO`.
    """
    _check_expressible(config, with_info)
    skeleton = jax.eval_shape(lambda key: ClrsNet.init(spec, config, key=key), jax.random.key(0))
    _check_tree(tree, jax.eval_shape(_tree, skeleton))

    def linear(name: str) -> Linear:
        return Linear(jnp.asarray(tree[name]["w"]), jnp.asarray(tree[name]["b"]))

    def coders(end: str, variables: tuple) -> dict[str, tuple[Linear, ...]]:
        layers = skeleton.encoders if end == "enc" else skeleton.decoders
        return {v.name: tuple(linear(_coder(v.name, end, i)) for i in range(len(layers[v.name]))) for v in variables}

    processor = GATv2(
        **{name: linear(_linear(i)) for i, name in enumerate(LAYERS)},
        attention=_vectors([tree[_head(i)] for i in range(config.heads)]),
        info=Linear(jnp.asarray(tree[INFO]["w"]), None) if config.edge_info else None,
        bias=None,
        norm=LayerNorm(*(jnp.asarray(tree[NORM][k]) for k in ("scale", "offset"))) if config.use_layer_norm else None,
        full_adjacency=config.full_adjacency,
    )
    encoded, decoded = encoded_variables(spec, config), decoded_variables(spec, config)
    return ClrsNet(coders("enc", encoded), processor, coders("dec", decoded), spec, config)


def _tree(net: ClrsNet) -> Tree:
    coders = (("enc", net.encoders), ("dec", net.decoders))
    tree: Tree = {
        _coder(name, end, i): {"w": layer.weight, "b": layer.bias}
        for end, by_name in coders
        for name, layers in by_name.items()
        for i, layer in enumerate(layers)
    }
    for i, name in enumerate(LAYERS):
        layer = getattr(net.processor, name)
        tree[_linear(i)] = {"w": layer.weight, "b": layer.bias}
    vectors, norm = net.processor.attention, net.processor.norm
    tree |= {_head(i): {"w": vectors.weight[i, :, None], "b": vectors.bias[i, None]} for i in range(net.config.heads)}
    tree |= {} if net.processor.info is None else {INFO: {"w": net.processor.info.weight}}
    return tree if norm is None else tree | {NORM: {"scale": norm.scale, "offset": norm.offset}}


def _vectors(heads: list[Mapping[str, Any]]) -> AttentionVectors:
    weights = [jnp.asarray(head["w"])[:, 0] for head in heads]
    return AttentionVectors(jnp.stack(weights), jnp.stack([jnp.asarray(head["b"])[0] for head in heads]))


def _coder(name: str, end: str, index: int) -> str:
    return f"{CODERS}{name}_{end}_linear" + (f"_{index}" if index else "")


def _linear(index: int) -> str:
    return f"{PROCESSOR}linear" + (f"_{index}" if index else "")


def _head(index: int) -> str:
    return _linear(len(LAYERS) + index)


def _check_expressible(config: NetConfig, with_info: bool) -> None:
    extra = {
        "edge_info": config.edge_info and not with_info,
        "pre_attention_bias": config.pre_attention_bias is not None,
        "simplify_decoders": config.simplify_decoders,
    }
    used = [name for name, on in extra.items() if on]
    if used:
        raise ValueError(
            f"The reference network has no {' and no '.join(used)}, so its names cannot hold this one. "
            f"Leave {'it' if len(used) == 1 else 'them'} off in the NetConfig."
        )


def _check_tree(tree: Mapping[str, Mapping[str, Any]], expected: Tree) -> None:
    """Name all missing, unexpected and misshapen parameters at once."""
    wanted = {f"{module} {name}": x.shape for module, xs in expected.items() for name, x in xs.items()}
    given = {f"{module} {name}": np.shape(x) for module, xs in tree.items() for name, x in xs.items()}
    problems = [f"missing: {name}, of shape {shape}" for name, shape in wanted.items() if name not in given]
    problems += [f"unexpected: {name}" for name in given if name not in wanted]
    problems += [
        f"{name} must have shape {shape}; got {given[name]}"
        for name, shape in wanted.items()
        if given.get(name, shape) != shape
    ]
    if problems:
        raise ValueError("These parameters do not fit the spec and the config:\n  " + "\n  ".join(problems))
