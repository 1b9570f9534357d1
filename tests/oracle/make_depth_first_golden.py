"""Write tests/golden/depth_first.json from the real package. Run it in the oracle environment.

The traces have a matrix in every frame, so digests of the arrays are kept instead: name -> "dtype [shape] sha256".
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import reference  # before anything that imports numpy

# isort: split
import depth_first_cases as questions
from answer import samples
from clrs._src import samplers
from make_golden import one_digest


def main() -> None:
    """Write the file, or the one given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=Path(__file__).parents[1] / "golden" / "depth_first.json")
    digests: dict = {"package": reference.PACKAGE}
    file = parser.parse_args().file
    for name in questions.ALGORITHMS:
        digests[name] = {scenario: digest(feedback) for scenario, feedback in scenarios(name)}
        print(f"{name}: {len(digests[name])} scenarios digested", flush=True)
        file.write_text(json.dumps(digests, indent=1) + "\n")


def scenarios(name: str) -> Iterator[tuple[str, samplers.Feedback]]:
    """Given graphs of every size, and every way of sampling; tests/test_dfs_family.py repeats them."""
    for n in questions.SIZES:
        yield f"given {n}", reference.run(name, samples(questions.batch(name, n)))
    for part in ("train", "val", "test"):
        yield part, reference.split(name, part)
    options = {"length": 11, "seed": questions.SEED, "p": reference.TRAIN_P}
    endless = reference.sampler(name, num_samples=-1, **options)
    yield "endless, first", endless.next(32)
    yield "endless, second", endless.next(32)
    prepared = reference.sampler(name, num_samples=32, **options)
    yield "prepared, 16", prepared.next(16)
    yield "prepared, 5", prepared.next(5)


def digest(feedback: samplers.Feedback) -> dict[str, str]:
    """The axes that the reference squeezes out of graphs of one node are put back first."""
    arrays = reference.with_node_axes(reference.flat(feedback))
    if "output/is_bridge" in arrays:
        arrays["output/is_bridge"] = arrays["output/is_bridge"].reshape(arrays["input/A"].shape)
    return {name: one_digest(x) for name, x in arrays.items()}


if __name__ == "__main__":
    main()
