"""Files that are renamed, truncated, replaced and removed while they are followed."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import OffsetOutOfRangeError
from engine.sources.contract import Offset, PartitionReader
from engine.sources.offset_order import distance, reached
from engine.sources.tail import tail_files
from engine.sources.tail.data_source import TailReader
from engine.sources.tail.tail_offset import GONE_MAX, file_name, shown_name
from tests.unit.test_tail import (
    DEADLINE_S,
    ids_of_all,
    open_one,
    positions,
    read_rows,
    reader,
    write_ids,
)


class Followed:
    """A stream, live or started again from its offset before each look."""

    def __init__(self, driver: TailReader, *, restarts: bool) -> None:
        self._driver = driver
        self._restarts = restarts
        self._partitions = self._open({})

    def _open(self, offset: Offset) -> list[PartitionReader]:
        return [self._driver.open(each) for each in self._driver.partitions(offset)]

    @property
    def offset(self) -> Any:
        return self._driver.mergeOffsets([each.offset for each in self._partitions])

    def rows(self, count: int) -> list[int]:
        """So many rows and no more."""
        if self._restarts:
            self._partitions = self._open(self.offset)
        rows: list[int] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(rows) < count:
            assert time.monotonic() < deadline, f"only {rows}"
            rows += [row for each in self._partitions for row in ids_of_all(each)]
        for each in self._partitions:
            while each.read(0.02) is not None:
                raise AssertionError("there are more rows")
        return sorted(rows)

    def look_until(self, are_right: Callable[[dict[str, int]], bool]) -> None:
        """Until the offset has these positions, without any row: who has nothing to read may not
        have looked yet."""
        deadline = time.monotonic() + DEADLINE_S
        while not are_right(positions(self.offset)):
            assert time.monotonic() < deadline, f"the offset is still {self.offset}"
            assert self.rows(0) == []


def copy_and_truncate(log: Path, copy: str) -> None:
    """As logrotate's ``copytruncate`` does."""
    shutil.copy(log, log.with_name(copy))
    os.truncate(log, 0)


@pytest.fixture(params=["live", "restarted"])
def restarts(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "restarted")


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("pattern", ["*", "*.log"])
def test_a_file_is_rotated_by_renaming_it(
    tmp_path: Path, restarts: bool, pattern: str, partitions: int
) -> None:
    log = tmp_path / "app.log"
    stream = Followed(
        reader(tmp_path, pathGlobFilter=pattern, numPartitions=partitions), restarts=restarts
    )
    write_ids(log, 1, 2)
    assert stream.rows(2) == [1, 2]
    write_ids(log, 3)  # behind the offset, and rotated before it is read
    log.rename(tmp_path / "app.log.1")
    write_ids(log, 4)
    assert stream.rows(2) == [3, 4]
    write_ids(tmp_path / "app.log.1", 5)  # by a writer that has not opened the new file yet
    assert stream.rows(1) == [5]
    (tmp_path / "app.log.1").rename(tmp_path / "app.log.2")
    log.rename(tmp_path / "app.log.1")
    write_ids(log, 6, 7, 8)
    write_ids(tmp_path / "app.log.1", 9)
    assert stream.rows(4) == [6, 7, 8, 9]
    stream.look_until({"app.log": 27, "app.log.1": 18, "app.log.2": 36}.__eq__)
    assert stream.rows(0) == []


def test_a_file_is_rotated_by_copying_and_truncating_it(
    tmp_path: Path, restarts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "app.log"
    stream = Followed(reader(tmp_path, pathGlobFilter="*.log"), restarts=restarts)
    write_ids(log, 1, 2)
    assert stream.rows(2) == [1, 2]
    write_ids(log, 3)
    copy_and_truncate(log, "app.log.1")
    write_ids(log, 4)
    assert stream.rows(2) == [3, 4]
    assert f"{log} was read up to byte 18, and was truncated" in caplog.text
    assert f"what follows is read from {log}.1" in caplog.text
    assert stream.rows(0) == []


@pytest.mark.parametrize("size", [5, 2, 1], ids=["longer", "as long", "shorter"])
def test_a_truncated_file_is_read_from_its_beginning(
    tmp_path: Path, restarts: bool, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "app.log"
    stream = Followed(reader(tmp_path), restarts=restarts)
    write_ids(log, 1, 2)
    assert stream.rows(2) == [1, 2]
    os.truncate(log, 0)
    write_ids(log, *range(3, 3 + size))
    assert stream.rows(size) == list(range(3, 3 + size))
    assert "was truncated or replaced" in caplog.text
    assert stream.rows(0) == []


def test_a_file_that_is_replaced_is_a_new_file(tmp_path: Path, restarts: bool) -> None:
    log = tmp_path / "app.log"
    stream = Followed(reader(tmp_path), restarts=restarts)
    write_ids(log, 1, 2)
    assert stream.rows(2) == [1, 2]
    write_ids(tmp_path / ".new", 3, 4, 5)
    (tmp_path / ".new").replace(log)
    assert stream.rows(3) == [3, 4, 5]
    log.unlink()
    write_ids(log, 6, 7, 8, 9)  # with the inode number of the one before, perhaps
    assert stream.rows(4) == [6, 7, 8, 9]


def test_a_number_that_is_given_again_does_not_hide_a_file(tmp_path: Path, restarts: bool) -> None:
    """The next file often gets the inode number of the one that was just removed."""
    stream = Followed(reader(tmp_path), restarts=restarts)
    for i in range(20):
        file = tmp_path / f"{i}.json"
        write_ids(file, -1, i, i)
        assert stream.rows(3) == [-1, i, i] if i else [-1, 0, 0]
        file.unlink()


def test_consumed_files_may_go_and_are_forgotten(tmp_path: Path, restarts: bool) -> None:
    stream = Followed(reader(tmp_path, numPartitions=2), restarts=restarts)
    for i in range(400):
        write_ids(tmp_path / f"{i:05}.json", i)
    assert stream.rows(400) == list(range(400))
    for i in range(400):
        (tmp_path / f"{i:05}.json").unlink()
    write_ids(tmp_path / "last.json", 400)
    assert stream.rows(1) == [400]
    deadline = time.monotonic() + DEADLINE_S
    while len(positions(stream.offset)) > 2 * GONE_MAX + 1:
        assert time.monotonic() < deadline
        assert stream.rows(0) == []
    assert "last.json" in stream.offset


def test_who_waits_for_a_file_finds_it_when_it_is_gone(tmp_path: Path) -> None:
    driver = reader(tmp_path)
    stream = Followed(driver, restarts=False)
    write_ids(tmp_path / "a.json", 1, 2)
    wanted = driver.latestOffset()
    assert not reached(stream.offset, wanted)
    assert distance(stream.offset, wanted) == 18
    assert stream.rows(2) == [1, 2]
    assert stream.offset == wanted
    (tmp_path / "a.json").rename(tmp_path / "a.json.1")
    write_ids(tmp_path / "a.json", 3)
    assert stream.rows(1) == [3]
    assert reached(stream.offset, wanted)
    (tmp_path / "a.json.1").unlink()
    assert stream.rows(0) == []
    assert positions(stream.offset) == {"a.json": 9, "a.json.1": 18}
    assert reached(stream.offset, wanted)


def test_lines_that_were_seen_and_went_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_files, "CHUNK_BYTES", 9)
    write_ids(tmp_path / "a.json", 1, 2)
    partition = open_one(reader(tmp_path))
    assert partition.read(1.0) is not None
    (tmp_path / "a.json").unlink()
    with pytest.raises(OffsetOutOfRangeError, match=r"a\.json was read up to byte 9, and it is go"):
        partition.read(1.0)


def test_a_file_that_was_seen_and_went_before_it_was_begun_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_files, "CHUNK_BYTES", 9)
    write_ids(tmp_path / "a.json", 1)
    write_ids(tmp_path / "b.json", 2)
    driver = reader(tmp_path)
    partition = open_one(driver)
    assert read_rows(partition, 1) == [1]
    (tmp_path / "b.json").unlink()
    with pytest.raises(OffsetOutOfRangeError, match=r"b\.json was read up to byte 0, and it is go"):
        partition.read(1.0)
    assert ids_of_all(open_one(driver, start=partition.offset)) == []  # it fails once


def test_a_file_that_was_renamed_after_the_look_is_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_files, "CHUNK_BYTES", 9)
    write_ids(tmp_path / "a.log", 1, 2, 3)
    partition = open_one(reader(tmp_path, pathGlobFilter="*.log"))
    assert partition.read(1.0) is not None
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    write_ids(tmp_path / "a.log", 4)
    assert sorted(read_rows(partition, 3)) == [2, 3, 4]
    assert partition.read(0.02) is None


def test_a_start_says_which_files_are_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver = reader(tmp_path)
    write_ids(tmp_path / "b.json", 1)
    assert read_rows(open_one(driver, start={"a.json": 18}), 1) == [1]
    assert "a.json is gone. It was read up to byte 18" in caplog.text
    caplog.clear()
    assert read_rows(open_one(driver, start={"b.json": 18}), 1) == [1]
    assert "b.json was read up to byte 18, and was truncated" in caplog.text


def test_a_replay_of_what_is_gone_is_an_error(tmp_path: Path) -> None:
    driver = reader(tmp_path)
    write_ids(tmp_path / "a.json", 1)
    partition = open_one(driver)
    read_rows(partition, 1)
    start = partition.offset
    write_ids(tmp_path / "a.json", 2)
    read_rows(partition, 1)
    end = partition.offset
    again = open_one(driver, start, end)
    assert read_rows(again, 1) == [2]
    assert again.exhausted
    assert again.offset == end
    (tmp_path / "a.json").rename(tmp_path / "b.json")
    again = open_one(driver, start, end)
    assert read_rows(again, 1) == [2]
    assert again.offset == end
    (tmp_path / "b.json").unlink()
    with pytest.raises(OffsetOutOfRangeError, match=r"a\.json was read up to byte 9"):
        open_one(driver, start, end)
    assert open_one(driver, end, end).exhausted


def test_a_replay_over_a_truncation(tmp_path: Path) -> None:
    driver = reader(tmp_path)
    write_ids(tmp_path / "a.json", 1, 2, 3)
    partition = open_one(driver)
    read_rows(partition, 3)
    start = partition.offset
    os.truncate(tmp_path / "a.json", 0)
    write_ids(tmp_path / "a.json", 4)
    read_rows(partition, 1)
    end = partition.offset
    write_ids(tmp_path / "a.json", 5)
    assert ids_of_all(open_one(driver, start, end)) == [4]


def test_the_folder_was_copied_to_another_disk(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    for name in ("a.json", "b.json"):
        write_ids(tmp_path / "here" / name, 1, 2)
    partition = open_one(reader(tmp_path / "here"))
    read_rows(partition, 4)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    write_ids(tmp_path / "there" / "b.json", 3)
    assert ids_of_all(open_one(reader(tmp_path / "there"), start=partition.offset)) == [3]


def test_an_offset_of_an_earlier_version(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for i in range(20):
        write_ids(tmp_path / f"{i}.json", i, i)
    offset = {f"{i}.json": 9 if i < 10 else 10 for i in range(20)}
    driver = reader(tmp_path, numPartitions=3)
    parts = [driver.open(each) for each in driver.partitions(offset)]
    assert sorted(row for each in parts for row in ids_of_all(each)) == list(range(20))
    bounded = [driver.open(each, offset) for each in driver.partitions({})]
    assert sorted(row for each in bounded for row in ids_of_all(each)) == list(range(20))
    assert driver.mergeOffsets([each.offset for each in bounded]) == offset
    assert not caplog.records


@pytest.mark.parametrize("name", ["plain.json", "ä e9.json", os.fsdecode(b"caf\xe9\xff/"[:5])])
def test_names_round_trip(name: str) -> None:
    shown_name(name).encode()
    assert file_name(shown_name(name)) == name


def test_a_name_that_is_not_utf_8(tmp_path: Path, restarts: bool) -> None:
    name = os.fsdecode(b"caf\xe9.json")
    write_ids(tmp_path / name, 1)
    stream = Followed(reader(tmp_path, numPartitions=2), restarts=restarts)
    assert stream.rows(1) == [1]
    assert positions(stream.offset) == {"caf/e9.json": 9}
    write_ids(tmp_path / name, 2)
    assert stream.rows(1) == [2]


def test_the_log_says_what_was_renamed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    stream = Followed(reader(tmp_path), restarts=False)
    write_ids(tmp_path / "a.json", 1)
    stream.rows(1)
    (tmp_path / "a.json").rename(tmp_path / "b.json")
    deadline = time.monotonic() + DEADLINE_S
    while "a.json is " not in caplog.text:
        assert time.monotonic() < deadline, f"logged: {caplog.text!r}"
        assert stream.rows(0) == []
