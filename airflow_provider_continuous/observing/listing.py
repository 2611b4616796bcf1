"""Summaries of all queries below some roots: in parallel, within a deadline, kept for a moment.

A query costs one read: the object that has its summary also shows that its folder is a checkpoint.
Where there is none the folder is listed, which finds checkpoints without a summary and folders of
folders; a link is none of those, so that what is found lies below its root. What hangs, or cannot
be read, is an error of its own, and what was seen of it last is shown with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from airflow_provider_continuous.connections.location import CheckpointLocation
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.view.overview import QueryOverview, overview_of
from airflow_provider_continuous.view.roots import Root, open_location, opened_by, resolved
from engine.checkpoint.find import DEPTH_MAX, Folder
from engine.checkpoint.search import Search
from engine.errors import ContinuousError
from engine.redaction.logs import redact

FRESH_S = 2.0
"""A look at all queries is shown for so long before there is another one."""
LISTED_WITHIN_S = 5.0
"""What has not answered by then is told as an error."""
COLLECTED_WITHIN_S = 1.0
"""So long it may take to put together what has answered."""
REFRESHED_WITHIN_S = 1.0
"""Who asks for a list that was there before gets the earlier one if the new one takes longer."""
FOLDERS_MAX = 2_000
"""How many folders are looked into for each root."""
_KEPT_MAX = 16
_KNOWN_MAX = 50_000
"""So many queries are remembered as they were seen last."""
_SILENT = "It has not answered in time."


@dataclass(frozen=True)
class Listing:
    """What was found.

    :param queries: by location.
    :param errors: by location: of a query, or of a folder that cannot be listed. A query can be in
        both: then this is why it is shown as it was seen earlier.
    :param absent: roots, or checkpoints that were asked for, that are not there.
    :param looked_at_s: when, by the monotonic clock, which nobody sets.
    """

    queries: dict[str, QueryOverview] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    looked_at_s: float = 0.0


@dataclass(frozen=True)
class _Found:
    """What a look at one folder shows: a query, or folders to look into; or it is not there."""

    query: QueryOverview | None = None
    folders: tuple[tuple[str, Callable[[], _Found]], ...] = ()
    is_absent: bool = False


class QueryListing:
    """Lists queries for all who ask in this process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], Listing] = {}
        self._known: dict[str, QueryOverview] = {}
        """As each was seen last, in whichever list."""
        self._lock = threading.Lock()

    def below(self, roots: Iterable[Root], within_s: float = LISTED_WITHIN_S) -> Listing:
        """Return the queries below roots, as they are now or were :data:`FRESH_S` ago; while some
        of them do not answer, as they were seen last.

        :param within_s: the first list of these roots takes no longer, and
            :data:`COLLECTED_WITHIN_S`; later ones :data:`REFRESHED_WITHIN_S`.
        """
        begin = {root.location: partial(_open, root) for root in roots}
        return self._kept("below", begin, within_s)

    def at(self, locations: Iterable[str], within_s: float = LISTED_WITHIN_S) -> Listing:
        """Return these queries, likewise: one read each where there is a summary.

        :param locations: as users write them; where there is no checkpoint yet, there is nothing.
        """
        # The task that has told last comes first: it is the same list all the same.
        begin = {location: partial(_glance, location) for location in sorted(locations)}
        return self._kept("at", begin, within_s)

    def _kept(
        self, kind: str, begin: Mapping[str, Callable[[], _Found]], within_s: float
    ) -> Listing:
        if not begin:
            return Listing()
        key = (kind, *begin)
        last = self._last.get(key)
        if last is not None and time.monotonic() - last.looked_at_s < FRESH_S:
            return last
        # Who comes while somebody looks waits for the same look.
        look = POOL.submit("listing", partial(self._look, key, begin), ("listing", key))
        # What it has not found by its own deadline it tells itself, with all the others.
        first_s = within_s + COLLECTED_WITHIN_S
        wait([look], first_s if last is None else min(within_s, REFRESHED_WITHIN_S))
        found = self._last.get(key)
        return found or Listing(errors=dict.fromkeys(begin, _SILENT))

    def _look(self, key: tuple[str, ...], begin: Mapping[str, Callable[[], _Found]]) -> None:
        until_s = time.monotonic() + LISTED_WITHIN_S
        search = _Search(until_s, FOLDERS_MAX * len(begin), list(begin))
        for location, look in begin.items():
            search.ask(location, look)
        found = search.finish()
        tops = {location.rstrip("/") for location in begin}
        with self._lock:
            for location in list(self._known):
                if location not in found.queries and not tops.isdisjoint(_upwards(location)):
                    if search.dark.isdisjoint(_upwards(location)):
                        del self._known[location]  # it is gone
                    else:
                        found.queries[location] = self._known[location]
            self._known.update(found.queries)
            _shorten(self._known, _KNOWN_MAX)
            self._last.pop(key, None)
            self._last[key] = found
            _shorten(self._last, _KEPT_MAX)  # queries come and go: each set of them is a key


LISTING = QueryListing()
"""That of this process."""


def _upwards(location: str) -> Iterator[str]:
    """A location, and the folders that it is in."""
    is_path = location.startswith("/")
    while location:
        yield location
        location = location.rpartition("/")[0]
    if is_path:
        yield ""  # as the root of all has no slash at its end


def _shorten(kept: dict[Any, Any], most: int) -> None:
    """Forget what was put in first."""
    for key in list(islice(kept, max(0, len(kept) - most))):
        del kept[key]


def _glance(location: str) -> _Found:
    checkpoint = open_location(location)
    glance = checkpoint.glance()
    if glance is None and not checkpoint.exists():
        return _Found(is_absent=True)  # its start has failed, or it was deleted
    return _Found(overview_of(glance or checkpoint.look(), location))


def _open(root: Root) -> _Found:
    resolved(root.location)  # refuses what nothing lies below
    top = Folder.open(*opened_by(root.location))
    return _visit(root.location.rstrip("/"), top)


def _visit(location: str, folder: Folder) -> _Found:
    """Read the summary; without one, list the folder."""
    checkpoint = folder.checkpoint()
    glance = checkpoint.glance()
    if glance is not None:
        return _Found(overview_of(glance, location))
    below = folder.below()
    if below is None:
        return _Found(overview_of(checkpoint.look(), location))
    if not folder.depth and not below and not folder.exists():
        return _Found(is_absent=True)
    if folder.depth >= DEPTH_MAX:
        return _Found()
    within = [(f"{location}/{each.name}", each) for each in below]
    return _Found(folders=tuple((at, partial(_visit, at, each)) for at, each in within))


class _Search:
    """Looks that are under way, and what they have found.

    :param until_s: no look is waited for any longer, monotonic.
    :param folders_max: so many are looked into.
    :param tops: where the search begins.
    :ivar dark: what could not be looked at.
    """

    def __init__(self, until_s: float, folders_max: int, tops: Sequence[str]) -> None:
        self._until_s, self._folders_max, self._tops = until_s, folders_max, tops
        self.dark: set[str] = set()
        self._looks: Search[_Found] = Search(
            lambda location, look: POOL.submit(place_of(location), look, ("list", location)),
            folders_max,
        )
        self._found = Listing()

    def ask(self, location: str, look: Callable[[], _Found]) -> None:
        """Begin to look at a folder."""
        if not self._looks.ask(location, look):
            # Told once, however many there are, and however deep.
            tops = (top for top in self._tops if location.startswith(f"{top.rstrip('/')}/"))
            self._found.errors[next(tops, location)] = (
                f"More than {self._folders_max} folders are not looked into."
            )

    def finish(self) -> Listing:
        """Wait for all, follow what they find; return what there is by then."""
        while ended := self._looks.take(max(0.0, self._until_s - time.monotonic())):
            self._take(*ended)
        self._give_up()
        return replace(self._found, looked_at_s=time.monotonic())

    def _take(self, location: str, look: Future[_Found]) -> None:
        try:
            found = look.result()
        except FileNotFoundError:
            return  # no query has been there yet
        except CancelledError:  # by another search, which had no time left
            self._fail(location, _SILENT)
        except ContinuousError as error:
            self._fail(location, redact(str(error)))
        except Exception as error:  # one that is broken darkens nobody else
            self._fail(location, redact(f"{type(error).__name__}: {error}"))
        else:
            if found.is_absent:
                self._found.absent.append(location)
            if found.query is not None:
                self._found.queries[location] = found.query
            for below, look_there in found.folders:
                self.ask(below, look_there)

    def _give_up(self) -> None:
        for look, location in self._looks.under_way.items():
            if not look.running():
                look.cancel()
            self._fail(location, _SILENT)

    def _fail(self, location: str, error: str) -> None:
        with suppress(ContinuousError):  # what is no location has no connection
            CheckpointLocation.parse(location).look_up_again()
        self._found.errors[location] = error
        self.dark.add(location.rstrip("/"))
