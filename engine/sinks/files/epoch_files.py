"""The files that one task writes for one epoch."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import quote

import pyarrow as pa

from engine.base import durable as disk
from engine.base.failpoints import reach
from engine.errors import SinkUnavailableError
from engine.sinks.files.file_formats import FileFormat
from engine.sinks.files.file_sink_log import SinkFile
from engine.sinks.files.partition_paths import split

BUFFER_BYTES: Final = 64 << 20
"""So much is gathered before it is written: row groups of a useful size."""


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
    :param generation: of the run, a part of the file names too; None outside of this engine.
    """

    def __init__(self, layout: FileLayout, partition: int, generation: int | None = None) -> None:
        self._layout = layout
        self._partition = partition
        self._generation = generation
        self._buffer: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._open: dict[str, _OpenFile] = {}  # by folder
        self._finished = False

    def add(self, batch: pa.RecordBatch) -> None:
        """:raises SinkUnavailableError: the files cannot be written."""
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
            files = tuple(file.finish() for file in self._open.values())
            for folder in {file.path.parent for file in self._open.values()}:
                disk.sync_folder(folder)
            reach("data.synced")
        except OSError as exc:
            raise _unavailable(self._layout.path, exc) from exc
        self._finished = True
        return files

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
                if folder not in self._open:
                    self._open[folder] = self._create(folder, part.schema)
                self._open[folder].encoder.write_table(part)
        except OSError as exc:
            raise _unavailable(layout.path, exc) from exc

    def _create(self, folder: str, schema: pa.Schema) -> _OpenFile:
        path = self._layout.path / folder
        disk.make_folder(path)
        extension = self._layout.file_format.extension
        generation = "" if self._generation is None else f"g{self._generation}-"
        name = f"part-{self._partition:05d}-{generation}{uuid.uuid4()}-c000{extension}"
        return _OpenFile(path / name, self._layout.file_format, schema)

    def __enter__(self) -> EpochFiles:
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


def _unavailable(path: Path, exc: OSError) -> SinkUnavailableError:
    return SinkUnavailableError(
        f"Cannot write to {path}: {exc.strerror or exc}.",
        hint="The epoch is not committed; it is written again when the query restarts.",
    )
