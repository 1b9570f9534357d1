"""How fast ALTA programs are built, compiled and run, beside what was measured of the public reference.

    .venv/bin/python benchmarks/alta.py [--commands 256]

The reference's figures (google-deepmind/alta at a6069fe, CPU seconds on a comparable machine) cannot be measured in the
same run: it does not install as a package, and one short SCAN command takes its compiled model about 65 s.
"""

import argparse
import random
import resource
import time

import jax

import mechgap as mg
from mechgap.programs.library.scan_grammar import actions, commands

# program -> (rules or MLP width, build s, compile s, interpreter s and compiled s for one typical input)
REFERENCE = {
    "parity_sequential_relative": (7, 0.0002, 0.0005, 0.0018, 0.0025),
    "parity_sum_mod_2": (200, 0.044, 0.002, 0.00025, 0.00034),
    "addition": (16_466, 0.43, 0.22, 0.0054, 0.042),
    "subleq": (43_127, 0.91, 1.9, 0.0083, 0.69),
    "scan": (70_792, 2.7, 10.3, 1.54, 65.0),
}
PAPER = {"parity_sequential_relative": "7", "addition": "884", "scan": "< 2000"}  # units that the paper prints
TYPICAL = {
    "parity_sequential_relative": "101101001",
    "parity_sum_mod_2": "101101001",
    "addition": "789+456",
    "subleq": "9 11 3 11 10 6 11 11 -1 5 10 0",
    "scan": "jump twice",
}
BATCH = 64


def timed(function, repeats: int = 3) -> float:
    """The shortest of some runs, after one that compiles."""
    function()
    return min(_seconds(function) for _ in range(repeats))


def _seconds(function) -> float:
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=256, help="how many SCAN commands to run")
    options = parser.parse_args()
    begun = time.perf_counter()
    mg.compile(mg.program("scan"), certify="none")
    print(
        f"SCAN from its function to weights, in a new process: {time.perf_counter() - begun:.2f} s, peak memory "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MB, all libraries included"
    )
    print(
        f"{'program':28s} {'units':>7s} {'paper':>7s} {'ref':>7s} "
        f"{'build s':>8s} {'ref':>6s} {'compile':>8s} {'ref':>6s} "
        f"{'interp ms':>9s} {'ref':>8s} {'net ms':>8s} {'ref':>9s}   (run times amortised over a batch of {BATCH})"
    )
    for name, (units, build, compilation, interpreter, compiled) in REFERENCE.items():
        begun = time.perf_counter()
        program = mg.program(name)
        built = time.perf_counter()
        network = mg.compile(program, certify="none")
        done = time.perf_counter()
        batch = [program.encode(TYPICAL[name])] * BATCH
        ours = timed(lambda p=program, b=batch: p.interpret(b)) / BATCH
        net = timed(lambda n=network, b=batch: n.run(b)) / BATCH
        print(
            f"{name:28s} {network.hidden_units:7d} {PAPER.get(name, ''):>7s} {units:7d} "
            f"{built - begun:8.2f} {build:6.2f} {done - built:8.2f} "
            f"{compilation:6.2f} {1e3 * ours:9.3f} {1e3 * interpreter:8.2f} {1e3 * net:8.3f} {1e3 * compiled:9.2f}",
            flush=True,
        )
    program = mg.program("scan")
    network = mg.compile(program, certify="none")
    drawn = random.Random(0).sample(commands(), options.commands)
    drawn.sort(key=lambda c: len(actions(c)))  # a batch runs until its longest has ended
    _, _, _, *reference = REFERENCE["scan"]
    for what, run, slow in zip(("interpreter", "network"), (program.interpret, network.run), reference, strict=True):
        begun, right = time.perf_counter(), 0
        for start in range(0, len(drawn), BATCH):
            part = drawn[start : start + BATCH]
            found = run([program.encode(c) for c in part])
            right += sum(program.decode(o).split() == actions(c) for o, c in zip(found.outputs, part, strict=True))
        seconds = time.perf_counter() - begun
        print(
            f"SCAN, {what}: {right} of {len(drawn)} right in {seconds:.0f} s, {len(drawn) / seconds:.1f} commands/s "
            f"on {jax.default_backend()}; the reference, 'jump twice': {1 / slow:.3f} commands/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
