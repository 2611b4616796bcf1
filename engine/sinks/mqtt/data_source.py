"""``mqtt``: rows as messages of topics, at least once.

==================  ============  ==============================================================
option              default
==================  ============  ==============================================================
url                               ``mqtt://host:1883``; how to log in, and certificates:
                                  :mod:`engine.clients.mqtt`
topic                             of all messages; else each row's column
retain              false         the broker keeps the last message of each topic; else each row's
                                  column
retryFor            1 minute      so long nothing may be taken, until that is an outage
clientIdPrefix      continuous    of the client ids, for the broker's access lists
==================  ============  ==============================================================

The columns are ``payload`` (STRING or BINARY), and if they are there ``topic``, ``retain`` and
``properties`` (MAP<STRING, STRING>).

Tasks publish rows as they come, and subscribers see them at once. An epoch is prepared when the
broker has taken each message (PUBACK); one that is run again publishes its rows again. QoS is 1: 2
would bring no more, and of a message that a broker refuses then the client says that it was taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from engine.base.connector_options import Options
from engine.base.options import parse_interval_ms
from engine.clients.mqtt import LOGIN_OPTIONS, MqttServer
from engine.expressions.schemas import to_arrow
from engine.sinks.contract import AT_LEAST_ONCE, ContinuousWriter, TaskWriter, WriterContext
from engine.sinks.mqtt.messages import OWNER, MessageFormat
from engine.sinks.mqtt.publisher import Publisher, check_broker

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class MqttSink(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options(OWNER, options)
        self._server = MqttServer.of(OWNER, taken)
        self._topic = taken.text("topic")
        retain = taken.boolean("retain", False)
        self._retain = None if taken.text("retain") is None else retain
        retry = taken.text("retryFor") or "1 minute"
        self._retry_s = parse_interval_ms(retry, f"{OWNER}: option retryFor") / 1000
        if self._retry_s <= 0:
            raise taken.wrong("retryFor", retry, "longer than nothing")
        self._prefix = taken.text("clientIdPrefix") or "continuous"
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return "mqtt"

    def streamWriter(self, schema: StructType, overwrite: bool) -> MqttWriter:
        """:raises ConfigError: a column is missing, or is of another type."""
        rows = MessageFormat.of(to_arrow(schema, OWNER), self._topic, self._retain)
        return MqttWriter(self._server, PublishingWriter(
            self._server, rows, self._prefix, self._retry_s
        ))  # fmt: skip


@dataclass(frozen=True)
class Published(WriterCommitMessage):
    """The broker has the messages of a task and an epoch.

    :param messages: how many.
    """

    messages: int


class MqttWriter(ContinuousWriter, DataSourceStreamArrowWriter):
    """The driver's side, and what Spark's own micro-batches call."""

    delivery = AT_LEAST_ONCE
    messageTypes: ClassVar[Mapping[str, type]] = {"published": Published}
    tuningOptions = (*LOGIN_OPTIONS, "retain", "retryFor", "clientIdPrefix")

    def __init__(self, server: MqttServer, tasks: PublishingWriter) -> None:
        self._server, self._tasks = server, tasks

    def taskWriter(self) -> PublishingWriter:
        return self._tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """In Spark's micro-batches."""
        self._tasks.open(WriterContext("batch", "", 0, 0, 0, 1))
        try:
            return self._tasks.write(0, iterator)
        finally:
            self._tasks.close()

    def validate(self) -> None:
        """:raises ConfigError: the broker cannot be reached, or refuses this user."""
        rows = self._tasks.rows
        check_broker(self._server, self._tasks.prefix, rows.retain)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """The broker has them."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """What was published stays."""


class PublishingWriter(TaskWriter):
    """The executor's side.

    :param prefix: of the client ids.
    :param retry_s: see :class:`Publisher`.
    """

    def __init__(
        self, server: MqttServer, rows: MessageFormat, prefix: str, retry_s: float
    ) -> None:
        self._server, self.rows, self.prefix, self._retry_s = server, rows, prefix, retry_s
        self._publisher: Publisher | None = None

    def open(self, context: WriterContext) -> None:
        client = f"{self.prefix}-{context.query_id[:8]}-{context.task}"
        self._publisher = Publisher(self._server, client, self._retry_s)

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Published:
        assert self._publisher is not None, "open() comes first"
        messages = 0
        for batch in batches:
            for publication in self.rows.publications(batch):
                self._publisher.publish(publication)
            messages += batch.num_rows
        self._publisher.finish()
        return Published(messages)

    def aborted(self, epoch: int) -> None:
        if self._publisher is not None:
            self._publisher.drop()

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.drop()
