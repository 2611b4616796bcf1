"""The driver's end of the wire: who of the tasks is connected, and what they say."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from engine.base.options import ANY_PORT, PortRange
from engine.coordinator.events import Event, RunFailed, TaskLost
from engine.errors import ProtocolError
from engine.wire.connection import Dialing
from engine.wire.listening import bare, listen, make_room
from engine.wire.messages import Dismissed, DriverMessage, TaskAlive, Welcome
from engine.wire.peer import Peer
from engine.wire.server import UNPROVED_MAX, Server
from engine.wire.session import pickled
from engine.wire.tls import driver_context


class Endpoint:
    """Listens for the tasks of one run and delivers what they say, in the order of each task.

    :param host: this machine's address as the executors know it.
    :param deliver: called on the wire's thread with each message, and with :class:`TaskLost` when
        a task's connection ends, after all its messages.
    :param bind_host: the address to listen on, if it is another one.
    :param ports: of which the first free one is taken.
    :param tls: encrypt, too.
    :param tasks: how many will connect.
    :ivar dialing: how tasks reach it; the secret is this endpoint's own.
    :raises ConfigError: it cannot be listened on, or there cannot be so many connections, or the
        package for TLS is missing.
    """

    def __init__(
        self,
        host: str,
        deliver: Callable[[Event], None],
        *,
        bind_host: str | None = None,
        ports: PortRange = ANY_PORT,
        tls: bool = False,
        tasks: int = 1,
    ) -> None:
        self._deliver = deliver
        self._left = threading.Condition()
        self._peers: set[Peer] = set()
        """Those that know the secret."""
        self._heard: dict[Peer, tuple[int, float]] = {}
        """Their partition, and when they have said something for the last time."""
        self._closing: str | None = None
        make_room(tasks, UNPROVED_MAX)
        context, certificate = driver_context() if tls else (None, None)
        listening = listen(bind_host or host, ports)
        secret = secrets.token_bytes(32)
        address = bare(host), int(listening.getsockname()[1])
        self.dialing = Dialing(address, secret, certificate)
        self._server = Server(listening, secret, context, self)

    def broadcast(self, message: DriverMessage) -> None:
        """Tell every connected task, soon. One that does not read what it is sent is dropped."""
        payload = pickled(message)
        self._server.order(lambda: self._send_all(payload))

    def hand_out(self, messages: Mapping[int, DriverMessage]) -> None:
        """Tell connected tasks, by their index, something each, soon: each before whatever is
        broadcast after this call."""
        payloads = {task: pickled(message) for task, message in messages.items()}
        self._server.order(lambda: self._send_some(payloads))

    def silent(self, seconds: float) -> list[int]:
        """The connected partitions that have said nothing for longer than ``seconds``."""
        limit = time.monotonic() - seconds
        with self._left:
            return sorted(p for p, heard_s in self._heard.values() if heard_s < limit)

    def dismiss(self, reason: str, committed: int = -1) -> None:
        """Tell every task, also one that connects only now, to leave.

        :param committed: the last committed epoch.
        """
        self._closing = reason
        self.broadcast(Dismissed(reason, committed))

    def await_left(self, timeout_s: float) -> bool:
        """Wait until no task is connected; whether that is so. All that they have said was
        delivered then."""
        with self._left:
            return self._left.wait_for(lambda: not self._peers, timeout_s)

    def stop_listening(self) -> None:
        """Leave the port to the next run; who is connected stays."""
        self._server.stop_listening()

    def close(self) -> None:
        """Stop listening and drop all connections."""
        self._closing = self._closing or "the run has ended"
        self._server.close()

    # -- on the wire's thread -----------------------------------------------------------------

    def on_proved(self, peer: Peer) -> None:
        """See :class:`engine.wire.server.PeerListener`."""
        with self._left:
            self._peers.add(peer)
        closing = self._closing
        self._server.send(peer, pickled(Welcome() if closing is None else Dismissed(closing)))

    def on_message(self, peer: Peer, message: Any) -> None:
        """See :class:`engine.wire.server.PeerListener`."""
        partition: int = message.partition
        with self._left:
            self._heard[peer] = partition, time.monotonic()
        if not isinstance(message, TaskAlive):
            self._deliver(message)

    def on_left(self, peer: Peer, reason: str) -> None:
        """See :class:`engine.wire.server.PeerListener`."""
        if peer in self._heard:
            self._deliver(TaskLost(self._heard[peer][0], reason))
        with self._left:
            self._heard.pop(peer, None)
            self._peers.discard(peer)
            self._left.notify_all()

    def on_broken(self, error: Exception) -> None:
        """See :class:`engine.wire.server.PeerListener`."""
        self._deliver(RunFailed(ProtocolError(f"The wire failed: {type(error).__name__}: {error}")))

    def _send_some(self, payloads: Mapping[int, bytes]) -> None:
        with self._left:
            found = {peer: task for peer, (task, _) in self._heard.items()}
        for peer, task in found.items():
            if task in payloads:
                self._server.send(peer, payloads[task])

    def _send_all(self, payload: bytes) -> None:
        for peer in list(self._peers):
            self._server.send(peer, payload)
