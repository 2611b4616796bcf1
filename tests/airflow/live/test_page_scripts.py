"""What the page of a query does when its server, or the query, is not there any more: in a browser
that is answered by the pages themselves, without an Airflow around them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Page, Route, expect

from airflow_provider_continuous.plugins import pages
from airflow_provider_continuous.plugins.queries import named_query
from airflow_provider_continuous.view.known import Owner
from engine.checkpoint.query_state import QueryState
from tests.airflow.chromium import chromium, needs_chromium
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.own_pages import pages_of

pytestmark = needs_chromium
SITE = "http://airflow.test"


class Server:
    """Answers the browser, unless it is away."""

    def __init__(self, app: TestClient) -> None:
        self._app, self.is_away, self.logs_out = app, False, False

    def answer(self, route: Route) -> None:
        if self.logs_out:
            return route.fulfill(status=401, json={"detail": "Not authenticated"})
        if self.is_away:
            return route.abort("connectionrefused")
        asked = route.request
        told = self._app.request(
            asked.method,
            asked.url.removeprefix(SITE),
            headers=asked.headers,
            content=asked.post_data_buffer,
        )
        return route.fulfill(status=told.status_code, headers=dict(told.headers), body=told.content)


@pytest.fixture
def live(tmp_path: Path) -> LiveCheckpoint:
    query = LiveCheckpoint(tmp_path / "checkpoint")
    query.hold()
    query.commit(0, 1)
    return query


@pytest.fixture
def server(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> Server:
    app = pages_of(live, monkeypatch)
    owners = [Owner("orders", "start", "a run", -1, live.location, 0)]
    monkeypatch.setattr(
        pages, "find_query", lambda location, seen: named_query([], owners, live.location)
    )
    return Server(app)


@pytest.fixture
def shown(server: Server, live: LiveCheckpoint) -> Iterator[Page]:
    with chromium() as browser:
        page = browser.new_page()
        page.route("**/*", server.answer)
        page.goto(f"{SITE}/query?at={live.location}")
        yield page


def test_a_server_that_is_away_is_told_in_words(shown: Page, server: Server) -> None:
    looked, done = shown.locator("#looked"), shown.locator("#done")
    server.is_away = True

    shown.evaluate("lookAgain()")
    expect(looked).to_contain_text("the server cannot be reached")
    shown.get_by_role("button", name="Look what would go").click()
    expect(done).to_contain_text("The server cannot be reached; look whether it was done")

    server.is_away = False
    shown.evaluate("lookAgain()")
    expect(looked).to_contain_text("live, every")


def test_a_checkpoint_that_is_removed_under_the_page_is_told(
    shown: Page, live: LiveCheckpoint
) -> None:
    shutil.rmtree(live.location)

    shown.evaluate("lookAgain()")

    expect(shown.locator("#looked")).to_contain_text(
        f"Nothing is at {live.location}, of which the task start of the DAG orders has told."
    )


def test_what_becomes_of_an_epoch_without_its_pin_is_told(
    shown: Page, live: LiveCheckpoint
) -> None:
    live.checkpoint.pin("mine", 1)
    shown.evaluate("lookAgain()")

    shown.get_by_role("button", name="Unpin mine").click()

    # It is the newest epoch: no pruning takes it now.
    expect(shown.get_by_role("dialog")).to_contain_text(
        "Remove the pin mine? Its epoch is then pruned as any other."
    )


def test_a_rewind_that_was_confirmed_too_late_is_refused(shown: Page, live: LiveCheckpoint) -> None:
    live.end(QueryState.STOPPED)
    shown.get_by_label("To epoch", exact=True).fill("0")
    shown.get_by_role("button", name="Look what would be undone").click()
    expect(shown.get_by_role("dialog")).to_contain_text("1 epoch would be undone, 1.")
    live.commit(2)

    shown.get_by_role("button", name="Rewind", exact=True).click()

    expect(shown.locator("#done")).to_contain_text(
        "The query is now at epoch 2, the preview was of epoch 1."
    )
    assert live.checkpoint.epochs() == [0, 1, 2]


def test_who_is_logged_out_meanwhile_is_told_so_by_an_action(shown: Page, server: Server) -> None:
    server.logs_out = True

    shown.get_by_role("button", name="Look what would go").click()

    expect(shown.locator("#done")).to_contain_text("You are logged out, and nothing was done")


def test_a_watermark_ahead_of_the_clock_is_drawn_below_zero(shown: Page) -> None:
    shown.evaluate(
        """() => {
            const known = JSON.parse(document.getElementById("series").textContent);
            for (const [name, values] of Object.entries(known))
                if (Array.isArray(values)) known[name] = name === "at_s" ? [1, 2, 3] : [];
            known.watermark_lag_ms = [-90000, -300000, -15000];
            document.getElementById("series").textContent = JSON.stringify(known);
            document.dispatchEvent(new Event("looked"));
        }"""
    )

    chart = shown.locator("figure").filter(has_text="Watermark behind the clock")
    expect(chart.get_by_role("img")).to_have_attribute(
        "aria-label", "Watermark behind the clock. Now: behind -15.0 s."
    )
    scale = shown.evaluate("uPlot.sync('page').plots[0].scales.y")
    assert scale["min"] <= -300_000
    assert scale["max"] >= 0
