"""Authenticated messages over TCP between the driver and its tasks.

Both sides hold the run's secret, which travels to the executors inside Spark's own task closure.

::

    driver → task   16 bytes   driver nonce
    task → driver   48 bytes   task nonce, HMAC(secret, "task" + driver nonce + task nonce)
    driver → task   32 bytes   HMAC(secret, "driver" + driver nonce + task nonce)
    then frames, each way:
        4 bytes   length n of the payload, big endian
        32 bytes  HMAC(session key, direction + frame number + payload)
        n bytes   payload: one pickled message

The session key is HMAC(secret, "session" + both nonces); all HMACs are SHA-256. A peer that does
not prove the secret is dropped before anything else that it sent is read, and a frame is unpickled
only after its HMAC was verified; the frame number makes a repeated or reordered frame fail.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import pickle
import socket
import struct
import threading
from typing import Any

import cloudpickle

from engine.errors import AuthenticationError, ProtocolError

_NONCE = 16
_MAC = 32
_HEADER = struct.Struct(">I")
FRAME_BYTES_MAX = 1 << 30
HANDSHAKE_TIMEOUT_S = 10.0


def _mac(key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


class Connection:
    """One authenticated connection. :meth:`send` may be called from several threads,
    :meth:`receive` from one."""

    def __init__(self, sock: socket.socket, session_key: bytes, role: bytes) -> None:
        self._socket = sock
        self._key = session_key
        self._out, self._in = (b"d", b"t") if role == b"driver" else (b"t", b"d")
        self._sent = self._received = 0
        self._send_lock = threading.Lock()

    def send(self, message: Any) -> None:
        """:raises OSError: the connection is gone.
        :raises ProtocolError: the message is too long.
        """
        payload = _pickled(message)
        if len(payload) > FRAME_BYTES_MAX:
            raise ProtocolError(
                f"A message of {len(payload)} bytes is over the limit of {FRAME_BYTES_MAX}.",
                hint="Shorten the epoch, or use a sink that does not ship rows to the driver.",
            )
        with self._send_lock:
            mac = _mac(self._key, self._out, struct.pack(">Q", self._sent), payload)
            self._sent += 1
            self._socket.sendall(_HEADER.pack(len(payload)) + mac + payload)

    def receive(self) -> Any:
        """Wait for the next message.

        :raises EOFError: the peer closed the connection.
        :raises OSError: the connection broke.
        :raises AuthenticationError: a frame was forged or reordered.
        """
        head = _receive_exactly(self._socket, _HEADER.size + _MAC)
        (length,) = _HEADER.unpack(head[: _HEADER.size])
        if length > FRAME_BYTES_MAX:
            raise AuthenticationError("A frame is longer than any message.")
        payload = _receive_exactly(self._socket, length)
        mac = _mac(self._key, self._in, struct.pack(">Q", self._received), payload)
        if not hmac.compare_digest(mac, head[_HEADER.size :]):
            raise AuthenticationError("A frame failed its authentication.")
        self._received += 1
        return pickle.loads(payload)  # noqa: S301  # its sender has proved the run's secret

    def close(self) -> None:
        """End the connection; a waiting :meth:`receive` gets EOFError or OSError."""
        with contextlib.suppress(OSError):  # the peer may have been faster
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _pickled(message: Any) -> bytes:
    try:
        return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        # A class of a notebook's or a script's own: by value, as PySpark sends them.
        return bytes(cloudpickle.dumps(message))


def connect(address: tuple[str, int], secret: bytes) -> Connection:
    """The task's end: connect to the driver and prove the secret.

    :raises OSError: the driver cannot be reached.
    :raises AuthenticationError: the driver does not know the secret, or dropped us.
    """
    sock = socket.create_connection(address, timeout=HANDSHAKE_TIMEOUT_S)
    try:
        driver_nonce = _receive_exactly(sock, _NONCE)
        task_nonce = os.urandom(_NONCE)
        sock.sendall(task_nonce + _mac(secret, b"task", driver_nonce, task_nonce))
        proof = _receive_exactly(sock, _MAC)
        if not hmac.compare_digest(proof, _mac(secret, b"driver", driver_nonce, task_nonce)):
            raise AuthenticationError("The driver failed to prove the secret of this run.")
    except EOFError as exc:
        sock.close()
        raise AuthenticationError("The driver dropped the connection of this task.") from exc
    except BaseException:
        sock.close()
        raise
    return _established(sock, secret, driver_nonce, task_nonce, b"task")


def accept(sock: socket.socket, secret: bytes) -> Connection:
    """The driver's end of a new connection.

    :raises AuthenticationError: the peer does not know the secret; the socket is closed.
    """
    try:
        sock.settimeout(HANDSHAKE_TIMEOUT_S)
        driver_nonce = os.urandom(_NONCE)
        sock.sendall(driver_nonce)
        answer = _receive_exactly(sock, _NONCE + _MAC)
        task_nonce, proof = answer[:_NONCE], answer[_NONCE:]
        if not hmac.compare_digest(proof, _mac(secret, b"task", driver_nonce, task_nonce)):
            raise AuthenticationError("A peer failed to prove the secret of this run.")
        sock.sendall(_mac(secret, b"driver", driver_nonce, task_nonce))
    except (EOFError, OSError) as exc:
        sock.close()
        raise AuthenticationError("A peer left before it proved the secret of this run.") from exc
    except BaseException:
        sock.close()
        raise
    return _established(sock, secret, driver_nonce, task_nonce, b"driver")


def _established(
    sock: socket.socket, secret: bytes, driver_nonce: bytes, task_nonce: bytes, role: bytes
) -> Connection:
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(sock, _mac(secret, b"session", driver_nonce, task_nonce), role)


def _receive_exactly(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = sock.recv(min(count - len(data), 1 << 20))
        if not chunk:
            raise EOFError("The peer closed the connection.")
        data += chunk
    return bytes(data)
