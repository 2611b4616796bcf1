"""Hands a query to Spark's own Structured Streaming: the same DataFrame, source and sink.

This process holds the checkpoint's lease meanwhile (:mod:`engine.spark.supervised`), so that the
query is found, drained and stopped like one of the engine, and no second run gets at its
checkpoint.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.base.options import FAIL, SKIP, EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.checkpoint.whose_state import refuse_own_state
from engine.coordinator.events import DrainAsked, StopAsked
from engine.errors import ConfigError
from engine.query.spark_sinks import refuse_unknown_sink
from engine.query.write_request import (
    CHECKPOINT,
    WriteRequest,
    checkpoint_location,
    open_checkpoint,
    pop_option,
    pop_storage,
)
from engine.sinks.builtin_sinks import FILE_FORMATS
from engine.spark.drains import finish_batch, finish_epoch
from engine.spark.failure import describe_error
from engine.spark.supervised import SparkExecution
from engine.spark.workers import use_this_python

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


logger = logging.getLogger(__name__)
_OF_RECORDS = ("onBadRecord", "onLateRecord")
_HEEDED = frozenset(
    {"leaseheartbeatms", "onbadrecord", "onlaterecord", "metricsport", "opentelemetry"}
)
"""The options of the engine that mean something here."""
_OF_LAKES = ("schemaEvolution", "targetFileSize", "commitInterval")
_SHIPPED = "maxShippedBytesPerEpoch"
_OURS_ALONE: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(FILE_FORMATS, ("compactInterval",)),
    "delta": _OF_LAKES,
    "iceberg": (*_OF_LAKES, "catalog", "compression", "location", "partitionSpec", "table"),
    "kafka": ("transactionalIdPrefix",),
    "console": (_SHIPPED, "timeZone"),
    "memory": (_SHIPPED,),
    "foreachbatch": (_SHIPPED,),
}
"""Options of a sink that Spark's own of the same name drops without a word."""
_STORAGE_OF: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys((*FILE_FORMATS, "delta"), ("storage.", "spark.hadoop.fs.")),
    "iceberg": ("catalog.", "spark.sql.catalog."),
}
"""What begins the options that open a sink's storage, and the settings that do so in Spark."""
_POLL_S = 0.1
_ENDED = {"message": "Stopped", "isDataAvailable": False, "isTriggerActive": False}


def start_in_spark(request: WriteRequest, table: str | None = None) -> SparkQuery:
    """Start with ``df.writeStream`` what was told to ``write_stream(df)``.

    :param table: for ``toTable``.
    :raises ConfigError: an option, or the sink, is none of Spark's; or Spark refuses the query.
    :raises ConcurrentRunError: another run holds the checkpoint; Spark has started nothing.
    """
    if request.sink_format == "foreachBatchArrow":
        raise ConfigError(
            f"trigger({request.trigger_kind}=...) hands the query to Spark, which has no "
            "foreachBatchArrow.",
            hint='Use trigger(continuous=...) without mode("spark"), or foreachBatch with '
            "df.toArrow().",
        )
    own, options = EngineOptions.take(request.sink_options)
    for option, value, default in (
        ("onBadRecord", own.on_bad_record, FAIL),
        ("onLateRecord", own.on_late_record, SKIP),
        ("metricsPort", own.metrics_port, ""),
        ("openTelemetry", own.open_telemetry, False),
    ):
        if value != default:
            instead = "the source's own option" if option in _OF_RECORDS else "Spark's own metrics"
            raise ConfigError(
                f"Option {option} cannot be {value!r} with trigger({request.trigger_kind}=...): "
                "Spark itself runs this query.",
                hint=f"Use trigger(continuous=...), or {instead}.",
            )
    sink = (request.sink_format or "").lower()
    _refuse_what_spark_cannot(request, sink, options)
    ours_alone = {name.lower() for name in _OURS_ALONE.get(sink, ())}
    unheeded = [
        key
        for key in request.sink_options
        if (key.lower() in ours_alone if key in options else key.lower() not in _HEEDED)
    ]
    if unheeded:
        # No error: the same query is to run with any trigger.
        logger.warning(
            "options %s have no effect with trigger(%s=...): Spark itself runs this query",
            ", ".join(sorted(unheeded)),
            request.trigger_kind,
        )
    if table is None:  # else its catalog knows what the format means
        refuse_unknown_sink(request.df.sparkSession, request.sink_format)
    location, temporary = checkpoint_location(request, pop_option(options, CHECKPOINT))
    checkpoint = open_checkpoint(location, pop_storage(options))
    refuse_own_state(checkpoint)
    context = request.df.sparkSession.sparkContext
    use_this_python(context)
    options[CHECKPOINT] = _as_spark_names(checkpoint)
    execution = SparkExecution(
        checkpoint,
        finish_epoch if request.trigger_kind == "continuous" else finish_batch,
        application=context.applicationId,
        heartbeat_interval_ms=own.lease_heartbeat_ms,
        temporary=temporary,
    )
    writer, standby = _writer(request, options), request.standby
    if standby is not None:
        standby.await_turn(checkpoint)
        refuse_own_state(checkpoint)  # that somebody has left there meanwhile
    lost = None if standby is None else standby.lost
    return SparkQuery(execution.start(lambda: _start(writer, table), lost), execution)


def _refuse_what_spark_cannot(request: WriteRequest, sink: str, options: dict[str, str]) -> None:
    """Spark's own sink would take these options without a word, and do otherwise."""
    delivery = {name.lower(): text for name, text in options.items()}.get("delivery", "")
    prefix, instead = _STORAGE_OF.get(sink, ("", ""))
    opening = [name for name in options if prefix and name.lower().startswith(prefix)]
    if opening:
        raise ConfigError(
            f"The sink {sink} has no option {', '.join(sorted(opening))} with "
            f"trigger({request.trigger_kind}=...): Spark itself runs this query, and opens the "
            "storage by its own settings.",
            hint=f"Set the storage up in the session, by settings that begin with {instead}, and "
            "leave these options, or the connection that says them, out; or use "
            "trigger(continuous=...).",
        )
    if sink == "kafka" and delivery.strip().lower() == "exactly-once":
        raise ConfigError(
            f"The sink kafka cannot be exactly once with trigger({request.trigger_kind}=...): "
            "Spark itself runs this query, and repeats a micro-batch after a failure.",
            hint='Use trigger(continuous=...), or set option("delivery", "at-least-once").',
        )


def _start(writer: DataStreamWriter, table: str | None) -> StreamingQuery:
    from pyspark.errors import (
        AnalysisException,
        IllegalArgumentException,
        UnsupportedOperationException,
    )

    try:
        return writer.start() if table is None else writer.toTable(table)
    except (AnalysisException, IllegalArgumentException, UnsupportedOperationException) as exc:
        raise ConfigError(f"Spark refuses the query: {describe_error(exc)}") from exc


def _writer(request: WriteRequest, options: dict[str, str]) -> DataStreamWriter:
    writer = request.df.writeStream.outputMode(request.output_mode).options(**options)
    writer = writer.trigger(**{request.trigger_kind: request.trigger_value})
    if request.query_name is not None:
        writer = writer.queryName(request.query_name)
    if request.partition_columns:
        writer = writer.partitionBy(*request.partition_columns)
    if request.sink_format == "foreach":
        writer = writer.foreach(request.function)
    elif request.sink_format == "foreachBatch":
        writer = writer.foreachBatch(request.function)
    elif request.sink_format is not None:
        writer = writer.format(request.sink_format)
    return writer


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
