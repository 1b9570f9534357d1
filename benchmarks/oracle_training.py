"""The reference's side of benchmarks/training.py, in the oracle's environment: questions on stdin, answers on stdout.

It trains as its own script does: gatv2, the five lengths in turn, fresh samples each step. A question is one JSON line,
{"cycles": ...}; the answer has the wall and processor seconds of that many cycles of five steps.
"""

import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

import reference  # before anything that imports numpy

# isort: split
import clrs
import jax
import numpy as np

SIZES, BATCH, HIDDEN = (4, 7, 11, 13, 16), 32, 128


def endless(sampler: object) -> Iterator:
    """Batch after batch of one sampler."""
    while True:
        yield sampler.next(BATCH)


def samplers(rng: np.random.RandomState) -> tuple[list, object]:
    """One endless stream per length, with random positions."""
    streams = []
    for n in SIZES:
        options = {"seed": rng.randint(2**32), "num_samples": -1, "length": n, "p": reference.TRAIN_P}
        sampler, spec = clrs.build_sampler("bfs", **options)
        streams.append(clrs.process_random_pos(endless(sampler), rng))
    return streams, spec


def main() -> None:
    """Build, warm up, then answer."""
    begun = time.perf_counter()
    rng = np.random.RandomState(0)
    streams, spec = samplers(rng)
    factory = clrs.get_processor_factory("gatv2", use_ln=True, nb_triplet_fts=0, nb_heads=1)
    model = clrs.models.BaselineModel(
        spec=[spec],
        dummy_trajectory=[next(streams[-1])],
        processor_factory=factory,
        hidden_dim=HIDDEN,
        encode_hints=True,
        decode_hints=True,
        encoder_init="xavier_on_scalars",
        use_lstm=False,
        learning_rate=1e-4,
        grad_clip_max_norm=1.0,
        dropout_prob=0.0,
        hint_teacher_forcing=0.0,
        hint_repred_mode="soft",
        nb_msg_passing_steps=1,
    )
    state = {"key": jax.random.PRNGKey(0)}
    model.init([next(streams[0]).features], 1)

    def cycle() -> dict[int, int]:
        """Five steps; the number of frames of each size's batch."""
        frames = {}
        for stream in streams:
            state["key"], key = jax.random.split(state["key"])
            batch = next(stream)
            float(model.feedback(key, batch, 0))
            frames[batch.features.inputs[0].data.shape[1]] = batch.features.hints[0].data.shape[0]
        return frames

    frames = cycle()
    about = {"package": reference.PACKAGE, "setup_s": time.perf_counter() - begun, "frames": frames}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(json.loads(line)["cycles"]):
            cycle()
        answer = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**answer, "peak_mib": peak}), flush=True)


if __name__ == "__main__":
    main()
