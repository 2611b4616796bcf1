"""Where the queries are that ``continuous top`` shows: each place is searched for itself, by
threads of its own, so that one that does not answer keeps no other waiting."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from engine.base.clock import Clock
from engine.base.daemon_threads import DaemonThreads
from engine.checkpoint.find import (
    AT_ONCE,
    CheckpointSearch,
    Folder,
    find_checkpoints,
    is_pattern,
)
from engine.errors import CheckpointError

FIND_EVERY_S: Final = 10.0
"""New checkpoints are looked for so often, unless the search itself takes a while."""
_REST: Final = 5
"""So many times as long as a search has taken there is none: listing costs, on an object store."""


class Place:
    """A checkpoint, a pattern of them, or a folder that has them below.

    :ivar locations: of the checkpoints that were found, sorted; while it is searched again those of
        before as well.
    :ivar errors: by location, of the place itself or of folders in it: why they cannot be listed,
        or not to the end. Queries below them stay as they were found before.
    :ivar was_searched: once, to its end.
    """

    def __init__(self, place: str, clock: Clock) -> None:
        self.place = place
        self._top, self._clock = place.rstrip("/") or place, clock
        self._listing = DaemonThreads(AT_ONCE, "top-list")
        self._leading = DaemonThreads(1, "top-find")
        self._search = CheckpointSearch(place, self._listing)
        self._under_way: Future[list[str]] | None = None
        self._began_s = self._due_s = 0.0
        self._taken = 0
        self._before: set[str] = set()
        self.locations: list[str] = []
        self.errors: Mapping[str, Exception] = {}
        self.was_searched = False

    @property
    def looked_into(self) -> int:
        """How many folders the search has looked into."""
        return self._search.looked_into

    def refresh(self) -> Future[list[str]] | None:
        """Begin a search if it is time for one; see what one has found until now, and return it if
        it goes on."""
        now_s = self._clock.monotonic_s()
        if self._under_way is None and (not self.was_searched or now_s >= self._due_s):
            self._began_s, self._taken = now_s, 0
            self._search = CheckpointSearch(self.place, self._listing)
            self._under_way = self._leading.submit(self._run)
        if self._under_way is None:
            return None
        if self._under_way.done():
            self._finish(self._under_way)
            self._under_way = None
        elif len(self._search.found) > self._taken:
            found = list(self._search.found)
            self._taken = len(found)
            self.locations = sorted(self._before.union(map(self._location, found)))
        return self._under_way

    def _run(self) -> list[str]:
        """On a thread: the locations of all."""
        if is_pattern(self.place):
            return find_checkpoints(self.place)
        self._search.run()
        nothing = not self._search.found and not self._search.errors
        if nothing and not Folder.open(self.place).is_folder():
            raise CheckpointError(
                f"There is no folder {self.place}.",
                hint="Check the location; a query creates its checkpoint when it first runs.",
            )
        return list(map(self._location, self._search.found))

    def _finish(self, ended: Future[list[str]]) -> None:
        errors = {self._location(each): error for each, error in self._search.errors.items()}
        found: list[str] = []
        try:
            found = ended.result()
        except Exception as exc:  # of whichever storage
            errors = {self._top: exc}
        dark = tuple("" if each == self._top else f"{each}/" for each in errors)
        self._before = {*found, *(each for each in self._before if each.startswith(dark))}
        self.locations, self.errors = sorted(self._before), errors
        self.was_searched = True
        now_s = self._clock.monotonic_s()
        took_s = now_s - self._began_s
        self._due_s = max(self._began_s + FIND_EVERY_S, now_s + _REST * took_s)

    def _location(self, relative: str) -> str:
        return f"{self._top.rstrip('/')}/{relative}" if relative else self._top
