"""``foreach``: the user's code for every row, on the executors.

The code is a function of a Row, or an object with ``process(row)`` and perhaps
``open(partition_id, epoch_id) -> bool`` and ``close(error)``. For each partition and epoch ``open``
is called first; if it returns False the epoch's rows are skipped; ``close`` is called in any case,
with the error or None. Rows whose epoch did not commit come again after a restart: with the same
epoch, but perhaps with more rows in it. So ``(partition_id, epoch_id)`` does not tell whether a row
was processed; code that must not process twice needs a key in the row.

Source: PySpark's ``DataStreamWriter.foreach``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from engine.errors import ConfigError
from engine.expressions.schemas import to_pyspark_arrow
from engine.sinks.epoch_context import EpochContext
from engine.sinks.noop import NO_MESSAGE, NoMessage
from engine.sinks.pyspark_rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class ForeachWriter(DataSourceStreamArrowWriter):
    """:param function: a callable, or an object with ``process``.
    :raises ConfigError: it is neither, or the rows cannot become PySpark's.
    """

    messageTypes = NO_MESSAGE

    def __init__(self, function: Any, schema: StructType) -> None:
        if not callable(function):
            if not hasattr(function, "process"):
                raise ConfigError(
                    f"foreach takes a function or an object with a method process(row), not "
                    f"{type(function).__name__}."
                )
            for method in ("process", "open", "close"):
                if not callable(getattr(function, method, len)):
                    raise ConfigError(f"foreach: {type(function).__name__}.{method} is no method.")
        to_pyspark_arrow(schema, "sink foreach")
        self._function = function

    def write(self, iterator: Iterator[pa.RecordBatch]) -> NoMessage:
        if callable(self._function):
            _process(self._function, iterator)
        else:
            _open_process_close(self._function, iterator)
        return NoMessage()


def _process(process: Callable[[Any], object], batches: Iterator[pa.RecordBatch]) -> None:
    for batch in batches:
        for row in rows_of(batch):
            process(row)


def _open_process_close(handler: Any, batches: Iterator[pa.RecordBatch]) -> None:
    context = EpochContext.get()
    assert context is not None, "the task loop sets it before it calls a writer"
    wanted = handler.open(context.partition, context.epoch) if hasattr(handler, "open") else True
    error: BaseException | None = None
    try:
        if wanted:
            _process(handler.process, batches)
        else:
            for _ in batches:
                pass
    except BaseException as exc:  # the epoch is given up too when the task is told to leave
        error = exc
        raise
    finally:
        if hasattr(handler, "close"):
            handler.close(error)
