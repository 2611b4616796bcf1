"""The files that one task writes for one epoch."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from engine.base import durable as disk
from engine.errors import ConfigError, SinkCommitRejectedError, SinkUnavailableError
from engine.sinks.epoch_context import EpochContext
from engine.sinks.files.file_formats import FileFormat
from engine.sinks.files.file_sink_log import SinkFile
from engine.sinks.files.partition_paths import folder_of
from engine.sinks.files.places import DiskPlace, Place
from engine.sinks.files.row_files import EncodedFile, RowFiles

_SHARED: Final = (
    "The files sink needs storage that the driver and all executors see under the same path: "
    "choose a folder on a network file system, or a sink that writes elsewhere."
)


@dataclass(frozen=True)
class FileLayout:
    """Where the files go, and what they are like. Picklable.

    :param partition_by: columns that become folders.
    """

    place: Place
    file_format: FileFormat
    partition_by: tuple[str, ...] = ()
    session_timezone: str = "UTC"


class EpochFiles(RowFiles[SinkFile]):
    """See :class:`~engine.sinks.files.row_files.RowFiles`.

    :param partition: the task's number, a part of the file names.
    :param context: the epoch. The run's generation is a part of the file names, too; None outside
        of this engine.
    :raises ConfigError: this machine lacks the folder, and no epoch was ever committed.
    :raises SinkUnavailableError: it lacks it by now.
    """

    def __init__(
        self, layout: FileLayout, partition: int, context: EpochContext | None = None
    ) -> None:
        super().__init__(layout.partition_by, layout.session_timezone)
        self._layout = layout
        self._partition = partition
        self._context = context
        self._folders: set[str] = set()

    def _create(self, values: Sequence[str | None], schema: pa.Schema) -> _OpenFile:
        self._check_root()
        folder = folder_of(self._layout.partition_by, values)
        extension = self._layout.file_format.extension
        generation = "" if self._context is None else f"g{self._context.generation}-"
        name = f"part-{self._partition:05d}-{generation}{uuid.uuid4()}-c000{extension}"
        self._folders.add(folder)
        path = f"{folder}/{name}" if folder else name
        return _OpenFile(self._layout.place, path, self._layout.file_format, schema)

    def _settle(self) -> None:
        self._layout.place.settle(self._folders)

    def _remove(self, file: SinkFile) -> None:
        self._layout.place.remove(self._layout.place.path_of(file.path))

    def _unavailable(self, error: OSError) -> SinkUnavailableError:
        return cannot_write(self._layout.place.url, error)

    def _check_root(self) -> None:
        place = self._layout.place
        if self._context is not None and isinstance(place, DiskPlace):
            check_root(place.root, self._context.epoch)

    def __enter__(self) -> EpochFiles:
        self._check_root()  # whether rows come or not: the first epochs may have none
        return self


def check_root(folder: Path, epoch: int) -> None:
    """See that an executor has the folder which the driver has made at the start of the query. To
    make it again would hide that this machine has another one. Where no epoch was ever committed
    nobody has seen it here; later, a mount may be back soon.

    :param epoch: the one that is written.
    :raises ConfigError: there is none, and never was.
    :raises SinkUnavailableError: there is none now.
    """
    try:
        disk.system.stat(folder)
    except FileNotFoundError:
        kind = SinkUnavailableError if epoch else ConfigError
        raise kind(
            f"The sink's folder {folder} is on the driver, and not on {socket.gethostname()}, "
            "where a task runs.",
            hint=_SHARED,
        ) from None


def check_files(files: Iterable[tuple[Path, int]], host: str) -> None:
    """See that the driver has the files that a task has written, as they are.

    :param files: each with its size in bytes.
    :param host: where the task ran; empty: not known.
    :raises SinkCommitRejectedError: it lacks one, or has another.
    """
    for path, written in files:
        size = _size(path)
        if size != written:
            found = "there is none" if size is None else f"it has {size} bytes"
            raise SinkCommitRejectedError(
                f"A task on {host or 'an executor'} has written {path} with {written} bytes; on "
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


def cannot_write(folder: str, exc: OSError) -> SinkUnavailableError:
    """The error of a task that cannot write its files."""
    return SinkUnavailableError(
        f"Cannot write to {folder}: {exc.strerror or exc}.",
        hint="The epoch is not committed; it is written again when the query restarts.",
    )


class _OpenFile(EncodedFile[SinkFile]):
    def __init__(self, place: Place, path: str, file_format: FileFormat, schema: pa.Schema) -> None:
        self._place, self._path = place, path
        file = place.create(path)
        super().__init__(file, file_format.encoder(file, schema))

    def finish(self) -> SinkFile:
        size = self._file.tell()
        modified_ms = self._place.close(self._file)
        return SinkFile(path=self._place.url_of(self._path), size=size, modified_ms=modified_ms)

    def _remove(self) -> None:
        self._place.remove(self._path)
