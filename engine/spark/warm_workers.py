"""The Python workers of a standby: kept warm, so that its first epoch need not wait for them."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from engine.base.clock import Clock, SystemClock
from engine.errors import ContinuousError
from engine.redaction.logs import log_failure
from engine.spark.executor_launcher import SparkLauncher

logger = logging.getLogger(__name__)
_AGAIN_S: Final = 30.0
"""Spark ends Python workers that are idle for a minute."""
_END_S: Final = 5.0
_END_AGAIN_S: Final = 0.5


class WarmWorkers:
    """Warms them on a thread of its own: what warms them is a job of Spark's, which waits without
    an end for an executor that hangs or does not come, and its standby has a lease to watch.

    :param launcher: of the query to be.
    :param parts: see :meth:`engine.spark.executor_launcher.SparkLauncher.warm_up`.
    """

    def __init__(self, launcher: SparkLauncher, parts: object, clock: Clock | None = None) -> None:
        self._launcher, self._parts = launcher, parts
        self._clock = clock or SystemClock()
        self._thread: threading.Thread | None = None
        self._begun_s = 0.0
        self._failure: ContinuousError | None = None

    def keep(self) -> None:
        """Begin to warm them, unless that was within the last half minute, or is under way; to be
        called again and again. Returns at once.

        :raises ConfigError: the executors could not run tasks, as the last time has shown.
        """
        if self._failure is not None:
            raise self._failure
        now_s = self._clock.monotonic_s()
        if self._thread is not None and (
            self._thread.is_alive() or now_s - self._begun_s < _AGAIN_S
        ):
            return
        self._begun_s = now_s
        self._thread = threading.Thread(target=self._warm_up, name="standby-warm-up", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Free the slots that warming up takes; one that an executor does not free is left."""
        deadline_s = time.monotonic() + _END_S
        while self._thread is not None and self._thread.is_alive():
            self._launcher.end_warm_up()  # its job may not have been there the last time
            self._thread.join(_END_AGAIN_S)
            if time.monotonic() >= deadline_s:
                break
        self._launcher.forget_warm_up()

    def _warm_up(self) -> None:
        try:
            self._launcher.warm_up(self._parts)
        except ContinuousError as error:
            self._failure = error
        except BaseException:  # nobody else hears it
            log_failure(logger, "warming up failed")
