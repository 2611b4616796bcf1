"""Epochs in which nothing is read may be long."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.errors import TransformError
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.query.handle import ContinuousQuery
from tests.model import HOUR_MS, ModelPartitionReader, definition
from tests.simulation.story import WAIT_S, Story
from tests.waiting import wait_until


@pytest.fixture
def heartbeats(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released with each heartbeat: the time of a query that does nothing else."""
    beats, heartbeat = threading.Semaphore(0), Lease.heartbeat

    def counted(lease: Lease, **changes: Any) -> Any:
        beats.release()
        return heartbeat(lease, **changes)

    monkeypatch.setattr(Lease, "heartbeat", counted)
    return beats


def idle(heartbeats: threading.Semaphore) -> None:
    while heartbeats.acquire(blocking=False):
        pass
    for _ in range(10):  # 50 ms apart, 25 intervals
        assert heartbeats.acquire(timeout=WAIT_S)


@pytest.mark.parametrize("interval_ms", [20, 0])
def test_an_empty_epoch_goes_on_until_records_arrive(
    story: Story, heartbeats: threading.Semaphore, interval_ms: int
) -> None:
    query = story.start(interval_ms=interval_ms, empty_epoch_interval="1 hour")
    for turn in range(3):
        story.feed.add(1)
        story.await_rows(query, 2 * (turn + 1))
        idle(heartbeats)
        epoch = query.status["epoch"]
        idle(heartbeats)
        assert query.status["epoch"] == epoch
    end(story, query)
    assert story.checkpoint.committed_epoch() <= 3 * 2, "two partitions may see two epochs"


def test_an_empty_epoch_ends_at_last(story: Story) -> None:
    query = story.start(interval_ms=20, empty_epoch_interval="100 milliseconds")
    assert query.awaitEpoch(3, WAIT_S)
    end(story, query)


@pytest.mark.parametrize("interval_ms", [20, 0])
def test_who_waits_for_an_epoch_need_not_wait_for_records(story: Story, interval_ms: int) -> None:
    """After a restart in place, too."""
    query = story.start(
        interval_ms=interval_ms, empty_epoch_interval="1 hour", retry_source_for_ms=HOUR_MS
    )
    assert query.awaitEpoch(5, WAIT_S)
    query.processAllAvailable()
    story.feed.faults[(0, 0)] = ValueError("the wire is cut")
    story.feed.add(1)
    assert query.awaitEpoch(query.status["epoch"] + 10, WAIT_S)
    assert query.status["restarts"] == 1
    end(story, query)


@pytest.mark.parametrize("interval_ms", [20, 0])
def test_who_has_given_up_waiting_ends_no_more_epochs(
    story: Story, heartbeats: threading.Semaphore, interval_ms: int
) -> None:
    query = story.start(interval_ms=interval_ms, empty_epoch_interval="1 hour")
    assert query.awaitEpoch(3, WAIT_S)
    assert not query.awaitEpoch(1_000_000, 0.05)
    idle(heartbeats)
    epoch = query.status["epoch"]
    idle(heartbeats)
    assert query.status["epoch"] == epoch
    assert query.awaitEpoch(epoch + 3, WAIT_S)
    end(story, query)


def test_an_empty_epoch_is_drained_at_once(story: Story, heartbeats: threading.Semaphore) -> None:
    query = story.start(interval_ms=20, empty_epoch_interval="1 hour")
    idle(heartbeats)
    assert query.status["epoch"] == -1
    end(story, query)
    assert story.checkpoint.committed_epoch() == 0


def test_a_failure_is_over_without_records(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the next one comes when its window would have ended."""
    hiccups: list[Exception] = []
    read = ModelPartitionReader.read

    def failing(reader: ModelPartitionReader, timeout_s: float) -> Any:
        if hiccups and reader._index == 0:
            raise hiccups.pop()
        return read(reader, timeout_s)

    monkeypatch.setattr(ModelPartitionReader, "read", failing)
    clock = ManualClock()
    query = story.start(
        clock=clock, interval_ms=0, empty_epoch_interval="1 day", retry_source_for_ms=HOUR_MS
    )

    def is_well(restarts: int) -> bool:
        status = query.status
        return status["restarts"] == restarts and status["failing_since_ms"] is None

    for restarts in range(1, 4):
        hiccups.append(ValueError("the broker is elected"))
        wait_until(partial(is_well, restarts), f"to be well after {restarts} restarts")
        assert query.status["state"] == QueryState.RUNNING.value
        clock.advance(2 * HOUR_MS / 1000)
    end(story, query)


def test_an_idle_time_is_healthy(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failure of the user's code is long over when the next one comes."""
    clock, looks, on_idle = ManualClock(), threading.Semaphore(0), ContinuousExecution.on_idle

    def counted(execution: ContinuousExecution) -> None:
        on_idle(execution)
        looks.release()

    def is_looked_at() -> bool:
        clock.advance(1)
        return looks.acquire(blocking=False)

    monkeypatch.setattr(ContinuousExecution, "on_idle", counted)
    query = story.start(
        clock=clock,
        interval_ms=0,
        empty_epoch_interval="1 day",
        restarts_user=1,
        restart_reset_after_s=300,
    )
    for seq in range(3):
        story.feed.faults[(0, seq)] = TransformError("division by zero")
        story.feed.add(1)
        story.await_rows(query, 2 * (seq + 1))
        wait_until(is_looked_at, "an idle query")
        clock.advance(400)
        for _ in range(2):  # the first may have begun before
            wait_until(is_looked_at, "a look at the idle query")
    assert query.status["restarts"] == 3
    end(story, query)


def test_on_s3_an_idle_query_asks_for_its_lease_and_requests_alone(
    story: Story, heartbeats: threading.Semaphore
) -> None:
    """So that an interval of the lease costs two requests, and an empty epoch nothing."""
    pytest.importorskip("s3fs", reason="needs the extra s3")
    pytest.importorskip("moto.server", reason="needs moto[server]")
    from bench.slow_s3 import SlowS3

    with SlowS3() as s3:
        options: dict[str, Any] = {"interval_ms": 20, "empty_epoch_interval": "1 hour"}
        made = definition(story.feed, story.sink, story.folder, **options)
        made = replace(made, checkpoint=Checkpoint(s3.url, s3.options))
        execution = ContinuousExecution(made, ThreadLauncher())
        execution.start()
        idle(heartbeats)
        s3.take()
        idle(heartbeats)
        assert set(s3.take()) == {"LIST control/", "PUT control/lease"}
        end(story, ContinuousQuery(execution, str))


def end(story: Story, query: ContinuousQuery) -> None:
    query.drain(WAIT_S)
    assert query.exception() is None
    story.sink.assert_exactly_once(story.partitions)
