"""Between clients and a broker of MQTT 5: tells of each UNSUBSCRIBE whether there was such a
subscription, as the standard wants it and HiveMQ does not; and breaks connections off.

Source: MQTT 5.0, OASIS, sections 2.1 and 3.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CONNECT, CONNACK, SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK = 1, 2, 8, 9, 10, 11
_NO_SUBSCRIPTION = 0x11


class MqttProxy:
    """
    :param port: of the broker.
    :ivar breaks: types of packets of the broker, in order: instead of passing the next one of the
        first type on, the connection breaks.
    :ivar is_honest: it corrects what the broker answers to UNSUBSCRIBE.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtt://127.0.0.1:{self._listener.getsockname()[1]}"
        self.breaks: list[int] = []
        self.is_honest = True
        self._subscribed: dict[str, set[str]] = {}
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._run(self._accept)

    def close(self) -> None:
        for each in (self._listener, *self._sockets):
            _shut(each)
        for thread in self._threads:
            thread.join()

    def _run(self, what: object, *given: object) -> None:
        thread = threading.Thread(target=what, args=given)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self._port))
                self._sockets += [client, broker]
                link = _Link(self, client, broker)
                self._run(link.pass_requests)
                self._run(link.pass_answers)

    def subscribed(self, client_id: str) -> set[str]:
        return self._subscribed.setdefault(client_id, set())


class _Link:
    """One connection."""

    def __init__(self, proxy: MqttProxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy, self._client, self._broker = proxy, client, broker
        self._name = ""
        self._codes: dict[bytes, bytes] = {}
        """Of each UNSUBSCRIBE, by its packet id."""

    def pass_requests(self) -> None:
        for head, body in _packets(self._client):
            kind = head[0] >> 4
            if kind == CONNECT:
                at = 10 + _properties(body, 10)
                self._name = _text(body, at)
            elif kind in (SUBSCRIBE, UNSUBSCRIBE):
                known = self._proxy.subscribed(self._name)
                filters = _filters(body, 1 if kind == SUBSCRIBE else 0)
                if kind == SUBSCRIBE:
                    known.update(filters)
                else:
                    self._codes[body[:2]] = bytes(
                        0 if each in known else _NO_SUBSCRIPTION for each in filters
                    )
                    known.difference_update(filters)
            _send(self._broker, head + body)
        _shut(self._broker)

    def pass_answers(self) -> None:
        for head, body in _packets(self._broker):
            kind = head[0] >> 4
            if kind == CONNACK and not body[0] & 1:
                self._proxy.subscribed(self._name).clear()
            if self._proxy.breaks[:1] == [kind]:
                del self._proxy.breaks[0]
                break
            if kind == UNSUBACK and self._proxy.is_honest:
                codes = self._codes.pop(body[:2])
                body = body[: -len(codes)] + codes
            _send(self._client, head + body)
        _shut(self._client)
        _shut(self._broker)


@contextmanager
def mqtt_proxy(port: int) -> Iterator[MqttProxy]:
    """Until the end of the block. :param port: of the broker."""
    proxy = MqttProxy(port)
    try:
        yield proxy
    finally:
        proxy.close()


def _packets(source: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Fixed header and the rest of each, until the connection ends."""
    with contextlib.suppress(OSError), source.makefile("rb") as stream:
        while head := stream.read(1):
            size = shift = 0
            while True:
                byte = stream.read(1)
                if not byte:
                    return
                head += byte
                size |= (byte[0] & 127) << shift
                shift += 7
                if byte[0] < 128:
                    break
            yield head, stream.read(size)


def _properties(body: bytes, at: int) -> int:
    """How many bytes they are, their length included."""
    size = shift = count = 0
    while True:
        byte = body[at + count]
        size |= (byte & 127) << shift
        count, shift = count + 1, shift + 7
        if byte < 128:
            return count + size


def _text(body: bytes, at: int) -> str:
    size = int.from_bytes(body[at : at + 2], "big")
    return body[at + 2 : at + 2 + size].decode()


def _filters(body: bytes, options: int) -> list[str]:
    """:param options: so many bytes are behind each."""
    found, at = [], 2 + _properties(body, 2)
    while at < len(body):
        found.append(_text(body, at))
        at += 2 + len(found[-1].encode()) + options
    return found


def _send(to: socket.socket, packet: bytes) -> None:
    with contextlib.suppress(OSError):
        to.sendall(packet)


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
