"""The executor's side of the Redis sink: stages the rows of an epoch where nobody looks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from engine.checkpoint.sink_context import SinkContext
from engine.clients.redis import RedisServer
from engine.errors import (
    ConfigError,
    SinkCommitRejectedError,
    SinkUnavailableError,
    StaleRunError,
)
from engine.expressions.types import sql_name
from engine.sinks.contract import TaskWriter, WriterContext
from engine.sinks.redis import scripts

STAGED_S: Final = 7 * 24 * 3600
"""So long what is staged is kept if nobody commits it. Its epoch is run again then."""
_CELLS: Final = 10_000
"""So many fields and values at most are sent at once."""


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """:param key: of a stream that has the ``rows`` of a task and an epoch."""

    key: str
    rows: int


@dataclass(frozen=True)
class RowFields:
    """Rows as entries: a column is a field, and a NULL none. Picklable.

    :param owner: whose rows they are, for errors.
    """

    owner: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, owner: str, schema: pa.Schema) -> RowFields:
        """:raises ConfigError: a column has a type of which Redis has no text."""
        for column in schema:
            if not _has_text(column.type):
                raise ConfigError(
                    f"{owner}: the column {column.name} is {sql_name(column.type)}; a field is "
                    "STRING, BINARY, BOOLEAN or a whole number.",
                    hint=f"Cast it: CAST({column.name} AS STRING), or to_json({column.name}).",
                )
        return cls(owner, tuple(schema.names))

    def entries(self, batch: pa.RecordBatch) -> Iterator[list[bytes | str]]:
        """Each row as field, value, field, value, and so on.

        :raises SinkCommitRejectedError: a row has nothing but NULLs.
        """
        columns = [_octets(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            entry: list[bytes | str] = []
            for name, value in zip(self.names, values, strict=True):
                if value is not None:
                    entry += (name, value)
            if not entry:
                raise SinkCommitRejectedError(
                    f"{self.owner}: a row has nothing but NULLs, and an entry has a field at "
                    "least.",
                    hint="Leave it out, or write coalesce(...) for a column.",
                )
            yield entry


class StagingWriter(TaskWriter):
    """See the module.

    :param prefix: of the keys.
    :param rows_max: so many rows of an epoch, of all tasks, are enough.
    """

    def __init__(self, server: RedisServer, fields: RowFields, prefix: str, rows_max: int) -> None:
        self._server, self._fields, self._prefix = server, fields, prefix
        self._rows_max = self._share = rows_max
        self._rows = 0
        self._client: Any = None

    def open(self, context: WriterContext) -> None:
        self._context = context
        self._share = max(1, self._rows_max // context.tasks)
        self._client = self._server.connect()
        self._stage = self._client.register_script(scripts.STAGE)

    def full(self) -> bool:
        return self._rows >= self._share

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> StagedRows | None:
        context, self._rows = self._context, 0
        marks = marks_key(self._prefix, context)
        key = f"{marks}:g{context.generation}:e{epoch}:t{context.task}"
        rows_at_once = max(1, _CELLS // (2 * max(1, len(self._fields.names))))
        for batch in batches:
            for start in range(0, batch.num_rows, rows_at_once):
                part = batch.slice(start, rows_at_once)
                self._send(marks, key, part)
                self._rows += part.num_rows
        return StagedRows(key, self._rows) if self._rows else None

    def _send(self, marks: str, key: str, batch: pa.RecordBatch) -> None:
        given: list[bytes | str | int] = [self._context.generation, STAGED_S]
        for entry in self._fields.entries(batch):
            given.append(len(entry))
            given += entry
        with self._server.speaking(
            "cannot be written to", away=SinkUnavailableError, refused=SinkCommitRejectedError
        ):
            seen = self._stage([marks, names_key(marks), key], given)
        check_run(self._server, self._context, seen)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def marks_key(prefix: str, context: SinkContext) -> str:
    """Where Redis has which epochs of a query are there."""
    return f"{prefix}:{context.query_id}"


def names_key(marks: str) -> str:
    """Where it has the names of what is staged."""
    return f"{marks}:staged"


def check_run(server: RedisServer, context: SinkContext, seen: bytes) -> None:
    """:param seen: the generation that may write, as Redis tells it.
    :raises StaleRunError: it is a later one.
    :raises SinkUnavailableError: Redis knows of none, or of an earlier one."""
    if seen == b"%d" % context.generation:
        return
    if not seen or int(seen) < context.generation:
        raise SinkUnavailableError(
            f"{server.owner}: {server.name} has forgotten that this query writes to it.",
            hint="It was emptied, or has lost its newest changes. The query starts again, and sees "
            "whether epochs are gone.",
        )
    raise StaleRunError(
        f"This run of query {context.query_id} is generation {context.generation}, and generation "
        f"{seen.decode()} writes to {server.name}.",
        hint="The other run goes on from the last committed epoch.",
    )


def _has_text(dtype: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_boolean, pa.types.is_integer)
    return any(is_kind(dtype) for is_kind in kinds)


def _octets(column: pa.Array) -> list[bytes | None]:
    if not pa.types.is_binary(column.type):
        column = pc.cast(pc.cast(column, pa.string()), pa.binary())
    values: list[bytes | None] = column.to_pylist()
    return values
