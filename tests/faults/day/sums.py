"""A sink, exactly once, that keeps of each epoch what its results come to: a file for each."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter
from pyspark.sql.types import StructType

from engine.sinks.contract import EXACTLY_ONCE, ContinuousWriter, TaskWriter
from tests.faults.day.rows import Sums, sums_of

ByHour = dict[int, Sums]


class SumsSink(DataSource):
    """Of columns ``key``, ``start``, ``end`` and ``count``; into the folder ``path``."""

    @classmethod
    def name(cls) -> str:
        return "sums"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return _SumsWriter(self.options["path"])


class _SumsWriter(DataSourceStreamWriter, ContinuousWriter):
    delivery = EXACTLY_ONCE

    def __init__(self, path: str) -> None:
        self.path = path

    def taskWriter(self) -> TaskWriter:
        return _TaskWriter()

    def write(self, iterator: Iterator[object]) -> None:  # type: ignore[override]
        raise NotImplementedError("only the engine writes here")

    def commit(self, messages: Sequence[object], batchId: int) -> None:  # type: ignore[override]
        """The file of the epoch; it is the same if it comes again."""
        told: dict[int, Sums] = defaultdict(Sums)
        for message in messages:
            assert isinstance(message, Mapping)
            for hour, sums in message.items():
                told[int(hour)] += Sums(*sums)
        file = Path(self.path, f"{batchId}.json")
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps({hour: astuple(sums) for hour, sums in told.items()}))
        temporary.replace(file)

    def abort(self, messages: Sequence[object], batchId: int) -> None:  # type: ignore[override]
        pass


class _TaskWriter(TaskWriter):
    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Mapping[str, Sequence[int]]:
        told: ByHour = defaultdict(Sums)
        for batch in batches:
            columns = (batch.column(name) for name in ("key", "start", "end", "count"))
            numbers = (column.cast(pa.int64()).to_numpy() for column in columns)
            for hour, sums in sums_of(*numbers).items():
                told[hour] += sums
        return {str(hour): astuple(sums) for hour, sums in told.items()}


def written(folder: Path) -> ByHour:
    """All committed epochs together."""
    together: ByHour = defaultdict(Sums)
    for file in folder.glob("*.json"):
        for hour, sums in json.loads(file.read_text()).items():
            together[int(hour)] += Sums(*sums)
    return dict(together)
