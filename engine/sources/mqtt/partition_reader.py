"""The executor's side: reads the messages of a session, and acknowledges those that are committed.

With a connection that is lost the reader ends: the broker sends all that is not acknowledged again,
also what this reader has read, to whoever resumes the session.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from engine.clients.mqtt_connection import MqttConnection
from engine.errors import SourceUnavailableError
from engine.sources.contract import Offset, PartitionReader
from engine.sources.mqtt.rows import OWNER, Message, batch_of
from engine.sources.mqtt.session import Position, SessionOptions

logger: Final = logging.getLogger(__name__)
BATCH_ROWS: Final = 5_000
BATCH_BYTES: Final = 64 * 2**20
"""Of payloads, unless a single one is larger: a column of 2 GiB is no column."""
TOPICS_KNOWN_MAX: Final = 10_000
"""So many are remembered."""
WAITING_MAX: Final = 65_535
"""Messages that nobody has read yet: with QoS 0 nothing else bounds them."""


class MqttPartitionReader(PartitionReader):
    """See the module.

    :param start: of the session.
    :param new: topics of which nothing was read before.
    :param columns: what the batches have.
    """

    interruptible = True

    def __init__(
        self,
        options: SessionOptions,
        start: Position,
        new: Sequence[str],
        columns: Sequence[str],
    ) -> None:
        self._options, self._at, self._columns = options, start, tuple(columns)
        self._new = tuple(new)
        self._wanted: dict[str, bool] = {}
        """Topics, and whether a filter of the query has them."""
        self._told = False
        self._connection: MqttConnection | None = None
        self._unacknowledged: deque[tuple[int, int]] = deque()
        """How many messages are read with this one, and its packet id."""
        # The rest is shared with the thread that the messages come on.
        self._changed = threading.Condition()
        self._waiting: deque[Message] = deque()
        self._interrupted = self._closed = self._lost = False

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        if self._connection is None:
            self._connection = self._options.open(
                self._at.client, self._new, SourceUnavailableError, self._arrive, self._lose
            )
        with self._changed:
            self._changed.wait_for(
                lambda: bool(self._waiting) or self._interrupted or self._lost, timeout_s
            )
            self._interrupted = False
            if self._lost:
                raise self._connection.gone()
            messages = self._take_waiting()
            self._changed.notify_all()
        if not messages:
            return None
        for number, message in enumerate(messages, self._at.received + 1):
            if message.qos:
                self._unacknowledged.append((number, message.packet))
        self._at = replace(self._at, received=self._at.received + len(messages))
        wanted = [message for message in messages if self._is_wanted(message.topic)]
        return batch_of(wanted, self._columns) if wanted else None

    def _is_wanted(self, topic: str) -> bool:
        """The session may have subscriptions of a start that came to nothing, of which no offset
        knows: what they bring is read, and left out."""
        if topic not in self._wanted:
            if len(self._wanted) >= TOPICS_KNOWN_MAX:
                self._wanted.clear()
            self._wanted[topic] = any(fits(topic, each) for each in self._options.topics)
            if not self._wanted[topic] and not self._told:  # once: there may be many
                self._told = True
                logger.warning(
                    "%s: messages such as one of %s are left out: the query reads %s",
                    OWNER, topic, ", ".join(self._options.topics),
                )  # fmt: skip
        return self._wanted[topic]

    def _take_waiting(self) -> list[Message]:
        """As many as make a batch."""
        taken: list[Message] = []
        size = 0
        while self._waiting and len(taken) < BATCH_ROWS:
            size += len(self._waiting[0].payload)
            if taken and size > BATCH_BYTES:
                break
            taken.append(self._waiting.popleft())
        return taken

    @property
    def offset(self) -> Offset:
        return self._at.offset

    def committed(self, end: Offset) -> None:
        received = Position.of(end).received
        while self._unacknowledged and self._unacknowledged[0][0] <= received:
            _, packet = self._unacknowledged.popleft()
            assert self._connection is not None, "it was read by one"
            self._connection.client.ack(packet, 1)

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._connection is not None:
            self._connection.close()

    # -- called by the client's thread ------------------------------------------------------------

    def _arrive(self, received: Any) -> None:
        message = Message.of(received, time.time_ns() // 1_000)
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < WAITING_MAX or self._closed)
            self._waiting.append(message)
            self._changed.notify_all()

    def _lose(self) -> None:
        with self._changed:
            self._lost = True
            self._changed.notify_all()


def fits(topic: str, subscribed: str) -> bool:
    """Whether messages of a topic come by a filter, which may be shared (``$share/NAME/...``)."""
    from paho.mqtt.client import topic_matches_sub

    if subscribed.startswith("$share/"):
        subscribed = subscribed.split("/", 2)[2]
    return bool(topic_matches_sub(subscribed, topic))


class NothingAgain(PartitionReader):
    """In place of an epoch that is run again: none of it is acknowledged, and the broker sends it
    in those that follow.

    :param until: its end.
    """

    exhausted = True

    def __init__(self, until: Offset) -> None:
        self._until = until

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        return None

    @property
    def offset(self) -> Offset:
        return self._until
