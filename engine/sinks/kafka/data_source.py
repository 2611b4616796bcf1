"""``kafka``: rows as records of topics.

====================================  ==============  ==========================================
option                                default
====================================  ==============  ==========================================
kafka.bootstrap.servers                               ``host:port``, several with commas
topic                                                 of all records; else each row's column
delivery                              at-least-once   or ``exactly-once``
transactionalIdPrefix                 continuous      for the brokers' access lists, which must
                                                      allow ids that begin with it
kafka.transaction.timeout.ms          900000          so long an epoch's transaction may be open:
                                                      at most the brokers'
                                                      ``transaction.max.timeout.ms``
kafka.*                                               any other setting of the client
====================================  ==============  ==========================================

The columns are Spark's: ``value`` (STRING or BINARY), and if they are there ``key`` (the same),
``topic``, ``partition`` (INT) and ``headers``; beyond Spark's, ``timestamp``. Others are ignored.

At least once: records are seen as soon as they are written.

Exactly once: each task has a transaction per epoch. It is open, with everything acknowledged, when
the epoch is prepared; the driver ends it when the epoch is in the offset log, as any later driver
can. If the broker has aborted it meanwhile (``transaction.timeout.ms``), the epoch is run again to
the end that is logged, without the rows of tasks whose transactions were committed. Readers with
``isolation.level=read_committed`` see each record once.

Source: Spark's KafkaSourceProvider; KIP-98.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from engine.base.connector_options import Options
from engine.checkpoint.sink_context import SinkContext
from engine.clients.kafka import PREFIX, client_settings, without_effect
from engine.clients.kafka_transactions import KafkaTransactions, Transaction
from engine.clients.kafka_unused import unused
from engine.errors import ConfigError, PreparedEpochLostError
from engine.expressions.schemas import to_arrow
from engine.sinks.adapter import own_messages
from engine.sinks.contract import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    ContinuousWriter,
    TaskWriter,
    WriterContext,
)
from engine.sinks.kafka.brokers import check_brokers
from engine.sinks.kafka.records import OWNER, RecordFormat
from engine.sinks.kafka.task_writers import (
    AtLeastOnceWriter,
    ExactlyOnceWriter,
    KafkaMessage,
    KafkaTransaction,
    Sent,
    gate_id,
    transactional_base,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)
DELIVERIES: Final = {"at-least-once": AT_LEAST_ONCE, "exactly-once": EXACTLY_ONCE}
TRANSACTION_MS: Final = 900_000
"""The longest that a broker allows unless it is configured otherwise."""
_ByTask: TypeAlias = dict[int, KafkaTransaction]
_TIMEOUT: Final = f"{PREFIX}transaction.timeout.ms"
_ID_PREFIX: Final = "transactionalIdPrefix"
_OURS: Final = {
    f"{PREFIX}key.serializer": "Keys are bytes: cast the column key.",
    f"{PREFIX}value.serializer": "Values are bytes: cast the column value.",
    f"{PREFIX}transactional.id": "Set transactionalIdPrefix.",
    f"{PREFIX}enable.idempotence": "Records are always written with it.",
    f"{PREFIX}interceptor.classes": "The sink writes bytes, and nothing else.",
}


class KafkaSink(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        own: dict[str, str] = {}
        clients: dict[str, str] = {}
        for name, value in options.items():
            if (hint := _OURS.get(name.lower())) is not None:
                raise ConfigError(f"Option {name} of {OWNER} is not supported.", hint=hint)
            is_own = not name.lower().startswith(PREFIX) or name.lower() == _TIMEOUT
            (own if is_own else clients)[name] = value
        taken = Options(OWNER, own)
        self._client = client_settings(OWNER, clients)
        self._topic = taken.text("topic")
        self._delivery = DELIVERIES[taken.choice("delivery", "at-least-once", tuple(DELIVERIES))]
        self._prefix = taken.text(_ID_PREFIX) or "continuous"
        timeout_ms = taken.integer(_TIMEOUT, TRANSACTION_MS, minimum=1, maximum=2**31 - 1)
        self._transaction_s = timeout_ms / 1000
        taken.refuse_others()
        self._tuning = ("delivery", _TIMEOUT, *clients)
        of_transactions = [name for name in (_TIMEOUT, _ID_PREFIX) if taken.text(name)]
        self._ignored = (
            *without_effect(clients),
            *(of_transactions if self._delivery == AT_LEAST_ONCE else ()),
        )

    @classmethod
    def name(cls) -> str:
        return "kafka"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaWriter:
        """:raises ConfigError: a column is missing, or is of another type."""
        rows = RecordFormat.of(to_arrow(schema, OWNER), self._topic)
        for name in (*self._ignored, *unused("Producer", self._client, OWNER)):
            logger.warning("option %s of %s has no effect %s", name, OWNER, self._delivery)
        writer = KafkaWriter(self._client, rows, self._delivery, self._prefix, self._transaction_s)
        writer.tuningOptions = self._tuning
        return writer


class KafkaWriter(ContinuousWriter, DataSourceStreamArrowWriter):
    """The driver's side, and what Spark's own micro-batches call."""

    messageTypes: ClassVar[Mapping[str, type]] = {"transaction": KafkaTransaction, "sent": Sent}
    tuningOptions: Sequence[str] = ()

    def __init__(
        self,
        client: Mapping[str, str],
        rows: RecordFormat,
        delivery: str,
        prefix: str,
        transaction_s: float,
    ) -> None:
        self._client, self._rows, self._prefix = dict(client), rows, prefix
        self.delivery = delivery
        self.mayDropPrepared = delivery == EXACTLY_ONCE
        self._transaction_s = transaction_s
        self._base: str | None = None
        self._transactions: KafkaTransactions | None = None
        self._tasks = (
            ExactlyOnceWriter(self._client, rows, prefix, transaction_s)
            if delivery == EXACTLY_ONCE
            else None
        )

    def taskWriter(self) -> TaskWriter:
        return self._tasks or AtLeastOnceWriter(self._client, self._rows)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """In Spark's micro-batches, which say which of their messages are committed to nobody."""
        if self.delivery == EXACTLY_ONCE:
            raise ConfigError(
                f"{OWNER} is exactly once in continuous queries only: a micro-batch that is run "
                "again would be written again.",
                hint="Start it by write_stream(df), or set the option delivery to at-least-once.",
            )
        writer = AtLeastOnceWriter(self._client, self._rows)
        writer.open(WriterContext("", "", 0, 0, 0, 1))
        try:
            return writer.write(0, iterator)
        finally:
            writer.close()

    def bind(self, context: SinkContext) -> None:
        """Speak to the brokers anew: the attempt before may have lost them."""
        self._close()
        self._base = transactional_base(self._prefix, context)

    def validate(self) -> None:
        """:raises ConfigError: a setting cannot be used, or the brokers cannot be reached, do not
        have the topic, or do not allow such transactions.
        """
        if self.delivery == EXACTLY_ONCE:  # for which there is another client than librdkafka
            self._connected().check()
        timeout_s = self._transaction_s if self.delivery == EXACTLY_ONCE else None
        check_brokers(self._client, self._rows.topic, timeout_s)

    def fenceTasks(self) -> None:
        if self._tasks is None:
            return
        assert self._base is not None, "bind() comes first"
        transactions, gate = self._connected(), gate_id(self._base)
        transactions.fence([gate])
        self._tasks.gate = transactions.describe([gate])[gate].newest
        # Whoever makes itself known behind this list finds the gate renewed.
        transactions.fence(id for id in transactions.ids(self._base) if id != gate)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """End the epoch's transactions. Again is fine.

        :raises PreparedEpochLostError: the brokers have aborted one.
        :raises SinkUnavailableError: they do not answer: some may have been ended.
        """
        found = _transactions(messages)
        if not found:
            return
        open_, committed = self._look(found)
        if len(open_) + len(committed) == len(found):  # all of them, or none
            if not self._end(open_, commit=True):
                return
            open_, committed = self._look(found)
        # Also what seemed open may be committed, when an earlier request that was given up arrives.
        while open_ and len(committed) < len(found):
            self._end(open_, commit=False)
            open_, committed = self._look(found)
        if len(committed) == len(found):
            return
        lost = next(each for task, each in found.items() if task not in committed)
        raise PreparedEpochLostError(
            f"Kafka has aborted transaction {lost.transactional_id} of epoch {batchId}, which was "
            "not committed in time.",
            done=committed,
            epoch=batchId,
            hint="The epoch is run again. To let Kafka wait for longer, set "
            "kafka.transaction.timeout.ms, up to the brokers' transaction.max.timeout.ms.",
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """End the transactions of an epoch that will not be committed."""
        found = _transactions(messages)
        if found:
            self._end(found, commit=False)

    def _look(self, found: _ByTask) -> tuple[_ByTask, _ByTask]:
        """Those that are open, and those that are committed; the others are lost."""
        described = self._connected().describe([each.transactional_id for each in found.values()])
        known = {
            task: described[each.transactional_id]
            for task, each in found.items()
            if each.transactional_id in described
            and described[each.transactional_id].newest == each.transaction
        }
        return (
            {task: found[task] for task, each in known.items() if each.is_open},
            {task: found[task] for task, each in known.items() if each.is_committed},
        )

    def _end(self, found: _ByTask, *, commit: bool) -> Sequence[Transaction]:
        """Those that refused it."""
        transactions = [each.transaction for each in found.values()]
        return self._connected().end(transactions, commit=commit)

    def _close(self) -> None:
        if self._transactions is not None:
            self._transactions.close()
            self._transactions = None

    def _connected(self) -> KafkaTransactions:
        if self._transactions is None:
            self._transactions = KafkaTransactions(self._client)
        return self._transactions

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_transactions": None}


def _transactions(messages: Sequence[WriterCommitMessage | None]) -> dict[int, KafkaTransaction]:
    """Those of an epoch, by the index of their task."""
    own_messages(messages, KafkaMessage)
    return {task: each for task, each in enumerate(messages) if isinstance(each, KafkaTransaction)}
