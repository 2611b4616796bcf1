"""The sink of a query that ``write_stream(df)`` was told about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

from engine.base.connector_options import PARTITION_BY, SESSION_TIMEZONE, Options
from engine.base.options import EngineOptions
from engine.base.output_modes import COMPLETE
from engine.errors import ConfigError
from engine.query.binding import bind_sink, bind_writer
from engine.query.write_request import WriteRequest
from engine.sinks.builtin_sinks import PARTITIONED, SINKS, sink_kind
from engine.sinks.contract import SinkBinding
from engine.sinks.dead_letters import with_dead_letters


def bind_request_sink(
    request: WriteRequest,
    given: Mapping[str, str],
    options: EngineOptions,
    session_timezone: str,
) -> SinkBinding:
    """The sink, with what keeps bad records, if they are kept.

    :param given: the sink's own options.
    :raises ConfigError: there is none, or it cannot be written to as it is asked to.
    """
    sink = _sink(request, dict(given), session_timezone)
    if options.keeps_letters:
        sink = with_dead_letters(sink, options.dead_letter_path)
    return sink


def _sink(request: WriteRequest, options: dict[str, str], session_timezone: str) -> SinkBinding:
    spark, schema = request.df.sparkSession, request.df.schema
    name, is_whole = request.sink_format, request.output_mode == COMPLETE
    if name is None:
        raise ConfigError(
            "The query has no sink.", hint='Name one: .format("parquet").option("path", ...).'
        )
    if request.partition_columns and not sink_kind(name).has_partitions:
        raise ConfigError(
            f"partitionBy has no meaning for the sink {name}.",
            hint=f"It lays out the files of {', '.join(PARTITIONED)}.",
        )
    if name == "foreach":
        from engine.sinks.foreach import ForeachWriter

        Options("sink foreach", options).refuse_others()
        return bind_writer(ForeachWriter(request.function, schema), "foreach")
    if name in ("foreachBatch", "foreachBatchArrow"):
        from engine.sinks.foreach_batch import ForeachBatchArrowWriter, ForeachBatchWriter
        from engine.sinks.shipped import shipped_bytes_max
        from engine.spark.answers import ask_jvm

        taken = Options(f"sink {name}", options)
        bytes_max = shipped_bytes_max(taken)
        taken.refuse_others()
        function = request.function
        if name == "foreachBatch":
            check = partial(ask_jvm, spark)
            return bind_writer(ForeachBatchWriter(function, spark, schema, bytes_max, check), name)
        return bind_writer(ForeachBatchArrowWriter(function, schema, bytes_max), name)
    if name.lower() == "memory":
        from engine.sinks.memory import MemoryWriter
        from engine.sinks.shipped import shipped_bytes_max

        if request.query_name is None:
            raise ConfigError(
                "The memory sink needs a name for its table.", hint="Set queryName(...)."
            )
        taken = Options("sink memory", options)
        bytes_max = shipped_bytes_max(taken)
        taken.refuse_others()
        return bind_writer(
            MemoryWriter(request.query_name, schema, spark, bytes_max=bytes_max, replaces=is_whole),
            f"memory[{request.query_name}]",
            "memory",
        )
    if name.lower() in SINKS:  # a stranger may refuse options that it does not know
        options = {
            **options,
            PARTITION_BY: json.dumps(request.partition_columns),
            SESSION_TIMEZONE: session_timezone,
        }
    return bind_sink(spark, name, options, schema, overwrite=is_whole)
