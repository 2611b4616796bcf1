"""What ``continuous top`` sees of many queries: each is looked at for itself, so that one that does
not answer keeps no other waiting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from engine.base.clock import Clock, SystemClock
from engine.base.daemon_threads import DaemonThreads
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.query_state import QueryState
from engine.commands.terminal.places import Place
from engine.errors import ContinuousError
from engine.redaction.logs import redact

AT_ONCE: Final = 32
"""So many checkpoints of a place are looked at at the same time."""
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
            "error_class": None if status is None else status.error_class,
        }


def look(location: str) -> QueryLook:
    """Look at one checkpoint, by one read where a summary tells enough; what goes wrong is told in
    the result."""
    name = _name(location)
    try:
        seen = Checkpoint(location).look()
    except Exception as exc:  # of whichever storage
        return QueryLook(location, name, error=why(exc))
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
        self._clock = clock or SystemClock()
        self._places = [_Watched(Place(place, self._clock), self._clock) for place in places]

    def refresh(self, wait_s: float) -> list[QueryLook]:
        """Look at all queries that were found until now, for no longer than this; what is known of
        each by then."""
        until_s = self._clock.monotonic_s() + wait_s
        searches = [search for each in self._places if (search := each.search()) is not None]
        if self.is_finding:
            wait(searches, wait_s / 2)  # or what is found at once would be shown a second later
            for each in self._places:
                each.search()
        asked = [look for each in self._places for look in each.ask()]
        wait(asked, max(0.0, until_s - self._clock.monotonic_s()))
        seen: dict[str, QueryLook] = {}
        for each in self._places:
            for found in each.take():
                seen.setdefault(found.location, found)
        return list(seen.values())

    def whole(self, within_s: float) -> list[QueryLook]:
        """The same when the places have been searched to their end; in time, if they can be."""
        until_s = self._clock.monotonic_s() + within_s
        wait([search for each in self._places if (search := each.search()) is not None], within_s)
        return self.refresh(max(0.0, until_s - self._clock.monotonic_s()))

    @property
    def is_finding(self) -> bool:
        """Whether the places are being searched for the first time."""
        return not all(each.place.was_searched for each in self._places)

    @property
    def progress(self) -> tuple[int, int]:
        """How many folders were looked into, and how many queries found in them."""
        places = [each.place for each in self._places]
        return sum(each.looked_into for each in places), sum(len(each.locations) for each in places)

    @property
    def unlisted(self) -> list[QueryLook]:
        """The folders that could not be listed, or not to their end, and why."""
        return [found for each in self._places for found in each.unlisted.values()]


@dataclass(eq=False)
class _UnderWay:
    """A look at a query.

    :param asked_s: when it was asked for, monotonic; ``began_s``: when a thread has begun it.
    """

    location: str
    asked_s: float
    began_s: float | None = None
    answer: Future[QueryLook] = field(default_factory=Future)


class _Watched:
    """A place, and the looks at its queries. Its threads are its own: while they all hang, those
    of others look on."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self.place, self._clock = place, clock
        self._threads = DaemonThreads(AT_ONCE, "top")
        self._answered_s = 0.0
        """When a look was seen to end last."""
        self._known: dict[str, QueryLook] = {}
        self._under_way: dict[str, _UnderWay] = {}
        self._errors = place.errors
        self.unlisted: dict[str, QueryLook] = {}

    def search(self) -> Future[list[str]] | None:
        """See :meth:`engine.commands.terminal.places.Place.refresh`."""
        search = self.place.refresh()
        if self._errors is not self.place.errors:
            self._errors = self.place.errors
            self.unlisted = {
                location: QueryLook(location, _name(location), error=why(error))
                for location, error in self._errors.items()
            }
        nothing = {each: QueryLook(each, _name(each)) for each in self.place.locations}
        shown = {**self.unlisted, **nothing}
        self._known = {each: self._known.get(each, shown[each]) for each in shown}
        return search

    def ask(self) -> list[Future[QueryLook]]:
        """Begin a look at each query, unless one is under way."""
        for location in self._known:
            if location not in self._under_way:
                asked = _UnderWay(location, self._clock.monotonic_s())
                asked.answer = self._threads.submit(partial(self._look, asked))
                self._under_way[location] = asked
        return [each.answer for each in self._under_way.values()]

    def take(self) -> Iterable[QueryLook]:
        """What is known of each query by now."""
        now_s = self._clock.monotonic_s()
        ended = [each for each in self._under_way.values() if each.answer.done()]
        for each in ended:
            self._answered_s = now_s
            del self._under_way[each.location]
            if each.location in self._known:
                self._known[each.location] = self._of_place(each.answer.result())
        for location, waiting in self._under_way.items():
            # What waits for its turn is silent only if nothing else answers either.
            since_s = waiting.began_s
            if since_s is None:
                since_s = max(waiting.asked_s, self._answered_s)
            if location in self._known and now_s - since_s >= STALE_S:
                self._known[location] = replace(self._known[location], silent_s=now_s - since_s)
        return self._known.values()

    def _look(self, asked: _UnderWay) -> QueryLook:
        asked.began_s = self._clock.monotonic_s()
        return look(asked.location)

    def _of_place(self, seen: QueryLook) -> QueryLook:
        """A look; where there is no query, why the place cannot be listed."""
        if seen.status is None or seen.status.id is None:
            return self.unlisted.get(seen.location, seen)
        return seen


def _name(location: str) -> str:
    return location.rstrip("/").rpartition("/")[2] or location


def why(exc: Exception) -> str:
    """What is told of an error of whichever storage."""
    told = (
        str(exc) if isinstance(exc, (ContinuousError, OSError)) else f"{type(exc).__name__}: {exc}"
    )
    return redact(told)
