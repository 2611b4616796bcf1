"""Looks twice a second whether a query has to take up other partitions, or tables.

On a thread of its own: a source that asks a broker may take its time, and epochs do not wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from engine.errors import ContinuousError
from engine.redaction.logs import log_failure

logger = logging.getLogger(__name__)
LOOK_EVERY_S = 0.5
STOP_TIMEOUT_S = 5.0


class SourceWatch:
    """One per run. Ends with its first answer.

    :param has_changed: asks.
    :param on_change: it has.
    :param on_error: it could not be told.
    """

    def __init__(
        self,
        has_changed: Callable[[], bool],
        on_change: Callable[[], None],
        on_error: Callable[[ContinuousError], None],
    ) -> None:
        self._has_changed, self._on_change, self._on_error = has_changed, on_change, on_error
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, name="source-watch", daemon=True)

    def start(self) -> None:
        """Begin to look. At once: what has changed while the tasks started is taken up."""
        self._thread.start()

    def stop(self) -> None:
        """No look is under way afterwards, unless it hangs."""
        self._stopped.set()
        if self._thread.ident is None:
            return
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            logger.warning("the source does not tell whether its partitions have changed: it hangs")

    def _look(self) -> None:
        while not self._stopped.is_set():
            try:
                if self._has_changed():
                    self._on_change()
                    return
            except ContinuousError as exc:
                self._on_error(exc)
                return
            except Exception as exc:  # of a cluster that is asked for its slots, for example
                log_failure(logger, "whether partitions have changed cannot be told")
                self._on_error(ContinuousError(f"{type(exc).__name__}: {exc}"))
                return
            self._stopped.wait(LOOK_EVERY_S)
