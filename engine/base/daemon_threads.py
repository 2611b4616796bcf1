"""Threads for what may hang: unlike an executor's, they hold up no end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonThreads:
    """Do what is submitted, in order. Safe to use from several threads.

    :param threads_max: so many at the same time; each is made when there is something for it.
    :param name: theirs.
    """

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max, self._name = threads_max, name
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._asked = 0
        """How many there are; and pieces that are not done yet."""

    def submit(self, do: Callable[[], T]) -> Future[T]:
        """Have something done; what it returns, or raises."""
        future: Future[T] = Future()
        with self._lock:
            self._asked += 1
            self._waiting.put((future, do))
            if self._threads < min(self._asked, self._threads_max):
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            future, do = self._waiting.get()
            if future.set_running_or_notify_cancel():
                try:
                    answer = do()
                except BaseException as exc:
                    future.set_exception(exc)
                else:
                    future.set_result(answer)
            with self._lock:
                self._asked -= 1
            del future, do
