"""What comes back after a while, on the query's own clock: pauses take no time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.base.clock import ManualClock
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import (
    CheckpointError,
    SinkCommitUnknownError,
    SinkUnavailableError,
    SourceError,
    TransformError,
)
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.execution.restart_budget import UNPROVEN_S
from engine.query.handle import ContinuousQuery
from engine.task.loop import TaskDismissed
from tests.model import HOUR_MS, ModelReader, definition
from tests.simulation.story import WAIT_S, Story, await_status

ROWS = 20


class Outage:
    """Something is down for so many seconds of the clock, once ``begin`` was called."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._until_s: float | None = None
        self.seen: list[dict[str, Any]] = []

    def begin(self) -> None:
        self._until_s = self._clock.monotonic_s() + self._seconds

    @property
    def is_on(self) -> bool:
        return self._until_s is not None and self._clock.monotonic_s() < self._until_s

    @property
    def is_over(self) -> bool:
        return self._until_s is not None and not self.is_on


def sink_that_is_down(story: Story, is_down: Callable[[], bool]) -> None:
    commit = story.sink.commit

    def failing(messages: Any, epoch: int) -> None:
        if is_down():
            raise ConnectionError("the database fails over")
        commit(messages, epoch)

    story.sink.commit = failing  # type: ignore[method-assign]


def finish(story: Story, query: Any, outage: Outage) -> None:
    story.feed.add(ROWS)
    story.await_rows(query, 2 * ROWS)
    assert outage.is_over
    assert query.awaitEpoch(query.status["epoch"] + 1, WAIT_S)
    assert query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 2 * ROWS
    status = story.checkpoint.status()
    assert (status.state, status.error) == (QueryState.STOPPED, None)


def test_a_sink_that_is_down_for_most_of_an_hour(story: Story) -> None:
    clock = ManualClock()
    outage = Outage(clock, 50 * 60)
    query = story.start(clock=clock, interval_ms=0, retry_sink_for_ms=HOUR_MS)
    assert query.awaitEpoch(0, WAIT_S)
    began_ms, seen = clock.now_ms(), []

    def is_down() -> bool:
        if outage.is_on:
            seen.append(query.status)
        return outage.is_on

    sink_that_is_down(story, is_down)
    outage.begin()
    finish(story, query, outage)
    assert 50 < query.status["restarts"] < 100
    assert {status["failing_since_ms"] for status in seen[1:]} == {began_ms}
    assert {status["state"] for status in seen[1:]} == {QueryState.RESTARTING.value}
    assert all("fails over" in status["message"] for status in seen[1:])
    assert query.status["failing_since_ms"] is None
    last = query.lastProgress
    assert last is not None
    assert "fails over" in last["lastError"]


def test_an_outage_that_does_not_end_is_given_up_after_an_hour(story: Story) -> None:
    clock = ManualClock()
    query = story.start(clock=clock, interval_ms=0, retry_sink_for_ms=HOUR_MS)
    assert query.awaitEpoch(0, WAIT_S)
    began_s = clock.monotonic_s()
    sink_that_is_down(story, lambda: True)
    with pytest.raises(SinkCommitUnknownError, match="fails over"):
        query.awaitTermination(WAIT_S)
    assert clock.monotonic_s() - began_s == pytest.approx(HOUR_MS / 1000)


def test_a_sink_that_has_never_worked_is_told_after_a_minute(story: Story) -> None:
    clock = ManualClock()
    sink_that_is_down(story, lambda: True)
    query = story.start(clock=clock, interval_ms=0, retry_sink_for_ms=HOUR_MS)
    with pytest.raises(SinkCommitUnknownError, match="fails over"):
        query.awaitTermination(WAIT_S)
    assert clock.monotonic_s() == pytest.approx(UNPROVEN_S)


def test_a_sink_that_is_down_at_the_start_is_told_by_the_start(story: Story) -> None:
    def latest() -> int:
        raise ConnectionError("the database fails over")

    story.sink.latestEpoch = latest  # type: ignore[attr-defined]
    with pytest.raises(SinkUnavailableError, match="fails over"):
        story.start(retry_sink_for_ms=HOUR_MS)
    assert story.checkpoint.status().state is QueryState.FAILED


def test_a_storage_that_is_down_for_half_an_hour(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    outage = Outage(clock, 30 * 60)
    for name in ("create", "replace", "read", "list", "exists", "delete", "sync"):
        method = getattr(LocalStorage, name)

        def failing(self: LocalStorage, *given: Any, _method: Any = method, **named: Any) -> Any:
            if outage.is_on:
                raise CheckpointError("no route to the storage")
            return _method(self, *given, **named)

        monkeypatch.setattr(LocalStorage, name, failing)
    query = story.start(clock=clock, interval_ms=0, retry_storage_for_ms=HOUR_MS)
    assert query.awaitEpoch(0, WAIT_S)
    outage.begin()
    finish(story, query, outage)
    assert "no route" in query.status["last_error"]


def test_an_attempt_that_has_only_claimed_the_checkpoint_fences_no_later_one(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage fails when the claim is made, and the one before is gone."""
    write = Lease._write
    failures: list[CheckpointError] = []

    def failing(self: Lease, record: Any, *, durable: bool = False) -> None:
        if failures and record.state is QueryState.STARTING and record.message is None:
            raise failures.pop()  # the first one, of a lease that is just acquired
        write(self, record, durable=durable)

    monkeypatch.setattr(Lease, "_write", failing)
    query = story.start(
        retry_storage_for_ms=HOUR_MS, retry_infrastructure_for_ms=HOUR_MS, restart_delay_ms=500
    )
    assert query.awaitEpoch(0, WAIT_S)
    failures.append(CheckpointError("no route to the storage"))
    story.feed.faults[(0, 0)] = TaskDismissed()
    story.feed.add(ROWS)
    story.await_rows(query, 2 * ROWS)
    assert query.status["restarts"] == 2
    assert query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 2 * ROWS


def test_the_checkpoint_is_kept_while_it_could_not_be_taken(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is made in the pause behind is heard."""
    acquire = Lease.acquire
    failures: list[CheckpointError] = []

    def failing(checkpoint: Any, **rest: Any) -> Lease:
        if failures:
            raise failures.pop()
        return acquire(checkpoint, **rest)

    monkeypatch.setattr(Lease, "acquire", failing)
    query = story.start(
        retry_storage_for_ms=HOUR_MS,
        retry_infrastructure_for_ms=HOUR_MS,
        restart_delay_ms=WAIT_S * 10_000,
    )
    assert query.awaitEpoch(0, WAIT_S)
    failures.append(CheckpointError("no route to the storage"))
    story.feed.faults[(0, 0)] = TaskDismissed()
    story.feed.add(ROWS)
    await_status(story, lambda status: "no route" in (status.last_error or ""))
    story.checkpoint.requests.ask("stop", by="test")
    assert query.awaitTermination(WAIT_S)
    assert query.exception() is None


def start_with_temporary_checkpoint(story: Story, **options: Any) -> ContinuousQuery:
    made = definition(story.feed, story.sink, story.folder, **options)
    execution = ContinuousExecution(replace(made, temporary_checkpoint=True), ThreadLauncher())
    execution.start()
    return ContinuousQuery(execution, str)


@pytest.mark.parametrize("end", ["stop", "drain"])
def test_an_end_during_an_outage_keeps_the_epoch_that_is_logged(story: Story, end: str) -> None:
    """And a drain, which should have committed it, tells why it is not."""
    down = threading.Event()
    sink_that_is_down(story, down.is_set)
    down.set()
    story.feed.add(ROWS)
    query = start_with_temporary_checkpoint(
        story, retry_sink_for_ms=HOUR_MS, restart_delay_ms=WAIT_S * 10_000
    )
    await_status(story, lambda status: status.state is QueryState.RESTARTING)
    if end == "stop":
        query.stop()
        assert query.exception() is None
    else:
        with pytest.raises(SinkCommitUnknownError, match="fails over"):
            query.drain(WAIT_S)
        assert story.checkpoint.status().state is QueryState.FAILED
    assert (story.checkpoint.offsets.ids(), story.checkpoint.epochs()) == ([0], [])
    down.clear()
    query = story.start()
    story.await_rows(query, 2 * ROWS)
    assert query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 2 * ROWS


def test_a_drain_before_the_tasks_run_again_tells_why_they_had_failed(story: Story) -> None:
    """What they had read is not committed, and nothing is committed since."""

    class Drains(ThreadLauncher):
        launches = 0

        def launch(self, *given: Any) -> Any:
            self.launches += 1
            if self.launches == 2:
                query._execution.drain()
            return super().launch(*given)

    story.feed.faults[(0, 0)] = ValueError("the wire is cut")
    query = story.start(Drains(), retry_source_for_ms=HOUR_MS)
    story.feed.add(1)
    with pytest.raises(SourceError, match="the wire is cut"):
        query.awaitTermination(WAIT_S)
    query = story.start()
    story.await_rows(query, 2)
    assert query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 2


@pytest.mark.parametrize("end", ["stop", "drain"])
def test_an_end_while_an_attempt_fails(
    story: Story, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """It has asked a source that is down, and waits for the answer."""
    query = story.start(retry_source_for_ms=HOUR_MS)
    story.feed.add(ROWS)
    story.await_rows(query, ROWS * story.partitions)
    asked, answers = threading.Event(), threading.Event()

    def partitions(reader: ModelReader, start: Any) -> Any:
        asked.set()
        assert answers.wait(WAIT_S)
        raise SourceError("the source is down")

    monkeypatch.setattr(ModelReader, "partitions", partitions)
    story.feed.faults[0, ROWS] = SourceError("the source is down")
    story.feed.add(1)
    assert asked.wait(WAIT_S)
    ending = threading.Thread(
        target=query._execution.stop if end == "stop" else query._execution.drain
    )
    ending.start()
    ending.join(WAIT_S)
    answers.set()
    assert query._execution.await_termination(WAIT_S)
    ended = (
        (QueryState.STOPPED, None) if end == "stop" else (QueryState.FAILED, "the source is down")
    )
    error = query.exception()
    assert (query._execution.state, None if error is None else error.message) == ended


@pytest.mark.parametrize("end", ["stop", "drain"])
def test_a_temporary_checkpoint_goes_with_a_query_that_ends_as_asked(
    story: Story, end: str
) -> None:
    query = start_with_temporary_checkpoint(story)
    assert query.awaitEpoch(0, WAIT_S)
    getattr(query, end)()
    assert query.exception() is None
    assert not story.folder.exists()


def test_an_epoch_of_minutes_is_a_healthy_time(story: Story) -> None:
    """One that is committed at all: the time that it took counts, also if it is the only one."""
    clock = ManualClock()
    commit, failed = story.sink.commit, set[int]()

    def slow(messages: Any, epoch: int) -> None:
        if epoch % 2 and epoch < 10 and epoch not in failed:
            failed.add(epoch)
            raise ConnectionError("the database fails over")
        clock.advance(400)
        commit(messages, epoch)

    story.sink.commit = slow  # type: ignore[method-assign]
    query = story.start(clock=clock, interval_ms=0, retry_sink_for_ms=600_000)
    assert query.awaitEpoch(10, WAIT_S)
    assert query.status["restarts"] == len(failed) == 5
    query.drain(WAIT_S)


def test_a_short_loss_every_four_minutes_ends_nothing(story: Story) -> None:
    """For longer than an outage is borne: each was over long before the next."""
    clock = ManualClock()
    commit, failed = story.sink.commit, set[int]()

    def failing(messages: Any, epoch: int) -> None:
        if epoch % 4 == 0 and epoch and epoch not in failed:
            failed.add(epoch)
            raise ConnectionError("the database fails over")
        clock.advance(60)
        commit(messages, epoch)

    story.sink.commit = failing  # type: ignore[method-assign]
    query = story.start(clock=clock, interval_ms=0, retry_sink_for_ms=HOUR_MS // 4)
    assert query.awaitEpoch(40, WAIT_S)
    assert query.status["restarts"] == len(failed) == 10
    query.drain(WAIT_S)


def test_a_healthy_time_goes_on_through_reconfigurations(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run ends with its first epoch, after a minute: five of them are five minutes."""
    clock = ManualClock()
    commit = story.sink.commit

    def slow(messages: Any, epoch: int) -> None:
        clock.advance(60)
        commit(messages, epoch)

    story.sink.commit = slow  # type: ignore[method-assign]
    monkeypatch.setattr(ModelReader, "needsReconfiguration", lambda self: True)
    query = story.start(clock=clock, interval_ms=0, restarts_user=1, restart_reset_after_s=300)
    for seq in range(3):
        story.feed.faults[(0, seq)] = TransformError("division by zero")
        story.feed.add(1)
        story.await_rows(query, 2 * (seq + 1))
        assert query.awaitEpoch(query.status["epoch"] + 6, WAIT_S)
    assert query.status["restarts"] == 3
    query.drain(WAIT_S)
