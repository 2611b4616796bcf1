"""``write_stream(df)``: the twin of ``DataFrame.writeStream``.

The trigger decides who runs the query: ``continuous`` (the default, every second) runs in this
engine; ``processingTime``, ``once``, ``availableNow`` and ``realTime`` hand the same DataFrame,
with the same source and sink, to Spark itself. ``mode("spark")`` hands over a ``continuous`` one as
well: it runs in Spark's own continuous mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.base.output_modes import ALL_MODES
from engine.errors import ConfigError
from engine.query.start import start_continuous
from engine.query.write_request import WriteRequest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from engine.query.handle import ContinuousQuery
    from engine.query.handoff import SparkQuery
    from engine.sinks.foreach_batch import BatchContext

ENGINE, SPARK = "engine", "spark"
MODES = (ENGINE, SPARK)
Option = str | int | float | bool | None


def write_stream(df: DataFrame) -> ContinuousStreamWriter:
    """Start describing how a streaming DataFrame is written.

    :raises ConfigError: ``df`` is not a streaming DataFrame of classic (not Connect) PySpark.
    """
    return ContinuousStreamWriter(df)


class ContinuousStreamWriter:
    """Names and meanings are those of ``pyspark.sql.streaming.DataStreamWriter``."""

    def __init__(self, df: DataFrame) -> None:
        if not hasattr(df, "_jdf"):
            raise ConfigError(
                f"write_stream() needs a DataFrame of classic PySpark, not {type(df).__module__}."
                f"{type(df).__name__}.",
                hint="Spark Connect has no tasks that could run continuously: build the session "
                "with SparkSession.builder.master(...).",
            )
        if not df.isStreaming:
            raise ConfigError(
                "write_stream() needs a streaming DataFrame.",
                hint="Read it with spark.readStream, or write it with df.write.",
            )
        self.request = WriteRequest(df)
        self._mode: str | None = None
        """Who is to run the query; None: the trigger decides."""

    def format(self, source: str) -> ContinuousStreamWriter:
        """The sink: ``parquet``, ``json``, ``csv``, ``delta``, ``iceberg``, ``kafka``,
        ``console``, ``memory``, ``noop``, or the name of a registered data source."""
        self.request.sink_format = source
        return self

    def option(self, key: str, value: Option) -> ContinuousStreamWriter:
        """An option of the sink, ``checkpointLocation``, or one of
        :class:`engine.base.options.EngineOptions`. Keys are case-insensitive; None removes it."""
        for known in [k for k in self.request.sink_options if k.lower() == key.lower()]:
            del self.request.sink_options[known]
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            self.request.sink_options[key] = text
        return self

    def options(self, **options: Option) -> ContinuousStreamWriter:
        """Several options at once."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, outputMode: str) -> ContinuousStreamWriter:
        """Which rows leave: ``append``, ``update`` or ``complete``. For a query that keeps no state
        the first two are the same.

        :raises ConfigError: another mode.
        """
        if outputMode.lower() not in ALL_MODES:
            raise ConfigError(
                f"Output mode {outputMode!r} is none of {', '.join(ALL_MODES)}.",
                hint='Use "append".',
            )
        self.request.output_mode = outputMode.lower()
        return self

    def partitionBy(self, *cols: str | list[str]) -> ContinuousStreamWriter:
        """Lay files out in folders ``column=value``."""
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], list) else list(cols)
        missing = [name for name in names if name not in self.request.df.columns]
        if missing:
            raise ConfigError(
                f"partitionBy: no column {missing[0]!r}.",
                hint=f"The columns are {', '.join(self.request.df.columns)}.",
            )
        self.request.partition_columns = [str(name) for name in names]
        return self

    def queryName(self, queryName: str) -> ContinuousStreamWriter:
        """A name for progress reports, and the table of the memory sink."""
        if not queryName or not queryName.strip():
            raise ConfigError("queryName: a name must not be empty.")
        self.request.query_name = queryName
        return self

    def trigger(
        self,
        *,
        continuous: str | None = None,
        processingTime: str | None = None,
        once: bool | None = None,
        availableNow: bool | None = None,
        realTime: str | None = None,
    ) -> ContinuousStreamWriter:
        """Exactly one of these, as in Spark.

        :param continuous: run here; the length of an epoch, e.g. ``"1 second"``.
        """
        given = {
            "continuous": continuous,
            "processingTime": processingTime,
            "once": once,
            "availableNow": availableNow,
            "realTime": realTime,
        }
        chosen = [(kind, value) for kind, value in given.items() if value is not None]
        if len(chosen) != 1:
            raise ConfigError(
                f"trigger() takes exactly one of {', '.join(given)}, not "
                f"{', '.join(kind for kind, _ in chosen) or 'none'}."
            )
        ((self.request.trigger_kind, value),) = chosen
        self.request.trigger_value = value
        return self

    def mode(self, mode: str) -> ContinuousStreamWriter:
        """Who runs the query, ``engine`` or ``spark``; by default the trigger decides.

        :raises ConfigError: another word.
        """
        if mode.lower() not in MODES:
            raise ConfigError(f"mode: {mode!r} is none of {', '.join(MODES)}.")
        self._mode = mode.lower()
        return self

    def foreach(self, f: Any) -> ContinuousStreamWriter:
        """A function of a Row, or an object with ``process(row)`` and perhaps
        ``open(partition_id, epoch_id)`` and ``close(error)``."""
        self.request.sink_format, self.request.function = "foreach", f
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> ContinuousStreamWriter:
        """A function of a DataFrame and the epoch, called on the driver for each epoch."""
        self.request.sink_format, self.request.function = "foreachBatch", func
        return self

    def foreachBatchArrow(
        self, func: Callable[[pa.Table, BatchContext], object]
    ) -> ContinuousStreamWriter:
        """A function of all rows of an epoch as a ``pyarrow.Table`` and a
        :class:`engine.BatchContext`, called on the driver for each epoch that has rows."""
        self.request.sink_format, self.request.function = "foreachBatchArrow", func
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,  # Spark's name
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Option,
    ) -> ContinuousQuery | SparkQuery:
        """Start the query.

        :raises ConfigError: the query, an option or the machine cannot run it; nothing was
            started. Lists all unsupported parts of the query at once.
        :raises CheckpointError: the checkpoint cannot be used.
        """
        self._take(format, outputMode, partitionBy, queryName, options)
        if path is not None:
            self.option("path", path)
        if self.runs_here():
            return start_continuous(self.request)
        from engine.query.handoff import start_in_spark

        return start_in_spark(self.request)

    def toTable(
        self,
        tableName: str,
        format: str | None = None,  # Spark's name
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Option,
    ) -> ContinuousQuery | SparkQuery:
        """Start the query into a table of the session catalog, which is created if it is missing,
        unless the start is refused.

        :raises ConfigError: as :meth:`start`; or the table cannot be written to continuously.
        """
        self._take(format, outputMode, partitionBy, queryName, options)
        if not self.runs_here():
            from engine.query.handoff import start_in_spark

            return start_in_spark(self.request, table=tableName)
        from engine.query.tables import files_table

        table = files_table(self.request, tableName)
        self.request.sink_format = table.format
        self.option("path", table.path)
        return start_continuous(self.request, table.create)

    def runs_here(self) -> bool:
        """Whether the engine runs it, and not Spark.

        :raises ConfigError: the engine is to, and does not run this trigger.
        """
        is_continuous = self.request.trigger_kind == "continuous"
        if self._mode == ENGINE and not is_continuous:
            raise ConfigError(
                f"The engine does not run trigger({self.request.trigger_kind}=...), only "
                "trigger(continuous=...).",
                hint='Leave the mode out, or set it to "spark": Spark itself runs the query.',
            )
        return is_continuous and self._mode != SPARK

    def _take(
        self,
        format_name: str | None,
        output_mode: str | None,
        partition_by: str | list[str] | None,
        query_name: str | None,
        options: dict[str, Option],
    ) -> None:
        if format_name is not None:
            self.format(format_name)
        if output_mode is not None:
            self.outputMode(output_mode)
        if partition_by is not None:
            self.partitionBy(partition_by)
        if query_name is not None:
            self.queryName(query_name)
        self.options(**options)
