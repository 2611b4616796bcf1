"""The driver's side of a sink that writes tables of a lake, whichever it is."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from engine.base.background import Background
from engine.base.connector_options import Options
from engine.base.options import parse_interval_ms
from engine.checkpoint.sink_context import BoundContext
from engine.errors import (
    ConfigError,
    PreparedEpochLostError,
    SinkCommitRejectedError,
    SinkUnavailableError,
)
from engine.sinks.adapter import own_messages
from engine.sinks.contract import EXACTLY_ONCE, ContinuousWriter
from engine.sinks.lakes.leftovers import remove_leftovers
from engine.sinks.lakes.table_log import Facts, TableLog

logger = logging.getLogger(__name__)

EVOLUTIONS: Final = ("refuse", "add-columns")
"""What becomes of columns that a table does not have: option ``schemaEvolution``."""
FILE_BYTES: Final = 128 << 20
"""Default of the option ``targetFileSize``."""
COMMIT_INTERVAL: Final = "commitInterval"


def commit_interval_ms(options: Options, owner: str) -> int:
    """Of the option ``commitInterval``."""
    text = options.text(COMMIT_INTERVAL)
    return 0 if text is None else parse_interval_ms(text, f"Option {COMMIT_INTERVAL} of {owner}")


X = TypeVar("X", bound=Facts)
X_contra = TypeVar("X_contra", bound=Facts, contravariant=True)
M = TypeVar("M", bound="Message")


class Message(Protocol):
    """What a task has written for an epoch."""

    @property
    def table_id(self) -> str:
        """Of the table that the task was started for."""

    @property
    def files(self) -> Sequence[Any]: ...

    @property
    def host(self) -> str:
        """Where the task ran."""


class Rows(Protocol[X_contra]):
    """What a query writes."""

    def check(self, table: X_contra, where: str) -> list[str]:
        """:returns: the columns that the table lacks and is to get.
        :raises ConfigError: the rows do not fit."""


class Target(Protocol[X]):
    """What tasks have to know.

    :ivar table: known when the query is bound.
    """

    table: X | None


class Rewind(Protocol):
    """The methods of a stream writer that :mod:`engine.checkpoint.rewind` calls."""

    def bind(self, context: BoundContext) -> None: ...
    def checkRewind(self, epoch: int) -> None: ...
    def rewind(self, epoch: int) -> None: ...


class TableWriter(ContinuousWriter, DataSourceStreamArrowWriter, Generic[X, M]):
    """See the module.

    :cvar owner: of the sink, for errors.
    :cvar kind: ``Delta``.
    :cvar spark_format: what Spark's own micro-batches write such a table with.
    :cvar message_type: of what tasks say.
    """

    delivery = EXACTLY_ONCE
    owner: ClassVar[str]
    kind: ClassVar[str]
    spark_format: ClassVar[str]
    message_type: ClassVar[type[Any]]

    def __init__(
        self,
        target: Target[X],
        rows: Rows[X],
        log: TableLog[Any, X, Any, Any],
        rewind: Rewind,
        commit_interval_ms: int,
    ) -> None:
        self.commitIntervalMs = commit_interval_ms
        self._target, self._rows, self._log, self._rewind = target, rows, log, rewind
        self._context: BoundContext | None = None
        self._seen: str | None = None
        """The id of the table that this process has seen."""
        self.leftovers = Background(f"{self.kind.lower()}-leftovers")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Spark's micro-batches do not tell a Python data source whose they are."""
        raise ConfigError(
            f"{self.owner} is for continuous queries: a micro-batch that is run again would be "
            "written again.",
            hint=f'Start it by write_stream(df), or use Spark\'s own format "{self.spark_format}".',
        )

    def validate(self) -> None:
        """:raises ConfigError: the table cannot be reached or made, or the rows do not fit it."""
        try:
            if self._log.exists():
                self._rows.check(self._log.facts(), self._log.where)
            else:
                self._check_absent()
        except (SinkUnavailableError, OSError) as exc:
            text = exc.message if isinstance(exc, SinkUnavailableError) else f"{self.owner}: {exc}"
            raise ConfigError(text, hint=getattr(exc, "hint", None)) from exc

    def bind(self, context: BoundContext) -> None:
        """Look at the table, and give it the columns that it lacks.

        :raises StaleRunError: a later run has written to it.
        """
        self._context = context
        self._rewind.bind(context)
        if not self._log.exists():
            self._target.table = None
            return
        self._log.check_run(context)
        missing = self._rows.check(self._log.facts(), self._log.where)
        if missing:
            self._log.add_columns(self._rows, missing)
        self._found(self._log.facts())
        self._seen = self._seen or self._table().id

    def checkLogged(self, epoch: int) -> None:
        """:raises ContinuousError: the table is gone. To make it anew would hide that its storage
        is not there."""
        inherited = self._bound().inherited
        if self._target.table is not None:
            if inherited is not None and inherited.query_id is not None:
                self._warn_of_source(inherited.query_id, inherited.epoch)
            return
        what = f"{self.owner}: there is no table at {self._log.where}"
        hint = (
            "See that its storage is there, or restore it. If you have dropped it, start the query "
            "with a checkpoint of its own; or create the table, empty, to go on with what comes "
            "now."
        )
        if self._seen is not None:
            raise SinkUnavailableError(f"{what} any more.", hint=hint)
        if epoch >= 0 and inherited is None:
            raise ConfigError(f"{what}, and the checkpoint has epochs up to {epoch}.", hint=hint)

    def _warn_of_source(self, query_id: str, epoch: int) -> None:
        """Of a copy. No table tells whether somebody has taken back what is behind its epoch: what
        is noted of the epochs stays."""
        latest = self._log.latest(replace(self._bound(), query_id=query_id))
        if latest is not None and latest > epoch:
            logger.warning(
                "%s: %s has epoch %d of query %s, of which this checkpoint is a copy up to epoch "
                "%d: unless you have taken it back, what came later will be there twice",
                self.owner,
                self._log.where,
                latest,
                query_id,
                epoch,
            )

    def fenceTasks(self) -> None:
        """Make the table if it was never there, and have removed what earlier runs left behind,
        while the query runs."""
        context = self._bound()
        if self._target.table is None:
            self._log.create(self._rows)
            self._rows.check(self._log.facts(), self._log.where)  # another may have made it
            self._found(self._log.facts())
            self._seen = self._table().id
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
        self.commitTogether([(batchId, messages)])

    def commitTogether(
        self, epochs: Sequence[tuple[int, Sequence[WriterCommitMessage | None]]]
    ) -> None:
        """As :meth:`commit`, of several epochs by one commit of the table."""
        own: dict[int, list[M]] = {
            epoch: own_messages(messages, self.message_type) for epoch, messages in epochs
        }
        files = {
            epoch: [file for each in told for file in each.files] for epoch, told in own.items()
        }
        files = {epoch: each for epoch, each in files.items() if each}
        if not files:
            return

        def check(table: X) -> None:
            told = [each for epoch in files for each in own[epoch]]
            self._check_table(table, told)
            self._check_files(told)

        try:
            self._log.commit(self._bound(), files, check)
        except PreparedEpochLostError:
            # An earlier run may sleep in the commit of the same files, and must not end it.
            self._log.fence(self._bound())
            raise

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files of an epoch that will not be committed."""
        latest = self._log.latest(self._bound())
        if latest is not None and latest >= batchId:
            return  # a part of the table: another run has committed the epoch
        own: list[M] = own_messages(messages, self.message_type)
        for each in own:
            for file in each.files:
                self._log.remove_file(file.path)

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

    # -- what each lake tells -------------------------------------------------------------------

    @abstractmethod
    def _check_absent(self) -> None:
        """There is no table.

        :raises ConfigError: it cannot be made.
        """

    @abstractmethod
    def _check_layout(self, table: X, messages: Sequence[M]) -> None:
        """See that files were made for the table's partitions.

        :raises SinkError: they were not.
        """

    @abstractmethod
    def _check_files(self, messages: Sequence[M]) -> None:
        """:raises SinkCommitRejectedError: the driver does not see a file."""

    def _found(self, table: X) -> None:
        """The table is this now, for tasks that will start."""
        self._target.table = table

    def _bound(self) -> BoundContext:
        assert self._context is not None, "bind() comes first"
        return self._context

    def _table(self) -> X:
        assert self._target.table is not None, "bind() comes first"
        return self._target.table

    def _check_table(self, table: X, messages: Sequence[M]) -> None:
        ids = {each.table_id for each in messages}
        if ids != {table.id}:
            raise self._replaced(f"its id is {table.id}, and was {min(ids)}")
        self._check_layout(table, messages)
        if table == self._target.table:
            return
        try:
            missing = self._rows.check(table, self._log.where)
        except ConfigError as exc:
            raise SinkCommitRejectedError(exc.message, hint=exc.hint) from exc
        if missing:
            raise SinkUnavailableError(
                f"{self.owner}: the table {self._log.where} has lost the column "
                f"{', '.join(missing)}.",
                hint="The query starts again, and adds it.",
            )
        self._found(table)

    def _replaced(self, how: str) -> SinkCommitRejectedError:
        return SinkCommitRejectedError(
            f"{self.owner}: {self._log.where} is another table than the one that the epoch was "
            f"written for: {how}.",
            hint="It was dropped and made again. Start the query with a checkpoint of its own, or "
            "bring the table back.",
        )
