"""A part of a cluster that looks at everything again and again, in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

PERIOD_S = 0.1


class Looking(ABC):
    """Its thread begins with :meth:`begin`, and ends with :meth:`stop`."""

    def __init__(self, name: str) -> None:
        self._error: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def look(self) -> None:
        """Look once, and do what is next."""

    @abstractmethod
    def end_all(self) -> None:
        """End what it has started."""

    def begin(self) -> None:
        """Look, from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End all.

        :raises BaseException: what has ended its thread before.
        """
        self._stopped.set()
        self._thread.join()
        self.end_all()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stopped.wait(PERIOD_S):
                self.look()
        except BaseException as error:  # for whoever stops it
            self._error = error
