"""What was checked of a compiled ALTA program: the interpreter and the network, on the same random inputs."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

SAMPLES = {"quick": 64, "full": 1024}
LENGTHS = (1, 2, 3, 5, 8, 13, 21)  # at most the longest that the network is built for
LAYERS = 64  # random inputs need not make a program end


@dataclass(frozen=True)
class AltaCertificate:
    """The outcome of a comparison.

    Attributes:
        sequences, positions: how many were compared.
        wrong: positions at which the output differs, though neither found an undefined value in the sequence.
        disagreements: sequences in which only one of the two found an undefined value, or that ended differently.
        longest: the longest sequence that the weights are built for.
        width, units, heads: of the network: the residual stream, the MLP's rule layer, attention.
    """

    program: str
    sequences: int
    positions: int
    wrong: int
    disagreements: int
    longest: int
    width: int
    units: int
    heads: int

    @property
    def ok(self) -> bool:
        """Whether nothing differed."""
        return self.wrong == 0 and self.disagreements == 0

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        return "\n".join(
            [
                f"certificate of {self.program}: {'ok' if self.ok else 'NOT OK'}",
                f"  compared      {self.sequences} random sequences, {self.positions} positions",
                f"  wrong         {self.wrong} positions, {self.disagreements} sequences with another end or flag",
                f"  holds for     sequences of up to {self.longest}",
                f"  network       width {self.width}, {self.units} MLP units, {self.heads} heads",
            ]
        )


def certify(compiled: Any, effort: str, seed: int = 0) -> AltaCertificate:
    """Compare the interpreter and the network on random sequences of several lengths."""
    program, rng = compiled.program, np.random.default_rng(seed)
    lengths = [n for n in LENGTHS if n <= compiled.longest]
    most = min(program.layers, LAYERS)
    sequences = positions = wrong = disagreements = 0
    for n in lengths:
        inputs = rng.integers(0, program.input_size, (max(1, SAMPLES[effort] // len(lengths)), n)).tolist()
        meant, ran = program.interpret(inputs, layers=most), compiled.run(inputs, layers=most)
        flagged = np.any([used.any(1) for used in meant.used_undefined], axis=0) if meant.used_undefined else False
        flagged = np.broadcast_to(flagged, len(inputs))
        sound = ~flagged & ~ran.used_undefined.any(1)
        differs = np.array(meant.outputs) != np.array(ran.outputs)
        ends = (meant.layers != ran.layers) | (meant.halted != ran.halted)
        sequences, positions = sequences + len(inputs), positions + len(inputs) * n
        wrong += int(differs[sound].sum())
        disagreements += int(np.sum((flagged != ran.used_undefined.any(1)) | (sound & ends)))
    return AltaCertificate(
        program=program.name,
        sequences=sequences,
        positions=positions,
        wrong=wrong,
        disagreements=disagreements,
        longest=compiled.longest,
        width=compiled.layout.width,
        units=compiled.hidden_units,
        heads=len(program.heads),
    )
