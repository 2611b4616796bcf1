"""What ``write_stream`` was told about a query, for whoever is to run it: the engine, or Spark."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigError
from engine.sinks.builtin_sinks import sink_kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHECKPOINT = "checkpointLocation"
DEFAULT_INTERVAL = "1 second"


@dataclass
class WriteRequest:
    """One query to be started.

    :param df: what is written.
    :param trigger_kind: the keyword that ``trigger()`` was given, with its ``trigger_value``.
    :param function: what foreach or foreachBatch was given; ``sink_format`` tells which.
    """

    df: DataFrame
    sink_format: str | None = None
    sink_options: dict[str, str] = field(default_factory=dict)
    partition_columns: list[str] = field(default_factory=list)
    query_name: str | None = None
    output_mode: str = "append"
    trigger_kind: str = "continuous"
    trigger_value: Any = DEFAULT_INTERVAL
    function: Any = None


def checkpoint_location(request: WriteRequest, location: str | None) -> tuple[str, bool]:
    """The checkpoint's URL, and whether it is temporary."""
    if location is not None:
        return location, False
    default = request.df.sparkSession.conf.get("spark.sql.streaming.checkpointLocation", None)
    if default and request.query_name:
        return f"{default.rstrip('/')}/{request.query_name}", False
    if sink_kind(str(request.sink_format)).is_ephemeral:
        return tempfile.mkdtemp(prefix="continuous-"), True
    raise ConfigError(
        "The query has no checkpoint location.",
        hint='Set option("checkpointLocation", ...): it is what makes the query restartable.',
    )


def pop_option(options: dict[str, str], name: str) -> str | None:
    """Take an option out, whatever the case of its key; None if it is not there."""
    for key in list(options):
        if key.lower() == name.lower():
            return options.pop(key)
    return None
