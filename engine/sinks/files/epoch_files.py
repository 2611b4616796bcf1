"""The files that one task writes for one epoch."""

from __future__ import annotations

import errno
import os
import socket
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import quote

import pyarrow as pa

from engine.base import durable as disk
from engine.base.failpoints import reach
from engine.base.locations import local_path
from engine.errors import ConfigError, SinkCommitRejectedError, SinkUnavailableError
from engine.redaction.logs import shown
from engine.sinks.epoch_context import EpochContext
from engine.sinks.files.file_formats import FileFormat
from engine.sinks.files.file_sink_log import SinkFile
from engine.sinks.files.partition_paths import split

BUFFER_BYTES: Final = 64 << 20
"""So much is gathered before it is written: row groups of a useful size."""


OPEN_FILES_MAX: Final = 64
"""A task has so many files open, whatever ``partitionBy`` makes of its rows. What is more is closed
and, if rows for it come later, followed by further files."""
_NO_NAME: Final = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
_SHARED: Final = (
    "The files sink needs storage that the driver and all executors see under the same path: "
    "choose a folder on a network file system, or a sink that writes elsewhere."
)


@dataclass(frozen=True)
class FileLayout:
    """Where the files go, and what they are like. Picklable.

    :param partition_by: columns that become folders.
    """

    path: Path
    file_format: FileFormat
    partition_by: tuple[str, ...] = ()
    session_timezone: str = "UTC"


class EpochFiles:
    """A context manager: what was not finished is deleted at its end. No file is created before
    there are rows for it.

    :param partition: the task's number, a part of the file names.
    :param context: the epoch. The run's generation is a part of the file names, too; None outside
        of this engine.
    :raises ConfigError: this machine lacks the folder, and no epoch was ever committed.
    :raises SinkUnavailableError: it lacks it by now.
    """

    def __init__(
        self, layout: FileLayout, partition: int, context: EpochContext | None = None
    ) -> None:
        self._layout = layout
        self._partition = partition
        self._context = context
        self._buffer: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._open: dict[str, _OpenFile] = {}  # by folder, the one written last at the end
        self._closed: list[SinkFile] = []
        self._folders: set[Path] = set()
        self._finished = False

    def add(self, batch: pa.RecordBatch) -> None:
        """:raises SinkUnavailableError: the files cannot be written.
        :raises SinkCommitRejectedError: a partition value makes no folder.
        """
        self._buffer.append(batch)
        self._buffered_bytes += batch.nbytes
        if self._buffered_bytes >= BUFFER_BYTES:
            self._flush()

    def finish(self) -> tuple[SinkFile, ...]:
        """Everything is durable now.

        :raises SinkUnavailableError: the files cannot be written.
        """
        self._flush()
        try:
            while self._open:
                self._close_oldest()
            for folder in self._folders:
                disk.sync_folder(folder)
            reach("data.synced")
        except OSError as exc:
            raise _unavailable(self._layout.path, exc) from exc
        self._finished = True
        return tuple(self._closed)

    def _flush(self) -> None:
        if not self._buffer:
            return
        table = pa.Table.from_batches(self._buffer)
        self._buffer, self._buffered_bytes = [], 0
        layout = self._layout
        parts = (
            split(table, layout.partition_by, layout.session_timezone)
            if layout.partition_by
            else iter([("", table)])
        )
        try:
            for folder, part in parts:
                file = self._open.pop(folder, None)
                if file is None:
                    if len(self._open) >= OPEN_FILES_MAX:
                        self._close_oldest()
                    file = self._create(folder, part.schema)
                self._open[folder] = file
                file.encoder.write_table(part)
        except OSError as exc:
            raise _unavailable(layout.path, exc) from exc

    def _close_oldest(self) -> None:
        """Finish the file that was not written for the longest time."""
        folder = next(iter(self._open))
        self._closed.append(self._open[folder].finish())
        del self._open[folder]

    def _create(self, folder: str, schema: pa.Schema) -> _OpenFile:
        self._check_root()
        path = self._layout.path / folder
        extension = self._layout.file_format.extension
        generation = "" if self._context is None else f"g{self._context.generation}-"
        name = f"part-{self._partition:05d}-{generation}{uuid.uuid4()}-c000{extension}"
        try:
            disk.make_folder(path)
            file = _OpenFile(path / name, self._layout.file_format, schema)
        except OSError as exc:
            if folder and exc.errno in _NO_NAME:
                raise _no_folder(folder, exc) from exc
            raise
        self._folders.add(path)
        return file

    def _check_root(self) -> None:
        """The driver has made the folder at the start of the query. To make it again would hide
        that this machine has another one. Where no epoch was ever committed nobody has seen it
        here; later, a mount may be back soon."""
        if self._context is None:
            return
        try:
            disk.system.stat(self._layout.path)
        except FileNotFoundError:
            kind = SinkUnavailableError if self._context.epoch else ConfigError
            raise kind(
                f"The sink's folder {self._layout.path} is on the driver, and not on "
                f"{socket.gethostname()}, where a task runs.",
                hint=_SHARED,
            ) from None

    def __enter__(self) -> EpochFiles:
        self._check_root()  # whether rows come or not: the first epochs may have none
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._finished:
            for file in self._open.values():
                file.discard()
            for closed in self._closed:
                with suppress(OSError):
                    disk.system.unlink(local_path(closed.path, "sink"))


def check_files(files: Sequence[SinkFile], host: str) -> None:
    """See that the driver has the files that a task has written, as they are.

    :param host: where the task ran; empty: not known.
    :raises SinkCommitRejectedError: it lacks one, or has another.
    """
    for each in files:
        path = local_path(each.path, "sink")
        size = _size(path)
        if size != each.size:
            found = "there is none" if size is None else f"it has {size} bytes"
            raise SinkCommitRejectedError(
                f"A task on {host or 'an executor'} has written {path} with {each.size} bytes; on "
                f"the driver, {socket.gethostname()}, {found}. The epoch is not committed.",
                hint=_SHARED,
            )


def _size(path: Path) -> int | None:
    for looked_closely in (False, True):
        try:
            return int(disk.system.stat(path).st_size)
        except FileNotFoundError:
            if not looked_closely:  # a network file system may remember an older folder
                with suppress(OSError), disk.system.scandir(path.parent) as entries:
                    next(iter(entries), None)
    return None


class _OpenFile:
    def __init__(self, path: Path, file_format: FileFormat, schema: pa.Schema) -> None:
        self.path = path
        self._file = disk.create(path)
        self.encoder = file_format.encoder(self._file, schema)

    def finish(self) -> SinkFile:
        self.encoder.close()
        reach("data.written")
        disk.sync(self._file)
        found = disk.system.fstat(self._file.fileno())
        self._file.close()
        return SinkFile(
            path="file://" + quote(str(self.path), safe="/=+,:;@&$!*'()~-._"),
            size=found.st_size,
            modified_ms=found.st_mtime_ns // 1_000_000,
        )

    def discard(self) -> None:
        # Something has failed already; that is what the caller has to hear about.
        with suppress(OSError, pa.ArrowException, ValueError):
            self.encoder.close()
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            disk.system.unlink(self.path)


def _no_folder(folder: str, exc: OSError) -> SinkCommitRejectedError:
    longest = max(folder.split("/"), key=lambda part: len(os.fsencode(part)))
    column, _, value = longest.partition("=")
    return SinkCommitRejectedError(
        f"The value {shown(value)!r} of column {column!r} makes no folder: {exc.strerror or exc}.",
        hint="partitionBy needs columns of short values. Start the query with a select that makes "
        "this one shorter (substring, md5), or leaves such rows out.",
    )


def _unavailable(path: Path, exc: OSError) -> SinkUnavailableError:
    return SinkUnavailableError(
        f"Cannot write to {path}: {exc.strerror or exc}.",
        hint="The epoch is not committed; it is written again when the query restarts.",
    )
