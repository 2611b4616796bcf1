"""What a ``read`` yields as Arrow batches, converted by PySpark's own code.

Tuples and lists by position, Rows by name; Arrow batches as they are, if they have exactly the
columns that PySpark wants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from engine.base.sift import sift
from engine.errors import BadRecordError, SourceError
from engine.redaction.logs import shown
from engine.sources.contract import Offset
from engine.sources.polled.stream_readers import Range

ROWS: Final = 1_000
"""So many rows become a batch."""
_END: Final = object()


@dataclass(frozen=True)
class BatchMaker:
    """Makes batches of one source.

    :param source: names it in errors.
    :param columns: as the source has to return them.
    :param schema: the same columns as the query has them.
    """

    source: str
    columns: StructType
    schema: pa.Schema

    def name(self) -> str:
        """What PySpark's errors call the source."""
        return self.source

    def batches(self, read: Range) -> Iterator[pa.RecordBatch | BadRecordError]:
        """The batches of a range, each with rows, and the rows that are none of its columns'.

        :raises SourceError: the source failed, or returned a batch of other columns.
        """
        for records in read.records:
            iterator = iter(records)
            first = next(iterator, _END)
            if first is _END:
                continue
            iterator = chain((first,), iterator)
            if isinstance(first, pa.RecordBatch):
                yield from filter(_has_rows, map(self._checked, iterator))
            else:
                while rows := list(islice(iterator, ROWS)):
                    yield from self._converted(rows, read.end)

    def _checked(self, batch: Any) -> pa.RecordBatch:
        try:
            return self._one([batch])
        except Exception as exc:
            raise SourceError(
                f"{self.source} returned an Arrow batch that is none of its columns': {exc}",
                hint=f"Its columns are {self.columns.simpleString()}.",
            ) from exc

    def _converted(self, rows: list[Any], end: Offset) -> Iterator[pa.RecordBatch | BadRecordError]:
        good, bad = sift(len(rows), lambda start, stop: self._one(rows[start:stop]), (Exception,))
        yield from good
        for place, error in bad:
            record = repr(rows[place])
            yield BadRecordError(
                f"{self.source} returned a row that does not fit its columns "
                f"({self.columns.simpleString()}): {type(error).__name__}: {shown(str(error))}. "
                f"The row is: {shown(record)}",
                hint='Correct the source, or set option onBadRecord to "skip" or "dead-letter".',
                record=record,
                offset=end,
            )

    def _one(self, records: list[Any]) -> pa.RecordBatch:
        """Of at most :data:`ROWS` rows, or a single batch."""
        (batch,) = records_to_arrow_batches(iter(records), ROWS, self.columns, self)  # type: ignore[arg-type]
        return batch if batch.schema == self.schema else batch.cast(self.schema)


def _has_rows(batch: pa.RecordBatch) -> bool:
    return bool(batch.num_rows)
