"""The executor's side of the Kafka sink: at least once, or a transaction per epoch and task."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from engine.checkpoint.sink_context import SinkContext
from engine.clients.kafka_transactions import KafkaTransactions, Transaction
from engine.errors import SinkUnavailableError
from engine.redaction.logs import log_failure
from engine.sinks.contract import TaskWriter, WriterContext
from engine.sinks.kafka.producers import Sender
from engine.sinks.kafka.records import RecordFormat

logger: Final = logging.getLogger(__name__)
ANSWER_S: Final = 60.0
"""So long the brokers may take to begin or to end a transaction."""
_ABORT_S: Final = 5.0
"""So long the end of a task waits for them; the next attempt aborts what this has not."""


class KafkaMessage(WriterCommitMessage):
    """Of either writer."""


@dataclass(frozen=True)
class KafkaTransaction(KafkaMessage):
    """The open transaction of a task and an epoch: what another process needs to end it.

    :param producer_epoch: of the producer: who comes with an older one is fenced.
    :param records: how many it has.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    records: int

    @property
    def transaction(self) -> Transaction:
        """What its coordinator is asked for."""
        return Transaction(self.transactional_id, self.producer_id, self.producer_epoch)


@dataclass(frozen=True)
class Sent(KafkaMessage):
    """The records of a task and an epoch are there, for all to see.

    :param records: how many.
    """

    records: int


class AtLeastOnceWriter(TaskWriter):
    """Records are sent as they come, and seen at once. An epoch that is run again sends them again.

    :param client: settings of librdkafka.
    """

    def __init__(self, client: Mapping[str, str], rows: RecordFormat) -> None:
        self._client, self._rows = dict(client), rows
        self._sender: Sender | None = None

    def open(self, context: WriterContext) -> None:
        self._sender = Sender(self._client)

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Sent:
        assert self._sender is not None
        records = 0
        for batch in batches:
            self._sender.send(self._rows, batch, hurry=True)
            records += batch.num_rows
        self._sender.finish()
        return Sent(records)

    def close(self) -> None:
        if self._sender is not None:
            self._sender.drop()


class ExactlyOnceWriter(TaskWriter):
    """Each epoch with rows is a transaction, which is ended by the driver; see
    :mod:`engine.sinks.kafka.data_source`. Producers take turns, for the next epoch begins before
    the last one is committed; how many there are is bounded by how many epochs may wait for their
    commit.

    A task that was given up may wake up at any time. It begins nothing: the driver renews the
    query's gate, and then shuts out all transactional ids that it finds; a task makes its ids known
    first, and then looks whether the gate is still the one that it was sent with.

    :param prefix: of the transactional ids.
    :param transaction_s: so long the broker keeps a transaction that is not ended.
    :ivar gate: what :func:`gate_id` names, when this task was sent; None: it is not looked at.
    """

    gate: Transaction | None = None

    def __init__(
        self, client: Mapping[str, str], rows: RecordFormat, prefix: str, transaction_s: float
    ) -> None:
        self._client, self._rows = dict(client), rows
        self._prefix, self._transaction_s = prefix, transaction_s

    def open(self, context: WriterContext) -> None:
        self._open: dict[int, _Producer] = {}
        base = transactional_base(self._prefix, context)
        self._ids = (f"{base}{context.task}-{turn}" for turn in count())
        self._transactions = KafkaTransactions(self._client)
        self._free = self._more(2)  # what most queries need

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> KafkaTransaction | None:
        records = 0
        producer: _Producer | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if producer is None:
                producer = self._open[epoch] = self._take()
                producer.begin()
            producer.send(self._rows, batch)
            records += batch.num_rows
        return None if producer is None else producer.prepared(records)

    def committed(self, epoch: int) -> None:
        producer = self._open.pop(epoch, None)
        if producer is not None:
            # The driver has ended it: this tells the producer so, which may then begin another.
            producer.end()
            self._free.append(producer)

    def aborted(self, epoch: int) -> None:
        producer = self._open.pop(epoch, None)
        if producer is not None:
            producer.abort()

    def close(self) -> None:
        # What is prepared stays open: a later process commits it, or has to abort it.
        for producer in (*self._free, *self._open.values()):
            producer.drop()
        self._transactions.close()

    def _take(self) -> _Producer:
        self._free = self._free or self._more(1)
        return self._free.pop(0)

    def _more(self, count: int) -> list[_Producer]:
        self._see_gate()  # to take no id from those who have it now
        made = [
            _Producer(next(self._ids), self._client, self._transactions, self._transaction_s)
            for _ in range(count)
        ]
        self._see_gate()
        return made

    def _see_gate(self) -> None:
        """:raises SinkUnavailableError: later tasks have taken the place of this one."""
        if self.gate is None:
            return
        found = self._transactions.describe([self.gate.id]).get(self.gate.id)
        # Kafka forgets it after a week, by which it was not renewed.
        if found is not None and found.newest != self.gate:
            raise SinkUnavailableError(
                f"Later tasks of the query have taken over: {self.gate.id} was renewed."
            )


class _Producer:
    """A producer with transactions, one after the other.

    :raises SinkUnavailableError: the brokers do not answer.
    """

    def __init__(
        self,
        transactional_id: str,
        client: Mapping[str, str],
        transactions: KafkaTransactions,
        transaction_s: float,
    ) -> None:
        self._id = transactional_id
        self._transactions, self._transaction_s = transactions, transaction_s
        self._identity: Transaction | None = None
        self._begun_s = 0.0
        self._sender = Sender(
            client,
            **{
                "transactional.id": transactional_id,
                "transaction.timeout.ms": str(round(transaction_s * 1000)),
            },
        )
        # Whoever had the id before can neither write with it nor commit any more, and what it has
        # left open is aborted.
        with self._sender.speaking(f"cannot begin transactions of {transactional_id}"):
            self._sender.producer.init_transactions(ANSWER_S)

    def begin(self) -> None:
        with self._sender.speaking(f"cannot begin a transaction of {self._id}"):
            self._sender.producer.begin_transaction()
        self._begun_s = time.monotonic()

    def send(self, rows: RecordFormat, batch: pa.RecordBatch) -> None:
        """:raises SinkUnavailableError: the transaction is open for too long to be prepared."""
        if time.monotonic() - self._begun_s > self._transaction_s:
            raise SinkUnavailableError(
                f"Transaction {self._id} is open for longer than kafka.transaction.timeout.ms "
                f"allows, {self._transaction_s:g} s: Kafka has aborted it.",
                hint="Make epochs shorter than that: trigger(continuous='1 second').",
            )
        self._sender.send(rows, batch, hurry=False)

    def prepared(self, records: int) -> KafkaTransaction:
        """See that all of it is on the brokers."""
        self._sender.finish()
        if self._identity is None:  # the same for all transactions of this producer
            found = self._transactions.describe([self._id]).get(self._id)
            if found is None or not found.is_open:
                raise SinkUnavailableError(
                    f"Transaction {self._id} is not open any more: another producer has its id, or "
                    "it was open for too long."
                )
            self._identity = found.newest
        identity = self._identity
        return KafkaTransaction(self._id, identity.producer_id, identity.producer_epoch, records)

    def end(self) -> None:
        with self._sender.speaking(f"cannot end a transaction of {self._id}"):
            self._sender.producer.commit_transaction(ANSWER_S)

    def abort(self) -> None:
        producer = self._sender.producer
        try:
            # What is still on its way would come into the transaction that is being aborted, which
            # the brokers take for a fault (librdkafka, issue 4849).
            producer.flush(_ABORT_S)
            producer.abort_transaction(_ABORT_S)
        except Exception:
            log_failure(logger, "transaction %s is not aborted yet", self._id)
        self.drop()

    def drop(self) -> None:
        self._sender.drop()


def gate_id(base: str) -> str:
    """A transactional id that has no transactions. Each attempt to run the query renews it.

    :param base: see :func:`transactional_base`.
    """
    return f"{base}gate"


def transactional_base(prefix: str, context: SinkContext) -> str:
    """With what the transactional ids of a query begin: ``<prefix>-<query id>-``."""
    return f"{prefix}-{context.query_id}-"
