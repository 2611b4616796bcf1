"""Subqueries over tables in a query over a stream, as in Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.errors import ConfigError, TransformError, UnsupportedQueryError
from engine.pipeline.pipeline import StaticJoin
from engine.plan.planner import plan_query
from tests.spark.queries import assert_same_query, ours, stream_of, table_of

pytestmark = pytest.mark.spark

STREAM = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "k": pa.array([1, 2, None, 3, 2, 9, None, 1], pa.int32()),
        "s": pa.array(["a", "b", None, "ß", "", "zz", "a", None], pa.string()),
        "x": pa.array([0.0, -0.0, float("nan"), None, 1.5, 2.0, 7.0, 2.0], pa.float64()),
    }
)
TABLES = {
    "dims": pa.table(
        {
            "k": pa.array([1, 1, 2, 4, 2], pa.int64()),
            "t": pa.array(["a", "a", "b", "x", ""], pa.string()),
            "v": pa.array([10, 20, None, 40, 50], pa.int32()),
            "y": pa.array([-0.0, float("nan"), None, 1.5, 2.0], pa.float64()),
        }
    ),
    "holes": pa.table(
        {
            "k": pa.array([1, None, 3], pa.int64()),
            "t": pa.array(["a", None, "zz"], pa.string()),
            "v": pa.array([None, 2, 3], pa.int32()),
        }
    ),
    "nothing": pa.table(
        {
            "k": pa.array([], pa.int64()),
            "t": pa.array([], pa.string()),
            "v": pa.array([], pa.int32()),
        }
    ),
}


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> None:
    for name, table in TABLES.items():
        table_of(spark, table).createOrReplaceTempView(f"sub_{name}")


def of(spark: SparkSession, text: str) -> Callable[[DataFrame], DataFrame]:
    return lambda df: spark.sql(text, source=df)


FILTERS = [
    "k IN (SELECT k FROM {t})",
    "k NOT IN (SELECT k FROM {t})",
    "NOT k IN (SELECT k FROM {t} WHERE k IS NOT NULL)",
    "k NOT IN (SELECT k FROM {t} WHERE v > 15)",
    "k NOT IN (SELECT d.k FROM {t} d WHERE d.t = s)",
    "k IN (SELECT d.k FROM {t} d WHERE d.t = s AND d.v > 5)",
    "(k, s) IN (SELECT k, t FROM {t})",
    "(k, s) NOT IN (SELECT k, t FROM {t})",
    "EXISTS (SELECT 1 FROM {t})",
    "NOT EXISTS (SELECT 1 FROM {t} WHERE k > 100)",
    "EXISTS (SELECT 1 FROM {t} d WHERE d.k = e.k)",
    "NOT EXISTS (SELECT 1 FROM {t} d WHERE d.k = e.k AND d.t <=> e.s)",
    "EXISTS (SELECT 1 FROM {t} d WHERE d.k = e.k AND d.v > e.id)",
    "NOT EXISTS (SELECT 1 FROM {t} d WHERE d.v < e.id)",
    "id > 3 OR k IN (SELECT k FROM {t})",
    "id > 5 OR k NOT IN (SELECT k FROM {t})",
    "id = 0 OR NOT EXISTS (SELECT 1 FROM {t} d WHERE d.k = e.k)",
    "id > (SELECT min(k) FROM {t})",
    "k = (SELECT max(k) FROM {t} d WHERE d.t = s)",
    "2 > (SELECT count(*) FROM {t} d WHERE d.k = e.k)",
    "1 > (SELECT count_if(v > 15) FROM {t} d WHERE d.k = e.k)",
    "coalesce((SELECT sum(v) FROM {t} d WHERE d.k = e.k), -1) < id * 10",
    "id > 0 AND 10 div id IN (SELECT k FROM {t})",
    "upper(s) IN (SELECT upper(t) FROM {t})",
    "EXISTS (SELECT 1 FROM {t} d WHERE d.k = e.k AND d.v IN (SELECT v FROM sub_dims))",
    "EXISTS (SELECT 1 FROM {t} d WHERE k = e.k AND EXISTS (SELECT 1 FROM sub_dims WHERE v = d.v))",
    "k IN (SELECT k FROM {t} d WHERE v NOT IN (SELECT v FROM sub_dims WHERE t = d.t))",
    "k IN (SELECT k FROM {t} d WHERE v = (SELECT max(v) FROM sub_dims WHERE k = d.k))",
    "k = (SELECT max(k) FROM {t} d WHERE EXISTS (SELECT 1 FROM sub_dims WHERE k = d.k))",
    "s = (SELECT max(t) FROM {t} d WHERE k = e.k AND v IN (SELECT v FROM sub_dims WHERE k > d.k))",
    "s = (SELECT max(t) FROM {t} d WHERE v = (SELECT max(v) FROM sub_dims WHERE k = d.k))",
]


@pytest.mark.sampled(1 / 3)
@pytest.mark.parametrize("name", list(TABLES))
def test_in_filters(spark: SparkSession, name: str) -> None:
    for condition in FILTERS:
        text = f"SELECT * FROM {{source}} e WHERE {condition.format(t=f'sub_{name}')}"
        assert_same_query(spark, STREAM, of(spark, text), rows=4)


PROJECTIONS = [
    "id, (SELECT max(v) FROM {t}) AS m",
    "id, (SELECT max(v) FROM {t}) + id, (SELECT max(v) FROM {t}) - (SELECT min(k) FROM {t})",
    "id, (SELECT named_struct('a', max(t), 'b', collect_set(k)) FROM {t} WHERE k = 1) AS q",
    "id, k IN (SELECT k FROM {t}) AS known",
    "id, NOT EXISTS (SELECT 1 FROM {t} d WHERE d.k = e.k) AS unknown, s",
    "id, (SELECT sum(v) FROM {t} d WHERE d.k = e.k) AS total, e.k",
    "id, (SELECT count(*) FROM {t} d WHERE d.k = e.k) AS n",
    "id, (SELECT count(*) + 1 FROM {t} d WHERE d.k = e.k AND d.t = e.s) AS n",
    "(SELECT first(t) FROM (SELECT DISTINCT t FROM {t} WHERE k = 4)) || s, id",
    "explode(array(id, (SELECT max(k) FROM {t})))",
    "(SELECT id + 1) AS next",
    "CASE WHEN EXISTS (SELECT 1 FROM {t} WHERE k > 3) THEN 'big' ELSE 'small' END, id",
]


@pytest.mark.parametrize("name", list(TABLES))
def test_in_projections(spark: SparkSession, name: str) -> None:
    for columns in PROJECTIONS:
        text = f"SELECT {columns.format(t=f'sub_{name}')} FROM {{source}} e"
        assert_same_query(spark, STREAM, of(spark, text))


_N = "CAST(count(*) AS INT)"
OF_NO_MATCH = [
    "collect_list(t)",
    "array_sort(collect_set(v))",
    "array('a', CAST(count(*) AS STRING), NULL, 'ü😀')",
    "collect_list(CAST(t AS BINARY))",
    "array(CAST(CAST(count(*) AS STRING) AS BINARY), NULL, X'ff00', X'')",
    "map('n', count(*), 'ü😀', NULL)",
    "map(count(*), collect_list(t))",
    "struct(count(*) AS n, max(t) AS m, collect_list(v) AS vs)",
    "collect_list(struct(k, t))",
    "array(array(struct(count(*) AS n, map('k', collect_list(t)) AS m)), NULL, array())",
    "transform(collect_list(t), each -> upper(each))",
    f"sequence(1, 3 - {_N})",
    "array(count(*) > 0, NULL)",
    f"array(CAST({_N} AS TINYINT), -128Y)",
    f"array(CAST({_N} AS SMALLINT), -32768S)",
    "array(count(*), -9223372036854775808L, NULL)",
    "array(CAST(count(*) AS FLOAT), CAST('NaN' AS FLOAT), CAST(0.1 AS FLOAT))",
    "array(count(*) / 1.0D, CAST('-Infinity' AS DOUBLE), -0.0D)",
    "array(CAST(count(*) AS DECIMAL(38, 10)), -1.5, NULL)",
    f"array(date_add(DATE'1582-10-01', {_N}), NULL)",
    "array(timestamp_seconds(count(*)), TIMESTAMP'0001-01-01 00:00:00.000001', NULL)",
    "array(TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', CAST(timestamp_seconds(count(*))"
    " AS TIMESTAMP_NTZ))",
    f"struct(make_dt_interval({_N}, -1, 0, 0.000001) AS i)",
]


def _subquery(value: str) -> str:
    return f"(SELECT {value} FROM sub_dims d WHERE d.k = e.k)"


def test_what_a_subquery_is_without_a_match(spark: SparkSession) -> None:
    for first in range(0, len(OF_NO_MATCH), 8):
        some = (
            f"{_subquery(value)} AS l{number}"
            for number, value in enumerate(OF_NO_MATCH[first : first + 8])
        )
        text = f"SELECT id, {', '.join(some)} FROM {{source}} e"
        assert_same_query(spark, STREAM, of(spark, text), rows=8)


OVER_NO_MATCH = {
    "size({})": "collect_list(t)",
    "array_contains({}, 'b')": "collect_list(t)",
    "concat({}, array(s))": "collect_list(t)",
    "element_at({}, 'n')": "map('n', count(*))",
    "{}.n + id": "struct(count(*) AS n)",
    "hex({})": "concat(CAST(X'ff' AS STRING), CAST(count(*) AS STRING))",
    "hex({}[1])": "array(CAST(count(*) AS STRING), CAST(X'61ff' AS STRING))",
    "hex({}['k'][0].t)": "map('k', array(struct(count(*) AS n, CAST(X'c3' AS STRING) AS t)))",
    "to_json({})": "parse_json(concat('[', CAST(count(*) AS STRING), ']'))",
    "to_json({}[0])": "array(parse_json(concat('{{\"n\":', CAST(count(*) AS STRING), '}}')))",
}


def test_expressions_over_what_a_subquery_is_without_a_match(spark: SparkSession) -> None:
    texts = [
        f"{outer.format(_subquery(value))} AS l{number}"
        for number, (outer, value) in enumerate(OVER_NO_MATCH.items())
    ]
    for some in (texts[:5], texts[5:]):
        text = f"SELECT id, {', '.join(some)} FROM {{source}} e"
        assert_same_query(spark, STREAM, of(spark, text), rows=8)


def test_rows_without_a_match_are_found(spark: SparkSession) -> None:
    text = """SELECT id FROM {source} e
              WHERE size((SELECT collect_list(t) FROM sub_dims d WHERE d.k = e.k)) = 0"""
    rows = assert_same_query(spark, STREAM, of(spark, text))
    assert sorted(row["id"] for row in rows) == [2, 3, 5, 6]


def test_what_a_subquery_is_without_a_match_is_told_alike_at_every_start(
    spark: SparkSession,
) -> None:
    values = ("collect_list(t)", "map('n', struct(count(*) AS n))", f"sequence(1, 3 - {_N})")
    text = f"SELECT id, {', '.join(map(_subquery, values))} FROM {{source}} e"
    first, second = (
        plan_query(of(spark, text)(stream_of(spark, STREAM.schema)))[0] for _ in range(2)
    )
    assert first.descriptions == second.descriptions


def test_floating_keys_and_sides_of_joins(spark: SparkSession) -> None:
    for text in (
        "SELECT * FROM {source} WHERE x IN (SELECT y FROM sub_dims)",
        "SELECT * FROM {source} WHERE x NOT IN (SELECT y FROM sub_dims WHERE y IS NOT NULL)",
        "SELECT * FROM {source} WHERE id = 0 OR x NOT IN (SELECT y FROM sub_dims)",
        """SELECT * FROM {source} e JOIN sub_dims d
           ON e.k = d.k AND e.id < (SELECT max(v) FROM sub_holes)""",
        """SELECT * FROM {source} e
           JOIN (SELECT * FROM sub_dims WHERE k IN (SELECT k FROM sub_holes)) d ON e.k = d.k""",
        "SELECT * FROM {source} e, LATERAL (SELECT v, t FROM sub_dims d WHERE d.k = e.k)",
        "SELECT * FROM {source} e LEFT JOIN LATERAL (SELECT v FROM sub_dims d WHERE d.k = e.k)",
        """SELECT e.id, n FROM {source} e,
           LATERAL (SELECT id AS n FROM range(5) WHERE id = e.id LIMIT 1)""",
        """WITH big AS (SELECT * FROM sub_dims WHERE v > 15) SELECT id FROM {source}
           WHERE k IN (SELECT k FROM big) AND id > (SELECT count(*) FROM big)""",
    ):
        assert_same_query(spark, STREAM, of(spark, text))


def test_data_frames_as_subqueries(spark: SparkSession) -> None:
    dims = spark.table("sub_dims")
    assert_same_query(spark, STREAM, lambda df: df.where(df.k.isin(dims.select("k"))))
    assert_same_query(
        spark, STREAM, lambda df: df.select("id", dims.selectExpr("max(v)").scalar().alias("m"))
    )


def test_more_than_one_row_is_an_error(spark: SparkSession) -> None:
    several = of(spark, "SELECT id, (SELECT v FROM sub_dims) AS v FROM {source}")
    with pytest.raises((PySparkException, Py4JJavaError), match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        several(table_of(spark, STREAM)).collect()
    with pytest.raises(ConfigError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        plan_query(several(stream_of(spark, STREAM.schema)))
    for_a_row = of(
        spark, "SELECT id, (SELECT v FROM sub_dims d WHERE d.k = e.k) AS v FROM {source} e"
    )
    with pytest.raises((PySparkException, Py4JJavaError), match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        for_a_row(table_of(spark, STREAM)).collect()
    with pytest.raises(TransformError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        ours(spark, STREAM, for_a_row)
    assert_same_query(spark, STREAM.slice(3, 1), for_a_row)


def test_a_table_is_read_when_the_query_is_planned(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "dims")
    spark.range(3).write.parquet(place)
    spark.read.parquet(place).createOrReplaceTempView("sub_files")
    for text in (
        "SELECT id FROM {source} WHERE id IN (SELECT id FROM sub_files)",
        "SELECT id FROM {source} WHERE id <= (SELECT max(id) FROM sub_files)",
        "SELECT id FROM {source} WHERE id IN "
        "(SELECT k FROM sub_dims WHERE k <= (SELECT max(id) FROM sub_files) UNION ALL SELECT 0)",
    ):
        spark.range(3).write.mode("overwrite").parquet(place)
        query = of(spark, text)
        frame = query(stream_of(spark, STREAM.schema))
        assert ours(spark, STREAM, lambda _, df=frame: df)["id"].to_pylist() == [0, 1, 2], text
        spark.range(5).write.mode("overwrite").parquet(place)
        found = ours(spark, STREAM, lambda _, df=frame: df)["id"].to_pylist()
        assert found == ([0, 1, 2, 4] if "UNION" in text else [0, 1, 2, 3, 4]), text


def test_the_value_has_a_limit(spark: SparkSession) -> None:
    text = "SELECT id, (SELECT repeat(max(t), 100) FROM sub_dims) FROM {source}"
    df = of(spark, text)(stream_of(spark, STREAM.schema))
    with pytest.raises(ConfigError, match="staticSideMaxBytes"):
        plan_query(df, static_side_bytes_max=10)


def test_not_in_looks_keys_up(spark: SparkSession) -> None:
    text = "SELECT id FROM {source} WHERE k NOT IN (SELECT k FROM sub_dims)"
    df = of(spark, text)(stream_of(spark, STREAM.schema))
    (step,) = (s for s in plan_query(df)[0].steps if isinstance(s, StaticJoin))
    assert (step.kind, len(step.keys), step.residual) == ("anti", 1, None)


def test_over_a_stream_spark_refuses_it(spark: SparkSession) -> None:
    stream = stream_of(spark, STREAM.schema)
    stream_of(spark, STREAM.schema).createOrReplaceTempView("sub_stream")
    for condition in (
        "k IN (SELECT k FROM sub_stream)",
        "EXISTS (SELECT 1 FROM sub_stream o WHERE o.k = e.k)",
        "id > (SELECT max(id) FROM sub_stream)",
    ):
        with pytest.raises(PySparkException, match="STREAMING_QUERY"):
            spark.sql(f"SELECT * FROM {{s}} e WHERE {condition}", s=stream)


def test_other_problems_are_told_beside_a_subquery(spark: SparkSession) -> None:
    text = "SELECT id FROM {s} WHERE k IN (SELECT k FROM sub_dims) ORDER BY id"
    with pytest.raises(UnsupportedQueryError) as caught:
        plan_query(spark.sql(text, s=stream_of(spark, STREAM.schema)))
    assert "cannot be sorted" in caught.value.problems[0]


def test_not_in_by_pairs(spark: SparkSession) -> None:
    text = "SELECT * FROM {source} WHERE x NOT IN (SELECT y FROM sub_dims WHERE y IS NOT NULL)"
    spark.conf.set("spark.sql.optimizeNullAwareAntiJoin", "false")
    try:
        assert_same_query(spark, STREAM, of(spark, text))
    finally:
        spark.conf.unset("spark.sql.optimizeNullAwareAntiJoin")


def test_a_join_of_spark_s_own_is_told_from_one_of_two_streams(spark: SparkSession) -> None:
    stream = stream_of(spark, STREAM.schema)
    other = stream_of(spark, STREAM.schema)
    text = "SELECT * FROM {s} e WHERE 3 > (SELECT count(*) FROM sub_dims d WHERE d.k < e.k)"
    with pytest.raises(UnsupportedQueryError, match=r"operation Subquery: .* equalities only"):
        plan_query(spark.sql(text, s=stream))
    text = "SELECT e.id FROM {s} e JOIN {o} o ON e.id = o.id WHERE e.k IN (SELECT k FROM sub_dims)"
    assert [each.exchange is None for each in plan_query(spark.sql(text, s=stream, o=other))] == [
        False,
        False,
        True,
    ]
