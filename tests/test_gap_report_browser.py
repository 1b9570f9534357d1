"""The report in a real browser: used by mouse and by keys, on phone and paper (see browser_pages.py)."""

import io
import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from browser_pages import IN_A_BROWSER, LOOKS, UNFOLDED, Opened, check_accessible, check_fits, picture_folder
from mechgap.faithfulness.landscape import Landscape, save_landscapes
from mechgap.faithfulness.mechanistic_gap import Gap, load_gap
from mechgap.report.gap_report import write_report
from result_folders import write_folder

pytestmark = IN_A_BROWSER
SECONDS_TO_OPEN = 3.0
ATTEMPTS = 3  # the fastest counts: other work on the machine is not the page's


def facts(opened: Opened) -> str:
    return str(opened.page.inner_text("#viewer-facts"))


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


def test_128_networks_open_in_time(large: Path, visit: Any) -> None:
    taken = []
    for _ in range(ATTEMPTS):
        start = time.perf_counter()
        visit(large)
        taken.append(time.perf_counter() - start)
    print(f"opened in {min(taken):.2f} s, {large.stat().st_size / 1e6:.1f} MB")
    assert min(taken) < SECONDS_TO_OPEN
    assert large.stat().st_size < 15e6


def busiest(gap: Gap, sample: int) -> int:
    """The first step with the most decisive rows, counted from 1."""
    steps = gap.shown["decisive"][: gap.shown["lengths"][sample] - 1, sample]
    return 1 + int(np.argmax(steps.any(1).sum(-1)))


def test_the_slider_and_the_buttons_change_the_step(large: Path, folder: Path, visit: Any) -> None:
    opened, gap = visit(large), load_gap(folder / "bfs")
    assert opened.said().startswith(f"Step {busiest(gap, 0)} of 9"), "it opens where most happens"
    assert busiest(gap, 0) > 1
    before = opened.page.inner_html("#viewer-stage")
    opened.page.locator("#viewer-step").fill("4")
    assert opened.said().startswith("Step 4 of 9")
    assert opened.page.inner_html("#viewer-stage") != before
    opened.page.click("#viewer-next")
    assert opened.said().startswith("Step 5 of 9")
    opened.page.click("#viewer-previous")
    assert opened.said().startswith("Step 4 of 9")
    opened.page.select_option("#viewer-sample", "2")
    assert opened.said().startswith(f"Step {busiest(gap, 2)} of 7"), "another sample has its own length"
    assert busiest(gap, 2) not in (1, 4), "and its own step where most happens"


def test_the_viewer_shows_the_numbers_of_the_file(large: Path, folder: Path, visit: Any) -> None:
    gap = load_gap(folder / "bfs")
    opened = visit(large)
    member = gap.closest()
    assert facts(opened).startswith(f"Seed {gap.members['seed'][member]}: test score {gap.score[member]:.3f}")
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
    assert facts(opened).startswith("Seed 77:")
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


# A point whose middle is covered by another: where it is, and whose both are.
COVERED = """() => {
  const points = [...document.querySelectorAll('.point')];
  const middle = (p) => {
    const box = p.querySelector('.dot').getBoundingClientRect();
    return [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
  };
  for (const p of points) {
    const [x, y] = middle(p);
    const apart = points.filter((q) => q !== p).map((q) => Math.hypot(middle(q)[0] - x, middle(q)[1] - y));
    const above = document.elementFromPoint(x, y).closest('.point');
    if (above && above !== p && Math.min(...apart) > 3) {
      return { x, y, member: p.dataset.member, above: above.dataset.member };
    }
  }
}"""


def test_of_points_that_cover_each_other_the_nearest_opens(large: Path, visit: Any) -> None:
    opened = visit(large)
    opened.page.locator("#scatter-plot").scroll_into_view_if_needed()
    at = opened.page.evaluate(COVERED)
    assert at["member"] != at["above"]
    opened.page.mouse.click(at["x"], at["y"])
    opened.until("document.activeElement.id", "viewer-stage")
    assert opened.page.input_value("#viewer-member").endswith(f":{at['member']}")


@pytest.fixture(scope="module")
def extreme(folder: Path) -> Path:
    """Scores and distances that differ in their last digits, losses over 47 powers of ten and over a tenth of one."""
    run = write_folder(folder / "extreme", seeds=12)
    gap, apart = load_gap(run), np.linspace(0, 1, 12)
    gap.members["test_best"][:] = 0.99971 + 3e-5 * apart
    gap.measures["validation"]["internal/rows"][:] = 2e-5 + 2e-6 * apart
    gap.measures["validation"]["internal/decisive"][:] = 0.5 + 1e-4 * apart
    gap.save(run)
    axis = np.linspace(-1, 1, 21).astype(np.float32)
    wide, narrow = 10 ** np.linspace(-13, 34, 21), np.linspace(2.1, 2.6, 21)
    planes = {"learned": narrow, "compiled": wide, "initial": 1e5 * narrow}
    sharpness = {"0.1": 1.0, "loss": 1.0}
    save_landscapes(
        run, [Landscape(k, k, axis, np.tile(x[:, None], 21).astype(np.float32), sharpness) for k, x in planes.items()]
    )
    assert write_report([run], folder / "extreme.html") == []
    return folder / "extreme.html"


# What stands at the ticks of every axis, and the box that it takes; x has ticks, y has lines.
TICKS = """() => [...document.querySelectorAll('svg:has(> path.axis)')].flatMap((svg) =>
  ['line.axis + text', 'line.grid + text'].map((label) => [...svg.querySelectorAll(label)].map((t) => {
    const { left, right, top, bottom } = t.getBoundingClientRect();
    return { text: t.textContent, left, right, top, bottom };
  })))"""


@pytest.mark.parametrize("width", [390, 1280])
def test_ticks_tell_values_apart(extreme: Path, visit: Any, width: int) -> None:
    page = visit(extreme, width).page
    for measure in ("internal/rows", "internal/decisive", "external/meant"):
        page.select_option("#scatter-measure", measure)
        axes = page.evaluate(TICKS)
        assert len(axes) == 2 * page.locator("svg:has(> path.axis)").count() >= 16
        for ticks in axes:
            texts = [t["text"] for t in ticks]
            assert len(texts) == len(set(texts)) >= 2, texts
            for a, b in pairwise(ticks):
                assert a["right"] < b["left"] or b["bottom"] < a["bottom"] - 8, f"{a} and {b} overlap"


def test_the_page_does_not_round_to_one(extreme: Path, visit: Any) -> None:
    opened = visit(extreme)
    assert opened.page.locator('.point[aria-label*="score 0.9997"]').count() == 12
    assert "test score 0.9997" in facts(opened)


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
    assert facts(opened).startswith(f"Seed {seed[1]}:")


def test_keys_step_and_play(large: Path, visit: Any) -> None:
    opened = visit(large)
    opened.page.focus("#viewer-stage")
    for key, step in (
        ("Home", 1),
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
    opened.page.locator("#landscapes-shared").check()
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
    assert facts(opened).startswith(f"Seed {found[1]}:")


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_enough_contrast(several: Path, visit: Any, scheme: str) -> None:
    page = visit(several, scheme=scheme).page
    check_accessible(page)
    assert page.get_attribute("#viewer-said", "aria-live") == "polite"


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_it_fits_the_screen(large: Path, several: Path, visit: Any, tmp_path: Path, width: int, scheme: str) -> None:
    kept = picture_folder(tmp_path)
    for file in (large, several):
        page = visit(file, width, scheme).page
        check_fits(page, width, kept / f"{file.stem}-{width}-{scheme}.png")
        page.set_viewport_size({"width": 700, "height": 900})
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= 700


def darkness(page: Any, region: Any) -> float:
    """How far the right edge of a region is from the colour left of it, over its whole height."""
    picture = np.asarray(Image.open(io.BytesIO(region.screenshot())).convert("L"), float)
    edge, beside = picture[:, -3:], picture[:, -60:-57]
    return float(np.median(np.abs(edge.mean(1) - beside.mean(1))))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_table_that_goes_on_shows_it(large: Path, visit: Any, scheme: str) -> None:
    page = visit(large, 390, scheme).page
    loose = """() => [...document.querySelectorAll('table')]
      .filter((t) => !t.closest('.scroll[tabindex="0"][role=region]')).length"""
    assert page.evaluate(loose) == 0, "every table can be scrolled by keys"
    region = page.locator("#causal .scroll").first
    assert region.evaluate("(r) => r.scrollWidth > r.clientWidth")
    assert darkness(page, region) > 20
    region.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    assert region.evaluate("(r) => r.scrollLeft") > 0
    region.evaluate("(r) => { r.scrollLeft = r.scrollWidth; }")
    assert darkness(page, region) < 5, "at its end there is no more"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_prints_on_white_with_everything_unfolded(large: Path, visit: Any, tmp_path: Path, scheme: str) -> None:
    kept = picture_folder(tmp_path)
    page = visit(large, 794, scheme).page
    page.evaluate(UNFOLDED)
    pdf = page.pdf(path=kept / f"large-print-{scheme}.pdf", format="A4")
    assert page.evaluate("window.folded") == 0
    assert pdf.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.is_visible("#viewer-play")
    whole = """() => [...document.querySelectorAll('figure, .panel, .card, tr, section > p')]
      .map((e) => getComputedStyle(e).breakInside)"""
    assert set(page.evaluate(whole)) == {"avoid"}, "nothing is cut by the end of a page"
    page.screenshot(path=kept / f"large-print-{scheme}.png", full_page=True)
