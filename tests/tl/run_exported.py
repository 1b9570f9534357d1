"""Export programs to TransformerLens and compare them there with mechgap's own networks. Used by test_transformer_lens.

run_exported.py FOLDER    leaves the exports there, and answer.json
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import torch
from cases import CASES
from safetensors.torch import load_file
from transformer_lens.model_bridge import TransformerBridge

import mechgap as mg
from mechgap.compiler.to_transformer import CompiledAlta
from mechgap.interop.transformer_lens import Exported, load, to_transformer_lens
from mechgap.networks.transformer import run_batch
from mechgap.programs.alta import AltaProgram
from mechgap.programs.alta_interpreter import AltaTrace, batched


def main(folder: str) -> None:
    torch.set_grad_enabled(False)
    answer = {name: examine(name, Path(folder) / name) for name in CASES}
    (Path(folder) / "answer.json").write_text(json.dumps(answer, indent=1) + "\n")


def examine(name: str, folder: Path) -> dict:
    parameters, texts, length, depth = CASES[name]
    program = mg.program(name, **parameters)
    compiled = mg.compile(program, certify="none")
    exported = to_transformer_lens(compiled, length=length, depth=depth)
    meaningful = [program.encode(text) for text in texts]
    inputs = meaningful + sound_sequences(program, length, depth)
    tokens = exported.encode(inputs)
    logits, cache = exported.model.run_with_cache(tokens)
    ours, inside = own_logits(compiled, inputs, depth)
    theirs, meant = logits.numpy()[:, 1:], program.interpret(inputs, layers=depth)
    exported.save(folder)
    loaded = load(folder, program=program)
    return {
        "difference": float(np.abs(ours - theirs)[inside].max()),
        "wrong": int(np.sum((ours.argmax(-1) != theirs.argmax(-1))[inside])),
        "sequences": len(inputs),
        "positions": int(inside.sum()),
        "layers": [int(program.interpret(meaningful).layers.max()), depth],
        "solved": exported.decode(logits[: len(texts)]) == [program.solve(text) for text in texts],
        "difference without padding": max(distance(logits[i : i + 1], exported, text) for i, text in enumerate(texts)),
        "difference when loaded": distance(logits, loaded, inputs),
        "difference without mechgap": float((without_mechgap(folder)(tokens) - logits).abs().max()),
        "described alike": loaded.about == json.loads(json.dumps(dict(exported.about))),
        "variables": misread(exported, cache, meant, inside),
        "NULL and PAD changed": bool(changed_outside(exported, cache, tokens)),
        "answers without attention": exported.outputs(without_attention(exported.model, tokens)),
        "answers": exported.outputs(logits),
    }


def sound_sequences(program: AltaProgram, length: int, depth: int) -> list[list[int]]:
    """Random sequences on which no rule reads an undefined value."""
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, program.input_size, rng.integers(1, length + 1)).tolist() for _ in range(100)]
    undefined = np.any([used.any(1) for used in program.interpret(rows, layers=depth).used_undefined], axis=0)
    return [row for row, bad in zip(rows, undefined, strict=True) if not bad]


def own_logits(compiled: CompiledAlta, inputs: list[list[int]], depth: int) -> tuple[np.ndarray, np.ndarray]:
    """What mechgap's network gives after so many layers, and where there is a sequence."""
    ids, lengths = batched(compiled.program, inputs)
    run = run_batch(compiled.network, jnp.asarray(ids), jnp.asarray(lengths), layers=depth)
    return np.asarray(jax.vmap(compiled.network.read)(run.stream)), np.arange(ids.shape[1]) < lengths[:, None]


def distance(logits: torch.Tensor, exported: Exported, given: list | str) -> float:
    again = exported.model(exported.encode(given))
    return float((again - logits[:, : again.shape[1]]).abs().max())


def without_mechgap(folder: Path) -> TransformerBridge:
    """As docs/alta.md says it."""
    bridge = TransformerBridge.boot_native(json.loads((folder / "config.json").read_text())["bridge"])
    bridge.load_state_dict(load_file(folder / "model.safetensors"))
    return bridge


def misread(exported: Exported, cache: dict, meant: AltaTrace, inside: np.ndarray) -> list[int]:
    """[wrong, all] variables in the stream, read by its labels, before and after attention and MLP of each layer."""
    layers = range(exported.about["bridge"]["n_layers"])
    pairs = [("blocks.0.hook_resid_pre", meant.streams[0])]
    pairs += [(f"blocks.{i}.hook_resid_mid", seen) for i, seen in enumerate(meant.attended)]
    pairs += [(f"blocks.{i}.hook_resid_post", meant.streams[min(i + 1, len(meant.streams) - 1)]) for i in layers]
    wrong = [
        found != stream[name][inside]
        for hook, stream in pairs
        for name, found in read(exported, cache[hook][:, 1:][inside]).items()
        if name in stream
    ]
    return [int(np.sum(wrong)), int(np.size(wrong))]


def read(exported: Exported, stream: torch.Tensor) -> dict[str, np.ndarray]:
    """What the labels say, which is what `variables` says."""
    names = list(dict.fromkeys(label.split("=")[0] for label in exported.labels if "=" in label))
    found = {name: np.full(len(stream), -1) for name in names}
    for label, channel in zip(exported.labels, stream.numpy().T, strict=True):
        name, _, value = label.partition("=")
        if value:
            found[name][channel > 0.99] = int(value)
    variables = exported.variables(stream)
    assert list(variables) == names
    assert all(np.array_equal(variables[name], found[name]) for name in names)
    return found


def changed_outside(exported: Exported, cache: dict, tokens: torch.Tensor) -> torch.Tensor:
    outside = tokens >= len(exported.tokens) - 2
    last = exported.about["bridge"]["n_layers"] - 1
    return (cache[f"blocks.{last}.hook_resid_post"] != cache["blocks.0.hook_resid_pre"])[outside].any()


def without_attention(model: TransformerBridge, tokens: torch.Tensor) -> torch.Tensor:
    """Hooks do something: the answers of a network whose heads add nothing."""
    return model.run_with_hooks(tokens, fwd_hooks=[(lambda name: name.endswith("hook_z"), lambda z, hook: z * 0)])


if __name__ == "__main__":
    main(*sys.argv[1:])
