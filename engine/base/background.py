"""Work that nobody waits for, done in order on one thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from engine.redaction.logs import log_failure

logger = logging.getLogger(__name__)


class Later(Protocol):
    """Does a piece of work, now or soon."""

    def __call__(self, kind: str, work: Callable[[], None]) -> None:
        """:param kind: of work that was not begun yet, only the last piece of a kind is done."""


def at_once(kind: str, work: Callable[[], None]) -> None:
    """Do it before this returns."""
    work()


def not_at_all(kind: str, work: Callable[[], None]) -> None:
    """Leave it undone: for what must not clean up behind itself."""


class Background:
    """A thread that does what it is given, in order. So it is never behind by more than one piece
    of each kind. A piece that raises is logged. Callable as :class:`Later`, from any thread.

    :param name: the thread's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: dict[str, Callable[[], None]] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def __call__(self, kind: str, work: Callable[[], None]) -> None:
        with self._changed:
            assert not self._closed, f"{kind} comes after the end"
            self._waiting[kind] = work
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self, timeout_s: float) -> bool:
        """Take nothing more, and wait until all is done; False if it takes longer than that. What
        was not begun by then never is."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout_s)
        with self._changed:
            self._waiting.clear()
        return not thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting) or self._closed)
                if not self._waiting:
                    return
                kind = next(iter(self._waiting))
                work = self._waiting.pop(kind)
            try:
                work()
            except BaseException:  # SystemExit of a user's function, too: nobody else hears it
                log_failure(logger, "%s failed", kind)
