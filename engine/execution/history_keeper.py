"""Keeps the history of a query while it runs, and writes it on a thread of its own: no epoch waits
for that, and storage that fails or hangs costs the history alone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from engine.base.background import Background
from engine.base.clock import Clock
from engine.checkpoint.history_file import HistoryFile
from engine.checkpoint.lease import LeaseRecord
from engine.errors import CheckpointCorruptError, CheckpointVersionError, ContinuousError
from engine.history.folding import History, Mark
from engine.history.measures import Measures, measured
from engine.history.stored import BUDGET_BYTES, Packer, StoredHistory
from engine.progress.histogram import LatencyHistogram

logger = logging.getLogger(__name__)
WRITE_EVERY_S: Final = 10.0
"""The history is written so often at most, while epochs are committed."""
MARK_EVERY_S: Final = 1.0
"""And so often at most, when something is marked."""
END_S: Final = 5.0
"""The end of a query waits so long for the last write."""
_REASON_CHARACTERS: Final = 200


class HistoryKeeper:
    """See the module. Goes on with what earlier runs have left, which it reads before its first
    write. Safe to use from several threads.

    :param may_write: whether the run still holds the checkpoint; asked before each write.
    """

    def __init__(self, file: HistoryFile, may_write: Callable[[], bool], clock: Clock) -> None:
        self._file = file
        self._may_write = may_write
        self._clock = clock
        self._lock = threading.Lock()
        self._stored = StoredHistory(History())
        self._packer = Packer()
        self._background = Background("continuous-history")
        self._asked_s: float | None = None
        self._has_read = self._is_failing = self._is_foreign = self._is_closed = False

    def add(self, report: Mapping[str, Any], latency: LatencyHistogram | None = None) -> None:
        """Take up an epoch.

        :param report: its progress report; ``latency`` is as in
            :func:`engine.history.measures.measured`.
        :raises ValueError: it is no progress report.
        """
        measures = measured(report, latency)
        with self._lock:
            self._stored.history.add(measures)
            self._stored.last = str(report["runId"]), int(report["batchId"])
        self._save_if_due(WRITE_EVERY_S)

    def started(self, how: str, succeeds: LeaseRecord | None) -> None:
        """Mark a start, and before it the loss of the run that held the checkpoint, if that died.

        :param succeeds: see :class:`engine.checkpoint.lease.Lease`.
        """
        if succeeds is not None:
            self.mark("lost", succeeds.silence, succeeds.heartbeat_at_ms)
        self.mark("started", how)

    def mark(self, kind: str, reason: object, at_ms: int | None = None) -> None:
        """Take up what has happened to the query, see :class:`~engine.history.folding.Mark`.

        :param at_ms: when, since 1970; None: now.
        """
        now_ms = self._clock.now_ms() if at_ms is None else at_ms
        text = " ".join(str(reason).split())
        if len(text) > _REASON_CHARACTERS:
            text = f"{text[:_REASON_CHARACTERS]}..."
        with self._lock:
            self._stored.history.marks.append(Mark(now_ms, kind, text))
            if kind == "restarted":
                self._stored.history.add(Measures(now_ms, restarts=1))
        self._save_if_due(MARK_EVERY_S)

    def close(self) -> None:
        """Write what there is, and end; while the run still holds the checkpoint."""
        if self._is_closed:
            return
        self._is_closed = True
        self._background("history", self._save)
        if not self._background.close(END_S):
            logger.warning("the last write of the history hangs, and is left behind")

    def _save_if_due(self, every_s: float) -> None:
        now_s = self._clock.monotonic_s()
        if self._is_closed or (self._asked_s is not None and now_s - self._asked_s < every_s):
            return
        self._asked_s = now_s
        self._background("history", self._save)

    # -- on its thread --------------------------------------------------------------------------

    def _save(self) -> None:
        try:
            if not self._has_read:
                self._take_up()
            if self._is_foreign:
                return
            data = self._packer.within_budget(self._blocks, self._narrow)
            if self._may_write():
                self._file.write(data)
        except (OSError, ContinuousError) as exc:
            if not self._is_failing:  # once for each outage
                logger.warning("the history is not saved for now: %s", exc)
            self._is_failing = True
            return
        self._is_failing = False
        if len(data) < BUDGET_BYTES // 2:
            with self._lock:
                self._stored.history.widen(self._clock.now_ms())

    def _take_up(self) -> None:
        try:
            earlier = self._file.read()
        except CheckpointCorruptError as exc:
            logger.warning("a new history begins: %s", exc)
            earlier = StoredHistory(History())
        except CheckpointVersionError as exc:
            logger.warning("no history is kept: %s", exc)
            self._is_foreign = self._has_read = True
            return
        with self._lock:
            self._stored.history.take_up(earlier.history)
            self._stored.last = self._stored.last or earlier.last
            self._stored.history.fold(self._clock.now_ms())
        self._has_read = True

    def _blocks(self) -> list[str]:
        with self._lock:
            return self._stored.blocks()

    def _narrow(self) -> bool:
        with self._lock:
            return self._stored.history.narrow(self._clock.now_ms())
