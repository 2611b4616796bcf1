"""The tasks' side of a table as a stream: reads its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata

from engine.sources.handed.partition_reader import Content
from engine.sources.iceberg.losses import file_error, unreadable

ROWS: Final = 16_384


@dataclass(frozen=True)
class IcebergUnits:
    """Reads files of a table. Picklable.

    :param metadata: without the table's snapshots.
    """

    where: str
    metadata: TableMetadata
    io_properties: Mapping[str, str]
    schema: pa.Schema

    def __call__(self, unit: FileScanTask) -> Iterator[Content]:
        io = load_file_io(dict(self.io_properties), self.metadata.location)
        try:
            columns = self.metadata.schema().select(*self.schema.names)
            scan = ArrowScan(self.metadata, io, columns, AlwaysTrue())
            for batch in scan.to_record_batches([unit]):
                arrays = [batch.column(each.name).cast(each.type) for each in self.schema]
                whole = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
                for start in range(0, whole.num_rows, ROWS):
                    yield whole.slice(start, ROWS)
        except FileNotFoundError as exc:
            raise file_error(io, self.metadata, self.where, unit, exc) from exc
        except OSError as exc:
            raise unreadable(self.where, unit.file.file_path, exc) from exc
