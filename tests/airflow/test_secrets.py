"""What a query's driver says in its error carries secrets; Airflow shows none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_continuous.deploy.driver_log import KEY_BYTES_MAX, LINES_MAX, DriverLog, tail
from airflow_provider_continuous.errors import QueryEndedError
from airflow_provider_continuous.notifications.query import describe
from airflow_provider_continuous.outcomes import expect
from airflow_provider_continuous.triggers.query import QueryRunningTrigger
from airflow_provider_continuous.view.overview import look_at
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

SECRET = "hunter2"
LEAK = f"connect('postgresql://ann:{SECRET}@db', token='{SECRET}') failed: Bearer {SECRET}{SECRET}"
KEY = f"a\n-----BEGIN PRIVATE KEY-----\n{SECRET}\n{SECRET}\n-----END PRIVATE KEY-----\nb\n"


def test_events_errors_pages_and_notifications(live: LiveCheckpoint) -> None:
    live.hold()
    assert live.lease is not None
    live.lease.heartbeat(message=LEAK, last_error=LEAK)
    live.end(QueryState.FAILED, LEAK)
    event = QueryRunningTrigger(live.location).observe()
    assert event is not None
    assert "ann:***@db" in event["error"]
    with pytest.raises(QueryEndedError) as caught:
        expect(event, "running")
    overview = look_at(live.checkpoint, live.location)
    told = [
        json.dumps(event),
        str(caught.value),
        json.dumps(overview.to_dict()),
        describe(overview),
    ]
    assert SECRET not in "".join(told)


def test_the_drivers_log(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text(f"{LEAK}\n{KEY}")
    for shown in (tail(log).split("\n"), DriverLog(log).new_lines()):
        assert SECRET not in "".join(shown)
        assert shown[-1] == "b"


def test_the_drivers_log_while_a_key_is_written(tmp_path: Path) -> None:
    """However the looks fall: of a key's later lines alone nobody could tell what they are."""
    lines = KEY.splitlines(keepends=True)
    path = tmp_path / "driver.log"
    for first in range(len(lines)):
        for second in range(first, len(lines)):
            log, shown = DriverLog(path), []
            for written in (first, second, len(lines)):
                path.write_text("".join(lines[:written]))
                shown += log.new_lines()
            assert shown == ["a", "-----BEGIN PRIVATE KEY-----***", "b"]


def test_a_key_that_does_not_end_holds_up_the_log_for_a_while_only(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    log = DriverLog(path)
    begun = "".join(KEY.splitlines(keepends=True)[:3])
    path.write_text(begun)
    assert log.new_lines() == ["a"]
    assert DriverLog(path, log.position).new_lines(ended=True) == ["-----BEGIN PRIVATE KEY-----***"]
    path.write_text(begun + "x" * KEY_BYTES_MAX + "\n")
    assert log.new_lines() == ["-----BEGIN PRIVATE KEY-----***"]
    path.write_text(begun + "x" * KEY_BYTES_MAX + "\nc\n")
    assert log.new_lines() == ["c"]


def test_the_drivers_log_is_cut_within_a_key(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    path.write_text(KEY + "x\n" * (LINES_MAX - 4))
    told, *shown = DriverLog(path).new_lines()
    assert "bytes left out" in told
    assert SECRET not in "".join(shown)
