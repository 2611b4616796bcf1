"""The rows of a task and an epoch on their way into files: one for each set of partition values.

What a file is, and where it is, is told by those who derive from :class:`RowFiles`.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from engine.base.failpoints import reach
from engine.errors import ContinuousError, SinkCommitRejectedError
from engine.redaction.logs import shown
from engine.sinks.files.file_formats import Encoder
from engine.sinks.files.partition_paths import folder_of, split

BUFFER_BYTES: Final = 64 << 20
"""So much is gathered before it is written: row groups of a useful size."""
OPEN_FILES_MAX: Final = 64
"""A task has so many files open, whatever ``partitionBy`` makes of its rows. What is more is closed
and, if rows for it come later, followed by further files."""
_NO_NAME: Final = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)

F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)


class RowFile(Protocol[F_co]):
    """A file that is being written."""

    @property
    def bytes_written(self) -> int:
        """How many are in it, or on their way."""

    def write(self, table: pa.Table) -> None: ...

    def end(self) -> None:
        """Write what is still held back."""

    def finish(self) -> F_co:
        """Its content is durable now."""

    def discard(self) -> None:
        """Remove it. Something has failed already, which must not be hidden by another error."""


class EncodedFile(ABC, Generic[F_co]):
    """A :class:`RowFile` in one of the formats.

    :param file: was just created.
    """

    def __init__(self, file: IO[bytes], encoder: Encoder) -> None:
        self._file, self._encoder = file, encoder

    @property
    def bytes_written(self) -> int:
        return self._file.tell()

    def write(self, table: pa.Table) -> None:
        self._encoder.write_table(table)

    def end(self) -> None:
        self._encoder.close()

    @abstractmethod
    def finish(self) -> F_co: ...

    @abstractmethod
    def _remove(self) -> None:
        """Remove what was created."""

    def discard(self) -> None:
        with suppress(OSError, pa.ArrowException, ValueError):
            self._encoder.close()
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._remove()


class RowFiles(ABC, Generic[F]):
    """A context manager: what was not finished is removed at its end. No file is created before
    there are rows for it.

    :param partition_by: columns whose values are told by the file's folder, and not in it, unless
        :meth:`_parts` does otherwise.
    :param session_timezone: in which instants among them become text.
    :param file_bytes_max: a file that has so many bytes is followed by another one; None: never.
    """

    def __init__(
        self,
        partition_by: Sequence[str],
        session_timezone: str,
        *,
        file_bytes_max: int | None = None,
    ) -> None:
        self._partition_by = tuple(partition_by)
        self._session_timezone = session_timezone
        self._file_bytes_max = file_bytes_max
        self._buffer: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        # By partition values, the one that was written last at the end.
        self._open: dict[tuple[Any, ...], RowFile[F]] = {}
        self._closed: list[F] = []
        self._finished = False

    @abstractmethod
    def _create(self, values: Sequence[Any], schema: pa.Schema) -> RowFile[F]:
        """A new file for rows with these partition values.

        :param schema: of what :meth:`_parts` has made.
        """

    @abstractmethod
    def _settle(self) -> None:
        """All files are finished: see that they stay under their names."""

    @abstractmethod
    def _remove(self, file: F) -> None:
        """Remove a finished file."""

    @abstractmethod
    def _unavailable(self, error: OSError) -> ContinuousError:
        """What it means that the files cannot be written."""

    def _parts(self, table: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
        """The rows for each set of partition values, as they become files."""
        if not self._partition_by:
            return iter([((), table)])
        return split(table, self._partition_by, self._session_timezone)

    def _folder(self, values: Sequence[Any]) -> str:
        """Below which the files with these partition values are."""
        return folder_of(self._partition_by, values)

    def add(self, batch: pa.RecordBatch) -> None:
        """:raises SinkUnavailableError: the files cannot be written.
        :raises SinkCommitRejectedError: a partition value makes no folder.
        """
        self._buffer.append(batch)
        self._buffered_bytes += batch.nbytes
        if self._buffered_bytes >= BUFFER_BYTES:
            self._flush()

    def finish(self) -> tuple[F, ...]:
        """Everything is durable now.

        :raises SinkUnavailableError: the files cannot be written.
        """
        self._flush()
        try:
            while self._open:
                self._close(next(iter(self._open)))
            self._settle()
            reach("data.synced")
        except OSError as exc:
            raise self._unavailable(exc) from exc
        self._finished = True
        return tuple(self._closed)

    def _flush(self) -> None:
        if not self._buffer:
            return
        table = pa.Table.from_batches(self._buffer)
        self._buffer, self._buffered_bytes = [], 0
        try:
            for values, part in self._parts(table):
                self._write(values, part)
        except OSError as exc:
            raise self._unavailable(exc) from exc

    def _write(self, values: tuple[Any, ...], part: pa.Table) -> None:
        file = self._open.pop(values, None)
        if file is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._close(next(iter(self._open)))  # not written for the longest time
            file = self._created(values, part.schema)
        self._open[values] = file
        file.write(part)
        if self._file_bytes_max is not None and file.bytes_written >= self._file_bytes_max:
            self._close(values)

    def _close(self, values: tuple[Any, ...]) -> None:
        file = self._open[values]
        file.end()
        reach("data.written")
        self._closed.append(file.finish())
        del self._open[values]

    def _created(self, values: tuple[Any, ...], schema: pa.Schema) -> RowFile[F]:
        try:
            return self._create(values, schema)
        except OSError as exc:
            if values and exc.errno in _NO_NAME:
                raise _no_folder(self._folder(values), exc) from exc
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._finished:
            return
        for file in self._open.values():
            file.discard()
        for closed in self._closed:
            with suppress(OSError):
                self._remove(closed)


def _no_folder(folder: str, exc: OSError) -> SinkCommitRejectedError:
    longest = max(folder.split("/"), key=lambda part: len(os.fsencode(part)))
    column, _, value = longest.partition("=")
    return SinkCommitRejectedError(
        f"The value {shown(value)!r} of column {column!r} makes no folder: {exc.strerror or exc}.",
        hint="partitionBy needs columns of short values. Start the query with a select that makes "
        "this one shorter (substring, md5), or leaves such rows out.",
    )
