"""The Kafka source in Spark's micro-batches, with ``maxOffsetsPerTrigger``.

Only Spark 4.2 and later can import this: they tell a Python source where it is and how much it is
to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from engine.sources.contract import Offset
from engine.sources.kafka.offsets import limited, offset_of, positions_of
from engine.sources.kafka.partition_reader import KafkaPartition
from engine.sources.kafka.reader import KafkaReader
from engine.sources.micro_batch import MicroBatchPartition, MicroBatchReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType


class KafkaMicroBatches(MicroBatchReader, SupportsTriggerAvailableNow):
    """See the module.

    :param rows_max: of one micro-batch; None: no limit.
    """

    def __init__(self, reader: KafkaReader, schema: StructType, rows_max: int | None) -> None:
        super().__init__(reader, schema)
        self._kafka, self._rows_max = reader, rows_max
        self._last: Offset | None = None
        """Where the query ends, with ``trigger(availableNow=True)``."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._rows_max is None else ReadMaxRows(self._rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._kafka.latestOffset({})

    def latestOffset(self, start: Offset, limit: Any = None) -> Offset:
        """See :func:`engine.sources.kafka.offsets.limited`."""
        end = self._last if self._last is not None else super().latestOffset(start, limit)
        if not isinstance(limit, ReadMaxRows):
            return end
        ends = positions_of(end)
        # Where partitions begin that are new since then.
        starts = {at: position for at, position in positions_of(start).items() if at in ends}
        if set(starts) != set(ends):
            starts = {each.at: each.start for each in self._partitions(start)}
        return offset_of(limited(starts, ends, limit.max_rows).items())

    def reportLatestOffset(self) -> Offset | None:
        return self._kafka.knownEnd()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Those that have something to be read."""
        ends = positions_of(end)
        return [
            MicroBatchPartition(each, end)
            for each in self._partitions(start)
            if each.start < ends.get(each.at, each.start)
        ]

    def _partitions(self, start: Offset) -> list[KafkaPartition]:
        return [each for each in self._kafka.partitions(start) if isinstance(each, KafkaPartition)]
