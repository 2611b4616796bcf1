"""The history of a query on threads: what it has of its life, and that nothing waits for it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from engine.checkpoint.history_file import HistoryFile
from engine.checkpoint.lease import Lease, LeaseRecord
from engine.checkpoint.query_history import history
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.retention import prune
from engine.errors import CheckpointError
from engine.execution import history_keeper
from tests.model import HOUR_MS
from tests.simulation.story import WAIT_S, Story
from tests.waiting import wait_until

LONG_S = 600
NOBODY = 2**31 - 1
"""No process has this number."""


def kept(story: Story, name: str) -> int:
    """The sum of a series."""
    return sum(each or 0 for each in history(story.checkpoint).series[name].values)  # type: ignore[misc]


def marks(story: Story) -> list[tuple[str, str]]:
    return [(mark.kind, mark.reason) for mark in history(story.checkpoint).marks]


def test_every_epoch_and_row_is_in_it_once_across_drivers(story: Story) -> None:
    for turn in range(3):
        query = story.start()
        story.feed.add(5)
        story.await_rows(query, 10 * (turn + 1))
        assert query.drain(WAIT_S)
    assert kept(story, "epochs") == story.checkpoint.committed_epoch() + 1
    assert kept(story, "rows_in") == kept(story, "rows_out") == 30
    assert [kind for kind, _ in marks(story)] == ["started", "stopped"] * 3
    series = history(story.checkpoint).series
    assert series["rows_in_per_second"].unit == "rows/s"
    assert {"step.prepare", "step.commitSink", "step.triggerExecution"} <= set(series)
    assert max(each for each in series["latency_p99"].values if each is not None) > 0
    lengths = {len(each.values) for each in series.values()}
    assert lengths == {len(history(story.checkpoint).starts_ms)}


def test_restarts_are_marks_with_their_reasons(story: Story) -> None:
    story.feed.faults[(0, 0)] = ValueError("the wire is cut, password=verysecret1")
    query = story.start(retry_source_for_ms=HOUR_MS)
    story.feed.add(1)
    story.await_rows(query, 2)
    query.drain(WAIT_S)
    (restarted,) = (reason for kind, reason in marks(story) if kind == "restarted")
    assert "the wire is cut" in restarted
    assert "verysecret1" not in restarted
    assert kept(story, "restarts") == 1


def test_a_failure_is_told(story: Story) -> None:
    story.feed.faults[(0, 0)] = ValueError("the wire is cut")
    query = story.start()
    story.feed.add(1)
    wait_until(lambda: not query.isActive, "the failure")
    kind, reason = marks(story)[-1]
    assert kind == "failed"
    assert "the wire is cut" in reason


def test_whoever_takes_over_from_one_that_died_marks_its_loss(story: Story) -> None:
    lease = Lease.acquire(story.checkpoint, run_id="run-1")
    lease.heartbeat(state=QueryState.RUNNING)
    for name in ("control/lease", f"control/generations/{lease.generation}"):
        record = LeaseRecord.deserialize(story.checkpoint.storage.read(name))
        dead = replace(record, pid=NOBODY, heartbeat_at_ms=1_795_174_660_561)
        story.checkpoint.storage.replace(name, dead.serialize())

    query = story.start()
    assert query.drain(WAIT_S)

    (kind, reason), *others = marks(story)
    assert kind == "lost"
    assert reason.startswith(f"process {NOBODY} on {lease.record.host} has said nothing")
    assert reason.endswith("since 2026-11-20T11:37:40.561Z and is gone")
    assert [each for each, _ in others] == ["started", "stopped"]


def test_other_partitions_are_a_mark(story: Story) -> None:
    query = story.start()
    query.awaitEpoch(0, WAIT_S)
    with story.feed.changed:
        story.feed.available.append(0)
    wait_until(lambda: query._execution.spread.partitions == 3, "three partitions")
    query.stop()
    assert "reconfigured" in [kind for kind, _ in marks(story)]


def test_storage_that_hangs_keeps_nobody_waiting(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, let_go = threading.Event(), threading.Event()

    def hang(self: HistoryFile, data: bytes) -> None:
        hanging.set()
        assert let_go.wait(LONG_S)

    monkeypatch.setattr(HistoryFile, "write", hang)
    monkeypatch.setattr(history_keeper, "WRITE_EVERY_S", 0.0)
    monkeypatch.setattr(history_keeper, "END_S", 0.05)
    query = story.start()
    assert hanging.wait(WAIT_S)
    story.feed.add(5)
    story.await_rows(query, 10)
    assert query.awaitEpoch(query.status["epoch"] + 10, WAIT_S)
    assert query.drain(WAIT_S)
    let_go.set()
    assert query.exception() is None
    assert story.checkpoint.progress.read(), "progress goes on beside it"


def test_storage_that_fails_ends_nothing(
    story: Story, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write, broken = HistoryFile.write, threading.Event()
    broken.set()
    tries: list[int] = []

    def fail(self: HistoryFile, data: bytes) -> None:
        tries.append(len(data))
        if broken.is_set():
            raise CheckpointError("the disk is full")
        write(self, data)

    monkeypatch.setattr(HistoryFile, "write", fail)
    monkeypatch.setattr(history_keeper, "WRITE_EVERY_S", 0.0)
    query = story.start()
    story.feed.add(5)
    story.await_rows(query, 10)
    wait_until(lambda: len(tries) > 3, "several tries")
    broken.clear()
    assert query.drain(WAIT_S)
    assert query.exception() is None
    assert caplog.text.count("the history is not saved for now: the disk is full") == 1
    assert kept(story, "rows_in") == 10


def test_who_has_lost_the_checkpoint_writes_none(story: Story) -> None:
    query = story.start(lease_heartbeat_ms=50)
    query.awaitEpoch(0, WAIT_S)
    seen = story.checkpoint.history.read
    wait_until(lambda: seen().last is not None or seen().history.marks, "the first write")
    (claim,) = (story.folder / "control/generations").iterdir()
    later = claim.with_name("99")
    later.write_bytes(claim.read_bytes().replace(b'"generation":0', b'"generation":99'))
    claim.unlink()
    before = (story.folder / "progress/history").read_bytes()
    wait_until(lambda: not query.isActive, "the end of the fenced run")
    assert (story.folder / "progress/history").read_bytes() == before


def test_what_is_damaged_begins_anew(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    (story.folder / "progress").mkdir(parents=True)
    (story.folder / "progress/history").write_bytes(b"\x1f\x8b torn")
    with pytest.raises(CheckpointError, match="progress/history cannot be read"):
        history(story.checkpoint)
    query = story.start()
    query.awaitEpoch(0, WAIT_S)
    query.drain(WAIT_S)
    assert "a new history begins" in caplog.text
    assert kept(story, "epochs") > 0


def test_pruning_leaves_it_alone_and_a_rewind_marks_it(story: Story) -> None:
    query = story.start()
    query.awaitEpoch(5, WAIT_S)
    query.drain(WAIT_S)
    before: dict[str, Any] = history(story.checkpoint).to_dict()
    assert prune(story.checkpoint, keep_epochs=2).removed_epochs > 0
    assert history(story.checkpoint).to_dict() == before
    last = story.checkpoint.committed_epoch()
    story.checkpoint.rewind(last - 1, accept_repeats=True)
    told = history(story.checkpoint)
    assert told.to_dict()["series"] == before["series"]
    assert marks(story)[-1] == ("rewound", f"from epoch {last} back to the end of epoch {last - 1}")
    assert story.checkpoint.status().state is QueryState.STOPPED
