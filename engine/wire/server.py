"""The driver's end of all connections, on one thread.

Who connects has :data:`~engine.wire.session.HANDSHAKE_TIMEOUT_S` to prove the secret, however it
drips, and costs a socket and a few hundred bytes until then. Of those that have not yet, no more
than :data:`UNPROVED_MAX` are kept: the oldest goes for the newest. A task that went so calls again.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from engine.errors import AuthenticationError
from engine.redaction.logs import log_failure
from engine.wire.listening import NO_DESCRIPTORS
from engine.wire.peer import Peer
from engine.wire.session import HANDSHAKE_TIMEOUT_S

logger = logging.getLogger(__name__)
UNPROVED_MAX = 1_024
_ACCEPTS_MAX = 128
"""Then those that are connected have their turn."""
_ACCEPT_PAUSE_S = 0.1
_CLOSE_WAIT_S = 5.0
_REFUSALS_TOLD_EVERY_S = 10.0
_BUFFER = 1 << 18


class PeerListener(Protocol):
    """Hears of the peers, on the server's thread."""

    def on_proved(self, peer: Peer) -> None:
        """A peer has proved the secret; :meth:`Server.send` reaches it from now on."""

    def on_message(self, peer: Peer, message: Any) -> None:
        """In the order in which the peer has sent them."""

    def on_left(self, peer: Peer, reason: str) -> None:
        """A peer that was proved is gone, after all its messages."""

    def on_broken(self, error: Exception) -> None:
        """The server itself has failed, and has dropped everybody."""


class Server:
    """See the module.

    :param socket_: listens; this object owns and closes it.
    :param secret: what peers have to prove.
    :param tls: the driver's end of TLS; None without.
    """

    def __init__(
        self,
        socket_: socket.socket,
        secret: bytes,
        tls: ssl.SSLContext | None,
        listener: PeerListener,
    ) -> None:
        self._listening = socket_
        self._secret = secret
        self._tls = tls
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._buffer = memoryview(bytearray(_BUFFER))
        self._unproved: dict[Peer, None] = {}  # the oldest first
        self._watched: dict[Peer, int] = {}
        self._accepts_again_s: float | None = None
        self._orders: deque[Callable[[], None]] = deque()
        self._waker, self._alarm = socket.socketpair()
        for end in (self._listening, self._waker, self._alarm):
            end.setblocking(False)
        self._is_closing = False
        self._refused = 0
        self._tells_again_s = 0.0
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        self._selector.register(self._alarm, selectors.EVENT_READ, self._wake)
        self._thread = threading.Thread(target=self._serve, name="coordinator-wire", daemon=True)
        self._thread.start()

    def order(self, call: Callable[[], None]) -> None:
        """Have something done on the server's thread, soon. From any thread."""
        self._orders.append(call)
        with contextlib.suppress(OSError):  # it is closed, or has more than enough to wake up for
            self._waker.send(b"\0")

    def send(self, peer: Peer, payload: bytes) -> None:
        """Send a pickled message. On the server's thread."""
        if peer not in self._watched:
            return
        try:
            peer.send(payload)
        except OSError as exc:
            self._drop(peer, f"its connection broke: {exc}")
        else:
            self._watch(peer)

    def stop_listening(self) -> None:
        """Leave the port to others; who is connected stays. From any other thread."""
        is_done = threading.Event()

        def stop() -> None:
            if self._accepts_again_s is None and self._listening.fileno() >= 0:
                self._selector.unregister(self._listening)
            self._accepts_again_s = None
            self._listening.close()
            is_done.set()

        self.order(stop)
        while self._thread.is_alive() and not is_done.wait(_ACCEPT_PAUSE_S):
            pass

    def close(self) -> None:
        """Stop listening and drop everybody. From any thread."""
        self._is_closing = True
        self.order(lambda: None)
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_WAIT_S)

    # -- the thread ---------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while not self._is_closing:
                for key, _ in self._selector.select(self._timeout_s()):
                    if isinstance(key.fileobj, Peer):
                        self._advance(key.fileobj)
                    else:
                        key.data()
                self._carry_out()
                self._end_pause()
                self._drop_late()
            self._carry_out()
        except Exception as exc:
            log_failure(logger, "the wire failed")
            self._listener.on_broken(exc)
        finally:
            self._listening.close()
            for peer in list(self._watched):
                self._drop(peer, "its connection was closed")
            self._selector.close()
            self._waker.close()
            self._alarm.close()

    def _carry_out(self) -> None:
        while self._orders:
            self._orders.popleft()()

    def _timeout_s(self) -> float | None:
        oldest = next(iter(self._unproved), None)
        moments = [] if oldest is None else [oldest.deadline_s]
        if self._accepts_again_s is not None:
            moments.append(self._accepts_again_s)
        return max(min(moments) - time.monotonic(), 0.0) if moments else None

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._alarm.recv(4096):
                pass

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_MAX):
            try:
                sock, _address = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as exc:
                if exc.errno in NO_DESCRIPTORS:
                    logger.warning("a connection was not accepted: %s", exc)
                    self._selector.unregister(self._listening)
                    self._accepts_again_s = time.monotonic() + _ACCEPT_PAUSE_S
                    return
                logger.debug("a peer left the queue: %s", exc)
                continue
            self._welcome(sock)

    def _end_pause(self) -> None:
        if self._accepts_again_s is not None and time.monotonic() >= self._accepts_again_s:
            self._accepts_again_s = None
            self._selector.register(self._listening, selectors.EVENT_READ, self._accept)

    def _welcome(self, sock: socket.socket) -> None:
        deadline_s = time.monotonic() + HANDSHAKE_TIMEOUT_S
        try:
            peer = Peer(sock, self._secret, self._tls, deadline_s)
        except OSError as exc:  # it has left already
            logger.debug("refused a connection: %s", exc)
            sock.close()
            return
        self._watched[peer] = peer.wants
        self._unproved[peer] = None
        self._selector.register(peer, peer.wants)
        if len(self._unproved) > UNPROVED_MAX:
            self._drop(next(iter(self._unproved)), "too many have not proved the secret")

    def _drop_late(self) -> None:
        now_s = time.monotonic()
        while (oldest := next(iter(self._unproved), None)) and oldest.deadline_s <= now_s:
            self._drop(oldest, "it took too long to prove the secret")

    def _advance(self, peer: Peer) -> None:
        if peer not in self._watched:
            return None  # dropped a moment ago
        try:
            payloads = peer.advance(self._buffer)
        except EOFError:
            return self._drop(peer, "its connection was closed")
        except AuthenticationError as exc:
            return self._drop(peer, str(exc))
        except OSError as exc:
            return self._drop(peer, f"its connection broke: {exc}")
        if peer.is_proved and peer in self._unproved:
            del self._unproved[peer]
            self._listener.on_proved(peer)
        for payload in payloads:
            try:
                message = pickle.loads(payload)  # noqa: S301  # its sender has proved the secret
            except BaseException as exc:  # of a class that this process cannot load
                log_failure(logger, "a message cannot be read")
                reason = f"its message cannot be read: {type(exc).__name__}: {exc}"
                return self._drop(peer, reason)
            self._listener.on_message(peer, message)
        if peer in self._watched:
            self._watch(peer)
        return None

    def _watch(self, peer: Peer) -> None:
        wants = peer.wants
        if self._watched[peer] != wants:
            self._watched[peer] = wants
            self._selector.modify(peer, wants)

    def _drop(self, peer: Peer, reason: str) -> None:
        del self._watched[peer]
        self._selector.unregister(peer)
        peer.close()
        if peer in self._unproved:
            del self._unproved[peer]
            self._refused += 1
            now_s = time.monotonic()
            if now_s >= self._tells_again_s:  # a flood must not fill the log
                self._tells_again_s = now_s + _REFUSALS_TOLD_EVERY_S
                logger.warning("refused %d connections, the last: %s", self._refused, reason)
        else:
            self._listener.on_left(peer, reason)
