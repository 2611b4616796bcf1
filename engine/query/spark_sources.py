"""Whether Spark's micro-batches can read the engine's own sources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from engine.errors import ConfigError
from engine.plan.catalyst import scala_seq
from engine.plan.stream_relation import options_of, python_data_source
from engine.query.binding import load_data_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def refuse_sources(df: DataFrame) -> None:
    """Ask for the readers that Spark asks its workers for, when the query has started. Those of
    other people may do more than to tell what they can: they are not asked.

    :raises ConfigError: a source of the engine has none for this Spark, or for these options.
    """
    from pyspark.sql.datasource import CaseInsensitiveDict
    from pyspark.sql.types import StructType

    for leaf in scala_seq(df._jdf.queryExecution().analyzed().collectLeaves()):
        if leaf.nodeName() != "StreamingRelationV2":
            continue
        pickled = python_data_source(df.sparkSession, leaf)
        if pickled is None:
            continue
        data_source = load_data_source(pickled)
        if data_source.__module__.partition(".")[0] != __name__.partition(".")[0]:
            continue
        source = data_source(CaseInsensitiveDict(options_of(leaf)))
        try:
            source.streamReader(StructType.fromJson(json.loads(leaf.schema().json())))
        except NotImplementedError as exc:  # PySpark's own is a subclass
            raise ConfigError(
                f"The source {data_source.name()} is for continuous queries.",
                hint='Use trigger(continuous="1 second") without mode("spark").',
            ) from exc
