"""A query with a sink of files on a storage that dies at any write: for rewinds and pins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fsspec.implementations.memory import MemoryFileSystem

from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.storage.fsspec_storage import FsspecStorage
from engine.coordinator.restart_table import RestartPlan, decide
from engine.sinks.files.file_sink_log import FileSinkLog, SinkFile
from engine.sinks.files.file_sink_rewind import FileSinkRewind

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

    at_once_max = 1  # memory is as fast as threads

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
