"""The rows of tables, in pieces of a bounded size, until somebody writes them.

As long as they are one piece they stay in memory. Of more all are in a file, each in the order of
its key groups: who looks for a few of these later finds them side by side.
"""

from __future__ import annotations

import mmap
import weakref
from dataclasses import dataclass
from typing import IO, Final

import numpy as np
import pyarrow as pa

from engine.state.contract import GROUP
from engine.state.files import TableHead
from engine.state.scratch import Scratch

PIECE_BYTES: Final = 1 << 27
"""More than that of a state is not in memory as Arrow's tables at a time, but for a few copies."""
_LEAST_BYTES: Final = 1 << 22


def piece_bytes(scratch: Scratch) -> int:
    """How large a piece is."""
    if scratch.piece_bytes is None:
        return PIECE_BYTES
    return min(PIECE_BYTES, max(scratch.piece_bytes, _LEAST_BYTES))


@dataclass(frozen=True)
class Piece:
    """Some rows of some tables.

    :param parts: a table, or where it is in the file.
    :param rows: of all of them.
    """

    heads: tuple[TableHead, ...]
    parts: tuple[pa.Table | range, ...]
    rows: int
    spooled: Spooled | None = None

    @property
    def tables(self) -> tuple[pa.Table, ...]:
        """As long as :attr:`heads`."""
        if self.spooled is None:
            return self.parts
        return tuple(map(self.spooled.read, self.parts))


class Spooled:
    """A file of tables."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._file: IO[bytes] = scratch.file()
        weakref.finalize(self, self._file.close)
        self._end = 0

    def write(self, table: pa.Table) -> range:
        """Where it is.

        :raises StateTooLargeError: the disk is full.
        """
        start = self._end
        with pa.ipc.new_stream(_Target(self), table.schema) as writer:
            writer.write_table(table)
        self._append(bytes(-self._end % mmap.ALLOCATIONGRANULARITY))  # where a mapping may begin
        return range(start, self._end)

    def read(self, place: range) -> pa.Table:
        """It stays on the disk: the table looks into the file."""
        mapped = mmap.mmap(
            self._file.fileno(), len(place), access=mmap.ACCESS_READ, offset=place.start
        )
        return pa.ipc.open_stream(pa.py_buffer(mapped)).read_all()

    def _append(self, data: bytes | memoryview) -> int:
        self._scratch.write(self._file, data)
        self._end += len(data)
        return len(data)


class _Target:
    """What Arrow asks of a file that it writes to."""

    closed = False

    def __init__(self, spooled: Spooled) -> None:
        self._spooled = spooled

    def write(self, data: bytes | pa.Buffer) -> int:
        return self._spooled._append(memoryview(data))

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        self.closed = True


class Gathering:
    """Takes rows until there are no more.

    :ivar rows: so many have come.
    """

    def __init__(self, scratch: Scratch) -> None:
        self.rows = 0
        self._scratch = scratch
        self._spooled: Spooled | None = None
        self._made: list[Piece] = []
        self._open: dict[TableHead, list[pa.Table]] = {}
        self._nbytes = 0

    def add(self, head: TableHead, rows: pa.Table) -> None:
        """Rows of a table.

        :raises StateTooLargeError: there is no room for them on the disk.
        """
        if not rows.num_rows:
            return
        nbytes = rows.nbytes
        if nbytes > piece_bytes(self._scratch) and rows.num_rows > 1:
            half = rows.num_rows // 2
            self.add(head, rows.slice(0, half))
            self.add(head, rows.slice(half))
            return
        self.rows += rows.num_rows
        self._nbytes += nbytes
        self._open.setdefault(head, []).append(rows)
        if self._nbytes > piece_bytes(self._scratch):
            self._spool()

    def pieces(self) -> list[Piece]:
        """All of them, in the order in which they came."""
        if not self._made:
            return [self._piece()] if self._open else []
        if self._open:
            self._spool()
        return self._made

    def _piece(self) -> Piece:
        tables = tuple(map(pa.concat_tables, self._open.values()))
        return Piece(tuple(self._open), tables, sum(each.num_rows for each in tables))

    def _spool(self) -> None:
        piece = self._piece()
        self._spooled = self._spooled or Spooled(self._scratch)
        places = tuple(self._spooled.write(by_group(table)) for table in piece.tables)
        self._made.append(Piece(piece.heads, places, piece.rows, self._spooled))
        self._open, self._nbytes = {}, 0


def by_group(rows: pa.Table) -> pa.Table:
    """In the order of the key groups; rows of one stay in theirs."""
    groups = rows.column(GROUP.name).to_numpy()
    if (groups[1:] >= groups[:-1]).all():
        return rows
    return rows.take(pa.array(np.argsort(groups, kind="stable")))
