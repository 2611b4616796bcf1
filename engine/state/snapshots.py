"""Snapshots: what a task writes of its state behind each epoch that has changed it.

A file has the rows that have changed since the one before; the first of a chain has all of them
(:mod:`engine.state.files` has the format, :mod:`engine.snapshots.names` the names). To take the
changes is the task's own work, between two epochs; they are written on another thread, while the
next epoch runs. A file is durable when :meth:`Job.write` returns, and is part of the state when the
offset log names it. Files are created, and never changed.

When a restart would have much to read, files of the chain are made into one, of the same epoch as
the last of them. That is nobody's business but the storage's: it takes as long as it takes, the
task goes on, and the next file that is written follows the new one in the place of the old ones.
If their bytes are the reason, all are made into one, a whole snapshot. If it is their number, only
the newest are, and before them those that are no larger than all behind them: so a change is
written again as often as the changes since the whole snapshot have doubled, and not each time.

What is more than a piece (:mod:`engine.state.pieces`) becomes several files of one epoch, each with
rows of its own: no more than a piece is ever in memory. Those of the first epoch of a chain are the
whole snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from engine.base.background import Later, at_once
from engine.base.failpoints import reach
from engine.errors import CheckpointCorruptError
from engine.snapshots.handles import SnapshotHandle
from engine.snapshots.names import CHECKSUM_DIGITS, SnapshotName
from engine.state.chains import Chain
from engine.state.contract import StatefulStage
from engine.state.files import Header, Link, TableHead, checksum_of, encode
from engine.state.pieces import Gathering, Piece, by_group, piece_bytes
from engine.state.restoring import read_changes, read_pieces
from engine.state.scratch import HERE, Scratch

if TYPE_CHECKING:
    from engine.checkpoint.storage.contract import Storage

FILES_MAX: Final = 30
"""Longer chains are made shorter."""
CHANGES_SHARE_MAX: Final = 0.5
"""So are those whose changes are larger than this part of the whole snapshot that they follow..."""
CHANGES_BYTES_MIN: Final = 1 << 20
"""... and than so many bytes."""
WHOLE_ROWS_MIN: Final = 1 << 13
"""An epoch that has changed more rows, and more than that part of them, is a whole snapshot: it
begins a new chain."""


class SnapshotWriter:
    """See the module. :meth:`prepare` is called by the task, what it returns is written in the same
    order by one other thread.

    :param stage: the number of the task's pipeline.
    :param groups: the key groups that the task owns.
    :param generation: of the run.
    :param chain: what :func:`engine.state.restoring.restore` has returned; None: the first snapshot
        is a whole one.
    :param lag_ms: see :class:`engine.snapshots.handles.SnapshotHandle`.
    :param later: where files are made into one; a thread of its own, or epochs wait for it.
    :param scratch: for what is taken of the state, and waits to be written.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        query_id: str,
        stage: int,
        groups: range,
        generation: int,
        chain: Chain | None = None,
        lag_ms: int = 0,
        later: Later = at_once,
        scratch: Scratch = HERE,
    ) -> None:
        self._storage = storage
        self._query_id = query_id
        self._stage = stage
        self._groups = groups
        self._generation = generation
        self._lag_ms = lag_ms
        self._later = later
        self._scratch = scratch
        # What the task knows.
        self._has_whole = chain is not None and bool(chain.links)
        self._whole_rows = 0 if chain is None else sum(link.rows for link in _whole(chain.links))
        # What the writing thread knows.
        self._last = None if chain is None else replace(chain.handle, lag_ms=lag_ms)
        self._links = () if chain is None else chain.links
        self._asked_at = 0  # the length of the chain that is being made into one file
        self._shortened: tuple[tuple[Link, ...], tuple[Link, ...]] | None = None
        self._replaced: tuple[str, ...] = ()

    def prepare(self, epoch: int, watermark_ms: int, stages: Sequence[StatefulStage]) -> Job:
        """Take what the epoch has changed.

        :param watermark_ms: of the next epoch: what it closes, the stages have closed.
        :param stages: those of the task that keep state, each with a name of its own.
        """
        whole = not self._has_whole
        taken = None
        if not whole:
            # Twice as many rows now cost less than to make one file of these and all before them.
            rows_max = max(CHANGES_SHARE_MAX * self._whole_rows, WHOLE_ROWS_MIN)
            taken = self._taken(stages, rows_max)
            whole = taken is None
        if taken is None:
            taken = self._taken(stages)
            assert taken is not None, "there is no limit"
            self._has_whole = bool(taken)
            self._whole_rows = sum(piece.rows for piece in taken)
        return Job(self, epoch, watermark_ms, whole, tuple(taken))

    def _taken(
        self, stages: Sequence[StatefulStage], rows_max: float | None = None
    ) -> list[Piece] | None:
        """What has changed in the stages, or all there is; tables without rows are left out.

        :param rows_max: of changes; None: all there is. More: the result is None.
        """
        gathering = Gathering(self._scratch)
        for stage in stages:
            heads = {table.name: TableHead.of(stage.name, table) for table in stage.tables}
            for name, rows in stage.changes(whole=rows_max is None):
                gathering.add(heads[name], rows)
                if rows_max is not None and gathering.rows > rows_max:
                    return None
        return gathering.pieces()

    # -- on the writing thread ------------------------------------------------------------------

    def _write(self, job: Job) -> SnapshotHandle:
        before = self._last
        handle = self._written(job)
        if handle is before:
            return handle
        replaced, self._replaced = self._replaced, ()
        return replace(handle, replaced=replaced)

    def _written(self, job: Job) -> SnapshotHandle:
        self._take_shortened()
        if job.whole:
            self._links, self._asked_at, self._replaced = (), 0, ()
        if not job.pieces:
            # Nothing has changed; or all there is was asked for, and there is nothing.
            if job.whole:
                self._last = self._handle(job.epoch, ())
            assert self._last is not None, "there is a whole snapshot"
            return self._last
        links = self._links
        for piece in job.pieces:
            link = self._create(job.epoch, job.watermark_ms, links, piece.heads, piece.tables)
            links = (*links, link)
        self._links = links
        self._last = self._handle(_epoch_of(self._links[0]), self._links)
        if self._is_long:
            self._asked_at = len(self._links)
            chain = Chain(self._last, self._links)
            self._later("snapshot", lambda: self._shorten(chain, job.epoch, job.watermark_ms))
        return self._last

    @property
    def _is_long(self) -> bool:
        """And not being made shorter already; if that has failed, it is asked for anew when as many
        files have come behind it."""
        if self._asked_at:
            return len(self._links) >= self._asked_at + FILES_MAX
        changes = self._links[len(_whole(self._links)) :]
        # A large file costs what its rows cost; and two of them would not become one.
        small = [link for link in changes if 2 * link.nbytes < piece_bytes(self._scratch)]
        if _nbytes(changes) > CHANGES_BYTES_MIN and _are_large(self._links):
            return True
        return bool(small) and len(small) + 1 >= FILES_MAX

    def _take_shortened(self) -> None:
        """Go on behind one file in the place of those that were made into it."""
        if self._shortened is None:
            return
        files, links = self._shortened
        self._shortened = None
        if self._links[: len(files)] != files:
            return  # asked for twice, and this is the second one
        self._asked_at = 0
        self._links = (*links, *self._links[len(files) :])
        if links[0] == files[0]:  # else they are older than the chain
            self._replaced += tuple(link.file for link in files if link not in links)
        if len(self._links) == len(links):
            self._last = self._handle(_epoch_of(links[0]), self._links)
        # Else the last file goes on naming those that it has followed.

    def _shorten(self, chain: Chain, epoch: int, watermark_ms: int) -> None:
        links = chain.links
        first = 0 if _are_large(links) else _first_of_newest(links)
        try:
            merged = self._merged(chain, first, epoch, watermark_ms)
        except CheckpointCorruptError:
            if self._links[: len(links)] == links:
                raise
            return  # a whole snapshot has begun a chain of its own, and retention removed these
        self._shortened = (links, merged)

    def _merged(self, chain: Chain, first: int, epoch: int, watermark_ms: int) -> tuple[Link, ...]:
        """The chain with one file in the place of those from one on, or with several pieces.

        :param first: the place of that one; 0: the whole chain is made into a whole snapshot.
        """
        if first:
            pieces = read_changes(
                self._storage,
                chain.links[first:],
                self._groups,
                query_id=self._query_id,
                scratch=self._scratch,
            )
        else:
            pieces = read_pieces(
                self._storage,
                [chain.handle],
                self._groups,
                query_id=self._query_id,
                watermark_ms=watermark_ms,
                scratch=self._scratch,
            )
        links = chain.links[:first]
        for tables in pieces:
            rows = tuple(map(by_group, tables.values()))
            if not links or any(map(len, rows)):
                links = (*links, self._create(epoch, watermark_ms, links, tuple(tables), rows))
        return links

    def _create(
        self,
        epoch: int,
        watermark_ms: int,
        links: tuple[Link, ...],
        heads: tuple[TableHead, ...],
        tables: Sequence[pa.Table],
    ) -> Link:
        first, end = self._groups.start, self._groups.stop
        header = Header(
            query_id=self._query_id,
            stage=self._stage,
            first_group=first,
            end_group=end,
            epoch=epoch,
            generation=self._generation,
            watermark_ms=watermark_ms,
            chain=links,
            tables=heads,
        )
        data = encode(header, tables)
        checksum = checksum_of(data)
        digits = checksum[:CHECKSUM_DIGITS]
        name = str(SnapshotName(self._stage, epoch, self._generation, first, end, digits))
        reach("snapshot.before")
        # It may be there if only the storage's answer was lost.
        if not self._storage.create(name, data) and self._storage.read(name) != data:
            raise CheckpointCorruptError(
                f"{self._storage.path(name)} is there already, and holds something else than the "
                f"state behind epoch {epoch}.",
                epoch=epoch,
                hint="No run of the engine writes that: move the file away, and find its writer.",
            )
        reach("snapshot.after")
        return Link(name, checksum, len(data), sum(table.num_rows for table in tables))

    def _handle(self, since: int, links: Sequence[Link]) -> SnapshotHandle:
        newest = links[-1] if links else None
        return SnapshotHandle(
            stage=self._stage,
            first_group=self._groups.start,
            end_group=self._groups.stop,
            file=None if newest is None else newest.file,
            checksum=None if newest is None else newest.checksum,
            since=since,
            rows=sum(link.rows for link in links),
            nbytes=_nbytes(links),
            lag_ms=self._lag_ms,
        )


def _whole(links: Sequence[Link]) -> Sequence[Link]:
    """The files of a chain that are its whole snapshot: those of its first epoch."""
    return [link for link in links if _epoch_of(link) == _epoch_of(links[0])]


def _nbytes(links: Sequence[Link]) -> int:
    return sum(link.nbytes for link in links)


def _are_large(links: Sequence[Link]) -> bool:
    """Whether what has changed since the whole snapshot is, beside that."""
    whole = _nbytes(_whole(links))
    return _nbytes(links) - whole > CHANGES_SHARE_MAX * whole


def _first_of_newest(links: Sequence[Link]) -> int:
    """The place of the first of those that are made into one for their number; if there are no two
    changes it is 0."""
    changes = len(_whole(links))
    first = max(len(links) - max(FILES_MAX // 2, 2), changes)
    while first > changes and links[first - 1].nbytes <= _nbytes(links[first:]):
        first -= 1
    return first if first < len(links) - 1 else 0


def _epoch_of(link: Link) -> int:
    name = SnapshotName.parse(link.file)
    assert name is not None, "the file was written here"
    return name.epoch


@dataclass(frozen=True)
class Job:
    """A snapshot that is to be written.

    :param whole: it has all rows; else those that have changed.
    """

    writer: SnapshotWriter
    epoch: int
    watermark_ms: int
    whole: bool
    pieces: tuple[Piece, ...]

    def write(self) -> SnapshotHandle:
        """Returns when the state behind the epoch is durable; that may be a file of an earlier one.

        :raises CheckpointError: it cannot be written.
        """
        return self.writer._write(self)
