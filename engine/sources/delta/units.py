"""The tasks' side of a table as a stream: reads its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from engine.sinks.delta.places import Place
from engine.sources.delta.losses import file_error
from engine.sources.delta.versions import TableFile, unreadable
from engine.sources.files.file_formats import Content, ParquetFiles
from engine.sources.files.partition_values import constants, with_constants

CHANGE: Final = "_change_type"
CHANGE_VERSION: Final = "_commit_version"
CHANGE_TIME: Final = "_commit_timestamp"


@dataclass(frozen=True)
class DeltaUnit:
    """A file to be read, and the columns that it does not hold."""

    file: TableFile
    version: int
    time_ms: int


class _TableParquet(ParquetFiles):
    def __init__(self, place: Place) -> None:
        self._place = place

    def open(self, path: str) -> Any:
        return self._place.open(path)


@dataclass(frozen=True)
class DeltaUnits:
    """Reads files of a table. Picklable."""

    place: Place
    schema: pa.Schema

    def __call__(self, unit: DeltaUnit) -> Iterator[Content]:
        file, path = unit.file, unit.file.path
        values = {name.lower(): value or None for name, value in file.partition_values}
        told = constants(values, self.schema, path, "UTC")
        for name, value in (
            (CHANGE_VERSION, unit.version),
            (CHANGE_TIME, unit.time_ms * 1000),
            *([(CHANGE, file.change)] if file.change is not None else []),
        ):
            if name in self.schema.names:
                told[name] = pa.scalar(value, self.schema.field(name).type)
        inside = pa.schema([field for field in self.schema if field.name not in told])
        try:
            for content in _TableParquet(self.place).batches(path, inside, told):
                if isinstance(content, pa.RecordBatch):
                    content = with_constants(content, told, self.schema)
                yield content
        except FileNotFoundError:
            raise file_error(self.place, path, unit.version) from None
        except OSError as exc:
            raise unreadable(self.place, path, exc) from exc
