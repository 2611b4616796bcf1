"""Rewinding: what moves, what stays, and a crash before and after each single write."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.retention import prune
from engine.checkpoint.rewind import finish_rewind, sink_context
from engine.checkpoint.rewound import INTENT
from engine.checkpoint.sink_context import Inherited
from engine.checkpoint.storage.contract import Storage
from engine.errors import (
    CheckpointError,
    ConcurrentRunError,
    ConfigError,
    SinkCommitRejectedError,
    StaleRunError,
)
from engine.sinks.builtin_sinks import KeepsNothing
from engine.sinks.files.file_sink_rewind import FileSinkRewind
from engine.sinks.memory import MemoryWriter
from engine.sinks.noop import NoopWriter
from tests.unit.rewinding import (
    LAST,
    Death,
    MortalStorage,
    World,
    crashes,
    data_file,
    names,
)


@pytest.mark.parametrize("target", range(LAST + 1))
def test_rewind_to_any_epoch(target: int) -> None:
    world = World()
    before = world.everything()
    world.checkpoint.progress.write([{"batchId": epoch} for epoch in range(LAST + 1)])
    report = world.checkpoint.rewind(target, sink=world.sink)
    assert [each["batchId"] for each in world.checkpoint.progress.read()] == [*range(target + 1)]
    kept = list(range(target + 1))
    assert world.logs() == (kept, kept, kept)
    assert world.visible() == names(range(target + 1))
    assert world.everything() == before
    assert (report.to_epoch, report.from_epoch, report.taken_back) == (target, LAST, True)
    plan = world.plan()
    assert (plan.first_epoch, plan.start_from, plan.recommit, plan.set_aside) == (
        target + 1, target, (), ()
    )  # fmt: skip
    status = world.checkpoint.status()
    assert (status.state, status.epoch, status.generation) == (QueryState.STOPPED, target, 0)
    # The same numbers are committed again, with other files.
    for epoch in range(target + 1, LAST + 4):
        assert world.log.add(epoch, [data_file(epoch, 1)])
    assert world.visible() == names(range(target + 1)) + names(range(target + 1, LAST + 4), 1)


def test_twice_to_the_same_epoch_loses_nothing() -> None:
    world = World()
    for generation in (1, 2):
        world.checkpoint.rewind(5, sink=world.sink)
        for epoch in (6, 7, 8):
            world.checkpoint.offsets.add(epoch, OffsetEntry((10 * generation + epoch,)))
            world.log.add(epoch, [data_file(epoch, generation)])
            world.checkpoint.commits.add(epoch, CommitEntry())
    folders = {file.name for file in world.checkpoint.storage.list("rewound/0/offsets")}
    assert folders == {"6", "7", "8", "9"}
    assert {f.name for f in world.checkpoint.storage.list("rewound/1/offsets")} == {"6", "7", "8"}
    assert world.visible() == names(range(6)) + names(range(6, 9), 2)
    # 6, 7, 8 of two generations, and 9.
    assert len(world.log.storage.list("rewound")) == 7


@pytest.mark.parametrize("target", [4, 5, 8])
def test_killed_at_any_write_and_rewound_again(target: int) -> None:
    expected = World().everything()
    for world, where in crashes(lambda world: rewound(world, target)):
        kept = list(range(target + 1))
        world.checkpoint.rewind(target, sink=world.sink)
        assert world.logs() == (kept, kept, kept), where
        assert world.visible() == names(range(target + 1)), where
        assert world.everything() == expected, where
        assert not world.checkpoint.storage.exists(INTENT), where


def rewound(world: World, target: int) -> None:
    world.checkpoint.rewind(target, sink=world.sink)


@pytest.mark.parametrize("target", [5, 8])
def test_killed_at_any_write_and_the_query_is_started(target: int) -> None:
    """The start finishes what was begun; if nothing was, it is as if nobody had asked."""
    ends = set()
    for world, where in crashes(lambda world: rewound(world, target)):
        lease = Lease.acquire(world.checkpoint, run_id="next", clock=world.clock)
        finish_rewind(world.checkpoint, lease, world.sink)
        end = world.checkpoint.committed_epoch()
        kept = list(range(end + 1))
        assert world.logs() == (kept, kept, kept), where
        assert world.visible() == names(range(end + 1)), where
        ends.add(end)
    assert ends == {target, LAST}


def test_killed_at_any_write_and_seen_by_one_who_knows_nothing_of_rewinds() -> None:
    """A reader always finds the newest epoch with its offsets; a restart finds a state that it can
    finish, back to where it all was or to the target, and loses nothing between."""
    for world, where in crashes(lambda world: rewound(world, 4)):
        status = world.checkpoint.status()
        assert 4 <= status.epoch <= LAST, where
        assert status.offsets == (status.epoch,), where
        plan = world.plan()
        sink_epoch = world.log.latest()
        assert sink_epoch is not None
        assert world.visible() == names(range(sink_epoch + 1)), where
        resumed_at = plan.first_epoch - 1
        in_sink = {*range(sink_epoch + 1), *plan.recommit}
        assert in_sink >= set(range(resumed_at + 1)), where
        assert sink_epoch <= resumed_at, where


# -- refusals -------------------------------------------------------------------------------------


class Forgetful:
    """A stream writer that can do nothing special."""


class Counting(Forgetful):
    """Remembers its epochs, and cannot take them back."""

    def latestEpoch(self) -> int:
        return LAST


def test_an_epoch_that_is_not_there_lists_those_that_are() -> None:
    world = World()
    prune(world.checkpoint, keep_epochs=4)
    world.checkpoint.pin("gold", 7)
    for target in (-1, 5, LAST + 1):
        with pytest.raises(ConfigError, match=r"Available: 6 to 9; pinned: gold \(7\)"):
            world.checkpoint.rewind(target, sink=world.sink)
    assert world.checkpoint.holder() is None


@pytest.mark.parametrize("sink", [None, Forgetful()])
def test_a_sink_that_cannot_take_back_says_so_first(sink: object) -> None:
    world = World()
    before = world.everything()
    with pytest.raises(ConfigError, match=r"would be in it twice.*--accept-repeats"):
        world.checkpoint.rewind(5, sink=sink)
    assert (world.everything(), world.logs()[1][-1]) == (before, LAST)
    assert world.checkpoint.holder() is None
    report = world.checkpoint.rewind(5, sink=sink, accept_repeats=True)
    assert not report.taken_back
    assert world.checkpoint.committed_epoch() == 5


def test_a_sink_that_would_refuse_the_query_afterwards() -> None:
    world = World()
    with pytest.raises(ConfigError, match="remembers the epochs"):
        world.checkpoint.rewind(5, sink=Counting(), accept_repeats=True)


def test_a_sink_is_told_whether_the_epochs_came_with_the_checkpoint(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.create_or_read_query_id("source")

    def inherited(of: Checkpoint = checkpoint) -> Inherited | None:
        lease = Lease.acquire(of, run_id="r")
        try:
            return sink_context(of, lease).inherited
        finally:
            lease.release(QueryState.STOPPED)

    assert inherited() == Inherited(None, -1)
    for epoch in range(2):  # as Spark's own: nothing is prepared
        checkpoint.offsets.add(epoch, OffsetEntry(({"0": epoch},)))
        checkpoint.commits.add(epoch, CommitEntry())
    assert inherited() == Inherited(None, 1)
    copy = Checkpoint(str(tmp_path.with_name("copy")))
    copy_checkpoint(checkpoint, copy, 0)
    assert inherited(copy) == Inherited("source", 0)
    checkpoint.prepared.add(2, PreparedEntry(0, "r", ()))
    assert inherited() is None
    copy.rewind(0, accept_repeats=True)
    assert inherited(copy) is None, "it may have had a sink before"


def test_a_running_query_is_not_rewound() -> None:
    world = World()
    lease = Lease.acquire(world.checkpoint, run_id="run-1", clock=world.clock)
    with pytest.raises(ConcurrentRunError, match="run-1"):
        world.checkpoint.rewind(5, sink=world.sink)
    lease.release(QueryState.STOPPED)
    assert world.checkpoint.rewind(5, sink=world.sink).generation == lease.generation + 1


def test_a_run_of_before_is_fenced() -> None:
    world = World()
    old = Lease.acquire(world.checkpoint, run_id="run-1", clock=world.clock)
    world.later()
    world.checkpoint.rewind(5, sink=world.sink)
    with pytest.raises(Exception, match="does not own the checkpoint"):
        old.check()
    # Had it been in the very call of its sink: of the same epoch, only one set of files is there.
    world.log.add(6, [data_file(6, 1)])
    with pytest.raises(SinkCommitRejectedError, match="another generation has committed it"):
        world.log.add(6, [data_file(6, 0)])
    assert world.log.add(6, [data_file(6, 1)]) is False


def test_one_that_slept_in_its_heartbeat_puts_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who took over has finished the rewind, gone on, and removed the epoch as an old one."""
    world = World()
    heartbeat, entries = Lease.heartbeat, ("commits/5", "offsets/5")

    def sleeping(self: Lease, **changes: Any) -> Any:
        seen = heartbeat(self, **changes)
        monkeypatch.undo()
        world.later()
        Lease.acquire(world.checkpoint, run_id="next", clock=world.clock)
        for entry in entries:
            world.checkpoint.storage.delete(entry)
        return seen

    monkeypatch.setattr(Lease, "heartbeat", sleeping)
    with pytest.raises(StaleRunError):
        world.checkpoint.rewind(5, sink=world.sink)
    assert not any(map(world.checkpoint.storage.exists, entries))


def test_another_sink_cannot_finish_an_interrupted_rewind() -> None:
    worlds = (world for world, _ in crashes(lambda world: rewound(world, 5)))
    world = next(world for world in worlds if world.checkpoint.storage.exists(INTENT))
    lease = Lease.acquire(world.checkpoint, run_id="next", clock=world.clock)
    with pytest.raises(ConfigError, match="interrupted, and this sink cannot finish it"):
        finish_rewind(world.checkpoint, lease, Forgetful())


@pytest.mark.parametrize(
    "writer",
    [NoopWriter(), MemoryWriter("rewound", StructType().add("id", "long"))],
    ids=["noop", "memory"],
)
def test_a_sink_that_keeps_nothing_finishes_an_interrupted_rewind(writer: Any) -> None:
    def target(world: World) -> None:
        world.checkpoint.rewind(5, sink=KeepsNothing())

    worlds = (world for world, _ in crashes(target))
    world = next(world for world in worlds if world.checkpoint.storage.exists(INTENT))
    finish_rewind(
        world.checkpoint, Lease.acquire(world.checkpoint, run_id="next", clock=world.clock), writer
    )
    assert world.logs()[1] == list(range(6))


def test_a_sink_that_fails_is_asked_again() -> None:
    class Failing(FileSinkRewind):
        broken = True

        def rewind(self, epoch: int, position: Any = None) -> None:
            if self.broken:
                raise CheckpointError("The disk is away.")
            super().rewind(epoch, position)

    world = World()
    sink = Failing(world.log)
    with pytest.raises(CheckpointError, match="The disk is away"):
        world.checkpoint.rewind(5, sink=sink)
    status = world.checkpoint.status()
    assert (status.state, status.error) == (
        QueryState.FAILED, "The rewind failed: The disk is away."
    )  # fmt: skip
    sink.broken = False
    world.checkpoint.rewind(5, sink=sink)
    assert world.visible() == names(range(6))


def test_retention_keeps_off_a_rewind_that_is_under_way() -> None:
    worlds = (world for world, _ in crashes(lambda world: rewound(world, 5)))
    world = next(world for world in worlds if world.checkpoint.storage.exists(INTENT))
    assert prune(world.checkpoint, keep_epochs=2).removed_epochs == 0


def test_on_a_disk(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.create_or_read_query_id("query")
    for epoch in range(4):
        checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
        checkpoint.commits.add(epoch, CommitEntry())
    (tmp_path / "offsets" / ".3.crc").write_bytes(b"crc")
    checkpoint.rewind(1, accept_repeats=True)
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert files == [
        "commits/0", "commits/1", "control/generations/0", "control/lease", "control/rewound",
        "metadata",
        "offsets/0", "offsets/1",
        "rewound/0/commits/2", "rewound/0/commits/3", "rewound/0/offsets/2", "rewound/0/offsets/3",
    ]  # fmt: skip


def test_move_never_overwrites(tmp_path: Path) -> None:
    storage: Storage = Checkpoint(str(tmp_path)).storage
    storage.create("a", b"1")
    storage.create("b", b"2")
    with pytest.raises(CheckpointError, match="b holds something else"):
        storage.move("a", "b")
    assert (storage.read("a"), storage.read("b")) == (b"1", b"2")
    storage.move("a", "c/d")
    storage.move("a", "c/d")
    assert (storage.exists("a"), storage.read("c/d")) == (False, b"1")


@pytest.mark.parametrize("finished", [False, True])
def test_retention_stops_when_a_rewind_comes_in_between(finished: bool) -> None:
    """The rewind is done, or is killed after so much, when the first file has been removed."""
    world = World(last=59, prepared=False)
    storage = world.checkpoint.storage
    looking = Checkpoint(MortalStorage(world.fs, "/checkpoint", Death()), clock=world.clock)
    delete = looking.storage.delete
    deleted: list[str] = []

    def delete_and_rewind(name: str) -> None:
        delete(name)
        deleted.append(name)
        if len(deleted) == 1:
            sink: Any = world.sink if finished else Dying()
            with nullcontext() if finished else pytest.raises(CheckpointError):
                world.checkpoint.rewind(30, sink=sink)

    looking.storage.delete = delete_and_rewind  # type: ignore[method-assign]
    report = prune(looking, keep_epochs=5)
    assert deleted == ["commits/0"]
    assert (report.removed_files, report.removed_epochs, report.kept_from) == (1, 1, 1)
    assert storage.exists(INTENT) is not finished
    assert world.checkpoint.committed_epoch() == 30
    assert world.checkpoint.committed_offsets() == (30,)
    # The next one goes on.
    if finished:
        assert prune(world.checkpoint, keep_epochs=5).kept_from == 26


def test_retention_goes_on_when_the_query_is_started_again_in_between() -> None:
    world = World(last=9, prepared=False)
    storage = world.checkpoint.storage
    delete, started = storage.delete, []

    def delete_and_start(name: str) -> None:
        delete(name)
        if not started:
            started.append(name)
            Lease.acquire(world.checkpoint, run_id="next", clock=world.clock)

    world.checkpoint.rewind(8, sink=world.sink)  # one of before is no reason to stop
    storage.delete = delete_and_start  # type: ignore[method-assign]
    assert prune(world.checkpoint, keep_epochs=2).removed_epochs == 7
    assert world.logs()[1] == [7, 8]


class Dying(KeepsNothing):
    def rewind(self, epoch: int) -> None:
        raise CheckpointError("The disk is away.")
