"""Whether what was in the folder is committed, whatever has become of its files since."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from engine.sources.contract import Offset
from engine.sources.offset_order import reached
from engine.sources.tail.data_source import TailReader
from engine.sources.tail.tail_offset import GONE_MAX
from tests.unit.test_tail import DEADLINE_S, positions, reader, write_ids
from tests.unit.test_tail_rotation import Followed, copy_and_truncate


def has_reached(driver: TailReader, committed: Offset, wanted: Offset) -> bool:
    """As the engine asks."""
    told = driver.hasReached(committed, wanted)
    return reached(committed, wanted) if told is None else told


def await_reached(driver: TailReader, stream: Followed, wanted: Offset) -> None:
    """Look at the folder until the stream knows what has become of its files; nothing is read."""
    deadline = time.monotonic() + DEADLINE_S
    while not has_reached(driver, stream.offset, wanted):
        assert time.monotonic() < deadline, f"{stream.offset} has not reached {wanted}"
        assert stream.rows(0) == []


def test_a_file_that_was_copied_and_truncated(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    driver = reader(tmp_path, pathGlobFilter="*.log")
    stream = Followed(driver, restarts=False)
    write_ids(log, 1, 2)
    assert stream.rows(2) == [1, 2]
    read_half = stream.offset
    write_ids(log, 3, 4)
    wanted = driver.latestOffset(read_half)
    assert not has_reached(driver, read_half, wanted)
    copy_and_truncate(log, "app.log.1")
    assert not has_reached(driver, read_half, wanted)
    write_ids(log, 5)
    assert not has_reached(driver, read_half, wanted)
    assert stream.rows(3) == [3, 4, 5]
    assert has_reached(driver, stream.offset, wanted)
    assert not has_reached(driver, read_half, wanted)


def test_a_file_that_was_rotated_by_renaming_it(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    driver = reader(tmp_path)
    stream = Followed(driver, restarts=False)
    write_ids(log, 1, 2)
    wanted = driver.latestOffset({})
    log.rename(tmp_path / "app.log.1")
    write_ids(log, 1)
    assert stream.rows(3) == [1, 1, 2]
    assert has_reached(driver, stream.offset, wanted)
    beginning = {"app.log": 9, "/": {"app.log": stream.offset["/"]["app.log"]}}
    assert not has_reached(driver, beginning, wanted)


@pytest.mark.parametrize("ids", [[], [3], [3, 4], [3, 4, 5]])
def test_a_file_that_was_truncated(tmp_path: Path, ids: list[int]) -> None:
    log = tmp_path / "app.log"
    driver = reader(tmp_path)
    stream = Followed(driver, restarts=False)
    write_ids(log, 1, 2)
    assert stream.rows(2) == [1, 2]
    before = stream.offset
    write_ids(log, -1)
    wanted = driver.latestOffset(before)
    with log.open("w") as file:
        file.write("".join(f'{{"id":{i}}}\n' for i in ids))
    assert not has_reached(driver, before, wanted)
    assert stream.rows(len(ids)) == ids
    await_reached(driver, stream, wanted)


def test_a_file_that_was_cut(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    driver = reader(tmp_path)
    stream = Followed(driver, restarts=False)
    write_ids(log, 1)
    assert stream.rows(1) == [1]
    before = stream.offset
    write_ids(log, 2, 3)
    wanted = driver.latestOffset(before)
    os.truncate(log, 18)
    assert not has_reached(driver, before, wanted)
    assert stream.rows(1) == [2]
    assert has_reached(driver, stream.offset, wanted)


def test_a_file_that_is_gone_before_it_was_read(tmp_path: Path) -> None:
    driver = reader(tmp_path)
    stream = Followed(driver, restarts=False)
    write_ids(tmp_path / "a.json", 1)
    assert stream.rows(1) == [1]
    before = stream.offset
    write_ids(tmp_path / "a.json", 2)
    wanted = driver.latestOffset(before)
    (tmp_path / "a.json").unlink()
    assert not has_reached(driver, before, wanted)  # it may have been read, and not be committed
    await_reached(driver, stream, wanted)


def await_forgotten(stream: Followed) -> None:
    """Look at the folder until as many files are forgotten as may be."""
    deadline = time.monotonic() + DEADLINE_S
    while len(positions(stream.offset)) > GONE_MAX:
        assert time.monotonic() < deadline, f"the offset is still {stream.offset}"
        assert stream.rows(0) == []


def test_files_that_are_forgotten(tmp_path: Path) -> None:
    driver = reader(tmp_path)
    stream = Followed(driver, restarts=False)
    count = GONE_MAX + 20
    for i in range(count):
        write_ids(tmp_path / f"{i:03}.json", i)
    wanted = driver.latestOffset({})
    assert not has_reached(driver, {}, wanted)
    assert stream.rows(count) == list(range(count))
    assert has_reached(driver, stream.offset, wanted)
    for i in range(count):
        (tmp_path / f"{i:03}.json").unlink()
    await_forgotten(stream)
    assert has_reached(driver, stream.offset, wanted)


def test_files_that_were_forgotten_since(tmp_path: Path) -> None:
    driver = reader(tmp_path)
    stream = Followed(driver, restarts=False)
    write_ids(tmp_path / "a.json", -1)
    assert stream.rows(1) == [-1]
    (tmp_path / "a.json").unlink()
    wanted = driver.latestOffset(stream.offset)
    assert "a.json" in wanted
    for i in range(GONE_MAX):
        write_ids(tmp_path / f"{i}.json", i)
    assert stream.rows(GONE_MAX) == list(range(GONE_MAX))
    for i in range(GONE_MAX):
        (tmp_path / f"{i}.json").unlink()
    await_forgotten(stream)
    assert "a.json" not in stream.offset
    assert has_reached(driver, stream.offset, wanted)


def test_a_copy_that_was_written_over_is_gone_and_there(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    driver = reader(tmp_path, pathGlobFilter="*.log")
    stream = Followed(driver, restarts=False)
    write_ids(log, 1, 2, 3, 4)
    assert stream.rows(4) == [1, 2, 3, 4]
    copy_and_truncate(log, "app.log.1")
    write_ids(log, 5)
    assert stream.rows(1) == [5]
    copy_and_truncate(log, "app.log.1")
    stream.look_until(lambda read: not read.get("app.log") and sorted(read.values()) == [9, 36])
    committed = stream.offset
    write_ids(tmp_path / "app.log.1", 6)
    wanted = driver.latestOffset(committed)
    assert not has_reached(driver, committed, wanted)
    assert stream.rows(1) == [6]
    assert has_reached(driver, stream.offset, wanted)


def test_an_offset_of_names_alone_is_compared_by_them(tmp_path: Path) -> None:
    driver = reader(tmp_path)
    assert has_reached(driver, {"a.json": 9}, {"a.json": 9})
    assert not has_reached(driver, {"a.json": 9}, {"a.json": 10})
    assert not has_reached(driver, {}, {"a.json": 10})
    assert has_reached(driver, {"a.json": 9}, {})
