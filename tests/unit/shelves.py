"""A stage that keeps what it is told to, its snapshots, and what is read of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.checkpoint.storage.contract import Storage
from engine.snapshots.handles import SnapshotHandle
from engine.state.chains import Chain
from engine.state.contract import StatefulStage, StateTable
from engine.state.restoring import restore
from engine.state.snapshots import SnapshotWriter

GROUPS = 8
Key = tuple[Any, ...]
Rows = dict[Key, Key]


def group_of(key: Key) -> int:
    return sum(repr(key).replace("-0.0", "0.0").encode()) % GROUPS


class Shelf(StatefulStage):
    """A stage that keeps what it is told to, and tells what it was restored with."""

    def __init__(self, table: StateTable, name: str = "shelf") -> None:
        self.name = name
        self.table = table
        self.rows: Rows = {}
        self.changed: dict[Key, None] = {}

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return (self.table,)

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches

    def put(self, key: Key, value: Key) -> None:
        self.rows[key] = value
        self.changed[key] = None

    def drop(self, key: Key) -> None:
        if self.rows.pop(key, None) is not None:
            self.changed[key] = None

    def close(self, watermark_ms: int) -> None:
        """Silently, as the contract has it."""
        self.rows = open_rows(self.table, self.rows, watermark_ms)

    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        assert set(tables) <= {self.table.name}
        for table in tables.values():
            assert table.schema == self.table.stored
            for _, gone, *row in rows_of(table):
                assert not gone
                key = tuple(row[: self.table.keys])
                assert key not in self.rows
                self.rows[key] = tuple(row[self.table.keys :])

    def changes(self, *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
        keys = list(self.rows if whole else self.changed)
        self.changed = {}
        width = len(self.table.schema) - self.table.keys
        rows = [
            (group_of(key), key not in self.rows, *key, *self.rows.get(key, (None,) * width))
            for key in keys
        ]
        columns = zip(*rows, strict=True) if rows else [[]] * len(self.table.stored)
        arrays = [
            pa.array(list(column), dtype)
            for column, dtype in zip(columns, self.table.stored.types, strict=True)
        ]
        yield self.table.name, pa.table(arrays, schema=self.table.stored)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def open_rows(table: StateTable, rows: Rows, watermark_ms: int) -> Rows:
    if table.expires is None:
        return dict(rows)
    at = table.expires
    return {
        key: value
        for key, value in rows.items()
        if (key + value)[at] is None or (key + value)[at] > watermark_ms * 1000
    }


COUNTS = StateTable(
    "counts",
    pa.schema([pa.field("word", pa.string()), ("until", pa.int64()), ("count", pa.int64())]),
    keys=2,
    expires=1,
)

MANY: Rows = {(str(n), None): (n,) for n in range(1_000)}


def writer(storage: Storage, groups: range, chain: Chain | None = None, **other: Any) -> Any:
    fixed = {"query_id": "query", "stage": 1, "generation": 1}
    return SnapshotWriter(storage, groups=groups, chain=chain, **{**fixed, **other})


def write(storage: Storage, shelf: Shelf, *epochs: Rows) -> list[SnapshotHandle]:
    """A snapshot for each dictionary, of what it puts."""
    to = writer(storage, range(GROUPS))
    handles = []
    for epoch, rows in enumerate(epochs):
        for key, value in rows.items():
            shelf.put(key, value)
        handles.append(to.prepare(epoch, 0, [shelf]).write())
    return handles


def read(
    storage: Storage, handles: Sequence[SnapshotHandle], table: StateTable, **other: Any
) -> tuple[Rows, Chain | None]:
    shelf = Shelf(table)
    fixed = {"query_id": "query", "watermark_ms": 0}
    chain = restore(storage, handles, range(GROUPS), [shelf], **{**fixed, **other})
    return shelf.rows, chain


class Slow:
    """Does work when it is told to."""

    def __init__(self) -> None:
        self.work: list[Any] = []

    def __call__(self, kind: str, work: Any) -> None:
        self.work.append(work)

    def do_one(self) -> None:
        if self.work:
            self.work.pop(0)()
