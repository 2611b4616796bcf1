"""What is known of a query that Spark is to run, and why it would be refused, before anything is
created."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING

import pyspark

from engine.base.options import FAIL, SKIP, EngineOptions
from engine.base.reasons import Reasons
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.whose_state import refuse_own_state
from engine.errors import ConfigError
from engine.plan.event_time import refused_by_spark
from engine.query.spark_refusals import refusals_of_spark
from engine.query.spark_sinks import (
    mistyped_options,
    options_without_effect,
    refuse_exactly_once,
    refuse_opening_options,
    refuse_sink,
)
from engine.query.spark_sources import refuse_sources
from engine.query.tables import refuse_table
from engine.query.write_request import (
    CHECKPOINT,
    WriteRequest,
    named_checkpoint,
    pop_option,
    pop_storage,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

logger = logging.getLogger(__name__)
_OF_RECORDS = ("onBadRecord", "onLateRecord")
_HEEDED = frozenset(
    {"leaseheartbeatms", "onbadrecord", "onlaterecord", "metricsport", "opentelemetry"}
)
"""The options of the engine that mean something here."""


@dataclass(frozen=True)
class HandedQuery:
    """A query for Spark.

    :param writer: Spark's own, told all but the checkpoint.
    :param checkpoint: None: it has a temporary one.
    :param lease_heartbeat_ms: see :class:`engine.base.options.EngineOptions`.
    """

    writer: DataStreamWriter
    checkpoint: Checkpoint | None
    lease_heartbeat_ms: int


def handed_query(request: WriteRequest, table: str | None = None) -> HandedQuery:
    """Look at the query as a start does, which creates nothing yet. Options that Spark drops
    without a word are logged.

    :param table: for ``toTable``.
    :raises ConfigError: it is refused; all reasons at once.
    :raises CheckpointError: the checkpoint cannot be read.
    """
    found = Reasons()
    found.hear(lambda: _refuse_what_spark_does_not_run(request))
    if request.trigger_kind != "continuous":  # Spark's continuous mode has refused them all
        found.hear(lambda: refuse_sources(request.df))
    own, options = EngineOptions.take(request.sink_options, found)
    for option, value, default in (
        ("onBadRecord", own.on_bad_record, FAIL),
        ("onLateRecord", own.on_late_record, SKIP),
        ("metricsPort", own.metrics_port, ""),
        ("openTelemetry", own.open_telemetry, False),
    ):
        if value != default:
            found.hear(partial(_refuse_engines_own, request, option, value))
    found.hear(lambda: refuse_opening_options(request, options))
    found.hear(lambda: refuse_exactly_once(request, options))
    _warn(request, options)
    location, settings = pop_option(options, CHECKPOINT), pop_storage(options)
    if table is None:
        found.hear(lambda: refuse_sink(request, options))
    else:  # its catalog knows what the format means
        found.hear(lambda: refuse_table(request, table))
    checkpoint = found.hear(lambda: named_checkpoint(request, location, settings))
    if checkpoint is not None:
        found.hear(lambda: refuse_own_state(checkpoint))
    writer = found.hear(lambda: _writer(request, options))
    found.raise_any()
    assert writer is not None
    return HandedQuery(writer, checkpoint, own.lease_heartbeat_ms)


def _refuse_what_spark_does_not_run(request: WriteRequest) -> None:
    """Ask Spark what it asks itself when it starts a query."""
    df = request.df
    analyzed = df._jdf.queryExecution().analyzed()
    gateway = df.sparkSession.sparkContext._gateway
    continuous = request.trigger_kind == "continuous"
    refused = refused_by_spark(gateway, analyzed, request.output_mode, continuous=continuous)
    if refused is not None:
        raise ConfigError(f"Spark refuses the query: {refused}")


def _refuse_engines_own(request: WriteRequest, option: str, value: object) -> None:
    instead = "the source's own option" if option in _OF_RECORDS else "Spark's own metrics"
    raise ConfigError(
        f"Option {option} cannot be {value!r} with trigger({request.trigger_kind}=...): "
        "Spark itself runs this query.",
        hint=f"Use trigger(continuous=...), or {instead}.",
    )


def _warn(request: WriteRequest, options: Mapping[str, str]) -> None:
    """No error: the same query is to run with any trigger."""
    engines = (key for key in request.sink_options if key not in options)
    unheeded = [
        *(key for key in engines if key.lower() not in _HEEDED),
        *options_without_effect(request.sink_format, options),
    ]
    if unheeded:
        logger.warning(
            "options %s have no effect with trigger(%s=...): Spark itself runs this query",
            ", ".join(sorted(unheeded)),
            request.trigger_kind,
        )
    for key, meant in mistyped_options(request, options).items():
        logger.warning(
            "Spark's sink %s has no option %s, and ignores it: did you mean %s?",
            request.sink_format,
            key,
            meant,
        )


def _writer(request: WriteRequest, options: Mapping[str, str]) -> DataStreamWriter:
    if request.sink_format == "foreachBatchArrow":
        raise ConfigError(
            f"trigger({request.trigger_kind}=...) hands the query to Spark, which has no "
            "foreachBatchArrow.",
            hint='Use trigger(continuous=...) without mode("spark"), or foreachBatch with '
            "df.toArrow().",
        )
    with refusals_of_spark():
        writer = request.df.writeStream.outputMode(request.output_mode).options(**options)
        _refuse_later_trigger(writer, request.trigger_kind)
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
            # Spark looks the names of all other sinks up whatever their case.
            is_memory = request.sink_format.lower() == "memory"
            writer = writer.format("memory" if is_memory else request.sink_format)
        return writer


def _refuse_later_trigger(writer: DataStreamWriter, kind: str) -> None:
    if kind not in signature(writer.trigger).parameters:
        raise ConfigError(
            f"trigger({kind}=...) needs PySpark 4.2 or later; this is {pyspark.__version__}.",
            hint="Upgrade pyspark, or use trigger(continuous=...).",
        )
