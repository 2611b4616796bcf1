"""Any PySpark data source with a stream reader as a continuous one, unchanged.

Such a source is asked, again and again, where it ends by now. That is done by one task, which reads
what has come as well: an offset of the source says nothing of half a range, so tasks that shared a
range would have to end it together. Who needs tasks side by side gives the source a
``continuousReader``.

Spark makes one reader for what it does on the driver, and a copy for each read. Here the task has a
reader for all of it, and ``commit`` comes to the one that has polled: what it remembers is there,
such as what is to be acknowledged. The driver's own reader is asked ``initialOffset`` alone, and
``reportLatestOffset`` where it has one.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import cloudpickle

from engine.errors import ConfigError
from engine.sources.contract import DataSourceContinuousReader, Offset
from engine.sources.polled.batches import BatchMaker
from engine.sources.polled.partition_reader import PolledPartitionReader
from engine.sources.polled.stream_readers import StreamReader, stream_reader_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

INTERVAL_MS: Final = 100
"""A source is polled so often."""


@dataclass(frozen=True)
class PolledStream:
    """The only partition."""

    start: Offset


class PolledReader(DataSourceContinuousReader):
    """The driver's side.

    :param source: names the source in errors.
    :param reader: has not been asked anything yet: each task begins with a copy of it.
    :param columns: those that the source returns.
    :param schema: the same columns as the query has them.
    :raises ConfigError: the reader cannot be pickled.
    """

    runsInBatches = True

    def __init__(
        self,
        source: str,
        reader: StreamReader,
        columns: StructType,
        schema: pa.Schema,
        interval_ms: int = INTERVAL_MS,
    ) -> None:
        self._source = source
        self._batches = BatchMaker(source, columns, schema)
        self._interval_ms = interval_ms
        self._pickled = _pickled(source, reader)
        self._reader = reader
        self._asking = Lock()

    def __getstate__(self) -> dict[str, Any]:
        # The driver's reader may hold by now what cannot be pickled.
        return {k: v for k, v in vars(self).items() if k not in ("_reader", "_asking")}

    def initialOffset(self) -> Offset:
        with self._asking:
            return self._reader.initial_offset()

    def partitions(self, start: Offset) -> Sequence[PolledStream]:
        return [PolledStream(start)]

    def open(self, partition: PolledStream, until: Offset | None = None) -> PolledPartitionReader:
        return PolledPartitionReader(
            self._source,
            pickle.loads(self._pickled),  # noqa: S301  it came with this object
            self._batches,
            partition.start,
            until,
            self._interval_ms / 1000,
        )

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        (offset,) = offsets
        return offset

    def latestOffset(self, start: Offset) -> Offset | None:
        with self._asking:
            return self._reader.report_latest_offset()

    def hasReached(self, committed: Offset, wanted: Offset) -> bool | None:
        return True if committed == wanted else None

    def stop(self) -> None:
        with self._asking:
            self._reader.stop()


def polled_reader(
    source: str,
    data_source: Any,
    columns: StructType,
    schema: pa.Schema,
    interval_ms: int | None = None,
) -> PolledReader:
    """The continuous reader of a data source that has none of its own.

    :param source: names it in errors.
    :param interval_ms: between two polls; None for the default.
    :raises NotImplementedError: it has no stream reader of either kind.
    :raises ConfigError: its reader cannot be pickled.
    """
    reader = stream_reader_of(source, data_source, columns)
    return PolledReader(
        source, reader, columns, schema, INTERVAL_MS if interval_ms is None else interval_ms
    )


def _pickled(source: str, reader: StreamReader) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(reader)
    except Exception as exc:
        raise ConfigError(
            f"The reader of {source} cannot be pickled: {type(exc).__name__}: {exc}",
            hint="It travels to an executor, as in Spark: open connections in read(), not in "
            "__init__().",
        ) from exc
    return pickled
