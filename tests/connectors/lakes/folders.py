"""A folder of files, a checkpoint, and a sink that keeps what was committed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from engine.query.handle import ContinuousQuery
from engine.sources.files.data_source import JsonSource
from tests.connectors.lakes.queries import Kept, all_read, start

VALUES = StructType([StructField("value", LongType())])


class Case:
    def __init__(self, folder: Path) -> None:
        self.folder, self.sink, self.count = folder, Kept(), 0
        (folder / "in").mkdir()

    def put(self, name: str, rows: int = 1, modified_s: float | None = None) -> Path:
        """A whole file with so many new values."""
        lines = [json.dumps({"value": self.count + row}) for row in range(rows)]
        self.count += rows
        target, written = self.folder / "in" / name, self.folder / "written"
        target.parent.mkdir(parents=True, exist_ok=True)
        written.write_text("\n".join(lines))
        if modified_s is not None:
            os.utime(written, (modified_s, modified_s))
        written.rename(target)
        return target

    def start(
        self, schema: StructType = VALUES, engine: Any = None, **options: str
    ) -> ContinuousQuery:
        given = {"path": str(self.folder / "in"), "numPartitions": "2", **options}
        engines = {} if engine is None else {"engine": engine}
        return start(JsonSource(given), schema, self.checkpoint, self.sink, **engines)

    def read(self, **options: str) -> None:
        all_read(self.start(**options))

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def epochs(self) -> list[int]:
        """How many rows each epoch has that has any."""
        return [len(rows) for _, rows in sorted(self.sink.epochs.items()) if rows]
