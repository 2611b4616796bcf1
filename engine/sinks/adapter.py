"""Any PySpark stream writer as what a task and the driver call."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import cloudpickle
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from engine.errors import ConfigError, SinkCommitRejectedError, SinkError
from engine.sinks.contract import HasTaskWriter, TaskWriter
from engine.sinks.pyspark_rows import rows_of

M = TypeVar("M")
BatchWrite: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Any]


def task_writer(writer: Any) -> TaskWriter:
    """The executor's side of a stream writer: its own if it has one, else its ``write``, fed with
    batches or with rows, whichever it takes.

    :raises ConfigError: it is no stream writer.
    """
    if isinstance(writer, HasTaskWriter):
        return writer.taskWriter()
    return PlainTaskWriter(batch_write(writer))


def batch_write(writer: Any) -> BatchWrite:
    """A stream writer's ``write``, of batches in any case.

    :raises ConfigError: it is no stream writer.
    """
    if isinstance(writer, DataSourceStreamArrowWriter):
        return writer.write
    if isinstance(writer, DataSourceStreamWriter):
        return _RowWriter(writer)
    raise ConfigError(
        f"{type(writer).__name__} is not a DataSourceStreamWriter.",
        hint="Return one from DataSource.streamWriter(schema, overwrite).",
    )


class WriterCopies:
    """A stream writer as Spark calls it: each call is of a fresh copy. What a writer of somebody
    else's gathers in ``self`` is of one epoch alone, and no connection that it keeps is of an
    earlier one.

    :param writer: has not been called yet.
    :raises ConfigError: it cannot be pickled.
    """

    def __init__(self, writer: Any) -> None:
        try:
            self._pickled: bytes = cloudpickle.dumps(writer)
        except Exception as exc:
            raise ConfigError(
                f"{type(writer).__name__} cannot be pickled: {type(exc).__name__}: {exc}",
                hint="It travels to the executors, as in Spark: open connections in write(), not "
                "in __init__().",
            ) from exc

    def write(self, batches: Iterator[pa.RecordBatch]) -> Any:
        """Of one epoch, on an executor."""
        return batch_write(self._fresh())(batches)

    def commit(self, messages: Sequence[Any], epoch: int) -> None:
        """On the driver."""
        self._fresh().commit(list(messages), epoch)

    def abort(self, messages: Sequence[Any], epoch: int) -> None:
        """On the driver."""
        self._fresh().abort(list(messages), epoch)

    def _fresh(self) -> Any:
        return pickle.loads(self._pickled)  # noqa: S301  made above


def message_modules(writer: type) -> set[str]:
    """Where the classes of a writer's messages may come from: its own module, those of its bases,
    and those of the messages that any of these imports by name.

    :param writer: its class; the engine's own need none.
    """
    own = {
        base.__module__
        for base in writer.__mro__
        if base.__module__.partition(".")[0] not in ("engine", "pyspark", "builtins", "abc")
    }
    imported = {
        value.__module__
        for name in own & sys.modules.keys()
        for value in vars(sys.modules[name]).values()
        if isinstance(value, type) and issubclass(value, WriterCommitMessage)
    }
    return own | {name for name in imported if name != WriterCommitMessage.__module__}


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

    def __init__(self, write: BatchWrite) -> None:
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
