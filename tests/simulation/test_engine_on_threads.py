"""The whole engine on threads, without a JVM: life, death and restart of a query."""

from __future__ import annotations

import json
import queue
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from engine.base.clock import ManualClock
from engine.checkpoint.query_state import QueryState
from engine.coordinator.coordinator import EpochCoordinator
from engine.coordinator.endpoint import Endpoint
from engine.coordinator.events import Event
from engine.errors import (
    CheckpointError,
    ConcurrentRunError,
    ProtocolError,
    SinkCommitUnknownError,
    SinkUnavailableError,
    SourceError,
    TaskLostError,
)
from engine.task.loop import TaskDismissed, run_task
from engine.wire.messages import TaskAlive, TaskStarted
from tests.model import HOUR_MS, NEVER_MS, ModelMessage, ModelReader, definition, task_spec
from tests.simulation.story import WAIT_S, Story
from tests.waiting import wait_until


def test_records_arrive_once_and_epochs_are_logged(story: Story) -> None:
    query = story.start()
    story.feed.add(10)
    story.await_rows(query, 20)
    story.feed.add(5)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 30
    checkpoint = story.checkpoint
    epoch = checkpoint.committed_epoch()
    assert checkpoint.committed_offsets(epoch) == ({"0": 15, "1": 15},)
    kept = list(range(max(epoch - 99, 0), epoch + 1))
    assert checkpoint.offsets.ids() == checkpoint.commits.ids() == kept
    status = checkpoint.status()
    assert (status.state, status.epoch, status.error) == (QueryState.STOPPED, epoch, None)
    assert query.exception() is None
    assert query.id == checkpoint.query_id()


def test_the_files_are_sparks_byte_for_byte(story: Story) -> None:
    query = story.start(min_epochs_to_retain=1_000)
    query.awaitEpoch(0, WAIT_S)
    query.stop()
    assert (story.folder / "offsets/0").read_bytes() == b'v1\n\n{"0":0,"1":0}'
    assert (story.folder / "commits/0").read_bytes() == b'v1\n{"nextBatchWatermarkMs":0}'
    assert json.loads((story.folder / "metadata").read_bytes()) == {"id": query.id}


def test_stopped_and_started_twenty_times(story: Story) -> None:
    total = 0
    for turn in range(20):
        query = story.start()
        story.feed.add(7)
        total += 7
        if turn % 2:
            story.await_rows(query, total * 2)
            query.drain(WAIT_S)
        else:
            query.awaitEpoch(query.status["epoch"] + 1, WAIT_S)
            query.stop()
    query = story.start()
    story.await_rows(query, total * 2)
    query.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == total * 2
    assert sorted(story.sink.committed) == list(range(len(story.sink.committed)))


def test_progress_has_sparks_shape_and_latencies(story: Story) -> None:
    query = story.start()
    story.feed.add(3)
    story.await_rows(query, 6)
    query.drain(WAIT_S)
    reports = query.recentProgress
    assert sum(report["numInputRows"] for report in reports) == 6
    last = query.lastProgress
    assert last is not None
    assert {"id", "runId", "name", "timestamp", "batchId", "numInputRows", "durationMs"} <= set(
        last
    )
    assert {"inputRowsPerSecond", "processedRowsPerSecond", "sources", "sink"} <= set(last)
    assert last["sources"][0]["endOffset"] == '{"0":3,"1":3}'
    with_rows = next(report for report in reports if report["numInputRows"])
    assert with_rows["latencyMs"]["readToWritten"]["p99"] >= 0
    assert story.checkpoint.progress.read()[-1] == last


def test_a_failing_task_ends_the_query_with_its_error(story: Story) -> None:
    story.feed.faults[(1, 3)] = ValueError("the wire is cut")
    query = story.start()
    story.feed.add(10)
    with pytest.raises(SourceError, match="ValueError: the wire is cut") as caught:
        query.awaitTermination(WAIT_S)
    assert caught.value.partition == 1
    assert query.exception() is caught.value
    assert not query.isActive
    assert "the wire is cut" in query.status["message"]
    status = story.checkpoint.status()
    assert status.state is QueryState.FAILED
    assert status.error is not None
    assert "the wire is cut" in status.error
    again = story.start()
    story.await_rows(again, 20)
    again.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 20


@pytest.mark.parametrize("error", [OSError("disk on fire"), SinkUnavailableError("no route")])
def test_a_failing_sink_commit_ends_the_query_and_is_done_again(
    story: Story, error: Exception
) -> None:
    story.sink.fail_commit[2] = error
    query = story.start()
    story.feed.add(4)
    with pytest.raises((SinkCommitUnknownError, SinkUnavailableError)) as caught:
        query.awaitTermination(WAIT_S)
    assert caught.value.epoch == 2
    assert story.checkpoint.committed_epoch() == 1
    assert story.checkpoint.offsets.latest_id() == 2
    again = story.start()
    assert story.sink.commit_calls[3] == 2
    story.await_rows(again, 8)
    again.drain(WAIT_S)
    assert story.sink.assert_exactly_once(2) == 8


def test_a_log_entry_of_another_writer_is_not_overlooked(story: Story) -> None:
    query = story.start(empty_epoch_interval="1 hour")
    query.awaitEpoch(0, WAIT_S)
    claimed = query.status["epoch"] + 20  # which does not come before it is waited for
    assert story.checkpoint.storage.create(f"offsets/{claimed}", b"v1\n\n{}")
    with pytest.raises(CheckpointError, match=f"Epoch {claimed} is already in"):
        query.awaitEpoch(claimed, WAIT_S)


def test_a_second_run_is_refused_while_the_first_lives(story: Story) -> None:
    query = story.start(lease_heartbeat_ms=HOUR_MS)  # which no pause outlives
    query.awaitEpoch(0, WAIT_S)
    with pytest.raises(ConcurrentRunError, match=r"held by run .* process \d+ on"):
        story.start()
    assert query.isActive
    query.stop()


@pytest.mark.parametrize("kind", ["drain", "stop"])
def test_a_request_file_ends_the_query(story: Story, kind: str) -> None:
    query = story.start()
    query.awaitEpoch(0, WAIT_S)
    story.checkpoint.requests.ask(kind, by="test")
    assert query.awaitTermination(WAIT_S)
    assert story.checkpoint.status().state is QueryState.STOPPED
    again = story.start()
    assert again.awaitEpoch(again.status["epoch"] + 1, WAIT_S)
    again.stop()


def test_retention_keeps_what_was_asked_for(story: Story) -> None:
    query = story.start(min_epochs_to_retain=3)
    query.awaitEpoch(12, WAIT_S)
    query.stop()
    checkpoint = story.checkpoint
    epoch = checkpoint.committed_epoch()
    assert checkpoint.commits.ids() == [epoch - 2, epoch - 1, epoch]
    assert checkpoint.offsets.ids()[0] == epoch - 2
    story.start().stop()


def test_a_writer_that_returns_early_loses_nothing_silently(story: Story) -> None:
    def write(batches: Iterator[pa.RecordBatch]) -> ModelMessage:
        return ModelMessage([] if next(iter(batches), None) is None else [[0, 0]])

    story.sink.write = write  # type: ignore[method-assign]
    query = story.start()
    story.feed.add(5)
    with pytest.raises(Exception, match="before the end of its iterator"):
        query.awaitTermination(WAIT_S)


def test_a_replayed_epoch_ends_exactly_at_its_logged_offsets(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's own checkpoint: offsets/1 without commits/1 and without prepared messages."""
    partitions, starts = ModelReader.partitions, []
    monkeypatch.setattr(
        ModelReader,
        "partitions",
        lambda self, start: starts.append(start) or partitions(self, start),
    )
    query = story.start()
    query.awaitEpoch(0, WAIT_S)
    query.drain(WAIT_S)
    epoch = story.checkpoint.committed_epoch()
    story.checkpoint.storage.create(f"offsets/{epoch + 1}", b'v1\n\n{"0":3,"1":5}')
    story.feed.add(10)
    starts.clear()
    query = story.start()
    story.await_rows(query, 20)
    query.drain(WAIT_S)
    assert starts == [{"0": 0, "1": 0}, {"0": 3, "1": 5}]
    assert len(story.sink.committed[epoch + 1]) == 8
    assert story.checkpoint.committed_offsets(epoch + 1) == ({"0": 3, "1": 5},)
    assert story.sink.assert_exactly_once(2) == 20


def test_tasks_leave_and_the_source_is_stopped(story: Story) -> None:
    before = set(threading.enumerate())
    query = story.start()
    query.awaitEpoch(0, WAIT_S)
    query.stop()
    reader = query._execution.definition.streams[0].reader
    assert isinstance(reader, ModelReader)
    assert reader.stopped

    def left() -> list[str]:
        names = [each.name for each in set(threading.enumerate()) - before]
        return [name for name in names if name.startswith(("task-", "epoch-commit"))]

    wait_until(lambda: not left(), "the threads' ends", WAIT_S)  # tasks hang up before they end


def test_a_task_that_dies_without_a_word_is_lost(story: Story) -> None:
    query = story.start()
    query.awaitEpoch(0, WAIT_S)
    story.feed.faults[(0, 0)] = TaskDismissed()  # it leaves, and nobody has told it to
    story.feed.add(1)
    with pytest.raises(TaskLostError, match="partition 0"):
        query.awaitTermination(WAIT_S)


def test_epochs_end_at_multiples_of_the_interval(story: Story) -> None:
    """Of the wall clock: also where it was looked at late, or the query began in between."""
    clock = ManualClock(now_ms=1_700_000_000_037)
    query = story.start(clock=clock, interval_ms=100)
    wait_until(lambda: query.status["state"] == QueryState.RUNNING.value, "it runs")
    for epoch, passes_ms in enumerate((63, 100, 137, 63, 100)):
        clock.advance(passes_ms / 1000)
        assert query.awaitEpoch(epoch, WAIT_S)
    query.stop()
    # An epoch starts where the one before ends.
    assert [report["timestamp"][-5:-1] for report in query.recentProgress] == [
        *(".037", ".100", ".200", ".337", ".400"),
    ]


def test_a_coordinator_that_fails_ends_the_query(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = story.start()
    query.awaitEpoch(0, WAIT_S)
    monkeypatch.setattr(EpochCoordinator, "handle", lambda *_: 1 / 0)
    with pytest.raises(ProtocolError, match="coordinator failed: ZeroDivisionError"):
        query.awaitTermination(WAIT_S)
    assert story.checkpoint.status().state is QueryState.FAILED


def test_tasks_leave_when_the_driver_is_gone(story: Story) -> None:
    made = definition(story.feed, story.sink, story.folder)
    heard: queue.SimpleQueue[Event] = queue.SimpleQueue()
    endpoint = Endpoint("127.0.0.1", heard.put)
    spec = task_spec(made, endpoint.dialing)
    task = threading.Thread(target=run_task, args=(spec,))
    task.start()
    assert isinstance(heard.get(timeout=WAIT_S), TaskStarted)
    endpoint.close()
    task.join(WAIT_S)
    assert not task.is_alive()


def test_a_source_that_cannot_merge_its_offsets_has_failed(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelReader, "mergeOffsets", lambda *_: {}["missing"])
    with pytest.raises(SourceError, match="merge its offsets of epoch 0: KeyError"):
        story.start(retry_source_for_ms=0).awaitTermination(WAIT_S)
    assert story.checkpoint.committed_epoch() == -1


def test_a_writer_that_swallows_an_error_of_the_query_loses_nothing(story: Story) -> None:
    """Its iterator has raised; the reader is behind the record, which must not be skipped."""

    def write(batches: Iterator[pa.RecordBatch]) -> ModelMessage:
        try:
            return ModelMessage(
                [[r["partition"], r["seq"]] for b in batches for r in b.to_pylist()]
            )
        except SourceError:
            return ModelMessage([])

    story.sink.write = write  # type: ignore[method-assign]
    story.feed.faults[(0, 3)] = ValueError("the wire is cut")
    query = story.start()
    story.feed.add(10)
    with pytest.raises(SourceError, match="the wire is cut"):
        query.awaitTermination(WAIT_S)


def test_an_exit_inside_a_commit_ends_the_query(story: Story) -> None:
    story.sink.fail_commit[1] = SystemExit("enough")  # type: ignore[assignment]
    query = story.start()
    with pytest.raises(ProtocolError, match="SystemExit: enough"):
        query.awaitTermination(WAIT_S)


def test_a_source_that_does_not_stop_leaves_no_lease_behind(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelReader, "stop", lambda self: 1 / 0)
    query = story.start()
    query.awaitEpoch(0, WAIT_S)
    query.stop()
    assert story.checkpoint.status().state is QueryState.STOPPED


def test_a_short_task_timeout_does_not_end_a_healthy_query(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks say that they are there, whatever the length of an epoch."""
    heard: Counter[int] = Counter()
    on_message = Endpoint.on_message

    def hear(endpoint: Endpoint, peer: Any, message: Any) -> None:
        on_message(endpoint, peer, message)
        heard[message.partition] += isinstance(message, TaskAlive)

    monkeypatch.setattr(Endpoint, "on_message", hear)
    query = story.start(interval_ms=NEVER_MS, task_timeout_s=6)
    wait_until(lambda: min(heard[0], heard[1]) >= 4, "words of both", WAIT_S)
    query.stop()
    assert query.exception() is None
