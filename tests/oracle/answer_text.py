"""Write CLRS-Text with the reference package, as JSON. Used by test_text_live.py.

answer_text.py QUESTION ANSWER    QUESTION is a list of [algorithm, n, seed, count, decimals, hints]
"""

import json
import sys
from pathlib import Path

import reference  # noqa: F401  before anything that imports numpy

# isort: split
import text_reference


def main(question: str, answer: str) -> None:
    asked = json.loads(Path(question).read_text())
    Path(answer).write_text(json.dumps([text_reference.written(*case) for case in asked]))


if __name__ == "__main__":
    main(*sys.argv[1:])
