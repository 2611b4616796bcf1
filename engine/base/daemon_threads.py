"""Threads for what may hang: unlike an executor's, they hold up no end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonThreads:
    """Do what is submitted, in order. Safe to use from several threads. As a context manager it
    lets its threads go at the end: what was not begun by then never is.

    :param threads_max: so many at the same time; each is made when there is something for it.
    :param name: theirs.
    """

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max, self._name = threads_max, name
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._asked = 0
        """How many there are; and pieces that are not done yet."""
        self._is_closed = False

    def __enter__(self) -> DaemonThreads:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        self._waiting.put(None)

    def submit(self, do: Callable[[], T]) -> Future[T]:
        """Have something done; what it returns, or raises.

        :raises RuntimeError: the process can have no thread, and there is none here to wait for;
            it is not done.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._threads < min(self._asked + 1, self._threads_max):
                self._add_thread()
            self._asked += 1
            self._waiting.put((future, do))
        return future

    def _add_thread(self) -> None:
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError:
            if self._threads:
                return
            raise
        self._threads += 1

    def _work(self) -> None:
        while True:
            piece = self._waiting.get()
            if piece is None:
                self._waiting.put(None)  # for the next one
                return
            future, do = piece
            if self._is_closed:
                future.cancel()
            if future.set_running_or_notify_cancel():
                try:
                    answer = do()
                except BaseException as exc:
                    future.set_exception(exc)
                else:
                    future.set_result(answer)
            with self._lock:
                self._asked -= 1
            del piece, future, do


def together(looks: Sequence[Callable[[], T]], at_once_max: int) -> list[T]:
    """What independent calls return, in their order, so many of them at the same time.

    :raises Exception: what the first of them that fails raises; none is under way any more. An
        interrupt waits for none.
    """
    if min(len(looks), at_once_max) < 2:
        return [look() for look in looks]
    with DaemonThreads(at_once_max, "together") as threads:
        asked = [threads.submit(look) for look in looks]
        try:
            return [each.result() for each in asked]
        except Exception:
            wait([each for each in asked if not each.cancel()])
            raise
