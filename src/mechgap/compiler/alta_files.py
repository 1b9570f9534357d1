"""Compiled Transformers as files: plain safetensors, with a header that says what every number of the stream means."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from mechgap.compiler.to_transformer import CompiledAlta, densely
from mechgap.networks.layers import Linear
from mechgap.networks.transformer import Block, Heads, Transformer, TransformerConfig
from mechgap.storage import read_tensors, write_tensors

FORMAT = "mechgap.transformer/1"
HEADS = ("query", "key", "value", "out", "relative", "null")


def save_transformer(path: str | Path, compiled: CompiledAlta) -> None:
    """Write a compiled network: tokens, positions, heads.*, mlp.N.weight and .bias, output.weight."""
    network, program = compiled.network, compiled.program
    tensors: dict[str, Any] = {"tokens": network.tokens, "output.weight": network.output.weight}
    if network.positions is not None:
        tensors["positions"] = network.positions
    if network.block.heads is not None:
        tensors |= {f"heads.{name}": getattr(network.block.heads, name) for name in HEADS}
    for i, layer in enumerate(map(densely, network.block.mlp)):
        tensors |= {f"mlp.{i}.weight": layer.weight} | ({} if layer.bias is None else {f"mlp.{i}.bias": layer.bias})
    places = {name: [s.start, s.stop] for name, s in compiled.layout.places.items()}
    header = {
        "format": FORMAT,
        "program": program.name,
        "config": asdict(network.config),
        "layers": program.layers,
        "halt": program.halt,
        "output": program.output,
        "stream": {"one": compiled.layout.one, "places": places, "defined": compiled.layout.defined},
        "heads": [h.name for h in program.heads],
        "activation": "min(1, max(0, x)) after every layer of the MLP but the last",
    }
    write_tensors(path, {name: np.asarray(x) for name, x in tensors.items()}, header)


def load_transformer(path: str | Path) -> tuple[Transformer, dict[str, Any]]:
    """Read what `save_transformer` wrote: the network, and the header."""
    tensors, header = read_tensors(path, FORMAT)
    missing = [name for name in ("tokens", "output.weight") if name not in tensors]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}; it is not a whole network.")
    arrays = {name: jnp.asarray(x) for name, x in tensors.items()}
    count = sum(name.startswith("mlp.") and name.endswith(".weight") for name in arrays)
    mlp = tuple(Linear(arrays[f"mlp.{i}.weight"], arrays.get(f"mlp.{i}.bias")) for i in range(count))
    heads = Heads(*(arrays[f"heads.{name}"] for name in HEADS)) if "heads.query" in arrays else None
    network = Transformer(
        tokens=arrays["tokens"],
        positions=arrays.get("positions"),
        block=Block(heads, mlp),
        output=Linear(arrays["output.weight"], None),
        config=TransformerConfig(**header["config"]),
    )
    return network, header
