"""Parameters by the reference's own names, both ways: dictionaries of arrays, {module: {"w", "b"}}."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mechgap.networks.clrs_net import ClrsNet, decoded_variables, encoded_variables
from mechgap.networks.config import NetConfig
from mechgap.networks.gatv2 import AttentionVectors
from mechgap.networks.layers import LayerNorm, Linear
from mechgap.trace import Spec

CODERS = "net/~_construct_encoders_decoders/algo_0_"
INFO = "net/gatv2_aggr_clrs_processor/info"  # our name: the reference has no such layer
MODULES = {"gatv2": "net/gatv2_aggr_clrs_processor/", "gat": "net/gat_aggr_clrs_processor/"}
MESSAGES = "net/mpnn_aggr_clrs_processor/"  # of all others
# What the reference calls linear, linear_1, ...; gatv2's heads come behind.
LAYERS = {
    "gatv2": ("value", "skip", "sender", "receiver", "edge", "graph"),
    "gat": ("value", "skip", "receiver", "sender", "edge", "graph"),
}
MESSAGE_LAYERS = ("receiver", "sender", "edge", "graph", "skip", "heard")
TRIPLET_LAYERS = (
    *(f"triplets.{name}" for name in ("first", "second", "third", "first_second", "first_third", "second_third")),
    *("triplets.graph", "triplets.out", "gate.own", "gate.heard", "gate.out"),
)
MLP = {"message.0": "mlp/~/linear_0", "message.1": "mlp/~/linear_1"}

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

    processor: Any = skeleton.processor
    for path, name in _layers(config).items():
        processor = eqx.tree_at(_part(path), processor, linear(name))
    if config.use_layer_norm:
        norm = tree[_module(config) + "layer_norm"]
        processor = replace(processor, norm=LayerNorm(*(jnp.asarray(norm[k]) for k in ("scale", "offset"))))
    if config.processor == "gatv2":
        processor = replace(processor, attention=_vectors([tree[name] for name in _heads(config)]))
    if config.edge_info:
        processor = replace(processor, info=Linear(jnp.asarray(tree[INFO]["w"]), None))
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
    processor: Any = net.processor
    for path, name in _layers(net.config).items():
        layer = _part(path)(processor)
        tree[name] = {"w": layer.weight, "b": layer.bias}
    if net.config.processor == "gatv2":
        vectors = processor.attention
        heads = enumerate(_heads(net.config))
        tree |= {name: {"w": vectors.weight[i, :, None], "b": vectors.bias[i, None]} for i, name in heads}
    if net.config.edge_info:
        tree[INFO] = {"w": processor.info.weight}
    if processor.norm is not None:
        tree[_module(net.config) + "layer_norm"] = {"scale": processor.norm.scale, "offset": processor.norm.offset}
    return tree


def _layers(config: NetConfig) -> dict[str, str]:
    """The processor's affine layers: dotted path -> the reference's name."""
    numbered = LAYERS.get(config.processor, MESSAGE_LAYERS + (TRIPLET_LAYERS if config.has_triplets else ()))
    named = {} if config.has_attention else {path: _module(config) + name for path, name in MLP.items()}
    return {path: _linear(config, i) for i, path in enumerate(numbered)} | named


def _part(path: str) -> Callable[[Any], Any]:
    """The part of a processor that a dotted path leads to."""
    names = path.split(".")
    return lambda processor: reduce(lambda x, k: x[int(k)] if k.isdigit() else getattr(x, k), names, processor)


def _vectors(heads: list[Mapping[str, Any]]) -> AttentionVectors:
    weights = [jnp.asarray(head["w"])[:, 0] for head in heads]
    return AttentionVectors(jnp.stack(weights), jnp.stack([jnp.asarray(head["b"])[0] for head in heads]))


def _coder(name: str, end: str, index: int) -> str:
    return f"{CODERS}{name}_{end}_linear" + (f"_{index}" if index else "")


def _module(config: NetConfig) -> str:
    return MODULES.get(config.processor, MESSAGES)


def _linear(config: NetConfig, index: int) -> str:
    return f"{_module(config)}linear" + (f"_{index}" if index else "")


def _heads(config: NetConfig) -> list[str]:
    """The layers of gatv2's heads, one each, behind the others."""
    return [_linear(config, len(LAYERS["gatv2"]) + i) for i in range(config.heads)]


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
