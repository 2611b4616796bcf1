"""The log of a files sink that gets long: its interval grows, epochs are left out, files expire."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.logs.compaction import interval_of, stepping_stones
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import SinkCommitRejectedError
from engine.sinks.files.file_sink_log import LINES_PER_EPOCH, FileSinkLog, SinkFile
from engine.sinks.files.file_sink_rewind import FileSinkRewind


def file(number: int, modified_ms: int = 1_000) -> SinkFile:
    return SinkFile(f"file:///out/{number}", 100 * number + 1, modified_ms)


def as_spark_reads(folder: Path) -> list[str]:
    """As :func:`as_spark_finds`, in a folder."""
    return as_spark_finds(LocalStorage(folder))


def as_spark_finds(storage: Storage) -> list[str]:
    """The lines that a reader finds who begins now. Source: Spark's CompactibleFileStreamLog."""
    names = {info.name for info in storage.list("") if info.name[0].isdigit()}
    compactions = sorted(int(name[:-8]) for name in names if name.endswith(".compact"))
    interval = interval_of(compactions, 10)
    latest = max(int(name.removesuffix(".compact")) for name in names)
    lines: list[str] = []
    for epoch in range(max(0, (latest + 1) // interval * interval - 1), latest + 1):
        name = f"{epoch}.compact" if (epoch + 1) % interval == 0 else str(epoch)
        header, *found = storage.read(name).decode().split("\n")
        assert header == "v1"
        lines += [line for line in found if line]
    return lines


class Counting(LocalStorage):
    """Counts what a commit does; may stop having an effect, as if the process were killed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.calls: list[str] = []
        self.read_bytes = 0
        self.writes_left: int | None = None
        self.after_write: Any = lambda: None

    def _write(self) -> None:
        if self.writes_left is not None:
            if not self.writes_left:
                raise KeyboardInterrupt
            self.writes_left -= 1

    def create(self, name: str, data: bytes) -> bool:
        self._write()
        self.calls.append("create")
        made = super().create(name, data)
        self.after_write()
        return made

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        self._write()
        super().replace(name, data, durable=durable)

    def delete(self, name: str) -> None:
        self._write()
        super().delete(name)
        self.after_write()

    def list(self, folder: str) -> Any:
        self.calls.append("list")
        return super().list(folder)

    def read(self, name: str) -> bytes:
        data = super().read(name)
        self.read_bytes += len(data)
        return data


def test_a_long_log_is_compacted_less_often_and_every_reader_sees_all(tmp_path: Path) -> None:
    storage = Counting(tmp_path)
    log = FileSinkLog(storage, cleanup_delay_s=0)
    expected: list[str] = []
    for epoch in range(250):
        files = [file(100 * epoch + each) for each in range(60)]
        added = [each.line() for each in files]
        # Whoever begins to read at any moment sees the epoch before, or this one.
        storage.after_write = lambda before=list(expected), after=expected + added: (
            None if as_spark_reads(tmp_path) in (before, after) else pytest.fail("torn")
        )
        assert log.add(epoch, files)
        expected += added
        assert as_spark_reads(tmp_path) == expected
    assert log.interval(log.listing()) >= 80
    assert [each.line() for each in FileSinkLog(storage).files()] == expected


def test_the_cost_of_an_epoch_does_not_grow(tmp_path: Path) -> None:
    storage = Counting(tmp_path)
    log = FileSinkLog(storage, cleanup_delay_s=0)
    costs = []
    for epoch in range(400):
        assert log.add(epoch, [file(300 * epoch + each) for each in range(300)])
        if epoch % 200 == 199:
            costs.append(storage.read_bytes)
            storage.read_bytes = 0
    assert storage.calls.count("list") == 1
    assert costs[1] < 3 * costs[0]  # with ten epochs between compactions: 12 times


def test_killed_while_the_interval_grows(tmp_path: Path) -> None:
    lines_per_epoch = 2 * LINES_PER_EPOCH
    for writes in range(12):
        folder = tmp_path / str(writes)
        storage = Counting(folder)
        log = FileSinkLog(storage)
        expected = []
        for epoch in range(60):
            files = [file(1000 * epoch + each) for each in range(lines_per_epoch)]
            if epoch == 39:
                storage.writes_left = writes
            try:
                log.add(epoch, files)
            except KeyboardInterrupt:
                storage.writes_left = None
                assert len(as_spark_reads(folder)) in (len(expected), len(expected) + len(files))
                log = FileSinkLog(storage)
                log.add(epoch, files)
            storage.writes_left = None
            expected += [each.line() for each in files]
            if epoch >= 39:
                assert as_spark_reads(folder) == expected


def test_what_is_pruned_while_the_interval_grows_lets_it_grow_later(tmp_path: Path) -> None:
    storage = Counting(tmp_path)
    log, other = (
        FileSinkLog(each, cleanup_delay_s=0) for each in (storage, LocalStorage(tmp_path))
    )

    def prune() -> None:
        for info in other.expired(39, 10):
            other.storage.delete(info.name)

    expected = []
    for epoch in range(60):
        files = [file(1000 * epoch + each) for each in range(2 * LINES_PER_EPOCH)]
        storage.after_write = prune if epoch == 39 else lambda: None
        assert log.add(epoch, files)
        expected += [each.line() for each in files]
        assert as_spark_reads(tmp_path) == expected
        assert log.interval(log.listing()) == (20 if epoch == 59 else 10)


def test_a_rewind_in_a_log_whose_interval_has_grown(tmp_path: Path) -> None:
    log = FileSinkLog(LocalStorage(tmp_path / "log"))
    for epoch in range(100):
        log.add(epoch, [file(200 * epoch + each) for each in range(200)])
    assert log.interval(log.listing()) > 10
    for epoch in (98, 79, 61, 45, 39, 12):
        shutil.copytree(tmp_path / "log", tmp_path / str(epoch))
        taken_back = FileSinkLog(LocalStorage(tmp_path / str(epoch)))
        FileSinkRewind(taken_back).checkRewind(epoch)
        FileSinkRewind(taken_back).rewind(epoch)
        assert taken_back.latest() == epoch
        for added in range(30):
            assert len(as_spark_reads(tmp_path / str(epoch))) == 200 * (epoch + 1) + added
            assert taken_back.add(epoch + 1 + added, [file(added)])


def test_another_writer_is_noticed_by_the_next_epoch(tmp_path: Path) -> None:
    log, other = FileSinkLog(LocalStorage(tmp_path)), FileSinkLog(LocalStorage(tmp_path))
    log.add(0, [file(0)])
    other.add(1, [file(1)])
    with pytest.raises(SinkCommitRejectedError, match="another query"):
        log.add(1, [file(2)])
    assert not log.add(1, [file(1)])


@pytest.mark.parametrize("last", [9, 19, 39, 109, 86_399])
@pytest.mark.parametrize("until", [40, 1_000, 86_400, 10_000_000])
def test_stepping_stones(last: int, until: int) -> None:
    stones = stepping_stones(last, until, 10)
    assert len(stones) < 50
    for one, other in zip([last, *stones], stones, strict=False):
        assert other > one
        assert (other + 1) % (other - one) == 0
    if stones:
        assert until - 20 < stones[-1] <= until
        assert stones[-1] - [last, *stones][-2] == 10


@pytest.mark.parametrize("last", [0, 3, 9, 10, 57])
@pytest.mark.parametrize("until", [5, 30, 99, 86_400])
def test_a_day_of_epochs_is_left_out(tmp_path: Path, last: int, until: int) -> None:
    storage = Counting(tmp_path)
    log = FileSinkLog(storage)
    for epoch in range(last + 1):
        log.add(epoch, [file(epoch)])
    before = as_spark_reads(tmp_path)
    storage.calls.clear()
    storage.after_write = lambda: (
        None if as_spark_reads(tmp_path) == before else pytest.fail("torn")
    )
    log.fill(until)
    assert storage.calls.count("create") < 80
    assert log.latest() == max(last, until)
    storage.after_write = lambda: None
    for epoch in range(max(last, until) + 1, max(last, until) + 30):
        assert log.add(epoch, [file(epoch)])
        before.append(file(epoch).line())
        assert as_spark_reads(tmp_path) == before
        assert [each.line() for each in log.files()] == before


def test_a_rewind_into_epochs_that_were_left_out(tmp_path: Path) -> None:
    log = FileSinkLog(LocalStorage(tmp_path))
    for epoch in range(12):
        log.add(epoch, [file(epoch)])
    log.fill(5_000)
    log.add(5_001, [file(5_001)])
    FileSinkRewind(log).checkRewind(2_345)
    FileSinkRewind(log).rewind(2_345)
    assert log.latest() == 2_345
    assert as_spark_reads(tmp_path) == [file(epoch).line() for epoch in range(12)]
    assert log.add(2_346, [file(1)])


def test_old_files_leave_the_log_at_a_compaction(tmp_path: Path) -> None:
    now_s = time.time()
    log = FileSinkLog(LocalStorage(tmp_path), interval=3, retention_ms=60_000, now_s=lambda: now_s)
    old, young = int((now_s - 61) * 1000), int((now_s - 59) * 1000)
    log.add(0, [file(0, old), file(1, young)])
    log.add(1, [file(2, old)])
    assert len(log.files()) == 3
    log.add(2, [file(3, young)])
    assert [each.path[-1] for each in log.files()] == ["1", "3"]
    assert len(as_spark_reads(tmp_path)) == 2
