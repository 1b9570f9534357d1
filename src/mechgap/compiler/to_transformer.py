"""ALTA programs -> Transformer weights: the driver, one line per pass.

Why it is exact. A head's logits are MATCH where the key matches and 0 elsewhere, and its null slot stands halfway, so
that in float32 what does not match gets a weight of exactly 0, and a head that matches nothing attends to nothing. A
unit that tests k things is clip(S (Σ - k) + 3): exactly 1 where all hold up to half the smallest shortfall δ, exactly 0
where one does not, with S = 4/δ. A shortfall is 1, but for the output of a head that averages up to L positions, where
it is 1/L: different values are not taken for one. Numbers are compared with the middle between two buckets, with a
slope that is derived from their distance; what float32 cannot tell apart is refused.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from mechgap.compiler.alta_certificate import SAMPLES, AltaCertificate
from mechgap.compiler.alta_certificate import certify as compare
from mechgap.compiler.alta_reads import UndefinedReads
from mechgap.compiler.alta_units import Unit, units_of
from mechgap.compiler.alta_views import view_of
from mechgap.compiler.alta_weights import WeightWriter
from mechgap.networks.layers import AnyLinear, Linear, SparseLinear
from mechgap.networks.transformer import Block, Execution, Halt, Transformer, TransformerConfig, room_for, run_batch
from mechgap.programs.alta import AltaProgram
from mechgap.programs.alta_interpreter import UndefinedError, batched
from mechgap.programs.alta_stream import StreamLayout

LARGE, SPARSE = 2**22, 100  # from so many weights, if one in so many is not zero, gathers beat matrix products


@dataclass(frozen=True)
class CompiledAlta:
    """A program as a Transformer.

    Attributes:
        program: what it computes.
        network: the weights.
        layout: what every number of the stream means.
        units: what every hidden unit of the MLP's rule layer does, before those that reset the outputs of heads.
        longest: the longest sequence.
        certificate: what was checked, or None where certification was left out.
    """

    program: AltaProgram
    network: Transformer
    layout: StreamLayout
    units: tuple[Unit, ...]
    longest: int
    certificate: AltaCertificate | None = field(default=None, compare=False)

    def run(self, inputs: Any, *, layers: int | None = None, check: bool = True) -> "AltaRun":
        """Execute the network on one sequence of input ids, or a list of them.

        Args:
            inputs: as for `AltaProgram.interpret`.
            layers: at most so many, instead of the program's.
            check: also find out where a rule used an undefined value.
        """
        ids, lengths = batched(self.program, inputs)
        if ids.shape[1] > self.longest:
            raise ValueError(
                f"This network is compiled for sequences of up to {self.longest}; got {ids.shape[1]}. "
                f"Compile with longest={ids.shape[1]}."
            )
        most = self.program.layers if layers is None else layers
        reads = self._reads if check else None
        padded = self._padded(ids), np.resize(lengths, room_for(len(ids)))
        done = _run(self.network, self._halt, reads, jnp.asarray(padded[0]), jnp.asarray(padded[1]), most)
        classes = jnp.argmax(jax.vmap(self.network.read)(done.stream), axis=-1)
        count, longest = ids.shape
        outcome = (classes[:count, :longest], done.layers[:count], done.halted[:count], done.flagged[:count, :longest])
        return AltaRun(self.program, lengths, *(np.asarray(x) for x in outcome))

    def solve(self, text: str) -> str:
        """Text in, text out."""
        found = self.run([self.program.encode(text)])
        found.check()
        return self.program.decode(found.outputs[0])

    @property
    def hidden_units(self) -> int:
        """The width of the MLP's rule layer: units of rules and units that reset the outputs of heads."""
        return densely(self.block.mlp[-2]).weight.shape[-1]

    @cached_property
    def block(self) -> Block:
        """The weights of a layer; all layers have the same."""
        whole = self.network.block
        return whole if self.network.config.shared else jax.tree.map(lambda w: w[0], whole)

    def _padded(self, ids: np.ndarray) -> np.ndarray:
        """The sequences longer and more, to the next powers of two: one compilation serves many sizes."""
        wider = min(room_for(ids.shape[1]), self.program.positions or self.longest)
        ids = np.pad(ids, ((0, 0), (0, max(0, wider - ids.shape[1]))))
        return ids[np.arange(room_for(len(ids))) % len(ids)]

    @cached_property
    def _halt(self) -> Halt | None:
        if self.program.halt is None:
            return None
        name, value = self.program.halt
        vector = np.zeros(self.layout.width, np.float32)
        vector[self.layout.places[name].start + value] = 1
        return Halt(jnp.asarray(vector))

    @cached_property
    def _reads(self) -> UndefinedReads:
        return UndefinedReads.of(self.program, view_of(self.program, self.layout), self.block.mlp[:-2], self.longest)


@dataclass(frozen=True)
class AltaRun:
    """A batch that a compiled network executed."""

    program: AltaProgram
    lengths: np.ndarray
    classes: np.ndarray
    layers: np.ndarray
    halted: np.ndarray
    used_undefined: np.ndarray

    @property
    def outputs(self) -> list[list[int]]:
        """The output variable at every position, of every sequence."""
        return [self.classes[i, :n].tolist() for i, n in enumerate(self.lengths)]

    def check(self) -> None:
        """Raise where an undefined value was used, or where an execution did not end."""
        if self.used_undefined.any():
            sample, position = np.argwhere(self.used_undefined)[0]
            raise UndefinedError(
                f"Program {self.program.name!r}: at position {position} of sequence {sample} a rule reads an undefined "
                f"value; `program.interpret` says in which layer, and of which head."
            )
        if self.program.halt is not None and not self.halted.all():
            sample = int(np.argmin(self.halted))
            raise ValueError(
                f"Program {self.program.name!r} has not ended after {int(self.layers[sample])} layers on sequence "
                f"{sample}. Give more layers."
            )


def compile_alta_program(
    program: AltaProgram,
    *,
    longest: int | None = None,
    separate: int | None = None,
    sparse: bool | None = None,
    certify: str = "quick",
) -> CompiledAlta:
    """Write the weights with which a Transformer runs the program.

    Args:
        program: what to compile.
        longest: the longest sequence; by default the program's positions, or 512.
        separate: write so many layers with weights of their own, instead of one that all share.
        sparse: hold the MLP as its non-zero weights; None does so layer by layer where that is faster.
        certify: "quick" compares 64 random sequences with the interpreter, "full" 1024, "none" nothing.
    """
    if certify not in (*SAMPLES, "none"):
        raise ValueError(f"certify must be 'quick', 'full' or 'none'; got {certify!r}.")
    if longest is not None and (not isinstance(longest, int) or longest < 1):
        raise ValueError(f"longest must be a whole number of at least 1; got {longest!r}.")
    if separate is not None and (not isinstance(separate, int) or separate < 1):
        raise ValueError(f"separate must be a number of layers, at least 1; got {separate!r}.")
    longest = longest or program.positions or 512
    layout, units = StreamLayout.of(program), units_of(program)
    writer = WeightWriter(program, layout, longest)
    tokens, positions = writer.embeddings()
    block = Block(writer.heads(), tuple(_held(layer, sparse) for layer in writer.mlp(units)))
    if separate is not None:
        block = jax.tree.map(lambda w: jnp.stack([w] * separate), block)
        program = replace(program, layers=min(program.layers, separate))
    network = Transformer(
        tokens=jnp.asarray(tokens),
        positions=None if positions is None else jnp.asarray(positions),
        block=block,
        output=writer.output(),
        config=TransformerConfig(causal=program.causal, shared=separate is None, precision="highest"),
    )
    compiled = CompiledAlta(program, network, layout, units, longest)
    return compiled if certify == "none" else replace(compiled, certificate=compare(compiled, certify))


def densely(layer: AnyLinear) -> Linear:
    """A layer with all its weights."""
    return layer.dense() if isinstance(layer, SparseLinear) else layer


def _held(layer: Linear, sparse: bool | None) -> AnyLinear:
    if sparse is None:
        used = np.count_nonzero(layer.weight)
        sparse = layer.weight.size >= LARGE and bool(used * SPARSE < layer.weight.size)
    return SparseLinear.of(layer) if sparse else layer


@eqx.filter_jit
def _run(net: Transformer, halt: Halt | None, reads: Any, ids: Array, lengths: Array, layers: int) -> Execution:
    return run_batch(net, ids, lengths, layers=layers, halt=halt, flag=reads)
