"""The summary of a running query, for its lease: made of what it commits, at first of the logs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.checkpoint.folder import CheckpointFolder
from engine.checkpoint.summary import Summary, summarize, summary_of
from engine.errors import ContinuousError

logger = logging.getLogger(__name__)
_OF_ANOTHER: dict[str, Any] = dict.fromkeys(
    ("rows_per_second", "latency_p50_ms", "latency_p99_ms", "latency_max_ms", "commit_ms", "lag")
)
"""How fast an earlier run was tells nothing of this one."""


class SummaryKeeper:
    """Told by the threads that commit, which it never makes wait; asked by the lease's keeper.

    :param name: of the query.
    :ivar news: set when there is another summary.
    """

    def __init__(self, checkpoint: CheckpointFolder, name: str | None) -> None:
        self._checkpoint, self._name = checkpoint, name
        self.news = threading.Event()
        self._lock = threading.Lock()
        self._summary: Summary | None = None
        self._goes_on_from: int | None = None
        """What is in the checkpoint, and not looked at yet."""

    def recovered(self, epoch: int) -> None:
        """Epochs go on behind this one, -1 for none."""
        with self._lock:
            if self._summary is None or self._summary.epoch != epoch:
                self._summary, self._goes_on_from = None, epoch

    def committed(self, report: Mapping[str, Any], committed_ms: int, watermark_ms: int) -> None:
        """An epoch was committed.

        :param report: of its progress.
        :param watermark_ms: behind it; 0: there is none.
        """
        summary = summary_of(
            report, report["id"], report["batchId"], committed_ms, watermark_ms or None
        )
        with self._lock:
            self._summary, self._goes_on_from = summary, None
        self.news.set()

    def look(self, now_ms: int, lag: int | None) -> Summary | None:
        """The summary; None before it is known what the query goes on from, or while the checkpoint
        cannot be read: a heartbeat does not fail of that.

        :param lag: how far the query is behind now; None: it is not known.
        """
        summary = self._found()
        if summary is None:
            return None
        summary = summary.as_of(now_ms)
        return summary if lag is None else replace(summary, lag=lag)

    def _found(self) -> Summary | None:
        with self._lock:
            summary, epoch = self._summary, self._goes_on_from
        if epoch is None:
            return summary
        try:
            found = summarize(self._checkpoint, epoch)
        except (ContinuousError, OSError) as exc:
            logger.warning("what the checkpoint tells of epoch %d is not known: %s", epoch, exc)
            return None
        found = replace(found, **_OF_ANOTHER, name=self._name)
        with self._lock:
            if self._goes_on_from == epoch:  # else an epoch was committed meanwhile
                self._summary, self._goes_on_from = found, None
            return self._summary
