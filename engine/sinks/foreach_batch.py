"""``foreachBatch``, ``foreachBatchArrow``: the user's function of an epoch's rows, on the driver.

``foreachBatch`` is Spark's: a function of a DataFrame and the epoch. ``foreachBatchArrow`` gets the
rows as they came from the tasks, a ``pyarrow.Table``, and a :class:`BatchContext`: nothing of it
passes through the JVM.

The rows travel to the driver, so this is for results, not for the stream itself: see
:mod:`engine.sinks.shipped` for how many they may be. The function runs while the epoch is being
committed, on the engine's thread: what it takes delays the following commits. Spark jobs that a
``foreachBatch`` function starts need free task slots besides those of the continuous tasks: one is
kept free, see the option ``slotsToKeepFree``.

It is called for epochs that have rows. After a crash it may be called again with the same epoch and
the same rows: a function that must not act twice keeps the epoch. After a rewind the same epoch
stands for other rows, and another query counts its epochs from 0, too: :class:`BatchContext` tells
the query and the timeline, which with the epoch make a key.

Source: Spark's ForeachBatchSink.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow, to_pyspark_arrow
from engine.sinks.pyspark_rows import data_frame_of
from engine.sinks.shipped import SHIPPED_BYTES_MAX, RowShipper, ShippingWriter, one_table, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_current: ContextVar[BatchContext | None] = ContextVar("engine.BatchContext", default=None)


@dataclass(frozen=True)
class BatchContext(SinkContext):
    """One call of the function. That of ``foreachBatchArrow`` is given it; that of
    ``foreachBatch``, which has Spark's signature ``(DataFrame, epoch)``, asks with :meth:`get`.

    :param query_id: survives restarts.
    :param run_id: of this start of the query.
    :param generation: counts starts, restarts and rewinds, from 0: that of the run which commits
        the epoch now. If the epoch is finished after a restart, it is higher than that of the first
        try, and the rows are the same.
    :param timeline: changes with each rewind, and with nothing else.
    :param epoch: the one being committed. ``(query_id, timeline, epoch)`` stands for the same rows
        whenever it comes.
    :param is_replay: an earlier attempt has logged the epoch, so that the function may have been
        called with these rows before. It saves a look at what the function has, and replaces none:
        a run that was suspended within a first call goes on with it when it wakes up, whatever
        others have committed meanwhile.
    """

    epoch: int
    is_replay: bool = False

    @staticmethod
    def get() -> BatchContext | None:
        """The context of the function that calls this, on its own thread; None outside of one, and
        where Spark itself runs it (``trigger(processingTime=...)``)."""
        return _current.get()


class _FunctionWriter(ShippingWriter):
    """Calls a function on the driver.

    :param name: of the sink, for errors.
    """

    def __init__(self, name: str, schema: StructType, bytes_max: int) -> None:
        super().__init__(RowShipper(name, bytes_max))
        self._arrow_schema = to_arrow(schema, f"sink {name}")
        self._bound: SinkContext | None = None
        self._logged = -1

    def bind(self, context: SinkContext) -> None:
        """Whose epochs will be committed: called by each attempt before anything else."""
        self._bound = context

    def checkLogged(self, epoch: int) -> None:
        """What is logged by now may have been committed before; what follows was not."""
        self._logged = epoch

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        tables = unpack(messages, self._arrow_schema)
        if tables:
            context = self._context(batchId)
            outer = _current.set(context)
            try:
                self._call(one_table(tables, self._arrow_schema), batchId, context)
            finally:
                _current.reset(outer)

    @abstractmethod
    def _call(self, rows: pa.Table, epoch: int, context: BatchContext | None) -> None: ...

    def _context(self, epoch: int) -> BatchContext | None:
        bound = self._bound
        if bound is None:
            return None
        return BatchContext(
            bound.query_id,
            bound.run_id,
            bound.generation,
            bound.timeline,
            epoch,
            is_replay=epoch <= self._logged,
        )


class ForeachBatchWriter(_FunctionWriter):
    """
    :param check: asked when the function has failed: raises if it had to, for Spark has ended.
    :raises ConfigError: ``function`` is no function, or the rows cannot become a DataFrame.
    """

    taskSlots = 1

    def __init__(
        self,
        function: Callable[[DataFrame, int], object],
        spark: SparkSession,
        schema: StructType,
        bytes_max: int = SHIPPED_BYTES_MAX,
        check: Callable[[], None] | None = None,
    ) -> None:
        super().__init__("foreachBatch", schema, bytes_max)
        to_pyspark_arrow(schema, "sink foreachBatch")
        if not callable(function):
            raise ConfigError(
                f"foreachBatch takes a function(DataFrame, epoch), not {type(function).__name__}."
            )
        self._function, self._spark, self._schema = function, spark, schema
        self._check = check

    def _call(self, rows: pa.Table, epoch: int, context: BatchContext | None) -> None:
        try:
            self._function(data_frame_of(self._spark, rows, self._with_nulls_of(rows)), epoch)
        except Exception:
            if self._check is not None:
                self._check()
            raise

    def _with_nulls_of(self, rows: pa.Table) -> StructType:
        """The schema; a column may be NULL, too, if rows of an earlier start did not have it."""
        filled = zip(self._schema, rows.columns, strict=True)
        if not any(field.nullable < bool(column.null_count) for field, column in filled):
            return self._schema
        from pyspark.sql.types import StructType

        schema = StructType()
        for field, column in zip(self._schema, rows.columns, strict=True):
            schema.add(field.name, field.dataType, field.nullable or column.null_count > 0)
        return schema


class ForeachBatchArrowWriter(_FunctionWriter):
    """:raises ConfigError: ``function`` is no function."""

    def __init__(
        self,
        function: Callable[[pa.Table, BatchContext], object],
        schema: StructType,
        bytes_max: int = SHIPPED_BYTES_MAX,
    ) -> None:
        super().__init__("foreachBatchArrow", schema, bytes_max)
        if not callable(function):
            raise ConfigError(
                "foreachBatchArrow takes a function(pyarrow.Table, BatchContext), not "
                f"{type(function).__name__}."
            )
        self._function = function

    def _call(self, rows: pa.Table, epoch: int, context: BatchContext | None) -> None:
        assert context is not None, "bind() comes first"
        self._function(rows, context)
