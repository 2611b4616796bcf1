"""Hands a query to Spark's own Structured Streaming: the same DataFrame, source and sink."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from engine.config import FAIL, EngineOptions
from engine.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from engine.api import ContinuousStreamWriter

_POLL_S = 0.1


def start_in_spark(builder: ContinuousStreamWriter, table: str | None = None) -> SparkQuery:
    """Start with ``df.writeStream`` what was told to ``write_stream(df)``.

    :param table: for ``toTable``.
    """
    writer = builder.df.writeStream.outputMode(builder.output_mode)
    writer = writer.trigger(**{builder.trigger_kind: builder.trigger_value})
    own, options = EngineOptions.take(builder.sink_options)
    if own.on_bad_record != FAIL:
        raise ConfigError(
            f"Option onBadRecord cannot be {own.on_bad_record!r} with "
            f"trigger({builder.trigger_kind}=...): Spark itself runs this query.",
            hint="Use trigger(continuous=...), or the source's own option.",
        )
    for key, value in options.items():
        writer = writer.option(key, value)
    if builder.query_name is not None:
        writer = writer.queryName(builder.query_name)
    if builder.partition_columns:
        writer = writer.partitionBy(*builder.partition_columns)
    if builder.sink_format == "foreach":
        writer = writer.foreach(builder.function)
    elif builder.sink_format == "foreachBatch":
        writer = writer.foreachBatch(builder.function)
    elif builder.sink_format is not None:
        writer = writer.format(builder.sink_format)
    return SparkQuery(writer.toTable(table) if table is not None else writer.start())


class SparkQuery:
    """A query that Spark runs, with the two methods that :class:`engine.query.ContinuousQuery` has
    beyond StreamingQuery. Everything else is StreamingQuery's own."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._pause = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def awaitEpoch(self, epoch: int, timeout: float | None = None) -> bool:
        """Wait until the micro-batch with this id is committed; whether it is.

        :raises StreamingQueryException: the query failed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            is_active = (
                self._query.isActive
            )  # looked at first: the last commit comes before the end
            if self._committed() >= epoch:
                return True
            left = _POLL_S if deadline is None else min(_POLL_S, deadline - time.monotonic())
            if left <= 0:
                return False
            if not is_active:
                self._query.awaitTermination()  # raises what it failed with
                return False
            self._pause.wait(left)

    def _committed(self) -> int:
        progress = self._query.lastProgress
        if progress is None:
            return -1
        batch = int(progress["batchId"])
        # A trigger without data reports the batch that it would have begun.
        return batch if "addBatch" in progress["durationMs"] else batch - 1

    def drain(self, timeout: float | None = None) -> bool:
        """Process what the source has now, then stop; Spark cannot bound this by ``timeout``."""
        if self._query.isActive:
            self._query.processAllAvailable()
            self._query.stop()
        return True
