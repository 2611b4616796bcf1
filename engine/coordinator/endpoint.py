"""The driver's end of the wire: one authenticated connection per task."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable

from engine.coordinator.events import Event, TaskLost
from engine.errors import ContinuousError
from engine.messages import Dismissed, DriverMessage, TaskAlive, TaskMessage
from engine.wire import AuthenticationError, Connection, accept

logger = logging.getLogger(__name__)


class Endpoint:
    """Listens for the tasks of one run and delivers what they say, in the order of each task.

    :param host: the address to listen on; executors must reach it. The port is free to choose.
    :param secret: what a task has to prove.
    :param deliver: called on the connection's thread with each message, and with
        :class:`TaskLost` when a connection ends.
    """

    def __init__(self, host: str, secret: bytes, deliver: Callable[[Event], None]) -> None:
        self._secret = secret
        self._deliver = deliver
        self._lock = threading.Lock()
        self._connections: dict[int, Connection] = {}
        self._last_heard: dict[int, float] = {}
        self._closing: str | None = None
        self._listener = socket.create_server((host, 0), backlog=256)
        threading.Thread(target=self._listen, name="coordinator-listen", daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        """Where tasks connect to: (host, port)."""
        host, port = self._listener.getsockname()[:2]
        return host, port

    def broadcast(self, message: DriverMessage) -> None:
        """Tell every connected task. A broken connection is noticed by its own thread."""
        with self._lock:
            connections = list(self._connections.values())
        for connection in connections:
            try:
                connection.send(message)
            except OSError as exc:
                logger.debug("cannot tell a task %s: %s", message, exc)

    def silent(self, seconds: float) -> list[int]:
        """The connected partitions that have said nothing for longer than ``seconds``."""
        limit = time.monotonic() - seconds
        with self._lock:
            return sorted(p for p, heard in self._last_heard.items() if heard < limit)

    def dismiss(self, reason: str) -> None:
        """Tell every task, also one that connects only now, to leave."""
        with self._lock:
            self._closing = reason
        self.broadcast(Dismissed(reason))

    def close(self) -> None:
        """Stop listening and drop all connections."""
        self._closing = self._closing or "the run has ended"
        # Wakes the thread that accepts. Systems that refuse this wake it by close().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._connections.values())
            self._connections.clear()
        for connection in connections:
            connection.close()

    def _listen(self) -> None:
        while True:
            try:
                sock, _peer = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(
                target=self._serve, args=(sock,), name="coordinator-task", daemon=True
            ).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            connection = accept(sock, self._secret)
        except AuthenticationError as exc:
            logger.warning("refused a connection: %s", exc)
            return
        partition = None
        reason = "its connection was closed"
        try:
            while True:
                message: TaskMessage = connection.receive()
                partition = message.partition
                self._hear(partition, connection)
                if not isinstance(message, TaskAlive):
                    self._deliver(message)
        except EOFError:
            pass
        except (OSError, ContinuousError) as exc:
            reason = f"its connection broke: {exc}"
        finally:
            connection.close()
            if partition is not None:
                self._forget(partition, connection)
                self._deliver(TaskLost(partition, reason))

    def _hear(self, partition: int, connection: Connection) -> None:
        with self._lock:
            self._connections.setdefault(partition, connection)
            self._last_heard[partition] = time.monotonic()
            closing = self._closing
        if closing is not None:
            connection.send(Dismissed(closing))

    def _forget(self, partition: int, connection: Connection) -> None:
        with self._lock:
            if self._connections.get(partition) is connection:
                del self._connections[partition]
                self._last_heard.pop(partition, None)
