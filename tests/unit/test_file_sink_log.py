from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint.logs.compaction import (
    derived_interval,
    entries_before_compaction,
    entries_until,
    entry_name,
    interval_of,
    is_compaction,
)
from engine.checkpoint.storage.fenced_storage import FencedStorage
from engine.checkpoint.storage.hadoop_checksum import checksums
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import (
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkError,
    SinkUnavailableError,
)
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog, SinkFile


def log_in(folder: Path, interval: int = 3, retained: int = 100) -> FileSinkLog:
    return FileSinkLog(
        LocalStorage(folder), interval=interval, retained=retained, cleanup_delay_s=0
    )


def file(number: int) -> SinkFile:
    return SinkFile(f"file:///out/{number}", 100 * number + 1, 1_000 + number)


def names(folder: Path) -> set[str]:
    """The entries. Each has its checksums beside it."""
    found = {each.name for each in folder.iterdir()}
    entries = {name for name in found if not name.endswith(".crc")}
    assert found - entries <= {f".{name}.crc" for name in entries}
    return entries


def test_compaction_epochs() -> None:
    assert [each for each in range(9) if is_compaction(each, 3)] == [2, 5, 8]
    assert [entry_name(each, 3) for each in range(6)] == [
        "0", "1", "2.compact", "3", "4", "5.compact",
    ]  # fmt: skip


def test_entries_before_a_compaction() -> None:
    assert list(entries_before_compaction(2, 3)) == [0, 1]
    assert list(entries_before_compaction(5, 3)) == [2, 3, 4]
    with pytest.raises(AssertionError):
        entries_before_compaction(4, 3)


def test_entries_until() -> None:
    expected = {
        0: [0], 1: [0, 1], 2: [2], 3: [2, 3], 4: [2, 3, 4], 5: [5], 6: [5, 6], 7: [5, 6, 7], 8: [8]
    }  # fmt: skip
    assert {each: list(entries_until(each, 3)) for each in range(9)} == expected


def test_the_interval_of_an_existing_log() -> None:
    assert derived_interval(5, 4) == 5
    assert derived_interval(4, 9) == 5
    assert derived_interval(10, 2) == 3
    assert derived_interval(10, 10) == 11
    assert interval_of([], 10) == 10
    assert interval_of([2], 10) == 3
    assert interval_of([2, 5, 8], 10) == 3


def test_a_line_is_spark_s_byte_for_byte() -> None:
    line = (
        '{"path":"file:///data/out/part-00000-c5002818-d39b-433a-8f7c-160ad7205161-c000.snappy'
        '.parquet","size":714,"isDir":false,"modificationTime":1795174794767,'
        '"blockReplication":1,"blockSize":33554432,"action":"add"}'
    )
    assert SinkFile.of_line(line).line() == line


def test_everything_added_is_listed_after_each_epoch(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for epoch in range(11):
        assert log.add(epoch, [file(epoch), file(100 + epoch)])
        expected = [
            each for number in range(epoch + 1) for each in (file(number), file(100 + number))
        ]
        assert log.files() == expected
        assert log.latest() == epoch
        if is_compaction(epoch, 3):
            assert len((tmp_path / f"{epoch}.compact").read_text().splitlines()) == 1 + len(
                expected
            )


def test_bytes_of_entries(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.add(0, [file(1), file(2)])
    log.add(1, [])
    assert (tmp_path / "0").read_text() == "\n".join(["v1", file(1).line(), file(2).line()])
    assert (tmp_path / "1").read_text() == "v1"


def test_an_epoch_that_is_there_is_skipped(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.add(0, [file(0)])
    log.add(1, [file(1)])
    assert not log.add(1, [file(7)])
    assert not log_in(tmp_path).add(0, [file(8)])
    assert log.files() == [file(0), file(1)]


def test_a_gap_is_refused(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.add(0, [file(0)])
    with pytest.raises(SinkCommitRejectedError, match=r"The last epoch in .* is 0: epoch 2"):
        log.add(2, [])


@pytest.mark.parametrize("last", range(6))
def test_a_gap_is_filled_on_demand(tmp_path: Path, last: int) -> None:
    log = log_in(tmp_path)
    log.fill(0)
    assert not tmp_path.joinpath("0").exists()
    log.add(0, [file(0)])
    log.fill(last)
    log.fill(last - 1)
    assert log.latest() == last
    for epoch in range(last + 1, last + 5):
        assert log.add(epoch, [file(epoch)])
        assert log.files() == [file(0), *map(file, range(last + 1, epoch + 1))]


@pytest.mark.parametrize(("interval", "first"), [(3, 4), (3, 5), (10, 4), (5, 107)])
def test_killed_while_a_new_folder_begins_with_a_later_epoch(
    tmp_path: Path, interval: int, first: int
) -> None:
    """Each storage call may be the last that has an effect."""

    class Mortal(LocalStorage):
        writes_left = 0

        def _write(self) -> None:
            if not self.writes_left:
                raise KeyboardInterrupt
            self.writes_left -= 1

        def create(self, name: str, data: bytes) -> bool:
            self._write()
            return super().create(name, data)

        def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
            self._write()
            super().replace(name, data, durable=durable)

    for writes in range(2 * len(entries_until(first, interval))):
        storage = Mortal(tmp_path / str(writes))
        storage.writes_left = writes
        with pytest.raises(KeyboardInterrupt):
            FileSinkLog(storage, interval=interval).add(first, [file(first)])
        again = log_in(tmp_path / str(writes), interval)
        again.add(first, [file(first)])
        again.add(first + 1, [file(first + 1)])
        assert again.files() == [file(first), file(first + 1)]


@pytest.mark.parametrize("first", [1, 2, 4, 5, 12])
def test_a_new_folder_may_begin_with_a_later_epoch(tmp_path: Path, first: int) -> None:
    log = log_in(tmp_path)
    for epoch in range(first, first + 5):
        assert log.add(epoch, [file(epoch)])
        assert log.files() == [file(each) for each in range(first, epoch + 1)]
    listing = names(tmp_path)
    assert all(entry_name(each, 3) in listing for each in entries_until(first, 3))


def test_an_existing_log_keeps_its_interval(tmp_path: Path) -> None:
    for epoch in range(7):
        log_in(tmp_path, interval=3).add(epoch, [file(epoch)])
    for epoch in range(7, 12):
        log_in(tmp_path, interval=10).add(epoch, [file(epoch)])
    assert {"8.compact", "11.compact"} <= names(tmp_path)
    assert log_in(tmp_path, interval=4).files() == [file(epoch) for epoch in range(12)]


@pytest.mark.parametrize(
    ("retained", "expected"),
    [
        (1, ["0 1 2c 3 4", "2c 3 4 5c", "2c 3 4 5c 6", "2c 3 4 5c 6 7", "5c 6 7 8c"]),
        (
            5,
            ["0 1 2c 3 4", "0 1 2c 3 4 5c", "0 1 2c 3 4 5c 6", "2c 3 4 5c 6 7", "2c 3 4 5c 6 7 8c"],
        ),
    ],
)
def test_old_entries_are_deleted(tmp_path: Path, retained: int, expected: list[str]) -> None:
    """The last two compactions stay, and all between them."""
    log = log_in(tmp_path, retained=retained)
    for epoch in range(4):
        log.add(epoch, [file(epoch)])
    for epoch, left in enumerate(expected, 4):
        log.add(epoch, [file(epoch)])
        assert names(tmp_path) == {each.replace("c", ".compact") for each in left.split()}
        assert log.files() == [file(each) for each in range(epoch + 1)]


def test_young_entries_are_kept(tmp_path: Path) -> None:
    log = FileSinkLog(LocalStorage(tmp_path), interval=3, retained=1, cleanup_delay_s=600)
    for epoch in range(10):
        log.add(epoch, [])
    assert len(names(tmp_path)) == 10
    later = FileSinkLog(
        LocalStorage(tmp_path),
        interval=3,
        retained=1,
        now_s=lambda: (tmp_path / "9").stat().st_mtime + 601,
    )
    later.add(10, [])
    assert names(tmp_path) == {"5.compact", "6", "7", "8.compact", "9", "10"}


def test_another_process_removes_old_entries(tmp_path: Path) -> None:
    log = log_in(tmp_path, retained=6)
    for epoch in range(11):
        log.add(epoch, [file(epoch)])
    for info in log_in(tmp_path).expired(10, 3):
        log.storage.delete(info.name)
    for epoch in range(11, 20):
        assert log.add(epoch, [file(epoch)])
    assert log.files() == [file(each) for each in range(20)]


def test_entries_expire_from_the_oldest_on(tmp_path: Path) -> None:
    """Removed one by one in this order, what is left is a log with its interval."""
    log = log_in(tmp_path, interval=3, retained=1_000)
    for epoch in range(30):
        log.add(epoch, [file(epoch)])
    expired = [info.name for info in log.expired(28, 3)]
    assert len(expired) > 20
    for name in expired:
        log.storage.delete(name)
        assert log_in(tmp_path).files() == [file(each) for each in range(30)]
        assert log.interval(log.listing()) == 3


def test_other_names_are_no_entries(tmp_path: Path) -> None:
    for name in (".7.crc", "8a", ".9.uuid.tmp", "-1"):
        (tmp_path / name).write_text("x")
    assert log_in(tmp_path).latest() is None
    assert log_in(tmp_path / "none").latest() is None
    assert log_in(tmp_path / "none").files() == []


def test_the_latest_epoch_opens_no_file(tmp_path: Path) -> None:
    (tmp_path / "12").write_bytes(b"\xff")
    assert log_in(tmp_path).latest() == 12


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("v2\n{}")
    with pytest.raises(SinkError, match="supported log version is v1, but encountered v2"):
        log_in(tmp_path).files()


def test_a_missing_entry_is_named(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.add(0, [])
    log.add(1, [])
    (tmp_path / "0").unlink()
    with pytest.raises(SinkError, match="0 is missing"):
        log.add(2, [])


def test_another_writer_is_noticed(tmp_path: Path) -> None:
    class Blind(LocalStorage):
        """Lists nothing: as if the other's entry came right after the look."""

        def list(self, folder: str) -> list:  # type: ignore[type-arg]
            return []

    log_in(tmp_path).add(0, [file(0)])
    with pytest.raises(SinkCommitRejectedError, match="another query"):
        FileSinkLog(Blind(tmp_path)).add(0, [file(1)])
    assert log_in(tmp_path).files() == [file(0)]


def test_an_entry_that_arrives_late_is_ours(tmp_path: Path) -> None:
    """A request that seemed to fail, or that of a run that was killed, may reach the store between
    the look and the write."""

    class Late(LocalStorage):
        def create(self, name: str, data: bytes) -> bool:
            super().create(name, data)
            return super().create(name, data)

    log = FileSinkLog(Late(tmp_path), interval=2)
    for epoch in range(4):
        assert log.add(epoch, [file(epoch)])
    log.verify()
    assert log_in(tmp_path).files() == [file(epoch) for epoch in range(4)]


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkCommitUnknownError):
        log_in(tmp_path / "file").add(0, [])


@pytest.mark.parametrize("damage", [b"v1", b'v1\n{"path":"file:///x"}'])
def test_a_damaged_entry_is_refused(tmp_path: Path, damage: bytes) -> None:
    log = log_in(tmp_path)
    log.add(0, [file(0)])
    (tmp_path / "0").write_bytes(damage)
    with pytest.raises(SinkError, match="checksums do not fit"):
        log.files()
    with pytest.raises(SinkError, match="checksums do not fit"):
        log.verify()
    (tmp_path / ".0.crc").unlink()  # as an entry whose writer died in between
    assert log.latest() == 0


def test_checksums_are_those_of_hadoop() -> None:
    """The twin that Spark 4.3 wrote beside an entry of its own."""
    folder = Path(__file__).parents[1] / "golden/checkpoints/spark-4.3-rate-continuous/offsets"
    for entry in folder.glob("[0-9]*"):
        assert checksums(entry.read_bytes()) == (folder / f".{entry.name}.crc").read_bytes()
    assert len(checksums(bytes(1156))) == 20


def test_a_file_where_the_sink_s_folder_was_is_no_matter_of_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("not a folder")

    with pytest.raises(SinkUnavailableError, match="cannot be taken over") as caught:
        FileSinkLog(FencedStorage(tmp_path / "out" / FOLDER)).take("a-query", 1)

    assert "checkpoint" not in str(caught.value)
    assert caught.value.hint == "See that it and the folders above it are as they should be."
