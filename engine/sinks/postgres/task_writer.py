"""The executor's side: rows go into a stage as they come, in one transaction for an epoch.

The next epoch begins before the last one is committed, so stages take turns. One that is free again
is emptied by the transaction that fills it next.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from psycopg.sql import SQL
from pyspark.sql.datasource import WriterCommitMessage

from engine.clients.postgres import Server, make_durable, speaking_postgres
from engine.errors import SinkCommitRejectedError, SinkUnavailableError
from engine.redaction.logs import log_failure
from engine.sinks.contract import TaskWriter, WriterContext
from engine.sinks.postgres.statements import Statements, stage_name
from engine.sinks.postgres.tables import OWNER

if TYPE_CHECKING:
    from psycopg import Connection

logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """What a task has written for an epoch.

    :param stage: the name of its table.
    :param rows: how many it has, unless a standby that did not have them has taken over since.
    """

    stage: str
    rows: int


@dataclass
class Target:
    """What tasks have to know. Picklable.

    :param statements: known before tasks are started.
    """

    server: Server
    statements: Statements | None = None


class PostgresTaskWriter(TaskWriter):
    """See the module."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def open(self, context: WriterContext) -> None:
        assert self._target.statements is not None, "fenceTasks() comes first"
        self._statements = self._target.statements
        self._names = (
            stage_name(context.query_id, context.generation, context.task, turn) for turn in count()
        )
        self._used: dict[int, str] = {}
        with self._speaking("cannot be written to"):
            self._connection: Connection[Any] = self._target.server.connect()
            make_durable(self._connection)
            self._free = [self._new(), self._new()]  # what most queries need

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> StagedRows | None:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return None
        with self._speaking(f"cannot take the rows of epoch {epoch}", epoch):
            stage = self._used[epoch] = self._free.pop(0) if self._free else self._new()
            with self._connection.transaction():
                place = self._statements.stage(stage)
                self._connection.execute(SQL("TRUNCATE {}").format(place))
                return StagedRows(stage, self._copy(stage, first, batches))

    def committed(self, epoch: int) -> None:
        if (stage := self._used.pop(epoch, None)) is not None:
            self._free.append(stage)

    def aborted(self, epoch: int) -> None:
        self.committed(epoch)

    def close(self) -> None:
        # What is prepared stays: a later process commits it.
        if self._connection.broken:
            return
        try:
            for stage in self._free:
                place = self._statements.stage(stage)
                self._connection.execute(SQL("DROP TABLE IF EXISTS {}").format(place))
        except Exception:
            log_failure(logger, "stages are left behind: the next start removes them")
        finally:
            self._connection.close()

    def _new(self) -> str:
        stage = next(self._names)
        self._connection.execute(self._statements.create_stage(stage))
        return stage

    def _copy(self, stage: str, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> int:
        from pgpq import ArrowToPostgresBinaryEncoder

        encoder, rows = ArrowToPostgresBinaryEncoder(first.schema), 0
        statement = self._statements.fill_stage(stage, first.schema.names)
        with self._connection.cursor().copy(statement) as copy:
            copy.write(encoder.write_header())
            for batch in _chain(first, others):
                copy.write(encoder.write_batch(batch))
                rows += batch.num_rows
            copy.write(encoder.finish())
        return rows

    @contextmanager
    def _speaking(self, what: str, epoch: int | None = None) -> Iterator[None]:
        with speaking_postgres(
            SinkUnavailableError,
            SinkCommitRejectedError,
            f"{OWNER}: PostgreSQL at {self._target.server.name} {what}",
            hint="Leave such rows out or mend them in the query, or change the table.",
            epoch=epoch,
        ):
            yield


def _chain(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from (batch for batch in others if batch.num_rows)
