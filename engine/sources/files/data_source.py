"""Spark's own file source, ``spark.readStream.parquet(...)``, ``json``, ``csv``, ``orc``, ``text``.

======================  =========  ==============================================================
option                  default
======================  =========  ==============================================================
path                               a folder, which must exist, on a local or mounted disk
maxFilesPerTrigger                 an epoch has so many files at most
maxBytesPerTrigger                 or so many bytes, if not a single file is larger
latestFirst             false      of the files that are there, the newest first
maxFileAge              7d         a file that is so much older than the newest one that is known
                                   is not read; no limit with latestFirst and a limit per epoch
fileNameOnly            false      a file of a name that was read is not read again, whatever
                                   folder it is in
pathGlobFilter          ``*``      only files whose name matches
recursiveFileLookup     false      all folders inside are looked into, and tell no columns
cleanSource             off        what becomes of a file when its rows are committed: ``off``,
                                   ``delete``, or ``archive`` to ``sourceArchiveDir``
ignoreMissingFiles      false      a file that vanishes before it is read is left out, and not an
                                   error
numPartitions           4          so many tasks read side by side; each file is read by one
pollIntervalMs          50         the folder is looked at so often
======================  =========  ==============================================================

Text files: ``mode`` (PERMISSIVE, DROPMALFORMED, FAILFAST), ``columnNameOfCorruptRecord``,
``timeZone``; CSV: ``header``, ``sep``, ``delimiter``, ``nullValue``, ``escape`` (``\\``).
``maxCachedFiles`` and ``discardCachedInputRatio`` have no effect; what is not here is refused.

Source: Spark's "Structured Streaming Programming Guide", FileStreamOptions.
"""

from __future__ import annotations

import logging
import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource

from engine.base.connector_options import DEFAULT_PARALLELISM, SESSION_TIMEZONE, Options
from engine.base.locations import local_path
from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow
from engine.expressions.types import sql_name
from engine.sinks.files.file_sink_log import FOLDER
from engine.sources.files.cleaning import ARCHIVE, DELETE, OFF, Cleaning, check_archive
from engine.sources.files.file_formats import (
    MODES,
    PERMISSIVE,
    FileFormat,
    LineFiles,
    OrcFiles,
    ParquetFiles,
)
from engine.sources.files.reader import FilesOptions, FilesReader
from engine.sources.handed.reader import PARTITIONS
from engine.sources.tail.name_filter import name_filter

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)
_AGE: Final = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d|)", re.IGNORECASE)
_MS: Final = {"us": 0.001, "ms": 1, "": 1, "s": 1_000, "m": 60_000, "min": 60_000,
              "h": 3_600_000, "d": 86_400_000}  # fmt: skip
_CACHES: Final = ("maxCachedFiles", "discardCachedInputRatio")
_ONLY: Final = {"multiLine": "false", "wholeText": "false", "ignoreCorruptFiles": "false",
                "mergeSchema": "false", "enforceSchema": "true", "quote": '"',
                "encoding": "utf-8", "charset": "utf-8"}  # fmt: skip
"""Options of which one value alone is supported."""


class FilesDataSource(DataSource):
    """See the module; of one format."""

    format: ClassVar[str]

    def __init__(self, options: Mapping[str, str]) -> None:
        self._owner = f"source {self.format}"
        taken = Options(self._owner, options)
        taken.text(DEFAULT_PARALLELISM)
        self._timezone = taken.text(SESSION_TIMEZONE) or "UTC"
        location = taken.required("path", example="/data/in")
        if re.search(r"(?<!\\)[*?\[{]", location):
            raise ConfigError(
                f"{self._owner} cannot read {location}: it reads one folder, not a pattern.",
                hint="Name the folder above, with option recursiveFileLookup or pathGlobFilter.",
            )
        self._options = self._files(taken, local_path(location, self._owner))
        self._lines = self._line_options(taken)
        for name in _CACHES:
            if taken.text(name) is not None:
                logger.warning("option %s of %s has no effect here", name, self._owner)
        for name, only in _ONLY.items():
            given = taken.text(name)
            if given is not None and given.strip().lower() != only:
                raise taken.wrong(name, given, f"{only} in a continuous query")
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return cls.format

    def continuousReader(self, schema: StructType) -> FilesReader:
        """:raises ConfigError: there is no such folder, or the format cannot hold the schema."""
        root, rows = self._options.root, to_arrow(schema, self._owner)
        if not root.is_dir():
            raise ConfigError(
                f"{self._owner}: {root} is not a folder.",
                hint="Create it, or correct the path.",
            )
        if self._options.cleaning is not None and (root / FOLDER).is_dir():
            raise ConfigError(
                f"{self._owner}: {root} is the output of a files sink, whose log would name files "
                "that are cleaned up.",
                hint="Leave option cleanSource out.",
            )
        return FilesReader(self._options, self._file_format(rows), rows, self._timezone)

    def _files(self, taken: Options, root: Path) -> FilesOptions:
        files_max = taken.optional_integer("maxFilesPerTrigger", minimum=1)
        bytes_max = taken.optional_integer("maxBytesPerTrigger", minimum=1)
        if files_max is not None and bytes_max is not None:
            raise ConfigError(
                f"{self._owner} has both maxFilesPerTrigger and maxBytesPerTrigger.",
                hint="Leave one of them out.",
            )
        latest_first = taken.boolean("latestFirst", False)
        age_ms = _age_ms(taken)
        if latest_first and (files_max or bytes_max):
            age_ms = 2**62
        return FilesOptions(
            root=root,
            partitions=taken.integer("numPartitions", PARTITIONS, minimum=1, maximum=10_000),
            poll_s=taken.integer("pollIntervalMs", 50, minimum=1) / 1000,
            accepts=name_filter(taken),
            recursive=taken.boolean("recursiveFileLookup", False),
            files_max=files_max,
            bytes_max=bytes_max,
            latest_first=latest_first,
            age_max_ms=age_ms,
            by_name=taken.boolean("fileNameOnly", False),
            ignores_missing=taken.boolean("ignoreMissingFiles", False),
            cleaning=self._cleaning(taken, root),
        )

    def _cleaning(self, taken: Options, root: Path) -> Cleaning | None:
        cleaning = taken.choice("cleanSource", OFF, (OFF, DELETE, ARCHIVE))
        archive = taken.text("sourceArchiveDir")
        if cleaning != ARCHIVE:
            if archive is not None:
                raise taken.wrong(
                    "sourceArchiveDir", archive, "left out unless cleanSource is archive"
                )
            return Cleaning(None) if cleaning == DELETE else None
        if archive is None:
            raise taken.wrong("sourceArchiveDir", archive, "a folder, to archive to")
        folder = local_path(archive, self._owner)
        check_archive(root, folder)
        return Cleaning(folder)

    def _line_options(self, taken: Options) -> LineFiles | None:
        return None

    @abstractmethod
    def _file_format(self, schema: pa.Schema) -> FileFormat:
        """How its files are read."""


class ParquetSource(FilesDataSource):
    format = "parquet"

    def _file_format(self, schema: pa.Schema) -> FileFormat:
        return ParquetFiles()


class OrcSource(FilesDataSource):
    format = "orc"

    def _file_format(self, schema: pa.Schema) -> FileFormat:
        return OrcFiles()


class TextSource(FilesDataSource):
    format = "text"

    def _line_options(self, taken: Options) -> LineFiles | None:
        return LineFiles("text", self._timezone)

    def _file_format(self, schema: pa.Schema) -> FileFormat:
        assert self._lines is not None
        if schema.types[:1] != [pa.string()]:
            raise ConfigError(f"{self._owner}: a text file has one column, of type STRING.")
        return self._lines


class JsonSource(FilesDataSource):
    format = "json"

    def _line_options(self, taken: Options) -> LineFiles | None:
        return LineFiles(
            self.format,
            taken.text("timeZone") or self._timezone,
            mode=taken.choice("mode", PERMISSIVE, MODES),
            corrupt=taken.text("columnNameOfCorruptRecord") or "_corrupt_record",
        )

    def _file_format(self, schema: pa.Schema) -> FileFormat:
        assert self._lines is not None
        at = schema.get_field_index(self._lines.corrupt)
        if at >= 0 and schema.field(at).type != pa.string():
            raise ConfigError(
                f"{self._owner}: the column {self._lines.corrupt} is for records that cannot be "
                f"read: it must be a STRING, and is {sql_name(schema.field(at).type)}."
            )
        return self._lines


class CsvSource(JsonSource):
    format = "csv"

    def _line_options(self, taken: Options) -> LineFiles | None:
        lines = super()._line_options(taken)
        assert lines is not None
        delimiter = taken.character("delimiter", ",")
        return LineFiles(
            self.format,
            lines.timezone,
            mode=lines.mode,
            corrupt=lines.corrupt,
            header=taken.boolean("header", False),
            delimiter=taken.character("sep", delimiter),
            null_value=taken.text("nullValue") or "",
            escape=taken.character("escape", "\\"),
        )

    def _file_format(self, schema: pa.Schema) -> FileFormat:
        super()._file_format(schema)
        assert self._lines is not None
        return replace(self._lines, written=tuple(schema.names))


def _age_ms(taken: Options) -> int:
    text = taken.text("maxFileAge") or "7d"
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise taken.wrong("maxFileAge", text, 'a time such as "7d", "12h" or "30m"')
    return int(int(found[1]) * _MS[found[2].lower()])


FORMATS: Final = {each.format: each for each in
                  (ParquetSource, OrcSource, TextSource, JsonSource, CsvSource)}  # fmt: skip
