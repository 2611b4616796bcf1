"""The charts of a query's page, in a browser that gets its own files and nothing else: what a page
does that is left open, while its query ends, begins again and is changed.

Skipped where there is no browser: ``apt install chromium``, or name one in ``CHROMIUM``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from airflow_provider_continuous.plugins import pages
from tests.airflow.chromium import chromium, needs_chromium

pytestmark = needs_chromium
STATIC = Path(pages.__file__).parent / "static"
_DRAWN = "(done) => requestAnimationFrame(() => requestAnimationFrame(done))"
BEGAN_S = 1_790_000_000
NUMBERS = (
    "rows_in", "rows_out", "behind", "watermark_lag_ms", "p50_ms", "p99_ms", "open_ms",
    "commit_ms", "state_bytes", "state_rows", "bad", "late",
)  # fmt: skip


def series(points: int, every_s: int = 10, steps: tuple[str, ...] = (), **values: Any) -> Any:
    """Of so many points; each number that is named has one value all the time, others none."""
    return {
        "at_s": [BEGAN_S + each * every_s for each in range(points)],
        "pauses": [],
        **{name: [values.get(name)] * points for name in NUMBERS},
        "state_name": "snapshot",
        "steps_ms": {step: [1] * points for step in steps},
        "marks": [],
    }


@pytest.fixture
def page() -> Iterator[Page]:
    """An empty page of a query with the script of the charts."""
    with chromium() as browser:
        shown = browser.new_page()
        errors: list[str] = []
        shown.on("pageerror", lambda error: errors.append(str(error)))
        shown.set_content(
            '<span id="span"></span><div class="charts" id="charts"></div>'
            '<script type="application/json" id="series">null</script>'
        )
        yield shown
    assert errors == []


def begin(page: Page, told: Any) -> None:
    _tell(page, told)
    page.add_style_tag(path=STATIC / "uplot" / "uPlot.min.css")
    page.add_style_tag(path=STATIC / "page.css")
    page.add_script_tag(path=STATIC / "uplot" / "uPlot.iife.min.js")
    page.add_script_tag(path=STATIC / "charts.js")


def look_again(page: Page, told: Any) -> None:
    _tell(page, told)
    page.evaluate("document.dispatchEvent(new Event('looked'))")


def _tell(page: Page, told: Any) -> None:
    page.evaluate(
        "text => { document.getElementById('series').textContent = text; }", json.dumps(told)
    )


def test_charts_come_back_when_the_query_does(page: Page) -> None:
    begin(page, series(5, rows_in=100))
    expect(page.locator("figure canvas")).to_have_count(1)

    look_again(page, series(0))
    expect(page.locator("#charts")).to_contain_text("nothing to draw")

    look_again(page, series(5, rows_in=200))
    expect(page.locator("figure canvas")).to_have_count(1)
    expect(page.get_by_role("img")).to_have_attribute("aria-label", "Rows per second. Now: in 200.")


def test_a_window_without_anything_offers_a_wider_one(page: Page) -> None:
    told = {**series(0), "nothing": {"why": "Nothing was committed.", "wider": "12h"}}
    begin(page, told)
    link = page.get_by_role("link", name="Show the last 12h")
    expect(page.locator("#charts")).to_contain_text("Nothing was committed.")
    expect(link).to_have_attribute("href", "?window=12h")
    link.focus()

    look_again(page, told)
    expect(link).to_be_focused()

    look_again(page, {**series(0), "nothing": {"why": "Too early.", "wider": None}})
    expect(page.locator("#charts")).to_have_text("Too early.")


def test_what_is_not_known_any_more_is_not_drawn_as_it_was(page: Page) -> None:
    begin(page, series(5, rows_in=100, behind=7))
    expect(page.locator("figcaption")).to_have_text(
        ["Rows per second", "Records behind the source"]
    )

    look_again(page, series(5, rows_in=100))
    expect(page.locator("figcaption")).to_have_text(["Rows per second"])

    look_again(page, series(5, rows_in=100, behind=8))
    expect(page.locator("figcaption")).to_have_text(
        ["Rows per second", "Records behind the source"]
    )


def test_lines_keep_their_names(page: Page) -> None:
    begin(page, series(5, commit_ms=5, steps=("walCommit",)))
    expect(page.locator(".u-series .u-label")).to_have_text(["at", "whole", "walCommit"])

    look_again(page, series(5, commit_ms=5, steps=("commitSink",)))
    expect(page.locator(".u-series .u-label")).to_have_text(["at", "whole", "commitSink"])
    expect(page.locator("figure")).to_have_count(1)


def test_the_span_is_told_in_units_that_people_use(page: Page) -> None:
    begin(page, series(3, every_s=300_000, rows_in=1))
    expect(page.locator("#span")).to_have_text("6.9 d")
    look_again(page, series(3, every_s=9_000, rows_in=1))
    expect(page.locator("#span")).to_have_text("5.0 h")
    look_again(page, series(3, every_s=90, rows_in=1))
    expect(page.locator("#span")).to_have_text("3.0 min")


def test_who_has_zoomed_in_stays_there_and_sees_what_is_new(page: Page) -> None:
    begin(page, series(50, rows_in=100))
    box = page.locator(".u-over").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2

    def look() -> str:
        page.evaluate(f"new Promise({_DRAWN})")
        return str(page.locator("figure canvas").evaluate("canvas => canvas.toDataURL()"))

    whole = look()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, middle, steps=5)
    page.mouse.up()
    page.mouse.move(0, 0)
    zoomed = look()
    assert zoomed != whole

    look_again(page, series(51, rows_in=100))
    assert look() == zoomed

    look_again(page, series(51, rows_in=50, rows_out=100))
    look_again(page, series(51, rows_in=100))
    assert look() != zoomed, "a chart with other lines begins anew"


def test_charts_are_zoomed_from_the_keyboard(page: Page) -> None:
    begin(page, series(101, every_s=10, rows_in=100, behind=7))
    charts, whole = page.locator("#charts"), (0, 1000)
    page.keyboard.press("Tab")
    expect(charts).to_be_focused()

    def shown(*keys: str) -> tuple[int, int]:
        for key in keys:
            page.keyboard.press(key)
        told = page.evaluate("uPlot.sync('page').plots.map(({ scales: { x } }) => [x.min, x.max])")
        (span,) = {tuple(round(at_s - BEGAN_S) for at_s in each) for each in told}
        return span

    assert shown("ArrowLeft", "-") == whole
    assert shown("+") == (250, 750)
    assert shown("ArrowRight") == (375, 875)
    assert shown("ArrowRight", "ArrowRight") == (500, 1000)
    look_again(page, series(102, every_s=10, rows_in=100, behind=7))
    assert shown() == (500, 1000)
    assert shown("-") == (250, 1010)
    assert shown("0") == (0, 1010)
    span = shown(*"++++++++++++")
    assert span[1] - span[0] >= 10, "two points are left to draw a line of"
    assert shown("Control+0") == span

    look_again(page, series(0))
    expect(charts).to_have_attribute("tabindex", "-1")
