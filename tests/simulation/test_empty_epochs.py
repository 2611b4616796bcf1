"""Epochs in which nothing is read may be long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import pytest
from pyspark.sql.streaming.state import GroupState

from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from engine.errors import TransformError
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.query.handle import ContinuousQuery
from tests.custom_states import group_step
from tests.model import HOUR_MS, ModelPartitionReader, definition
from tests.simulation.story import WAIT_S, Story
from tests.waiting import wait_until


class Idle:
    """The time of a query that does nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._looks, on_idle = threading.Semaphore(0), ContinuousExecution.on_idle

        def counted(execution: ContinuousExecution) -> None:
            on_idle(execution)
            self._looks.release()

        monkeypatch.setattr(ContinuousExecution, "on_idle", counted)
        monkeypatch.setattr("engine.execution.run._WATCH_S", 0.1)

    def pass_by(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Until the run, between two turns of its loop, has found its open epoch empty and all
        others committed, and then once more: a tenth of a second, five intervals, lie between."""
        while self._looks.acquire(blocking=False):
            pass

        def is_looked_at() -> bool:
            meanwhile()
            return self._looks.acquire(blocking=False)

        for _ in range(3):  # the first may have begun before
            wait_until(is_looked_at, "an idle query", WAIT_S)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Idle:
    return Idle(monkeypatch)


@pytest.mark.parametrize("interval_ms", [20, 0])
def test_an_empty_epoch_goes_on_until_records_arrive(
    story: Story, idle: Idle, interval_ms: int
) -> None:
    query = story.start(interval_ms=interval_ms, empty_epoch_interval="1 hour")
    for turn in range(3):
        story.feed.add(1)
        # Who waits for an epoch would end one that is empty.
        wait_until(partial(has_rows, story, 2 * (turn + 1)), "the rows", WAIT_S)
        idle.pass_by()
        epoch = query.status["epoch"]
        idle.pass_by()
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
    wait_until(lambda: query.status["restarts"] == 1, "the restart", WAIT_S)
    assert query.awaitEpoch(query.status["epoch"] + 10, WAIT_S)
    assert query.status["restarts"] == 1
    end(story, query)


@pytest.mark.parametrize("interval_ms", [20, 0])
def test_who_has_given_up_waiting_ends_no_more_epochs(
    story: Story, idle: Idle, interval_ms: int
) -> None:
    query = story.start(interval_ms=interval_ms, empty_epoch_interval="1 hour")
    assert query.awaitEpoch(3, WAIT_S)
    assert not query.awaitEpoch(1_000_000, 0.05)
    idle.pass_by()
    epoch = query.status["epoch"]
    idle.pass_by()
    assert query.status["epoch"] == epoch
    assert query.awaitEpoch(epoch + 3, WAIT_S)
    end(story, query)


def once_more(key: Any, frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
    """A row half a second behind those of its key."""
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"partition": [key[0]], "seq": [0]})
        return
    for _ in frames:
        state.setTimeoutDuration(500)


@pytest.mark.parametrize("interval_ms", [20, 0])
def test_a_timer_ends_an_empty_epoch(story: Story, interval_ms: int) -> None:
    columns = "partition int, seq long"
    step = group_step(once_more, columns, columns, "n long", timeout="ProcessingTimeTimeout")
    made = definition(
        story.feed,
        story.sink,
        story.folder,
        interval_ms=interval_ms,
        empty_epoch_interval="1 hour",
    )
    (stream,) = made.streams
    stream = replace(stream, pipeline=replace(stream.pipeline, steps=(step,)))
    made = replace(made, streams=(stream,))
    for turn in range(2):  # the second run has a timer of the first
        execution = ContinuousExecution(made, ThreadLauncher(), None)
        execution.start()
        query = ContinuousQuery(execution, str)
        wait_until(partial(has_rows, story, 4 * turn), "the timers of the run before", WAIT_S)
        story.feed.add(1)
        wait_until(partial(has_rows, story, 4 * turn + 2), "what timers write", WAIT_S)
        story.feed.add(1)
        story.feed.await_read(2 * turn + 2, WAIT_S)
        assert query.drain(WAIT_S)


def test_an_empty_epoch_is_drained_at_once(story: Story, idle: Idle) -> None:
    query = story.start(interval_ms=20, empty_epoch_interval="1 hour")
    idle.pass_by()
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

    def is_well(restarts: int, epoch: int) -> bool:
        status = query.status
        has_gone_on = status["restarts"] == restarts and status["epoch"] > epoch
        return has_gone_on and status["failing_since_ms"] is None

    for restarts in range(1, 4):
        epoch = query.status["epoch"]
        hiccups.append(ValueError("the broker is elected"))
        wait_until(partial(is_well, restarts, epoch), f"to be well after {restarts} restarts")
        assert query.status["state"] == QueryState.RUNNING.value
        clock.advance(2 * HOUR_MS / 1000)
    end(story, query)


def test_an_idle_time_is_healthy(story: Story, idle: Idle) -> None:
    """Each failure of the user's code is long over when the next one comes."""
    clock = ManualClock()
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
        idle.pass_by(partial(clock.advance, 1))
        clock.advance(400)
        idle.pass_by(partial(clock.advance, 1))
    assert query.status["restarts"] == 3
    end(story, query)


def test_on_s3_an_idle_query_asks_for_its_lease_and_requests_alone(
    story: Story, idle: Idle
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
        wait_until(lambda: "PUT progress/history" in s3.calls, "the mark of the start", WAIT_S)
        idle.pass_by()
        s3.take()
        idle.pass_by()
        heartbeat = {"LIST control/", "PUT control/lease"}
        wait_until(lambda: heartbeat <= set(s3.calls), "a heartbeat", WAIT_S)
        assert set(s3.take()) == heartbeat
        end(story, ContinuousQuery(execution, str))


def has_rows(story: Story, count: int) -> bool:
    return len(story.sink.rows()) >= count


def end(story: Story, query: ContinuousQuery) -> None:
    query.drain(WAIT_S)
    assert query.exception() is None
    story.sink.assert_exactly_once(story.partitions)
