"""Any PySpark stream writer as what a task and the driver call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamWriter

from engine.errors import ConfigError, SinkCommitRejectedError, SinkError
from engine.sinks.contract import HasTaskWriter, TaskWriter
from engine.sinks.pyspark_rows import rows_of

M = TypeVar("M")


def task_writer(writer: Any) -> TaskWriter:
    """The executor's side of a stream writer: its own if it has one, else its ``write``, fed with
    batches or with rows, whichever it takes.

    :raises ConfigError: it is no stream writer.
    """
    if isinstance(writer, HasTaskWriter):
        return writer.taskWriter()
    if isinstance(writer, DataSourceStreamArrowWriter):
        return PlainTaskWriter(writer.write)
    if isinstance(writer, DataSourceStreamWriter):
        return PlainTaskWriter(_RowWriter(writer))
    raise ConfigError(
        f"{type(writer).__name__} is not a DataSourceStreamWriter.",
        hint="Return one from DataSource.streamWriter(schema, overwrite).",
    )


def own_messages(messages: Sequence[Any], kind: type[M]) -> list[M]:
    """A writer's messages without those of tasks that had nothing to say.

    :raises SinkCommitRejectedError: one is of another sink: to leave it out would lose its rows.
    """
    found = [message for message in messages if message is not None]
    strangers = [message for message in found if not isinstance(message, kind)]
    if strangers:
        raise SinkCommitRejectedError(
            f"The epoch was prepared for another sink: it has a {type(strangers[0]).__name__}.",
            hint="Finish it with the sink that it was prepared for, then change the sink.",
        )
    return found


class PlainTaskWriter(TaskWriter):
    """A writer that knows only PySpark's ``write(iterator)``."""

    def __init__(self, write: Callable[[Iterator[pa.RecordBatch]], Any]) -> None:
        self._write = write

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Any:
        return self._write(batches)


class _RowWriter:
    def __init__(self, writer: DataSourceStreamWriter) -> None:
        self._writer = writer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Any:
        rows = (row for batch in batches for row in rows_of(batch))
        message = self._writer.write(rows)
        for _ in rows:
            raise SinkError(
                "The sink's write() returned before the end of its iterator.",
                hint="Consume all rows: what was not read would be lost.",
            )
        return message
