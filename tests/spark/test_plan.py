"""From a streaming DataFrame to a pipeline, or to one error that lists all that is in the way."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource

from engine.errors import TransformError, UnsupportedQueryError
from engine.pipeline.described import REDACTED, describe_connector
from engine.pipeline.explain import explain
from engine.pipeline.pipeline import Filter, Pipeline, Project, Watermark
from engine.plan.planner import plan_query
from engine.plan.stream_relation import user_data_source
from engine.task.transform import compile_steps
from tests.spark.queries import run as run_over

pytestmark = pytest.mark.spark

_TS = pa.timestamp("us", tz="UTC")


class Numbers(DataSource):
    """A source that a user registered."""

    @classmethod
    def name(cls) -> str:
        return "user_numbers"

    def schema(self) -> str:
        return "number INT, text STRING"

    def streamReader(self, schema: Any) -> Any:
        raise AssertionError("this stream is only planned, never read")


@pytest.fixture(scope="module")
def rate(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", 5).load()


@pytest.fixture
def view(spark: SparkSession, rate: DataFrame) -> Iterator[str]:
    rate.createOrReplaceTempView("source")
    yield "source"
    spark.catalog.dropTempView("source")


def run(pipeline: Pipeline, values: list[int]) -> list[dict[str, Any]]:
    """What the pipeline makes of these values of the rate source."""
    columns = [pa.array([0] * len(values)).cast(_TS), pa.array(values, pa.int64())]
    batch = pa.RecordBatch.from_arrays(columns, schema=pipeline.source.schema)
    result = compile_steps(pipeline)(batch)
    assert result.schema == pipeline.schema
    rows: list[dict[str, Any]] = result.to_pylist()
    return rows


def problems_of(df: DataFrame) -> tuple[str, ...]:
    with pytest.raises(UnsupportedQueryError) as caught:
        plan_query(df)
    assert "Change the query" in str(caught.value)
    return caught.value.problems


def test_source_alone(rate: DataFrame) -> None:
    (pipeline,) = plan_query(rate)
    assert pipeline.steps == ()
    assert pipeline.source.format == "rate"
    assert dict(pipeline.source.options) == {"rowsPerSecond": "5"}
    assert pipeline.source.data_source is None
    assert pipeline.schema == pa.schema([("timestamp", _TS), ("value", pa.int64())])
    assert pipeline.session_timezone == "UTC"


def test_filter_and_projections(rate: DataFrame) -> None:
    df = (
        rate.where("value % 2 = 0")
        .select((F.col("value") * 2).alias("v"))
        .withColumn("w", F.col("v") + 1)
    )
    (pipeline,) = plan_query(df)
    assert [type(step) for step in pipeline.steps] == [Filter, Project, Project]
    assert pipeline.schema.names == df.columns
    assert run(pipeline, [1, 2, 3, 4]) == [{"v": 4, "w": 5}, {"v": 8, "w": 9}]


def test_sql_over_a_temporary_view(spark: SparkSession, view: str) -> None:
    columns = "value AS v, CASE WHEN value > 2 THEN 'big' END AS size"
    query = f"SELECT {columns} FROM {view} s WHERE s.value != 3"
    assert run(*plan_query(spark.sql(query)), [1, 3, 5]) == [
        {"v": 1, "size": None},
        {"v": 5, "size": "big"},
    ]


def test_view_of_a_view_and_common_table_expressions(spark: SparkSession, view: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW doubled AS SELECT value * 2 AS v FROM {view}")
    query = "WITH big AS (SELECT v FROM doubled WHERE v > 2) SELECT v + 1 AS w FROM big"
    assert run(*plan_query(spark.sql(query)), [1, 2, 3]) == [{"w": 5}, {"w": 7}]
    spark.catalog.dropTempView("doubled")


def test_columns_that_only_move_are_columns(rate: DataFrame) -> None:
    (pipeline,) = plan_query(rate.select("value", F.col("timestamp").alias("t"), "value"))
    (step,) = pipeline.steps
    assert isinstance(step, Project)
    assert [column.op for column in step.columns] == ["Column"] * 3
    assert [column.params["ordinal"] for column in step.columns] == [1, 0, 1]
    assert pipeline.schema.names == ["value", "t", "value"]


def test_a_projection_that_changes_nothing_is_no_step(rate: DataFrame) -> None:
    assert plan_query(rate.select("timestamp", "value"))[0].steps == ()


def test_watermark(rate: DataFrame) -> None:
    (pipeline,) = plan_query(
        rate.withWatermark("timestamp", "1 minute 30 seconds").where("value > 1")
    )
    assert Watermark(0, 90_000) in pipeline.steps
    assert run(pipeline, [1, 2])[0]["value"] == 2


def test_na_functions(rate: DataFrame) -> None:
    df = rate.selectExpr("nullif(value, 2) AS v").na.drop().na.replace({3: 30}).na.fill(0)
    assert run(*plan_query(df), [1, 2, 3]) == [{"v": 1}, {"v": 30}]


def test_what_a_filter_uses_twice_is_computed_in_its_place(rate: DataFrame) -> None:
    """Spark moves filters below the projection that computes it first."""
    text = "value > 1 AND nullif(1 div value, 3) = 0"
    filtered = plan_query(rate.where(text).select("value"))
    assert run(*filtered, [0, 1, 2]) == [{"value": 2}]
    with pytest.raises(TransformError, match="DIVIDE_BY_ZERO"):
        run(*plan_query(rate.selectExpr(text)), [0, 1, 2])


def test_current_time_is_one_moment_per_batch(rate: DataFrame) -> None:
    df = rate.select(
        (F.current_timestamp() == F.expr("now()")).alias("same"),
        (F.to_date(F.current_timestamp()) == F.current_date()).alias("today"),
        (F.current_timestamp() > F.lit("2020-01-01").cast("timestamp")).alias("later"),
    )
    assert run(*plan_query(df), [1, 2]) == [{"same": True, "today": True, "later": True}] * 2


def test_nullability_is_that_of_the_dataframe(rate: DataFrame) -> None:
    df = rate.selectExpr("value", "coalesce(value, 0L) AS never", "1 AS one")
    nullable = {field.name: field.nullable for field in plan_query(df)[0].schema}
    assert nullable == {field.name: field.nullable for field in df.schema}


def test_a_source_that_the_user_registered(spark: SparkSession) -> None:
    spark.dataSource.register(Numbers)
    df = spark.readStream.format("user_numbers").option("startFrom", 7).load()
    source = plan_query(df.where("number > 1"))[0].source
    assert source.format == "user_numbers"
    assert dict(source.options) == {"startFrom": "7"}
    assert source.schema == pa.schema([("number", pa.int32()), ("text", pa.string())])
    assert source.data_source is not None
    assert cloudpickle.loads(source.data_source).name() == "user_numbers"
    assert user_data_source(spark, "USER_NUMBERS") == source.data_source
    assert user_data_source(spark, "parquet") is None


def test_a_pipeline_survives_pickling(rate: DataFrame) -> None:
    (pipeline,) = plan_query(
        rate.withWatermark("timestamp", "1 second").selectExpr(
            "cast(value AS STRING) AS s", "1.5 AS d"
        )
    )
    again = pickle.loads(pickle.dumps(pipeline))
    assert again == pipeline
    assert run(again, [7]) == run(pipeline, [7])


def test_a_union_is_a_pipeline_for_each_of_its_streams(
    spark: SparkSession, rate: DataFrame
) -> None:
    small = rate.selectExpr("CAST(value AS INT) AS n", "'small' AS kind").where("n < 10")
    large = rate.selectExpr("value AS m", "'large' AS which").where("m >= 10")
    df = small.union(large).unionByName(rate.selectExpr("'all' AS kind", "value AS n"))
    pipelines = plan_query(df.selectExpr("kind", "n * 2 AS d"))
    found = [[(row["kind"], row["d"]) for row in run(p, [1, 20])] for p in pipelines]
    assert found == [[("small", 2)], [("large", 40)], [("all", 2), ("all", 40)]]
    assert {str(p.schema) for p in pipelines} == {str(pipelines[0].schema)}


def test_the_settings_are_those_of_the_session_of_the_query(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    rate = other.readStream.format("rate").load()
    query = rate.selectExpr("map(CAST(value AS STRING), 1, '7', 2) AS m")
    spark.createDataFrame([(1,)], "i INT")  # makes that session the active one
    (pipeline,) = plan_query(query)
    now = pa.array([0], pa.timestamp("us", tz="UTC"))
    rows = run_over(pipeline, pa.table({"timestamp": now, "value": [7]}))
    assert rows["m"].to_pylist() == [[("7", 2)]]


@pytest.mark.parametrize("terms", [250, 400])
def test_what_is_nested_too_deeply_is_refused(rate: DataFrame, terms: int) -> None:
    with pytest.raises(UnsupportedQueryError, match="nested more than 200 levels deep"):
        plan_query(rate.selectExpr(" + ".join(["value"] * terms)))
    (pipeline,) = plan_query(rate.selectExpr(" + ".join(["value"] * 150)))
    assert cloudpickle.dumps(pipeline)


def test_a_batch_dataframe_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedQueryError, match=r"not a stream.*df\.write"):
        plan_query(spark.range(3).toDF("value"))


@pytest.mark.parametrize(
    ("build", "texts"),
    [
        (lambda df: df.groupBy("value").count(), ["append", "without watermark"]),
        (
            lambda df: df.union(df.sparkSession.range(3).selectExpr("current_timestamp()", "id")),
            ["Union", "write it once"],
        ),
        (lambda df: df.limit(3), ["Limit", "filter instead"]),
        (
            lambda df: df.crossJoin(df.withColumnRenamed("value", "v")),
            ["Join", "two streams"],
        ),
        (
            lambda df: df._joinAsOf(df.sparkSession.range(3), "value", "id"),
            ["AsOfJoin", "by nearness"],
        ),
        (lambda df: df.select(F.spark_partition_id()), ["SPARK_PARTITION_ID()", "a place"]),
        (
            lambda df: df.alias("s").where(
                "value > (select sum(id) from range(9) where id < s.value)"
            ),
            ["Subquery", "by equalities only"],
        ),
        (lambda df: df.select(F.expr("interval 1 month")), ["interval"]),
        (lambda df: df.selectExpr("cast(value as string) collate unicode as s"), ["COLLATE"]),
    ],
)
def test_refusals(rate: DataFrame, build: Any, texts: list[str]) -> None:
    listed = "; ".join(problems_of(build(rate)))
    for text in texts:
        assert text in listed


def test_a_file_source_is_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "p=1").mkdir()
    (tmp_path / "p=1/a.json").touch()
    reader = spark.readStream.schema("a INT").option("maxFilesPerTrigger", 3)
    (pipeline,) = plan_query(reader.json(str(tmp_path)).where("a > 1"))
    assert pipeline.source.format == "json"
    assert pipeline.source.options == {"path": str(tmp_path), "maxFilesPerTrigger": "3"}
    assert pipeline.source.schema == pa.schema([("a", pa.int32()), ("p", pa.int32())])
    (problem,) = problems_of(reader.json(str(tmp_path)).select("_metadata.file_name"))
    assert "_metadata" in problem


def test_everything_is_listed_in_one_error(rate: DataFrame) -> None:
    counted = rate.where("spark_partition_id() > 0").groupBy("value").count()
    df = counted.selectExpr("monotonically_increasing_id() AS u", "count")
    listed = problems_of(df.limit(1))
    for text in ("SparkPartitionID", "aggregations", "MonotonicallyIncreasingID", "Limit"):
        assert sum(text in problem for problem in listed) == 1, listed


def test_a_random_value_is_computed_once_where_it_stands(rate: DataFrame) -> None:
    """Neither moved in front of a filter, nor folded, nor shared with its twin."""
    df = rate.selectExpr("rand() AS a", "rand() AS b", "uuid() AS u").where("a < 0.5")
    (pipeline,) = plan_query(df.selectExpr("a", "a AS again", "b", "u"))
    batch = pa.RecordBatch.from_pylist(
        [{"timestamp": None, "value": value} for value in range(1_000)], pipeline.source.schema
    )
    result = compile_steps(pipeline)(batch)
    a, again, b, u = (column.to_pylist() for column in result.columns)
    assert a == again
    assert 300 < len(a) < 700
    assert max(a) < 0.5 < max(b)
    assert len(set(u)) == len(u)


def test_a_random_value_that_is_used_twice_is_computed_once(rate: DataFrame) -> None:
    coin = "CAST(rand() * 2 AS INT)"
    df = rate.selectExpr(
        f"{coin} BETWEEN 1 AND 0 AS both",
        f"nullif({coin}, 1) AS other",
        f"{coin} IN (CAST(value - value AS INT), 1) AS any",
        f"CASE WHEN value < 500 THEN {coin} BETWEEN 1 AND 0 END AS some",
    )
    (pipeline,) = plan_query(df)
    batch = pa.RecordBatch.from_pylist(
        [{"timestamp": None, "value": value} for value in range(1_000)], pipeline.source.schema
    )
    both, other, any_, some = (c.to_pylist() for c in compile_steps(pipeline)(batch).columns)
    assert set(both) == {False}
    assert set(other) == {0, None}
    assert set(any_) == {True}
    assert set(some) == {False, None}


def test_explain(rate: DataFrame) -> None:
    (pipeline,) = plan_query(rate.where("value > 1").selectExpr("value + 1 AS v"))
    text = explain(
        [pipeline],
        sink="noop[]",
        partitions=4,
        readers=2,
        epoch_interval_ms=1000,
        delivery="exactly-once",
    )
    for line in (
        "rate[rowsPerSecond=5]",
        "Filter (value > 1L)",
        "Project (value + 1L) AS v",
        "v BIGINT",
        "noop[]",
        "4, read by 2 tasks",
        "every 1000 ms",
        "exactly-once",
    ):
        assert line in text


def test_secrets_are_redacted() -> None:
    options = {"url": "host", "api.token": "abc", "user": "my-password"}
    shown = describe_connector("kafka", options)
    assert shown == f"kafka[api.token={REDACTED}, url=host, user={REDACTED}]"
