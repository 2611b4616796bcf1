"""``delta``: rows in a table of Delta Lake, each epoch exactly once.

==================  ============  ===============================================================
option              default
==================  ============  ===============================================================
path                              a local or mounted folder, or a URL: ``s3://bucket/table``
schemaEvolution     refuse        ``add-columns``: the table gets the columns that it lacks
compression         snappy        snappy, none, gzip, zstd, lz4_raw, brotli
targetFileSize      128 MiB       in bytes: a file that has so many is followed by another one
storage.*                         settings of Delta's own client, such as
                                  ``storage.AWS_ENDPOINT_URL``
==================  ============  ===============================================================

Tasks write Parquet files into the table's folder, and make them durable. They are no part of the
table until the driver has put them into its log (:mod:`engine.sinks.delta.table_log`), one commit
for an epoch. The table is made at the start if it is not there, partitioned by ``partitionBy``.

Source: Delta's PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from engine.base.background import Background
from engine.base.connector_options import PARTITION_BY, Options
from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError, SinkCommitRejectedError, SinkUnavailableError
from engine.expressions.schemas import to_arrow
from engine.expressions.types import schema_to_spark
from engine.sinks.adapter import own_messages
from engine.sinks.contract import EXACTLY_ONCE, ContinuousWriter, TaskWriter
from engine.sinks.delta.data_files import DeltaMessage, DeltaTaskWriter, Target
from engine.sinks.delta.leftovers import remove_leftovers
from engine.sinks.delta.places import DiskPlace, place_of
from engine.sinks.delta.rewind import DeltaRewind
from engine.sinks.delta.schemas import OWNER, Rows, TableFacts
from engine.sinks.delta.table_log import (
    STORAGE,
    TableLog,
    import_client,
    is_storage,
    storage_options,
)
from engine.sinks.files.epoch_files import check_files
from engine.sinks.files.file_formats import ParquetFormat

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FILE_BYTES: Final = 128 << 20
_EVOLUTIONS: Final = ("refuse", "add-columns")


class DeltaDataSource(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options(
            OWNER, {key: value for key, value in options.items() if not is_storage(key)}
        )
        location = taken.required("path", example="/data/orders")
        self._storage_options = storage_options(options)
        self._place = place_of(location, self._storage_options)
        self._format = ParquetFormat(taken)
        evolution = taken.choice("schemaEvolution", "refuse", _EVOLUTIONS)
        self._adds_columns = evolution == "add-columns"
        self._file_bytes = taken.integer("targetFileSize", FILE_BYTES, minimum=1)
        self._partition_by = taken.names(PARTITION_BY)
        taken.refuse_others()
        import_client()

    @classmethod
    def name(cls) -> str:
        return "continuous_delta"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DeltaWriter:
        """:raises ConfigError: Delta cannot hold the schema, or partitionBy names what is not
        there."""
        rows = Rows.of(
            schema_to_spark(to_arrow(schema, OWNER)),
            self._partition_by,
            adds_columns=self._adds_columns,
        )
        target = Target(self._place, self._format, self._file_bytes)
        return DeltaWriter(target, rows, self._storage_options)


class DeltaWriter(ContinuousWriter, DataSourceStreamArrowWriter):
    """The driver's side."""

    delivery = EXACTLY_ONCE
    messageTypes: ClassVar[Mapping[str, type]] = {"delta": DeltaMessage}

    def __init__(self, target: Target, rows: Rows, storage_options: dict[str, str]) -> None:
        self._target, self._rows = target, rows
        self._log = TableLog(target.place, storage_options)
        self._rewind = DeltaRewind(self._log)
        self._context: SinkContext | None = None
        self._seen: str | None = None
        """The id of the table that this process has seen."""
        self.leftovers = Background("delta-leftovers")
        self.tuningOptions = (
            *("compression", "targetFileSize", "schemaEvolution"),
            *(f"{STORAGE}{name}" for name in storage_options),
        )

    @property
    def path(self) -> str:
        """The table, absolute."""
        return self._target.place.url

    def taskWriter(self) -> TaskWriter:
        return DeltaTaskWriter(self._target)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Spark's micro-batches do not tell a Python data source whose they are."""
        raise ConfigError(
            f"{OWNER} is for continuous queries: a micro-batch that is run again would be written "
            "again.",
            hint='Start it by write_stream(df), or use Spark\'s own format "delta".',
        )

    def validate(self) -> None:
        """:raises ConfigError: the table cannot be reached or made, or the rows do not fit it."""
        try:
            if self._log.exists():
                self._rows.check(self._log.facts(), self.path)
            elif not self._target.place.is_empty():
                raise ConfigError(
                    f"{OWNER}: {self.path} is no Delta table, and it is not empty.",
                    hint="Choose another folder, or convert what is there to Delta.",
                )
        except (SinkUnavailableError, OSError) as exc:
            text = exc.message if isinstance(exc, SinkUnavailableError) else f"{OWNER}: {exc}"
            raise ConfigError(text, hint=getattr(exc, "hint", None)) from exc

    def bind(self, context: SinkContext) -> None:
        """Look at the table, and give it the columns that it lacks.

        :raises StaleRunError: a later run has written to it.
        """
        self._context = context
        self._rewind.bind(context)
        if not self._log.exists():
            self._target.table = None
            return
        self._log.check_run(context)
        missing = self._rows.check(self._log.facts(), self.path)
        if missing:
            self._log.add_columns(self._rows.schema(missing))
        self._target.table = self._log.facts()
        self._seen = self._seen or self._target.table.id

    def checkLogged(self, epoch: int) -> None:
        """:raises ContinuousError: the table is gone. To make it anew would hide that its storage
        is not there."""
        if self._target.table is not None or epoch < 0:
            return
        kind = ConfigError if self._seen is None else SinkUnavailableError
        raise kind(
            f"{OWNER}: there is no table at {self.path}, and the checkpoint has epochs up to "
            f"{epoch}.",
            hint="See that its storage is mounted, or restore it. If you have dropped it, start "
            "the query with a checkpoint of its own; or create the table, empty, to go on with "
            "what comes now.",
        )

    def fenceTasks(self) -> None:
        """Make the table if it was never there, and have removed what earlier runs left behind,
        while the query runs."""
        context = self._bound()
        if self._target.table is None:
            self._log.create(self._rows.schema(), self._rows.partition_by or ())
            self._rows.check(self._log.facts(), self.path)  # another may have made it
            self._target.table = self._log.facts()
            self._seen = self._target.table.id
        committed, log = self._log.latest(context), self._log.another()
        self.leftovers(
            "removing what earlier runs have left",
            lambda: remove_leftovers(log, context, committed),
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Skips an epoch that is in the table already.

        :raises SinkError: the epoch was refused, or the table cannot be written.
        :raises StaleRunError: a later run has written to the table.
        """
        own = own_messages(messages, DeltaMessage)
        files = [file for each in own for file in each.files]
        if not files:
            return

        def check(table: TableFacts) -> None:
            self._check_table(table, own)
            self._check_files(own)

        self._log.commit(self._bound(), batchId, files, check)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files of an epoch that will not be committed."""
        latest = self._log.latest(self._bound())
        if latest is not None and latest >= batchId:
            return  # a part of the table: another run has committed the epoch
        for each in own_messages(messages, DeltaMessage):
            for file in each.files:
                self._target.place.remove(file.path)

    def latestEpoch(self) -> int | None:
        """The newest committed epoch that has rows.

        :raises SinkUnavailableError: the table cannot be read.
        """
        return None if self._target.table is None else self._log.latest(self._bound())

    def checkRewind(self, epoch: int) -> None:
        """:raises ConfigError: it is not known any more which files came later."""
        self._rewind.checkRewind(epoch)

    def rewind(self, epoch: int) -> None:
        """Take the files of later epochs out of the table."""
        self._rewind.rewind(epoch)

    def _bound(self) -> SinkContext:
        assert self._context is not None, "bind() comes first"
        return self._context

    def _check_table(self, table: TableFacts, messages: Sequence[DeltaMessage]) -> None:
        ids = {each.table_id for each in messages}
        places = {tuple(file.partition_values) for each in messages for file in each.files}
        if ids != {table.id}:
            raise self._replaced(f"its id is {table.id}, and was {min(ids)}")
        if places != {table.partition_by}:
            raise self._replaced(f"it is partitioned by ({', '.join(table.partition_by)}) now")
        if table == self._target.table:
            return
        try:
            missing = self._rows.check(table, self.path)
        except ConfigError as exc:
            raise SinkCommitRejectedError(exc.message, hint=exc.hint) from exc
        if missing:
            raise SinkUnavailableError(
                f"{OWNER}: the table {self.path} has lost the column {', '.join(missing)}.",
                hint="The query starts again, and adds it.",
            )
        self._target.table = table

    def _replaced(self, how: str) -> SinkCommitRejectedError:
        return SinkCommitRejectedError(
            f"{OWNER}: {self.path} is another table than the one that the epoch was written for: "
            f"{how}.",
            hint="It was dropped and made again. Start the query with a checkpoint of its own, or "
            "bring the table back.",
        )

    def _check_files(self, messages: Sequence[DeltaMessage]) -> None:
        place = self._target.place
        if isinstance(place, DiskPlace):
            for each in messages:
                check_files(((place.root / f.path, f.size) for f in each.files), each.host)
