"""The driver's side of a sink that writes a table of a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Generic, NoReturn, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from engine.checkpoint.sink_context import BoundContext, Inherited
from engine.errors import ConfigError, SinkAheadError, SinkUnavailableError
from engine.sinks.contract import EXACTLY_ONCE, ContinuousWriter
from engine.sinks.databases.epochs import Noted
from engine.sinks.databases.rewind import E, TableRewind
from engine.sinks.databases.rows import Mode

T = TypeVar("T")
"""What is known of a table that is there."""


class TableWriter(TableRewind[E], ContinuousWriter, ABC, Generic[E, T]):
    """Without ``validate``, ``commit`` and ``taskWriter``."""

    delivery = EXACTLY_ONCE

    def __init__(self, epochs: E, mode: Mode) -> None:
        super().__init__(epochs, mode)
        self._noted: Noted | None = None
        self._table: T | None = None
        self._was_there = False

    @abstractmethod
    def _look(self) -> T | None:
        """The table, to which the rows fit; None if it is not there.

        :raises ConfigError: they do not.
        """

    @abstractmethod
    def _create(self) -> None:
        """Make the table. Again is fine."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> NoReturn:
        """Spark's micro-batches do not tell a Python data source whose they are."""
        raise ConfigError(
            f"{self._epochs.owner} is for continuous queries: a micro-batch that is run again "
            "would be written again.",
            hint='Start it by write_stream(df), or use Spark\'s own format "jdbc".',
        )

    def bind(self, context: BoundContext) -> None:
        """Look at the table.

        :raises StaleRunError: a later run has written to it.
        """
        super().bind(context)
        with self._epochs.speaking("cannot be asked"):
            self._noted = self._epochs.check_run(context)
            self._table = self._look()
        self._was_there |= self._table is not None

    def checkLogged(self, epoch: int) -> None:
        """:raises ContinuousError: the table is gone, or what was noted of the query is."""
        if self._table is not None and self._noted is not None:
            return
        what = f"table {self._epochs.table}" if self._table is None else "note of the query"
        hint = (
            "See that it is the right database, or restore it. If you want to begin anew, start "
            "the query with a checkpoint of its own."
        )
        if self._table is None and self._was_there:
            raise SinkUnavailableError(self._epochs.says(f"has no {what} any more."), hint=hint)
        inherited = self._bound.inherited
        if epoch >= 0 and (inherited is None or self._noted is not None):
            raise ConfigError(
                self._epochs.says(f"has no {what}, and the checkpoint has epochs up to {epoch}."),
                hint=hint,
            )
        if inherited is not None:
            self._check_source(inherited)

    def _check_source(self, inherited: Inherited) -> None:
        """:raises SinkAheadError: the table has epochs that the copy would write again."""
        if inherited.query_id is None or self._table is None:
            return
        source = replace(self._bound, query_id=inherited.query_id)
        with self._epochs.speaking("cannot be asked"):
            noted = self._epochs.look(source)
        if noted is not None and noted.epoch > inherited.epoch:
            raise SinkAheadError(
                self._epochs.says(
                    f"has in table {self._epochs.table} epoch {noted.epoch} of query "
                    f"{inherited.query_id}, of which this checkpoint is a copy up to epoch "
                    f"{inherited.epoch}: what came later would be there twice."
                ),
                hint="Let the copy write to a table of its own. Or take the later rows out, and "
                f"then that query's row out of {self._epochs.place}.",
                epoch=noted.epoch,
            )

    def fenceTasks(self) -> None:
        """Make the table if it was never there; shut out earlier runs."""
        with self._epochs.speaking("cannot be written to"):
            if self._table is None:
                self._create()
                self._table = self._look()  # another may have made it
            self._was_there = True
            self._epochs.begin(self._bound)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: the table has nothing of it."""

    def latestEpoch(self) -> int | None:
        """The newest committed epoch that has rows."""
        newest = -1 if self._noted is None else self._noted.newest(self._bound)
        return None if newest < 0 else newest

    def rewind(self, epoch: int) -> None:
        """Take back what later epochs have appended."""
        super().rewind(epoch)
        with self._epochs.speaking("cannot be asked"):
            self._noted = self._epochs.look(self._bound)

    @property
    def _found(self) -> T:
        assert self._table is not None, "checkLogged() and fenceTasks() come first"
        return self._table
