"""The page of an execution in a real browser: used by mouse and by keys, on phone and paper (see browser_pages.py)."""

import re
from pathlib import Path
from typing import Any

import pytest

import mechgap as mg
from browser_pages import IN_A_BROWSER, LOOKS, Opened, check_accessible, check_fits, picture_folder
from mechgap.report.alta_page import write_page

pytestmark = IN_A_BROWSER
SHOWN = {
    "parity_sequential_relative": "1011",
    "addition": "789+456",
    "scan_parser": "jump twice and walk left",
    "scan": "jump around left thrice and walk opposite right thrice",
    "sort": "3 1 2",
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page for every program."""
    folder, found = tmp_path_factory.mktemp("pages"), {}
    for name, text in SHOWN.items():
        program, found[name] = mg.program(name), folder / f"{name}.html"
        write_page(program.interpret([program.encode(text)]), text, found[name])
    return found


def values(opened: Opened, name: str) -> list[str]:
    return opened.page.locator(f'#stream tr[data-name="{name}"] td').all_inner_texts()


def changed(opened: Opened, name: str) -> int:
    return opened.page.locator(f'#stream tr[data-name="{name}"] td.changed').count()


def rules(opened: Opened) -> list[str]:
    return opened.page.locator("#rules tbody th").all_inner_texts()


def test_states_show_the_stream_of_the_interpreter(pages: dict[str, Path], visit: Any) -> None:
    program = mg.program("addition")
    trace = program.interpret([program.encode("789+456")])
    opened = visit(pages["addition"])
    for layer in range(1, 6):
        opened.page.locator("#layer").fill(str(layer))
        for state, stream in enumerate((trace.streams[layer - 1], trace.attended[layer - 1], trace.streams[layer])):
            opened.page.locator(f"input[name=state][value='{state}']").check()
            assert opened.said().startswith(f"Layer {layer} of 5, {('start', 'after attention', 'after rules')[state]}")
            for name in program.readable:
                meant = stream[name][0].tolist() if name in stream else [-1] * 9
                assert values(opened, name) == ["∅" if x < 0 else str(x) for x in meant]
            assert state or not opened.page.locator("td.changed").count()
        differs = (trace.streams[layer - 1]["at_a"] != trace.streams[layer]["at_a"]).sum()
        assert changed(opened, "at_a") == differs


def test_buttons_keys_and_slider_step(pages: dict[str, Path], visit: Any) -> None:
    opened = visit(pages["parity_sequential_relative"])
    page = opened.page
    assert opened.said() == "Layer 1 of 4, start"
    for key, said in (
        ("ArrowRight", "Layer 1 of 4, after attention"),
        ("ArrowRight", "Layer 1 of 4, after rules"),
        ("ArrowRight", "Layer 2 of 4, after attention"),
        ("ArrowLeft", "Layer 1 of 4, after rules"),
        ("ArrowLeft", "Layer 1 of 4, after attention"),
        ("ArrowLeft", "Layer 1 of 4, start"),
        ("ArrowLeft", "Layer 1 of 4, start"),
    ):
        page.keyboard.press(key)
        assert opened.said().startswith(said), key
    page.click("#next")
    page.focus("#layer")
    page.keyboard.press("ArrowRight")
    assert opened.said().startswith("Layer 2 of 4, after attention"), "on the slider, keys change the layer"
    assert page.get_attribute("#layer", "aria-valuetext") == "Layer 2 of 4, after attention"
    page.focus("#previous")
    page.keyboard.press("End")
    assert opened.said().startswith("Layer 4 of 4, after rules")
    page.keyboard.press("ArrowRight")
    assert opened.said().startswith("Layer 4 of 4, after rules")
    page.keyboard.press("Home")
    assert opened.said() == "Layer 1 of 4, start"


def test_it_plays_to_the_end_and_again(pages: dict[str, Path], visit: Any) -> None:
    opened = visit(pages["parity_sequential_relative"])
    opened.page.locator("#layer").fill("4")
    opened.page.click("#play")
    assert opened.page.get_attribute("#play", "aria-pressed") == "true"
    opened.until("document.querySelector('#said').textContent.slice(0, 27)", "Layer 4 of 4, after rules ·")
    opened.until("document.querySelector('#play').getAttribute('aria-pressed')", "false")
    opened.page.click("#play")
    assert opened.said() == "Layer 1 of 4, start", "playing at the end starts again"
    opened.page.click("#play")
    assert opened.page.inner_text("#play") == "Play"
    opened.page.focus("#stream")
    opened.page.keyboard.press(" ")
    assert opened.page.inner_text("#play") == "Pause"


def test_a_click_filters_rules_and_marks_attention(pages: dict[str, Path], visit: Any) -> None:
    opened = visit(pages["addition"])
    page = opened.page
    page.locator("#layer").fill("3")
    everything = rules(opened)
    page.locator('#stream button[data-position="6"]').click()
    assert page.input_value("#position") == "6"
    at_6 = rules(opened)
    assert 0 < len(at_6) < len(everything)
    assert "at position 6" in page.inner_text("#rules-heading")
    assert "position 6 looks at 7, reads" in page.inner_text("#attention figure >> nth=0")
    assert page.locator('.chosen-row[visibility="visible"]').count() == 7
    page.locator('#stream tr[data-name="carry"] td[data-position="6"]').click()
    assert rules(opened) == [rule for rule in at_6 if "carry" in rule] != []
    assert page.input_value("#name") == "carry"
    page.locator('#stream tr[data-name="carry"] td[data-position="6"]').click()
    assert rules(opened) == everything, "once more shows all"
    matrix = page.locator("#attention svg").first
    box = matrix.bounding_box()
    matrix.click(position={"x": box["width"] / 2, "y": box["height"] * 0.15})
    assert page.input_value("#position") == "0"
    page.select_option("#position", "")
    page.select_option("#name", "out")
    assert rules(opened) == [rule for rule in everything if re.search(r"\bout\b", rule)] != []


def test_attention_is_drawn_cell_by_cell(pages: dict[str, Path], visit: Any) -> None:
    opened = visit(pages["parity_sequential_relative"])
    cells = opened.page.locator("#attention .cell").first.get_attribute("d")
    assert cells.count("M") == 4, "positions 1 to 4 look at their left neighbour"
    label = opened.page.locator("#attention svg").first.get_attribute("aria-label")
    assert label == "Attention of parity_left in layer 1: reads something at 1–4"


def test_the_parse_goes_to_its_layers(pages: dict[str, Path], visit: Any) -> None:
    opened = visit(pages["scan_parser"])
    opened.page.get_by_role("button", name="Go to layer 14").click()
    assert opened.said().startswith("Layer 14 of 22, after rules")
    assert "reduce walk" in opened.page.inner_text("#parse tr.now")


def test_a_far_column_is_scrolled_to(pages: dict[str, Path], visit: Any) -> None:
    opened = visit(pages["scan"], 390)
    opened.page.select_option("#position", "57")
    assert opened.page.evaluate("document.getElementById('stream').scrollLeft") > 500
    opened.page.select_option("#position", "0")
    assert opened.page.evaluate("document.getElementById('stream').scrollLeft") == 0


def test_no_layer_and_an_execution_that_went_wrong(visit: Any, tmp_path: Path) -> None:
    parity = mg.program("parity_sequential_relative")
    write_page(parity.interpret([[2]]), "2", tmp_path / "none.html")
    opened = visit(tmp_path / "none.html")
    assert opened.said() == "No layer was run: it had ended before the first"
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("ArrowLeft")
    assert values(opened, "done") == ["1"]
    write_page(parity.interpret([[2, 1, 1]], layers=1), "11", tmp_path / "wrong.html")
    opened = visit(tmp_path / "wrong.html")
    assert "has not ended after 1 layers" in opened.page.inner_text("[role=alert]")
    check_accessible(opened.page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["addition", "scan_parser"])
def test_everything_has_a_name_and_enough_contrast(pages: dict[str, Path], visit: Any, name: str, scheme: str) -> None:
    opened = visit(pages[name], scheme=scheme)
    for _ in range(2):
        opened.page.keyboard.press("ArrowRight")
        check_accessible(opened.page)
    assert opened.page.get_attribute("#said", "aria-live") == "polite"


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_it_fits_the_screen(pages: dict[str, Path], visit: Any, tmp_path: Path, width: int, scheme: str) -> None:
    kept = picture_folder(tmp_path)
    for name, file in pages.items():
        page = visit(file, width, scheme).page
        page.keyboard.press("ArrowRight")
        check_fits(page, width, kept / f"{name}-{width}-{scheme}.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_prints_on_white_with_every_column(pages: dict[str, Path], visit: Any, tmp_path: Path, scheme: str) -> None:
    page = visit(pages["scan"], 794, scheme).page
    pdf = page.pdf(path=picture_folder(tmp_path) / f"scan-print-{scheme}.pdf", format="A4")
    assert pdf.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.is_visible("#play")
    assert page.evaluate("document.querySelector('.stream').getBoundingClientRect().right") <= 794
