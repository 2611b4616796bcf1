"""The log itself; cases after Spark's HDFSMetadataLogSuite."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.base import durable as disk
from engine.checkpoint.logs.metadata_log import (
    MetadataLog,
    entry_id,
    parse_version,
    split_version,
)
from engine.checkpoint.storage.contract import FileInfo, Storage
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.checkpoint.storage.opening import open_storage
from engine.errors import CheckpointCorruptError, CheckpointVersionError

FOLDER = "log"


def text_log(storage: Storage) -> MetadataLog[str]:
    def deserialize(data: bytes) -> str:
        _, lines = split_version(data, 1, "text log")
        (line,) = lines
        return line

    return MetadataLog(storage, FOLDER, lambda text: f"v1\n{text}".encode(), deserialize)


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    url = str(tmp_path / "new") if request.param == "local" else f"memory://{uuid.uuid4()}"
    return open_storage(url)


@pytest.fixture
def log(storage: Storage) -> MetadataLog[str]:
    return text_log(storage)


def entries(log: MetadataLog[str]) -> dict[int, str | None]:
    return {id: log.get(id) for id in log.ids()}


def test_basic(log: MetadataLog[str]) -> None:
    assert log.latest_id() is None
    assert log.ids() == []
    assert log.get(0) is None
    assert log.add(0, "batch0") is True
    assert entries(log) == {0: "batch0"}
    assert log.add(1, "batch1") is True
    assert log.latest_id() == 1
    assert entries(log) == {0: "batch0", 1: "batch1"}
    # Adding again is refused, and the first entry stays.
    assert log.add(1, "duplicated") is False
    assert log.get(1) == "batch1"


def test_restart_sees_the_same(log: MetadataLog[str], storage: Storage) -> None:
    for epoch in range(3):
        log.add(epoch, f"batch{epoch}")
    assert entries(text_log(storage)) == {0: "batch0", 1: "batch1", 2: "batch2"}


def test_purge(log: MetadataLog[str], storage: Storage) -> None:
    for epoch in range(3):
        log.add(epoch, f"batch{epoch}")
    log.purge(2)
    assert log.get(0) is None
    assert log.get(1) is None
    assert log.get(2) == "batch2"
    assert [file.name for file in storage.list(FOLDER)] == ["2"]


class CountingStorage(LocalStorage):
    """Notes what it is asked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.listed = 0
        self.deleted: list[str] = []

    def list(self, folder: str) -> list[FileInfo]:
        self.listed += 1
        return super().list(folder)

    def delete(self, name: str) -> None:
        self.deleted.append(name)
        super().delete(name)


def test_purging_after_each_commit_lists_once(tmp_path: Path) -> None:
    storage = CountingStorage(tmp_path)
    log = text_log(storage)
    for epoch in range(200):
        log.add(epoch, "x")
        log.purge(epoch + 1 - 10)
    assert storage.listed == 1
    assert len(storage.deleted) == 190
    assert log.ids() == list(range(190, 200))


def test_purging_far_ahead_lists_again(tmp_path: Path) -> None:
    storage = CountingStorage(tmp_path)
    log = text_log(storage)
    for epoch in range(20):
        log.add(epoch, "x")
    log.purge(2)
    log.purge(15)
    assert storage.listed == 2
    log.purge(3)  # backwards: nothing to do
    log.purge(16)
    assert log.ids() == [16, 17, 18, 19]


@pytest.mark.parametrize("line", ["", "xyz", "v10.x", "10", "v0", "v-10", "v", "v1 ", "V1", "v٣"])
def test_malformed_version(line: str) -> None:
    with pytest.raises(
        ValueError, match="Log file was malformed: failed to read correct log version"
    ):
        parse_version(line, 100)


@pytest.mark.parametrize("maximum", [10, 100])
def test_version(maximum: int) -> None:
    assert parse_version("v10", maximum) == 10


def test_newer_version() -> None:
    with pytest.raises(CheckpointVersionError) as caught:
        parse_version("v200", 100)
    assert "maximum supported log version is v100, but encountered v200" in str(caught.value)
    assert "produced by a newer version of Spark and cannot be read by this version" in str(
        caught.value
    )


def test_only_entries_are_entries(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    log = text_log(storage)
    log.add(47, "x")
    folder = tmp_path / FOLDER
    for name in (
        ".48.3c0a2e4e-0a52-4a0c-9d4b-6f0d7f5b3a55.tmp",
        "..59.3c0a2e4e-0a52-4a0c-9d4b-6f0d7f5b3a55.tmp.crc",
        ".47.crc",
        "48.crc",
        "48.compact",
        "48.tmp",
        "048",
        "-1",
        "1e3",
        "٣",
        "99999999999999999999",
        "README",
    ):
        (folder / name).write_text("v1\nleftover")
    (folder / "49").mkdir()
    assert log.ids() == [47]
    assert entries(log) == {47: "x"}


@pytest.mark.parametrize(
    ("name", "id"), [("0", 0), ("17", 17), ("007", None), ("1.compact", None), ("", None)]
)
def test_entry_names(name: str, id: int | None) -> None:
    assert entry_id(name) == id


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        (b"", CheckpointCorruptError, "Incomplete log file"),
        (b"v1", CheckpointCorruptError, "not enough values"),
        (b"v1\na\nb", CheckpointCorruptError, "too many values"),
        (b"v1\n\xff\xfe", CheckpointCorruptError, "codec can't decode"),
        (b"\0v1\nx", CheckpointCorruptError, "failed to read correct log version"),
        (b"v99999\nx", CheckpointVersionError, "newer version of Spark"),
    ],
)
def test_unreadable_entries_name_the_file(
    log: MetadataLog[str],
    storage: Storage,
    content: bytes,
    error: type[Exception],
    text: str,
) -> None:
    storage.create(f"{FOLDER}/7", content)
    with pytest.raises(error, match=text) as caught:
        log.get(7)
    assert f"Failed to read log file {storage.url}/{FOLDER}/7. " in str(caught.value)
    assert caught.value.epoch == 7  # type: ignore[attr-defined]
    assert log.latest_id() == 7


def test_collision(storage: Storage) -> None:
    """Five writers append from their own view of the latest entry: every entry is one writer's."""

    def write(name: str) -> None:
        log = text_log(storage)
        while (latest := log.latest_id()) is None or latest < 10:
            epoch = 0 if latest is None else latest + 1
            if log.add(epoch, f"{name} wrote {epoch}"):
                wrote.append((epoch, name))

    wrote: list[tuple[int, str]] = []
    threads = [threading.Thread(target=write, args=(f"writer {i}",)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    log = text_log(storage)
    assert log.ids() == list(range(11))
    assert sorted(epoch for epoch, _ in wrote) == list(range(11))
    assert entries(log) == {epoch: f"{name} wrote {epoch}" for epoch, name in wrote}


def test_entries_that_retention_removes_during_a_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that were there when it began are gone before it looks at them, but for the file of the
    one that is being written."""
    storage, listings = LocalStorage(tmp_path), 0
    log = text_log(storage)
    for id in range(2):
        log.add(id, "x")

    @contextmanager
    def scandir(folder: Path) -> Iterator[list[os.DirEntry[str]]]:
        nonlocal listings
        listings += 1
        if listings == 1:
            (tmp_path / FOLDER / ".3.tmp").write_bytes(b"x")
        with os.scandir(folder) as entries:
            found = list(entries)
        if listings == 1:
            log.add(2, "x")
            log.purge(2)
        yield found

    monkeypatch.setattr(disk, "system", _Calls(scandir))
    assert log.ids() == [2]


class _Calls:
    """Those of :mod:`os`, but for one."""

    def __init__(self, scandir: Callable[..., Any]) -> None:
        self.scandir = scandir

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)
