"""``kafka``: rows as records of topics.

====================================  ==============  ==========================================
option                                default
====================================  ==============  ==========================================
kafka.bootstrap.servers                               ``host:port``, several with commas
topic                                                 of all records; else each row's column
delivery                              at-least-once   or ``exactly-once``
transactionalIdPrefix                 continuous      for the brokers' access lists, which must
                                                      allow ids that begin with it
kafka.transaction.timeout.ms          the broker's    so long an epoch's transaction may be open
                                      longest
kafka.*                                               any other setting of the client
====================================  ==============  ==========================================

The columns are Spark's: ``value`` (STRING or BINARY), and if they are there ``key`` (the same),
``topic``, ``partition`` (INT) and ``headers``; beyond Spark's, ``timestamp``. Others are ignored.

At least once: records are seen as soon as they are written.

Exactly once: each task has a transaction per epoch. It is open, with everything acknowledged, when
the epoch is prepared; the driver ends it when the epoch is in the offset log, as any later driver
can. If the broker has aborted it meanwhile (``transaction.timeout.ms``), the epoch is run again to
the end that is logged. Readers with ``isolation.level=read_committed`` see each record once.

Source: Spark's KafkaSourceProvider; KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from engine.base.connector_options import Options
from engine.clients.kafka import PREFIX, client_settings
from engine.clients.kafka_transactions import KafkaTransactions
from engine.errors import ConfigError, PreparedEpochLostError
from engine.expressions.schemas import to_arrow
from engine.sinks.adapter import own_messages
from engine.sinks.contract import AT_LEAST_ONCE, EXACTLY_ONCE, SinkContext, TaskWriter
from engine.sinks.kafka.records import OWNER, RecordFormat
from engine.sinks.kafka.task_writers import (
    AtLeastOnceWriter,
    ExactlyOnceWriter,
    KafkaTransaction,
    Sent,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

DELIVERIES: Final = {"at-least-once": AT_LEAST_ONCE, "exactly-once": EXACTLY_ONCE}
_TAKEN_BY_US: Final = (
    "key.serializer", "value.serializer", "transactional.id", "enable.idempotence",
    "interceptor.classes",
)  # fmt: skip
TRANSACTION_S: Final = 900.0
"""Unless set: the longest that a broker allows unless it is configured otherwise."""
_ACKNOWLEDGED_S: Final = 120.0


class KafkaSink(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        for name in options:
            if name.lower().removeprefix(PREFIX) in _TAKEN_BY_US and name.lower().startswith(PREFIX):
                raise ConfigError(
                    f"Option {name} of {OWNER} is not supported.",
                    hint="Keys and values are bytes; transactional ids begin with "
                    "transactionalIdPrefix.",
                )
        taken = Options(OWNER, {k: v for k, v in options.items() if not k.lower().startswith(PREFIX)})
        self._client = client_settings(OWNER, options)
        self._topic = taken.text("topic")
        self._delivery = DELIVERIES[
            taken.choice("delivery", "at-least-once", tuple(DELIVERIES))
        ]
        self._prefix = taken.text("transactionalIdPrefix") or "continuous"
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return "continuous_kafka"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaWriter:
        """:raises ConfigError: a column is missing, or is of another type."""
        rows = RecordFormat.of(to_arrow(schema, OWNER), self._topic)
        return KafkaWriter(self._client, rows, self._delivery, self._prefix)


class KafkaWriter(DataSourceStreamArrowWriter):
    """The driver's side, and what Spark's own micro-batches call."""

    messageTypes: ClassVar[Mapping[str, type]] = {"transaction": KafkaTransaction, "sent": Sent}

    def __init__(
        self, client: Mapping[str, str], rows: RecordFormat, delivery: str, prefix: str
    ) -> None:
        self._client, self._rows, self._prefix = dict(client), rows, prefix
        self.delivery = delivery
        self._transactions: KafkaTransactions | None = None

    def taskWriter(self) -> TaskWriter:
        if self.delivery == AT_LEAST_ONCE:
            return AtLeastOnceWriter(self._client, self._rows, _ACKNOWLEDGED_S)
        return ExactlyOnceWriter(
            self._client,
            self._rows,
            _ACKNOWLEDGED_S,
            prefix=self._prefix,
            transaction_s=TRANSACTION_S,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        writer = AtLeastOnceWriter(self._client, self._rows, _ACKNOWLEDGED_S)
        writer.open(WriterContext("", "", 0, 0, 0, 1))
        return writer.write(0, iterator)

    def bind(self, context: SinkContext) -> None:
        """Speak to the brokers anew: the attempt before may have lost them."""
        self.close()
        self._base = transactional_base(self._prefix, context.query_id)

    def validate(self) -> None:
        """:raises ConfigError: the brokers cannot be reached, or do not have the topic."""
        check_topic(self._client, self._rows.topic)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """End the epoch's transactions. Again is fine.

        :raises PreparedEpochLostError: the brokers have aborted one.
        :raises SinkUnavailableError: they do not answer: some may have been ended.
        """
        found = _transactions(messages)
        if not found:
            return
        transactions = self._connected()
        described = transactions.describe([each.transactional_id for each in found.values()])
        states = {task: _state(each, described) for task, each in found.items()}
        if None not in states.values():
            for task, each in found.items():
                if states[task] == OPEN and not _end(transactions, each, commit=True):
                    states[task] = None
        lost = [task for task, state in states.items() if state is None]
        if lost:
            self.abort([found[task] for task, state in states.items() if state == OPEN], batchId)
            raise PreparedEpochLostError(
                f"Kafka has aborted transaction {found[lost[0]].transactional_id} of epoch "
                f"{batchId}, which was not committed in time.",
                done=[task for task, state in states.items() if state is not None],
                epoch=batchId,
                hint="Let the brokers keep transactions for longer: kafka.transaction.timeout.ms, "
                "up to their transaction.max.timeout.ms.",
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """End the transactions of an epoch that will not be committed."""
        for each in _transactions(messages).values():
            _end(self._connected(), each, commit=False)

    def close(self) -> None:
        """Release the connection."""
        if self._transactions is not None:
            self._transactions.close()
            self._transactions = None

    def _connected(self) -> KafkaTransactions:
        if self._transactions is None:
            self._transactions = KafkaTransactions(self._client)
        return self._transactions


def _transactions(messages: Sequence[WriterCommitMessage | None]) -> dict[int, KafkaTransaction]:
    """Those of an epoch, by the index of their task."""
    own_messages(messages, (KafkaTransaction, Sent))
    return {
        task: each for task, each in enumerate(messages) if isinstance(each, KafkaTransaction)
    }


def _state(each: KafkaTransaction, described: Mapping[str, Described]) -> str | None:
    """OPEN or COMMITTED; None if the brokers have not kept it."""
    found = described.get(each.transactional_id)
    identity = each.producer_id, each.producer_epoch
    if found is None or (found.producer_id, found.producer_epoch) != identity:
        return None
    return {OPEN: OPEN, COMMITTING: COMMITTED, COMMITTED: COMMITTED}.get(found.state)


def _end(transactions: KafkaTransactions, each: KafkaTransaction, *, commit: bool) -> bool:
    return transactions.end(
        each.transactional_id, each.producer_id, each.producer_epoch, commit=commit
    )
