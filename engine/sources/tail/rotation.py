"""Which files were rotated out of sight: they took and lost a name of the stream between two looks.

A generation is told by its name and its age:

=========================================  ===============================
name                                       it was
=========================================  ===============================
``app.log.1``, ``app.log-20260102``        ``app.log``
``app.1.log``, ``app-2026-01-02.log``      ``app.log``
=========================================  ===============================

One that was written to later than the file that is known to have had the name before it, comes
behind it. Of the same time, the higher number is older, and the later date is not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from engine.sources.tail.watched_folder import SeenFile

Age = tuple[int, float]
"""When it was last written to, and its place among those of the same time: older ones are less."""

_REST: Final = re.compile(r"(\d[\dTZ:.+_-]*?)(\.[A-Za-z]\w*)?")
_NUMBER_DIGITS_MAX: Final = 5
"""More digits are a date, or seconds."""


def generations(name: str) -> dict[str, str]:
    """What a file of this name may have been called, and which generation of that it is."""
    found = {}
    for at, char in enumerate(name):
        if char in ".-_" and at and (rest := _REST.fullmatch(name, at + 1)):
            found[name[:at] + (rest[2] or "")] = rest[1]
    return found


def in_order(files: Iterable[SeenFile], names: Collection[str]) -> list[SeenFile]:
    """By name, but a generation before the file that has its name now, the oldest first.

    :param names: of the files that are in the folder.
    """

    def key(seen: SeenFile) -> tuple[str, float, float]:
        for base in generations(seen.name):
            if base in names:
                return (base, *_age(seen, base))
        return (seen.name, math.inf, 0)

    return sorted(files, key=key)


class Rotations:
    """From one look to the next.

    :param accepts: whether a file of this name belongs to the stream.
    :param is_mine: whether the file of this inode number does.
    :param holders: of an earlier look.
    """

    def __init__(
        self,
        accepts: Callable[[str], bool],
        is_mine: Callable[[int], bool],
        holders: Iterable[SeenFile] = (),
    ) -> None:
        self._accepts = accepts
        self._is_mine = is_mine
        # Who has each name, or had it as the last one.
        self._holders = {each.name: each for each in holders}
        self._oldest: dict[str, Age] = {}  # name → since then it may have been another file's
        self._truncated: set[str] = set()

    @property
    def holders(self) -> list[SeenFile]:
        """Who has the names whose generations are out of sight."""
        return [
            SeenFile(name, each.inode, each.size, each.modified_ns)
            for name, each in self._holders.items()
            if not self._accepts(f"{name}.1")
        ]

    def look(
        self, accepted: Collection[SeenFile], everything: Callable[[], Mapping[int, SeenFile]]
    ) -> None:
        """These files of the stream are there now.

        :param everything: the folder, also what is not of the stream; asked if a name has changed.
        """
        holders = {each.name: each for each in accepted}
        for name, old in self._holders.items():
            if name not in holders or holders[name].inode != old.inode:
                now = everything().get(old.inode)
                place = -math.inf if now is None else _age(now, name)[1]
                self._since(name, (old.modified_ns, place))
                if now is not None and name in generations(now.name):
                    # Nobody has the name now; somebody may have it and lose it until the next look.
                    holders.setdefault(name, old)
        self._holders = holders

    def known(self, seen: SeenFile) -> None:
        """A file that was read; what has become of its name since is found if it is rotated."""
        if not self._accepts(seen.name):
            for base in filter(self._accepts, generations(seen.name)):
                self._since(base, _age(seen, base))
                self._holders.setdefault(base, seen)

    def replaced(self, seen: SeenFile) -> None:
        """Another file has the number and the name of one that was read: it came behind it."""
        for base in filter(self._accepts, generations(seen.name)):
            self._since(base, (seen.modified_ns, -math.inf))

    def truncated(self, name: str, last: SeenFile | None, copy: SeenFile | None) -> None:
        """The file of this name was: whose it is, his are its copies, whatever their numbers.

        :param last: the file before that, if it was seen.
        :param copy: of what was read of it, if there is one.
        """
        self._truncated.add(name)
        if copy is not None:
            self.known(copy)
        elif last is not None:
            # Of the same time is the copy of the truncation before: that one is known.
            self._since(name, (last.modified_ns, math.inf))

    def missed(self, everything: Callable[[], Mapping[int, SeenFile]]) -> list[SeenFile]:
        """The generations that came behind what is known. Each is told once, the oldest first."""
        if not self._oldest:
            return []
        found = [
            seen
            for seen in everything().values()
            if not self._accepts(seen.name)
            and any(
                base in self._oldest
                and _age(seen, base) > self._oldest[base]
                and (base in self._truncated or self._is_mine(seen.inode))
                for base in generations(seen.name)
            )
        ]
        self._oldest, self._truncated = {}, set()
        return found

    def _since(self, name: str, age: Age) -> None:
        self._oldest[name] = min(age, self._oldest.get(name, age))


def _age(seen: SeenFile, base: str) -> Age:
    digits = re.sub(r"\D", "", generations(seen.name).get(base, ""))
    if not digits:
        return seen.modified_ns, -math.inf
    number = float(digits)
    return seen.modified_ns, number if len(digits) > _NUMBER_DIGITS_MAX else -number
