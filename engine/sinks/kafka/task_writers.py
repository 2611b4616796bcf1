"""The executor's side of the Kafka sink: at least once, or a transaction per epoch and task."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from engine.clients.kafka import speaking_kafka
from engine.clients.kafka_transactions import KafkaTransactions
from engine.errors import SinkError, SinkUnavailableError
from engine.redaction.logs import log_failure
from engine.sinks.contract import TaskWriter, WriterContext
from engine.sinks.kafka.producers import Sender
from engine.sinks.kafka.records import RecordFormat

logger: Final = logging.getLogger(__name__)
TRANSACTIONS_MAX: Final = 16
"""A task has so many open at once, for epochs that are not committed yet; then it reads nothing
more until one is."""


@dataclass(frozen=True)
class KafkaTransaction(WriterCommitMessage):
    """The open transaction of a task and an epoch: what another process needs to end it.

    :param producer_epoch: of the producer: who comes with an older one is fenced.
    :param records: how many it has.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    records: int


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """The records of a task and an epoch are there, for all to see.

    :param records: how many.
    """

    records: int


class AtLeastOnceWriter(TaskWriter):
    """Records are sent as they come, and seen at once. An epoch that is run again sends them again.

    :param client: settings of librdkafka.
    """

    def __init__(self, client: Mapping[str, str], rows: RecordFormat, timeout_s: float) -> None:
        self._client, self._rows, self._timeout_s = dict(client), rows, timeout_s
        self._sender: Sender | None = None

    def open(self, context: WriterContext) -> None:
        self._sender = Sender(self._client, self._timeout_s)

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Sent:
        assert self._sender is not None
        records = 0
        for batch in batches:
            self._sender.send(self._rows, batch, hurry=True)
            records += batch.num_rows
        self._sender.finish()
        return Sent(records)


class ExactlyOnceWriter(TaskWriter):
    """Each epoch with rows is a transaction, which is ended by the driver; see
    :mod:`engine.sinks.kafka.data_source`. Producers take turns, for the next epoch begins before
    the last one is committed.

    :param prefix: of the transactional ids.
    :param transaction_s: so long the broker keeps a transaction that is not ended.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        rows: RecordFormat,
        timeout_s: float,
        *,
        prefix: str,
        transaction_s: float,
    ) -> None:
        self._client, self._rows, self._timeout_s = dict(client), rows, timeout_s
        self._prefix, self._transaction_s = prefix, transaction_s
        self._free: list[_Transactional] = []
        self._open: dict[int, _Transactional] = {}
        self._ids: Iterator[str] = iter(())
        self._transactions: KafkaTransactions | None = None

    def open(self, context: WriterContext) -> None:
        base = transactional_base(self._prefix, context.query_id)
        self._ids = (f"{base}{context.task}-{turn}" for turn in range(TRANSACTIONS_MAX))
        self._transactions = KafkaTransactions(self._client)
        for _ in range(2):  # what most queries need
            self._free.append(self._new(next(self._ids)))

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> KafkaTransaction | None:
        records = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            if epoch not in self._open:
                self._begin(epoch)
            self._open[epoch].sender.send(self._rows, batch, hurry=False)
            records += batch.num_rows
        if epoch not in self._open:
            return None
        producer = self._open[epoch]
        producer.sender.finish()
        return producer.message(records)

    def full(self) -> bool:
        return not self._free and len(self._open) >= TRANSACTIONS_MAX

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
        if self._transactions is not None:
            self._transactions.close()

    def _begin(self, epoch: int) -> None:
        producer = self._free.pop(0) if self._free else self._new(next(self._ids))
        producer.begin()
        self._open[epoch] = producer

    def _new(self, transactional_id: str) -> _Transactional:
        assert self._transactions is not None
        sender = Sender(
            self._client,
            self._timeout_s,
            **{
                "transactional.id": transactional_id,
                "transaction.timeout.ms": str(round(self._transaction_s * 1000)),
            },
        )
        return _Transactional(transactional_id, sender, self._transactions, self._timeout_s)


class _Transactional:
    """A producer with transactions, one after the other."""

    def __init__(
        self,
        transactional_id: str,
        sender: Sender,
        transactions: KafkaTransactions,
        timeout_s: float,
    ) -> None:
        self.sender = sender
        self._id, self._timeout_s = transactional_id, timeout_s
        self._transactions = transactions
        self._identity: tuple[int, int] | None = None
        # Whoever had the id before can neither write with it nor commit any more, and what it has
        # left open is aborted.
        with self._speaking("cannot begin transactions"):
            sender.producer.init_transactions(timeout_s)

    def begin(self) -> None:
        with self._speaking("cannot begin a transaction"):
            self.sender.producer.begin_transaction()

    def message(self, records: int) -> KafkaTransaction:
        if self._identity is None:  # the same for all transactions of this producer
            found = self._transactions.describe([self._id])[self._id]
            self._identity = found.producer_id, found.producer_epoch
        return KafkaTransaction(self._id, *self._identity, records)

    def end(self) -> None:
        with self._speaking("cannot end a transaction"):
            self.sender.producer.commit_transaction(self._timeout_s)

    def abort(self) -> None:
        producer = self.sender.producer
        try:
            # What is still on its way would come into the transaction that is being aborted, which
            # the brokers take for a fault (librdkafka, issue 4849).
            producer.flush(self._timeout_s)
            producer.abort_transaction(self._timeout_s)
        except Exception:
            log_failure(logger, "transaction %s was not aborted: it is, when it times out", self._id)

    def _speaking(self, what: str) -> Any:
        says = self.sender.says(f"{what} of {self._id}")
        return speaking_kafka(SinkUnavailableError, SinkError, says)


def transactional_base(prefix: str, query_id: str) -> str:
    """With what the transactional ids of a query begin: ``<prefix>-<query id>-``."""
    return f"{prefix}-{query_id}-"
