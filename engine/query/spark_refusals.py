"""What Spark itself refuses of a query, as an error of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    PySparkAttributeError,
    PySparkPicklingError,
    PySparkTypeError,
    PySparkValueError,
    UnsupportedOperationException,
)

from engine.errors import ConfigError
from engine.spark.failure import describe_error, gist

_REFUSALS = (
    AnalysisException,
    IllegalArgumentException,
    PySparkAttributeError,
    PySparkPicklingError,
    PySparkTypeError,
    PySparkValueError,
    UnsupportedOperationException,
)


@contextmanager
def refusals_of_spark() -> Iterator[None]:
    """:raises ConfigError: Spark has refused the query in here, or a part of it."""
    try:
        yield
    except _REFUSALS as exc:
        raise ConfigError(f"Spark refuses the query: {describe_error(exc)}") from exc
    except Py4JJavaError as exc:  # of one that PySpark has no class for
        if not exc.java_exception.getClass().getName().endswith("ClassNotFoundException"):
            raise
        raise ConfigError(f"Spark refuses the query: {gist(exc)}") from exc
