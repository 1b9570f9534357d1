"""How long a step of training on sequences takes, and compiling it, by how it is computed.

    python benchmarks/sequence_step.py relative_40_shared scan_16 --out step.json
    python benchmarks/sequence_step.py parity_sum_mod_2_traced --steps 400

Each line is one training of `--steps` steps with the settings of a study. End to end, the first way is that of the
package; each of the others differs from it in one thing: nothing computed again on the way back, layers as a loop.
MLPs that learn from traces have a line for each precision of products. The mean loss of the second half of the steps
stands behind the time: it is the same for all ways but for rounding, or one of them is wrong. On a CPU they are all the
same. `--profile` also prints which kernels take the time of the first way, from JAX's profiler.
"""

import argparse
import contextlib
import gzip
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import jax

from mechgap.compiler import compile as compile_program
from mechgap.faithfulness.sequence_networks import parity_program
from mechgap.faithfulness.sequence_presets import SequenceStudy, sequence_studies
from mechgap.networks import transformer
from mechgap.training.many import Recipe, Trained
from mechgap.training.sequences.end_to_end import ParitySize, train_parity
from mechgap.training.sequences.scan import ScanSize, train_scan
from mechgap.training.sequences.supervise import PRECISIONS, supervise

AS_IT_IS, LONGEST = "as it is", 30
WAYS = (AS_IT_IS, "nothing again", "a loop")


@contextlib.contextmanager
def computed(way: str) -> Iterator[None]:
    """Layers are computed in this way as long as this lasts."""
    changed: dict[str, tuple[Any, str, Any]] = {
        "nothing again": (jax, "checkpoint", lambda step, **options: step),
        "a loop": (transformer, "straight_layers", lambda layers: 1),
    }
    with mock.patch.object(*changed[way]) if way in changed else contextlib.nullcontext():
        yield


def ways_of(name: str) -> tuple[str, ...]:
    """In which ways a study can be computed."""
    return PRECISIONS if sequence_studies("full")[name].kind == "supervision" else WAYS


def measure(name: str, way: str, steps: int, changes: dict[str, int]) -> dict[str, str | float]:
    """Train once."""
    study = sequence_studies("full")[name]
    recipe = replace(study.recipe, steps=steps, chunk=max(1, steps // 2), enough=None)
    begun = time.perf_counter()
    with computed(way):
        trained = train(study, way, recipe, changes)
    whole = time.perf_counter() - begun
    each, loss = 1000 * trained.seconds / trained.steps, float(trained.losses[-1].mean())
    times = {"ms": round(each, 3), "compile_s": round(whole - trained.seconds, 1)}
    return {"study": name, "way": way, **times, "loss": loss}


def train(study: SequenceStudy, way: str, recipe: Recipe, changes: dict[str, int]) -> Trained:
    """Train a study's networks with another recipe, and with some sizes changed."""
    if isinstance(study.transformer, ParitySize):
        return train_parity(replace(study.transformer, **changes), recipe, quiet=True)
    if isinstance(study.transformer, ScanSize):
        return train_scan(replace(study.transformer, **changes), study.task, recipe, quiet=True)
    if study.mlp is None:
        raise SystemExit(f"{study.name} learns from probes, which is not measured here.")
    program = parity_program(study.name, 2 * study.train_length)
    network = compile_program(program, certify="none", longest=2 * study.train_length + 1).network
    hidden = {key: value for key, value in changes.items() if key == "hidden"}
    return supervise(network, program, study.task, replace(study.mlp, precision=way, **hidden), recipe, quiet=True)[0]


def kernels(name: str, steps: int, changes: dict[str, int]) -> list[tuple[str, float, float]]:
    """(kernel, microseconds per step, how often per step) of the package's way, the longest first."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            measure(name, AS_IT_IS, steps, changes)
        (file,) = Path(folder).rglob("perfetto_trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    on_device = any("GPU" in x for x in names.values())
    took: dict[str, list[float]] = {}
    for event in events:
        if event.get("ph") != "X" or event["name"].startswith("$"):  # calls of Python
            continue
        # Of an accelerator, streams: other lines show the same kernels again, by operation and by module.
        thread = threads.get((event["pid"], event["tid"]), "")
        if not on_device or ("GPU" in names.get(event["pid"], "") and "Stream" in thread):
            took.setdefault(event["name"], []).append(event["dur"])
    lines = [(kernel, sum(times) / steps, len(times) / steps) for kernel, times in took.items()]
    return sorted(lines, key=lambda line: -line[1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="+", help="e.g. relative_40_shared, scan_16 or parity_sum_mod_2_traced")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument(
        "--ways", nargs="+", choices=(*WAYS, *PRECISIONS), help="those that a study has; all by default"
    )
    parser.add_argument("--width", type=int, help="with hidden units of four times as many; else the study's")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--profile", action="store_true", help="also print the longest kernels")
    given = parser.parse_args()
    changes = {"width": given.width, "hidden": 4 * given.width} if given.width else {}
    found = []
    for name in given.studies:
        for way in (way for way in ways_of(name) if not given.ways or way in given.ways):
            found.append(measure(name, way, given.steps, changes))
            line = found[-1]
            took = f"{line['ms']:9} ms a step {line['compile_s']:7} s to compile"
            print(f"{name:24} {way:18} {took}   loss {line['loss']:.6g}", flush=True)
            if given.profile and way == AS_IT_IS:
                lines = kernels(name, given.steps, changes)
                print(f"{sum(n for _, _, n in lines):.0f} events, {sum(t for _, t, _ in lines):.0f} us a step")
                for kernel, time_taken, times in lines[:LONGEST]:
                    print(f"  {time_taken:9.1f} us {times:7.1f} times  {kernel[:90]}", flush=True)
            if given.out:  # after every line: what is measured stays, whatever ends this
                given.out.write_text(json.dumps({"device": jax.devices()[0].device_kind, "lines": found}, indent=1))


if __name__ == "__main__":
    main()
