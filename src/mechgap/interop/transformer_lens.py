"""Compiled ALTA programs in TransformerLens 4: a `TransformerBridge` around its own native Transformer, no download.

    exported = to_transformer_lens(mechgap.compile("addition"), length=9, depth=5)
    logits, cache = exported.model.run_with_cache(exported.encode("789+456"))
    exported.decode(logits)                                        # ['1245']
    exported.variables(cache["blocks.2.hook_out"])["carry"]        # by the labels of the residual stream

How the program is written into that architecture is in `compiler.to_plain_transformer`. This is the only file that
imports torch and TransformerLens, and only when a network is built.
"""

import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mechgap import __version__
from mechgap.compiler.to_plain_transformer import (
    NO_OUTPUT,
    NULL,
    PAD,
    SCALE,
    PlainTransformer,
    check_plain,
    to_plain_transformer,
)
from mechgap.compiler.to_transformer import CompiledAlta, compile_alta_program
from mechgap.programs import program as look_up
from mechgap.programs.alta import AltaProgram
from mechgap.programs.alta_interpreter import UNDEFINED
from mechgap.storage import check_folder, read_tensors, write_tensors, write_text

FORMAT = "mechgap.transformer_lens/1"
WEIGHTS, ABOUT = "model.safetensors", "config.json"


@dataclass(frozen=True)
class Exported:
    """A compiled program in TransformerLens.

    Attributes:
        model: a `TransformerBridge`. Position 0 is NULL; position i of the sequence is 1 + i.
        about: what is saved beside the weights, plain values: "bridge", the argument of
            `TransformerBridge.boot_native`; "labels", "variables", "tokens", "positions", "notes".
        program: reads and writes text; None where it was loaded without.
    """

    model: Any
    about: Mapping[str, Any]
    program: AltaProgram | None = field(default=None, compare=False)

    @property
    def labels(self) -> list[str]:
        """What every channel of the residual stream means: "variable=value", or the channel's part in brackets."""
        return self.about["labels"]

    @property
    def tokens(self) -> list[str]:
        """The names of the tokens: the input ids, NULL and PAD."""
        return self.about["tokens"]

    @property
    def positions(self) -> list[str]:
        """The names of the positions: NULL, then those of the sequence."""
        return self.about["positions"]

    def encode(self, given: Any) -> Any:
        """The tokens [batch, 1 + longest] of a text, a sequence of input ids, or a list of these."""
        one = isinstance(given, str) or len(given) == 0 or not isinstance(given[0], str | Sequence | np.ndarray)
        rows = [self._ids(x) for x in ([given] if one else given)]
        longest = max(map(len, rows))
        null, pad = (self.tokens.index(name) for name in (NULL, PAD))
        torch, _ = _lens()
        return torch.tensor([[null, *row, *[pad] * (longest - len(row))] for row in rows])

    def outputs(self, logits: Any) -> list[list[int]]:
        """The output variable at every position of every sequence, without NULL and PAD."""
        best = logits.max(-1)
        inside = best.values > NO_OUTPUT / 4
        return [row[where].tolist() for row, where in zip(best.indices, inside, strict=True)]

    def decode(self, logits: Any) -> list[str]:
        """The text of every sequence."""
        return [self._text().decode(outputs) for outputs in self.outputs(logits)]

    def variables(self, stream: Any) -> dict[str, Any]:
        """The value of every variable and head's output [batch, 1 + longest] in a residual stream; -1 is undefined."""
        sure = 1 - 0.5 / (len(self.positions) - 1)  # a head that averages different values selects none of them
        found = {}
        for name, (start, stop) in self.about["variables"].items():
            best = stream[..., start:stop].max(-1)
            found[name] = best.indices.masked_fill(best.values < sure, UNDEFINED)
        return found

    def save(self, folder: str | Path) -> None:
        """Write the weights (safetensors) and what they mean (JSON) into a folder, for `load`."""
        folder = Path(folder)
        _check_writable(folder)
        folder.mkdir(exist_ok=True)
        weights = {name: x.detach().cpu().numpy() for name, x in self.model.state_dict().items()}
        write_tensors(folder / WEIGHTS, weights, {"format": FORMAT})
        write_text(folder / ABOUT, json.dumps(dict(self.about), indent=1) + "\n")

    def _ids(self, given: Any) -> list[int]:
        ids = self._text().encode(given) if isinstance(given, str) else [operator.index(x) for x in given]
        length, count, name = len(self.positions) - 1, len(self.tokens) - 2, self.about["program"]
        if not 1 <= len(ids) <= length:
            raise ValueError(
                f"This export of {name!r} reads sequences of 1 to {length} input ids; got {len(ids)}. "
                f"Export it with another length."
            )
        bad = [x for x in ids if not 0 <= x < count]
        if bad:
            raise ValueError(f"Input ids of {name!r} are 0..{count - 1}; got {bad[0]}.")
        return ids

    def _text(self) -> AltaProgram:
        if self.program is None:
            name = self.about["program"]
            raise ValueError(
                f"This export of {name!r} was loaded without its program, so it knows input ids and no text. "
                f"Load it with load(folder, program=mechgap.program({name!r}))."
            )
        return self.program


def to_transformer_lens(compiled: Any, *, length: int, depth: int) -> Exported:
    """A compiled categorical program as a `TransformerBridge`.

    Args:
        compiled: a `CompiledAlta`, what `mechgap.compile` makes of an ALTA program.
        length: the longest sequence.
        depth: how many layers; a sequence that takes more has not ended, one that takes fewer stays as it is.
    """
    if not isinstance(compiled, CompiledAlta):
        raise TypeError(
            f"to_transformer_lens expects a compiled ALTA program, e.g. mechgap.compile('addition'); "
            f"got {type(compiled).__name__}."
        )
    if compiled.certificate is not None and not compiled.certificate.ok:
        raise ValueError(
            f"The compiled {compiled.program.name!r} does not do what it is meant to, so it is not exported.\n"
            f"{compiled.certificate}"
        )
    plain = to_plain_transformer(compiled, length, depth)
    about = _about(compiled, plain, depth)
    return Exported(_bridge(about, plain.weights), about, compiled.program)


def load(folder: str | Path, program: AltaProgram | None = None) -> Exported:
    """What `Exported.save` wrote.

    Args:
        folder: where it was written.
        program: the one that was exported, for text; input ids need none.
    """
    path = Path(folder) / ABOUT
    if not path.is_file():
        raise FileNotFoundError(f"No {ABOUT} in {folder}; write one with mechgap export --to transformer-lens.")
    try:
        about = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not readable JSON ({error}); it may be truncated.") from error
    given = about.get("format") if isinstance(about, dict) else None
    if given != FORMAT:
        raise ValueError(f"{path} is not a {FORMAT} file; it says {given!r}.")
    if program is not None and program.name != about["program"]:
        raise ValueError(f"{folder} holds the program {about['program']!r}; got {program.name!r}.")
    weights, _ = read_tensors(Path(folder) / WEIGHTS, FORMAT)
    try:
        return Exported(_bridge(about, weights), about, program)
    except RuntimeError as error:
        raise ValueError(f"The weights in {folder} are not those that {ABOUT} describes: {error}") from error


def export_alta_program(name: str, folder: str | Path, length: int | None, depth: int | None) -> None:
    """Compile a program, write it for TransformerLens, and print what was written; the command calls this."""
    program = look_up(name)
    if not isinstance(program, AltaProgram):
        raise ValueError(
            f"{name!r} is a graph program, and only ALTA programs become Transformers; "
            f"export it to clrs or safetensors."
        )
    if length is None or depth is None:
        raise ValueError(
            "TransformerLens needs a fixed size: give --length, the longest sequence, and --depth, the number of "
            "layers, e.g. --length 16 --depth 16."
        )
    check_plain(program, length, depth, length)
    _check_writable(Path(folder))
    _lens()  # all that can be wrong is, before the compilation, which takes a while
    exported = to_transformer_lens(compile_alta_program(program, longest=length), length=length, depth=depth)
    exported.save(folder)
    size = exported.about["bridge"]
    print(f"wrote {folder}: {name} for TransformerLens, sequences of up to {length}, {depth} layers")
    print(f"  width {size['d_model']}, {size['n_heads']} heads of {size['d_head']}, {size['d_mlp']} MLP units")
    for note in exported.about["notes"]:
        print(f"  note      {note}")


def _about(compiled: CompiledAlta, plain: PlainTransformer, depth: int) -> dict[str, Any]:
    program, weights = compiled.program, plain.weights
    return {
        "format": FORMAT,
        "mechgap": __version__,
        "program": program.name,
        "output": program.output,
        "halt": program.halt,
        "bridge": {
            "model_name": program.name,
            "d_model": len(plain.labels),
            "d_head": len(weights["blocks.0.attn.q.weight"]) // plain.heads,
            "n_heads": plain.heads,
            "n_layers": depth,
            "n_ctx": len(plain.positions),
            "d_mlp": len(weights["blocks.0.mlp.in.weight"]),
            "d_vocab": len(plain.tokens),
            "d_vocab_out": len(weights["unembed.weight"]),
            "act_fn": "relu",
            "normalization_type": None,
            "attention_dir": "causal" if program.causal else "bidirectional",
            "attn_scale": SCALE,  # it refuses 1, as a likely mistake
            "init_weights": False,
        },
        "labels": plain.labels,
        "variables": {name: [place.start, place.stop] for name, place in compiled.layout.places.items()},
        "tokens": plain.tokens,
        "positions": plain.positions,
        "notes": _notes(program, depth),
    }


def _notes(program: AltaProgram, depth: int) -> list[str]:
    notes = [
        "a rule that reads an undefined value goes unnoticed here; `run` of the compiled network finds it",
        "there is no layer norm, so weights must not be centred: model.enable_compatibility_mode(no_processing=True)",
    ]
    if program.halt is not None:
        name, value = program.halt
        notes.append(f"a sequence that takes more than {depth} layers has not ended: {name} is not {value} everywhere")
    return notes


def _bridge(about: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Any:
    torch, bridge_class = _lens()
    bridge = bridge_class.boot_native(dict(about["bridge"]), model_name=about["program"])
    bridge.load_state_dict({name: torch.tensor(x) for name, x in weights.items()})
    return bridge


def _lens() -> tuple[Any, Any]:
    try:
        import torch
        from transformer_lens.model_bridge import TransformerBridge
    except ImportError as error:
        raise ImportError(
            f"This needs TransformerLens 4, which could not be imported ({error}). "
            "Install it: pip install 'mechgap[tl]'."
        ) from error
    return torch, TransformerBridge


def _check_writable(folder: Path) -> None:
    check_folder(folder)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"Cannot write into {folder}: it is a file. Name a folder.")
