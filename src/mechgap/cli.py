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


AltaPreset = Annotated[str, typer.Option(help="quick, in a minute on two cores, or full, the paper's settings.")]
ProgramName = Annotated[str, typer.Argument(help="The program, e.g. bfs.")]
Hidden = Annotated[int, typer.Option(help="Hidden size.")]
Minimal = Annotated[bool, typer.Option("--minimal", help="Take the smallest hidden size instead.")]
WithLayerNorm = Annotated[bool, typer.Option("--layer-norm", help="Compile for a network with a layer norm.")]


@app.command("compile")
def compile_(
    program: ProgramName,
    hidden: Hidden = 128,
    minimal: Minimal = False,
    layer_norm: WithLayerNorm = False,
    max_nodes: Annotated[int, typer.Option(help="The largest graph.")] = 1024,
    min_gap: Annotated[float | None, typer.Option(help="Smallest difference of two positions; 1/max_nodes.")] = None,
    max_distance: Annotated[float | None, typer.Option(help="Largest distance, where the program has one.")] = None,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    margin: Annotated[float | None, typer.Option(help="Softmax margin in nats; by default exact.")] = None,
    certify: Annotated[str, typer.Option(help="quick, full or none.")] = "quick",
    out: Annotated[Path | None, typer.Option(help="Also keep the certificate in this JSON file.")] = None,
) -> None:
    """Write the weights that run a program, check them, and print the certificate."""
    from mechgap.report.certificates import compile_and_print

    parameters = {} if max_distance is None else {"max_distance": max_distance}
    certified = compile_and_print(
        program,
        parameters,
        out,
        hidden=None if minimal else hidden,
        max_nodes=max_nodes,
        min_gap=min_gap,
        layer_norm=layer_norm,
        dtype=dtype,
        margin=margin,
        certify=certify,
    )
    if not certified:
        raise typer.Exit(1)


@app.command()
def inspect(
    program: ProgramName,
    hidden: Hidden = 128,
    minimal: Minimal = False,
    layer_norm: WithLayerNorm = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw the weights into this PNG, SVG or PDF file.")] = None,
    attention: Annotated[Path | None, typer.Option(help="Also draw the attention on a random graph.")] = None,
    n: Annotated[int, typer.Option(help="Number of nodes of that graph.")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of that graph.")] = 0,
) -> None:
    """Compile a program and show what every channel and weight does."""
    from mechgap.report.inspection import inspect_program

    size = None if minimal else hidden
    inspect_program(program, plot, hidden=size, layer_norm=layer_norm, attention=attention, nodes=n, seed=seed)


@app.command()
def export(
    program: ProgramName,
    to: Annotated[
        str,
        typer.Option(
            help="clrs (the reference's parameter names, npz) or safetensors; transformer-lens for ALTA programs."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The file to write; for transformer-lens, the folder.")],
    hidden: Hidden = 128,
    max_nodes: Annotated[int, typer.Option(help="The largest graph.")] = 1024,
    layer_norm: WithLayerNorm = False,
    length: Annotated[int | None, typer.Option(help="The longest sequence, for transformer-lens.")] = None,
    depth: Annotated[int | None, typer.Option(help="The number of layers, for transformer-lens.")] = None,
) -> None:
    """Compile a program and write its network for use elsewhere."""
    from mechgap.interop.exports import export_program

    sizes = {"hidden": hidden, "max_nodes": max_nodes, "layer_norm": layer_norm}
    export_program(program, to, out, length=length, depth=depth, **sizes)


Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A setting as name=value, e.g. --set hidden=4; may be repeated.")
]


@app.command()
def train(
    algorithm: Annotated[str | None, typer.Argument(help="The algorithm, e.g. bfs.")] = None,
    algorithms: Annotated[
        str | None, typer.Option(help="Instead: one network for several, e.g. bfs,dfs, or for all thirty: all.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many networks to train at once; 8, or 1 of several.")] = None,
    steps: Annotated[int, typer.Option(help="Steps of the optimiser; the paper takes 10000.")] = 300,
    processor: Annotated[
        str | None, typer.Option(help="gatv2 (the default), gat, mpnn, pgn or triplet_gmpnn.", show_default=False)
    ] = None,
    settings: Settings = None,
    folder: Annotated[Path | None, typer.Option(help="Keep the run here; a killed run is resumed.")] = None,
) -> None:
    """Train networks on an algorithm, or on several together, and print their scores."""
    from mechgap.report.ensembles import train_and_print, train_together_and_print
    from mechgap.training.config import parse_assignments

    if (algorithm is None) == (algorithms is None):
        raise ValueError("Give one algorithm, e.g. mechgap train bfs, or several: mechgap train --algorithms bfs,dfs.")
    named = {} if processor is None else {"processor": processor}
    given = {"steps": steps, **named, **parse_assignments(settings or [])}
    if algorithms is not None:
        train_together_and_print(algorithms, folder, {"seeds": 1 if seeds is None else seeds, **given})
    else:
        train_and_print(str(algorithm), folder, {"seeds": 8 if seeds is None else seeds, **given})


@app.command()
def sweep(
    source: Annotated[str, typer.Argument(help="A TOML file, or a preset such as baseline.")],
    folder: Annotated[Path, typer.Option(help="Where runs and tables are kept.")] = Path("runs"),
    shard: Annotated[str, typer.Option(help="i/N: this is machine i of N.")] = "1/1",
    slurm: Annotated[int | None, typer.Option(help="Hand the sweep to SLURM in this many jobs.")] = None,
    settings: Settings = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be trained.")] = False,
) -> None:
    """Train every setting of a study, packed into ensembles."""
    from mechgap.report.ensembles import sweep_and_print
    from mechgap.training.config import parse_assignments

    sweep_and_print(source, folder, shard, slurm, parse_assignments(settings or []), dry_run)


@app.command()
def gap(
    algorithm: AlgorithmName,
    seeds: Annotated[int | None, typer.Option(help="How many networks; by default the preset's.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the optimiser; by default the preset's.")] = None,
    preset: Annotated[str, typer.Option(help="small (minutes on two cores) or full (the paper's settings).")] = "small",
    settings: Settings = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    folder: Annotated[Path, typer.Option(help="For results; what is finished is not repeated.")] = Path("runs"),
) -> None:
    """Compile, train, and measure the gap between the two; ends with a page about it."""
    from mechgap.report.gap_study import measure_and_report
    from mechgap.training.config import parse_assignments

    given = {name: value for name, value in (("seeds", seeds), ("steps", steps)) if value is not None}
    measure_and_report(algorithm, out, folder, preset, given | parse_assignments(settings or []))


@app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Result folders of one algorithm, or of trainings on parity; several stand side by side."),
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Also draw SVG, PNG and PDF figures into this folder.")] = None,
) -> None:
    """Write one offline page about results: numbers, an attention viewer, figures and tables; curves for parity."""
    from mechgap.report.alta_curves import trainings, write_curves
    from mechgap.report.gap_report import write_report

    if on_sequences := trainings(runs):
        if figures:
            raise ValueError("--figures is for results on graphs; the curves of trainings on parity are in the page.")
        write_curves(on_sequences, out)
        typer.echo(f"wrote {out}")
        return
    problems = write_report(runs, out, figures)
    for problem in problems:
        typer.secho(f"mechgap: {problem}", fg="red", err=True)
    typer.echo(f"wrote {out}")
    if problems:
        raise typer.Exit(1)


@app.command()
def paper(
    what: Annotated[list[str], typer.Argument(help="list, doc, all, or tables and figures such as table10.")],
    preset: Annotated[str, typer.Option(help="quick (minutes on two cores) or full (the paper's budget).")] = "quick",
    folder: Annotated[
        Path | None, typer.Option(help="Results; by default runs/paper-quick for quick runs, else results.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Where training keeps its checkpoints, and pages of figures go.")] = Path(
        "runs"
    ),
    out: Annotated[Path, typer.Option(help="What doc writes.")] = Path("docs/reproduction.md"),
    settings: Settings = None,
) -> None:
    """Regenerate the paper's tables and figures, the paper's number beside ours."""
    from mechgap.report.paper.command import answer
    from mechgap.training.config import parse_assignments

    answer(what, preset, folder, runs, out, parse_assignments(settings or []))


alta = typer.Typer(no_args_is_help=True, help="ALTA programs: list them, run them, see their rules, compile them.")
app.add_typer(alta, name="alta")


@alta.command("list")
def alta_list() -> None:
    """Every ALTA program, in a line each."""
    from mechgap.report.alta_tables import list_programs

    list_programs()


@alta.command("run")
def alta_run(
    program: ProgramName,
    words: Annotated[list[str], typer.Argument(help="What the program reads, e.g. 789+456, or 1 0 1 1.")],
    show: Annotated[list[str] | None, typer.Option(help="A variable to show; may be repeated. By default all.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page that shows the execution here.")] = None,
) -> None:
    """Run a program and print the residual stream, layer by layer, with changes highlighted."""
    from mechgap.report.alta_tables import run_and_print

    run_and_print(program, words, show or [], html)


@alta.command("rules")
def alta_rules(program: ProgramName) -> None:
    """Print a program's variables, heads and rules."""
    from mechgap.report.alta_tables import print_rules

    print_rules(program)


@alta.command("compile")
def alta_compile(
    program: ProgramName,
    out: Annotated[Path | None, typer.Option(help="Write the weights here, as safetensors.")] = None,
) -> None:
    """Compile a program into a Transformer and print its certificate."""
    from mechgap.report.alta_tables import compile_and_save

    compile_and_save(program, out)


@alta.command("minimal")
def alta_minimal(
    program: ProgramName,
    train_length: Annotated[
        int | None, typer.Option(help="The longest inputs it is shown: bits (20) or digits of addition (3).")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Of SCAN: length (by default), jump, random, divergence (ours), or the path of a published JSON file."
        ),
    ] = None,
) -> None:
    """Drop what a training set does not show of a program, and see what becomes of other inputs."""
    from mechgap.report.alta_minimal import print_minimal

    print_minimal(program, train_length, split)


StopAfter = Annotated[
    float | None,
    typer.Option(help="Seconds after which a training ends with what it has; the next call goes on from there."),
]


@alta.command("supervise")
def alta_supervise(
    program: ProgramName,
    preset: AltaPreset = "quick",
    probe: Annotated[
        bool, typer.Option("--probe", help="Train a whole Transformer, whose layers linear probes must read.")
    ] = False,
    folder: Annotated[Path, typer.Option(help="For the results.")] = Path("runs/alta"),
    stop_after: StopAfter = None,
    settings: Settings = None,
) -> None:
    """Train an MLP on the traces of a parity program, put it into the compiled Transformer, test it on longer input."""
    from mechgap.report.alta_learning import learn
    from mechgap.training.config import parse_assignments

    kind, name = ("probed", f"{program.removesuffix('_probed')}_probed") if probe else ("supervision", program)
    learn([kind], [name], preset, folder, parse_assignments(settings or []), stop_after)


@alta.command("train")
def alta_train(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="e.g. relative_8, absolute_40_shared or scan_16; by default all eight of Table 3."),
    ] = None,
    preset: AltaPreset = "quick",
    folder: Annotated[Path, typer.Option(help="For the results.")] = Path("runs/alta"),
    stop_after: StopAfter = None,
    settings: Settings = None,
) -> None:
    """Train Transformers on parity or SCAN end to end, and test them on longer or other inputs."""
    from mechgap.report.alta_learning import learn
    from mechgap.training.config import parse_assignments

    learn(["end_to_end", "scan"], names or [], preset, folder, parse_assignments(settings or []), stop_after)


@alta.command("summary")
def alta_summary(
    folder: Annotated[Path, typer.Option(help="Results, as `mechgap paper` keeps them.")] = Path("results"),
) -> None:
    """All trainings on sequences in one table: right answers, longer inputs, the gap; and how simple programs are."""
    from mechgap.report.alta_learning import print_summary

    print_summary(folder)


text = typer.Typer(no_args_is_help=True, help="CLRS-Text: the thirty algorithms as questions and answers.")
app.add_typer(text, name="text")

TextHints = Annotated[bool, typer.Option("--hints", help="Write the executions, too.")]
TextSeed = Annotated[int, typer.Option(help="Seed of the reference generator's samplers.")]
Decimals = Annotated[int, typer.Option(min=0, max=13, help="Decimals that inputs are cut to; 0 keeps all.")]


@text.command("sample")
def text_sample(
    algorithm: AlgorithmName,
    n: Annotated[int, typer.Option(help="Number of nodes.")] = 4,
    count: Annotated[int, typer.Option(help="How many questions.")] = 1,
    seed: TextSeed = 0,
    hints: TextHints = False,
    decimals: Decimals = 3,
) -> None:
    """Print questions and their right answers."""
    from mechgap.report.text_tables import print_samples

    print_samples(algorithm, n, count, seed, hints, decimals)


@text.command("write")
def text_write(
    out: Annotated[Path, typer.Option(help="The file to write, .parquet or .jsonl.")],
    algorithms: Annotated[str, typer.Option(help="all, or names such as bfs,dfs.")] = "all",
    sizes: Annotated[str, typer.Option(help="Numbers and ranges, e.g. 4-8,12.")] = "4-16",
    count: Annotated[int, typer.Option(help="Questions per algorithm and size.")] = 10,
    seed: TextSeed = 0,
    hints: TextHints = False,
    decimals: Decimals = 3,
) -> None:
    """Write a data set with the columns of the published one."""
    from mechgap.report.text_tables import write_and_say

    write_and_say(out, algorithms, sizes, count, seed, hints, decimals)


@text.command("score")
def text_score(
    file: Annotated[Path, typer.Argument(help="A .parquet or .jsonl file with a question and an answer per row.")],
    column: Annotated[str, typer.Option(help="Where a model's answers stand.")] = "prediction",
) -> None:
    """Score a model's answers: shape, parse and CLRS, by algorithm, beside the best constant answer."""
    from mechgap.report.text_tables import score_and_print

    score_and_print(file, column)


transnar = typer.Typer(no_args_is_help=True, help="TransNAR: text models that look at a reasoner. Train and ask them.")
app.add_typer(transnar, name="transnar")

TransNARPreset = Annotated[
    str, typer.Option(help="tiny or quick (minutes on a CPU), demo, h200, paper, or a TOML file.")
]
RunsFolder = Annotated[Path, typer.Option(help="For results; what is finished is not repeated.")]
TransNARFolder = Annotated[Path, typer.Argument(help="Where `mechgap transnar train` kept its results.")]
AskedHow = Annotated[
    str, typer.Option(help="Ways to ask besides 'as trained': 'gates shut', 'shuffled', 'plain positions', or all.")
]


@transnar.command("train")
def transnar_train(
    preset: TransNARPreset = "tiny",
    models: Annotated[str | None, typer.Option(help="Only these of the preset, e.g. transformer,transnar.")] = None,
    folder: RunsFolder = Path("runs/transnar"),
    reasoner: Annotated[str, typer.Option(help="trained, or compiled: exact networks of programs.")] = "trained",
    controls: AskedHow = "all",
    settings: Settings = None,
) -> None:
    """Train a reasoner and text models with and without it, ask them, and print the scores."""
    from mechgap.report.text_models import train_and_print
    from mechgap.training.config import parse_assignments

    train_and_print(preset, models, folder, reasoner, controls, parse_assignments(settings or []))


@transnar.command("reasoner")
def transnar_reasoner(
    preset: TransNARPreset = "tiny",
    names: Annotated[str | None, typer.Option(help="Only these of the preset, e.g. trained.")] = None,
    folder: RunsFolder = Path("runs/transnar"),
    settings: Settings = None,
) -> None:
    """Train the reasoners of a study alone: then text models can be trained side by side, each by itself."""
    from mechgap.report.text_models import train_reasoners_and_print
    from mechgap.training.config import parse_assignments

    train_reasoners_and_print(preset, names, folder, parse_assignments(settings or []))


@transnar.command("eval")
def transnar_eval(
    folder: TransNARFolder,
    controls: AskedHow = "as trained",
    settings: Settings = None,
) -> None:
    """Put questions to trained models and print their scores; settings are sizes, count, seed, together."""
    from mechgap.report.text_models import eval_and_print
    from mechgap.training.config import parse_assignments

    eval_and_print(folder, controls, parse_assignments(settings or []))


@transnar.command("summary")
def transnar_summary(
    folder: TransNARFolder,
    out: Annotated[Path, typer.Option(help="For the files; those of other models stay.")] = Path("results/transnar"),
    preset: TransNARPreset = "h200",
    settings: Settings = None,
) -> None:
    """Write what a study found as small files without weights, from which `mechgap paper` makes its tables."""
    from mechgap.report.text_models import summarise_and_print
    from mechgap.training.config import parse_assignments

    summarise_and_print(folder, out, preset, parse_assignments(settings or []))


@transnar.command("answer")
def transnar_answer(
    folder: TransNARFolder,
    question: Annotated[
        str | None, typer.Option(help="Three lines, with \\n between them; by default, what comes from the terminal.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page that shows where a model looks here.")] = None,
    model: Annotated[str | None, typer.Option(help="Which model the page is about; by default transnar.")] = None,
) -> None:
    """Answer a question of CLRS-Text by every model in a folder, with the scores of each."""
    from mechgap.report.text_models import answer_and_print

    answer_and_print(folder, question, html, model)


@transnar.command("pack")
def transnar_pack(
    folder: TransNARFolder,
    out: Annotated[Path, typer.Argument(help="A new folder, e.g. results/transnar-demo.")],
    models: Annotated[str | None, typer.Option(help="Only these, e.g. transformer,transnar.")] = None,
) -> None:
    """Copy trained models in half precision, small enough to be kept beside the source."""
    from mechgap.report.text_models import pack_and_print

    pack_and_print(folder, out, models)


@transnar.command("demo")
def transnar_demo(
    folder: Annotated[Path | None, typer.Option(help="Trained models; by default those that come along.")] = None,
) -> None:
    """Questions, the answers of a Transformer and of TransNAR, and their scores."""
    from mechgap.report.text_models import demo_and_print

    demo_and_print(folder)


@app.command()
def doctor() -> None:
    """Print versions, devices and folders, and what to do about anything that is wrong."""
    from mechgap.doctor import examine, print_findings

    if not print_findings(examine()):
        raise typer.Exit(1)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    folder: Annotated[Path, typer.Option(help="For results; what is finished is not repeated.")] = Path("runs"),
) -> None:
    """A first look, in about three minutes: compile two algorithms, train one, and write a page about the gap."""
    from mechgap.demo import run_demo

    run_demo(out, folder)


def main() -> None:
    """The entry point: a user's mistake ends in its message, not in a traceback."""
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        typer.secho(f"mechgap: {error}", fg="red", err=True)
        sys.exit(2)
