"""Looks twice a second whether a query has to take up other partitions.

On a thread of its own: a source that asks a broker may take its time, and epochs do not wait. It
may hang as well, which is told, and the end does not wait for that; but it is asked by one thread
at a time, also while the watch of an earlier run still hangs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from engine.base.clock import Clock
from engine.errors import ContinuousError
from engine.redaction.logs import log_failure

logger = logging.getLogger(__name__)
LOOK_EVERY_S: Final = 0.5
HANGS_AFTER_S: Final = 1.0
"""An answer that takes longer is not waited for at the end."""
LATE_AFTER_S: Final = 30.0
"""An answer that takes longer is told meanwhile."""


class SourceWatch:
    """One per run. Ends with its first answer.

    :param has_changed: asks.
    :param on_change: it has.
    :param on_error: it could not be told.
    :param asking: held while the source is asked; one for all runs of a query.
    """

    def __init__(
        self,
        has_changed: Callable[[], bool],
        on_change: Callable[[], None],
        on_error: Callable[[ContinuousError], None],
        asking: threading.Lock,
        clock: Clock,
    ) -> None:
        self._has_changed, self._on_change, self._on_error = has_changed, on_change, on_error
        self._asking = asking
        self._clock = clock
        self._asked_s: float | None = None  # since then there is no answer
        self._is_late = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="source-watch", daemon=True)

    def start(self) -> None:
        """Begin to look. At once: what has changed while the tasks started is taken up."""
        self._thread.start()

    def look(self, now_s: float) -> None:
        """Say, once, that an answer takes long.

        :param now_s: monotonic.
        """
        asked_s = self._asked_s
        if asked_s is None or self._is_late or now_s - asked_s < LATE_AFTER_S:
            return
        self._is_late = True
        logger.warning(
            "the source has not told for %g s whether its partitions have changed: new ones are "
            "not taken up before it does",
            now_s - asked_s,
        )

    def stop(self) -> None:
        """Ask no more, and tell nothing more. Does not wait."""
        self._stopped.set()

    def await_stopped(self) -> None:
        """After :meth:`stop`: nobody asks any more, unless the source hangs."""
        asked_s = self._asked_s
        if asked_s is None:
            return
        self._thread.join(max(0.0, asked_s + HANGS_AFTER_S - self._clock.monotonic_s()))
        if self._thread.is_alive():
            logger.warning("the source does not tell whether its partitions have changed: it hangs")

    def _watch(self) -> None:
        while not self._stopped.is_set():
            if self._asking.acquire(timeout=LOOK_EVERY_S):
                # In this order: who has stopped it then sees a question, or there is none.
                self._asked_s = self._clock.monotonic_s()
                try:
                    if not self._stopped.is_set() and self._has_answered():
                        return
                finally:
                    self._asked_s = None
                    self._asking.release()
            self._stopped.wait(LOOK_EVERY_S)

    def _has_answered(self) -> bool:
        """Ask, and tell what there is to be told."""
        error = None
        try:
            if not self._has_changed():
                return False
        except ContinuousError as exc:
            error = exc
        except Exception as exc:  # of a cluster that is asked for its slots, for example
            log_failure(logger, "whether partitions have changed cannot be told")
            error = ContinuousError(f"{type(exc).__name__}: {exc}")
        if self._stopped.is_set():
            return True
        if error is None:
            self._on_change()
        else:
            self._on_error(error)
        return True
