"""``kafka``: the topics of a Kafka cluster, with Spark's options, rows and offsets.

====================================  ============  ============================================
option                                default
====================================  ============  ============================================
kafka.bootstrap.servers                             ``host:port``, several with commas
subscribe, subscribePattern, assign                 exactly one: topics with commas; a regular
                                                    expression of the whole name;
                                                    ``{"orders":[0,1]}``
startingOffsets                       latest        where a new query begins: ``earliest``,
                                                    ``latest``, or ``{"orders":{"0":23,"1":-2}}``
                                                    (-2 earliest, -1 latest), all partitions
startingTimestamp                                   or so: the first record of this time or later,
                                                    in milliseconds since 1970
startingOffsetsByTimestamp                          the same per partition
startingOffsetsByTimestampStrategy    error         or ``latest``: if there is no such record
failOnDataLoss                        true          records that are gone before they were read are
                                                    an error; else they are skipped, and logged
includeHeaders                        false         the column ``headers``
groupIdPrefix, kafka.group.id                       a name for the brokers' quotas and access lists:
                                                    offsets are in the checkpoint alone
kafka.*                                             any other setting of the client
====================================  ============  ============================================

Only what was committed is read (``kafka.isolation.level`` ``read_committed``), unlike Spark's
default. A partition that is added later is read from its beginning.

Offsets are Spark's, ``{"orders":{"0":23,"1":345}}``: a checkpoint moves between this source and
Spark's own, in micro-batches and continuous.

Source: Spark's "Structured Streaming + Kafka Integration Guide", KafkaContinuousStream.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from engine.errors import OffsetOutOfRangeError, SourceError
from engine.expressions.types import schema_to_spark
from engine.sources.contract import TUNING_OPTIONS, DataSourceContinuousReader, Offset
from engine.sources.kafka.offsets import (
    EARLIEST,
    LATEST,
    Positions,
    TopicPartition,
    offset_of,
    positions_of,
)
from engine.sources.kafka.options import OWNER, TRIGGER_ONLY, KafkaSourceOptions, source_options
from engine.sources.kafka.partition_reader import (
    KafkaPartition,
    KafkaPartitionReader,
    KafkaPartitionsReader,
    consumer_settings,
    say_gone,
)
from engine.sources.kafka.rows import SCHEMA, Columns
from engine.sources.kafka.topics import KafkaTopics
from engine.sources.micro_batch import MicroBatchReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TUNING: Final = (
    "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss",
    "groupIdPrefix", *TRIGGER_ONLY,
)  # fmt: skip
logger: Final = logging.getLogger(__name__)


class KafkaDataSource(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = source_options(options)

    @classmethod
    def name(cls) -> str:
        return "kafka"

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        names = SCHEMA.names if self._options.includes_headers else SCHEMA.names[:-1]
        return StructType.fromJson(schema_to_spark(Columns(names).schema))

    def continuousReader(self, schema: StructType) -> KafkaReader:
        for name in self._options.ignored:
            logger.warning("option %s of %s has no effect on a continuous query", name, OWNER)
        return KafkaReader(self._options, Columns(schema.names))

    def streamReader(self, schema: StructType) -> MicroBatchReader:
        return MicroBatchReader(KafkaReader(self._options, Columns(schema.names)), schema)


class KafkaReader(DataSourceContinuousReader):
    """The driver's side."""

    def __init__(self, options: KafkaSourceOptions, columns: Columns) -> None:
        self._options, self._columns = options, columns
        self.tuningOptions = (*TUNING_OPTIONS, *_TUNING, *options.how_read)
        self._topics = KafkaTopics(consumer_settings(options.client), options.subscription)
        self._known: list[TopicPartition] = []

    def initialOffset(self) -> Offset:
        partitions = self._topics.partitions()
        start = self._options.start
        if start.positions is not None:
            return offset_of(self._resolved(self._complete(start.positions, partitions)).items())
        if start.timestamps_ms is not None:
            return offset_of(self._at(self._complete(start.timestamps_ms, partitions)).items())
        if start.timestamp_ms is not None:
            return offset_of(self._at(dict.fromkeys(partitions, start.timestamp_ms)).items())
        assert start.everywhere is not None
        return offset_of(self._topics.at(dict.fromkeys(partitions, start.everywhere)).items())

    def partitions(self, start: Offset) -> Sequence[KafkaPartition]:
        positions = self._positions(start)
        now = self._topics.partitions()
        if gone := sorted(set(positions) - set(now)):
            self._say_deleted(gone)
        earliest = self._topics.earliest(now)
        latest = self._topics.latest(now)
        for at, position in positions.items():
            if at in earliest and not earliest[at] <= position <= latest[at]:
                say_gone(
                    self._options.servers, at, position, earliest[at], latest[at],
                    fails=self._options.fails_on_data_loss,
                )  # fmt: skip
                positions[at] = earliest[at]
        self._known = now
        return [KafkaPartition(at, positions.get(at, earliest[at])) for at in now]

    def open(self, partition: KafkaPartition, until: Offset | None = None) -> KafkaPartitionReader:
        return KafkaPartitionReader(self.openTogether([partition], until))

    def openTogether(
        self, partitions: Sequence[KafkaPartition], until: Offset | None = None
    ) -> KafkaPartitionsReader:
        return KafkaPartitionsReader(
            self._options.client,
            partitions,
            self._columns,
            until=None if until is None else self._positions(until),
            fails_on_data_loss=self._options.fails_on_data_loss,
        )

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        return offset_of([each for offset in offsets for each in positions_of(offset).items()])

    def needsReconfiguration(self) -> bool:
        return self._topics.partitions() != self._known

    def latestOffset(self, start: Offset) -> Offset:
        return offset_of(self._topics.latest(self._topics.partitions()).items())

    def prune(self, columns: Sequence[str]) -> KafkaReader | None:
        return KafkaReader(self._options, Columns(columns)) if columns else None

    def stop(self) -> None:
        self._topics.close()

    def _positions(self, offset: Offset) -> Positions:
        try:
            return positions_of(offset)
        except ValueError as exc:
            raise SourceError(
                f"The offset {offset!r} is not one of {OWNER}: {exc}.",
                hint='It looks like {"orders":{"0":23,"1":345}}.',
            ) from exc

    def _complete(self, given: Positions, partitions: Sequence[TopicPartition]) -> Positions:
        """Spark's rule: offsets that are given are given for all partitions."""
        if set(given) != set(partitions):
            raise SourceError(
                f"{OWNER} begins at offsets of {', '.join(map(str, sorted(given)))}, and the "
                f"subscription has {', '.join(map(str, partitions))}.",
                hint="Name all partitions, and no others; -1 stands for latest, -2 for earliest.",
            )
        return given

    def _resolved(self, given: Positions) -> Positions:
        words = {at: value for at, value in given.items() if value in (EARLIEST, LATEST)}
        return {**given, **self._topics.at(words)}

    def _at(self, times: Positions) -> Positions:
        found = self._topics.at(times)
        without = [at for at, position in found.items() if position < 0]
        if without and not self._options.start.or_latest:
            raise SourceError(
                f"Kafka at {self._options.servers}: {', '.join(map(str, sorted(without)))} has no "
                "record of the time at which the query is to begin, or later.",
                hint="Choose an earlier time, or set startingOffsetsByTimestampStrategy to latest.",
            )
        return {**found, **self._topics.latest(without)}

    def _say_deleted(self, gone: Sequence[TopicPartition]) -> None:
        names = ", ".join(map(str, gone))
        if self._options.fails_on_data_loss:
            raise OffsetOutOfRangeError(
                f"Kafka at {self._options.servers}: partitions {names} are gone. Records of them "
                "may have been missed.",
                hint='To go on without them, set option("failOnDataLoss", "false").',
            )
        logger.warning("partitions %s are gone; failOnDataLoss is false: the query goes on", names)
