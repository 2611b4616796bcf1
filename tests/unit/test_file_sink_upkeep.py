"""What may go from the folder of a files sink, and what never does."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.retention import prune
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import ConfigError, SinkError
from engine.sinks.files.data_source import FilesMessage
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog, SinkFile
from engine.sinks.files.file_sink_rewind import FileSinkRewind
from engine.sinks.files.file_sink_upkeep import prune_sink

DAY_S = 86_400
OLD_S = 3 * DAY_S


class World:
    """A query with a files sink, of which the test is the engine. All its files are old."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out"
        self.checkpoint = Checkpoint(str(folder / "checkpoint"))
        self.checkpoint.create_or_read_query_id("query")
        parts = {"sink": {"format": "parquet", "options": {"PATH": str(self.out)}}}
        write_fingerprint(self.checkpoint.storage, parts)
        self.log = FileSinkLog(LocalStorage(self.out / FOLDER), interval=3, retained=10_000)
        self.committed: list[Path] = []
        self.lease: Lease | None = None

    def run(self) -> Lease:
        """As the next generation."""
        if self.lease is not None:
            self.lease.release(QueryState.STOPPED)
        self.lease = Lease.acquire(self.checkpoint, run_id=str(uuid.uuid4()))
        return self.lease

    def write(self, generation: int | None, folder: str = "", age_s: int = OLD_S) -> Path:
        """A data file, committed by nobody."""
        named = "" if generation is None else f"g{generation}-"
        path = self.out / folder / f"part-00001-{named}{uuid.uuid4()}-c000.snappy.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"rows")
        make_old(path, age_s)
        return path

    def prepare(self, epoch: int, *files: Path, pickled: bool = False) -> None:
        sink_files = tuple(SinkFile(f"file://{file}", 4, 1) for file in files)
        message = {"wrapped": str(sink_files)} if pickled else FilesMessage(sink_files)
        self.checkpoint.prepared.add(epoch, PreparedEntry(0, "run", (message,)))
        self.checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))

    def commit(self, epoch: int, *files: Path) -> None:
        self.prepare(epoch, *files)
        self.log.add(epoch, [SinkFile(f"file://{file}", 4, 1) for file in files])
        self.checkpoint.commits.add(epoch, CommitEntry())

    def commit_up_to(self, last: int) -> None:
        for epoch in range(self.checkpoint.committed_epoch() + 1, last + 1):
            self.committed.append(self.write(0))
            self.commit(epoch, self.committed[-1])

    def age(self) -> None:
        """The sink's log is old."""
        for path in (self.out / FOLDER).iterdir():
            make_old(path, OLD_S)

    def entries(self) -> set[str]:
        return {p.name for p in (self.out / FOLDER).iterdir() if not p.name.startswith(".")}

    def visible(self) -> list[str]:
        return [file.path.removeprefix("file://") for file in self.log.files()]


def make_old(path: Path, age_s: float) -> None:
    at = path.stat().st_mtime - age_s
    os.utime(path, (at, at))


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.run()
    return world


# -- the log --------------------------------------------------------------------------------------


def test_entries_go_that_no_kept_epoch_needs(world: World) -> None:
    world.commit_up_to(10)
    world.age()
    before = world.visible()
    prune(world.checkpoint, keep_epochs=3)  # 8, 9, 10
    would = prune_sink(world.checkpoint, dry_run=True)
    assert would is not None
    assert len(world.entries()) == 11
    did = prune_sink(world.checkpoint)
    assert did is not None
    assert world.entries() == {"5.compact", "6", "7", "8.compact", "9", "10"}
    assert (did.removed_entries, did.removed_files) == (5, 0)
    assert did.removed_bytes == would.removed_bytes > 0
    assert world.visible() == before == [str(path) for path in world.committed]
    for epoch in (8, 9, 10):  # what the checkpoint keeps, a rewind can still reach
        FileSinkRewind(world.log).checkRewind(epoch)
    world.commit_up_to(20)  # and the writer goes on with its compactions
    assert world.visible() == [str(path) for path in world.committed]
    assert "20.compact" in world.entries()


def test_young_entries_stay(world: World) -> None:
    world.commit_up_to(10)
    prune(world.checkpoint, keep_epochs=2)
    report = prune_sink(world.checkpoint)
    assert report is not None
    assert report.removed_entries == 0


@pytest.mark.parametrize("with_position", [False, True])
def test_a_pinned_epoch_can_still_be_reached(world: World, with_position: bool) -> None:
    world.commit_up_to(4)
    sink = FileSinkRewind(world.log) if with_position else None
    pin = world.checkpoint.pin("gold", 4, sink=sink)
    world.commit_up_to(10)
    world.age()
    prune(world.checkpoint, keep_epochs=2)
    prune_sink(world.checkpoint)
    assert ("3" in world.entries()) is not with_position
    position = () if pin.sink_position is None else (pin.sink_position,)
    FileSinkRewind(world.log).rewind(4, *position)
    assert world.visible() == [str(path) for path in world.committed[:5]]


def test_a_damaged_log_stays_as_it_is(world: World) -> None:
    world.commit_up_to(10)
    world.age()
    prune(world.checkpoint, keep_epochs=2)
    compacted = world.out / FOLDER / "8.compact"
    compacted.write_bytes(compacted.read_bytes()[:-9])
    with pytest.raises(SinkError, match=r"8\.compact is damaged"):
        prune_sink(world.checkpoint)
    assert len(world.entries()) == 11


def test_nothing_goes_before_the_first_compaction(world: World) -> None:
    world.commit_up_to(1)
    world.age()
    report = prune_sink(world.checkpoint)
    assert report is not None
    assert report.removed_entries == 0
    assert world.entries() == {"0", "1"}


# -- data files of no epoch -----------------------------------------------------------------------


def removed(world: World, older_than_s: float = DAY_S) -> int:
    report = prune_sink(world.checkpoint, compact=False, orphans_older_than_s=older_than_s)
    assert report is not None
    return report.removed_files


def test_files_of_dead_runs_go(world: World) -> None:
    world.commit_up_to(4)
    orphans = [world.write(0), world.write(0, "day=1/hour=2")]
    world.run()  # generation 1
    world.commit_up_to(6)
    kept = [
        *world.committed,
        world.write(1),  # of the run that is there
        world.write(0, age_s=DAY_S // 2),  # young
        world.write(None),  # of Spark
        world.write(0, "_staging"),
    ]
    other = world.out / "README.md"
    other.write_text("by hand")
    make_old(other, OLD_S)
    assert removed(world) == len(orphans)
    assert [path for path in orphans if path.exists()] == []
    assert [path for path in [*kept, other] if not path.exists()] == []


def test_of_a_run_that_ended_they_go_too(world: World) -> None:
    world.commit_up_to(2)
    orphan = world.write(0)
    assert removed(world) == 0
    assert world.lease is not None
    world.lease.release(QueryState.FAILED, "disk full")
    assert removed(world) == 1
    assert not orphan.exists()


def test_a_run_that_is_lost_may_come_back(world: World) -> None:
    world.commit_up_to(2)
    orphan = world.write(0)
    storage, record = world.checkpoint.storage, world.run().record
    storage.replace(
        "control/lease", record.serialize().replace(b'"heartbeat_at_ms":1', b'"heartbeat_at_ms":')
    )
    assert str(world.checkpoint.status().state) == "LOST"
    world.write(record.generation)
    assert removed(world) == 1, "of the generation before"
    assert not orphan.exists()


@pytest.mark.parametrize("pickled", [False, True])
def test_what_the_next_start_commits_stays(world: World, pickled: bool) -> None:
    """It died between its prepared epoch and the sink, long ago."""
    world.commit_up_to(3)
    prepared = world.write(0)
    world.prepare(4, prepared, pickled=pickled)
    assert world.lease is not None
    world.lease.release(QueryState.FAILED)
    assert removed(world) == 0
    assert prepared.exists()


def test_what_a_rewind_has_taken_back_stays(world: World) -> None:
    world.commit_up_to(7)
    assert world.lease is not None
    world.lease.release(QueryState.STOPPED)
    world.checkpoint.rewind(4, sink=FileSinkRewind(world.log))
    assert world.visible() == [str(path) for path in world.committed[:5]]
    assert removed(world) == 0
    assert all(path.exists() for path in world.committed)


def test_an_hour_at_least(world: World) -> None:
    with pytest.raises(ConfigError, match="3600 s old or more"):
        removed(world, older_than_s=60)


# -- which folder ---------------------------------------------------------------------------------


def test_a_log_without_the_committed_epochs(world: World) -> None:
    world.commit_up_to(3)
    orphan = world.write(0)
    world.run()
    for path in (world.out / FOLDER).iterdir():
        path.unlink()
    with pytest.raises(ConfigError, match="does not have epoch 3"):
        removed(world)
    assert orphan.exists()


def test_another_folder_than_the_query_s(world: World, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"writes to {world.out}, not to"):
        prune_sink(world.checkpoint, str(tmp_path / "other"))


def test_a_sink_that_writes_no_files(world: World) -> None:
    parts = {"sink": {"format": "kafka", "options": {"topic": "t"}}}
    write_fingerprint(world.checkpoint.storage, parts)
    assert prune_sink(world.checkpoint) is None


def test_a_checkpoint_that_does_not_tell(world: World) -> None:
    world.commit_up_to(10)
    world.age()
    prune(world.checkpoint, keep_epochs=2)
    world.checkpoint.storage.delete("control/fingerprint")
    with pytest.raises(ConfigError, match="does not tell which sink"):
        prune_sink(world.checkpoint)
    report = prune_sink(world.checkpoint, str(world.out))
    assert report is not None
    assert report.removed_entries > 0


def test_data_files_beside_a_checkpoint_that_only_spark_has_run(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.commit_up_to(3)
    orphan = world.write(0)
    with pytest.raises(ConfigError, match="No run of this engine"):
        removed(world)
    assert orphan.exists()
