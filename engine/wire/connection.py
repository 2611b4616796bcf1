"""The task's end of the wire: connects to the driver, and sends and receives messages."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from engine.errors import AuthenticationError
from engine.wire import session
from engine.wire.listening import host_and_port
from engine.wire.session import Session
from engine.wire.silence import ask_when_silent, give_up_sending
from engine.wire.tls import task_context

PATIENCE_S = 30.0
"""A driver that drops us before it has heard the proof may only be busy with others."""
_PAUSE_MAX_S = 0.5
_CHUNK = 1 << 18
_JOINED_MAX = 1 << 16
_PIECE = 1 << 20
_POLL_MS = 1_000
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Dialing:
    """All that a task needs to reach its driver.

    :param address: (host, port).
    :param secret: what both sides prove to each other.
    :param certificate: the driver's, as PEM; None without TLS.
    """

    address: tuple[str, int]
    secret: bytes = field(repr=False)
    certificate: str | None = field(default=None, repr=False)


class Connection:
    """One authenticated connection. :meth:`send` and :meth:`close` may be called from several
    threads, :meth:`receive` from one.

    The socket does not block, and waiting is done outside of the lock: an SSL socket must not be
    used by two threads at once.
    """

    def __init__(self, sock: socket.socket, established: Session) -> None:
        self._socket = sock
        self._session = established
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._arrived: deque[bytearray] = deque()
        self._buffer = memoryview(bytearray(_CHUNK))
        self._is_closed = False
        sock.setblocking(False)

    def fileno(self) -> int:
        """Readable when :meth:`receive` has something to read."""
        return self._socket.fileno()

    def send(self, message: Any) -> None:
        """:raises OSError: the connection is gone.
        :raises ProtocolError: the message is too long.
        """
        self.send_frame(session.pickled(message))

    def send_frame(self, *parts: bytes | memoryview) -> None:
        """Send a frame of bytes, given in parts.

        :raises OSError: the connection is gone.
        :raises ProtocolError: it is too long.
        """
        with self._send_lock:
            head = self._session.seal(*parts)
            if sum(map(len, parts)) <= _JOINED_MAX:
                self._send_all(b"".join((head, *parts)))
            else:  # no second copy of what is large
                self._send_all(head)
                for part in parts:
                    self._send_all(part)

    def receive(self) -> Any:
        """Wait for the next message.

        :raises EOFError: the peer closed the connection.
        :raises OSError: the connection broke.
        :raises AuthenticationError: a frame was forged or reordered.
        """
        while not self._arrived:
            count = self._try(partial(self._socket.recv_into, self._buffer), select.POLLIN)
            if not count:
                raise EOFError("The peer closed the connection.")
            self._arrived += self._session.open(self._buffer[:count])
        return pickle.loads(self._arrived.popleft())  # noqa: S301  # its sender knows the secret

    def close(self) -> None:
        """End the connection; a waiting :meth:`receive` gets EOFError or OSError."""
        with self._lock:
            self._is_closed = True
            with contextlib.suppress(OSError):  # the peer may have been faster
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()

    @property
    def own_host(self) -> str:
        """The address of this machine by which it reaches the peer."""
        return str(self._socket.getsockname()[0])

    def _send_all(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            piece = view[:_PIECE]  # TLS takes a piece whole, or wants the same one again
            view = view[self._try(partial(self._socket.send, piece), select.POLLOUT) :]

    def _try(self, call: Callable[[], _Result], ready: int) -> _Result:
        """Call until it does not have to wait."""
        while True:
            with self._lock:
                if self._is_closed:
                    raise OSError("The connection was closed.")
                descriptor = self._socket.fileno()
                try:
                    return call()
                except ssl.SSLWantReadError:
                    wanted = select.POLLIN
                except ssl.SSLWantWriteError:
                    wanted = select.POLLOUT
                except (BlockingIOError, InterruptedError):
                    wanted = ready
            waiting = select.poll()
            waiting.register(descriptor, wanted)
            waiting.poll(_POLL_MS)  # in pieces: the number may be another file's after a close


def connect(
    dialing: Dialing, patience_s: float = PATIENCE_S, silence_max_s: float | None = None
) -> Connection:
    """The task's end: connect to the driver and prove the secret.

    :param patience_s: so long a driver is called again that drops us.
    :param silence_max_s: the connection breaks when the other machine has taken nothing that was
        sent for so long; None: as the system has it, see :mod:`engine.wire.silence`.
    :raises OSError: the driver cannot be reached.
    :raises AuthenticationError: the driver does not know the secret, or dropped us.
    """
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            return _call(dialing, silence_max_s)
        except (EOFError, TimeoutError, ConnectionResetError, BrokenPipeError) as exc:
            if time.monotonic() >= deadline_s:
                raise AuthenticationError(
                    f"The driver at {host_and_port(*dialing.address)} dropped the connection of "
                    f"this task: {exc}",
                    hint="The task may belong to a run that has ended.",
                ) from exc
        # Not all at once: the others were dropped at the same moment.
        threading.Event().wait(random.uniform(0, _PAUSE_MAX_S))  # noqa: S311


def _call(dialing: Dialing, silence_max_s: float | None) -> Connection:
    deadline_s = time.monotonic() + session.HANDSHAKE_TIMEOUT_S
    sock = socket.create_connection(dialing.address, timeout=session.HANDSHAKE_TIMEOUT_S)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ask_when_silent(sock)
        if silence_max_s is not None:
            give_up_sending(sock, silence_max_s)
        if dialing.certificate is not None:
            sock = _secured(sock, dialing.certificate)
        driver_nonce = _receive_exactly(sock, session.NONCE_BYTES, deadline_s)
        task_nonce = os.urandom(session.NONCE_BYTES)
        sock.sendall(session.task_proof(dialing.secret, driver_nonce, task_nonce))
        proof = _receive_exactly(sock, session.MAC_BYTES, deadline_s)
        session.check_driver(dialing.secret, driver_nonce, task_nonce, proof)
        return Connection(sock, Session(dialing.secret, driver_nonce, task_nonce, b"task"))
    except BaseException:
        sock.close()
        raise


def _secured(sock: socket.socket, certificate: str) -> ssl.SSLSocket:
    try:
        return task_context(certificate).wrap_socket(sock)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as exc:
        raise EOFError("The peer closed the connection.") from exc
    except ssl.SSLError as exc:
        raise AuthenticationError(f"The driver is not the one of this run: {exc}.") from exc


def _receive_exactly(sock: socket.socket, count: int, deadline_s: float) -> bytes:
    data = b""
    while len(data) < count:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the driver does not answer")
        sock.settimeout(left_s)
        chunk = sock.recv(count - len(data))
        if not chunk:
            raise EOFError("The peer closed the connection.")
        data += chunk
    return data
