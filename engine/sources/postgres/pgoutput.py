"""The messages of PostgreSQL's output plugin ``pgoutput``, version 1 of its protocol, as values.

A transaction comes as a whole, when it is committed::

    Begin  (Relation | Insert | Update | Delete | Truncate)*  Commit

Source: PostgreSQL's documentation, "Logical Replication Message Formats".
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from engine.errors import SourceError

_BEGIN: Final = Struct("!qqi")
_COMMIT: Final = Struct("!bqqq")
_INT16: Final = Struct("!h")
_INT32: Final = Struct("!i")
_UINT32: Final = Struct("!I")
_COLUMN: Final = Struct("!Ii")
_TRUNCATE: Final = Struct("!ib")
EPOCH_US: Final = 946_684_800_000_000
"""PostgreSQL counts from 2000, Unix from 1970."""


class Unchanged:
    """The value of a large column that an update has left as it was, and that was not sent."""


UNCHANGED: Final = Unchanged()
Value: TypeAlias = "bytes | Unchanged | None"
Values: TypeAlias = "list[Value]"


class Begin(NamedTuple):
    """
    :param commit_lsn: where the commit begins in the write-ahead log.
    :param at_us: since 1970.
    """

    commit_lsn: int
    at_us: int
    xid: int


class Commit(NamedTuple):
    """:param end_lsn: behind it."""

    end_lsn: int


class RelationColumn(NamedTuple):
    name: str
    type_oid: int
    type_modifier: int


class Relation(NamedTuple):
    """What a table's rows look like from here on."""

    oid: int
    columns: Sequence[RelationColumn]


class Change(NamedTuple):
    """
    :param op: ``insert``, ``update`` or ``delete``.
    :param old: of an update or delete: what was before, as far as it was sent.
    :param old_is_whole: it has all columns, not those of the key alone.
    :param new: of an insert or update.
    """

    op: str
    oid: int
    old: Values | None
    old_is_whole: bool
    new: Values | None


class Truncate(NamedTuple):
    oids: Sequence[int]


Message: TypeAlias = "Begin | Commit | Relation | Change | Truncate"


def decode(data: bytes) -> Message | None:
    """None for what says nothing of rows: types, origins.

    :raises SourceError: it is no message that this knows.
    """
    kind = data[:1]
    if kind == b"I":
        return Change("insert", _UINT32.unpack_from(data, 1)[0], None, False, _tuple(data, 6)[0])
    if kind == b"U":
        old, at = None, 5
        mark = data[5:6]
        if mark in (b"K", b"O"):
            old, at = _tuple(data, 6)
        new, _ = _tuple(data, at + 1)
        return Change("update", _UINT32.unpack_from(data, 1)[0], old, mark == b"O", new)
    if kind == b"D":
        whole = data[5:6] == b"O"
        return Change("delete", _UINT32.unpack_from(data, 1)[0], _tuple(data, 6)[0], whole, None)
    if kind == b"B":
        lsn, at_us, xid = _BEGIN.unpack_from(data, 1)
        return Begin(lsn, at_us + EPOCH_US, xid & 0xFFFFFFFF)
    if kind == b"C":
        return Commit(_COMMIT.unpack_from(data, 1)[2])
    if kind == b"R":
        return _relation(data)
    if kind == b"T":
        count, _ = _TRUNCATE.unpack_from(data, 1)
        return Truncate([_UINT32.unpack_from(data, 6 + 4 * n)[0] for n in range(count)])
    if kind in (b"Y", b"O", b"M"):
        return None
    raise SourceError(f"PostgreSQL's plugin pgoutput has sent an unknown message, {kind!r}.")


def _tuple(data: bytes, at: int) -> tuple[Values, int]:
    """The values of a row that begins here, and where it ends."""
    (count,) = _INT16.unpack_from(data, at)
    at += 2
    values: Values = []
    for _ in range(count):
        mark = data[at]
        at += 1
        if mark == 0x74:  # t: as text
            (length,) = _INT32.unpack_from(data, at)
            at += 4
            values.append(data[at : at + length])
            at += length
        elif mark == 0x6E:  # n
            values.append(None)
        else:  # u
            values.append(UNCHANGED)
    return values, at


def _relation(data: bytes) -> Relation:
    (oid,) = _UINT32.unpack_from(data, 1)
    at = data.index(b"\0", data.index(b"\0", 5) + 1) + 2  # schema, name, replica identity
    (count,) = _INT16.unpack_from(data, at)
    at += 2
    columns = []
    for _ in range(count):
        end = data.index(b"\0", at + 1)
        columns.append(
            RelationColumn(data[at + 1 : end].decode(), *_COLUMN.unpack_from(data, end + 1))
        )
        at = end + 9
    return Relation(oid, columns)
