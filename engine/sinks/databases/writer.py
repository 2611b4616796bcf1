"""The driver's side of a sink that writes a table of a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, NoReturn, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError, SinkUnavailableError
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

    def bind(self, context: SinkContext) -> None:
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
        is_new = epoch < 0 or self._bound.inherited
        if is_new or (self._table is not None and self._noted is not None):
            return
        kind = SinkUnavailableError if self._was_there and self._table is None else ConfigError
        what = f"table {self._epochs.table}" if self._table is None else "note of the query"
        raise kind(
            self._epochs.says(f"has no {what}, and the checkpoint has epochs up to {epoch}."),
            hint="See that it is the right database, or restore it. If you want to begin anew, "
            "start the query with a checkpoint of its own.",
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
