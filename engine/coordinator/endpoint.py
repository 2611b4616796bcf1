"""The driver's end of the wire: one authenticated connection per task."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable

from engine.base.redaction import log_failure
from engine.coordinator.events import Event, TaskLost
from engine.errors import AuthenticationError, ConfigError
from engine.wire.connection import Connection, accept
from engine.wire.messages import Dismissed, DriverMessage, TaskAlive, TaskMessage, Welcome

logger = logging.getLogger(__name__)
_ACCEPT_PAUSE_S = 0.1


class Endpoint:
    """Listens for the tasks of one run and delivers what they say, in the order of each task.

    :param host: this machine's address as the executors know it.
    :param secret: what a task has to prove.
    :param deliver: called on the connection's thread with each message, and with
        :class:`TaskLost` when a connection ends.
    :param bind_host: the address to listen on, if it is another one.
    :raises ConfigError: it cannot be listened on.
    """

    def __init__(
        self,
        host: str,
        secret: bytes,
        deliver: Callable[[Event], None],
        bind_host: str | None = None,
    ) -> None:
        self._host = host
        self._secret = secret
        self._deliver = deliver
        self._lock = threading.Lock()
        self._left = threading.Condition(self._lock)
        self._connections: dict[int, Connection] = {}
        self._unnamed: set[Connection] = set()
        self._last_heard: dict[int, float] = {}
        self._closing: str | None = None
        self._pause = threading.Event()
        try:
            self._listener = socket.create_server((bind_host or host, 0), backlog=256)
        except OSError as exc:
            raise ConfigError(
                f"The coordinator cannot listen on {bind_host or host}: {exc}.",
                hint="Set spark.driver.bindAddress to an address of this machine, and "
                "spark.driver.host to one that the executors reach.",
            ) from exc
        self._port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._listen, name="coordinator-listen", daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        """Where tasks connect to: (host, port)."""
        return self._host, self._port

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

    def await_left(self, timeout_s: float) -> bool:
        """Wait until no task is connected; whether that is so. All that they have said was
        delivered then."""
        with self._left:
            return self._left.wait_for(
                lambda: not self._connections and not self._unnamed, timeout_s
            )

    def close(self) -> None:
        """Stop listening and drop all connections."""
        self._closing = self._closing or "the run has ended"
        self._pause.set()
        # Wakes the thread that accepts. Systems that refuse this wake it by close().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = [*self._connections.values(), *self._unnamed]
            self._connections.clear()
        for connection in connections:
            connection.close()

    def _listen(self) -> None:
        while True:
            try:
                sock, _peer = self._listener.accept()
            except OSError as exc:
                if self._closing is not None:
                    return
                # A peer that left the queue, or no file descriptor: the next one may get in.
                logger.warning("a connection was not accepted: %s", exc)
                self._pause.wait(_ACCEPT_PAUSE_S)
                continue
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
        with self._lock:
            self._unnamed.add(connection)
            late, closing = self._pause.is_set(), self._closing
        if late:
            connection.close()
        try:
            connection.send(Welcome() if closing is None else Dismissed(closing))
            while True:
                message: TaskMessage = connection.receive()
                partition = message.partition
                self._hear(partition, connection)
                if not isinstance(message, TaskAlive):
                    self._deliver(message)
        except EOFError:
            pass
        except OSError as exc:
            reason = f"its connection broke: {exc}"
        except Exception as exc:  # forged, or of a class that this process cannot load
            log_failure(logger, "a message of partition %s cannot be read", partition)
            reason = f"its message cannot be read: {type(exc).__name__}: {exc}"
        finally:
            connection.close()
            if partition is not None:
                self._deliver(TaskLost(partition, reason))
            self._forget(partition, connection)

    def _hear(self, partition: int, connection: Connection) -> None:
        with self._lock:
            self._unnamed.discard(connection)
            self._connections.setdefault(partition, connection)
            self._last_heard[partition] = time.monotonic()
            closing = self._closing
        if closing is not None:
            connection.send(Dismissed(closing))

    def _forget(self, partition: int | None, connection: Connection) -> None:
        with self._left:
            self._unnamed.discard(connection)
            if partition is not None and self._connections.get(partition) is connection:
                del self._connections[partition]
                self._last_heard.pop(partition, None)
            self._left.notify_all()
