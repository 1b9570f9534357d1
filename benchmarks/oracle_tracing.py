"""The reference's side of benchmarks/tracing.py, in the oracle's environment: questions on stdin, timings on stdout.

A question is one JSON line: {"mode": "trace", "algorithm": ..., "inputs": an npz file} or
{"mode": "draw", "algorithm": ..., "nodes": ..., "samples": ..., "seed": ...}, each with "repeats" and "patience".
The answer is a list of seconds.
"""

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ["NPY_DISABLE_CPU_FEATURES"] = ""  # how ties fall does not matter here: the reference runs at full speed
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

import reference  # before anything that imports numpy

# isort: split
import numpy as np


def timed(work: Callable[[], object], repeats: int, patience: float) -> list[float]:
    """Processor seconds of each repetition, after one that is not counted; one that takes long is the only one."""
    seconds: list[float] = []
    while len(seconds) < 1 + repeats and sum(seconds) < patience:
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return seconds[1:] or seconds


def job(question: dict) -> Callable[[], object]:
    """What to repeat: the reference on given inputs, or its sampler."""
    name = question["algorithm"]
    if question["mode"] == "trace":
        given = reference.samples(name, dict(np.load(question["inputs"])))
        return lambda: reference.run(name, given)
    sampler = reference.sampler(
        name, num_samples=-1, length=question["nodes"], seed=question["seed"], track_max_steps=False
    )
    return lambda: sampler.next(question["samples"])


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # the samplers of hulls take the cross product of 2-vectors
    print(json.dumps(reference.PACKAGE), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(timed(job(question), question["repeats"], question["patience"])), flush=True)
