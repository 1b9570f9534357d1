"""Stage 4a: programs -> weights, exact, with a certificate."""

from typing import Any

from mechgap.compiler.to_gatv2 import Compiled, compile_graph_program
from mechgap.programs import program as look_up
from mechgap.programs.graph import GraphProgram


def compile(program: GraphProgram | str, **options: Any) -> Compiled:
    """Compile a program, or the program of that name, into the weights of a network that runs it.

    The options are those of `mechgap.compiler.to_gatv2.compile_graph_program`: hidden, max_nodes, layer_norm, ...
    """
    if isinstance(program, str):
        program = look_up(program)
    if not isinstance(program, GraphProgram):
        given = type(program).__name__
        raise TypeError(f"compile expects a program, such as mechgap.program(name), or its name; got {given}.")
    return compile_graph_program(program, **options)
