"""A task's end of the wire: sends reports, and knows which epochs the driver has closed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from engine.wire.connection import Connection
from engine.wire.messages import (
    Address,
    Dismissed,
    DriverMessage,
    EpochMarker,
    HandedOut,
    TaskMessage,
    Wiring,
)

NEVER = -1


class TaskDismissed(BaseException):
    """The driver told us to leave. Not an Exception: a writer must not swallow it."""


class Channel:
    """Receives on a thread of its own; the task looks at the attributes between two batches.

    :ivar closed_epoch: the newest epoch that the driver has closed, -1 before the first.
    :ivar committed_epoch: the newest epoch that the driver has told to be committed.
    :ivar final_epoch: the epoch after which the task ends, None if it goes on.
    :ivar wiring: where other tasks take rows; None before it was told.
    :ivar on_word: called, on the channel's thread, when one of these has changed.
    :ivar on_work: called with what was handed out to the task's partitions: at once, or if the
        driver had closed an epoch before by :meth:`take_marker` of that.
    :ivar dismissed: why the task must leave at once, None while it may stay.
    """

    def __init__(
        self, connection: Connection, *, alive: Callable[[], TaskMessage], heartbeat_s: float
    ) -> None:
        self.closed_epoch = NEVER
        self.committed_epoch = NEVER
        self.final_epoch: int | None = None
        self._markers: dict[int, EpochMarker] = {}
        self._later: deque[tuple[int, Mapping[int, Any]]] = deque()
        """What was handed out behind a marker that is not taken: the epoch of that, and what."""
        self._in_order = threading.Lock()
        """Held while markers or works are taken."""
        self.wiring: Mapping[int, tuple[Address, ...]] | None = None
        self.dismissed: str | None = None
        self.on_word: Callable[[], None] = lambda: None
        self.on_work: Callable[[Mapping[int, Any]], None] = lambda work: None
        self._connection = connection
        self._alive = alive
        self._heartbeat_s = heartbeat_s
        self._closed = threading.Event()
        self._word = threading.Event()
        for target in (self._receive, self._say_alive):
            threading.Thread(target=target, name=f"task-{target.__name__}", daemon=True).start()

    def send(self, message: TaskMessage) -> None:
        """Send to the driver. A broken connection dismisses the task instead of raising: the
        driver is gone or has already noticed."""
        try:
            self._connection.send(message)
        except OSError as exc:
            self.dismissed = self.dismissed or f"the driver cannot be reached: {exc}"

    def await_word(self, timeout_s: float) -> None:
        """Wait until the driver says something, but for no longer than so. May return for what was
        said before: look at the attributes."""
        self._word.wait(timeout_s)
        self._word.clear()

    def take_marker(self, epoch: int) -> EpochMarker | None:
        """That of the epoch, if the driver has closed it; it and those before are forgotten."""
        with self._in_order:
            marker = self._markers.get(epoch)
            for old in [each for each in self._markers if each <= epoch]:
                del self._markers[old]
            while self._later and self._later[0][0] <= epoch:
                self.on_work(self._later.popleft()[1])
        return marker

    def leave(self, reason: str) -> None:
        """Have the task leave as if the driver had said so. From any thread."""
        self.dismissed = self.dismissed or reason
        self._tell()

    def close(self) -> None:
        """End the connection and the threads."""
        self._closed.set()
        self._connection.close()

    def _receive(self) -> None:
        try:
            while True:
                self._take(self._connection.receive())
                self._tell()
        except Exception as exc:  # closed, broken, forged or unreadable: all are its end
            self.dismissed = self.dismissed or f"the driver is gone: {exc}"
            self._tell()

    def _tell(self) -> None:
        self._word.set()
        self.on_word()

    def _take(self, message: DriverMessage) -> None:
        if isinstance(message, EpochMarker):
            if message.final:
                self.final_epoch = message.epoch
            self.committed_epoch = max(self.committed_epoch, message.committed)
            with self._in_order:
                self._markers[message.epoch] = message
            self.closed_epoch = max(self.closed_epoch, message.epoch)
        elif isinstance(message, Wiring):
            self.wiring = message.addresses
        elif isinstance(message, HandedOut):
            with self._in_order:
                if self._markers:
                    self._later.append((max(self._markers), message.work))
                else:
                    self.on_work(message.work)
        elif isinstance(message, Dismissed):
            self.committed_epoch = max(self.committed_epoch, message.committed)
            self.dismissed = message.reason

    def _say_alive(self) -> None:
        while not self._closed.wait(self._heartbeat_s) and self.dismissed is None:
            self.send(self._alive())
