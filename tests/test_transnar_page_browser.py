"""The page of an answer in a real browser: used by mouse and by keys, on phone and paper (see browser_pages.py)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser_pages import IN_A_BROWSER, LOOKS, Opened, check_accessible, check_fits, picture_folder
from looking_models import CONFIG
from mechgap.algorithms import text
from mechgap.faithfulness.looking import Looked
from mechgap.report import transnar_page
from mechgap.report.transnar_page import write_page
from mechgap.training.transnar import TextModels

pytestmark = IN_A_BROWSER
GRAPH = "bfs:\ns: 0, A: [[1 1 0 0 0], [1 1 1 0 0], [0 1 1 0 1], [0 0 0 1 0], [0 0 1 0 1]]\npi:\n"
KEYS = "insertion_sort:\nkey: [0.548 0.715 0.602 0.544 0.424 0.646 0.438 0.892]\npred:\n"
SAID = {GRAPH: "[0 0 12 3 3]\n\n", KEYS: "[0.424 0.438 0.544 0.548 0.602 0.646 0.715 0.1]\n\n"}
HEADS, LAYERS = 3, 2


def made_up(question: str) -> Looked:
    """An answer with attention that no model has, so that no model has to be run."""
    parsed, ids = text.parse(question), np.array([*text.encode(SAID[question]), text.EOS])
    rng, n = np.random.default_rng(0), parsed.nodes
    nodes = rng.dirichlet(np.full(n, 0.3), (LAYERS, HEADS, len(ids)))
    edges = rng.dirichlet(np.full(n * n, 0.1), (LAYERS, HEADS, len(ids))).reshape(*nodes.shape, n)
    right = text.right_answers([parsed])[0]
    return Looked(parsed, right, ids, (0, 1), np.array([[0.4, -0.1], [-0.9, 0.02]]), nodes, edges)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page about a graph, and one about keys."""
    folder, found = tmp_path_factory.mktemp("pages"), {}
    result = TextModels(CONFIG, (), (), {}, {})
    for name, question in (("graph", GRAPH), ("keys", KEYS)):
        looked, found[name] = made_up(question), folder / f"{name}.html"
        example = text.Example(question, looked.right, looked.question.algorithm, looked.question.nodes)
        said = {"transformer": "[0", "transnar": SAID[question], "reasoner": looked.right}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transnar_page, "look", lambda *_, looked=looked: looked)
            write_page({"transnar": result}, said, example, found[name])
    return found


def bars(opened: Opened) -> list[float]:
    return [float(x) for x in opened.page.locator("#nodes .number").all_text_contents()]


def column(opened: Opened, token: int) -> list[float]:
    """What the table shows of a token, relative to its strongest cell."""
    cells = opened.page.locator(f'.looks td[data-token="{token}"] i')
    return [float(x) for x in cells.evaluate_all("found => found.map((i) => i.style.opacity)")]


def test_the_attention_of_the_token_that_was_chosen(pages: dict[str, Path], visit: Any) -> None:
    opened, looked = visit(pages["graph"]), made_up(GRAPH)
    assert opened.said().startswith("Token 2 of 10, “0”: right"), "it begins with a number"
    for layer, head, token in ((1, 0, 3), (0, 2, 4), (1, 3, 8)):
        opened.page.select_option("#layer", index=layer)
        opened.page.select_option("#head", index=head)
        opened.page.locator(f'.looks button[data-token="{token}"]').click()
        every = looked.nodes[layer].mean(0) if head == 0 else looked.nodes[layer, head - 1]
        np.testing.assert_allclose(bars(opened), every[token], atol=6e-3)
        np.testing.assert_allclose(column(opened, token), every[token] / every.max(), atol=2e-2)
        assert f"looks most at node {every[token].argmax()} (" in opened.said()
        pairs = looked.edges[layer].mean(0) if head == 0 else looked.edges[layer, head - 1]
        i, j = np.unravel_index(pairs[token].argmax(), (5, 5))
        assert f"Strongest: pair ({i}, {j})" in opened.page.inner_text("#edges-note")
        assert opened.page.locator("#graph .node").count() == 5


def test_right_wrong_named_and_about(pages: dict[str, Path], visit: Any) -> None:
    opened = visit(pages["graph"])
    page = opened.page
    assert page.locator(".said tr:has-text('transnar') .wrong").all_inner_texts() == ["1", "2", "3"]
    page.locator('.looks button[data-token="3"]').click()
    assert opened.said().startswith("Token 4 of 10, “ 1”: wrong, should be 1 ·")
    assert "is about node 2" in opened.said()
    assert "names" not in opened.said(), "there is no node 12"
    assert page.locator(".looks td.named").count() == 4
    assert page.locator(".looks td.about").count() == 6
    assert page.locator("#aims table").count() == 2
    assert "4 tokens, at random 20 %" in page.inner_text("#aims caption >> nth=0")


def test_buttons_keys_and_slider_step(pages: dict[str, Path], visit: Any) -> None:
    opened = visit(pages["graph"])
    page = opened.page
    for key, token in (("ArrowRight", 3), ("ArrowRight", 4), ("ArrowLeft", 3)):
        page.keyboard.press(key)
        assert opened.said().startswith(f"Token {token} of 10"), key
    page.click("#next")
    page.focus("#token")
    page.keyboard.press("ArrowRight")
    assert opened.said().startswith("Token 5 of 10")
    page.focus("#previous")
    for key, token in (("End", 10), ("ArrowRight", 10), ("Home", 1), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        assert opened.said().startswith(f"Token {token} of 10"), key
    assert page.get_attribute('.looks button[data-token="0"]', "aria-pressed") == "true"
    page.focus("#head")
    page.keyboard.press("ArrowDown")
    assert page.input_value("#head") == "1"


def test_it_plays_to_the_end(pages: dict[str, Path], visit: Any) -> None:
    opened = visit(pages["graph"])
    opened.page.locator("#token").fill("8")
    opened.page.click("#play")
    opened.until("document.querySelector('#said').textContent.slice(0, 14)", "Token 10 of 10")
    opened.until("document.querySelector('#play').getAttribute('aria-pressed')", "false")


def test_a_far_token_is_scrolled_to(pages: dict[str, Path], visit: Any) -> None:
    opened = visit(pages["keys"], 390)
    opened.page.focus("#previous")
    opened.page.keyboard.press("End")
    assert opened.page.evaluate("document.getElementById('tokens').scrollLeft") > 100
    opened.page.keyboard.press("Home")
    assert opened.page.evaluate("document.getElementById('tokens').scrollLeft") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_enough_contrast(pages: dict[str, Path], visit: Any, scheme: str) -> None:
    for file in pages.values():
        opened = visit(file, scheme=scheme)
        opened.page.keyboard.press("ArrowRight")
        check_accessible(opened.page)
        assert opened.page.get_attribute("#said", "aria-live") == "polite"


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_it_fits_the_screen(pages: dict[str, Path], visit: Any, tmp_path: Path, width: int, scheme: str) -> None:
    kept = picture_folder(tmp_path)
    for name, file in pages.items():
        check_fits(visit(file, width, scheme).page, width, kept / f"looking-{name}-{width}-{scheme}.png")


def test_it_prints_on_white(pages: dict[str, Path], visit: Any, tmp_path: Path) -> None:
    page = visit(pages["keys"], 794, "dark").page
    assert page.pdf(path=picture_folder(tmp_path) / "looking-print.pdf", format="A4").startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.is_visible("#play")
    assert page.evaluate("document.querySelector('.looks').getBoundingClientRect().right") <= 794
