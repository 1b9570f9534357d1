"""Parameters by the reference's own names, both ways: dictionaries of NumPy arrays, {module: {"w", "b"}}."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mechgap.networks.clrs_net import ClrsNet, decoded_variables, encoded_variables
from mechgap.networks.config import NetConfig
from mechgap.networks.decoders import layout
from mechgap.networks.encoders import check_supported
from mechgap.networks.gatv2 import AttentionVectors, GATv2
from mechgap.networks.layers import LayerNorm, Linear
from mechgap.trace import Kind, Location, Spec, Variable

CODERS = "net/~_construct_encoders_decoders/algo_0_"
PROCESSOR = "net/gatv2_aggr_clrs_processor/"
NORM = f"{PROCESSOR}layer_norm"
LAYERS = ("value", "skip", "sender", "receiver", "edge", "graph")  # linear, linear_1, ... linear_5

Tree = dict[str, dict[str, np.ndarray]]


def to_reference(net: ClrsNet) -> Tree:
    """A network's parameters under the reference's names.

    Raises:
        ValueError: where the network has parts that the reference has not.
    """
    config, processor = net.config, net.processor
    _check_expressible(config)
    tree: Tree = {}
    for variable in encoded_variables(net.spec, config):
        tree |= {_encoder(variable, i): _numpy(layer) for i, layer in enumerate(net.encoders[variable.name])}
    for variable in decoded_variables(net.spec, config):
        tree |= {_decoder(variable, i): _numpy(layer) for i, layer in enumerate(net.decoders[variable.name])}
    tree |= {_linear(i): _numpy(getattr(processor, name)) for i, name in enumerate(LAYERS)}
    vectors = processor.attention
    for head in range(config.heads):
        tree[_head(head)] = {"w": np.asarray(vectors.weight[head])[:, None], "b": np.asarray(vectors.bias[head])[None]}
    if processor.norm is not None:
        tree[NORM] = {"scale": np.asarray(processor.norm.scale), "offset": np.asarray(processor.norm.offset)}
    return tree


def from_reference(tree: Mapping[str, Mapping[str, Any]], spec: Spec, config: NetConfig) -> ClrsNet:
    """The network whose parameters a reference tree holds; every name and shape is checked.

    Args:
        tree: {module: {"w", "b"} or {"scale", "offset"}}, in the reference's names.
        spec: the algorithm's variables, as the tree was made for.
        config: the architecture; only what the reference has.
    """
    _check_expressible(config)
    _check_tree(tree, spec, config)

    def linear(name: str) -> Linear:
        return Linear(jnp.asarray(tree[name]["w"]), jnp.asarray(tree[name]["b"]))

    heads = [tree[_head(head)] for head in range(config.heads)]
    processor = GATv2(
        **{name: linear(_linear(i)) for i, name in enumerate(LAYERS)},
        attention=AttentionVectors(
            jnp.stack([jnp.asarray(head["w"])[:, 0] for head in heads]),
            jnp.stack([jnp.asarray(head["b"])[0] for head in heads]),
        ),
        info=None,
        bias=None,
        norm=LayerNorm(*(jnp.asarray(tree[NORM][k]) for k in ("scale", "offset"))) if config.use_layer_norm else None,
        full_adjacency=config.full_adjacency,
    )
    encoded, decoded = encoded_variables(spec, config), decoded_variables(spec, config)
    return ClrsNet(
        {v.name: tuple(linear(_encoder(v, i)) for i in range(_encoder_count(v))) for v in encoded},
        processor,
        {v.name: tuple(linear(_decoder(v, i)) for i in range(len(layout(v, config)))) for v in decoded},
        spec,
        config,
    )


def _check_expressible(config: NetConfig) -> None:
    extra = {
        "edge_info": config.edge_info,
        "pre_attention_bias": config.pre_attention_bias is not None,
        "simplify_decoders": config.simplify_decoders,
    }
    used = [name for name, on in extra.items() if on]
    if used:
        raise ValueError(f"The reference network has no {', no '.join(used)}; only a network without them has its names.")


def _check_tree(tree: Mapping[str, Mapping[str, Any]], spec: Spec, config: NetConfig) -> None:
    """Name all missing, unexpected and misshapen parameters at once."""
    expected = jax.eval_shape(lambda key: ClrsNet.init(spec, config, key=key), jax.random.key(0))
    shapes = {f"{m} {k}": shape for m, ks in _shapes(expected).items() for k, shape in ks.items()}
    given = {f"{m} {k}": np.shape(x) for m, ks in tree.items() for k, x in ks.items()}
    problems = [f"missing {name}, shape {shape}" for name, shape in shapes.items() if name not in given]
    problems += [f"unexpected {name}" for name in given if name not in shapes]
    problems += [
        f"{name} has shape {given[name]}, expected {shape}"
        for name, shape in shapes.items()
        if name in given and given[name] != shape
    ]
    if problems:
        raise ValueError("These parameters do not fit the spec and the config:\n  " + "\n  ".join(problems))
