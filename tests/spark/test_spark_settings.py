"""Settings of Spark's own that would change how tasks which never end are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine import write_stream
from engine.errors import ConfigError
from engine.query.explanation import explain_query
from engine.spark.executor_launcher import SparkLauncher

pytestmark = pytest.mark.spark
Set = Callable[[str, str], None]


@pytest.fixture
def as_if(spark: SparkSession) -> Iterator[Set]:
    """Sets what a session is given when it starts."""
    conf = spark.sparkContext._jsc.sc().conf()
    names: list[str] = []

    def put(name: str, value: str) -> None:
        names.append(name)
        conf.set(name, value)

    yield put
    for name in names:
        conf.remove(name)


@pytest.mark.parametrize("on", ["true", "TRUE", "True "])
def test_speculation_is_refused_however_it_is_spelled(
    spark: SparkSession, as_if: Set, on: str
) -> None:
    as_if("spark.speculation", on)
    with pytest.raises(ConfigError, match=r"spark\.speculation is on"):
        SparkLauncher(spark)


def test_dynamic_allocation_that_spark_does_not_do_is_not_waited_for(
    spark: SparkSession, as_if: Set
) -> None:
    """In local mode there is none, whatever the setting says: slots are counted."""
    as_if("spark.dynamicAllocation.enabled", "true")
    assert SparkLauncher(spark).slots() is not None


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_adaptive_execution_changes_nothing(
    spark: SparkSession, tmp_path: Path, adaptive: str
) -> None:
    """It is about Spark's own jobs; a query here is none of them."""
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        events = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
        counts = events.groupBy("timestamp").count()
        writer = write_stream(counts).format("noop").trigger(continuous="1 second")
        explained = explain_query(writer.option("checkpointLocation", str(tmp_path)))
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", str(before))
    assert "count" in explained.text
    assert "Adaptive" not in explained.text
