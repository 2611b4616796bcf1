"""Rewinding and pins: what moves, what stays, and a crash before and after each single write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyspark.sql.types import StructType

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.commit_log import CommitEntry
from engine.checkpoint.fsspec_storage import FsspecStorage
from engine.checkpoint.lease import Lease
from engine.checkpoint.offset_log import OffsetEntry
from engine.checkpoint.prepared_log import PreparedEntry
from engine.checkpoint.retention import prune
from engine.checkpoint.rewind import INTENT, finish_rewind
from engine.checkpoint.storage import Storage
from engine.clock import ManualClock
from engine.coordinator.restart import RestartPlan, decide
from engine.errors import (
    CheckpointCorruptError,
    CheckpointError,
    ConcurrentRunError,
    ConfigError,
    SinkCommitRejectedError,
)
from engine.sinks.file_sink_log import FileSinkLog, SinkFile
from engine.sinks.file_sink_rewind import FileSinkRewind
from engine.sinks.memory import MemoryWriter
from engine.sinks.noop import NoopWriter
from engine.sinks.reopen import KeepsNothing
from engine.states import QueryState

INTERVAL = 3
LAST = 9


class Crash(BaseException):
    """The process is gone."""


class Death:
    """Strikes at the k-th write, before or after its effect; nothing is written from then on."""

    def __init__(self, at: int | None = None, *, after: bool = False) -> None:
        self.at, self.after, self.writes = at, after, 0

    def write(self, effect: Callable[[], Any]) -> Any:
        self.writes += 1
        if self.at is None or self.writes < self.at:
            return effect()
        if self.writes == self.at and self.after:
            effect()
        raise Crash


class PrivateMemory(MemoryFileSystem):  # type: ignore[misc]
    """A memory of its own: fsspec's looks through that of the whole process for each listing."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]


class MortalStorage(FsspecStorage):
    """Memory that a :class:`Death` may strike."""

    def __init__(self, fs: PrivateMemory, root: str, death: Death) -> None:
        super().__init__(fs, root, f"memory:/{root}")
        self._death = death

    def create(self, name: str, data: bytes) -> bool:
        return bool(self._death.write(lambda: FsspecStorage.create(self, name, data)))

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        self._death.write(lambda: FsspecStorage.replace(self, name, data, durable=durable))

    def delete(self, name: str) -> None:
        self._death.write(lambda: FsspecStorage.delete(self, name))


class World:
    """A checkpoint and the folder of a files sink, both on one memory."""

    def __init__(self, last: int = LAST, prepared: bool = True) -> None:
        self.fs = PrivateMemory()
        self.clock = ManualClock()
        self.open(Death())
        self.checkpoint.create_or_read_query_id("query")
        for epoch in range(last + 1):
            if prepared:
                message = PreparedEntry(0, "run", ([epoch],))
                self.checkpoint.prepared.add(epoch, message)
            self.checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
            self.log.add(epoch, [data_file(epoch)])
            self.checkpoint.commits.add(epoch, CommitEntry())

    def open(self, death: Death) -> None:
        """As a new process does."""
        self.checkpoint = Checkpoint(MortalStorage(self.fs, "/checkpoint", death), clock=self.clock)
        self.log = FileSinkLog(
            MortalStorage(self.fs, "/out", death), interval=INTERVAL, cleanup_delay_s=0
        )
        self.sink = FileSinkRewind(self.log)

    def later(self) -> None:
        """So much later that nobody holds the lease any more."""
        self.clock.advance(3600)

    def logs(self) -> tuple[list[int], list[int], list[int]]:
        checkpoint = self.checkpoint
        return checkpoint.offsets.ids(), checkpoint.commits.ids(), checkpoint.prepared.ids()

    def visible(self) -> list[str]:
        """The data files that a reader of the sink sees."""
        return [file.path.rpartition("/")[2] for file in self.log.files()]

    def plan(self) -> RestartPlan:
        """What the restart table says about the logs as they lie there."""
        offsets, commits, prepared = self.logs()
        return decide(
            offsets_ids=offsets,
            commits_ids=commits,
            prepared=prepared,
            sink_epoch=self.log.latest(),
        )

    def everything(self) -> dict[str, bytes]:
        """All entries of the logs by log and epoch, wherever they are now."""
        fs = self.fs
        found: dict[str, bytes] = {}
        for path in fs.find("/checkpoint"):
            *_, log, name = path.split("/")
            if log in ("offsets", "commits", "prepared"):
                assert found.setdefault(f"{log}/{name}", fs.cat_file(path)) == fs.cat_file(path)
        return found


def data_file(epoch: int, generation: int = 0) -> SinkFile:
    return SinkFile(f"file:///out/part-00000-g{generation}-{epoch}-c000.parquet", 1, 1)


def names(epochs: range, generation: int = 0) -> list[str]:
    return [f"part-00000-g{generation}-{epoch}-c000.parquet" for epoch in epochs]


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


def crashes(target: Callable[[World], None]) -> Iterator[tuple[World, str]]:
    """Worlds in which the process died before and after each write of ``target``."""
    for after in (False, True):
        for at in range(1, 1_000):
            world = World()
            prepare = Death(at, after=after)
            world.open(prepare)
            try:
                target(world)
            except Crash:
                world.open(Death())
                world.later()
                yield world, f"write {at}, {'after' if after else 'before'}"
                continue
            assert at > 20, "so few writes cannot be a rewind"
            break


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


# -- pins -----------------------------------------------------------------------------------------


def aged(world: World, *, pinned: int | None) -> None:
    """Thirty more epochs and retention, in the logs and in the sink's own."""
    if pinned is not None:
        world.checkpoint.pin("before-release", pinned, sink=world.sink)
    for epoch in range(LAST + 1, LAST + 21):
        world.checkpoint.prepared.add(epoch, PreparedEntry(0, "run", ([epoch],)))
        world.checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
        world.log.add(epoch, [data_file(epoch)])
        world.checkpoint.commits.add(epoch, CommitEntry())
    prune(world.checkpoint, keep_epochs=5)
    for file in world.log.storage.list(""):
        number = int(re.sub(r"\D", "", file.name))  # of a checksum file, too
        if number < LAST + 13:
            world.log.storage.delete(file.name)


@pytest.mark.parametrize("pinned", [0, 4, 5, 7, 9])
def test_a_pin_outlives_retention(pinned: int) -> None:
    world = World()
    aged(world, pinned=pinned)
    assert world.checkpoint.committed_offsets(pinned) is None
    world.checkpoint.rewind(to_pin="before-release", sink=world.sink)
    assert world.logs() == ([pinned], [pinned], [])
    assert world.checkpoint.committed_offsets() == (pinned,)
    assert world.visible() == names(range(pinned + 1))
    plan = world.plan()
    assert (plan.first_epoch, plan.start_from, plan.recommit) == (pinned + 1, pinned, ())
    for epoch in range(pinned + 1, pinned + 25):
        assert world.log.add(epoch, [data_file(epoch, 1)])
        assert world.visible() == names(range(pinned + 1)) + names(range(pinned + 1, epoch + 1), 1)


def test_killed_at_any_write_on_the_way_to_a_pin() -> None:
    def target(world: World) -> None:
        death = world.checkpoint.storage._death  # type: ignore[attr-defined]
        at, death.at = death.at, None
        aged(world, pinned=4)
        death.at, death.writes = at, 0
        world.checkpoint.rewind(to_pin="before-release", sink=world.sink)

    for world, where in crashes(target):
        if world.logs()[0] != [4]:
            # Who knows nothing of rewinds goes on where it was, or stops aloud.
            try:
                plan = world.plan()
            except CheckpointCorruptError:
                pass
            else:
                assert plan.first_epoch > LAST + 16, where
        world.checkpoint.rewind(to_pin="before-release", sink=world.sink)
        assert world.logs() == ([4], [4], []), where
        assert world.visible() == names(range(5)), where


def test_without_the_sink_s_position_a_compacted_epoch_cannot_be_had() -> None:
    world = World()
    world.checkpoint.pin("blind", 4)
    aged(world, pinned=None)
    before = world.logs()
    with pytest.raises(ConfigError, match=r"compacted since epoch 4.*23 to 29, or to a pin"):
        world.checkpoint.rewind(to_pin="blind", sink=world.sink)
    assert world.logs() == before
    assert world.checkpoint.holder() is None, "refused before anything changed"


def test_pins_are_listed_and_removed() -> None:
    checkpoint = World().checkpoint
    assert checkpoint.pins() == []
    checkpoint.pin("b", 3)
    checkpoint.pin("a")
    checkpoint.pin("a", LAST)
    assert [(pin.name, pin.epoch) for pin in checkpoint.pins()] == [("b", 3), ("a", LAST)]
    with pytest.raises(ConfigError, match=r"pin 'a' is at epoch 9 already.*unpin"):
        checkpoint.pin("a", 3)
    with pytest.raises(ConfigError, match=r"no pin 'c'.*Its pins: a, b"):
        checkpoint.unpin("c")
    checkpoint.unpin("b")
    assert [pin.name for pin in checkpoint.pins()] == ["a"]


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "ä", "x" * 101])
def test_a_name_that_is_no_name(name: str) -> None:
    checkpoint = World().checkpoint
    with pytest.raises(ConfigError, match="cannot be the name of a pin"):
        checkpoint.pin(name, 3)
    with pytest.raises(ConfigError, match="no pin"):
        checkpoint.unpin(name)


def test_a_torn_pin_is_named() -> None:
    checkpoint = World().checkpoint
    checkpoint.pin("a", 3)
    content = checkpoint.storage.read("pins/a")
    for cut in (0, 1, len(content) // 2, len(content) - 1):
        checkpoint.storage.replace("pins/a", content[:cut])
        with pytest.raises(CheckpointCorruptError, match="pins/a cannot be read"):
            checkpoint.pins()


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


def test_a_later_pin_goes_with_its_epoch() -> None:
    world = World()
    for name, epoch in (("early", 3), ("last", 5), ("late", 6)):
        world.checkpoint.pin(name, epoch, sink=world.sink)
    world.checkpoint.rewind(5, sink=world.sink)
    assert [pin.name for pin in world.checkpoint.pins()] == ["early", "last"]
    aside = [path for path in world.fs.find("/checkpoint/rewound") if "/pins/" in path]
    assert [path.rpartition("/")[2] for path in aside] == ["late"]
    with pytest.raises(ConfigError, match="no pin 'late'"):
        world.checkpoint.rewind(to_pin="late", sink=world.sink)
    world.checkpoint.rewind(to_pin="last", sink=world.sink)
    world.checkpoint.rewind(to_pin="early", sink=world.sink)
    assert world.logs()[1] == [0, 1, 2, 3]


def test_an_unreadable_pin_does_not_hinder_a_rewind() -> None:
    world = World()
    world.checkpoint.storage.create("pins/torn", b'{"epoch":')
    world.checkpoint.rewind(5, sink=world.sink)
    assert world.logs()[1] == list(range(6))
    assert world.checkpoint.storage.exists("pins/torn")


def test_a_pin_of_entries_that_were_rewound_is_refused() -> None:
    """As those of checkpoints that were rewound by earlier versions."""
    world = World()
    pin = world.checkpoint.pin("old", 7, sink=world.sink)
    world.checkpoint.rewind(5, sink=world.sink)
    world.checkpoint.storage.create("pins/old", pin.serialize())
    with pytest.raises(ConfigError, match=r"epoch 7, and the last committed epoch is 5"):
        world.checkpoint.rewind(to_pin="old", sink=world.sink)
    assert world.logs()[1] == list(range(6))
    for epoch in range(6, 12):
        world.checkpoint.offsets.add(epoch, OffsetEntry((epoch * 100,)))
        world.log.add(epoch, [data_file(epoch, 1)])
        world.checkpoint.commits.add(epoch, CommitEntry())
    with pytest.raises(ConfigError, match=r"epoch 7, .* other offsets"):
        world.checkpoint.rewind(to_pin="old", sink=world.sink)
    assert world.logs()[1] == list(range(12))
    assert world.visible() == names(range(6)) + names(range(6, 12), 1)


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
