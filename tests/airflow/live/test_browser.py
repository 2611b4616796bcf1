"""The pages in a browser: Debian's Chromium, headless, on a real api-server.

Skipped where there is none: ``apt install chromium``, or name one in ``CHROMIUM``.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from airflow_provider_continuous.deploy.contract import Handle
from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.plugins import access, pages
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.query_state import QueryState
from scripts.local_airflow.processes import USER, AirflowProcesses
from scripts.local_airflow.rest import AirflowClient
from tests.airflow.chromium import chromium, needs_chromium
from tests.airflow.live.told_epochs import history_of, report
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.waiting import wait_until

pytestmark = [pytest.mark.airflow, needs_chromium]
GOLDEN = Path(__file__).parents[2] / "golden" / "checkpoints"
PATIENCE_MS = 30_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def root(airflow: AirflowClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of checkpoints, the root of a connection; and a connection that is broken."""
    folder = tmp_path_factory.mktemp("browser") / "checkpoints"
    folder.mkdir()
    roots = {"browser": str(folder), "broken": "s3://no_such_conn@bucket/checkpoints"}
    for name, where in roots.items():
        extra = json.dumps({"checkpoint-root": where})
        connection = {"connection_id": name, "conn_type": "continuous", "extra": extra}
        airflow._call("POST", "/connections", json=connection)
    yield folder
    for name in roots:
        airflow._call("DELETE", f"/connections/{name}", accept=(204,))


@pytest.fixture(scope="module")
def orders(root: Path) -> LiveCheckpoint:
    """A query that runs, with all that a page shows."""
    query = LiveCheckpoint(root / "orders")
    query.hold()
    query.commit(*range(60))
    query.checkpoint.pin("before-the-fix", 7)
    query.checkpoint.progress.write([report(epoch) for epoch in range(60)])
    query.checkpoint.history.write(history_of(range(60)))
    write_fingerprint(
        query.checkpoint.storage,
        {
            "sources": [
                {
                    "format": "kafka",
                    "options": {"subscribe": "orders"},
                    "schema": {},
                    "steps": ["Filter (amount > 0)", "Project id, amount"],
                }
            ],
            "stages": [{"state": {"operation": "GroupRows", "keys": ["id"]}, "steps": []}],
            "sink": {"format": "delta", "options": {"path": "/lake/orders"}},
        },
    )
    assert query.lease is not None
    query.lease.heartbeat(application="app-7", application_url="http://127.0.0.1:4040")
    return query


@pytest.fixture(scope="module")
def others(root: Path) -> None:
    """One of a real query of before, one that has failed, and many more."""
    shutil.copytree(GOLDEN / "engine-v1", root / "golden")
    failed = LiveCheckpoint(root / "failed")
    failed.hold()
    failed.commit(0)
    failed.end(QueryState.FAILED, "the disk is full, password=hunter2")
    for number in range(51):
        LiveCheckpoint(root / f"small-{number:02}").commit(0)


@pytest.fixture
def context(browser: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """A browser's window; what it says on its console is an error."""
    options = getattr(request, "param", {})
    window = browser.new_context(**options)
    window.set_default_timeout(PATIENCE_MS)
    complaints: list[str] = []
    window.on("console", lambda said: complaints.append(said.text) if said.type == "error" else 0)
    window.on("weberror", lambda error: complaints.append(str(error.error)))
    yield window
    window.close()
    assert complaints == []


@pytest.fixture
def page(context: BrowserContext, airflow: AirflowClient, root: Path) -> Callable[..., Page]:
    """Opens a page as somebody who has logged in."""
    expect.set_options(PATIENCE_MS)
    airflow.dag_known("any")
    context.add_cookies([{"name": "_token", "value": airflow.token, "url": airflow.address}])

    def opened(path: str = "/", **query: str) -> Page:
        shown = context.new_page()
        shown.goto(
            f"{airflow.address}/continuous{path}"
            + ("?" if query else "")
            + "&".join(f"{name}={value}" for name, value in query.items())
        )
        return shown

    return opened


def accessible(page: Page) -> None:
    """Nothing that axe knows of keeps anybody from using the page."""
    found = Axe().run(page).response["violations"]
    assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "too wide"


LIGHT = {"color_scheme": "light", "viewport": {"width": 1360, "height": 900}}
DARK = {"color_scheme": "dark", "viewport": {"width": 1360, "height": 900}}
SMALL = {"color_scheme": "light", "viewport": {"width": 1100, "height": 700}}
PHONE = {"color_scheme": "light", "viewport": {"width": 390, "height": 844}}
SCREENS = pytest.mark.parametrize(
    "context", [LIGHT, DARK, SMALL, PHONE], indirect=True, ids=["light", "dark", "small", "phone"]
)


@SCREENS
def test_everybody_can_use_the_list(
    page: Callable[..., Page], orders: LiveCheckpoint, others: None
) -> None:
    shown = page()

    row = shown.get_by_role("row").filter(has=shown.get_by_text("orders-to-lake"))
    for told in ("running", "1,259", "800", "4.5 ms"):
        expect(row).to_contain_text(told)
    # A broken connection darkens its own row, and comes first.
    dark = shown.locator("tr.UNREADABLE")
    expect(dark).to_have_count(1)
    expect(dark).to_contain_text("no_such_conn")
    assert shown.locator(".card:has(.list)").evaluate("(e) => e.scrollWidth - e.clientWidth") == 0
    accessible(shown)


@SCREENS
def test_everybody_can_use_the_page_of_a_query(
    page: Callable[..., Page], orders: LiveCheckpoint
) -> None:
    shown = page("/query", at=orders.location)

    expect(shown.get_by_role("heading", level=1)).to_have_text("orders-to-lake")
    expect(shown.locator(".box")).to_have_count(3)
    for title in ("Rows per second", "Records behind the source", "Latency, read to written"):
        chart = shown.locator("figure").filter(has_text=title)
        expect(chart.locator("canvas")).to_be_visible()
        expect(chart.get_by_role("img")).to_have_attribute(
            "aria-label", re.compile(f"{title}. Now:")
        )
    expect(shown.locator("#partitions tbody tr").first).to_contain_text("orders/1 slowest")
    expect(shown.locator("#marks")).to_contain_text("a worker was killed")
    expect(shown.locator("#pins")).to_contain_text("before-the-fix")
    accessible(shown)


def test_the_list_is_searched_sorted_and_turned_from_the_keyboard(
    page: Callable[..., Page], orders: LiveCheckpoint, others: None
) -> None:
    shown = page()
    shown.keyboard.press("Tab")
    expect(shown.get_by_role("link", name="Skip to the content")).to_be_focused()

    shown.get_by_role("searchbox").focus()
    shown.keyboard.type("small")
    shown.keyboard.press("Enter")
    expect(shown).to_have_url(re.compile("text=small"))
    expect(shown.locator("nav.pages")).to_contain_text("51 queries")
    shown.get_by_role("link", name="Next").press("Enter")
    expect(shown.locator("tbody tr")).to_have_count(1)
    shown.get_by_role("columnheader", name="Query").get_by_role("link").press("Enter")
    shown.get_by_role("columnheader", name="Query").get_by_role("link").press("Enter")
    expect(shown.locator("tbody tr").first).to_contain_text("small-50")
    expect(shown.get_by_role("columnheader", name="Query")).to_have_attribute(
        "aria-sort", "descending"
    )
    shown.get_by_role("searchbox").fill("nothing like it")
    shown.keyboard.press("Enter")
    expect(shown.locator("#list")).to_contain_text("No query is like that")
    accessible(shown)


def test_the_page_looks_again_and_keeps_what_is_typed(
    page: Callable[..., Page], orders: LiveCheckpoint
) -> None:
    shown = page("/query", at=orders.location)
    shown.get_by_label("Name").fill("half-writ")
    expect(shown.locator("#head")).to_contain_text("running")

    orders.commit(60)
    orders.checkpoint.progress.write([report(epoch) for epoch in range(61)][-60:])

    expect(shown.locator("#tiles .tile b").first).to_have_text("60")
    expect(shown.locator("#epoch-list tbody tr").first).to_contain_text("60")
    expect(shown.get_by_label("Name")).to_have_value("half-writ")


def test_a_page_that_is_left_open_does_not_grow(
    page: Callable[..., Page], context: BrowserContext, root: Path
) -> None:
    query = LiveCheckpoint(root / "open")
    query.hold()
    query.commit(*range(60))
    # A look of its own, of which no answer has come, would hold what has not been shown yet.
    context.add_init_script("window.setInterval = () => 0")
    shown = page("/query", at=query.location)
    session = context.new_cdp_session(shown)
    session.send("Performance.enable")

    def held() -> list[float]:
        session.send("HeapProfiler.collectGarbage")
        metrics = session.send("Performance.getMetrics")["metrics"]
        of = {each["name"]: each["value"] for each in metrics}
        return [of[name] for name in ("Documents", "Nodes", "JSEventListeners")]

    def held_after(looks: int) -> list[float]:
        for look in range(looks):
            # The charts of the state go, and come back.
            changes = {"name": "open"} if look % 5 else {"name": "open", "stateOperators": []}
            told = [{**report(epoch), **changes} for epoch in range(60)]
            query.checkpoint.progress.write(told)
            query.checkpoint.history.write(history_of(range(60), **changes))
            shown.evaluate("lookAgain()")
            expect(shown.locator("figure")).to_have_count(8 if look % 5 else 6)
        found = [held()]
        while found[-1:] != found[-2:-1]:  # what is found to be garbage may hold more of it
            found.append(held())
        return found[-1]

    assert held_after(6) == held_after(31)


def test_a_page_that_was_opened_before_the_first_epoch_gets_all_its_parts(
    page: Callable[..., Page], root: Path, tmp_path: Path
) -> None:
    query = LiveCheckpoint(root / "young")
    query.hold()
    shown = page("/query", at=query.location)
    expect(shown.locator("#epochs")).to_contain_text("none is kept")
    expect(shown.locator("#partitions, #letters")).to_have_count(0)

    letters = tmp_path / "letters"
    (letters / "_spark_metadata").mkdir(parents=True)
    (letters / "part-0.json").write_text('{"epoch":0,"error":"no number","record":"x"}\n')
    entry = {"path": f"file://{letters}/part-0.json", "size": 1, "isDir": False}
    (letters / "_spark_metadata" / "0").write_text(f"v1\n{json.dumps(entry)}")
    query.commit(*range(60))
    told = [{**report(epoch), "name": "young"} for epoch in range(60)]
    told[-1]["sink"] = {"description": f"noop, dead letters: json[{letters}]", "numOutputRows": 1}
    query.checkpoint.progress.write(told)

    expect(shown.locator("#partitions tbody tr")).to_have_count(2)
    expect(shown.locator("#letters")).to_contain_text("no number")
    expect(shown.locator("#epochs")).to_contain_text("50 of 60 that are kept, 0 to 59")
    accessible(shown)


def test_an_older_epoch_is_looked_up(page: Callable[..., Page], orders: LiveCheckpoint) -> None:
    shown = page("/query", at=orders.location)
    first = shown.locator("#epoch-list tbody tr").first

    shown.get_by_label("Up to epoch").fill("5")
    shown.get_by_role("button", name="Show").click()
    expect(first).to_contain_text("1,205")
    expect(shown.locator("#epoch-list tbody tr")).to_have_count(6)
    accessible(shown)
    shown.get_by_role("link", name="The newest").click()
    expect(first).to_contain_text(re.compile("1,2[56]"))
    shown.get_by_role("button", name="Show").click()
    expect(first).to_contain_text(re.compile("1,2[56]"))


def test_a_look_that_hangs_is_told_and_ends(
    page: Callable[..., Page], orders: LiveCheckpoint
) -> None:
    shown = page("/query", at=orders.location)
    held: list[Route] = []
    shown.route("**/query?**", lambda route: held.append(route))
    expect(shown.locator("#looked")).to_contain_text("the server has not answered", timeout=60_000)
    expect(shown.locator("#looked")).to_contain_text("Not up to date since 20")

    shown.unroute("**/query?**")
    expect(shown.locator("#looked")).to_contain_text("live, every")


def test_the_end_of_the_log_is_seen_and_stays_where_somebody_reads(
    page: Callable[..., Page], root: Path
) -> None:
    query = LiveCheckpoint(root / "talkative")
    query.hold()
    log = Path(f"{query.location}.logs", "driver.log")
    log.parent.mkdir()
    log.write_text("".join(f"line {number} {'x' * 300}\n" for number in range(60)))
    Notes(query.checkpoint.storage).take(Handle("local", "continuous-1", 0, log=str(log)))
    shown = page("/query", at=query.location)
    pre = shown.locator("pre.log")
    at_its_end = "e => e.scrollHeight - e.clientHeight - e.scrollTop < 4"
    assert pre.evaluate(at_its_end)

    def says(text: str) -> None:
        with log.open("a") as file:
            file.write(f"{text} {'x' * 300}\n")
        expect(pre).to_contain_text(text)

    says("one more")
    assert pre.evaluate(at_its_end)
    pre.focus()
    pre.evaluate("e => e.scrollTop = 40")
    says("and another")
    assert pre.evaluate("e => e.scrollTop") == 40
    expect(pre).to_be_focused()


@pytest.mark.parametrize("context", [LIGHT], indirect=True)
def test_it_is_dark_when_the_system_is(page: Callable[..., Page], orders: LiveCheckpoint) -> None:
    shown = page("/query", at=orders.location)
    background = "getComputedStyle(document.body).backgroundColor"
    light = shown.evaluate(background)

    shown.emulate_media(color_scheme="dark")

    expect(shown.locator("figure canvas").first).to_be_visible()
    assert shown.evaluate(background) != light


def test_an_epoch_is_pinned_and_old_ones_are_pruned_after_a_look(
    page: Callable[..., Page], root: Path
) -> None:
    query = LiveCheckpoint(root / "prunable")
    query.hold()
    query.commit(*range(10))
    shown = page("/query", at=query.location)

    shown.get_by_label("Name").fill("mine")
    shown.get_by_label("Epoch", exact=True).fill("3")
    shown.get_by_role("button", name="Pin", exact=True).click()
    expect(shown.locator("#pins")).to_contain_text("mine")
    shown.get_by_label("Keep the last").fill("4")
    shown.get_by_role("button", name="Look what would go").click()
    dialog = shown.get_by_role("dialog")
    expect(dialog).to_contain_text("6 epochs")
    accessible(shown)
    dialog.get_by_role("button", name="No").click()
    assert len(query.checkpoint.epochs()) == 10
    shown.get_by_role("button", name="Look what would go").click()
    dialog.get_by_role("button", name="Prune").click()
    expect(shown.locator("#done")).to_contain_text("were removed")
    assert query.checkpoint.epochs() == [6, 7, 8, 9]
    assert [pin.name for pin in query.checkpoint.pins()] == ["mine"]

    shown.get_by_role("button", name="Drain").click()
    dialog.get_by_role("button", name="Drain").click()
    expect(shown.locator("#done")).to_contain_text("asked to drain")
    assert query.checkpoint.requests.pending("run-1") == "drain"


def test_what_was_asked_is_not_asked_again_before_its_answer(
    page: Callable[..., Page], root: Path
) -> None:
    query = LiveCheckpoint(root / "slow")
    query.hold()
    query.commit(*range(3))
    shown = page("/query", at=query.location)
    held: list[Route] = []
    shown.route("**/act/pin?**", lambda route: held.append(route))
    pin = shown.get_by_role("button", name="Pin", exact=True)

    shown.get_by_label("Name").fill("mine")
    pin.click()
    expect(shown.locator("#done")).to_have_text("Asking …")
    pin.click()
    wait_until(lambda: shown.evaluate("1") and held, "it is asked")
    for route in held:
        route.continue_()

    expect(shown.locator("#done")).to_contain_text("pinned as mine")
    assert len(held) == 1


def test_an_airflow_without_queries_says_how_they_get_there(
    page: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = {"roots": ["/streams"], "absent_roots": ["/streams"]}
    nothing: dict[str, Any] = {**roots, "queries": [], "absent": [], "problems": []}
    monkeypatch.setattr(pages, "look_at_all", lambda seen: nothing)
    app = pages.create_app()
    app.dependency_overrides[access.viewer] = lambda: SimpleNamespace(seen=list, sees_roots=True)
    answer = TestClient(app, root_path="/continuous").get("/")
    shown = page("/")
    policy = {"Content-Security-Policy": answer.headers["content-security-policy"]}
    shown.route(
        "**/continuous/",
        lambda route: route.fulfill(
            body=answer.text, content_type="text/html; charset=utf-8", headers=policy
        ),
    )

    shown.reload()

    expect(shown.locator("#list")).to_contain_text("No query yet")
    expect(shown.locator("#list")).to_contain_text("Nothing is there yet: /streams")
    expect(shown.get_by_role("link", name="always_on")).to_be_visible()
    expect(shown.get_by_role("link", name="0 queries")).to_be_visible()
    accessible(shown)


def test_what_is_not_there_is_told(page: Callable[..., Page], root: Path) -> None:
    # The answer 404 itself is something that a browser logs.
    shown = page("/")
    answer = shown.request.get(
        shown.url + "query", params={"at": f"{root}/nothing"}, headers={"Accept": "text/html"}
    )

    assert answer.status == 404
    shown.set_content(answer.text())
    expect(shown.locator("#refused")).to_contain_text("There is nothing here")


def test_a_failed_query_says_why(page: Callable[..., Page], root: Path, others: None) -> None:
    shown = page("/query", at=f"{root}/failed")

    expect(shown.locator(".banner")).to_contain_text("the disk is full, password=***")
    expect(shown.locator("#charts")).to_contain_text("nothing to draw")
    accessible(shown)


def test_who_is_not_logged_in_gets_to_the_page_by_the_login(
    context: BrowserContext, airflow_processes: AirflowProcesses, orders: LiveCheckpoint
) -> None:
    shown = context.new_page()

    shown.goto(f"{airflow_processes.address}/continuous/query?at={orders.location}")
    expect(shown).to_have_url(re.compile("/auth/login"))
    shown.get_by_label("Username").fill(USER)
    shown.get_by_label("Password").fill(airflow_processes.password)
    shown.get_by_role("button", name="Sign in").click()

    expect(shown.get_by_role("heading", level=1)).to_have_text("orders-to-lake")


def test_a_session_that_ends_is_told(page: Callable[..., Page], orders: LiveCheckpoint) -> None:
    shown = page("/query", at=orders.location)

    shown.context.clear_cookies()

    expect(shown.locator("#looked")).to_contain_text("You are logged out")
    expect(shown.get_by_role("link", name="Log in again")).to_be_visible()


def test_it_is_a_page_of_airflow(page: Callable[..., Page], orders: LiveCheckpoint) -> None:
    shown = page("/")
    shown.goto(shown.url.replace("/continuous/", "/plugin/continuous"))
    frame = shown.frame_locator("iframe")

    frame.get_by_role("link", name="orders-to-lake").click()
    expect(frame.get_by_role("heading", level=1)).to_have_text("orders-to-lake")
    # Airflow's frame is a sandbox that opens nothing: its own document does.
    with shown.context.expect_page() as opened:
        frame.get_by_role("link", name="Spark UI").click()
    assert opened.value.url.startswith(("http://127.0.0.1:4040", "chrome-error:", "about:blank"))
