"""Tables that Spark and the sink share: a process with a session that has Delta Lake's own library.

``python -m tests.connectors.delta.beside_spark FOLDER JARS`` prints what it has found as one line
of JSON; :mod:`tests.connectors.delta.test_beside_spark` looks at it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from engine import write_stream
from engine.query.registration import register
from tests.spark.conftest import start
from tests.spark.rates import await_read, values_read

Found = dict[str, Any]
WAIT_S = 60
COLUMNS = (
    "value", "value % 3 AS k", "CAST(value % 2 AS STRING) AS text", "timestamp",
    "CAST(timestamp AS DATE) AS day", "CAST(value AS DECIMAL(20, 2)) / 4 AS price",
    "array(value, value + 1) AS both", "map('v', value) AS named",
    "struct(value AS v, 'x' AS x) AS pair", "CAST(CAST(value AS STRING) AS BINARY) AS octets",
    "CAST(value AS DOUBLE) / 3 AS third", "value % 5 = 0 AS fifth",
)  # fmt: skip


class Case:
    """A table and a query's checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.table = str(folder / "table")
        self._read = -1

    def rates(self) -> DataFrame:
        rate = self.spark.readStream.format("rate").options(rowsPerSecond=500, numPartitions=2)
        return rate.load().selectExpr(*COLUMNS)

    def run(self, df: DataFrame | None = None, **options: str) -> None:
        """Our query, until two more epochs, and more rows of each partition, are committed."""
        query: Any = (
            write_stream(self.rates() if df is None else df)
            .format("delta")
            .options(path=self.table, **options)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .partitionBy("k")
            .trigger(continuous="100 milliseconds")
            .start()
        )
        assert query.awaitEpoch(query.status["epoch"] + 2, WAIT_S)
        await_read(query, self._read + 20)
        query.drain(WAIT_S)
        self._read = max(values_read(query))

    def sql(self, text: str) -> list[Any]:
        return self.spark.sql(text.replace("$", f"delta.`{self.table}`")).collect()

    def values(self) -> list[int]:
        """The first column, as Spark reads it."""
        return sorted(row.value for row in self.sql("SELECT value FROM $"))


def is_whole(values: list[int]) -> bool:
    """None missing, none twice: two partitions may have come to different ends."""
    sides = [[value for value in values if value % 2 == side] for side in (0, 1)]
    return bool(values) and all(
        side == list(range(first, first + 2 * len(side), 2)) for first, side in enumerate(sides)
    )


def read_back(case: Case) -> Found:
    """All types, as Spark reads them; where Spark skips files by their statistics, too."""
    case.run()
    wrong = case.sql(
        "SELECT count(*) AS n FROM $ WHERE NOT (k = value % 3 AND text = value % 2 "
        "AND day = CAST(timestamp AS DATE) AND price = CAST(value AS DECIMAL(20, 2)) / 4 "
        "AND both = array(value, value + 1) AND named['v'] = value AND pair.v = value "
        "AND octets = CAST(CAST(value AS STRING) AS BINARY) "
        "AND third = CAST(value AS DOUBLE) / 3 AND fifth = (value % 5 = 0))"
    )
    values = case.values()
    some = values[len(values) // 2]
    return {
        "wrong": wrong[0].n,
        "whole": is_whole(values),
        "found": [row.value for row in case.sql(f"SELECT value FROM $ WHERE value = {some}")],
        "some": some,
        "partitions": [row.col_name for row in case.sql("SHOW COLUMNS IN $")],
    }


def kept_in_order(case: Case) -> Found:
    """A table that Spark has made, with deletion vectors; Spark compacts it and deletes from it
    between two runs."""
    case.sql(
        "CREATE TABLE $ (value BIGINT, k BIGINT, text STRING) USING delta PARTITIONED BY (k) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    df = case.rates().select("value", "k", "text")
    case.run(df)
    case.sql("OPTIMIZE $")
    before = case.values()
    case.sql("DELETE FROM $ WHERE value % 10 = 3")
    case.run(df)
    after, deleted = case.values(), [value for value in before if value % 10 == 3]
    return {
        "whole": is_whole(sorted([*after, *deleted])),
        "more": len(after) - len(before),
        "deleted": len(deleted),
        "back": sorted({*deleted} & {*after}),
    }


def main(folder: str, jars: str) -> None:
    spark = start(
        spark__jars=",".join(map(str, sorted(Path(jars).glob("*.jar")))),
        spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1",  # most of it runs once
        spark__databricks__delta__snapshotPartitions="1",
        spark__sql__extensions="io.delta.sql.DeltaSparkSessionExtension",
        spark__sql__catalog__spark_catalog="org.apache.spark.sql.delta.catalog.DeltaCatalog",
    )
    register(spark)
    found: Found = {}
    scenarios: list[Callable[[Case], Found]] = [read_back, kept_in_order]
    for scenario in scenarios:
        place = Path(folder) / scenario.__name__
        place.mkdir()
        found[scenario.__name__] = scenario(Case(spark, place))
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
