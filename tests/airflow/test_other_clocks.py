"""A machine whose clock is ahead: a query on another one does not count as lost for that."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from engine.base.clock import SystemClock
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.waiting import wait_until

BEHIND_MS = 90_000
BEATS_MS = 2_000
"""What the run says of its heartbeats; it is so much faster that a busy machine misses none."""


@contextmanager
def beating(live: LiveCheckpoint, ends: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """A run on another machine, whose clock is behind this one's, renews its lease."""
    over = threading.Event()

    def beat() -> None:
        file = Path(live.location) / "control" / "lease"
        record = json.loads(file.read_text())
        while not over.wait(0.1):
            now_ms = int(time.time() * 1000) - BEHIND_MS
            state = "STOPPED" if ends() else "RUNNING"
            record |= {"heartbeat_at_ms": now_ms, "state": state}
            live.checkpoint.storage.replace("control/lease", json.dumps(record).encode())

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    _say(live, heartbeat_interval_ms=100)  # who looks then need not watch for long


def _say(live: LiveCheckpoint, **changes: Any) -> None:
    file = Path(live.location) / "control" / "lease"
    record = {**json.loads(file.read_text()), **changes}
    live.checkpoint.storage.replace("control/lease", json.dumps(record).encode())


@pytest.fixture
def elsewhere(spec: dict[str, Any]) -> LiveCheckpoint:
    """A query of another machine, which has said nothing for longer than a lease lasts."""
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold()
    live.commit(0)
    live.lose(BEHIND_MS / 1000)
    _say(live, host="elsewhere", summary=None, heartbeat_interval_ms=BEATS_MS)
    return live


def test_a_run_that_renews_its_lease_is_not_lost(
    elsewhere: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = CheckpointHook(elsewhere.location)
    with beating(elsewhere):
        assert [hook.status().state for _ in range(3)] == [QueryState.RUNNING] * 3

    # Its last heartbeat may be new to whoever has looked before.
    wait_until(lambda: hook.status().state is QueryState.LOST, "its loss")
    watched: list[float] = []
    monkeypatch.setattr(SystemClock, "sleep", lambda _, seconds: watched.append(seconds))
    assert hook.status().state is QueryState.LOST
    assert watched == [], "it is watched once"


def test_it_is_adopted(elsewhere: LiveCheckpoint, spec: dict[str, Any], context: Any) -> None:
    start = StartContinuousQueryOperator(
        task_id="t", spec=spec, deferrable=False, poll_interval=0.05, timeout=30
    )

    with beating(elsewhere):
        assert start.execute(context)["run_id"] == "run-1"


def test_it_is_drained(elsewhere: LiveCheckpoint, context: Any) -> None:
    requests = elsewhere.checkpoint.requests
    task = DrainContinuousQueryOperator(
        task_id="t", checkpoint_location=elsewhere.location, deferrable=False, poll_interval=0.05
    )

    with beating(elsewhere, lambda: requests.pending("run-1") is not None):
        assert task.execute(context)["state"] == "STOPPED"


def test_its_end_is_awaited(elsewhere: LiveCheckpoint) -> None:
    waits = QueryEndedTrigger(elsewhere.location, "run-1", poll_interval_s=0.05)
    with beating(elsewhere):
        assert waits.observe() is None

    event = wait_until(waits.observe, "its end")
    assert (event["outcome"], event["state"]) == ("ended", "LOST")
