"""Where a query is in a table.

::

    {"table":"<id>","version":12,"index":3}    3 files of version 12 are read, and all before
    {"version":5,"index":40,"snapshot":true}   40 files of the table as of version 5
    {...,"ahead":[[12,5],[12,6]]}              and these, too: tasks read side by side
    {"version":12,"index":0,"after":9}         the version before 12 is 9, and is read
    {"version":12,"index":0,"after":0}         before 12 nothing is read

A version of Delta is one of its log, and its files are in the order of that; one of Iceberg is the
sequence number of a snapshot. Other files, and those of a whole table, are in the order of their
names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.errors import SourceError
from engine.sources.contract import Offset

At = tuple[int, int]
"""Version and index."""


@dataclass(frozen=True)
class TablePosition:
    """:param at: everything before is read; and ``ahead``.
    :param is_snapshot: ``at`` counts the files of the whole table as of its version.
    :param after: which version comes before that of ``at``, where it is not the number before.
    """

    table: str
    at: At
    is_snapshot: bool = False
    ahead: frozenset[At] = frozenset()
    after: int | None = None

    def offset(self) -> Offset:
        """As the checkpoint has it."""
        found: dict[str, Any] = {"table": self.table, "version": self.at[0], "index": self.at[1]}
        if self.is_snapshot:
            found["snapshot"] = True
        if self.ahead:
            found["ahead"] = [list(at) for at in sorted(self.ahead)]
        if self.after is not None:
            found["after"] = self.after
        return found

    @classmethod
    def of(cls, offset: Offset, owner: str) -> TablePosition:
        """:param owner: of the source, for the error.
        :raises SourceError: it is no offset of this source."""
        try:
            return cls(
                offset["table"],
                (int(offset["version"]), int(offset["index"])),
                bool(offset.get("snapshot", False)),
                frozenset((int(version), int(index)) for version, index in offset.get("ahead", ())),
                None if offset.get("after") is None else int(offset["after"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise SourceError(
                f"The offset {offset!r} is not one of {owner}.",
                hint='It looks like {"table":"<id>","version":12,"index":3}.',
            ) from exc

    @property
    def is_begun(self) -> bool:
        """Whether files of the version of ``at`` are read; else it may be another one that comes
        next, or none yet."""
        version, index = self.at
        return index > 0 or any(each == version for each, _ in self.ahead)

    def has(self, at: At) -> bool:
        """Whether the file there is read."""
        return at < self.at or at in self.ahead
