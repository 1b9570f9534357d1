"""CLRS-Text against the real generator, live: it writes in its own environment (`make oracle`), as a subprocess."""

import json

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
    few = 5 if name == "matrix_chain_order" else COUNT  # the reference takes three seconds for one of 64
    sizes = [[name, n, 77 + n, COUNT, 3, hints] for n in (4, 16) for hints in (False, True)]
    return [*sizes, [name, 16, 5, COUNT, None, False], [name, 64, 77 + 64, few, 3, False]]


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
        assert [e.question for e in ours] == [question for question, _ in theirs]
        different = [i for i, (e, (_, answer)) in enumerate(zip(ours, theirs, strict=True)) if e.answer != answer]
        allowed = count // 4 if name in TIES and n > STABLE_UP_TO else 0
        assert len(different) <= allowed, (n, different)
        print(name, n, 2 * count, "strings,", len(different), "different")
