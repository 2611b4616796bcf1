"""Where locations really are, behind the links on a disk: asked of each mount by a thread that may
hang, and kept for a moment.

What does not answer is taken as it was known last, else as it is written: nothing can be read there
by then, and the page goes on without it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import wait
from functools import partial
from itertools import islice
from typing import Final

from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.view.roots import Place, as_written, resolved
from engine.errors import ConfigError

FRESH_S: Final = 10.0
"""A link is looked at again after so long."""
RESOLVED_WITHIN_S: Final = 1.0
"""What has not answered by then hangs."""
_KNOWN_MAX: Final = 50_000


class Resolver:
    """For all who ask in this process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, Place | None]] = {}
        """When each was looked at, monotonic; None is no location."""

    def places(self, locations: Iterable[str]) -> dict[str, Place]:
        """Return where these are, those that are locations, within :data:`RESOLVED_WITHIN_S`."""
        wanted = list(dict.fromkeys(locations))
        until_s = time.monotonic() + RESOLVED_WITHIN_S
        # Who comes while another one asks the same mount gets what that one has asked, and then
        # asks for what is left.
        while stale := self._stale(wanted):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                break
            by_mount: dict[str, list[str]] = {}
            for location in stale:
                by_mount.setdefault(place_of(location), []).append(location)
            looks = [
                POOL.submit(mount, partial(self._look, below), ("resolve", mount))
                for mount, below in by_mount.items()
            ]
            wait(looks, left_s)
        found = {each: self._place(each) for each in wanted}
        return {each: place for each, place in found.items() if place is not None}

    def _stale(self, wanted: Iterable[str]) -> list[str]:
        before_s = time.monotonic() - FRESH_S
        known = self._known
        return [each for each in wanted if each not in known or known[each][0] < before_s]

    def _look(self, locations: Iterable[str]) -> None:
        for location in locations:
            try:
                place: Place | None = resolved(location)
            except ConfigError:  # anybody may push such an XCom
                place = None
            self._known[location] = time.monotonic(), place
        for forgotten in list(islice(self._known, max(0, len(self._known) - _KNOWN_MAX))):
            self._known.pop(forgotten, None)

    def _place(self, location: str) -> Place | None:
        known = self._known.get(location)
        if known is not None:
            return known[1]
        try:
            return as_written(location)
        except ConfigError:
            return None


RESOLVER = Resolver()
"""That of this process."""
