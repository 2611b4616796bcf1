"""One connection to a broker of MQTT 5, from its beginning to its end.

Source: MQTT 5.0, OASIS; reason codes are those of its section 2.4.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from engine.clients.mqtt import MqttServer
from engine.errors import ConfigError, ContinuousError

CONNECT_S: Final = 5.0
ANSWER_S: Final = 30.0
"""So long the broker may take for an answer."""
END_S: Final = 2.0
"""So long what is still to be sent is waited for at the end."""
KEEP_ALIVE_S: Final = 20
"""After at most twice this time a broker that is silent is noticed, and so are we."""
TAKEN_OVER: Final = 0x8E
TOO_LARGE: Final = 0x95
_NO_SUBSCRIPTION: Final = 0x11
_FAILURE: Final = 0x80
_FOR_PEOPLE: Final = {
    0x84: "The broker does not speak MQTT 5.",
    0x85: "It does not allow this client id: see the option clientIdPrefix.",
    0x86: "See that username and password are right.",
    0x87: "See that username and password are right, and what the broker allows this user.",
    0x8A: "The broker has banned this client.",
    0x8C: "The broker wants another way to log in.",
}
"""What another time would be the same, and what to do about it."""


class MqttConnection:
    """Connected when it was made; whoever makes it closes it. The callbacks are called on a thread
    of its own; if one raises, the connection is lost.

    :param session_s: so long the broker keeps the session when the connection has ended; with 0
        it begins without one and leaves none.
    :param receive_max: so many messages the broker may send that are not acknowledged.
    :param away: the error if there is no answer, or one that another time would not bring.
    :param doubt: what that error says if the broker may have heeded CONNECT all the same.
    :param on_message: gets each message.
    :param on_published: gets packet id and reason code of each message that the broker has taken
        or refused.
    :param on_lost: is called when the connection has ended, whoever has ended it.
    :raises ConfigError: the broker refuses this client.
    :ivar is_resumed: whether the broker had the session.
    :ivar lost: why the connection has ended, for people; None while it has not.
    :ivar lost_code: the broker's reason code for it; 0 if it has given none.
    """

    def __init__(
        self,
        server: MqttServer,
        client_id: str,
        *,
        away: type[ContinuousError],
        session_s: int = 0,
        receive_max: int = 65_535,
        doubt: str = "",
        on_message: Callable[[Any], None] | None = None,
        on_published: Callable[[int, int], None] | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        self._server, self._client_id, self._away = server, client_id, away
        self.is_resumed, self.lost_code = False, 0
        self.lost: str | None = None
        self._said: Any = None
        self._code: Any = None
        self._on_lost = on_lost
        self._connected, self._ended = threading.Event(), threading.Event()
        self._answers: dict[int, Sequence[Any]] = {}
        self._answered = threading.Condition()
        self.client = client = server.client(client_id)
        client.connect_timeout = CONNECT_S
        self._run, client.loop_forever = client.loop_forever, self._watched
        client.on_connect, client.on_disconnect = self._hear_connect, self._hear_end
        client.on_subscribe = client.on_unsubscribe = self._hear_answer
        if on_message is not None:
            client.on_message = lambda _client, _data, message: on_message(message)
        if on_published is not None:
            client.on_publish = lambda _client, _data, mid, code, _said: on_published(
                mid, code.value
            )
        self._connect(session_s, receive_max, doubt)

    def _connect(self, session_s: int, receive_max: int, doubt: str) -> None:
        properties = _properties("CONNECT")
        properties.SessionExpiryInterval = session_s
        properties.ReceiveMaximum = receive_max
        try:
            self.client.connect(
                self._server.host,
                self._server.port,
                KEEP_ALIVE_S,
                clean_start=session_s == 0,
                properties=properties,
            )
        except ssl.SSLCertVerificationError as exc:
            raise ConfigError(
                f"{self._server.owner}: {self._server.name} shows a certificate that is not "
                f"trusted: {exc}.",
                hint="The option caFile names who signs it.",
            ) from exc
        except OSError as exc:
            raise self._no_answer(str(exc)) from exc
        self.client.loop_start()
        if not self._connected.wait(ANSWER_S) or self._code is None:
            self.close()
            raise self._no_answer(f"{self.lost or 'it does not answer'}{doubt}")
        if self._code.value >= _FAILURE:
            self.close()
            if self._code.value in _FOR_PEOPLE:
                raise ConfigError(
                    f"{self._server.owner}: {self._server.name} refuses the client "
                    f"{self._client_id}: {self._code}.",
                    hint=_FOR_PEOPLE[self._code.value],
                )
            raise self._no_answer(str(self._code))

    def allows(self, name: str, default: int) -> int:
        """What the broker has said with its answer: ``ReceiveMaximum``, ``MaximumQoS``."""
        return int(getattr(self._said, name, default))

    def subscribe(self, filters: Sequence[str], *, retained: bool) -> None:
        """Subscribe with QoS 1; again is fine.

        :param retained: have those messages sent that the broker keeps of these topics.
        :raises ConfigError: the broker refuses one.
        """
        from paho.mqtt.subscribeoptions import SubscribeOptions

        how = SubscribeOptions(qos=1, retainAsPublished=True, retainHandling=0 if retained else 2)
        codes = self._ask(self.client.subscribe([(each, how) for each in filters]))
        for name, code in zip(filters, codes, strict=True):
            if code.value >= _FAILURE or code.value == 0:
                raise ConfigError(
                    f"{self._server.owner}: {self._server.name} does not let this user subscribe "
                    f"to {name!r} with QoS 1: {code}.",
                    hint="See the option topics, and what the broker allows.",
                )

    def unsubscribe(self, filters: Sequence[str]) -> list[bool]:
        """Again is fine.

        :return: whether each was subscribed to; of brokers that do not tell always True.
        """
        codes = self._ask(self.client.unsubscribe(list(filters)))
        return [code.value != _NO_SUBSCRIPTION for code in codes]

    def _ask(self, asked: tuple[Any, int | None]) -> Sequence[Any]:
        _, packet = asked
        with self._answered:
            self._answered.wait_for(
                lambda: packet in self._answers or self.lost is not None, ANSWER_S
            )
            if packet is None or packet not in self._answers:
                raise self._no_answer(self.lost or "it does not answer")
            return self._answers.pop(packet)

    def gone(self) -> ContinuousError:
        """The error of a connection that is :attr:`lost`."""
        if self.lost_code == TAKEN_OVER:
            return self._away(
                f"{self._server.owner}: {self._server.name} has given the session of "
                f"{self._client_id} to another client that has this id.",
                hint="A later run of this query has it now. If there is none: a copy of its "
                "checkpoint runs somewhere else, and both want the same messages.",
            )
        return self._no_answer(str(self.lost))

    def _no_answer(self, reason: str) -> ContinuousError:
        return self._away(
            f"{self._server.owner}: {self._server.name} cannot be reached: {reason}.",
            hint="See that the option url names the broker, and that it runs.",
        )

    def close(self, *, forget: bool = False) -> None:
        """End it in order; what was handed to it before is sent, unless the broker does not read.
        Again is fine.

        :param forget: have the broker drop the session.
        """
        properties = None
        if forget:
            properties = _properties("DISCONNECT")
            properties.SessionExpiryInterval = 0
        self.client.disconnect(properties=properties)
        if not self._ended.wait(END_S if self._connected.is_set() else 0.0):
            sock = self.client.socket()
            with contextlib.suppress(OSError):
                if sock is not None:
                    sock.shutdown(socket.SHUT_RDWR)
        self.client.loop_stop()

    # -- called by the client's thread ------------------------------------------------------------

    def _watched(self, *given: Any, **named: Any) -> Any:
        """The client's loop, which may fail on what the broker sends."""
        try:
            return self._run(*given, **named)
        except Exception as exc:
            self._end(f"its answer cannot be read: {type(exc).__name__}: {exc}", 0)

    def _hear_connect(self, client: Any, data: Any, flags: Any, code: Any, said: Any) -> None:
        self._code, self._said = code, said
        self.is_resumed = bool(flags.session_present)
        self._connected.set()

    def _hear_end(self, client: Any, data: Any, flags: Any, code: Any, said: Any) -> None:
        self._end(str(code), code.value if flags.is_disconnect_packet_from_server else 0)

    def _end(self, reason: str, code: int) -> None:
        if self._ended.is_set():
            return
        with self._answered:
            self.lost, self.lost_code = reason, code
            self._answered.notify_all()
        self._connected.set()
        self._ended.set()
        if self._on_lost is not None:
            self._on_lost()

    def _hear_answer(self, client: Any, data: Any, packet: int, codes: Any, said: Any) -> None:
        with self._answered:
            self._answers[packet] = codes if isinstance(codes, list) else [codes]
            self._answered.notify_all()


def _properties(packet: str) -> Any:
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    return Properties(getattr(PacketTypes, packet))
