"""Compile a program and say what came out."""

from pathlib import Path
from typing import Any

import jax
from rich.console import Console

from mechgap.compiler import compile as compile_program
from mechgap.programs import program as look_up
from mechgap.storage import check_folder


def compile_and_print(name: str, parameters: dict[str, Any], out: Path | None = None, **options: Any) -> bool:
    """Compile the program of that name, print listing, size and certificate, and keep the certificate if asked.

    Returns:
        True where the certificate is ok, or none was asked for.
    """
    if out is not None:
        check_folder(out)
    compiled = compile_program(look_up(name, **parameters), **options)
    count = sum(x.size for x in jax.tree.leaves(compiled.network))
    console = Console()
    console.print(str(compiled.program), markup=False, highlight=False)
    needs = ", ".join(
        f"{part} {channels}" for part, channels in compiled.plan.needs(compiled.network.config.heads).items()
    )
    console.print(f"hidden {compiled.network.config.hidden}, {count} parameters; channels used: {needs}")
    if compiled.certificate is None:
        console.print("not certified, as asked")
        return True
    console.print(str(compiled.certificate), markup=False, highlight=False)
    if out is not None:
        compiled.certificate.save(out)
        console.print(f"kept in {out}", markup=False)
    return compiled.certificate.ok
