"""What the pages say, as a person reads it."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from airflow_provider_continuous.plugins import access, pages
from airflow_provider_continuous.plugins.queries import named_query
from airflow_provider_continuous.view.known import Owner
from airflow_provider_continuous.view.overview import look_at
from airflow_provider_continuous.view.roots import NotBelowRootsError, Root
from engine.base.clock import SystemClock
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import OwnNote
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.own_pages import pages_of
from tests.waiting import wait_until

ERROR = "Cannot write to /out: File exists."


@pytest.fixture
def live(tmp_path: Path) -> LiveCheckpoint:
    return LiveCheckpoint(tmp_path / "checkpoint")


def text_of(page: str, part: str = "") -> str:
    """Its text, or that of the element with this id and what follows it."""
    found = page.partition(f'id="{part}"')[2].partition(">")[2] if part else page
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", found)).split())


def own_page(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> str:
    return pages_of(live, monkeypatch).get("/query", params={"at": "/x"}).text


def list_page(
    live: LiveCheckpoint,
    monkeypatch: pytest.MonkeyPatch,
    owners: tuple[dict[str, Any], ...] = (),
    absent: Sequence[Owner] = (),
) -> str:
    query = {**look_at(live.checkpoint, live.location).to_dict(), "owners": list(owners)}
    not_there = [{"location": each.location, "owners": [asdict(each)]} for each in absent]
    found: dict[str, Any] = {
        "roots": [],
        "absent_roots": [],
        "queries": [query],
        "absent": not_there,
        "problems": [],
    }
    monkeypatch.setattr(pages, "look_at_all", lambda seen: found)
    app = pages.create_app()
    app.dependency_overrides[access.viewer] = lambda: SimpleNamespace(seen=list, sees_roots=True)
    return TestClient(app).get("/").text


def test_an_error_that_a_restart_follows_is_told_once(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold()
    assert live.lease is not None
    message = f"Restart 8 follows, after: {ERROR}"
    live.lease.heartbeat(
        state=QueryState.RESTARTING, message=message, last_error=ERROR, failing_since_ms=1
    )

    page = own_page(live, monkeypatch)
    assert text_of(page, "trouble").startswith(f"Last error {ERROR}")
    assert "follows, after" not in text_of(page)
    listed = list_page(live, monkeypatch)
    assert listed.count(f">{ERROR}<") == 1
    assert "follows, after" not in text_of(listed)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("SinkUnavailableError", "SinkUnavailableError The sink cannot be reached; "),
        ("NewerError", ""),
        ("x; rm -r /", ""),
        (["x"], ""),
        (None, ""),
    ],
)
def test_what_the_class_of_an_error_means_is_told(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch, name: Any, told: str
) -> None:
    live.hold()
    assert live.lease is not None
    live.lease.heartbeat(last_error=ERROR, error_class=name)

    trouble = text_of(own_page(live, monkeypatch), "trouble").partition("last committed")[0]

    assert trouble.startswith(f"Last error {ERROR} {told}")
    assert ("continuous errors SinkUnavailableError" in trouble) is bool(told)
    assert "rm -r" not in trouble


def owner(task: str, location: str, at_ms: int = 0) -> Owner:
    return Owner("orders", task, "a run", -1, location, at_ms)


def test_all_tasks_that_have_told_of_a_query_are_found_on_its_page(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.commit(0)
    known = [owner(task, live.location, number) for number, task in enumerate(("first", "second"))]
    app = pages_of(live, monkeypatch)
    monkeypatch.setattr(
        pages, "find_query", lambda location, seen: named_query([], known, live.location)
    )

    page = app.get("/query", params={"at": "/x"}).text

    for each in known:
        assert f'href="/dags/orders/runs/a%20run/tasks/{each.task_id}"' in page
    assert " more" not in text_of(page, "about").partition("Checkpoint")[0]


def test_a_start_that_failed_before_there_was_a_checkpoint_is_found_from_the_list(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [owner(f"start{number}", f"/data/failed{number}") for number in range(21, -1, -1)]

    page = list_page(live, monkeypatch, absent=told)

    assert 'href="/query?at=%2Fdata%2Ffailed21"' in page
    assert 'href="/dags/orders/runs/a%20run/tasks/start21"' in page
    assert text_of(page, "absent").partition("start2 ")[2].startswith("and 2 more")
    assert '%2Fdata%2Ffailed1"' not in page


def test_a_query_that_a_task_has_told_of_and_that_is_not_there_is_told(tmp_path: Path) -> None:
    nowhere = f"{tmp_path}/never-started"
    told = [owner("start", nowhere)]

    with pytest.raises(NotBelowRootsError) as caught:
        named_query([], told, nowhere)

    assert caught.value.message == (
        f"Nothing is at {nowhere}, of which the task start of the DAG orders has told."
    )
    assert "the log of the task says why" in str(caught.value)
    # Who may see none of its DAGs does not learn that there is one.
    with pytest.raises(NotBelowRootsError, match="There is no such checkpoint"):
        named_query([], told, nowhere, lambda queries: [])


def test_a_lost_query_is_told_with_what_to_do_and_no_earlier_error_is_its_cause(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold()
    live.commit(0, 1)
    assert live.lease is not None
    live.lease.heartbeat(last_error=ERROR, restarts=1)
    live.lose()

    told = text_of(own_page(live, monkeypatch), "trouble").partition("last committed")[0]

    assert "Nobody runs it now" in told
    assert "goes on behind epoch 1" in told
    assert f"Why it was restarted the last time {ERROR}" in told
    assert "Why it failed" not in told


def test_one_file_is_no_files(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    live.commit(0)
    own_page(live, monkeypatch)  # begins to measure

    def told() -> str:
        return text_of(own_page(live, monkeypatch), "about").partition("Query id")[0]

    wait_until(lambda: "being measured" not in told(), "it is measured")

    assert re.search(r"commits \d+ B in 1 file\b", told())
    assert "in 1 files" not in told()


def test_a_query_that_has_failed_attempts_nothing_more(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold()
    assert live.lease is not None
    began_ms = 1767225600000
    live.lease.heartbeat(failing_since_ms=began_ms, next_attempt_at_ms=began_ms + 60_000)
    live.end(QueryState.FAILED, ERROR)

    told = text_of(own_page(live, monkeypatch), "trouble").partition("last committed")[0]

    assert "It was failing since 2026-01-01 00:00:00 UTC." in told
    assert "next attempt" not in told
    assert live.checkpoint.status().next_attempt_at_ms is None


def sure(page: str, action: str) -> str:
    """What is asked before something is done."""
    (asked,) = re.findall(f'data-act="{action}" data-sure="([^"]*)"', page)
    return asked


def test_who_ends_a_query_is_told_that_its_dag_may_start_it_again(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold()
    app = pages_of(live, monkeypatch)
    known: list[Owner] = []
    monkeypatch.setattr(
        pages,
        "find_query",
        lambda location, seen: named_query(
            [Root(str(Path(live.location).parent))], known, live.location
        ),
    )

    def asked(action: str) -> str:
        return sure(app.get("/query", params={"at": "/x"}).text, action)

    assert asked("drain") == "Drain this query? It finishes its open epochs and ends."
    known.append(owner("first", live.location))
    again = "The DAG orders may start it again: if it is to stay down, pause that first."
    for action in ("drain", "stop"):
        assert asked(action).endswith(f" {again}")
    known.append(Owner("lines", "start", "a run", -1, live.location, 1))
    again = "The DAGs lines, orders may start it again: if it is to stay down, pause these first."
    assert asked("drain").endswith(f" {again}")


def test_a_rewind_is_told_as_one_and_not_as_a_run_whose_process_has_ended(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold()
    live.commit(0, 1, 2)
    live.end(QueryState.STOPPED)
    live.checkpoint.rewind(1, accept_repeats=True)

    told = text_of(own_page(live, monkeypatch), "about")
    # It is the process of the server, which lives.
    assert re.search(rf"Rewound 20\S+ \S+ UTC, by process {os.getpid()} on ", told)
    assert "Ran " not in told
    assert "Process" not in told

    live.hold("run-2")
    assert "Rewound" not in text_of(own_page(live, monkeypatch), "about")


def test_what_turns_the_direction_of_text_is_shown_and_not_obeyed(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold()
    live.commit(0)
    live.checkpoint.progress.write([{"batchId": 0, "runId": "r", "name": "or\u202eders\u2066"}])
    assert live.lease is not None
    live.lease.heartbeat(last_error="\u2067No such file")

    for page in (own_page(live, monkeypatch), list_page(live, monkeypatch)):
        assert not set("\u202e\u2066\u2067") & set(page)
        assert r"or\u202eders\u2066" in page
        assert r"\u2067No such file" in page


def test_a_location_that_turns_the_direction_of_text_is_asked_for_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned = LiveCheckpoint(f"{tmp_path}/a\u202eb")
    turned.commit(0)

    page = own_page(turned, monkeypatch)

    assert f'name="at" value="{turned.location}"' in page
    assert "a%E2%80%AEb&amp;window=5m" in page
    assert "\u202e" not in text_of(page)


def ending(page: str) -> dict[str, bool]:
    """Which ways to end a query the page offers: name → whether it may be clicked."""
    found = re.findall(r'<button[^>]*data-act="(drain|stop)"[^>]*>', page)
    assert found == ["drain", "stop"]
    tags = re.findall(r'<button[^>]*data-act="(?:drain|stop)"[^>]*>', page)
    return {name: " disabled" not in tag for name, tag in zip(found, tags, strict=True)}


def test_a_query_that_has_ended_is_not_offered_to_be_ended(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    untold = own_page(live, monkeypatch)
    assert ending(untold) == {"drain": False, "stop": False}
    assert "ends by query.stop() in its own process" in text_of(untold, "ends")

    live.hold()
    running = own_page(live, monkeypatch)
    assert ending(running) == {"drain": True, "stop": True}
    assert "Nobody runs it" not in text_of(running, "ends")

    live.lose()
    lost = own_page(live, monkeypatch)
    assert ending(lost) == {"drain": False, "stop": False}
    assert "Nobody runs it: it is lost." in text_of(lost, "ends")
    OwnNote(live.checkpoint.storage, SystemClock()).tell()
    assert ending(own_page(live, monkeypatch)) == {"drain": True, "stop": True}

    live.hold("run-2")
    live.end(QueryState.STOPPED)
    assert "Nobody runs it: it is stopped." in text_of(own_page(live, monkeypatch), "ends")
