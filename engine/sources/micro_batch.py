"""A continuous reader as PySpark's micro-batch ``DataSourceStreamReader``.

Offsets are the same JSON in both modes, so a checkpoint can move between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from engine.errors import ConfigError
from engine.sources.contract import Offset, PartitionReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_READ_TIMEOUT_S = 1.0


class BoundedReader(Protocol):
    """A continuous reader that can also tell where its stream ends by now."""

    def initialOffset(self) -> Offset: ...
    def latestOffset(self, start: Offset) -> Offset: ...
    def partitions(self, start: Offset) -> Sequence[Any]: ...
    def open(self, partition: Any, until: Offset | None = None) -> PartitionReader: ...
    def commit(self, end: Offset) -> None: ...
    def stop(self) -> None: ...


class MicroBatchPartition(InputPartition):
    """A partition of the continuous reader, and the end offset of the micro-batch."""

    def __init__(self, value: Any, end: Offset) -> None:
        super().__init__(value)
        self.end = end


def refuse_earlier_spark() -> None:
    """:raises ConfigError: this PySpark is too old for :class:`MicroBatchReader`."""
    if not hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
        raise ConfigError(
            "This source needs Spark 4.2 or later to run in micro-batches: earlier ones do not "
            f"tell a Python source where it is, and this is {pyspark.__version__}.",
            hint="Upgrade pyspark, or use trigger(continuous=...).",
        )


class MicroBatchReader(DataSourceStreamReader):
    """Reads what the continuous reader would, from one offset to another.

    :param schema: the columns as Spark wants them: batches are checked against exactly its types.
    :raises ConfigError: this PySpark is too old.
    """

    def __init__(self, reader: BoundedReader, schema: StructType) -> None:
        refuse_earlier_spark()
        self._reader = reader
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def initialOffset(self) -> Offset:
        return self._reader.initialOffset()

    def latestOffset(self, start: Offset, limit: Any = None) -> Offset:
        return self._reader.latestOffset(start)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if start == end:
            return []
        return [MicroBatchPartition(each, end) for each in self._reader.partitions(start)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, MicroBatchPartition)
        reader = self._reader.open(partition.value, until=partition.end)
        try:
            while not reader.exhausted:
                batch = reader.read(_READ_TIMEOUT_S)
                if batch is not None:
                    yield batch.cast(self._schema)
        finally:
            reader.close()

    def commit(self, end: Offset) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()
