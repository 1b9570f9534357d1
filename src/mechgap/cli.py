"""The command line. Each command calls one public function; nothing heavy is imported until a command runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="mechgap",
    help="Compile algorithms into neural networks, train networks on the same algorithms, measure the gap.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AlgorithmName = Annotated[str, typer.Argument(help="The algorithm, e.g. bfs.")]


@app.command()
def trace(
    algorithm: AlgorithmName,
    n: Annotated[int, typer.Option(help="Number of nodes.")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the benchmark's sampler.")] = 0,
    p: Annotated[float | None, typer.Option(help="Edge probability; by default the benchmark's.")] = None,
    source: Annotated[int | None, typer.Option(help="Source node; by default the one drawn.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw every step into this PNG, SVG or PDF file.")] = None,
    save: Annotated[Path | None, typer.Option(help="Also save the trace into this safetensors file.")] = None,
) -> None:
    """Run an algorithm on a random input and print its state step by step."""
    from mechgap.report.tables import print_trace
    from mechgap.report.walkthrough import sample_trace

    result = sample_trace(algorithm, n=n, seed=seed, p=p, source=source)
    print_trace(algorithm, result)
    if save:
        result.save(save)
        typer.echo(f"saved {save}")
    if plot:
        from mechgap.report.drawing import draw_trace, save_figure

        save_figure(draw_trace(result, title=f"{algorithm}, n = {n}, seed {seed}"), plot)
        typer.echo(f"drew {plot}")


@app.command()
def doctor() -> None:
    """Print versions, devices and folders, and what to do about anything that is wrong."""
    from mechgap.doctor import examine, print_findings

    if not print_findings(examine()):
        raise typer.Exit(1)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """A first look, in about a minute on a laptop: trace two algorithms and write a page about them."""
    from mechgap.demo import run_demo

    run_demo(out)


def main() -> None:
    """The entry point: a user's mistake ends in its message, not in a traceback."""
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        typer.secho(f"mechgap: {error}", fg="red", err=True)
        sys.exit(2)
