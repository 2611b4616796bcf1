"""How often storage is asked: on S3 each time is a round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("s3fs", reason="needs the extra s3")
pytest.importorskip("moto.server", reason="needs moto[server]")

from bench.slow_s3 import SlowS3
from engine.base.background import Later, at_once
from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import RECENT_INTERVALS, Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.coordinator.epoch_runner import EpochRunner, QueryEnds
from engine.errors import StaleRunError
from engine.execution.admission import admit
from engine.execution.survey import plan_restart
from tests.model import Feed, ModelSink, definition, model_binding, silent_binding


@pytest.fixture
def s3() -> Iterator[SlowS3]:
    with SlowS3() as server:
        yield server


@pytest.fixture
def checkpoint(s3: SlowS3) -> Checkpoint:
    checkpoint = Checkpoint(s3.url, s3.options)
    checkpoint.create_or_read_query_id("a-query")
    return checkpoint


def runner(checkpoint: Checkpoint, lease: Lease, later: Later = at_once) -> EpochRunner:
    source = SimpleNamespace(mergeOffsets=lambda parts: {"0": parts[0]}, commit=lambda end: None)
    ends = QueryEnds("a-query", [source], silent_binding())  # type: ignore[list-item]
    made = EpochRunner(checkpoint, lease, ends, min_epochs_to_retain=2, later=later)
    made.rewound = False  # as an attempt knows from its look at the disk
    return made


def test_an_epoch_is_committed_after_four_calls(s3: SlowS3, checkpoint: Checkpoint) -> None:
    lease, after = Lease.acquire(checkpoint, run_id="run", heartbeat_interval_ms=60_000), []
    epochs = runner(checkpoint, lease, lambda kind, work: after.append(work))
    for epoch in range(5):
        s3.take()
        epochs.commit(epoch, [[epoch]], [None, None])
        assert s3.take() == [
            f"PUT prepared/{epoch}",
            f"PUT offsets/{epoch}",
            "HEAD control/generations/0",
            f"PUT commits/{epoch}",
        ]
        after.pop()()
    assert s3.take() == [
        "HEAD control/generations/0",
        "HEAD control/generations/0",
        "DELETE commits/2",
        "HEAD control/generations/0",
        "DELETE offsets/2",
        "HEAD control/generations/0",
        "DELETE prepared/2",
    ]


def test_a_heartbeat_sees_the_requests_too(s3: SlowS3, checkpoint: Checkpoint) -> None:
    lease = Lease.acquire(checkpoint, run_id="run")
    s3.take()
    assert checkpoint.requests.pending("run", lease.heartbeat()) is None
    assert s3.take() == ["LIST control/", "PUT control/lease"]
    checkpoint.requests.ask("drain", "me")
    assert checkpoint.requests.pending("run", lease.heartbeat()) == "drain"


def test_a_restart(s3: SlowS3, checkpoint: Checkpoint) -> None:
    feed = Feed(2)
    query = replace(definition(feed, ModelSink(), Path("/none")), checkpoint=checkpoint)
    lease = Lease.acquire(checkpoint, run_id="run", heartbeat_interval_ms=60_000)
    admit(query, lease)
    epochs = runner(checkpoint, lease)
    for epoch in range(4):
        epochs.commit(epoch, [[epoch]], [None])
    s3.take()
    again = Lease.acquire(checkpoint, run_id="run")
    assert s3.take() == [
        "LIST control/generations/",
        "GET control/lease",
        "PUT control/generations/1",
        "LIST control/",
        "DELETE control/generations/0",
        "PUT control/lease",
    ]
    admit(query, again)
    assert sorted(s3.take()) == [
        "GET control/fingerprint",
        "GET control/rewind",
        "GET control/rewind",
        "GET control/rewound",
        "GET control/storage",
        "GET metadata",
        "LIST prepared/",
    ]
    assert plan_restart(checkpoint, query.sink, again.check).start_from == 3
    calls = s3.take()
    looks = ["GET control/rewound", "LIST commits/", "LIST offsets/", "LIST prepared/"]
    assert sorted(calls[:4]) == looks
    assert sorted(calls[4:6]) == ["GET commits/3", "GET metadata"]
    assert sorted(calls[6:]) == ["GET offsets/3", "GET offsets/3", "GET prepared/3"]


class Reading(LocalStorage):
    """Notes what is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.names: list[str] = []

    def read(self, name: str) -> bytes:
        self.names.append(name)
        return super().read(name)


def test_of_a_hundred_epochs_a_restart_reads_the_last(tmp_path: Path) -> None:
    storage = Reading(tmp_path)
    checkpoint = Checkpoint(storage)
    checkpoint.create_or_read_query_id("a-query")
    for epoch in range(100):
        end = OffsetEntry(({"0": epoch},))
        entry = PreparedEntry(0, "run", (None,) * 3, checkpoint.offsets.text(end), "a-query")
        checkpoint.prepared.add(epoch, entry)
        checkpoint.offsets.add(epoch, end)
        if epoch < 99:
            checkpoint.commits.add(epoch, CommitEntry())
    sink = model_binding(ModelSink())
    storage.names.clear()
    assert plan_restart(checkpoint, sink).recommit == (99,)
    assert {name for name in storage.names if name.startswith("prepared/")} == {
        "prepared/98",
        "prepared/99",
    }
    assert len(storage.names) == 9


# -- the looks that are left ----------------------------------------------------------------------


class Watched(LocalStorage):
    """Does something before a file is created."""

    before: Callable[[str], Any] = staticmethod(lambda name: None)

    def create(self, name: str, data: bytes) -> bool:
        self.before(name)
        return super().create(name, data)


@pytest.mark.parametrize("step", ["prepared/3", "offsets/3"])
def test_who_is_fenced_before_the_sink_does_not_tell_it(tmp_path: Path, step: str) -> None:
    """Within the time that a look is good for."""
    storage = Watched(tmp_path)
    checkpoint, told = Checkpoint(storage), []
    checkpoint.create_or_read_query_id("a-query")
    lease = Lease.acquire(checkpoint, run_id="run")
    epochs = runner(checkpoint, lease)
    epochs._sink = replace(epochs._sink, commit=lambda messages, epoch: told.append(epoch))
    epochs.commit(2, [[2]], [None])

    def fence(name: str) -> None:
        if name == step:
            storage.delete("control/generations/0")

    storage.before = fence  # type: ignore[method-assign]
    with pytest.raises(StaleRunError):
        epochs.commit(3, [[3]], [None])
    assert told == [2]
    assert checkpoint.epochs() == [2]


@pytest.mark.parametrize("slept_s", [RECENT_INTERVALS - 0.1, RECENT_INTERVALS])
def test_a_look_is_good_for_a_moment(tmp_path: Path, clock: ManualClock, slept_s: float) -> None:
    checkpoint = Checkpoint(str(tmp_path), clock=clock)
    lease = Lease.acquire(checkpoint, run_id="run", clock=clock)
    clock.advance(1)
    lease.heartbeat()
    clock.advance(slept_s)
    checkpoint.storage.delete("control/generations/0")
    if slept_s < RECENT_INTERVALS:
        lease.check(recent=True)
    else:
        with pytest.raises(StaleRunError):
            lease.check(recent=True)
    with pytest.raises(StaleRunError):
        lease.check()
