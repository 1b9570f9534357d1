"""Where TransNAR looks: attention per token of an answer, at whom it aims, and the page that shows it."""

import json
import re
import runpy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from looking_models import CONFIG, looking, plain
from mechgap.algorithms import text
from mechgap.cli import app
from mechgap.faithfulness.looking import Looked, hits, look, right_tokens
from mechgap.report import transnar_page
from mechgap.report.transnar_page import looking_model, page_data, render
from mechgap.training.transnar import TextModels
from mechgap.training.transnar.evaluation import answers, positions_to_answer, room_for
from mechgap.training.transnar.reasoner import questions_asked
from mechgap.training.transnar.study import save_study

BFS = "bfs:\ns: 0, A: [[1 1 0 0], [1 1 1 0], [0 1 1 0], [0 0 0 1]]\npi:\n"
RIGHT = "[0 0 1 3]\n\n"


@pytest.fixture(scope="module")
def result() -> TextModels:
    return looking()


@pytest.fixture(scope="module")
def study(result: TextModels) -> dict[str, TextModels]:
    return {"transformer": plain(), "transnar": result}


@pytest.fixture(scope="module")
def looked(result: TextModels) -> Looked:
    return look(result, BFS)


# Attention


def test_rows_are_those_of_the_places_that_decide(result: TextModels, looked: Looked) -> None:
    """Held against a plain forward pass over the question and the answer, whose logits also choose the tokens."""
    example = text.Example(BFS, RIGHT, "bfs", 4)
    model, asked = result.models[0], [text.BOS, *text.encode(BFS)]
    reasoner = result.reasoners[0]
    memory = eqx.filter_jit(reasoner.memory)(questions_asked(reasoner, [text.parse(BFS)]), None)
    at = positions_to_answer(CONFIG, [example], sum(room_for(example, CONFIG.context)), seed=0)[0]
    ids = jnp.array([*asked, *looked.ids[:-1]], jnp.int32)
    alone = type(memory)(*(x[0] for x in memory))
    logits, weights = eqx.filter_jit(model.watch)(ids, jnp.asarray(at[: len(ids)]), alone)
    assert np.argmax(logits[len(asked) - 1 :], -1).tolist() == looked.ids.tolist()
    np.testing.assert_allclose(looked.nodes, weights.nodes[:, :, len(asked) - 1 :], atol=1e-5)
    np.testing.assert_allclose(
        looked.edges.reshape(*looked.nodes.shape[:3], 16), weights.edges[:, :, len(asked) - 1 :], atol=1e-5
    )


def test_attention_of_every_head_sums_to_one(result: TextModels, looked: Looked) -> None:
    assert looked.right == RIGHT
    assert looked.nodes.shape == (1, 2, len(looked.ids), 4)
    assert looked.layers == (1,)
    np.testing.assert_allclose(looked.nodes.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(looked.edges.sum((-2, -1)), 1, rtol=1e-5)
    np.testing.assert_allclose(looked.gates, np.tanh(result.models[0].crosses.gates))


@pytest.mark.slow
def test_a_state_for_every_layer_can_be_looked_at() -> None:
    found = look(looking(replace(CONFIG, reads="per_layer", cross_attention="all")), BFS)
    assert found.nodes.shape[:2] == (2, 2)
    assert found.layers == (0, 1)


# Aims


def said(question: str, answer: str, nodes: Any = None) -> Looked:
    """An answer that was made up; attention where it matters."""
    parsed, ids = text.parse(question), np.array([*text.encode(answer), text.EOS])
    weights = np.zeros((1, 1, len(ids), parsed.nodes)) if nodes is None else np.eye(parsed.nodes)[nodes][None, None]
    edges = np.zeros((*weights.shape, parsed.nodes))
    return Looked(parsed, text.right_answers([parsed])[0], ids, (0,), np.zeros((1, 2)), weights, edges)


SORT = "insertion_sort:\nkey: [0.5 0.25 0.5]\npred:\n"
SELECT = "activity_selector:\ns: [0.1 0.2 0.5], f: [0.2 0.3 0.6]\nselected:\n"
ORDER = "topological_sort:\nA: [[0 0 0], [1 0 0], [0 1 0]]\ntopo, topo_head:\n"
PATHS = "floyd_warshall:\nA: [[0.0 0.5], [0.5 0.0]]\nPi:\n"
HINTS = "insertion_sort:\nkey: [0.5 0.2], initial_trace: [0.5 0.2]\ntrace | pred:\n"
N = -1
AIMS: list[tuple[str, str, Sequence[int], Sequence[int]]] = [
    (BFS, "[0 0 1 3]", [N, 0, 0, 1, 3, N, N], [N, 0, 1, 2, 3, N, N]),
    (BFS, "[12 7 3", [N, N, N, N, 3, N], [N, 0, 0, 1, 2, N]),  # no nodes 12 and 7; numbers of two tokens
    (BFS, "[0 0 0 0 0]", [N, 0, 0, 0, 0, N, N, N], [N, 0, 1, 2, 3, N, N, N]),  # there is no fifth node
    ("minimum:\nkey: [0.5 0.25]\nmin:\n", "1\n\n", [1, N, N], [N, N, N]),
    (SORT, "[0.25 0.5", [N, 1, 1, 1, N, N, N], [N] * 7),  # two nodes have the key 0.5
    (SELECT, "[1 0 1]", [N] * 6, [N, 0, 1, 2, N, N]),  # a mask names nobody
    (ORDER, "[0 0 1], 2", [N, 0, 0, 1, N, N, 2, N], [N, 0, 1, 2, N, N, N, N]),
    (PATHS, "[[0 1], [1 1]]", [N, 0, 1, N, 1, 1, N, N], [N] * 8),
    (HINTS, "[0.2 0.5] | [0.2 0.5]", [N] * 14, [N] * 14),
]


@pytest.mark.parametrize(("question", "answer", "named", "about"), AIMS)
def test_whom_tokens_name_and_are_about(question: str, answer: str, named: Sequence[int], about: Sequence[int]) -> None:
    found = said(question, answer)
    assert found.named.tolist() == list(named)
    assert found.about.tolist() == list(about)


def test_hits_beside_chance() -> None:
    answer, aims = "[0 0 1 3]", [0, 0, 0, 1, 3, 0, 0]
    at_names = hits(said(BFS, answer, aims))
    assert (at_names.share.tolist(), at_names.tokens, at_names.random) == ([[1, 1]], 4, 0.25)
    np.testing.assert_allclose(at_names.dealt, 6 / 16)  # 2 of 4 twice, and 1 of 4 twice: 4/16 + 1/16 + 1/16
    at_own = hits(said(BFS, answer, [0, 0, 1, 2, 3, 0, 0]), "about")
    assert (at_own.share.tolist(), at_own.dealt.tolist()) == ([[1, 1]], [[0.25, 0.25]])
    always_there = hits(said(BFS, answer, [0] * 7))
    assert always_there.share.tolist() == always_there.dealt.tolist() == [[0.5, 0.5]]


def test_hits_over_several_questions() -> None:
    minimum = "minimum:\nkey: [0.5 0.25]\nmin:\n"
    found = hits([said(minimum, "1\n\n", [1, 0, 0]), said(minimum, "0\n\n", [0, 0, 0]), said(BFS, "[0", [0, 2, 0])])
    assert found.tokens == 3
    np.testing.assert_allclose(found.share, 2 / 3)
    np.testing.assert_allclose(found.dealt, (1 * 1 + 1 * 2) / 9)
    np.testing.assert_allclose(found.random, (0.5 + 0.5 + 0.25) / 3)


def test_the_best_head_is_chosen_on_other_questions_than_it_is_counted_on() -> None:
    right, wrong = (said(BFS, "[0 0", aims) for aims in ([0, 0, 0, 0], [3, 3, 3, 3]))

    def two(*heads: Looked) -> Looked:
        nodes, edges = (np.concatenate([getattr(head, k) for head in heads], axis=1) for k in ("nodes", "edges"))
        return replace(heads[0], nodes=nodes, edges=edges)

    best_head = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks/looking.py"))["best_head"]
    found = best_head([two(wrong, right), two(right, wrong)], "named")  # the other half alone would choose the first
    assert found == {"layer": 0, "head": 1, "tokens": 2, "share": 0.0, "dealt": 0.0}
    assert best_head([two(wrong, right)] * 2, "named")["share"] == 1.0


def test_no_hits_where_nobody_is_aimed_at() -> None:
    found = hits(said(SELECT, "[1 0 1]"))
    assert found.tokens == 0
    assert np.isnan(found.share).all()
    with pytest.raises(ValueError, match="Tokens aim at the node 'named' or 'about'; got 'nmaed'"):
        hits(said(BFS, "[0"), "nmaed")


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("[0 0 1 3]\n\n", "11111111"),
        ("[0 0 2 3]\n\n", "11101111"),
        ("[0 0 12 3]\n\n", "111001111"),  # a number as a whole
        ("[0 0 1]\n\n", "1111000"),  # ends early
        ("[0 0 1 3 3]\n\n", "111110000"),
        ("[0, 0 1 3]", "11011111"),
        ("0 0 1 3]\n\n", "1111111"),
        ("", "0"),
    ],
)
def test_right_and_wrong_tokens(answer: str, right: str) -> None:
    found = right_tokens(np.array([*text.encode(answer), text.EOS]), RIGHT)
    assert "".join(str(int(ok)) for ok in found) == right


def test_tokens_that_say_nothing_are_wrong() -> None:
    ids = np.array([*text.encode("[0 0 1 3]"), text.PAD, text.BOS, text.EOS])
    assert right_tokens(ids, RIGHT).tolist() == [True] * 6 + [False, False, True]
    assert right_tokens(np.array([*text.encode("0.50")]), "0.5").all()


# The page


def page_of(html: str) -> dict[str, Any]:
    return json.loads(re.search(r'id="page-data">(.*?)</script>', html, re.DOTALL)[1])


def unpacked(page: transnar_page.PageData, name: str) -> np.ndarray:
    import base64
    import gzip

    raw = np.frombuffer(gzip.decompress(base64.b64decode(page.blobs[name])), np.uint8)
    return (raw.reshape(page.values[name]["shape"]) / 255) ** 2


def test_the_data_are_what_was_looked_at(looked: Looked) -> None:
    page = page_data(looked)
    nodes, edges = unpacked(page, "nodes"), unpacked(page, "edges")
    np.testing.assert_allclose(nodes[:, 1:], looked.nodes, atol=1 / 250)
    np.testing.assert_allclose(nodes[:, 0], looked.nodes.mean(1), atol=1 / 250)
    np.testing.assert_allclose(edges[:, 1:].reshape(looked.edges.shape), looked.edges, atol=1 / 250)
    assert page.values["kept"] == {"nodes": "every head", "edges": "every head"}
    assert page.values["layers"] == [2]
    assert page.values["notes"] == ["s", "", "", ""]
    assert page.values["adjacency"] == ["1100", "1110", "0110", "0001"]
    assert page.values["tokens"] == [text.VOCABULARY[i] for i in looked.ids]


def test_what_has_no_room_is_averaged(looked: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transnar_page, "ROOM", 1)
    page = page_data(looked)
    assert page.values["kept"] == dict.fromkeys(("nodes", "edges"), "mean over heads and layers")
    assert page.values["edges"]["shape"] == [1, 1, len(looked.ids), 16]
    np.testing.assert_allclose(unpacked(page, "nodes")[0, 0], looked.nodes.mean((0, 1)), atol=1 / 250)


def test_the_page_has_everything(study: dict[str, TextModels]) -> None:
    example = text.Example(BFS, RIGHT, "bfs", 4)
    given = {"transformer": "[0 0 2 3]\n\n", "transnar": "", "reasoner": "[0 0 1 3]\n\n"}
    html = render(study, given, example)
    assert '<span class="wrong">2</span>' in html
    assert re.search(r"transformer</th>.*?<td>1.00</td><td>1.00</td><td>0.75</td>", html, re.DOTALL)
    assert "(nothing)" in html
    gates = np.tanh(study["transnar"].models[0].crosses.gates[0])
    assert all(f"{x:+.3f}" in html for x in gates.tolist())
    assert page_of(html)["n"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 12])
def test_a_long_answer_without_a_graph_has_a_small_page(study: dict[str, TextModels], n: int) -> None:
    example = text.sample("insertion_sort", n, 1)[0]
    html = render(study, {"transnar": example.answer}, example)
    assert len(html) < 300e3
    assert page_of(html)["adjacency"] == []
    assert all(re.fullmatch(r"key 0\.\d+", note) for note in page_of(html)["notes"])


@pytest.mark.slow
def test_the_command_writes_one_page_that_loads_nothing(
    study: dict[str, TextModels], result: TextModels, looked: Looked, tmp_path: Path
) -> None:
    save_study(tmp_path, study)
    out = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["transnar", "answer", str(tmp_path), "--html", str(out)], input=BFS)
    assert done.exit_code == 0, done.output
    assert f"wrote {out}" in done.output.replace("\n", "")
    html = out.read_text()
    assert len(html) < 300e3
    for words in ("transformer", "transnar", "reasoner", "Where transnar looks: bfs, n = 4", "[0 0 1 3]"):
        assert words in html
    example = text.Example(BFS, RIGHT, "bfs", 4)
    assert answers(result.models[0], CONFIG, result.reasoners[0], [example]) == [looked.answer], "as it was printed"
    assert not re.search(r"https?://|<(link|img|iframe)\b|<script[^>]+src=|@import|url\(", html)


# What is refused

ASK = ("--question", "bfs:\\ns: 0, A: [[1 1], [1 1]]\\npi:")
REFUSED = [
    (["plain", "--html", "a.html", *ASK], "No model here looks at a reasoner; got transformer. Train one"),
    (
        ["both", "--html", "a.html", "--model", "transformer", *ASK],
        "'transformer' looks at no reasoner. Those that look: transnar",
    ),
    (["both", "--html", "a.html", "--model", "transnra", *ASK], "'transnra' is not here. Those that look: transnar"),
    (
        ["both", "--html", "a.html", "--question", "dfs:\\nA: [[1 1], [1 1]]\\npi:"],
        "does not know 'dfs'. Did you mean 'bfs'",
    ),
    (["both", "--html", "a.html", "--question", "bfs"], "three lines"),
    (["both", "--html", "no/a.html", *ASK], "Cannot write no/a.html: the folder no does not exist"),
    (["both", "--html", "plain", *ASK], "Cannot write plain: it is a folder"),
    (["both", "--html", "/proc/a.html", *ASK], "Cannot write into /proc"),
    (["both", "--model", "transnar", *ASK], "--model chooses whom a page is about; give --html, too"),
    (["nothing", "--html", "a.html", *ASK], "holds neither a study nor trained text models"),
]


@pytest.mark.parametrize(("words", "says"), REFUSED)
def test_what_cannot_be_shown_is_refused(
    words: list[str], says: str, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    with pytest.raises((ValueError, OSError), match=re.escape(says)):
        CliRunner().invoke(app, ["transnar", "answer", *words], catch_exceptions=False)
    assert not (made / "a.html").exists()


@pytest.fixture(scope="module")
def made(study: dict[str, TextModels], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    save_study(folder / "both", study)
    save_study(folder / "plain", {"transformer": study["transformer"]})
    return folder


def test_a_model_that_looks_is_chosen(study: dict[str, TextModels], result: TextModels) -> None:
    assert looking_model(study) == "transnar"
    assert looking_model({"plain": study["transformer"], "other": result}) == "other"
    assert looking_model({"transnar": result, "other": result}, "other") == "other"
    with pytest.raises(ValueError, match=r"looks at no reasoner\. Give one that was trained with it"):
        look(study["transformer"], BFS)
    with pytest.raises(ValueError, match="sees the states of other questions: where it looks in its own says nothing"):
        look(replace(result, config=replace(result.config, memory="shuffled")), BFS)
