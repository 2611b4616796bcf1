"""The driver's end of one connection. It never blocks: the server's thread moves it on whenever
its socket is ready."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import ssl
from time import monotonic

from engine.errors import AuthenticationError
from engine.wire import session
from engine.wire.session import Session

OUT_BYTES_MAX = 1 << 18
"""Of what was sent before, so much may wait for a task however long it does not read; its markers
have less than 200 bytes."""
UNREAD_S = 10.0
"""Of more it has to take something within such a time: one message may have many megabytes, as the
files have that the first epoch of Spark's is bound to, and takes a while to be read."""
_READS_MAX = 64
"""After so many pieces it is another connection's turn."""


class Peer:
    """See the module. Used by one thread.

    :param sock: as accepted; this object owns and closes it.
    :param secret: what the peer has to prove.
    :param tls: the driver's end of TLS; None without.
    :param deadline_s: monotonic; by then it has to have proved the secret.
    :raises OSError: it has left already; the socket is the caller's to close.
    :ivar is_proved: it knows the secret.
    """

    def __init__(
        self, sock: socket.socket, secret: bytes, tls: ssl.SSLContext | None, deadline_s: float
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.deadline_s = deadline_s
        self._secret = secret
        self._socket = sock
        self._shaking: ssl.SSLSocket | None = None
        if tls is not None:
            sock.getpeername()  # of one that has left, wrap_socket leaves a socket that is open
            self._shaking = self._socket = tls.wrap_socket(
                sock, server_side=True, do_handshake_on_connect=False
            )
        self._nonce = os.urandom(session.NONCE_BYTES)
        self._answer = b""
        self._session: Session | None = None
        self._out = bytearray()
        self._taken_s = 0.0
        """Monotonic: when the peer last took something that waits, or it began to wait."""
        self._is_write_wanted = False
        if self._shaking is None:
            self._write(self._nonce)

    def fileno(self) -> int:
        """For the selector."""
        return self._socket.fileno()

    @property
    def is_proved(self) -> bool:
        return self._session is not None

    @property
    def wants(self) -> int:
        """What the selector has to look for."""
        writes = self._is_write_wanted or bool(self._out)
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0)

    def advance(self, buffer: memoryview) -> list[bytearray]:
        """Do what can be done without waiting.

        :param buffer: room for what arrives; it can be used again afterwards.
        :return: the payloads that have arrived, in their order.
        :raises EOFError: the peer closed the connection.
        :raises OSError: the connection broke.
        :raises AuthenticationError: the peer does not know the secret, or a frame was forged.
        """
        self._is_write_wanted = False
        if self._shaking is not None:
            if not self._shake(self._shaking):
                return []
            self._shaking = None
            self._write(self._nonce)
        self._flush()
        payloads: list[bytearray] = []
        for _ in range(_READS_MAX):
            if self._session is None:
                wanted = buffer[: session.PROOF_BYTES - len(self._answer)]
            else:
                wanted = buffer
            try:
                count = self._read(wanted)
            except OSError:
                if payloads:
                    break  # what it has said comes first; the selector tells again that it left
                raise
            if count is None:
                break
            if not count:
                if payloads:
                    break
                raise EOFError("The peer closed the connection.")
            if self._session is None:
                self._prove(bytes(wanted[:count]))
            else:
                payloads += self._session.open(wanted[:count])
            if count < len(wanted) and not isinstance(self._socket, ssl.SSLSocket):
                break
        return payloads

    def send(self, payload: bytes) -> None:
        """Send a frame, or keep it until the peer reads. A connection that is broken says so when
        it is read: there may be last words in it.

        :raises OSError: the peer does not read.
        """
        assert self._session is not None
        if len(self._out) > OUT_BYTES_MAX:
            self._flush()  # this thread may have been busy, and not the peer
            if len(self._out) > OUT_BYTES_MAX and monotonic() - self._taken_s > UNREAD_S:
                raise OSError("it does not read what it is sent")
        self._write(self._session.seal(payload) + payload)

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):  # the peer may have been faster
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _shake(self, sock: ssl.SSLSocket) -> bool:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLWantWriteError:
            self._is_write_wanted = True
            return False
        except ssl.SSLError as exc:
            raise AuthenticationError(f"A peer failed the handshake of TLS: {exc}.") from exc
        return True

    def _prove(self, piece: bytes) -> None:
        self._answer += piece
        if len(self._answer) == session.PROOF_BYTES:
            proof = session.driver_proof(self._secret, self._nonce, self._answer)
            task_nonce = self._answer[: session.NONCE_BYTES]
            self._session = Session(self._secret, self._nonce, task_nonce, b"driver")
            self._write(proof)

    def _read(self, buffer: memoryview) -> int | None:
        """None if nothing is there."""
        try:
            return self._socket.recv_into(buffer)
        except ssl.SSLWantWriteError:
            self._is_write_wanted = True
            return None
        except (ssl.SSLWantReadError, BlockingIOError, InterruptedError):
            return None

    def _write(self, data: bytes) -> None:
        self._out += data
        if len(self._out) == len(data):  # nothing was waiting before it
            self._taken_s = monotonic()
            self._flush()

    def _flush(self) -> None:
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
                self._taken_s = monotonic()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError, InterruptedError):
            pass  # the selector tells when there is room
        except OSError:
            self._out.clear()  # there is nobody to read it
