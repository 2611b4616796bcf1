"""Snapshots: what a task writes of its state behind each epoch that has changed it.

A file has the rows that have changed since the one before, or all of them (:mod:`engine.state.files`
has the format, :mod:`engine.state.names` the names). All rows are due when the changes take half as
much as all took the last time, or when a restart would have to read :data:`FILES_MAX` files.

To take the changes is the task's own work, between two epochs; they are written on another thread,
while the next epoch runs. A file is durable when :meth:`Job.write` returns, and is part of the state
when the offset log names it. Files are created, and never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from engine.base.failpoints import reach
from engine.errors import CheckpointCorruptError
from engine.state.contract import StatefulStage
from engine.state.files import Header, Link, TableHead, checksum_of, encode
from engine.state.handles import SnapshotHandle
from engine.state.names import CHECKSUM_DIGITS, SnapshotName

if TYPE_CHECKING:
    from engine.checkpoint.storage.contract import Storage

FILES_MAX: Final = 30
"""A chain has no more files."""
CHANGES_SHARE_MAX: Final = 0.5
"""Of the size of the whole snapshot that they follow."""


@dataclass(frozen=True)
class Chain:
    """The files that a task goes on behind.

    :param handle: what the offset log says of them.
    :param links: the files, the oldest first.
    """

    handle: SnapshotHandle
    links: tuple[Link, ...]


class SnapshotWriter:
    """See the module. :meth:`prepare` is called by the task, what it returns is written in the same
    order by one other thread.

    :param stage: the number of the task's pipeline.
    :param groups: the key groups that the task owns.
    :param generation: of the run.
    :param chain: what :func:`engine.state.restoring.restore` has returned; None: the first snapshot
        is a whole one.
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
    ) -> None:
        self._storage = storage
        self._query_id = query_id
        self._stage = stage
        self._groups = groups
        self._generation = generation
        # What the writing thread knows, and what the task goes by: that need not wait for a file.
        self._written = chain
        links = () if chain is None else chain.links
        self._files = len(links)
        self._whole_bytes = links[0].nbytes if links else 0
        self._changed_bytes = sum(link.nbytes for link in links[1:])

    def prepare(self, epoch: int, watermark_ms: int, stages: Sequence[StatefulStage]) -> Job:
        """Take what the epoch has changed.

        :param watermark_ms: of the next epoch: what it closes, the stages have closed.
        :param stages: those of the task that keep state, each with a name of its own.
        """
        whole = self._whole_is_due
        heads, tables = list[TableHead](), list[pa.Table]()
        for stage in stages:
            changes = stage.changes(whole=whole)
            for table in stage.tables:
                rows = changes.get(table.name)
                if rows is not None and rows.num_rows:
                    heads.append(TableHead.of(stage.name, table))
                    tables.append(rows)
        if tables:
            nbytes = sum(table.nbytes for table in tables)
            if whole:
                self._files, self._whole_bytes, self._changed_bytes = 1, nbytes, 0
            else:
                self._files += 1
                self._changed_bytes += nbytes
        elif whole:
            self._files = 0
        return Job(self, epoch, watermark_ms, whole, tuple(heads), tuple(tables))

    @property
    def _whole_is_due(self) -> bool:
        return (
            self._files == 0
            or self._files >= FILES_MAX
            or self._changed_bytes > CHANGES_SHARE_MAX * self._whole_bytes
        )

    def _write(self, job: Job) -> SnapshotHandle:
        before = None if job.whole else self._written
        if not job.tables:
            # Nothing has changed; or all there is was asked for, and there is nothing.
            handle = self._handle(None, job.epoch, 0, 0) if before is None else before.handle
            self._written = Chain(handle, () if before is None else before.links)
            return handle
        links = () if before is None else before.links
        header = Header(
            query_id=self._query_id,
            stage=self._stage,
            first_group=self._groups.start,
            end_group=self._groups.stop,
            epoch=job.epoch,
            generation=self._generation,
            watermark_ms=job.watermark_ms,
            chain=links,
            tables=job.heads,
        )
        data = encode(header, job.tables)
        link = self._create(job.epoch, data, sum(table.num_rows for table in job.tables))
        links = (*links, link)
        since = job.epoch if before is None else before.handle.since
        rows, nbytes = sum(each.rows for each in links), sum(each.nbytes for each in links)
        handle = self._handle(link, since, rows, nbytes)
        self._written = Chain(handle, links)
        return handle

    def _create(self, epoch: int, data: bytes, rows: int) -> Link:
        checksum = checksum_of(data)
        name = str(
            SnapshotName(
                self._stage,
                epoch,
                self._generation,
                self._groups.start,
                self._groups.stop,
                checksum[:CHECKSUM_DIGITS],
            )
        )
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
        return Link(name, checksum, len(data), rows)

    def _handle(self, link: Link | None, since: int, rows: int, nbytes: int) -> SnapshotHandle:
        return SnapshotHandle(
            stage=self._stage,
            first_group=self._groups.start,
            end_group=self._groups.stop,
            file=None if link is None else link.file,
            checksum=None if link is None else link.checksum,
            since=since,
            rows=rows,
            nbytes=nbytes,
        )


@dataclass(frozen=True)
class Job:
    """A snapshot that is to be written.

    :param whole: it has all rows; else those that have changed.
    """

    writer: SnapshotWriter
    epoch: int
    watermark_ms: int
    whole: bool
    heads: tuple[TableHead, ...]
    tables: tuple[pa.Table, ...]

    def write(self) -> SnapshotHandle:
        """Returns when the state behind the epoch is durable; that may be a file of an earlier one.

        :raises CheckpointError: it cannot be written.
        """
        return self.writer._write(self)
