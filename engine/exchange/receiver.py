"""What a task gets from those of other stages: their connections, and the epochs aligned.

All sockets belong to the task's own thread, which looks at them when it wants rows: nothing is
handed from one thread to another. A sender whose end of the epoch has arrived is not read before
the others' have; its rows wait in the network, and it waits with them.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from engine.errors import AuthenticationError, PeerLostError, ProtocolError
from engine.exchange.alignment import Alignment, EpochEnd
from engine.exchange.frames import Place, item_of, sender_of
from engine.wire.listening import NO_DESCRIPTORS, make_room
from engine.wire.peer import Peer
from engine.wire.session import HANDSHAKE_TIMEOUT_S
from engine.wire.silence import ask_when_silent

_BUFFER: Final = 1 << 18
_BACKLOG: Final = 1_024
_UNPROVED_MAX: Final = 1_024
LOOK_BYTES_MAX: Final = 1 << 26
"""About so much is taken at once, of all senders together; what is more waits in the network."""


class Receiver:
    """See the module. Used by one thread, but for :meth:`interrupt`.

    :param host: where to listen, an address of this machine.
    :param secret: of the run: what senders prove.
    :param tls: this end of TLS; None without.
    :param senders: every task that will send, and which side of the input its rows are.
    :param schemas: of each side.
    :raises OSError: it cannot be listened on.
    :raises ConfigError: there cannot be so many connections.
    """

    def __init__(
        self,
        host: str,
        secret: bytes,
        tls: ssl.SSLContext | None,
        senders: Mapping[Place, int],
        schemas: Sequence[pa.Schema],
    ) -> None:
        make_room(len(senders), 0)
        self._secret, self._tls = secret, tls
        self._sides, self._schemas = senders, schemas
        self._alignment: Alignment[Place, pa.RecordBatch] = Alignment(senders)
        self._selector = selectors.DefaultSelector()
        self._buffer = memoryview(bytearray(_BUFFER))
        self._waker, self._alarm = socket.socketpair()
        self._alarm.setblocking(False)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, 0), family=family, backlog=_BACKLOG)
        self._listening.setblocking(False)
        self._unknown: dict[Peer, None] = {}
        """Those who have not said who they are, the oldest first; some have proved the secret."""
        self._peers: dict[Place, Peer] = {}
        self._senders: dict[Peer, Place] = {}
        self._watched: dict[Peer, int] = {}
        self._is_final = False
        self._turn = 0
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._selector.register(self._alarm, selectors.EVENT_READ)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listening.getsockname()[1])

    def read(self, timeout_s: float) -> list[tuple[int, pa.RecordBatch]]:
        """What has arrived of the present epoch, with its side; waits for something if there is
        nothing, but no longer than so, and not once the epoch is over.

        :raises PeerLostError: a sender is gone.
        :raises ProtocolError: a sender says what it must not.
        :raises OSError: a sender calls, and this process may open no more files.
        """
        self._look(0.0)
        taken = self._alignment.take()
        if not taken and self.end is None:
            self._look(timeout_s)
            taken = self._alignment.take()
        return [(self._sides[sender], batch) for sender, batch in taken]

    @property
    def end(self) -> EpochEnd | None:
        """How the present epoch has ended, once all its rows were read."""
        return self._alignment.end

    def go_on(self) -> None:
        """Begin with the next epoch; the present one is over."""
        end = self._alignment.end
        self._is_final = end is not None and end.final
        self._alignment.go_on()
        self._watch()

    def interrupt(self) -> None:
        """Have a waiting :meth:`read` return. From any thread."""
        with contextlib.suppress(OSError):  # closed, or there is a byte already
            self._waker.send(b"\0")

    def close(self) -> None:
        """Drop everybody."""
        for peer in [*self._unknown, *self._peers.values()]:
            peer.close()
        for each in (self._listening, self._waker, self._alarm):
            each.close()
        self._selector.close()

    # -- sockets ----------------------------------------------------------------------------------

    def _look(self, timeout_s: float) -> None:
        ready, left = self._selector.select(timeout_s), LOOK_BYTES_MAX
        first = self._turn % max(len(ready), 1)
        for key, _ in [*ready[first:], *ready[:first]]:
            if left <= 0:  # the others have their turn next time
                break
            self._turn += 1
            if key.fileobj is self._listening:
                self._accept()
            elif key.fileobj is self._alarm:
                with contextlib.suppress(BlockingIOError):
                    while self._alarm.recv(64):
                        pass
            else:
                assert isinstance(key.fileobj, Peer)
                left -= self._advance(key.fileobj)
        if self._unknown:
            self._drop_silent()

    def _accept(self) -> None:
        try:
            sock, _ = self._listening.accept()
        except OSError as exc:
            if exc.errno in NO_DESCRIPTORS:
                raise
            return  # it has left again
        try:
            # It has nothing to say for hours, perhaps, and the driver, to whom it talks, may reach
            # it though we do not.
            ask_when_silent(sock)
            peer = Peer(sock, self._secret, self._tls, time.monotonic() + HANDSHAKE_TIMEOUT_S)
        except OSError:  # likewise
            sock.close()
            return
        self._unknown[peer] = None
        self._watch_peer(peer, peer.wants)
        unproved = self._unproved
        if len(unproved) > _UNPROVED_MAX:
            self._drop(unproved[0])

    def _advance(self, peer: Peer) -> int:
        """How many bytes have come."""
        try:
            payloads = peer.advance(self._buffer)
        except (EOFError, OSError, AuthenticationError) as exc:
            self._leave(peer, exc)
            return 0
        sender = self._senders.get(peer)
        for payload in payloads:
            if sender is None:
                sender = self._introduce(peer, sender_of(payload))
            else:
                schema = self._schemas[self._sides[sender]]
                self._alignment.arrived(sender, item_of(payload, schema))
        self._watch_peer(peer, peer.wants if sender is None else self._wanted(sender, peer))
        return sum(map(len, payloads))

    def _introduce(self, peer: Peer, sender: Place) -> Place:
        if sender not in self._sides or sender in self._peers:
            raise ProtocolError(f"The {sender} sends rows here, and is not expected.")
        del self._unknown[peer]
        self._peers[sender], self._senders[peer] = peer, sender
        return sender

    def _leave(self, peer: Peer, error: Exception) -> None:
        sender = self._senders.get(peer)
        self._drop(peer)
        if sender is not None and not self._is_final and not self._has_ended(sender):
            raise PeerLostError(f"{str(sender).capitalize()}, which sends rows, is gone: {error}")

    def _has_ended(self, sender: Place) -> bool:
        """Whether the last that it has sent was the end of the final epoch."""
        last = self._alignment.newest(sender)
        return isinstance(last, EpochEnd) and last.final

    def _wanted(self, sender: Place, peer: Peer) -> int:
        return peer.wants if self._alignment.is_wanted(sender) else 0

    def _watch(self) -> None:
        for sender, peer in self._peers.items():
            self._watch_peer(peer, self._wanted(sender, peer))

    def _watch_peer(self, peer: Peer, wants: int) -> None:
        known = self._watched.get(peer, 0)
        if wants == known:
            return
        self._watched[peer] = wants
        if not wants:
            self._selector.unregister(peer)
        elif known:
            self._selector.modify(peer, wants)
        else:
            self._selector.register(peer, wants)

    def _drop(self, peer: Peer) -> None:
        self._watch_peer(peer, 0)
        self._watched.pop(peer, None)
        self._unknown.pop(peer, None)
        if (sender := self._senders.pop(peer, None)) is not None:
            del self._peers[sender]
        peer.close()

    def _drop_silent(self) -> None:
        now_s = time.monotonic()
        for peer in self._unproved:
            if peer.deadline_s < now_s:
                self._drop(peer)

    @property
    def _unproved(self) -> list[Peer]:
        return [peer for peer in self._unknown if not peer.is_proved]
