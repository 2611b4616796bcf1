"""Whether there is a JVM behind Spark's Python objects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.errors import ClusterEndedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def jvm_answers() -> Iterator[None]:
    """:raises ClusterEndedError: it does not: there is no JVM any more."""
    from py4j.protocol import Py4JNetworkError

    try:
        yield
    except (Py4JNetworkError, ConnectionError) as exc:
        raise ClusterEndedError(
            f"Spark has ended: its JVM does not answer ({type(exc).__name__}: {exc}).",
            hint="Start the query again, in a new process: it goes on from the last committed "
            "epoch. The log of the JVM may tell why it died.",
        ) from exc


def ask_jvm(spark: SparkSession) -> None:
    """Ask for something that it knows by heart.

    :raises ClusterEndedError: there is no JVM any more.
    """
    with jvm_answers():
        spark.sparkContext._jsc.sc().applicationId()
