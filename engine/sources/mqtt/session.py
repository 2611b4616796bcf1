"""The query's session at the broker: by it the broker knows what the query has not acknowledged."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.clients.mqtt import MqttServer
from engine.clients.mqtt_connection import MqttConnection
from engine.errors import ContinuousError, OffsetOutOfRangeError, SourceError
from engine.sources.contract import Offset
from engine.sources.mqtt.rows import OWNER

logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Position:
    """An offset: ``{"client":"continuous-5f...","received":17,"topics":["plant/#"]}``.

    :param client: the id of the client, which is that of the session: the same as long as the
        checkpoint lives.
    :param topics: what the session subscribes to.
    :param received: so many messages are read, those that came again among them.
    """

    client: str
    topics: tuple[str, ...]
    received: int

    @classmethod
    def of(cls, offset: Offset) -> Position:
        """:raises SourceError: it is not one."""
        if isinstance(offset, dict) and offset.keys() == {"client", "topics", "received"}:
            client, topics, received = offset["client"], offset["topics"], offset["received"]
            if isinstance(client, str) and isinstance(topics, list) and isinstance(received, int):
                return cls(client, tuple(topics), received)
        raise SourceError(
            f"The offset {offset!r} is not one of {OWNER}.", hint="Use a new checkpoint location."
        )

    @property
    def offset(self) -> Offset:
        return {"client": self.client, "received": self.received, "topics": list(self.topics)}


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
            self._say_what_is_less(connection)
        finally:
            connection.close()
        return Position(client, self.topics, 0)

    def resume(
        self, known: Position, away: type[ContinuousError]
    ) -> tuple[Position, tuple[str, ...]]:
        """See that the session is there, and subscribes to what the options say.

        :return: also those topics of which nothing was read before, as far as is known.
        :raises OffsetOutOfRangeError: it is not there, and that is an error.
        """
        connection = self._glance(known.client, away)
        is_there = connection.is_resumed
        try:
            if not is_there:
                self._say_lost(known)
            elif dropped := sorted(set(known.topics) - set(self.topics)):
                connection.unsubscribe(dropped)
            connection.subscribe(self.topics, retained=False)
        except OffsetOutOfRangeError:
            # A session that this look has made would hide the loss from the next one.
            connection.close(forget=True)
            raise
        finally:
            connection.close()
        read = known.topics if is_there and known.received else ()
        new = tuple(name for name in self.topics if name not in read)
        return Position(known.client, self.topics, known.received), new

    def open(
        self,
        client: str,
        new: Sequence[str],
        away: type[ContinuousError],
        on_message: Callable[[Any], None],
        on_lost: Callable[[], None],
    ) -> MqttConnection:
        """A connection that the messages come over. Whoever had the session before loses it.

        :param new: topics of which those messages are wanted, too, that the broker keeps: it sends
            them, and does not queue them for who leaves at once, as the driver does.
        """
        connection = MqttConnection(
            self.server,
            client,
            away=away,
            session_s=self.expiry_s,
            receive_max=self.receive_max,
            on_message=on_message,
            on_lost=on_lost,
        )
        if not connection.is_resumed:  # since the driver has looked
            connection.close(forget=True)
            raise away(f"{OWNER}: {self.server.name} has lost the session of {client}.")
        if new and self.retained:
            connection.subscribe(new, retained=True)
        return connection

    def _glance(self, client: str, away: type[ContinuousError]) -> MqttConnection:
        """A connection that reads nothing: what the broker sends meanwhile, it sends again."""
        return MqttConnection(
            self.server, client, away=away, session_s=self.expiry_s, receive_max=1
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
