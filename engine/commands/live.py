"""Shows how a running query is doing: one live line on a terminal, else a log line now and then."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Mapping
from typing import Any, TextIO

from engine.base.clock import Clock, SystemClock
from engine.history.measures import rate_of

logger = logging.getLogger(__name__)
LOG_EVERY_S = 10.0
ERASE_LINE = "\r\x1b[K"


class ProgressDisplay:
    """A query does not end because nobody can see it: a terminal that is gone gets no more lines.

    :param stream: a terminal, or anything else for log lines; None: standard error was closed.
    :param live: false: log lines on a terminal as well.
    """

    def __init__(
        self, stream: TextIO | None, clock: Clock | None = None, *, live: bool = True
    ) -> None:
        self._terminal = stream if live and stream is not None and stream.isatty() else None
        self._is_gone = False
        self._clock = clock or SystemClock()
        self._last_epoch: int | None = None
        self._logged_s: float | None = None

    def show(self, progress: Mapping[str, Any] | None) -> None:
        """Show a progress report, unless it has been shown."""
        if self._is_gone or progress is None or progress["batchId"] == self._last_epoch:
            return
        line = describe_progress(progress)
        if self._terminal is not None:
            width = shutil.get_terminal_size().columns - 1
            self._write(self._terminal, f"{ERASE_LINE}{line[:width]}")
        elif self._is_due():
            logger.info(line)
        else:
            return
        self._last_epoch = progress["batchId"]

    def close(self) -> None:
        """Leave the live line as it is and go to the next."""
        if self._terminal is not None and self._last_epoch is not None and not self._is_gone:
            self._write(self._terminal, "\n")

    def _write(self, terminal: TextIO, text: str) -> None:
        try:
            terminal.write(text)
            terminal.flush()
        except (OSError, ValueError):  # the latter if it was closed here
            self._is_gone = True

    def _is_due(self) -> bool:
        now_s = self._clock.monotonic_s()
        if self._logged_s is not None and now_s - self._logged_s < LOG_EVERY_S:
            return False
        self._logged_s = now_s
        return True


def describe_progress(progress: Mapping[str, Any]) -> str:
    """``epoch 12, 1,002 rows/s, latency p50 0.41 ms, p99 1.20 ms``; the latency is from read to
    written, and only told for epochs of this engine that had rows. Spark may tell no rate."""
    line = f"epoch {progress['batchId']:,}"
    rate = rate_of(progress)
    if rate is not None and math.isfinite(rate):
        line += f", {rate:,.0f} rows/s"
    latency = (progress.get("latencyMs") or {}).get("readToWritten")
    if latency:
        line += f", latency p50 {latency['p50']:.2f} ms, p99 {latency['p99']:.2f} ms"
    return line
