"""``foreachBatch``: the user's function of a DataFrame and the epoch, on the driver.

The rows travel to the driver, so this is for results, not for the stream itself: see
:mod:`engine.sinks.shipped` for how many they may be. The function runs while the epoch is being
committed, on the engine's thread: what it takes delays the following commits. Spark jobs that it
starts need free task slots besides those of the continuous tasks: one is kept free, see the option
``slotsToKeepFree``.

It is called for epochs that have rows. After a crash it may be called again with the same epoch and
the same rows: a function that must not act twice keeps the epoch. After a rewind the same epoch
stands for other rows, and another query counts its epochs from 0, too: :class:`BatchContext` tells
the query and the timeline, which with the epoch make a key.

Source: Spark's ForeachBatchSink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow
from engine.sinks.shipped import SHIPPED_BYTES_MAX, RowShipper, ShippingWriter, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_current: ContextVar[BatchContext | None] = ContextVar("engine.BatchContext", default=None)


@dataclass(frozen=True)
class BatchContext(SinkContext):
    """One call of a ``foreachBatch`` function, which has Spark's signature ``(DataFrame, epoch)``
    and asks for the rest with :meth:`get`. Frozen.

    :param query_id: survives restarts.
    :param run_id: of this start of the query.
    :param generation: counts starts, restarts and rewinds, from 0: that of the run which commits
        the epoch now. If the epoch is finished after a restart, it is higher than that of the first
        try, and the rows are the same.
    :param timeline: changes with each rewind, and with nothing else.
    :param epoch: the one being committed. ``(query_id, timeline, epoch)`` stands for the same rows
        whenever it comes.
    """

    epoch: int

    @staticmethod
    def get() -> BatchContext | None:
        """The context of the function that calls this, on its own thread; None outside of one, and
        where Spark itself runs it (``trigger(processingTime=...)``)."""
        return _current.get()


class ForeachBatchWriter(ShippingWriter):
    """:raises ConfigError: ``function`` is no function."""

    taskSlots = 1

    def __init__(
        self,
        function: Callable[[DataFrame, int], object],
        spark: SparkSession,
        schema: StructType,
        bytes_max: int = SHIPPED_BYTES_MAX,
    ) -> None:
        super().__init__(RowShipper("foreachBatch", bytes_max))
        if not callable(function):
            raise ConfigError(
                f"foreachBatch takes a function(DataFrame, epoch), not {type(function).__name__}."
            )
        self._function, self._spark, self._schema = function, spark, schema
        self._arrow_schema = to_arrow(schema, "sink foreachBatch")
        self._bound: SinkContext | None = None

    def bind(self, context: SinkContext) -> None:
        """Whose epochs will be committed: called by each attempt before anything else."""
        self._bound = context

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        tables = unpack(messages, self._arrow_schema)
        if tables:
            frame = self._spark.createDataFrame(pa.concat_tables(tables), self._schema)
            outer = _current.set(self._context(batchId))
            try:
                self._function(frame, batchId)
            finally:
                _current.reset(outer)

    def _context(self, epoch: int) -> BatchContext | None:
        bound = self._bound
        if bound is None:
            return None
        return BatchContext(bound.query_id, bound.run_id, bound.generation, bound.timeline, epoch)
