"""Hands a query to Spark's own Structured Streaming: the same DataFrame, source and sink.

This process holds the checkpoint's lease meanwhile (:mod:`engine.spark.supervised`), so that the
query is found, drained and stopped like one of the engine, and no second run gets at its
checkpoint.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.checkpoint.whose_state import refuse_own_state
from engine.coordinator.events import DrainAsked, StopAsked
from engine.query.handed import handed_query
from engine.query.spark_refusals import refusals_of_spark
from engine.query.write_request import CHECKPOINT, WriteRequest, temporary_checkpoint
from engine.spark.drains import finish_batch, finish_epoch
from engine.spark.supervised import SparkExecution
from engine.spark.workers import use_this_python

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_POLL_S = 0.1
_ENDED = {"message": "Stopped", "isDataAvailable": False, "isTriggerActive": False}


def start_in_spark(request: WriteRequest, table: str | None = None) -> SparkQuery:
    """Start with ``df.writeStream`` what was told to ``write_stream(df)``.

    :param table: for ``toTable``.
    :raises ConfigError: an option, or the sink, is none of Spark's; or Spark refuses the query.
    :raises ConcurrentRunError: another run holds the checkpoint; Spark has started nothing.
    """
    context = request.df.sparkSession.sparkContext
    use_this_python(context)
    handed = handed_query(request, table)
    checkpoint = handed.checkpoint or temporary_checkpoint()
    writer = handed.writer.option(CHECKPOINT, _as_spark_names(checkpoint))
    execution = SparkExecution(
        checkpoint,
        finish_epoch if request.trigger_kind == "continuous" else finish_batch,
        application=context.applicationId,
        heartbeat_interval_ms=handed.lease_heartbeat_ms,
        temporary=handed.checkpoint is None,
    )
    standby = request.standby
    if standby is not None:
        standby.await_turn(checkpoint)
        refuse_own_state(checkpoint)  # that somebody has left there meanwhile
    lost = None if standby is None else standby.lost
    return SparkQuery(execution.start(lambda: _start(writer, table), lost), execution)


def _start(writer: DataStreamWriter, table: str | None) -> StreamingQuery:
    with refusals_of_spark():
        return writer.start() if table is None else writer.toTable(table)


def _as_spark_names(checkpoint: Checkpoint) -> str:
    """A path alone would be one of the cluster's default file system, and the lease elsewhere."""
    is_local = isinstance(checkpoint.storage, LocalStorage)
    return f"file://{checkpoint.url}" if is_local else checkpoint.url


class SparkQuery:
    """A query that Spark runs, with the methods that :class:`engine.query.handle.ContinuousQuery`
    has beyond StreamingQuery. Everything that is not here is StreamingQuery's own.

    All timeouts are in seconds; None waits for as long as it takes.
    """

    def __init__(self, query: StreamingQuery, execution: SparkExecution) -> None:
        self._query = query
        self._execution = execution
        self._pause = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    @property
    def id(self) -> str:
        """Survives restarts: it is kept in the checkpoint."""
        return self._execution.query_id

    @property
    def runId(self) -> str:
        """Of this start, as the checkpoint tells it. Spark's own id of the run, which is another,
        is in its progress reports."""
        return self._execution.run_id

    @property
    def isActive(self) -> bool:
        """Whether the query has not ended and given the checkpoint back."""
        return self._execution.is_active

    @property
    def status(self) -> dict[str, Any]:
        """Spark's, and ``state`` (a value of :class:`engine.checkpoint.query_state.QueryState`)
        and ``epoch``, the last committed one (-1: none)."""
        execution = self._execution
        is_active = execution.is_active
        return {
            **(self._query.status if is_active else _ENDED),
            "message": execution.message,
            "state": execution.state.value,
            "epoch": execution.checkpoint.committed_epoch()
            if is_active
            else execution.committed_epoch,
        }

    def exception(self) -> BaseException | None:
        """Why the query failed; None while it runs and after it ended as asked."""
        return self._execution.error

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait for the end.

        :return: with a timeout, whether the query has ended; otherwise None, as in Spark.
        :raises StreamingQueryException: the query failed.
        :raises StaleRunError: another run has taken the checkpoint.
        """
        ended = self._execution.await_termination(timeout)
        self._raise_failure()
        return None if timeout is None else ended

    def awaitEpoch(self, epoch: int, timeout: float | None = None) -> bool:
        """Wait until the epoch, Spark's batch of this id, is committed; whether it is.

        :raises StreamingQueryException: the query failed before it committed the epoch.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            is_active = self.isActive  # looked at first: the last commit comes before the end
            if self.status["epoch"] >= epoch:
                return True
            left = _POLL_S if deadline is None else min(_POLL_S, deadline - time.monotonic())
            if left <= 0:
                return False
            if not is_active:
                self._raise_failure()
                return False
            self._pause.wait(left)

    def drain(self, timeout: float | None = None) -> bool:
        """Finish and commit the running batch, or the open epoch of Spark's continuous mode, then
        end. What Spark has not begun to process is read at the next start.

        :return: whether the query has ended within the time.
        :raises StreamingQueryException: the query failed.
        """
        self._execution.tell(DrainAsked())
        ended = self._execution.await_termination(timeout)
        self._raise_failure()
        return ended

    def stop(self) -> None:
        """End now, a running batch is cancelled, and return when the query has ended."""
        self._execution.tell(StopAsked())
        self._execution.await_termination(None)

    def _raise_failure(self) -> None:
        error = self._execution.error
        if error is not None:
            raise error
