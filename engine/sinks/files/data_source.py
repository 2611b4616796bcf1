"""``parquet``, ``json``, ``csv``: files in a folder, each epoch exactly once.

Each task writes its rows of an epoch to new files, under their final names, and makes them durable.
They do not exist for a reader until the driver has put their names into the log of the folder
(:mod:`engine.sinks.files.file_sink_log`), which is Spark's: ``spark.read.parquet(path)`` sees
exactly the committed epochs. What a crash leaves behind is never read; it costs nothing but space.

==================  ============  ===============================================================
option              default
==================  ============  ===============================================================
path                              a local or mounted folder, or a URL of an object store:
                                  ``s3://bucket/out``
compression         snappy, none  parquet: snappy, none, gzip, zstd, lz4_raw, brotli; others:
                                  none, gzip
compactInterval     10            every so many epochs the log is compacted, until it is long; with
                                  more than 10, Spark's readers must be told the same with
                                  ``spark.sql.streaming.fileSink.log.compactInterval``
retention                         ``7d``, ``12h``, ...: files that were written longer ago vanish
                                  for readers at the next compaction, and stay in the folder
header              false         csv: each file begins with the names of the columns
sep, delimiter      ``,``         csv
nullValue           (empty)       csv: stands for null
timeZone            session's     json, csv: in which timestamps are written
storage.*                         with a URL: settings of fsspec, such as ``storage.key``
==================  ============  ===============================================================

``partitionBy`` lays files out in folders ``column=value/``. The formats register with Spark as
``continuous_parquet``, ``continuous_json`` and ``continuous_csv``.
"""

from __future__ import annotations

import re
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from engine.base.connector_options import PARTITION_BY, SESSION_TIMEZONE, Options
from engine.base.json_text import JSON
from engine.base.nested_settings import pop_settings
from engine.checkpoint.logs.compaction import DEFAULT_INTERVAL
from engine.checkpoint.sink_context import SinkContext
from engine.checkpoint.storage.opening import prove_create_if_absent
from engine.errors import CheckpointError, ConfigError
from engine.expressions.schemas import to_arrow
from engine.sinks.adapter import own_messages
from engine.sinks.contract import EXACTLY_ONCE, ContinuousWriter
from engine.sinks.epoch_context import EpochContext
from engine.sinks.files.csv_format import CsvFormat
from engine.sinks.files.epoch_files import EpochFiles, FileLayout, check_files
from engine.sinks.files.file_formats import JsonFormat, ParquetFormat
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog, SinkFile
from engine.sinks.files.file_sink_rewind import FileSinkRewind
from engine.sinks.files.places import STORAGE, DiskPlace, place_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_MILLISECONDS: Final = {
    "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000
}  # fmt: skip


@dataclass(frozen=True)
class FilesMessage(WriterCommitMessage):
    """The files that a task has written for an epoch.

    :param host: where the task ran.
    """

    files: tuple[SinkFile, ...]
    host: str | None = None


class FilesDataSource(DataSource):
    """See the module; one subclass per format."""

    format_name: ClassVar[str]
    file_format: ClassVar[type[ParquetFormat | JsonFormat | CsvFormat]]

    def __init__(self, options: Mapping[str, str]) -> None:
        owner = f"sink {self.format_name}"
        given = {name: str(value) for name, value in options.items()}
        settings = pop_settings(given, STORAGE)
        taken = Options(owner, given)
        location = taken.required("path", example="/data/out")
        self._place = place_of(location, settings, owner)
        self._settings = tuple(name for name in options if name.lower().startswith(STORAGE))
        self._format = self.file_format(taken)
        self._partition_by = taken.names(PARTITION_BY)
        self._session_timezone = taken.text(SESSION_TIMEZONE) or "UTC"
        self._interval = taken.integer("compactInterval", DEFAULT_INTERVAL, minimum=2)
        self._retention_ms = _milliseconds(taken, "retention")
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return f"continuous_{cls.format_name}"

    def streamWriter(self, schema: StructType, overwrite: bool) -> FilesWriter:
        """:raises ConfigError: the format cannot hold the schema, or partitionBy names what is not
        there."""
        owner = f"sink {self.format_name}"
        arrow_schema = to_arrow(schema, owner)
        _check_partitions(owner, arrow_schema, self._partition_by)
        self._format.check(arrow_schema)
        return FilesWriter(
            FileLayout(
                place=self._place,
                file_format=self._format,
                partition_by=self._partition_by,
                session_timezone=self._session_timezone,
            ),
            self._interval,
            self._retention_ms,
            self._settings,
        )


class ParquetDataSource(FilesDataSource):
    format_name = "parquet"
    file_format = ParquetFormat


class JsonDataSource(FilesDataSource):
    format_name = "json"
    file_format = JsonFormat


class CsvDataSource(FilesDataSource):
    format_name = "csv"
    file_format = CsvFormat


class FilesWriter(ContinuousWriter, DataSourceStreamArrowWriter):
    """Writes on the executors, commits on the driver."""

    delivery = EXACTLY_ONCE
    messageTypes: ClassVar[Mapping[str, type]] = {"files": FilesMessage, "file": SinkFile}

    def __init__(
        self,
        layout: FileLayout,
        compact_interval: int,
        retention_ms: int | None = None,
        settings: Sequence[str] = (),
    ) -> None:
        """:param settings: names of the options that open the storage."""
        self._layout = layout
        self.tuningOptions = ("compression", "compactInterval", "retention", *settings)
        self.log = FileSinkLog(
            layout.place.log(FOLDER),
            interval=compact_interval,
            retention_ms=retention_ms,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"_layout": self._layout}  # the executors only write

    @property
    def path(self) -> str:
        """The folder, absolute."""
        return self._layout.place.url

    def bind(self, context: SinkContext) -> None:
        """Shut out the runs before this one, wherever they sleep."""
        self.log.take(context.query_id, context.generation)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesMessage:
        context = EpochContext.get()
        partition = _spark_partition() if context is None else context.partition
        with EpochFiles(self._layout, partition, context) as files:
            for batch in iterator:
                files.add(batch)
            return FilesMessage(files.finish(), socket.gethostname())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Skips an epoch that is in the log already.

        :raises SinkError: the epoch was refused, or it is not known whether it is committed.
        """
        place = self._layout.place
        # Else they may have been removed since.
        if isinstance(place, DiskPlace) and not self.log.has(batchId):
            for each in own_messages(messages, FilesMessage):
                found = ((place.root / place.path_of(f.path), f.size) for f in each.files)
                check_files(found, each.host or "")
        self.log.add(batchId, _files(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files of an epoch that will not be committed."""
        place = self._layout.place
        for file in _files(messages):
            place.remove(place.path_of(file.path))

    def latestEpoch(self) -> int | None:
        """The newest committed epoch.

        :raises SinkError: the log is damaged.
        """
        self.log.verify()
        return self.log.latest()

    def hasBatch(self, batch: int) -> bool:
        """Whether the log has come to this batch of Spark's."""
        return FileSinkRewind(self.log).hasBatch(batch)

    def checkRewind(self, epoch: int, position: JSON = None) -> None:
        """:raises ConfigError: it is not known any more which files the epoch ended with."""
        FileSinkRewind(self.log).checkRewind(epoch, position)

    def rewind(self, epoch: int, position: JSON = None) -> None:
        """Make the files of later epochs invisible. They stay in the folder."""
        FileSinkRewind(self.log).rewind(epoch, position)

    def rewindPosition(self, epoch: int) -> JSON:
        """What a pin has to keep."""
        return FileSinkRewind(self.log).rewindPosition(epoch)

    def validate(self) -> None:
        """:raises ConfigError: the folder cannot be created or written to, or is in a store that
        lets two runs overwrite each other's epochs."""
        place = self._layout.place
        probe = f".{uuid.uuid4()}.probe"
        try:
            place.make()
            place.create(probe).close()
            place.remove(probe)
            if place.is_shared:
                prove_create_if_absent(self.log.storage)
        except (OSError, CheckpointError) as exc:
            reason = exc.message if isinstance(exc, CheckpointError) else exc.strerror or exc
            raise ConfigError(
                f"The sink cannot write to {place.url}: {reason}.",
                hint="Choose a folder that this user may write to.",
            ) from exc


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[SinkFile]:
    return [file for each in own_messages(messages, FilesMessage) for file in each.files]


def _spark_partition() -> int:
    from pyspark import TaskContext

    task = TaskContext.get()
    return 0 if task is None else task.partitionId()


def _milliseconds(options: Options, name: str) -> int | None:
    """A length of time as Spark's ``retention`` has it: without a unit, milliseconds.

    Source: Spark's JavaUtils.timeStringAsMs.
    """
    text = options.text(name)
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)(ms|s|m|min|h|d)?", text.strip().lower())
    if found is None:
        raise options.wrong(name, text, "a number with ms, s, m, h or d, such as 7d")
    return int(found.group(1)) * _MILLISECONDS[found.group(2) or "ms"]


def _check_partitions(owner: str, schema: pa.Schema, columns: Sequence[str]) -> None:
    missing = [column for column in columns if column not in schema.names]
    if missing:
        raise ConfigError(
            f"{owner}: partitionBy names {missing[0]!r}, which is no column.",
            hint=f"There are {', '.join(schema.names)}.",
        )
    nested = [column for column in columns if pa.types.is_nested(schema.field(column).type)]
    if nested:
        raise ConfigError(f"{owner}: {nested[0]!r} is nested and cannot name a folder.")
    if columns and len(columns) == len(schema.names):
        raise ConfigError(
            f"{owner}: partitionBy names all columns, so no data would be left for the files."
        )
