"""The stream at the bottom of a plan, and the data sources that the user registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.pipeline.pipeline import SourceRelation
from engine.plan.catalyst import scala_seq
from engine.plan.refusals import node_refusal
from engine.sources.files.data_source import FORMATS
from engine.sources.kafka.data_source import REGISTERED, KafkaDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def source_relation(spark: SparkSession, node: Any, schema: pa.Schema) -> SourceRelation:
    """What a ``StreamingRelationV2`` reads.

    :param node: the JVM's node.
    :param schema: the Arrow schema of the node's output.
    """
    name = node.sourceName()
    return SourceRelation(
        # A query is the same one whichever way Spark knows its source.
        format=KafkaDataSource.name() if name == REGISTERED else name,
        options=options_of(node),
        schema=schema,
        data_source=python_data_source(spark, node),
    )


def python_data_source(spark: SparkSession, node: Any) -> bytes | None:
    """The pickled class that a ``StreamingRelationV2`` reads by; None: it is none of Python."""
    is_python = node.table().getClass().getSimpleName() == "PythonTable"
    return user_data_source(spark, node.sourceName()) if is_python else None


def options_of(node: Any) -> dict[str, str]:
    """Those of a ``StreamingRelationV2``, as they were given."""
    return dict(node.extraOptions().asCaseSensitiveMap())


def file_relation(
    spark: SparkSession, node: Any, schema: pa.Schema, problems: list[str]
) -> SourceRelation | None:
    """What a ``StreamingRelation`` reads: Spark's own file source, or one that is known to Spark
    alone.

    :param problems: gets what cannot be read.
    :return: None for another source.
    """
    source = node.dataSource()
    name = source.className().lower()
    if name not in FORMATS:
        problems.append(node_refusal("StreamingRelation", node.sourceName()))
        return None
    pairs = scala_seq(source.options().toSeq())
    options = {str(pair._1()): str(pair._2()) for pair in pairs}
    given = {key.lower() for key in options}
    for option in ("ignoreMissingFiles", "ignoreCorruptFiles"):  # Spark's settings for all files
        if option.lower() not in given and spark.conf.get(f"spark.sql.files.{option}") == "true":
            options[option] = "true"
    there = set(source.sourceInfo().schema().fieldNames())
    for column in schema.names:
        if column not in there:
            problems.append(f"the column {column}: what files are like is not read with them yet")
    return SourceRelation(format=name, options=options, schema=schema)


def user_data_source(spark: SparkSession, name: str) -> bytes | None:
    """The pickled class that ``spark.dataSource.register`` stored under ``name``; None if it stored
    none. Names are case-insensitive, as in Spark."""
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    if not manager.dataSourceExists(name):
        return None
    function = manager.lookupDataSource(name).dataSourceCls()
    return bytes(function.command().unsafeArray())
