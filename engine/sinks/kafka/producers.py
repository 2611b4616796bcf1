"""Producers: what was sent is on the brokers, or there is an error."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

import pyarrow as pa

from engine.base.text_tables import are, count
from engine.clients.kafka import SERVERS, import_client, is_passing, made_client, speaking_kafka
from engine.clients.kafka_complaints import Complaints
from engine.errors import SinkCommitRejectedError, SinkError, SinkUnavailableError
from engine.sinks.kafka.records import OWNER, RecordFormat

_TUNED: Final[dict[str, Any]] = {
    "acks": "all",
    "enable.idempotence": "true",
    "partitioner": "murmur2_random",  # the Java client's
    "linger.ms": "50",
    "delivery.report.only.error": True,
    "queue.buffering.max.messages": "200000",
    "queue.buffering.max.kbytes": "65536",  # of several producers per task
    "message.max.bytes": "1048576",  # as of the Java client; what is less refuses what that writes
}
SMALL_BATCH: Final = 2_000
"""After a batch of fewer rows nothing is waited for that could be sent with it: a low latency costs
nothing then. Larger ones fill the client's own batches."""
ACKNOWLEDGED_S: Final = 120.0
"""So long none of the records that were sent may be acknowledged: Kafka's
``delivery.timeout.ms``."""
_NO_PARTITION: Final = "_UNKNOWN_PARTITION"
"""Of a record no outage: the topic is there, and has fewer partitions than the record asks for."""
_TOO_LARGE: Final = "MSG_SIZE_TOO_LARGE"
_OF_THIS_PRODUCER: Final = frozenset(
    {"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "UNKNOWN"}
)
"""A broker does not know, or no longer, what a producer's id has sent, or has failed itself: a
restart makes a new producer, with a new id."""
_HURRY_S: Final = 0.005
_FLUSH_S: Final = 1.0


class Sender:
    """A producer and its errors.

    :param client: settings of librdkafka; what the user has set counts.
    :raises ConfigError: the client is not installed, or refuses its settings.
    """

    def __init__(self, client: Mapping[str, str], **own: str) -> None:
        self._servers = client[SERVERS]
        self._errors: list[tuple[Any, Any]] = []
        self._complaints = Complaints()
        settings: dict[str, Any] = {
            **_TUNED,
            **client,
            **own,
            "on_delivery": self._report,
            "error_cb": self._complaints,
        }
        self.producer = made_client(import_client(OWNER).Producer, settings, OWNER)

    def send(self, rows: RecordFormat, batch: pa.RecordBatch, *, hurry: bool) -> None:
        """Hand a batch to the client.

        :param hurry: see that it is sent now, if it is small.
        :raises SinkError: the client, or a broker before, has refused a record.
        """
        from confluent_kafka import KafkaException

        with self.speaking("a record cannot be sent", SinkCommitRejectedError):
            try:
                rows.send(self.producer, batch)
            except KafkaException as exc:
                error = exc.args[0]
                if error.name() == _TOO_LARGE:
                    raise SinkCommitRejectedError(
                        self._says("a record is larger than Kafka's client may send."),
                        hint="Set kafka.max.request.size to more than the largest record, in bytes "
                        "(1048576 by default); the topic's max.message.bytes must allow it, too.",
                    ) from exc
                if error.name() != _NO_PARTITION:  # at once, of a topic that it knows by now
                    raise
                self._report(error, None)
        if hurry and batch.num_rows < SMALL_BATCH:
            self._serve(self.producer.flush, _HURRY_S)
        else:
            self._serve(self.producer.poll, 0)
        self._check()

    def finish(self) -> None:
        """Return when all that was sent is acknowledged.

        :raises SinkUnavailableError: for a while, none is.
        :raises SinkError: a record was refused. That nothing is left to send does not say that all
            was taken.
        """
        deadline_s, least = time.monotonic() + ACKNOWLEDGED_S, math.inf
        while left := self._serve(self.producer.flush, _FLUSH_S):
            self._check()
            now_s = time.monotonic()
            if left < least:  # brokers that are slow are not away: a restart would send all again
                least, deadline_s = left, now_s + ACKNOWLEDGED_S
            elif now_s > deadline_s:
                reason = f": {self._complaints}" if str(self._complaints) else ""
                raise SinkUnavailableError(
                    self._says(
                        f"{count(left, 'record')} {are(left)} not acknowledged, and no other one "
                        f"was for {ACKNOWLEDGED_S:g} s{reason}."
                    ),
                    hint="They are written again when the query restarts.",
                )
        self._check()
        self._complaints.clear()

    def _serve(self, call: Callable[[float], int], timeout_s: float) -> int:
        with self.speaking("records cannot be sent"):
            try:
                return call(timeout_s)
            except SystemError as exc:  # how it tells a fatal error if there are others, too
                self._check()
                raise SinkUnavailableError(
                    self._says("a producer has given up: another one may have its id")
                ) from exc

    def drop(self) -> None:
        """Forget what was not sent."""
        self.producer.purge()

    def speaking(
        self, what: str, final: type[SinkError] = SinkError
    ) -> AbstractContextManager[None]:
        """See :func:`engine.clients.kafka.speaking_kafka`."""
        return speaking_kafka(
            SinkUnavailableError,
            final,
            self._says(what),
            self._complaints,
            also_passing=_OF_THIS_PRODUCER,
        )

    def _says(self, what: str) -> str:
        return f"Kafka at {self._servers}: {what}"

    def _report(self, error: Any, message: Any) -> None:
        if error is not None:
            self._errors.append((error, message))

    def _check(self) -> None:
        if not self._errors:
            return
        error, message = self._errors[0]
        more = f" ({len(self._errors):,} in all)" if len(self._errors) > 1 else ""
        self._errors.clear()
        where = "a record" if message is None else f"a record for {message.topic()}"
        passes = is_passing(error, _OF_THIS_PRODUCER) and error.name() != _NO_PARTITION
        kind = SinkUnavailableError if passes else SinkCommitRejectedError
        raise kind(
            self._says(f"{where} was refused{more}: {error.str()} ({error.name()})"),
            hint="Nothing of its epoch is committed."
            if kind is SinkUnavailableError
            else "A restart would meet the same: correct the record, the topic or its settings.",
        )
