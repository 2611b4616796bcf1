"""Packages of Spark that some templates need, added to a session that is running."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import SparkSession

from tests.servers.jars import jars

_added: set[tuple[str, ...]] = set()


def add_jars(spark: SparkSession, coordinates: Collection[str]) -> None:
    """Nothing is done for what is there.

    :param coordinates: as of :func:`tests.servers.jars.jars`.
    :raises NoJarsError: they cannot be had here.
    """
    key = (spark.sparkContext.applicationId, *sorted(coordinates))
    if coordinates and key not in _added:
        for jar in jars(*sorted(coordinates), alone=True).glob("*.jar"):
            spark.sql(f"ADD JAR '{jar}'")
        _added.add(key)
