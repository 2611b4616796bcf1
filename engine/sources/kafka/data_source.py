"""``kafka``: the topics of a Kafka cluster, with Spark's options, rows and offsets.

====================================  ============  ============================================
option                                default
====================================  ============  ============================================
kafka.bootstrap.servers                             ``host:port``, several with commas
subscribe, subscribePattern, assign                 exactly one: topics with commas; a regular
                                                    expression (Java's) of the whole name;
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
maxOffsetsPerTrigger                                micro-batches alone: so many records at most
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
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from engine.clients.kafka_unused import unused
from engine.errors import ConfigError
from engine.expressions.types import schema_to_spark
from engine.sources.kafka.options import OWNER, source_options
from engine.sources.kafka.reader import KafkaReader
from engine.sources.kafka.rows import SCHEMA, Columns
from engine.sources.micro_batch import MicroBatchReader, refuse_earlier_spark

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)
REGISTERED: Final = "continuous_kafka"
"""By this name Spark has it: its own, ``kafka``, is for its own connector."""


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
        options = self._options
        sizes = ("maxOffsetsPerTrigger",) if options.max_per_trigger is not None else ()
        self._say_ignored("a continuous query", *sizes, *options.of_a_trigger)
        return KafkaReader(options, Columns(schema.names))

    def streamReader(self, schema: StructType) -> MicroBatchReader:
        """:raises ConfigError: an option has no effect here, or Spark is too old for it."""
        refuse_earlier_spark()
        from engine.sources.kafka.micro_batch import KafkaMicroBatches

        options = self._options
        if options.of_a_trigger:
            raise ConfigError(
                f"Option {options.of_a_trigger[0]} of {OWNER} is not supported.",
                hint="Of those for micro-batches, maxOffsetsPerTrigger is.",
            )
        self._say_ignored("micro-batches")
        reader = KafkaReader(options, Columns(schema.names))
        return KafkaMicroBatches(reader, schema, options.max_per_trigger)

    def _say_ignored(self, where: str, *names: str) -> None:
        options = self._options
        for name in (*names, *options.ignored, *unused("Consumer", options.client, OWNER)):
            logger.warning("option %s of %s has no effect in %s", name, OWNER, where)
