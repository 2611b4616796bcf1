"""The query's session at the broker: by it the broker knows what the query has not acknowledged."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.clients.mqtt import MqttServer
from engine.clients.mqtt_connection import MqttConnection
from engine.errors import ConfigError, ContinuousError, OffsetOutOfRangeError, SourceError
from engine.sources.contract import Offset
from engine.sources.mqtt.markers import mark, mark_again, take_marker
from engine.sources.mqtt.rows import OWNER

logger: Final = logging.getLogger(__name__)
_KEYS: Final = {"client", "topics", "received"}


@dataclass(frozen=True)
class Position:
    """An offset: ``{"client":"continuous-5f...","received":17,"topics":["plant/#"]}``.

    :param client: the id of the client, which is that of the session: the same as long as the
        checkpoint lives.
    :param topics: what the session subscribes to.
    :param received: so many messages are read, those that came again among them.
    :param marked: the session has :mod:`engine.sources.mqtt.markers`: ``"marked":true``.
    """

    client: str
    topics: tuple[str, ...]
    received: int
    marked: bool = False

    @classmethod
    def of(cls, offset: Offset) -> Position:
        """:raises SourceError: it is not one."""
        if isinstance(offset, dict) and offset.keys() - {"marked"} == _KEYS:
            client, topics, received = offset["client"], offset["topics"], offset["received"]
            if isinstance(client, str) and isinstance(topics, list) and isinstance(received, int):
                return cls(client, tuple(topics), received, offset.get("marked") is True)
        raise SourceError(
            f"The offset {offset!r} is not one of {OWNER}.", hint="Use a new checkpoint location."
        )

    @property
    def offset(self) -> Offset:
        marked = {"marked": True} if self.marked else {}
        return {
            "client": self.client,
            "received": self.received,
            "topics": list(self.topics),
            **marked,
        }


@dataclass(frozen=True)
class SessionOptions:
    """How a session is made and kept. Picklable.

    :param topics: filters.
    :param expiry_s: so long the broker keeps it while the query is away.
    :param receive_max: so many messages come that are not acknowledged.
    :param retained: those that the broker keeps of a topic are read at first.
    """

    server: MqttServer
    topics: tuple[str, ...]
    prefix: str
    expiry_s: int
    receive_max: int
    retained: bool
    fails_on_loss: bool

    def begin(self, away: type[ContinuousError]) -> Position:
        """Make a session: from now on the broker keeps what comes for it.

        :raises ConfigError: the broker refuses it.
        """
        client = f"{self.prefix}-{secrets.token_hex(8)}"
        connection = self._glance(client, away)
        try:
            connection.subscribe(self.topics, retained=False)
            marked = mark(connection, client)
            self._say_what_is_less(connection)
        finally:
            connection.close()
        return Position(client, self.topics, 0, marked)

    def resume(
        self, known: Position, away: type[ContinuousError]
    ) -> tuple[Position, tuple[str, ...]]:
        """See that the session is there, and subscribes to what the options say.

        :return: also those topics of which nothing was read before, as far as is known.
        :raises ConfigError: it is one of another ``clientIdPrefix``.
        :raises OffsetOutOfRangeError: it is not there, and that is an error.
        """
        self._check_prefix(known)
        connection = self._glance(known.client, away, _doubt(known.client, known.marked))
        try:
            is_there = connection.is_resumed
            if is_there and known.marked:
                is_there = take_marker(connection, known.client)
            was_marked = is_there and known.marked
            if was_marked:
                marked = mark_again(connection, known.client)
            if not is_there:
                self._say_lost(known)
            elif dropped := sorted(set(known.topics) - set(self.topics)):
                connection.unsubscribe(dropped)
            connection.subscribe(self.topics, retained=False)
            if not was_marked:
                marked = mark(connection, known.client)
        except OffsetOutOfRangeError:
            # A session that this look has made would hide the loss from the next one.
            connection.close(forget=True)
            raise
        finally:
            connection.close()
        read = known.topics if is_there and known.received else ()
        new = tuple(name for name in self.topics if name not in read)
        return Position(known.client, self.topics, known.received, marked), new

    def open(
        self,
        start: Position,
        new: Sequence[str],
        away: type[ContinuousError],
        on_message: Callable[[Any], None],
        on_lost: Callable[[], None],
    ) -> MqttConnection:
        """A connection that the messages come over. Whoever had the session before loses it.

        :param start: of the session.
        :param new: topics of which those messages are wanted, too, that the broker keeps: it sends
            them, and does not queue them for who leaves at once, as the driver does.
        """
        connection = MqttConnection(
            self.server,
            start.client,
            away=away,
            session_s=self.expiry_s,
            receive_max=self.receive_max,
            doubt=_doubt(start.client, start.marked),
            on_message=on_message,
            on_lost=on_lost,
        )
        if not connection.is_resumed:  # since the driver has looked
            connection.close(forget=True)
            raise away(f"{OWNER}: {self.server.name} has lost the session of {start.client}.")
        if new and self.retained:
            connection.subscribe(new, retained=True)
        return connection

    def _glance(self, client: str, away: type[ContinuousError], doubt: str = "") -> MqttConnection:
        """A connection that reads nothing: what the broker sends meanwhile, it sends again."""
        return MqttConnection(
            self.server, client, away=away, session_s=self.expiry_s, receive_max=1, doubt=doubt
        )

    def _check_prefix(self, known: Position) -> None:
        prefix, _, _ = known.client.rpartition("-")
        if prefix != self.prefix:
            raise ConfigError(
                f"{OWNER}: the option clientIdPrefix is {self.prefix!r}, and the session of this "
                f"checkpoint, which has the query's messages, is that of {known.client}.",
                hint=f"Set it to {prefix!r}. For another one drain the query, and start it with a "
                "checkpoint of its own: that has what comes from then on.",
            )

    def _say_lost(self, known: Position) -> None:
        told = (
            f"{OWNER}: {self.server.name} does not have the session of {known.client} any more: "
            f"what came behind message {known.received} and was not acknowledged is lost, if "
            "anything did"
        )
        if self.fails_on_loss:
            raise OffsetOutOfRangeError(
                f"{told}.",
                hint="The query was away for longer than sessionExpiry, or the broker has lost "
                "what it had, or does not keep sessions on disk. To go on with what comes from "
                "now on, set failOnDataLoss to false.",
            )
        logger.warning("%s. failOnDataLoss is false: the query goes on", told)

    def _say_what_is_less(self, connection: MqttConnection) -> None:
        granted_s = connection.allows("SessionExpiryInterval", self.expiry_s)
        if granted_s < self.expiry_s:
            logger.warning(
                "%s: %s keeps a session for %d s, not for %d s: if the query is away for longer, "
                "messages are lost",
                OWNER,
                self.server.name,
                granted_s,
                self.expiry_s,
            )


def _doubt(client: str, marked: bool) -> str:
    if marked:
        return ""
    return (
        f"; if it had lost the session of {client} before, it may have made a new one now, without "
        "a sign by which the next start would tell them apart"
    )
