"""The progress reports of a query: the last ones, in memory and in the checkpoint, and the history
that all of them make."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from engine.base.background import Later
from engine.base.clock import Clock
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ContinuousError
from engine.execution.history_keeper import HistoryKeeper
from engine.progress.histogram import LatencyHistogram

logger = logging.getLogger(__name__)
RECENT_PROGRESS_MAX: Final = 100
_EVERY_MS: Final = 1_000


class KeptReports:
    """See the module.

    :param may_write: whether the run still holds the checkpoint.
    :ivar recent: the last reports, oldest first.
    """

    def __init__(self, checkpoint: Checkpoint, may_write: Callable[[], bool], clock: Clock) -> None:
        self.recent: deque[dict[str, Any]] = deque(maxlen=RECENT_PROGRESS_MAX)
        self.history = HistoryKeeper(checkpoint.history, may_write, clock)
        self._progress = checkpoint.progress
        self._may_write, self._clock = may_write, clock
        self._saved_ms = 0

    def save_soon(self, later: Later, latency: LatencyHistogram) -> None:
        """Save the newest report, which is in :attr:`recent` by now, if that is due.

        :param later: does it; ``latency`` is the whole of that which it summarizes.
        """
        self.history.add(self.recent[-1], latency)
        now_ms = self._clock.now_ms()
        if now_ms - self._saved_ms >= _EVERY_MS:
            self._saved_ms = now_ms
            later("progress", partial(self._save, list(self.recent)))

    def save_last(self, error: ContinuousError | None) -> None:
        """Save all, if the run still holds the checkpoint. If there are none, those of an earlier
        run stay.

        :param error: why the query ends.
        """
        if error is None:
            self.history.mark("stopped", "as asked")
        else:
            self.history.mark("failed", error)
        self.history.close()
        if self.recent and self._may_write():
            self._save(list(self.recent))

    def _save(self, reports: Sequence[dict[str, Any]]) -> None:
        try:
            self._progress.write(reports)
        except (OSError, ContinuousError) as exc:
            logger.warning("progress was not saved: %s", exc)
