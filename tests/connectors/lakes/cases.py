"""Tables of Delta and of Iceberg that queries read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from engine.query.handle import ContinuousQuery
from engine.sources.lakes.position import TablePosition
from tests.connectors.lakes.queries import Kept, all_read, committed, start

ROWS = StructType([StructField("value", LongType()), StructField("p", StringType())])
ARROW = pa.schema([("value", pa.int64()), ("p", pa.string())])


class Case(ABC):
    """A table that is partitioned by ``p``, and a query from it.

    :cvar begins: the option that tells where.
    """

    kind: ClassVar[str]
    begins: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder, self.sink = folder, Kept()

    @abstractmethod
    def source(self, **options: str) -> Any: ...

    @abstractmethod
    def append(self, rows: pa.Table, **more: Any) -> None: ...

    @abstractmethod
    def delete(self, predicate: str) -> None: ...

    @property
    @abstractmethod
    def root(self) -> Path:
        """All of the table's files are below."""

    @abstractmethod
    def states(self) -> list[tuple[str, int]]:
        """Its versions or snapshots, the oldest first, and when each was made, in ms since 1970."""

    def add(self, *values: int, parts: Sequence[str] = "xyz", **more: Any) -> None:
        rows = [{"value": each, "p": parts[each % len(parts)]} for each in values]
        self.append(pa.Table.from_pylist(rows, ARROW), **more)

    def start(self, schema: StructType = ROWS, **options: str) -> ContinuousQuery:
        source = self.source(**{"numPartitions": "2", **options})
        return start(source, schema, self.checkpoint, self.sink)

    def read(self, schema: StructType = ROWS, **options: str) -> None:
        all_read(self.start(schema, **options))

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def at(self) -> tuple[int, int]:
        return TablePosition.of(committed(self.checkpoint), "the source").at


class DeltaCase(Case):
    kind, begins = "delta", "startingVersion"

    @property
    def root(self) -> Path:
        return self.folder / "table"

    @property
    def table(self) -> str:
        return str(self.root)

    def source(self, **options: str) -> Any:
        from engine.sources.delta.data_source import DeltaSource

        return DeltaSource({"path": self.table, **options})

    def append(self, rows: pa.Table, **more: Any) -> None:
        import deltalake

        deltalake.write_deltalake(self.table, rows, mode="append", partition_by=["p"], **more)

    def delete(self, predicate: str) -> None:
        self.deltas().delete(predicate)

    def states(self) -> list[tuple[str, int]]:
        history = reversed(self.deltas().history())
        return [(str(each["version"]), each["timestamp"]) for each in history]

    def deltas(self) -> Any:
        import deltalake

        return deltalake.DeltaTable(self.table)


class IcebergCase(Case):
    kind, begins = "iceberg", "startingSnapshotId"

    def __init__(self, folder: Path) -> None:
        from tests.unit.iceberg_tables import NAME, Lake

        super().__init__(folder)
        self.lake = Lake.at(folder / "lake")
        self.lake.catalog.create_namespace("db")
        with self.lake.catalog.create_table(NAME, ARROW).update_spec() as update:
            update.add_identity("p")

    @property
    def root(self) -> Path:
        return self.folder / "lake/warehouse"

    def source(self, **options: str) -> Any:
        from engine.sources.iceberg.data_source import IcebergSource

        return IcebergSource({**self.lake.options, "pollIntervalMs": "20", **options})

    def append(self, rows: pa.Table, **more: Any) -> None:
        self.lake.table.append(rows, **more)

    def delete(self, predicate: str) -> None:
        self.lake.table.delete(predicate)

    def states(self) -> list[tuple[str, int]]:
        return [(str(each.snapshot_id), each.timestamp_ms) for each in self.lake.table.snapshots()]

    def expire(self, count: int) -> None:
        gone = [int(each) for each, _ in self.states()[:count]]
        self.lake.table.maintenance.expire_snapshots().by_ids(gone).commit()
