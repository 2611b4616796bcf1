"""``tail``: the lines of the files of a folder, new files and lines appended to known ones.

==================  =========  ==================================================================
option              default
==================  =========  ==================================================================
path                           the folder, which must exist
fileFormat                     ``json``, ``csv`` or ``text``: see :mod:`engine.sources.line_formats`
pathGlobFilter      ``*``      only files whose name matches, as for Spark's files: ``*``, ``?``,
                               ``[a-z]``, ``[^a-z]``, ``{a,b}``; a backslash before a character
                               that stands for itself
numPartitions       1          each file belongs to one, by a hash of its inode number
pollIntervalMs      5          an idle partition looks so often for news
maxRowsPerSecond               of all partitions together; continuous mode only
header              false      csv: the first line of each file is not a record
sep, delimiter      ``,``      csv
nullValue           (empty)    csv: stands for null
timeZone            session's  json, csv: of timestamps without one; UTC in Spark's micro-batch mode
==================  =========  ==================================================================

A schema is required, except for text. Files grow at their end. Only whole lines are read: what
comes after the last line break stays until the line is complete. Hidden files and those whose name
begins with ``_`` are ignored, and so are folders. A file may have one name only: of hard links one
is read.

Files may be rotated, also more than once while nobody looks, truncated and replaced: see
:mod:`engine.sources.tail.known_files`, also for what is lost. They may be removed when the offset
in the checkpoint has their end. The offset maps the name of each file to its next byte, and tells
which file that was, see :mod:`engine.sources.tail.tail_offset`.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource

from engine.base.connector_options import SESSION_TIMEZONE, Options
from engine.base.locations import local_path
from engine.errors import ConfigError, SourceUnavailableError
from engine.expressions.schemas import to_arrow
from engine.sources.contract import DataSourceContinuousReader, Offset
from engine.sources.json_lines import JsonLines
from engine.sources.line_formats import CsvLines, LineFormat, TextLines
from engine.sources.micro_batch import MicroBatchReader
from engine.sources.tail.ends import has_reached, latest_offset
from engine.sources.tail.known_files import KnownFiles
from engine.sources.tail.name_filter import name_filter
from engine.sources.tail.tail_files import TailFolder, TailPartitionReader
from engine.sources.tail.tail_offset import FilePosition, offset_of, positions_of
from engine.sources.tail.watched_folder import SeenFile

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_FORMATS = ("json", "csv", "text")
_MEANT_FOR = {**dict.fromkeys(("header", "sep", "delimiter", "nullValue"), ("csv",)),
              "timeZone": ("csv", "json")}  # fmt: skip
"""The formats that an option is for, if not for all."""


class TailDataSource(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options("source tail", options)
        self._path = local_path(taken.required("path", example="/data/in"), "source tail")
        self._format = taken.choice("fileFormat", None, _FORMATS)
        for name, formats in _MEANT_FOR.items():
            given = taken.text(name)
            if given is not None and self._format not in formats:
                raise taken.wrong(
                    name,
                    given,
                    f"left out with fileFormat {self._format}: it is for {' and '.join(formats)}",
                )
        self._accepts = name_filter(taken)
        self._partitions = taken.integer("numPartitions", 1, minimum=1, maximum=10_000)
        self._poll_interval_s = taken.integer("pollIntervalMs", 5, minimum=1) / 1000
        self._rows_per_second_max = taken.optional_integer("maxRowsPerSecond", minimum=1)
        self._header = taken.boolean("header", False)
        delimiter = taken.character("delimiter", ",")
        self._delimiter = taken.character("sep", delimiter)
        self._null_value = taken.text("nullValue") or ""
        session_timezone = taken.text(SESSION_TIMEZONE) or "UTC"
        self._timezone = taken.text("timeZone") or session_timezone
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return "tail"

    def schema(self) -> str:
        if self._format == "text":
            return "value STRING"
        raise ConfigError(
            f"Source tail needs a schema to read {self._format}.",
            hint='Give one: spark.readStream.format("tail").schema("id BIGINT, name STRING").',
        )

    def continuousReader(self, schema: StructType) -> TailReader:
        """:raises ConfigError: there is no such folder, or the format cannot hold the schema."""
        if not self._path.is_dir():
            raise ConfigError(
                f"Source tail: {self._path} is not a folder.",
                hint="Create it, or correct the option path.",
            )
        return TailReader(
            TailFolder(
                path=self._path,
                accepts=self._accepts,
                lines=self._lines(to_arrow(schema, "source tail")),
                partitions=self._partitions,
                poll_interval_s=self._poll_interval_s,
                rows_per_second_max=self._rows_per_second_max,
            )
        )

    def streamReader(self, schema: StructType) -> MicroBatchReader:
        return MicroBatchReader(self.continuousReader(schema), schema)

    def _lines(self, schema: pa.Schema) -> LineFormat:
        if self._format == "json":
            return JsonLines(schema, self._timezone)
        if self._format == "csv":
            return CsvLines(
                schema,
                self._timezone,
                header=self._header,
                delimiter=self._delimiter,
                null_value=self._null_value,
            )
        if schema.types != [pa.string()]:
            raise ConfigError("Source tail: a text file has one column, of type STRING.")
        return TextLines(schema)


@dataclass(frozen=True)
class TailPartition:
    """:param count: how many there are: among others it has other files.
    :param start: the partition's files in the start offset, and those that are there by now.
    :param holders: what all of them were called: see :mod:`engine.sources.tail.rotation`.
    """

    index: int
    count: int
    start: Sequence[FilePosition]
    holders: Sequence[SeenFile]

    @property
    def name(self) -> str:
        """``0 of 3``; of a single one as if it had none."""
        return f"{self.index} of {self.count}" if self.count > 1 else str(self.index)


class TailReader(DataSourceContinuousReader):
    """The driver's side."""

    # Offsets are those of the files, whichever partition reads them.
    tuningOptions = ("maxRowsPerSecond", "numPartitions", "pollIntervalMs")

    def __init__(self, folder: TailFolder) -> None:
        self._folder = folder

    def initialOffset(self) -> Offset:
        return {}

    def partitions(self, start: Offset) -> Sequence[TailPartition]:
        # Here, where all files are seen: a file known by its name alone gets its identity, and one
        # that is rotated before its partition looks for it is known.
        known = KnownFiles(self._folder, positions_of(start))
        known.look()
        holders = known.holders  # one list: pickled once, however many partitions there are
        count = self._folder.partitions
        return [
            TailPartition(index, count, self._folder.part(known.files, index), holders)
            for index in range(count)
        ]

    def open(self, partition: TailPartition, until: Offset | None = None) -> TailPartitionReader:
        """:raises SourceUnavailableError: this machine lacks the folder, which the driver has."""
        path = self._folder.path
        if not path.is_dir():  # perhaps a mount that will be back: not for the task to tell
            raise SourceUnavailableError(
                f"Source tail: the folder {path} is on the driver, and not on "
                f"{socket.gethostname()}, where a task runs.",
                hint="It has to be on storage that the driver and all executors see under the same "
                "path, or the query in local mode.",
            )
        end = None if until is None else self._folder.part(positions_of(until), partition.index)
        return TailPartitionReader(
            self._folder, partition.index, partition.start, end, partition.holders
        )

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        return offset_of(file for each in offsets for file in positions_of(each))

    def prune(self, columns: Sequence[str]) -> TailReader:
        return TailReader(replace(self._folder, lines=self._folder.lines.prune(columns)))

    def latestOffset(self, start: Offset = None) -> Offset:
        """Behind the last whole line of every file.

        :param start: an earlier offset: nothing before it is looked at; default: the beginning.
        """
        return latest_offset(self._folder, {} if start is None else start)

    def hasReached(self, committed: Offset, wanted: Offset) -> bool:
        """The folder is looked at for files that were truncated, replaced or removed."""
        return has_reached(self._folder, committed, wanted)
