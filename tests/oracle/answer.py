"""Answer one question with the reference package; questions and answers are npz files. Used by test_oracle_live.py.

answer.py trace ALGORITHM QUESTION ANSWER    QUESTION holds 0/A, 0/s, 1/A, ...; ANSWER 0/input/pos, ...
answer.py splits ALGORITHM ANSWER            ANSWER holds train/input/pos, ...
"""

import sys

import reference  # before anything that imports numpy

# isort: split
import numpy as np
import repaired  # noqa: F401  the answers of naive_string_matcher


def main(question: str, name: str, *paths: str) -> None:
    if question == "trace":
        arrays = traces(name, dict(np.load(paths[0])))
    else:
        parts = ("train", "val", "test")
        arrays = {f"{part}/{k}": x for part in parts for k, x in reference.flat(reference.split(name, part)).items()}
    np.savez(paths[-1], **arrays)


def traces(name: str, given: dict[str, np.ndarray]) -> reference.Arrays:
    answers: reference.Arrays = {}
    for batch in sorted({key.split("/")[0] for key in given}):
        inputs = {key.split("/")[1]: x for key, x in given.items() if key.split("/")[0] == batch}
        feedback = reference.run(name, samples(inputs))
        answers |= {f"{batch}/{key}": x for key, x in reference.flat(feedback).items()}
    return answers


def samples(inputs: dict[str, np.ndarray]) -> list[reference.Sample]:
    """The arguments of each execution; the reference takes the source as an index, and strings as two arrays."""
    if "string" in inputs:
        strings = zip(inputs["key"].argmax(-1), inputs["string"] != 0, strict=True)
        return [[characters[~needle], characters[needle]] for characters, needle in strings]
    if "x" in inputs:
        return [list(points) for points in zip(inputs["x"], inputs["y"], strict=True)]
    if "key" in inputs:
        return [[key] for key in inputs["key"]]
    if "s" in inputs:
        return [[A, int(s.argmax())] for A, s in zip(inputs["A"], inputs["s"], strict=True)]
    return [[A] for A in inputs["A"]]


if __name__ == "__main__":
    main(*sys.argv[1:])
