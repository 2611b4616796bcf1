"""What a checkpoint tells about its query, whatever lies around in it."""

from __future__ import annotations

import json
import os
import threading
import uuid
from pathlib import Path

import pytest

from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.lease import EXPIRES_AFTER_INTERVALS, Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.opening import open_storage
from engine.errors import CheckpointCorruptError, CheckpointVersionError, ConfigError


def commit(checkpoint: Checkpoint, epoch: int) -> None:
    checkpoint.offsets.add(epoch, OffsetEntry(({"0": epoch}, None)))
    checkpoint.commits.add(epoch, CommitEntry())


# -- identity -------------------------------------------------------------------------------------


def test_a_new_checkpoint(checkpoint: Checkpoint) -> None:
    assert not checkpoint.exists()
    assert checkpoint.query_id() is None
    assert checkpoint.committed_epoch() == -1
    assert checkpoint.epochs() == []
    assert checkpoint.committed_offsets() is None
    assert checkpoint.committed_offsets(0) is None
    assert checkpoint.committed_at_ms(0) is None
    assert checkpoint.progress.read() == []
    assert checkpoint.status() == CheckpointStatus(id=None, epoch=-1, offsets=())
    assert checkpoint.status().state is QueryState.UNKNOWN
    assert not checkpoint.exists()


def test_the_query_id_is_created_once(checkpoint: Checkpoint) -> None:
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    assert checkpoint.create_or_read_query_id(first) == first
    assert checkpoint.create_or_read_query_id(second) == first
    assert checkpoint.query_id() == first
    assert checkpoint.storage.read("metadata") == b'{"id":"%s"}' % first.encode()
    assert checkpoint.exists()


def test_many_creators_agree_on_one_id(checkpoint: Checkpoint) -> None:
    start, ids = threading.Barrier(6), []

    def create() -> None:
        start.wait(60)
        ids.append(Checkpoint(checkpoint.storage).create_or_read_query_id(str(uuid.uuid4())))

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ids) == 6
    assert set(ids) == {checkpoint.query_id()}


@pytest.mark.parametrize("log", ["offsets", "commits", "both"])
def test_logs_without_metadata_are_refused(checkpoint: Checkpoint, log: str) -> None:
    if log in ("offsets", "both"):
        checkpoint.offsets.add(0, OffsetEntry((0,)))
    if log in ("commits", "both"):
        checkpoint.commits.add(0, CommitEntry())
    assert checkpoint.exists()
    with pytest.raises(
        CheckpointCorruptError, match="STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
    ) as caught:
        checkpoint.create_or_read_query_id("id")
    assert checkpoint.url in str(caught.value)


def test_empty_log_folders_are_a_new_checkpoint(tmp_path: Path) -> None:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f".0.{uuid.uuid4()}.tmp").write_text("v1")
    assert Checkpoint(str(tmp_path)).create_or_read_query_id("id") == "id"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"id":7}', b"\xff", b'"id"'])
def test_unreadable_metadata(checkpoint: Checkpoint, content: bytes) -> None:
    checkpoint.storage.create("metadata", content)
    for ask in (
        checkpoint.query_id,
        checkpoint.status,
        lambda: checkpoint.create_or_read_query_id("id"),
    ):
        with pytest.raises(CheckpointCorruptError, match="metadata is not the metadata"):
            ask()


def test_metadata_as_others_may_write_it(checkpoint: Checkpoint) -> None:
    checkpoint.storage.create("metadata", b'{ "newer": 1,\n  "id": "x" }\n')
    assert checkpoint.query_id() == "x"


def test_locations(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    assert Checkpoint(storage).url == Checkpoint(f"file://{tmp_path}").url == str(tmp_path)
    with pytest.raises(ConfigError, match="empty"):
        Checkpoint(" ")
    with pytest.raises(ConfigError, match="nosuch"):
        Checkpoint("nosuch://x")


def test_delete(checkpoint: Checkpoint) -> None:
    checkpoint.create_or_read_query_id("id")
    commit(checkpoint, 0)
    checkpoint.delete()
    assert not checkpoint.exists()
    checkpoint.delete()


# -- committed epochs -----------------------------------------------------------------------------


def test_committed_offsets(checkpoint: Checkpoint) -> None:
    for epoch in range(3):
        commit(checkpoint, epoch)
    checkpoint.offsets.add(3, OffsetEntry(({"0": 3}, None)))
    assert checkpoint.committed_epoch() == 2
    assert checkpoint.epochs() == [0, 1, 2]
    assert checkpoint.committed_offsets() == ({"0": 2}, None)
    assert checkpoint.committed_offsets(1) == ({"0": 1}, None)
    assert checkpoint.committed_offsets(3) is None  # logged, not committed
    assert checkpoint.committed_offsets(-1) is None


def test_an_epoch_that_retention_has_removed(checkpoint: Checkpoint) -> None:
    for epoch in range(3):
        commit(checkpoint, epoch)
    checkpoint.offsets.purge(1)
    checkpoint.commits.purge(1)
    assert checkpoint.committed_offsets(0) is None
    assert checkpoint.committed_at_ms(0) is None
    assert checkpoint.epochs() == [1, 2]


def test_a_commit_without_offsets(checkpoint: Checkpoint) -> None:
    checkpoint.commits.add(7, CommitEntry())
    for ask in (checkpoint.committed_offsets, checkpoint.status):
        with pytest.raises(
            CheckpointCorruptError, match="Batch 7 was committed without end epoch offsets!"
        ):
            ask()
    assert checkpoint.committed_epoch() == 7


def test_unreadable_offsets_of_the_last_epoch(checkpoint: Checkpoint) -> None:
    checkpoint.storage.create("offsets/0", b"v1\n\n{")
    checkpoint.commits.add(0, CommitEntry())
    with pytest.raises(CheckpointCorruptError, match="Failed to read log file"):
        checkpoint.status()
    checkpoint.storage.create("offsets/1", b"v9\n\n{")
    checkpoint.commits.add(1, CommitEntry())
    with pytest.raises(CheckpointVersionError, match="encountered v9"):
        checkpoint.status()


def test_when_an_epoch_was_committed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    commit(checkpoint, 0)
    os.utime(tmp_path / "commits" / "0", (0, 1_700_000_000.25))
    assert checkpoint.committed_at_ms(0) == 1_700_000_000_250


def test_leftovers_are_invisible(tmp_path: Path, clock: ManualClock) -> None:
    checkpoint = Checkpoint(str(tmp_path), clock=clock)
    checkpoint.create_or_read_query_id("id")
    commit(checkpoint, 0)
    Lease.acquire(checkpoint, run_id="run", clock=clock)
    before = checkpoint.status()
    for folder in (
        "offsets",
        "commits",
        "prepared",
        "control",
        "control/generations",
        "control/requests",
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in (f".1.{uuid.uuid4()}.tmp", ".1.crc", ".lease.crc", "1.tmp", "notes"):
            (tmp_path / folder / name).write_text("leftover")
        (tmp_path / folder / "9").mkdir()
    assert checkpoint.status() == before
    assert checkpoint.committed_epoch() == 0
    assert checkpoint.requests.pending("run") is None


def test_reading_while_the_query_commits_and_purges(tmp_path: Path) -> None:
    checkpoint, stop = Checkpoint(str(tmp_path)), threading.Event()
    commit(checkpoint, 0)

    def run() -> None:
        for epoch in range(1, 60):
            commit(checkpoint, epoch)
            checkpoint.commits.purge(epoch - 1)  # first, as retention does
            checkpoint.offsets.purge(epoch - 1)
        stop.set()

    query, last = threading.Thread(target=run), -1
    query.start()
    while not stop.is_set():
        status = Checkpoint(str(tmp_path)).status()
        assert status.offsets == (({"0": status.epoch}, None) if status.epoch >= 0 else ())
        assert status.epoch >= last
        last = status.epoch
    query.join(60)
    assert checkpoint.status().epoch == 59


# -- who runs it ----------------------------------------------------------------------------------


def test_the_life_of_a_run(checkpoint: Checkpoint, clock: ManualClock) -> None:
    checkpoint.create_or_read_query_id("id")
    lease = Lease.acquire(
        checkpoint, run_id="run", application="app", application_url="http://ui", clock=clock
    )
    started_ms = clock.now_ms()
    assert checkpoint.status().state is QueryState.STARTING
    clock.advance(2)
    commit(checkpoint, 0)
    lease.heartbeat(state=QueryState.RUNNING)
    assert checkpoint.status() == CheckpointStatus(
        id="id",
        epoch=0,
        offsets=({"0": 0}, None),
        state=QueryState.RUNNING,
        run_id="run",
        generation=0,
        error=None,
        host=lease.record.host,
        pid=os.getpid(),
        application="app",
        application_url="http://ui",
        heartbeat_at_ms=clock.now_ms(),
        started_at_ms=started_ms,
    )
    lease.heartbeat(state=QueryState.DRAINING)
    assert checkpoint.status().state is QueryState.DRAINING
    lease.release(QueryState.FAILED, error="the sink is gone")
    clock.advance(3600)
    status = checkpoint.status()
    assert (status.state, status.error) == (QueryState.FAILED, "the sink is gone")
    assert Lease.acquire(checkpoint, run_id="next", clock=clock).generation == 1
    status = checkpoint.status()
    assert (status.state, status.error, status.run_id) == (QueryState.STARTING, None, "next")


def test_a_run_that_fell_silent_is_lost(checkpoint: Checkpoint, clock: ManualClock) -> None:
    lease = Lease.acquire(checkpoint, run_id="run", heartbeat_interval_ms=200, clock=clock)
    clock.advance(0.2 * EXPIRES_AFTER_INTERVALS - 0.001)
    assert checkpoint.status().state is QueryState.STARTING
    clock.advance(0.001)
    assert checkpoint.status().state is QueryState.LOST
    lease.heartbeat(state=QueryState.RUNNING)
    assert checkpoint.status().state is QueryState.RUNNING


def test_status_is_json(checkpoint: Checkpoint, clock: ManualClock) -> None:
    checkpoint.create_or_read_query_id("id")
    commit(checkpoint, 0)
    Lease.acquire(checkpoint, run_id="run", clock=clock)
    told = checkpoint.status().to_dict()
    assert json.loads(json.dumps(told)) == told
    assert (told["state"], told["offsets"]) == ("STARTING", [{"0": 0}, None])
    assert type(told["state"]) is str


def test_states_are_their_names() -> None:
    assert json.dumps([*QueryState]) == json.dumps([state.name for state in QueryState])
    assert f"{QueryState.LOST}" == "LOST"
    assert [state for state in QueryState if state.is_active and state.has_ended] == []


# -- progress -------------------------------------------------------------------------------------


def test_progress_keeps_the_last_reports(checkpoint: Checkpoint) -> None:
    reports = [{"batchId": epoch, "text": "ä\n"} for epoch in range(150)]
    checkpoint.progress.write(reports)
    assert checkpoint.progress.read() == reports[-100:]
    checkpoint.progress.write([])
    assert checkpoint.progress.read() == []


def test_progress_that_a_crash_has_torn(checkpoint: Checkpoint) -> None:
    checkpoint.storage.replace("progress/recent", b'{"batchId":0}\n{"batchId":1}\n{"batc')
    assert checkpoint.progress.read() == [{"batchId": 0}, {"batchId": 1}]
