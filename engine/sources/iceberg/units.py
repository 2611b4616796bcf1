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

from engine.errors import OffsetOutOfRangeError, SourceUnavailableError
from engine.sources.handed.partition_reader import Content
from engine.sources.iceberg.snapshots import OWNER

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
        path = unit.file.file_path
        try:
            io = load_file_io(dict(self.io_properties), self.metadata.location)
            columns = self.metadata.schema().select(*self.schema.names)
            scan = ArrowScan(self.metadata, io, columns, AlwaysTrue())
            for batch in scan.to_record_batches([unit]):
                arrays = [batch.column(each.name).cast(each.type) for each in self.schema]
                whole = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
                for start in range(0, whole.num_rows, ROWS):
                    yield whole.slice(start, ROWS)
        except FileNotFoundError:
            raise OffsetOutOfRangeError(
                f"{OWNER}: {path} of the table {self.where} is gone: it was removed before its "
                "rows were read.",
                hint="They are lost to this query. Start it with a checkpoint of its own, or keep "
                "snapshots for longer: history.expire.max-snapshot-age-ms.",
            ) from None
        except OSError as exc:
            raise SourceUnavailableError(
                f"{OWNER}: {path} of the table {self.where} cannot be read: {exc}"
            ) from exc
