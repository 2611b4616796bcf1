"""Ids of entries, ``<milliseconds>-<number>``, and offsets made of them.

A position is the id behind the last entry that was read, ``{"orders": "1795366026176-1"}``; or
``0-0``, if none was. So unless it is ``0-0``, the id before it is that of an entry which was there.

Source: Redis, "Redis Streams".
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from engine.errors import SourceError
from engine.sources.contract import Offset

EntryId: TypeAlias = tuple[int, int]
START: Final[EntryId] = (0, 0)
_LAST: Final = 2**64 - 1
_ID: Final = re.compile(r"(\d{1,20})-(\d{1,20})")


def parse_id(text: str) -> EntryId:
    """:raises ValueError: it is none."""
    found = _ID.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no id of an entry, such as 1795366026176-0")
    return int(found[1]), int(found[2])


def shown(entry: EntryId) -> str:
    """As Redis writes it."""
    return f"{entry[0]}-{entry[1]}"


def behind(entry: EntryId) -> EntryId:
    """The next id that there can be."""
    return (entry[0], entry[1] + 1) if entry[1] < _LAST else (entry[0] + 1, 0)


def before(entry: EntryId) -> EntryId:
    """The one before it; of the first one, that one."""
    if entry[1]:
        return entry[0], entry[1] - 1
    return (entry[0] - 1, _LAST) if entry[0] else START


def positions_of(offset: Offset) -> dict[str, EntryId]:
    """An offset's position of each stream.

    :raises SourceError: it is none of this source.
    """
    try:
        return {str(stream): parse_id(text) for stream, text in offset.items()}
    except (AttributeError, TypeError, ValueError) as exc:
        raise SourceError(
            f"The offset {offset!r} is not one of a redis source: {exc}.",
            hint='It looks like {"orders":"1795366026176-1"}.',
        ) from exc
