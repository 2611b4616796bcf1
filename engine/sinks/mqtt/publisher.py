"""Publishes messages until the broker has taken each of them.

What was under way when a connection is lost is published again over the next: the broker may have
it twice.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from typing import Any, Final

from engine.clients.mqtt import MqttServer
from engine.clients.mqtt_connection import TOO_LARGE, MqttConnection
from engine.errors import (
    ConfigError,
    SinkCommitRejectedError,
    SinkError,
    SinkUnavailableError,
)
from engine.sinks.mqtt.messages import OWNER, Publication

logger: Final = logging.getLogger(__name__)
UNDER_WAY_MAX: Final = 1_000
"""So many messages at once, if the broker allows as many."""
LOOK_S: Final = 0.5
"""So often it is looked whether the time for answers is over."""
_PAUSE_S: Final = 0.2
_PAUSE_MAX_S: Final = 10.0
_FAILURE: Final = 0x80
_PASSING: Final = frozenset({0x80, 0x83, 0x91, 0x97})
"""Refusals that another time may not bring: unspecified, implementation specific, packet id in use,
quota exceeded."""
_FINAL: Final = frozenset({0x81, 0x82, 0x87, 0x90, TOO_LARGE, 0x99, 0x9A, 0x9B})
"""Why a broker hangs up on a message, each time: malformed, against the protocol, not authorised,
no topic, too large, no such payload, or no such thing as to retain it, or as its QoS."""
_QOS: Final = 1


class Publisher:
    """Of one task. Connects when it has something to publish.

    :param client: what its client ids begin with.
    :param retry_s: so long nothing may be taken, until that is an outage.
    """

    def __init__(self, server: MqttServer, client: str, retry_s: float) -> None:
        self._server, self._client, self._retry_s = server, client, retry_s
        self._connection: MqttConnection | None = None
        self._window, self._packet_max = 1, 2**32
        self._under_way: dict[int, Publication] = {}
        """By packet id, in their order."""
        self._progress_s, self._pause_s = 0.0, _PAUSE_S
        """When the broker has last taken one, or the first of these was sent."""
        self._hung_up: str | None = None
        """Why the last connection has ended over which the broker has taken nothing."""
        self._was_at_work = False
        """Whether anything was under way when the connection was lost; told by the client's
        thread."""
        self._heard = threading.Event()
        self._answers: deque[tuple[int, int]] = deque()
        """Packet ids and reason codes, from the client's thread."""

    def publish(self, publication: Publication) -> None:
        """Wait until it may be sent, and send it.

        :raises SinkCommitRejectedError: the broker refuses it, or one before.
        :raises SinkUnavailableError: the broker takes nothing for too long.
        """
        if not self._under_way:
            self._progress_s = time.monotonic()
        if self._connection is None:
            self._connect()
        self._renew()
        self._await(self._window - 1)
        self._send(publication)

    def finish(self) -> None:
        """Wait until the broker has taken all. Raises as :meth:`publish`."""
        self._renew()
        self._await(0)

    def drop(self) -> None:
        """End it; what is under way may or may not arrive."""
        self._under_way.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _renew(self) -> None:
        """Send over another connection what was under way over one that was lost meanwhile. While
        nobody has tried, the broker could take nothing."""
        if self._connection is not None and self._connection.lost is not None:
            self._take_answers()
            self._progress_s = time.monotonic()
            self._send_again()

    def _send(self, publication: Publication) -> None:
        assert self._connection is not None
        if (size := packet_size(publication)) > self._packet_max:
            raise SinkCommitRejectedError(
                f"{OWNER}: a message of {size:,} bytes to {publication.topic!r} is larger than "
                f"{self._server.name} allows, {self._packet_max:,} bytes."
            )
        sent = self._connection.client.publish(
            publication.topic,
            publication.payload,
            _QOS,
            publication.retain,
            _user_properties(publication),
        )
        # If the connection is gone by now, what is under way is sent over the next.
        self._under_way[sent.mid] = publication

    def _await(self, left: int) -> None:
        """Until no more than so many are under way."""
        while True:
            self._heard.clear()
            self._take_answers()
            if len(self._under_way) <= left:
                return
            if self._is_late():
                why = f", and hangs up: {self._hung_up}" if self._hung_up is not None else ""
                raise SinkUnavailableError(
                    f"{OWNER}: {self._server.name} takes no message for {self._retry_s:g} s{why}.",
                    hint="See whether it is overloaded, or full.",
                )
            if self._connection is None or self._connection.lost is not None:
                self._send_again()
            else:
                self._heard.wait(LOOK_S)

    def _is_late(self) -> bool:
        return time.monotonic() - self._progress_s > self._retry_s

    def _take_answers(self) -> None:
        while self._answers:
            packet, code = self._answers[0]
            publication = self._under_way.pop(packet, None)
            self._answers.popleft()  # in this order: never are more under way than there seem to be
            if publication is None:
                continue
            if code >= _FAILURE:
                raise self._refused(publication, code)
            self._progress_s, self._pause_s = time.monotonic(), _PAUSE_S
            self._hung_up = None

    def _refused(self, publication: Publication, code: int) -> SinkError:
        told = (
            f"{OWNER}: {self._server.name} refuses a message to {publication.topic!r}: reason code "
            f"0x{code:02X}."
        )
        if code in _PASSING:
            return SinkUnavailableError(told)
        return SinkCommitRejectedError(
            told, hint="See what the broker allows this user to publish."
        )

    def _send_again(self) -> None:
        if self._connection is not None:
            self._hung_up = self._connection.lost
        self._pause()
        self._connect()
        again = list(self._under_way.values())
        self._under_way.clear()
        for publication in again:
            self._await(self._window - 1)
            self._send(publication)

    def _connect(self) -> None:
        """:raises SinkUnavailableError: the broker is away for too long."""
        while True:
            try:
                return self._connect_once()
            except SinkUnavailableError:
                if self._is_late():
                    raise
            self._pause()

    def _pause(self) -> None:
        threading.Event().wait(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)

    def _connect_once(self) -> None:
        if self._connection is not None:
            if self._connection.lost_code in _FINAL and self._was_at_work:
                topics = sorted({each.topic for each in self._under_way.values()})
                raise SinkCommitRejectedError(
                    f"{OWNER}: {self._server.name} has hung up on one of the messages to "
                    f"{', '.join(map(repr, topics[:3]))}: {self._connection.lost}.",
                    hint="See what the broker allows as a topic, and this user to publish.",
                )
            self._connection.close()
            self._connection = None
        self._was_at_work = False
        heard, answers = self._heard, deque[tuple[int, int]]()

        def on_published(packet: int, code: int) -> None:
            answers.append((packet, code))
            heard.set()

        def on_lost() -> None:
            self._was_at_work = len(self._under_way) > len(answers)
            heard.set()

        connection = MqttConnection(
            self._server,
            f"{self._client}-{secrets.token_hex(4)}",
            away=SinkUnavailableError,
            on_published=on_published,
            on_lost=on_lost,
        )
        self._connection, self._answers = connection, answers
        self._window = min(UNDER_WAY_MAX, connection.allows("ReceiveMaximum", 65_535))
        self._packet_max = connection.allows("MaximumPacketSize", 2**32)


def packet_size(publication: Publication) -> int:
    """In bytes, as the broker counts: MQTT 5.0, section 3.3."""
    texts = (text for pair in publication.properties for text in pair)
    properties = sum(2 + len(text.encode()) for text in texts) + len(publication.properties)
    rest = 2 + len(publication.topic.encode()) + 2 + _length_size(properties) + properties
    rest += len(publication.payload)
    return 1 + _length_size(rest) + rest


def _length_size(length: int) -> int:
    """Of a length, 7 bits in each byte."""
    return max(1, -(-length.bit_length() // 7))


def check_broker(server: MqttServer, prefix: str, retain: bool) -> None:
    """See that the broker lets this user in, and takes such messages.

    :raises ConfigError: it does not.
    """
    connection = MqttConnection(server, f"{prefix}-check-{secrets.token_hex(4)}", away=ConfigError)
    connection.close()
    if connection.allows("MaximumQoS", 2) < _QOS:
        raise ConfigError(f"{OWNER}: {server.name} takes no messages with QoS {_QOS}.")
    if retain and not connection.allows("RetainAvailable", 1):
        raise ConfigError(f"{OWNER}: {server.name} keeps no messages: leave out option retain.")


def _user_properties(publication: Publication) -> Any:
    if not publication.properties:
        return None
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = list(publication.properties)
    return properties
