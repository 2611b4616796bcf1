"""The summary in the lease: what a running query tells with it, and what others read of it."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease, LeaseRecord, read_lease
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.checkpoint.summary import Summary, summarize, summary_of
from engine.errors import CheckpointError
from engine.execution.summarizing import SummaryKeeper
from tests.model import ModelReader
from tests.simulation.story import WAIT_S, Story
from tests.waiting import wait_until


class CountingStorage(LocalStorage):
    """Counts what is asked of it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in ("read", "list", "info", "files_below"):
            self.calls.append(name)
        return super().__getattribute__(name)


def test_a_running_query_tells_all_of_a_look_in_one_object(story: Story) -> None:
    query = story.start()

    def told() -> Summary | None:
        story.feed.add(1)  # to the next epoch, too: a heartbeat tells of the last one only
        lease = read_lease(story.checkpoint.storage)
        found = None if lease is None else lease.summary
        return found if found is not None and (found.rows or 0) > 0 else None

    summary = wait_until(told, "a summary of an epoch with rows", WAIT_S)
    assert summary.query_id == query.id
    assert summary.name == "model"
    assert summary.rows == summary.rows_written
    assert summary.committed_at_ms is not None
    assert summary.latency_p99_ms is not None
    assert summary.commit_ms is not None
    assert summary.bad_records == 0
    query.stop()


def test_a_look_is_one_read(story: Story) -> None:
    query = story.start()
    story.feed.add(3)
    story.await_rows(query, 6)
    assert query.drain(WAIT_S)
    storage = CountingStorage(str(story.folder))

    look = Checkpoint(storage).look()

    assert storage.calls == ["read"]
    assert look.is_sure
    assert look.status.state is QueryState.STOPPED
    whole = Checkpoint(storage).status()
    assert replace(whole, offsets=()) == look.status


def test_the_end_tells_the_last_epoch_and_why(story: Story) -> None:
    query = story.start(lease_heartbeat_ms=600_000)
    query.awaitEpoch(3, WAIT_S)
    story.feed.faults[(0, 0)] = ValueError("the wire is cut")
    story.feed.add(1)
    wait_until(lambda: not query.isActive, "the end", WAIT_S)

    look = story.checkpoint.glance()

    assert look is not None
    assert look.status.state is QueryState.FAILED
    assert "the wire is cut" in str(look.status.error)
    assert look.summary.epoch == look.status.epoch == story.checkpoint.committed_epoch()


def test_a_start_tells_what_it_goes_on_from(story: Story) -> None:
    query = story.start()
    story.feed.add(5)
    story.await_rows(query, 10)
    assert query.drain(WAIT_S)
    epoch = story.checkpoint.committed_epoch()
    keeper = SummaryKeeper(story.checkpoint, "model")
    assert keeper.look(0, None) is None, "it is not known yet"

    keeper.recovered(epoch)

    summary = keeper.look(0, None)
    whole = summarize(story.checkpoint, epoch)
    assert summary is not None
    assert (summary.rows, summary.name, summary.query_id) == (whole.rows, "model", query.id)
    assert summary.latency_p99_ms is None, "that was another run"
    assert summary.epoch == epoch
    assert summary.committed_at_ms == story.checkpoint.committed_at_ms(epoch)
    keeper.recovered(epoch)
    assert keeper.look(0, None) is summary, "a restart in place reads nothing again"


def test_a_checkpoint_that_cannot_be_read_leaves_the_heartbeat_alone(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = SummaryKeeper(story.checkpoint, None)
    keeper.recovered(-1)

    def fails(*_: Any) -> Summary:
        raise CheckpointError("no route to the storage")

    with monkeypatch.context() as patch:
        patch.setattr("engine.execution.summarizing.summarize", fails)
        assert keeper.look(0, None) is None
    assert keeper.look(0, None) is not None


def test_without_a_summary_the_logs_tell(story: Story) -> None:
    query = story.start()
    query.awaitEpoch(2, WAIT_S)
    assert query.drain(WAIT_S)
    checkpoint = story.checkpoint
    lease = story.folder / "control" / "lease"
    told = json.loads(lease.read_bytes())
    with_it = checkpoint.look()
    for missing in ({}, {"summary": None}, {"summary": 7}, {"summary": {"epoch": "x"}}):
        older = {name: value for name, value in told.items() if name != "summary"}
        lease.write_text(json.dumps({**older, **missing}))
        assert checkpoint.glance() is None
        look = checkpoint.look()
        assert look.status.state is QueryState.STOPPED
        assert look.summary.epoch == with_it.summary.epoch == checkpoint.committed_epoch()
        assert look.summary.query_id == query.id


def test_what_a_newer_engine_has_added_is_left_out(story: Story) -> None:
    lease = Lease.acquire(story.checkpoint, run_id="run-1")
    lease.heartbeat(summary=Summary(epoch=4))
    told = json.loads(lease.record.serialize())
    told["summary"]["later"] = 1
    assert LeaseRecord.deserialize(json.dumps(told).encode()).summary == Summary(epoch=4)


def test_a_run_that_has_died_is_not_sure_of_its_last_moment(story: Story) -> None:
    lease = Lease.acquire(story.checkpoint, run_id="run-1")
    lease.heartbeat(state=QueryState.RUNNING, summary=Summary(epoch=4))
    path = story.folder / "control" / "lease"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "heartbeat_at_ms": 0}))
    look = story.checkpoint.glance()
    assert look is not None
    assert look.status.state is QueryState.LOST
    assert not look.is_sure


def test_a_commit_is_told_with_a_heartbeat(story: Story) -> None:
    query = story.start()
    story.feed.add(1)
    story.await_rows(query, 2)
    epoch = query.status["epoch"]

    def has_heard() -> bool:
        lease = read_lease(story.checkpoint.storage)
        return lease is not None and lease.summary is not None and lease.summary.epoch >= epoch

    wait_until(has_heard, "the lease tells the epoch", WAIT_S)
    query.stop()


def test_the_lag_is_that_of_the_heartbeat_and_a_rate_ends_with_the_commits(story: Story) -> None:
    keeper = SummaryKeeper(story.checkpoint, "model")
    report = {
        "id": "q",
        "name": "model",
        "batchId": 4,
        "numInputRows": 100,
        "inputRowsPerSecond": 50.0,
        "sources": [{"lagTotal": 7}],
    }
    keeper.committed(report, 1_000, 0)

    def told(now_ms: int, lag: int | None) -> tuple[Any, Any]:
        summary = keeper.look(now_ms, lag)
        assert summary is not None
        return summary.rows_per_second, summary.lag

    assert told(1_000, None) == (50.0, 7)
    assert told(11_000, 400) == (50.0, 400)
    assert told(11_001, 500) == (0.0, 500)
    rare = summary_of({**report, "inputRowsPerSecond": 0.1}, "q", 4, 1_000, None)
    assert rare.as_of(2_000_000).rows_per_second == 0.1, "an epoch of 1,000 s"
    assert rare.as_of(3_002_000).rows_per_second == 0.0


def test_a_query_that_stalls_tells_how_it_falls_behind(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelReader, "knownEnd", lambda reader: reader.latestOffset({}))
    query = story.start(lease_heartbeat_ms=50)
    story.feed.add(1)
    story.await_rows(query, 2)
    stall, commit = threading.Event(), story.sink.commit

    def slow(messages: Any, epoch: int) -> None:
        stall.wait(WAIT_S)
        commit(messages, epoch)

    monkeypatch.setattr(story.sink, "commit", slow)

    def lag() -> int:
        lease = read_lease(story.checkpoint.storage)
        assert lease is not None
        return (lease.summary and lease.summary.lag) or 0

    try:
        story.feed.add(100)
        wait_until(lambda: lag() >= 200, "it tells that it is behind", WAIT_S)
    finally:
        stall.set()
    wait_until(lambda: lag() == 0, "it has caught up", WAIT_S)
    query.stop()


def test_a_source_that_cannot_tell_its_end_once_it_is_stopped_leaves_the_end_clean(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, is_stopped = ModelReader.stop, threading.Event()

    def ends(reader: ModelReader) -> None:
        is_stopped.set()
        stop(reader)

    def end(reader: ModelReader) -> Any:
        if is_stopped.is_set():
            raise ValueError("the connection is closed")
        return reader.latestOffset({})

    monkeypatch.setattr(ModelReader, "stop", ends)
    monkeypatch.setattr(ModelReader, "knownEnd", end)
    query = story.start()
    story.feed.add(1)
    story.await_rows(query, 2)

    assert query.drain(WAIT_S)

    assert is_stopped.is_set()
    assert story.checkpoint.status().state is QueryState.STOPPED
