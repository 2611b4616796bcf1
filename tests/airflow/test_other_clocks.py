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
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

BEHIND_MS = 90_000


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


@pytest.fixture
def elsewhere(spec: dict[str, Any]) -> LiveCheckpoint:
    """A query of another machine, which has said nothing for longer than a lease lasts."""
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold()
    live.commit(0)
    live.lose(BEHIND_MS / 1000)
    file = Path(live.location) / "control" / "lease"
    record = {**json.loads(file.read_text()), "host": "elsewhere", "summary": None}
    file.write_text(json.dumps({**record, "heartbeat_interval_ms": 400}))
    return live


def test_a_run_that_renews_its_lease_is_not_lost(elsewhere: LiveCheckpoint) -> None:
    hook = CheckpointHook(elsewhere.location)
    with beating(elsewhere):
        assert [hook.status().state for _ in range(3)] == [QueryState.RUNNING] * 3

    assert hook.status().state is QueryState.LOST
    before_s = time.monotonic()
    assert hook.status().state is QueryState.LOST
    assert time.monotonic() - before_s < 0.5, "it is watched once"


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

    event = waits.observe()
    assert event is not None
    assert (event["outcome"], event["state"]) == ("ended", "LOST")
