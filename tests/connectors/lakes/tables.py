"""Tables of Delta and of Iceberg that are looked after, and the query that writes to them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.base.connector_options import PARTITION_BY
from engine.checkpoint.sink_context import SinkContext
from engine.sinks.lakes import upkeep as upkeeps
from engine.sinks.lakes.maintenance import maintain
from engine.sinks.lakes.upkeep import MaintenanceReport, Orders, Upkeep
from engine.sinks.lakes.writer import TableWriter
from engine.sinks.maintain import table_of
from engine.sinks.reopen import reopen_sink
from tests.unit.lake_queries import QUERY, SCHEMA, Query

PARTS = pa.schema([*SCHEMA, pa.field("p", pa.string()), pa.field("d", pa.date32())])
OLD_S = 40 * 86_400


def parted(*ids: int) -> pa.RecordBatch:
    """Rows in three partitions, one of them null."""
    return pa.RecordBatch.from_pylist(
        [{"id": i, "name": f"n{i}", "p": ("a b/%41", "ä:é", None)[i % 3], "d": i % 3} for i in ids],
        PARTS,
    )


class Case:
    """
    :param kind: ``delta`` or ``iceberg``.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        if kind == "iceberg":
            from tests.unit.iceberg_tables import Lake

            self.lake = Lake.at(folder / "lake")
            self.options = self.lake.options
        else:
            self.options = {"path": str(folder / "table")}

    @property
    def root(self) -> Path:
        """All of the table's files are below."""
        return self.folder / ("lake/warehouse" if self.kind == "iceberg" else "table")

    def writer(
        self, schema: pa.Schema = SCHEMA, partition: str = "", evolution: str = "refuse"
    ) -> TableWriter[Any, Any]:
        """:param partition: names of columns."""
        options = {"schemaEvolution": evolution}
        if self.kind == "iceberg":
            if partition:
                options["partitionSpec"] = partition
            return self.lake.writer(schema, **options)
        from tests.unit.delta_tables import writer

        if partition:
            options[PARTITION_BY] = json.dumps(partition.split(", "))
        return writer(self.options["path"], schema, **options)

    def query(
        self, schema: pa.Schema = SCHEMA, partition: str = "", evolution: str = "refuse", **run: Any
    ) -> Query:
        return Query(self.writer(schema, partition, evolution), **run)

    def rows(self) -> list[dict[str, Any]]:
        """What a reader of the lake's own sees."""
        if self.kind == "iceberg":
            return self.lake.read()
        from tests.unit.delta_tables import read

        return read(self.options["path"])

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.rows())

    def delete(self, predicate: str) -> None:
        """By another writer."""
        if self.kind == "iceberg":
            self.lake.table.delete(predicate)
        else:
            import deltalake

            deltalake.DeltaTable(self.options["path"]).delete(predicate)

    def table(self, **options: str) -> Upkeep[Any, Any]:
        return table_of(self.kind, {**self.options, **options})

    def maintain(self, **orders: Any) -> MaintenanceReport:
        return maintain(self.table(), Orders(**{"rewindable_s": 0.0, **orders}))

    def rewind(self, to: int, generation: int) -> None:
        sink = reopen_sink(self.kind, self.options)
        sink.bind(SinkContext(QUERY, "rewind", generation, 0))
        sink.checkRewind(to)
        sink.rewind(to)

    def files(self) -> set[Path]:
        return {path for path in self.root.rglob("*") if path.is_file()}

    def data_files(self) -> set[Path]:
        """All that are there, whether a part of the table or not."""
        return {
            path
            for path in self.files()
            if path.suffix == ".parquet" and "_delta_log" not in path.parts
        }

    def names(self) -> set[str]:
        """Theirs."""
        return {path.name for path in self.data_files()}

    def compacted(self) -> set[Path]:
        """Those of them that a compaction has made."""
        return {path for path in self.data_files() if path.name.startswith("compacted-")}

    def has_no_news(self) -> bool:
        """Whether the newest commit tells readers of changes that there are none."""
        if self.kind == "iceberg":
            from pyiceberg.table.snapshots import Operation

            snapshot = self.lake.table.current_snapshot()
            return snapshot is not None and snapshot.summary.operation == Operation.REPLACE
        newest = max((self.root / "_delta_log").glob("*.json")).read_text()
        return '"dataChange":false' in newest and '"dataChange":true' not in newest

    def age(self, paths: Sequence[Path] | None = None, age_s: float = OLD_S) -> None:
        """Let files have been written long ago."""
        then = time.time() - age_s
        for path in self.files() if paths is None else paths:
            os.utime(path, (then, then))


def no_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeeps, "RETAIN_MIN_S", 0.0)
