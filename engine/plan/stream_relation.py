"""The stream at the bottom of a plan, and the data sources that the user registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.pipeline.pipeline import SourceRelation
from engine.sources.kafka.data_source import REGISTERED, KafkaDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def source_relation(spark: SparkSession, node: Any, schema: pa.Schema) -> SourceRelation:
    """What a ``StreamingRelationV2`` reads.

    :param node: the JVM's node.
    :param schema: the Arrow schema of the node's output.
    """
    name = node.sourceName()
    is_python = node.table().getClass().getSimpleName() == "PythonTable"
    return SourceRelation(
        # A query is the same one whichever way Spark knows its source.
        format=KafkaDataSource.name() if name == REGISTERED else name,
        options=dict(node.extraOptions().asCaseSensitiveMap()),
        schema=schema,
        data_source=user_data_source(spark, name) if is_python else None,
    )


def user_data_source(spark: SparkSession, name: str) -> bytes | None:
    """The pickled class that ``spark.dataSource.register`` stored under ``name``; None if it stored
    none. Names are case-insensitive, as in Spark."""
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    if not manager.dataSourceExists(name):
        return None
    function = manager.lookupDataSource(name).dataSourceCls()
    return bytes(function.command().unsafeArray())
