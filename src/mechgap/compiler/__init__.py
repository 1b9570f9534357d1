"""Stage 4a: programs -> weights, exact, with a certificate."""

from typing import Any

from mechgap.compiler.to_gatv2 import Compiled, compile_graph_program
from mechgap.compiler.to_transformer import CompiledAlta, compile_alta_program
from mechgap.programs import program as look_up
from mechgap.programs.alta import AltaProgram
from mechgap.programs.graph import GraphProgram


def compile(program: GraphProgram | AltaProgram | str, **options: Any) -> Any:
    """Compile a program, or the program of that name, into the weights of a network that runs it.

    A graph program becomes a `Compiled` GATv2 network, with the options of
    `mechgap.compiler.to_gatv2.compile_graph_program`: hidden, max_nodes, layer_norm, ...; an ALTA program becomes a
    `CompiledAlta` Transformer, with those of `mechgap.compiler.to_transformer.compile_alta_program`: longest, certify.
    """
    if isinstance(program, str):
        program = look_up(program)
    if isinstance(program, AltaProgram):
        return compile_alta_program(program, **options)
    if not isinstance(program, GraphProgram):
        given = type(program).__name__
        raise TypeError(f"compile expects a program, such as mechgap.program(name), or its name; got {given}.")
    return compile_graph_program(program, **options)


__all__ = ["Compiled", "CompiledAlta", "compile"]
