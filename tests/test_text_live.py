"""CLRS-Text against the real generator, live: it writes in its own environment (`make oracle`), as a subprocess."""

import json

import numpy as np
import pytest

import mechgap as mg
from test_oracle_live import PYTHON, ask

# The reference breaks ties by an unstable sort where there is more than this to sort.
STABLE_UP_TO = 16
SORTED_INPUT = {"activity_selector": "f", "task_scheduling": "w"}
SORTED_HINT = {"dijkstra": "d", "mst_prim": "key"}  # of the nodes in the queue, at every frame
MAY_TIE = (*SORTED_INPUT, *SORTED_HINT, "mst_kruskal")
COUNT, FEW = 20, 2  # few where texts have megabytes
# How many answers differ, by (algorithm, n, decimals, hints): as NumPy's scalar sort breaks ties (see reference.py).
# A trace shows in which order equal numbers came; the answer alone rarely depends on it.
DIFFERENT = {
    ("activity_selector", 64, 3, False): 1,
    ("mst_prim", 64, 3, False): 2,
    ("dijkstra", 64, 3, True): 1,
    ("mst_kruskal", 64, 3, True): 1,
    ("mst_prim", 64, 3, True): 2,
    ("task_scheduling", 64, 3, True): 2,
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="no oracle environment; `make oracle` installs dm-clrs into it"),
]


def cases(name: str) -> list[list]:
    """[algorithm, n, seed, count, decimals, hints]"""
    at_64 = 5 if name == "matrix_chain_order" else COUNT  # the reference takes three seconds for one of 64
    with_hints = [[name, n, 77 + n, count, 3, True] for n, count in ((4, COUNT), (16, COUNT), (64, FEW))]
    without = [[name, n, 77 + n, at_64 if n == 64 else COUNT, 3, False] for n in (4, 16, 17, 33, 64)]
    # Three decimals make ties likely at 64 nodes; with all of them there is none, and no answer may differ.
    untied = [[name, 64, 77 + 64, count, None, hints] for count, hints in ((COUNT, False), (FEW, True))]
    return [*with_hints, *without, [name, 16, 5, COUNT, None, False], *(untied if name in MAY_TIE else ())]


def has_tie(name: str, question: str) -> bool:
    """Whether numbers that the reference puts in order are equal, so that its answer may be another."""
    inputs = mg.text.parse(question).inputs
    if name in SORTED_INPUT:
        (given,) = inputs[SORTED_INPUT[name]]
    elif name == "mst_kruskal":
        (weights,) = np.triu(inputs["A"], 1)
        given = weights[weights > 0]
    elif name in SORTED_HINT:
        hints = mg.algorithm(name).trace(**inputs).hints
        queue = np.where(hints["in_queue"] > 0, hints[SORTED_HINT[name]], np.inf)[:, 0]
        first, second = np.sort(queue)[:, :2].T
        return bool(np.any((first == second) & (first < np.inf)))
    else:
        return False
    return len(np.unique(given)) < len(given)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list]:
    """By algorithm, what the reference writes for each of its cases."""
    folder = tmp_path_factory.mktemp("text")
    asked = [case for name in mg.text.ALGORITHMS for case in cases(name)]
    (folder / "question.json").write_text(json.dumps(asked))
    ask("answer_text.py", folder / "question.json", folder / "answer.json")
    answers = iter(json.loads((folder / "answer.json").read_text()))
    return {name: [next(answers) for _ in cases(name)] for name in mg.text.ALGORITHMS}


@pytest.mark.parametrize("name", mg.text.ALGORITHMS)
def test_strings_are_the_references(name: str, reference: dict[str, list]) -> None:
    for (_, n, seed, count, decimals, hints), theirs in zip(cases(name), reference[name], strict=True):
        ours = mg.text.sample(name, n, count, seed=seed, hints=hints, decimals=decimals)
        # As one truth: to show how texts of megabytes differ takes longer than to write them.
        assert all(e.question == question for e, (question, _) in zip(ours, theirs, strict=True)), (n, decimals, hints)
        different = [i for i, (e, (_, answer)) in enumerate(zip(ours, theirs, strict=True)) if e.answer != answer]
        unexplained = [i for i in different if n <= STABLE_UP_TO or not has_tie(name, ours[i].question)]
        assert not unexplained, (n, unexplained)
        assert len(different) == DIFFERENT.get((name, n, decimals, hints), 0), (n, decimals, hints, different)
        assert decimals is not None or not any(has_tie(name, e.question) for e in ours)
        print(name, n, 2 * count, "strings,", len(different), "different")
