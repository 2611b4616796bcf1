"""Time, handed in: whoever needs it takes a :class:`Clock`, so a test can turn its hands.

- *wall* time (milliseconds since 1970) is for what other machines and people read; it may jump;
- *monotonic* time (seconds, any origin) is for durations and deadlines of this process. It goes on
  while the process is suspended, where the system can count that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """What the engine asks of time."""

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970."""

    def monotonic_s(self) -> float:
        """Seconds since some moment; never goes back."""

    def sleep(self, seconds: float) -> None:
        """Let this thread wait so long."""

    def wait_for(
        self, changed: threading.Condition, holds: Callable[[], bool], seconds: float
    ) -> bool:
        """Wait on a condition, which the caller holds, but no longer than this; whether it holds
        then."""


class SystemClock:
    """The time of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        # CLOCK_MONOTONIC stands still while a laptop sleeps, and a lease runs on meanwhile.
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def wait_for(
        self, changed: threading.Condition, holds: Callable[[], bool], seconds: float
    ) -> bool:
        return changed.wait_for(holds, seconds)


class ManualClock:
    """A clock that stands still until it is told to move. For tests and simulations.

    :param now_ms: the wall-clock time to begin with.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = float(now_ms)
        self._monotonic_s = 0.0
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        return int(self._now_ms)

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def sleep(self, seconds: float) -> None:
        """Advance at once."""
        self.advance(seconds)

    def wait_for(
        self, changed: threading.Condition, holds: Callable[[], bool], seconds: float
    ) -> bool:
        """Advance at once, unless it holds."""
        if not holds():
            self.advance(seconds)
        return holds()

    def advance(self, seconds: float) -> None:
        """Move both hands forward."""
        assert seconds >= 0, "time does not go back"
        with self._lock:
            self._now_ms += seconds * 1000
            self._monotonic_s += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or NTP would."""
        with self._lock:
            self._now_ms += seconds * 1000
