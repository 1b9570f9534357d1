"""CLRS-Text against the real generator, live: it writes in its own environment (`make oracle`), as a subprocess."""

import json
from pathlib import Path

import pytest

import mechgap as mg
from test_oracle_live import PYTHON, ask

# The reference breaks ties by an unstable sort where there is more than this to sort.
TIES = ("activity_selector", "dijkstra", "mst_kruskal", "mst_prim", "task_scheduling")
STABLE_UP_TO = 16
COUNT = 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="no oracle environment; `make oracle` installs dm-clrs into it"),
]


def cases(name: str) -> list[list]:
    """[algorithm, n, seed, count, decimals, hints]"""
    sizes = [[name, n, 77 + n, COUNT, 3, hints] for n in (4, 5, 16) for hints in (False, True)]
    few = 5 if name == "matrix_chain_order" else COUNT  # the reference takes three seconds for one
    return [*sizes, [name, 7, 5, COUNT, None, False], [name, 64, 77 + 64, few, 3, False]]


def test_strings_are_the_references(tmp_path: Path) -> None:
    asked = [case for name in mg.text.ALGORITHMS for case in cases(name)]
    (tmp_path / "question.json").write_text(json.dumps(asked))
    ask("answer_text.py", tmp_path / "question.json", tmp_path / "answer.json")
    different, compared = [], 0
    for case, theirs in zip(asked, json.loads((tmp_path / "answer.json").read_text()), strict=True):
        name, n, seed, count, decimals, hints = case
        ours = mg.text.sample(name, n, count, seed=seed, hints=hints, decimals=decimals)
        compared += 2 * len(ours)
        for example, (question, answer) in zip(ours, theirs, strict=True):
            assert example.question == question, case
            different += [(name, n)] * (example.answer != answer)
    assert compared >= 9000
    assert all(name in TIES and n > STABLE_UP_TO for name, n in different), different
    assert len(different) <= 10, different
