"""The report in a real browser: opened from disk with the network off, used by mouse and by keys, on phone and paper.

Run by `make test-browser`. MECHGAP_BROWSER names the browser, MECHGAP_SCREENSHOTS a folder to keep the pictures in.
"""

import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mechgap.faithfulness.mechanistic_gap import load_gap
from mechgap.report.gap_report import write_report
from result_folders import write_folder

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser")

BROWSER = os.environ.get("MECHGAP_BROWSER") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="NO BROWSER: install chromium, or name one in MECHGAP_BROWSER"),
]
SECONDS_TO_OPEN = 3.0
ATTEMPTS = 3  # the fastest counts: other work on the machine is not the page's
LOOKS = [(width, scheme) for width in (390, 1280) for scheme in ("light", "dark")]


@dataclass
class Opened:
    """A page, and everything that went wrong on it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def until(self, expression: str, value: Any) -> None:
        """Wait for a value; playwright's own waiting evaluates strings in the page, which the page forbids."""
        end = time.monotonic() + 5
        while (found := self.page.evaluate(expression)) != value:
            assert time.monotonic() < end, f"{expression} is {found!r}, not {value!r}"
            self.page.wait_for_timeout(20)

    def said(self) -> str:
        return str(self.page.inner_text("#viewer-said"))

    def facts(self) -> str:
        return str(self.page.inner_text("#viewer-facts"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        # In a container chromium has no sandbox to run in.
        running = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def large(folder: Path) -> Path:
    """128 networks, in a run that is called `bfs`."""
    run = write_folder(folder / "bfs", seeds=128, n=16, steps=9, samples=4, lost=1)
    assert write_report([run], folder / "large.html") == []
    return folder / "large.html"


@pytest.fixture(scope="module")
def several(folder: Path) -> Path:
    """Three runs side by side, one of them damaged."""
    runs = [write_folder(folder / "plain"), write_folder(folder / "heads", heads=3, shift=-0.2, needs={"heads": 3})]
    bad = write_folder(folder / "damaged")
    (bad / "causal.json").write_text('{"splits":')
    assert len(write_report([*runs, bad], folder / "several.html")) == 1
    return folder / "several.html"


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """Open a page from disk without a network; nothing may be fetched and nothing may go wrong."""
    contexts, visits = [], []

    def go(file: Path, width: int = 1280, scheme: str = "light", **options: Any) -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, **options
        )
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.on("console", lambda m: opened.errors.append(m.text) if m.type in ("error", "warning") else None)
        opened.page.on("pageerror", lambda e: opened.errors.append(str(e)))
        opened.page.on("request", lambda r: opened.requests.append(r.url))
        opened.page.goto(file.as_uri())
        opened.page.wait_for_selector("html[data-ready]")
        visits.append(opened)
        return opened

    yield go
    for opened in visits:
        assert opened.errors == []
        assert [u for u in opened.requests if not u.startswith("file:")] == []
    for context in contexts:
        context.close()


def test_128_networks_open_in_time(large: Path, visit: Any) -> None:
    taken = []
    for _ in range(ATTEMPTS):
        start = time.perf_counter()
        visit(large)
        taken.append(time.perf_counter() - start)
    print(f"opened in {min(taken):.2f} s, {large.stat().st_size / 1e6:.1f} MB")
    assert min(taken) < SECONDS_TO_OPEN
    assert large.stat().st_size < 15e6


def test_the_slider_and_the_buttons_change_the_step(large: Path, visit: Any) -> None:
    opened = visit(large)
    assert opened.said().startswith("Step 1 of 9")
    before = opened.page.inner_html("#viewer-stage")
    opened.page.locator("#viewer-step").fill("4")
    assert opened.said().startswith("Step 4 of 9")
    assert opened.page.inner_html("#viewer-stage") != before
    opened.page.click("#viewer-next")
    assert opened.said().startswith("Step 5 of 9")
    opened.page.click("#viewer-previous")
    assert opened.said().startswith("Step 4 of 9")
    opened.page.select_option("#viewer-sample", "1")
    assert opened.said().startswith("Step 1 of 8"), "another sample starts anew and has its own length"


def test_the_viewer_shows_the_numbers_of_the_file(large: Path, folder: Path, visit: Any) -> None:
    gap = load_gap(folder / "bfs")
    opened = visit(large)
    member = gap.closest()
    assert opened.facts().startswith(f"Seed {gap.members['seed'][member]}: test score {gap.score[member]:.3f}")
    opened.page.locator("#viewer-step").fill("3")
    shown, t, v = gap.shown, 2, 0
    star, trained = shown["star"][t, v, 0] / 255, shown["attention"][member, t, v, 0] / 255
    rows = 0.5 * np.abs(trained - star).sum(-1)
    decisive = shown["decisive"][t, v, 0]
    wrong = int(np.sum(shown["hints/pi_h"][member, t, v] != shown["truth/pi_h"][t + 1, v]))
    assert f"attention distance {rows.mean():.2f}" in opened.said()
    assert f"on {decisive.sum()} decisive rows {rows[decisive].mean():.2f}" in opened.said()
    assert f"pi_h: {f'{wrong} of 16 wrong' if wrong else 'right'}" in opened.said()
    cells = opened.page.locator(".hints tbody").nth(1).locator("tr").nth(1).locator("td").all_inner_texts()
    drawn = ["·" if j == i else str(j) for i, j in enumerate(shown["hints/pi_h"][member, t, v].tolist())]
    assert [c.split()[0] for c in cells] == drawn
    marked = opened.page.locator(".panel").first.locator(".matrix .row-label").all_text_contents()
    assert [m.startswith("◆") for m in marked] == decisive.tolist()


def test_a_click_on_a_point_opens_its_network(large: Path, visit: Any) -> None:
    opened = visit(large)
    point = opened.page.locator('.point[data-member="77"]')
    point.dispatch_event("click")
    opened.until("document.activeElement.id", "viewer-stage")
    assert opened.facts().startswith("Seed 77:")
    assert "chosen" in opened.page.locator('.point[data-member="77"]').get_attribute("class")
    assert opened.page.input_value("#viewer-member") == "all:77"


def test_the_mouse_hits_a_point(several: Path, visit: Any) -> None:
    opened = visit(several)
    point = opened.page.locator('.point[data-run="1"]').last
    point.scroll_into_view_if_needed()
    box = point.locator(".dot").bounding_box()
    opened.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    opened.until("document.activeElement.id", "viewer-stage")
    assert opened.page.input_value("#viewer-run") == "1"


def test_points_are_walked_and_opened_by_keys(large: Path, visit: Any) -> None:
    opened = visit(large)
    assert opened.page.locator('.point[tabindex="0"]').count() == 1, "the plot is one stop of the tab key"
    opened.page.locator('.point[tabindex="0"]').focus()
    opened.page.keyboard.press("End")
    opened.page.keyboard.press("ArrowLeft")
    member = opened.page.evaluate("document.activeElement.dataset.member")
    seed = re.search(r"seed (\d+)", opened.page.evaluate("document.activeElement.getAttribute('aria-label')"))
    opened.page.keyboard.press("Enter")
    opened.until("document.activeElement.id", "viewer-stage")
    assert opened.page.input_value("#viewer-member").endswith(f":{member}")
    assert seed is not None
    assert opened.facts().startswith(f"Seed {seed[1]}:")


def test_keys_step_and_play(large: Path, visit: Any) -> None:
    opened = visit(large)
    opened.page.focus("#viewer-stage")
    for key, step in (
        ("ArrowRight", 2),
        ("ArrowRight", 3),
        ("ArrowLeft", 2),
        ("End", 9),
        ("ArrowRight", 9),
        ("Home", 1),
    ):
        opened.page.keyboard.press(key)
        assert opened.said().startswith(f"Step {step} of 9"), key
    opened.page.keyboard.press(" ")
    assert opened.page.get_attribute("#viewer-play", "aria-pressed") == "true"
    opened.until("document.getElementById('viewer-said').textContent.slice(0, 6)", "Step 2")
    opened.page.keyboard.press(" ")
    assert opened.page.get_attribute("#viewer-play", "aria-pressed") == "false"
    opened.page.keyboard.press("End")
    opened.page.click("#viewer-play")
    assert opened.said().startswith("Step 1 of 9"), "playing at the end starts again"


def test_measures_splits_and_baselines_can_be_chosen(large: Path, visit: Any) -> None:
    opened = visit(large)
    caption = opened.page.inner_text("#scatter-caption")
    opened.page.select_option("#scatter-measure", "external/meant/pi_h")
    opened.page.select_option("#scatter-split", "test")
    assert opened.page.inner_text("#scatter-caption") != caption
    assert "trace agreement: pi_h of test" in opened.page.inner_text("#scatter-caption")
    opened.page.check("#scatter-baselines")
    assert "untrained" in opened.page.inner_text("#scatter-plot")
    assert opened.page.locator(".point").count() == 127, "the network that diverged is not there"
    opened.page.select_option("#time-split", "all")
    assert opened.page.locator("#time-internal .mean").count() == 6
    opened.page.locator("#landscapes-shared").uncheck()
    assert opened.page.locator("#landscapes-figures canvas").count() == 6


def test_a_node_can_be_chosen(large: Path, visit: Any) -> None:
    opened = visit(large)
    many = opened.page.locator(".panel.of-learned .flow").count()
    opened.page.select_option("#viewer-node", "3")
    assert opened.page.locator(".panel.of-learned .flow").count() < many
    assert opened.page.locator(".chosen-row").count() == 3
    opened.page.locator('.panel.of-learned .node[data-node="3"]').click()
    assert opened.page.input_value("#viewer-node") == ""


def test_the_heat_map_is_read_by_keys_and_opens_networks(large: Path, visit: Any) -> None:
    opened = visit(large)
    canvas = opened.page.locator("#clusters canvas")
    canvas.focus()
    opened.page.keyboard.press("ArrowDown")
    said = opened.page.inner_text("#clusters .readout")
    found = re.match(r"seed (\d+) and seed \d+: 0\.\d+", said)
    assert found, said
    opened.page.keyboard.press("Enter")
    opened.until("document.activeElement.id", "viewer-stage")
    assert opened.facts().startswith(f"Seed {found[1]}:")


def test_runs_are_compared_and_damage_is_shown(several: Path, visit: Any) -> None:
    opened = visit(several)
    box = opened.page.locator("[role=alert]")
    assert "damaged/causal.json is not readable JSON" in box.inner_text()
    assert box.is_visible()
    assert opened.page.locator(".card").count() == 3
    assert "heads = 3" in opened.page.locator(".card").nth(1).inner_text()
    opened.page.select_option("#viewer-run", "1")
    opened.page.wait_for_selector("#viewer-head-label:visible")
    assert opened.page.locator("#viewer-head option").count() == 3
    assert "Causal check of damaged: left out, causal.json cannot be used" in opened.page.inner_text("#causal")


def test_an_algorithm_without_a_program(folder: Path, visit: Any) -> None:
    run = write_folder(folder / "dfs", algorithm="dfs", steps=20)
    write_report([run], folder / "dfs.html")
    opened = visit(folder / "dfs.html")
    assert opened.page.locator("#viewer-stage .panel").count() == 1
    assert "color" in opened.page.inner_text("#viewer-hints")
    assert opened.page.input_value("#scatter-measure") == "external/meant"


def test_a_page_without_any_run(folder: Path, visit: Any) -> None:
    write_report([folder / "nowhere"], folder / "nothing.html")
    assert "there is no such folder" in visit(folder / "nothing.html").page.inner_text("[role=alert]")


# What a screen reader is told.
NAMELESS = """() => [...document.querySelectorAll(
    'select, input, button, canvas, svg[role], [role=region], [role=group]'
  )].filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels || [])[0]?.textContent.trim()))
  .map((e) => e.outerHTML.slice(0, 120))"""
HEADINGS = "() => [...document.querySelectorAll('h1, h2, h3')].map((h) => +h.tagName[1])"
HEADLESS = """() => [...document.querySelectorAll('table')]
  .filter((t) => !t.caption || !t.querySelector('th[scope=col]')).length"""
UNFOLDED = """() => window.addEventListener('beforeprint', () => {
  window.folded = document.querySelectorAll('details:not([open])').length;
})"""
# The contrast of text against what is behind it (WCAG 2); SVG text is filled.
TEXTS = "p, td, th, dt, dd, h1, h2, h3, a, label, caption, summary, figcaption, .axis ~ text"
CONTRAST = """(texts) => {
  const rgb = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = rgb(colour).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (rgb(colour)[3] !== 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  return [...document.querySelectorAll(texts)].filter((e) => e.textContent.trim() && e.checkVisibility()).map((e) => {
    const style = getComputedStyle(e);
    const own = e instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(own), light(behind(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.outerHTML.slice(0, 100)];
  }).filter(([ratio]) => ratio < 4.5);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_enough_contrast(several: Path, visit: Any, scheme: str) -> None:
    page = visit(several, scheme=scheme).page
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(HEADLESS) == 0
    levels = page.evaluate(HEADINGS)
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels)), "no level of headings is skipped"
    assert page.evaluate(CONTRAST, TEXTS) == []
    assert page.get_attribute("#viewer-said", "aria-live") == "polite"


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_it_fits_the_screen(large: Path, several: Path, visit: Any, tmp_path: Path, width: int, scheme: str) -> None:
    kept = Path(os.environ.get("MECHGAP_SCREENSHOTS") or tmp_path)
    kept.mkdir(parents=True, exist_ok=True)
    for file in (large, several):
        page = visit(file, width, scheme).page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.screenshot(path=kept / f"{file.stem}-{width}-{scheme}.png", full_page=True)
        page.set_viewport_size({"width": 700, "height": 900})
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= 700


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_prints_on_white_with_everything_unfolded(large: Path, visit: Any, tmp_path: Path, scheme: str) -> None:
    kept = Path(os.environ.get("MECHGAP_SCREENSHOTS") or tmp_path)
    kept.mkdir(parents=True, exist_ok=True)
    page = visit(large, 794, scheme).page
    page.evaluate(UNFOLDED)
    pdf = page.pdf(path=kept / f"large-print-{scheme}.pdf", format="A4")
    assert page.evaluate("window.folded") == 0
    assert pdf.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.is_visible("#viewer-play")
    page.screenshot(path=kept / f"large-print-{scheme}.png", full_page=True)
