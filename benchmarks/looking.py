"""Where TransNAR looks while it answers: how often the most attended node is the one that a token aims at.

Run `python benchmarks/looking.py`: it asks the demonstration's model (minutes on one core) and writes looking.json
beside it, from which the table in docs/transnar.md is taken. All layers and heads are kept. One head is chosen, the one
that finds its aim most often in the first half of the questions; what is said of it is counted in the other half. A
kind of aim that no token of an algorithm's answers has is left out.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.algorithms import text
from mechgap.faithfulness.looking import AIMS, Looked, hits, look
from mechgap.storage import write_text
from mechgap.training.transnar import EvaluationConfig, TextModels
from mechgap.training.transnar.study import load_study

FOLDER, FILE, MODEL = Path("results/transnar-demo"), "looking.json", "transnar"
DIGITS = 4


def measured(result: TextModels, algorithm: str, n: int, count: int, seed: int) -> list[dict[str, Any]]:
    """One row per kind of aim that an algorithm's answers have."""
    looks = [look(result, example) for example in text.sample(algorithm, n, count, seed=seed)]
    return [row for aim in AIMS if (row := {"algorithm": algorithm, "aim": aim, **row_of(looks, aim)})["tokens"]]


def row_of(looks: Sequence[Looked], aim: str) -> dict[str, Any]:
    """Shares by layer: the mean over heads first, then every head; and one head chosen on other questions."""
    found = hits(looks, aim)
    share, dealt = (np.round(x, DIGITS).tolist() for x in (found.share, found.dealt))
    about = {"tokens": found.tokens, "random": round(found.random, DIGITS), "share": share, "dealt": dealt}
    return {**about, "best": best_head(looks, aim)} if found.tokens else about


def best_head(looks: Sequence[Looked], aim: str) -> dict[str, Any]:
    """The head with the largest share in the first half, counted from 0, and what it has in the other half."""
    half = len(looks) // 2
    first, other = hits(looks[:half], aim), hits(looks[half:], aim)
    layer, head = np.unravel_index(np.argmax(first.share[:, 1:]), first.share[:, 1:].shape)
    share, dealt = (round(float(x[layer, 1 + head]), DIGITS) for x in (other.share, other.dealt))
    return {"layer": int(layer), "head": int(head), "tokens": other.tokens, "share": share, "dealt": dealt}


def main() -> None:
    """Ask, write, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="trained text models")
    parser.add_argument("--n", type=int, default=10)
    parser.add_argument("--count", type=int, default=512, help="questions of every algorithm")
    given = parser.parse_args()
    result, seed = load_study(given.folder)[MODEL], EvaluationConfig().seed
    about = {"model": result.manifest["fingerprints"][0], "n": given.n, "questions": given.count, "seed": seed}
    rows = []
    for algorithm in result.config.algorithms:
        rows += measured(result, algorithm, given.n, given.count, seed)
        print(algorithm, flush=True)
    layers = list(result.models[0].config.looking)
    write_text(given.folder / FILE, json.dumps({**about, "layers": layers, "rows": rows}, indent=1) + "\n")
    print(f"wrote {given.folder / FILE}")


if __name__ == "__main__":
    main()
