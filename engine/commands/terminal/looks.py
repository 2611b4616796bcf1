"""What ``continuous top`` sees of many queries: each is looked at for itself, so that one that does
not answer keeps no other waiting."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from engine.base.clock import Clock, SystemClock
from engine.base.daemon_threads import DaemonThreads
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.find import Folder, checkpoints_below, find_checkpoints, is_pattern
from engine.checkpoint.query_state import QueryState
from engine.errors import CheckpointError, ContinuousError
from engine.redaction.logs import redact

AT_ONCE: Final = 16
"""So many checkpoints are looked at at the same time."""
FIND_EVERY_S: Final = 10.0
"""New checkpoints below a root are looked for so often."""
STALE_S: Final = 5.0
"""What has not answered for so long says so."""


@dataclass(frozen=True)
class QueryLook:
    """One query, as its checkpoint tells it.

    :param committed_at_ms: of the last epoch; None: there is none, or it is not told.
    :param rows_per_second: in; it and the next two are of the last epoch that was reported, None
        where that does not tell them.
    :param lag: in the unit of the offsets.
    :param error: why it cannot be looked at, or why it failed.
    :param silent_s: how long it has not answered; 0: it does.
    """

    location: str
    name: str
    status: CheckpointStatus | None = None
    committed_at_ms: int | None = None
    rows_per_second: float | None = None
    lag: int | None = None
    p99_ms: float | None = None
    error: str | None = None
    silent_s: float = 0.0

    @property
    def state(self) -> str:
        """In one word."""
        if self.silent_s:
            return "NO ANSWER"
        return "UNREADABLE" if self.status is None else str(self.status.state)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        status = self.status
        return {
            "location": self.location,
            "name": self.name,
            "state": self.state,
            "epoch": None if status is None else status.epoch,
            "run_id": None if status is None else status.run_id,
            "restarts": None if status is None else status.restarts,
            "committed_at_ms": self.committed_at_ms,
            "rows_in_per_second": self.rows_per_second,
            "lag": self.lag,
            "latency_p99_ms": self.p99_ms,
            "error": self.error,
        }


def look(location: str) -> QueryLook:
    """Look at one checkpoint, by one read where a summary tells enough; what goes wrong is told in
    the result."""
    name = location.rstrip("/").rpartition("/")[2] or location
    try:
        seen = Checkpoint(location).look()
    except Exception as exc:  # of whichever storage
        return QueryLook(location, name, error=_why(exc))
    status, told = seen.status, seen.summary
    is_running = status.state.is_active
    return QueryLook(
        location,
        told.name or name,
        status,
        told.committed_at_ms,
        rows_per_second=told.rows_per_second if is_running else None,
        lag=told.lag,
        p99_ms=told.latency_p99_ms if is_running else None,
        error=status.error
        or (status.last_error if status.state is QueryState.RESTARTING else None),
    )


class Looks:
    """The looks at all queries of some places. Used by one thread at a time.

    :param places: checkpoints, patterns of them, or folders that have them below.
    """

    def __init__(self, places: Sequence[str], clock: Clock | None = None) -> None:
        self._places = places
        self._clock = clock or SystemClock()
        self._threads = DaemonThreads(AT_ONCE, "top")
        self._found_s: float | None = None
        self._finding: Future[list[QueryLook]] | None = None
        self._has_found = False
        self._known: dict[str, QueryLook] = {}
        self._unlisted: dict[str, QueryLook] = {}
        self._under_way: dict[str, tuple[float, Future[QueryLook]]] = {}

    def refresh(self, wait_s: float) -> list[QueryLook]:
        """Look at all queries again, for no longer than this; what is known of each by then."""
        self._find(wait_s)
        now_s = self._clock.monotonic_s()
        for location in self._known:
            if location not in self._under_way:
                self._under_way[location] = now_s, self._threads.submit(partial(look, location))
        wait([future for _, future in self._under_way.values()], wait_s)
        for location, (since_s, future) in list(self._under_way.items()):
            if future.done():
                del self._under_way[location]
                if location in self._known:
                    self._known[location] = self._of_place(location, future.result())
            elif location in self._known:
                silent_s = self._clock.monotonic_s() - since_s
                if silent_s >= STALE_S:
                    self._known[location] = replace(self._known[location], silent_s=silent_s)
        return list(self._known.values())

    @property
    def is_finding(self) -> bool:
        """Whether the places are being searched for the first time."""
        return not self._has_found

    @property
    def unlisted(self) -> list[QueryLook]:
        """The places that could not be listed, or not to their end, and why."""
        return list(self._unlisted.values())

    def _find(self, wait_s: float) -> None:
        now_s = self._clock.monotonic_s()
        if self._finding is None and (
            self._found_s is None or now_s - self._found_s >= FIND_EVERY_S
        ):
            self._found_s = now_s
            self._finding = self._threads.submit(partial(_found, self._places))
        if self._finding is None or not wait([self._finding], wait_s).done:
            return
        found, self._finding, self._has_found = self._finding.result(), None, True
        self._unlisted = {each.location: each for each in found if each.error is not None}
        self._known = {each.location: self._known.get(each.location, each) for each in found}

    def _of_place(self, location: str, seen: QueryLook) -> QueryLook:
        """A look; where there is no query, why the place cannot be listed."""
        if seen.status is None or seen.status.id is None:
            return self._unlisted.get(location, seen)
        return seen


def _found(places: Sequence[str]) -> list[QueryLook]:
    """A look at each checkpoint that has nothing of it yet; a place that cannot be listed, or not
    to its end, says why before what was found."""
    found: dict[str, QueryLook] = {}
    for place in places:
        locations: list[str] = []
        try:
            if is_pattern(place):
                locations = find_checkpoints(place)
            else:
                top = place.rstrip("/") or place
                for below in checkpoints_below(place):
                    locations.append(f"{top}/{below}" if below else top)
                if not locations and not Folder.open(place).is_folder():
                    raise CheckpointError(
                        f"There is no folder {place}.",
                        hint="Check the location; a query creates its checkpoint when it first "
                        "runs.",
                    )
        except Exception as exc:  # of whichever storage
            found[place] = QueryLook(place, place, error=_why(exc))
        for each in sorted(locations):
            name = each.rstrip("/").rpartition("/")[2]
            found.setdefault(each, QueryLook(each, name))
    return list(found.values())


def _why(exc: Exception) -> str:
    told = (
        str(exc) if isinstance(exc, (ContinuousError, OSError)) else f"{type(exc).__name__}: {exc}"
    )
    return redact(told)
