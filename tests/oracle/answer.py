"""Answer one question with the reference package; answers are npz files. Used by test_oracle_live.py.

answer.py traces ALGORITHM ANSWER NODES:SAMPLES ...    random inputs and their traces: ANSWER holds 4/input/pos, ...
answer.py splits ALGORITHM ANSWER                      the benchmark's splits: ANSWER holds train/input/pos, ...
"""

import sys
import warnings

import reference  # before anything that imports numpy

# isort: split
import cases
import numpy as np

SEED = 9090


def main(question: str, name: str, answer: str, *sizes: str) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)  # the samplers of hulls take the cross product of 2-vectors
    arrays: reference.Arrays = {}
    if question == "traces":
        rng = np.random.RandomState(SEED)
        for n, count in (map(int, size.split(":")) for size in sizes):
            traced = reference.traced(name, cases.random(name, n, count, rng))
            arrays |= {f"{n}/{k}": x for k, x in traced.items()}
    else:
        for part in ("train", "val", "test"):
            arrays |= {f"{part}/{k}": x for k, x in reference.flat(reference.split(name, part)).items()}
    np.savez(answer, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
