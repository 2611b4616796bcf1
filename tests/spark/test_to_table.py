"""A start into a table leaves none behind when it is refused, whoever runs the query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine import write_stream
from engine.errors import ConfigError
from engine.query.handle import ContinuousQuery
from engine.query.writer import ContinuousStreamWriter
from tests.spark.test_native_queries import WAIT_S, rate

pytestmark = pytest.mark.spark
TABLE = "into_table"


@pytest.fixture
def writer(spark: SparkSession, tmp_path: Path) -> Iterator[ContinuousStreamWriter]:
    made = write_stream(rate(spark)).option("checkpointLocation", str(tmp_path / "checkpoint"))
    yield made
    spark.sql(f"DROP TABLE IF EXISTS {TABLE}")


@pytest.mark.parametrize("trigger", [{"continuous": "1 second"}, {"once": True}])
@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("nosuch.counted", "SCHEMA_NOT_FOUND"),
        ("nosuch.of.counted", "REQUIRES_SINGLE_PART_NAMESPACE"),
        ("not a name", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_a_table_that_cannot_be_is_refused(
    writer: ContinuousStreamWriter, tmp_path: Path, trigger: dict[str, str], table: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=f"Spark refuses the query: .*{told}"):
        writer.trigger(**trigger).toTable(table)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_no_table_can_have_is_refused(writer: ContinuousStreamWriter) -> None:
    with pytest.raises(ConfigError, match="no table of the name 'not this'"):
        writer.toTable("`not this`")


def test_a_refused_start_leaves_no_table(
    spark: SparkSession, writer: ContinuousStreamWriter
) -> None:
    with pytest.raises(ConfigError, match="epochBacklogMax"):
        writer.option("epochBacklogMax", "many").toTable(TABLE)
    assert not spark.catalog.tableExists(TABLE)


def test_columns_that_a_table_cannot_have_are_refused(
    spark: SparkSession, writer: ContinuousStreamWriter, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="Cannot use all columns for partition columns"):
        writer.partitionBy("timestamp", "value").toTable(TABLE)
    assert not spark.catalog.tableExists(TABLE)
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_was_created_is_gone_on_with_and_another_is_not(
    spark: SparkSession, writer: ContinuousStreamWriter
) -> None:
    for _ in range(2):
        query = writer.partitionBy("value").toTable(TABLE)
        assert isinstance(query, ContinuousQuery)
        assert query.awaitEpoch(query.status["epoch"] + 1, WAIT_S)
        query.drain(WAIT_S)
        (made,) = [
            row["data_type"]
            for row in spark.sql(f"DESCRIBE TABLE EXTENDED {TABLE}").collect()
            if row["col_name"] == "Location"
        ]
        assert writer.request.sink_options["path"] == made
    with pytest.raises(ConfigError, match="not the query"):
        writer.toTable(f"{TABLE}_2")
    assert not spark.catalog.tableExists(f"{TABLE}_2")
    assert not Path(f"{made.removeprefix('file:')}_2").exists()
