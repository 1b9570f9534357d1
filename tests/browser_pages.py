"""Pages in a real browser: opened from disk with the network off, and what every page is checked for.

Run by `make test-browser`. MECHGAP_BROWSER names the browser, MECHGAP_SCREENSHOTS a folder to keep the pictures in.
"""

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

BROWSER = os.environ.get("MECHGAP_BROWSER") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
HAS_PLAYWRIGHT = find_spec("playwright") is not None
IN_A_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(not HAS_PLAYWRIGHT, reason="playwright is not installed: make test-browser"),
    pytest.mark.skipif(BROWSER is None, reason="NO BROWSER: install chromium, or name one in MECHGAP_BROWSER"),
]
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
        return str(self.page.inner_text(".player output"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        # In a container chromium has no sandbox to run in.
        running = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield running
        running.close()


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


def check_accessible(page: Any) -> None:
    """Everything has a name, tables and headings are in order, and all text has enough contrast."""
    for wrong in (page.evaluate(NAMELESS), page.evaluate(CONTRAST, TEXTS)):
        assert wrong == [], wrong
    assert page.evaluate(HEADLESS) == 0
    levels = page.evaluate(HEADINGS)
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels)), "no level of headings is skipped"


def check_fits(page: Any, width: int, picture: Path) -> None:
    """Nothing is wider than the screen; what it looks like is kept."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.screenshot(path=picture, full_page=True)


def picture_folder(otherwise: Path) -> Path:
    """Where pictures are kept."""
    kept = Path(os.environ.get("MECHGAP_SCREENSHOTS") or otherwise)
    kept.mkdir(parents=True, exist_ok=True)
    return kept
