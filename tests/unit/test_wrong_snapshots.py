"""Snapshots that are not what the offset log says: refused, and the error tells what they are."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointCorruptError, CheckpointVersionError, ConfigError
from engine.snapshots.handles import SnapshotHandle
from engine.state import files
from engine.state.contract import StateTable
from engine.state.restoring import restore
from tests.unit.shelves import COUNTS, GROUPS, MANY, Rows, Shelf, read, write, writer


def three(storage: Storage) -> tuple[SnapshotHandle, list[str]]:
    """A chain of three files."""
    *_, last = write(storage, Shelf(COUNTS), MANY, {("0", None): (7,)}, {("1", None): (8,)})
    _, chain = read(storage, [last], COUNTS)
    assert chain is not None
    return last, [link.file for link in chain.links]


@pytest.mark.parametrize("which", range(3))
def test_a_file_that_is_missing(storage: Storage, which: int) -> None:
    handle, names = three(storage)
    storage.delete(names[which])
    with pytest.raises(
        CheckpointCorruptError, match=r"-0-7-\w+\.arrow is missing.*Restore"
    ) as told:
        read(storage, [handle], COUNTS)
    assert told.value.epoch == which


@pytest.mark.parametrize("which", range(3))
def test_a_file_that_is_torn_or_damaged(storage: Storage, which: int) -> None:
    handle, names = three(storage)
    data, draw = storage.read(names[which]), random.Random(7)
    for length in (0, 1, len(data) // 2, len(data) - 1):
        storage.replace(names[which], data[:length])
        with pytest.raises(CheckpointCorruptError, match="is torn: its"):
            read(storage, [handle], COUNTS)
    for _ in range(50):
        at = draw.randrange(len(data))
        storage.replace(
            names[which], data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
        )
        with pytest.raises(CheckpointCorruptError, match=r"is (torn|damaged|another|a file of)"):
            read(storage, [handle], COUNTS)


@pytest.mark.parametrize("which", range(3))
def test_a_file_that_is_another_one(storage: Storage, which: int) -> None:
    handle, names = three(storage)

    def other(rows: Rows, **place: Any) -> bytes:
        shelf = Shelf(COUNTS)
        for key, value in rows.items():
            shelf.put(key, value)
        groups = place.pop("groups", range(GROUPS))
        epoch = place.pop("epoch", which)
        there = writer(storage, groups, **place).prepare(epoch, 0, [shelf]).write()
        assert there.file is not None
        return storage.read(there.file)

    rows: Rows = {("a", None): (1,)}
    for fault, data in {
        "another query, elsewhere": other(rows, query_id="elsewhere"),
        "another file: stage 2 behind": other(rows, stage=2),
        "behind epoch 77, key groups 0 to 7": other(rows, epoch=77),
        "key groups 0 to 3": other(rows, groups=range(4)),
        "or of another run": other(rows, generation=9),
    }.items():
        storage.replace(names[which], data)
        with pytest.raises(CheckpointCorruptError, match=fault):
            read(storage, [handle], COUNTS)


def test_a_newer_format(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "VERSION", 2)
    (handle,) = write(storage, Shelf(COUNTS), {("a", None): (1,)})
    monkeypatch.undo()
    with pytest.raises(CheckpointVersionError, match=r"\.arrow cannot be read.*version 2"):
        read(storage, [handle], COUNTS)


def test_key_groups_that_no_handle_has(storage: Storage) -> None:
    (handle,) = write(storage, Shelf(COUNTS), {("a", None): (1,)})
    with pytest.raises(CheckpointCorruptError, match="key groups 0-7, and 4-15 are needed"):
        restore(storage, [handle], range(4, 16), [Shelf(COUNTS)], query_id="query", watermark_ms=0)


@pytest.mark.parametrize(
    ("table", "difference"),
    [
        (StateTable("other", COUNTS.schema, 2, 1), r"has the table shelf\.counts, which the query"),
        (
            StateTable("counts", COUNTS.schema.set(2, pa.field("sum", pa.int64())), 2, 1),
            r"\(word string, until int64 \| count int64\) in the .* \| sum int64\) in the query",
        ),
        (StateTable("counts", COUNTS.schema, 1, 1), r"\(word string \| until int64, count"),
    ],
)
def test_the_state_of_another_query(storage: Storage, table: StateTable, difference: str) -> None:
    (handle,) = write(storage, Shelf(COUNTS), {("a", None): (1,)})
    with pytest.raises(ConfigError, match=difference):
        read(storage, [handle], table)
