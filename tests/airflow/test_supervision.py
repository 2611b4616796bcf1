"""What the triggers that stay with a run make of its states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.triggers import kill
from airflow_provider_continuous.triggers.supervise import (
    HealthyEpochsTrigger,
    QuerySupervisionTrigger,
)
from engine.base.clock import SystemClock
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import OwnNote
from engine.checkpoint.summary import Summary
from tests.airflow.live_checkpoint import LiveCheckpoint


def healthy(live: LiveCheckpoint, **limits: Any) -> Any:
    trigger = HealthyEpochsTrigger(live.location, after_epoch=0, epochs=2, run_id="run-1", **limits)
    return trigger.observe()


@pytest.mark.parametrize("state", [QueryState.RESTARTING, QueryState.STALLED, QueryState.WAITING])
def test_epochs_of_a_query_that_does_not_run_well_are_not_healthy(
    live: LiveCheckpoint, state: QueryState
) -> None:
    live.hold(state=state)
    live.commit(0, 1, 2)
    assert healthy(live) is None


def test_a_query_that_has_come_to_its_own_end_was_healthy(live: LiveCheckpoint) -> None:
    live.hold()
    live.commit(0, 1, 2)
    live.end(QueryState.STOPPED)
    assert healthy(live)["outcome"] == "healthy"


def test_a_query_that_ended_too_early_was_not(live: LiveCheckpoint) -> None:
    live.hold()
    live.commit(0, 1)
    live.end(QueryState.STOPPED)
    assert healthy(live)["outcome"] == "ended"


def test_what_has_piled_up_must_be_read(live: LiveCheckpoint, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0").write_text("x" * 35 + "\n")
    source = {"format": "tail", "options": {"path": str(folder)}}
    live.hold()
    live.commit(0, 1, 2)  # up to byte 30
    assert healthy(live, lag_max=5, sources=[source]) is None
    assert healthy(live, lag_max=6, sources=[source])["outcome"] == "healthy"
    assert healthy(live, lag_max=5, sources=[None])["outcome"] == "healthy"
    two = healthy(live, lag_max=5, sources=[source, None])
    assert "The query has 1 source, and source names 2." in two["error"]


def test_a_checkpoint_that_is_gone_is_an_error(live: LiveCheckpoint) -> None:
    live.hold()
    trigger = QuerySupervisionTrigger(live.location, run_id="run-1")
    assert trigger.observe() is None
    live.checkpoint.delete()
    event = trigger.observe()
    assert event is not None
    assert event["outcome"] == "error"


@pytest.mark.parametrize("summary", [None, Summary(epoch=-1)])
def test_a_query_without_its_standby_is_told(live: LiveCheckpoint, summary: Summary | None) -> None:
    """Also where a look takes one read, and what it sees is looked at once more."""
    live.hold()
    assert live.lease is not None
    live.lease.heartbeat(summary=summary)
    note = OwnNote(live.checkpoint.storage, SystemClock())
    note.tell()
    trigger = QuerySupervisionTrigger(live.location, run_id="run-1", standby_due=0.0)
    assert trigger.observe() is None, "one waits"
    note.forget()
    trigger._standby_seen_s = 0.0

    event = trigger.observe()

    assert event is not None
    assert event["outcome"] == "alone"


def test_the_drivers_log_goes_to_the_tasks_log(
    live: LiveCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(kill, "LOG_EVERY_S", 0.0)
    log = tmp_path / "driver.log"
    log.write_text("before\nstarted, password=hush\nhalf a li")
    live.hold()
    trigger = QuerySupervisionTrigger(
        live.location, run_id="run-1", log_path=str(log), log_position=len("before\n")
    )
    monkeypatch.setattr(trigger.log, "info", lambda *words: said.append(words[-1]))
    assert trigger.observe() is None
    assert said == ["started, password=***"]
    log.write_text(log.read_text() + "ne\nlast words")
    moved = QuerySupervisionTrigger(**trigger.arguments())
    monkeypatch.setattr(moved.log, "info", lambda *words: said.append(words[-1]))
    live.end(QueryState.FAILED, "disk full")
    assert moved.observe() is not None
    assert said[1:] == ["half a line", "last words"]
