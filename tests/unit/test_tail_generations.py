"""Files that were rotated more than once, or truncated half, between two looks at the folder."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from engine.sources.tail.rotation import generations
from tests.unit.test_tail import DEADLINE_S, open_one, read_rows, reader, write_ids
from tests.unit.test_tail_rotation import Followed, copy_and_truncate


@pytest.fixture(params=["live", "restarted"])
def restarts(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "restarted")


def rotate(log: Path, keep: int = 9) -> None:
    """As logrotate does: ``app.log.1`` becomes ``app.log.2``, and so on; the oldest goes."""
    for number in range(keep, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.unlink() if number == keep else older.rename(f"{log}.{number + 1}")
    log.rename(f"{log}.1")


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("pattern", ["*", "*.log"])
def test_what_was_rotated_twice_is_read(
    tmp_path: Path, restarts: bool, pattern: str, partitions: int
) -> None:
    log = tmp_path / "app.log"
    driver = reader(tmp_path, pathGlobFilter=pattern, numPartitions=partitions)
    stream = Followed(driver, restarts=restarts)
    write_ids(log, 1, 2)
    assert stream.rows(2) == [1, 2]
    write_ids(log, 3)
    rotate(log)
    write_ids(log, 4)
    rotate(log)
    write_ids(log, 5, 6)
    rotate(log)
    write_ids(log, 7)
    assert stream.rows(5) == [3, 4, 5, 6, 7]
    rotate(log)
    write_ids(log, 8)
    assert stream.rows(1) == [8]
    rotate(log)
    log.touch()
    rotate(log)
    write_ids(log, 9)
    assert stream.rows(1) == [9]
    assert stream.rows(0) == []


@pytest.mark.parametrize("pattern", ["*", "app.log"])
@pytest.mark.parametrize("names", [("app.log.1", "app.log.2"), ("app-20260102.log", "app-1.log")])
def test_generations_are_read_in_order(
    tmp_path: Path, pattern: str, names: tuple[str, str]
) -> None:
    log = tmp_path / "app.log"
    write_ids(log, 1)
    partition = open_one(reader(tmp_path, pathGlobFilter=pattern))
    assert read_rows(partition, 1) == [1]
    write_ids(log, 2)
    log.rename(tmp_path / names[1])
    write_ids(log, 3)
    log.rename(tmp_path / names[0])
    write_ids(log, 4)
    for each, modified_s in ((names[1], 1), (names[0], 2), ("app.log", 3)):
        os.utime(tmp_path / each, (4_000_000_000 + modified_s,) * 2)
    assert read_rows(partition, 3) == [2, 3, 4]


def test_of_equal_age_the_higher_number_is_older(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    write_ids(tmp_path / "app.log.7", 0)  # from before the stream began
    write_ids(log, 1)
    driver = reader(tmp_path, pathGlobFilter="*.log")
    partition = open_one(driver)
    assert read_rows(partition, 1) == [1]
    for i in range(2, 5):
        rotate(log)
        write_ids(log, i)
    for each in tmp_path.iterdir():
        os.utime(each, (4_000_000_000,) * 2)
    again = open_one(driver, start=partition.offset)
    assert read_rows(again, 3) == [2, 3, 4]
    assert again.read(0.02) is None


def test_an_older_generation_is_none_of_the_stream(tmp_path: Path, restarts: bool) -> None:
    log = tmp_path / "app.log"
    write_ids(log, -2)
    rotate(log)
    write_ids(log, -1)
    rotate(log)
    for name in ("app.log.1", "app.log.2"):
        os.utime(tmp_path / name, (1_000_000_000,) * 2)
    write_ids(log, 1)
    stream = Followed(reader(tmp_path, pathGlobFilter="app.log"), restarts=restarts)
    assert stream.rows(1) == [1]
    rotate(log)
    write_ids(log, 2)
    assert stream.rows(1) == [2]
    rotate(log)
    write_ids(log, 3)
    write_ids(tmp_path / "app.log.2.gz", 99)
    write_ids(tmp_path / "app.log.swp", 99)
    write_ids(tmp_path / "other.log.1", 99)
    assert stream.rows(1) == [3]
    assert stream.rows(0) == []


def test_a_copy_of_what_is_followed_is_no_generation(tmp_path: Path, restarts: bool) -> None:
    log = tmp_path / "app.log"
    stream = Followed(reader(tmp_path, pathGlobFilter="app.log"), restarts=restarts)
    write_ids(log, 1, 2)
    assert stream.rows(2) == [1, 2]
    rotate(log)
    write_ids(log, 3, 4)
    assert stream.rows(2) == [3, 4]
    shutil.copy(log, tmp_path / "app.log.20260102")
    shutil.copy(tmp_path / "app.log.1", tmp_path / "app.log.20260101")
    rotate(log)
    write_ids(log, 5)
    assert stream.rows(1) == [5]
    assert stream.rows(0) == []


@pytest.mark.parametrize("heads_only", ["oldest", "middle", "newest", "all"])
def test_files_that_begin_with_the_same_header_are_no_copies(
    tmp_path: Path, restarts: bool, heads_only: str
) -> None:
    log = tmp_path / "app.log"
    options = {"pathGlobFilter": "*.log", "fileFormat": "csv", "header": True}
    stream = Followed(reader(tmp_path, **options), restarts=restarts)
    expected = []
    for each, row in (("oldest", 1), ("middle", 2), ("newest", 3)):
        if log.exists():
            rotate(log)
        log.write_text("id\n")
        if heads_only not in (each, "all"):
            expected.append(row)
            with log.open("a") as file:
                file.write(f"{row}\n")
        if each == "oldest":
            assert stream.rows(len(expected)) == expected
            seen = len(expected)
    assert stream.rows(len(expected) - seen) == expected[seen:]
    for row, name in ((4, "app.log.1"), (5, "app.log")):  # 4: by who has not opened the new one yet
        with log.with_name(name).open("a") as file:
            file.write(f"{row}\n")
    assert stream.rows(2) == [4, 5]
    assert stream.rows(0) == []


def test_a_generation_is_read_though_the_one_before_is_gone(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    stream = Followed(reader(tmp_path, pathGlobFilter="*.log", numPartitions=2), restarts=False)
    write_ids(log, 1, 2)
    assert stream.rows(2) == [1, 2]
    assert stream.rows(0) == []
    rotate(log, keep=1)
    write_ids(log, 3)
    rotate(log, keep=1)
    write_ids(log, 4)
    assert stream.rows(2) == [3, 4]
    assert stream.rows(0) == []


def test_what_was_copied_and_truncated_twice_is_read(tmp_path: Path, restarts: bool) -> None:
    log = tmp_path / "app.log"
    stream = Followed(reader(tmp_path, pathGlobFilter="*.log"), restarts=restarts)
    write_ids(log, 1, 2)
    assert stream.rows(2) == [1, 2]
    write_ids(log, 3)
    copy_and_truncate(log, "app.log.2")
    write_ids(log, 4)
    copy_and_truncate(log, "app.log.1")
    write_ids(log, 5)
    assert stream.rows(3) == [3, 4, 5]
    assert stream.rows(0) == []


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("removes", [False, True], ids=["written over", "removed before"])
@pytest.mark.parametrize("count", [1, 2, 5], ids=["shorter", "as long", "longer"])
def test_each_copy_is_written_over_the_one_before(
    tmp_path: Path, restarts: bool, count: int, removes: bool, partitions: int
) -> None:
    log, copy = tmp_path / "app.log", tmp_path / "app.log.1"
    driver = reader(tmp_path, pathGlobFilter="app.log", numPartitions=partitions)
    stream = Followed(driver, restarts=restarts)
    write_ids(log, 10, 11)
    assert stream.rows(2) == [10, 11]
    copy_and_truncate(log, "app.log.1")
    for first in (20, 30, 40):
        ids = list(range(first, first + count))
        write_ids(log, *ids)
        assert stream.rows(count) == ids
        if removes:
            copy.unlink()
        write_ids(log, first + 8)  # behind the offset: it is read from the copy
        copy_and_truncate(log, "app.log.1")
        write_ids(log, first + 9)
        assert stream.rows(2) == [first + 8, first + 9]
    assert stream.rows(0) == []


def test_a_copy_is_looked_at_before_the_file_is_truncated(tmp_path: Path) -> None:
    log, copy = tmp_path / "app.log", tmp_path / "app.log.1"
    stream = Followed(reader(tmp_path, pathGlobFilter="app.log"), restarts=False)
    write_ids(log, 1)
    assert stream.rows(1) == [1]
    copy_and_truncate(log, "app.log.1")
    write_ids(log, 2, 3)
    assert stream.rows(2) == [2, 3]
    os.truncate(copy, 0)
    assert stream.rows(0) == []
    write_ids(copy, 2, 3)
    assert stream.rows(0) == []
    write_ids(log, 4)
    write_ids(copy, 4)
    os.truncate(log, 0)
    write_ids(log, 5)
    assert stream.rows(2) == [4, 5]
    assert stream.rows(0) == []


def test_what_has_the_name_and_the_number_of_a_generation_is_another_one(tmp_path: Path) -> None:
    """Nobody looked meanwhile, and it has the number of the one that was removed."""
    log, older = tmp_path / "app.log", tmp_path / "app.log.1"
    stream = Followed(reader(tmp_path, pathGlobFilter="app.log"), restarts=True)
    write_ids(log, 1)
    assert stream.rows(1) == [1]
    rotate(log)
    write_ids(log, 2)
    assert stream.rows(1) == [2]
    older.write_text("")
    write_ids(older, 3, 4)
    log.unlink()
    write_ids(log, 5)
    assert stream.rows(3) == [3, 4, 5]
    assert stream.rows(0) == []


def test_a_file_of_which_nothing_was_read_is_copied_and_truncated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "app.log"
    partition = open_one(reader(tmp_path, pathGlobFilter="*.log"))
    write_ids(log, 1, end="")
    os.utime(log, (1_000_000_000,) * 2)
    assert partition.read(0.02) is None  # no line is complete
    write_ids(log, end="\n")
    copy_and_truncate(log, "app.log.1")
    assert read_rows(partition, 1) == [1]
    assert f"{log} was read up to byte 0, and was truncated" in caplog.text
    write_ids(log, 2)
    assert read_rows(partition, 1) == [2]
    assert partition.read(0.02) is None


@pytest.mark.parametrize("ids", [[3], [3, 4], [3, 4, 5]], ids=["behind", "between", "as long"])
def test_a_truncation_is_noticed_before_the_file_has_grown_beyond_what_it_was(
    tmp_path: Path, ids: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "app.log"
    write_ids(log, 1)
    write_ids(log, 22222222222, end="")  # 9 bytes are read, and 18 are no complete line
    partition = open_one(reader(tmp_path))
    assert read_rows(partition, 1) == [1]
    assert partition.read(0.02) is None
    with log.open("w") as file:
        file.write("".join(f'{{"id":{i}}}\n' for i in ids))
    os.utime(log, (4_000_000_000,) * 2)
    assert read_rows(partition, len(ids)) == ids
    assert "was truncated or replaced" in caplog.text


def test_what_was_cut_off_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "app.log"
    write_ids(log, 1)
    write_ids(log, 22222, end="")
    partition = open_one(reader(tmp_path))
    assert read_rows(partition, 1) == [1]
    assert partition.read(0.02) is None
    os.truncate(log, 10)
    deadline = time.monotonic() + DEADLINE_S
    while "was cut" not in caplog.text:
        assert time.monotonic() < deadline
        assert partition.read(0.02) is None
    assert f"{log} was cut from 21 to 10 bytes; 9 were read" in caplog.text
    with log.open("a") as file:
        file.write('"id":2}\n')
    assert read_rows(partition, 1) == [2]


@pytest.mark.parametrize(
    ("name", "generation"),
    [
        ("app.log.1", "1"),
        ("app.log-20260102", "20260102"),
        ("app.log.2026-01-02T13:30", "2026-01-02T13:30"),
        ("app-20260102.log", "20260102"),
        ("app.1.log", "1"),
        ("app.log.1.gz", None),
        ("app.log.swp", None),
        ("app.log", None),
        ("app1.log", None),
        (".1", None),
    ],
)
def test_what_a_rotated_file_was_called(name: str, generation: str | None) -> None:
    assert generations(name).get("app.log") == generation
