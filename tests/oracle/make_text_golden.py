"""Write tests/golden/text.json.gz from the real package. Run it in the oracle environment: `make golden`.

A case is one call of the reference's generator: what it was asked for, and every question and answer it wrote; long
strings are kept as their SHA-256.
"""

import argparse
import gzip
import hashlib
import json
from pathlib import Path

import reference  # before anything that imports numpy

# isort: split
import text_reference

SEED = 2024
# n, samples, decimals, with hints
CASES = ((4, 4, 3, False), (4, 4, 3, True), (4, 4, None, False), (5, 4, 3, False), (5, 4, 3, True))
CASES += ((16, 2, 3, False), (16, 2, 3, True), (64, 2, 3, False))
LONG = 400


def main() -> None:
    """Write the file given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).parents[1] / "golden" / "text.json.gz"
    parser.add_argument("path", nargs="?", type=Path, default=default)
    path = parser.parse_args().path
    cases = [case for name in text_reference.ALGORITHMS for case in cases_of(name)]
    blob = json.dumps({"package": reference.PACKAGE, "long": LONG, "cases": cases}, indent=0).encode()
    path.write_bytes(gzip.compress(blob, mtime=0))


def cases_of(name: str) -> list[dict]:
    """Every case of one algorithm."""
    print(name, flush=True)
    keys = ("n", "count", "decimals", "hints")
    asked = [{"algorithm": name, "seed": SEED, **dict(zip(keys, case, strict=True))} for case in CASES]
    return [{**case, "written": strings(case)} for case in asked]


def strings(case: dict) -> list[list[str]]:
    """[question, answer] of every sample."""
    arguments = (case[key] for key in ("algorithm", "n", "seed", "count", "decimals", "hints"))
    return [[kept(text) for text in pair] for pair in text_reference.written(*arguments)]


def kept(text: str) -> str:
    """The text, or its digest where it is long; tests/test_text.py does the same."""
    return text if len(text) <= LONG else "sha256 " + hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    main()
