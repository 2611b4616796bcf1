"""Whether a run whose lease looks expired is silent indeed: the clocks of two machines differ.

A heartbeat is told by the clock of the run's machine. Who compares it with another clock, which is
ahead by more than a lease lasts, takes each run there for lost. What does not depend on clocks is
whether the lease is renewed while one looks, as whoever takes a checkpoint over looks as well
(:mod:`engine.checkpoint.lease`).
"""

from __future__ import annotations

from typing import Final

from engine.base.clock import Clock, SystemClock
from engine.checkpoint.lease import LeaseRecord, read_holder
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.contract import Storage

WATCH_INTERVALS: Final = 2.5
"""A run that goes on renews its lease within so many of its heartbeats."""
WATCH_MAX_S: Final = 5.0
"""Nobody watches for longer: then its lease lasts so long that clocks hardly differ by as much."""
_LOOK_S: Final = 0.1


class Silence:
    """Watches one checkpoint, and remembers what it has seen: nothing is watched twice."""

    def __init__(self, storage: Storage, clock: Clock | None = None) -> None:
        self._storage, self._clock = storage, clock or SystemClock()
        self._last: LeaseRecord | None = None
        self._silent: LeaseRecord | None = None

    def state(self) -> QueryState | None:
        """Return what a run says of itself that looks lost and goes on, None if it is lost.

        Blocks for :data:`WATCH_MAX_S` at most.

        :raises CheckpointError: the storage cannot be read.
        """
        holder = read_holder(self._storage)
        # Of a process on this machine everything is known, and there is one clock.
        if holder is None or not holder.state.is_active or holder.process.is_running() is not None:
            return None
        if holder == self._silent:
            return None
        last, self._last = self._last, holder
        if last is not None and last.run_id == holder.run_id and last != holder:
            return holder.state
        return self._watch(holder)

    def _watch(self, holder: LeaseRecord) -> QueryState | None:
        watch_s = min(WATCH_INTERVALS * holder.heartbeat_interval_ms / 1000, WATCH_MAX_S)
        until_s = self._clock.monotonic_s() + watch_s
        while self._clock.monotonic_s() < until_s:
            self._clock.sleep(_LOOK_S)
            now = read_holder(self._storage)
            if now is not None and now != holder:
                self._last = now
                return now.state
        self._silent = holder
        return None
