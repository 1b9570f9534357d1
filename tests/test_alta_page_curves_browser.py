"""The page of curves in a real browser (see browser_pages.py)."""

from pathlib import Path
from typing import Any

import pytest

from browser_pages import IN_A_BROWSER, LOOKS, check_accessible, picture_folder
from mechgap.report.alta_curves import trainings, write_curves
from test_alta_page_curves import write_training

pytestmark = IN_A_BROWSER
NAMES = (
    "relative_8",
    "relative_8_shared",
    "relative_40",
    "absolute_8",
    "absolute_40",
    "absolute_8_shared",
    "relative_40_shared",
)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("curves")
    for i, name in enumerate(NAMES):
        write_training(folder / "alta", name, networks=1 + i % 2)
    write_curves(trainings([folder / "alta"]), folder / "page.html")
    return folder / "page.html"


def test_a_training_can_be_taken_away(page_file: Path, visit: Any) -> None:
    page = visit(page_file).page
    lines = page.locator(".training-1")
    assert [line.is_visible() for line in lines.all()] == [True] * 3
    page.get_by_role("checkbox", name="relative_8_shared").uncheck()
    assert [line.is_visible() for line in lines.all()] == [False] * 3
    assert page.locator(".training-0").first.is_visible()
    page.get_by_role("checkbox", name="relative_8_shared").check()
    assert [line.is_visible() for line in lines.all()] == [True] * 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_enough_contrast(page_file: Path, visit: Any, scheme: str) -> None:
    page = visit(page_file, scheme=scheme).page
    for summary in page.locator("summary").all():
        summary.click()
    check_accessible(page)
    assert page.locator("#numbers table").first.locator("tbody tr").count() == 4


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_it_fits_the_screen(page_file: Path, visit: Any, tmp_path: Path, width: int, scheme: str) -> None:
    page = visit(page_file, width, scheme).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = "[...document.querySelectorAll('.figures svg')].map((s) => s.getBoundingClientRect().width / 400 * 12)"
    assert min(page.evaluate(sizes)) > 9, "text in a figure can be read"
    page.screenshot(path=picture_folder(tmp_path) / f"curves-{width}-{scheme}.png", full_page=True)


def test_it_is_whole_without_a_script_and_on_paper(page_file: Path, visit: Any, tmp_path: Path) -> None:
    page = visit(page_file, 794, "dark").page
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.is_visible("#show-0")
    assert page.get_by_text("relative_8_shared").first.is_visible(), "the legend is printed"
    assert page.pdf(path=picture_folder(tmp_path) / "curves.pdf", format="A4").startswith(b"%PDF")
    plain = page.context.browser.new_context(java_script_enabled=False).new_page()
    plain.goto(page_file.as_uri())
    assert plain.locator(".figures .mean").first.is_visible()
