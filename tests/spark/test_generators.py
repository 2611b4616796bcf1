"""More rows than came in: generators, LATERAL VIEW, unpivot, as in Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import udf

from engine.errors import UnsupportedQueryError
from engine.pipeline.pipeline import Generate
from engine.plan.planner import plan_query
from tests.spark.queries import assert_same_query, stream_of

pytestmark = pytest.mark.spark

TABLE = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "l": pa.array([[1, 2], [], None, [None, 3], [4], []], pa.list_(pa.int64())),
        "m": pa.array([[("a", 1), ("b", None)], None, [], [("c", 3)]] + [None] * 2,
                      pa.map_(pa.string(), pa.int64())),
        "q": pa.array(
            [[{"x": 1, "y": "a"}, None], None, [], [{"x": None, "y": "b"}], None, []],
            pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ),
        "n": pa.array([[["u"], None], [[]], None, [["v", "w"], ["z"]], [], None],
                      pa.list_(pa.list_(pa.string()))),
    }
)  # fmt: skip


@pytest.mark.parametrize("rows", [1, 4, 6])
def test_all_generators(spark: SparkSession, rows: int) -> None:
    functions = ["explode", "explode_outer", "posexplode", "posexplode_outer"]
    for function in functions:
        for column in ("l", "m", "n", "q"):
            text = f"{function}({column})"
            assert_same_query(spark, TABLE, lambda df, t=text: df.selectExpr("id", t), rows=rows)
    for function in ("inline", "inline_outer"):
        text = f"{function}(q)"
        assert_same_query(spark, TABLE, lambda df, t=text: df.selectExpr(t, "id"), rows=rows)


def test_lateral_views(spark: SparkSession) -> None:
    text = """
        SELECT id, inner_one, word, k, v FROM {source}
        LATERAL VIEW OUTER explode(n) a AS inner_one
        LATERAL VIEW explode(inner_one) b AS word
        LATERAL VIEW OUTER explode(m) c AS k, v
        WHERE id < 5
    """
    assert_same_query(spark, TABLE, lambda df: spark.sql(text, source=df))


def test_generators_over_functions_and_constants(spark: SparkSession) -> None:
    letters = udf(lambda n: [chr(97 + i) for i in range(n)], "array<string>")
    assert_same_query(
        spark,
        TABLE,
        lambda df: df.select("id", F.explode(letters("id")).alias("c")).where("c > 'a'"),
    )
    assert_same_query(spark, TABLE, lambda df: df.selectExpr("explode(split('a b', ' '))", "id"))
    assert_same_query(
        spark, TABLE, lambda df: df.selectExpr("explode_outer(CAST(NULL AS ARRAY<INT>))", "id")
    )


def test_json_tuple(spark: SparkSession) -> None:
    texts = [
        '{"a":1,"b":"x\\"y","c":null}', '{"a":[1, 2.50 ,{"k":"😀"}],"b":{}}', "[]", "", None,
        '{"a":1', '{"a":1,"b":x}', '{"a":1} x', '{"a":1,"a":2,"a":null,"b":"","b":[]}', "null",
        "{'a':'q'}", '{"a":"\\ud83d","b":1}', '{"b":"\\ud83d","c":1}', '{"a":{"a":5}}', "1",
        '{"a":1e400,"b":NaN}', '{"A":1,"b":1.0}', '{"a":true,"b":"\t"}',
    ]  # fmt: skip
    fields = ["a", "b", None, "c", "x"] * 4
    table = pa.table({"id": range(len(texts)), "s": texts, "f": fields[: len(texts)]})
    for text in (
        "json_tuple(s, 'a', 'b')",
        "json_tuple(s, 'a') AS only",
        "json_tuple(s, 'b', CAST(NULL AS STRING), 'b', 'a', 'nothing')",
        "json_tuple(s, f, 'a', concat(f, '')) AS (x, y, z)",
    ):
        assert_same_query(spark, table, lambda df, t=text: df.selectExpr("id", t))
    view = """
        SELECT id, upper(b) AS b FROM {source}
        LATERAL VIEW OUTER json_tuple(s, 'a', 'b') t AS a, b WHERE a IS NOT NULL
    """
    assert_same_query(spark, table, lambda df: spark.sql(view, source=df))


def test_stack(spark: SparkSession) -> None:
    for text in (
        "stack(2, 'a', id, 'b', id + 1) AS (name, value)",
        "stack(3, id, 1, 2L, 3, 4L)",
        "stack(1, l, m)",
        "stack(3, 1, 2, 3, 4)",
        "stack(2, 'a')",
    ):
        assert_same_query(spark, TABLE, lambda df, t=text: df.selectExpr("id", t))


def test_unpivot(spark: SparkSession) -> None:
    assert_same_query(
        spark,
        TABLE,
        lambda df: df.selectExpr("id", "id + 1 AS b", "id * 2L AS c").unpivot(
            ["id"], ["b", "c"], "name", "value"
        ),
    )


def test_exchanges_and_hints_change_no_row(spark: SparkSession) -> None:
    assert_same_query(
        spark,
        TABLE,
        lambda df: df.repartition(3).coalesce(1).repartition("id").hint("rebalance").select("id"),
    )
    stream = stream_of(spark, TABLE.schema)
    text = "\n".join(plan_query(stream.repartition(3))[0].descriptions)
    assert "Repartition: not done, records stay in the partition that read them" in text


def test_what_has_no_counterpart_says_so(spark: SparkSession) -> None:
    stream = stream_of(spark, TABLE.schema)
    for df, reason in (
        (stream.sample(0.5), "xxhash64"),
        (stream.limit(3), "a limit counts"),
    ):
        with pytest.raises(UnsupportedQueryError, match=reason):
            plan_query(df)


def test_the_step_is_plain_data(spark: SparkSession) -> None:
    stream = stream_of(spark, TABLE.schema)
    step = plan_query(stream.selectExpr("posexplode_outer(l)"))[0].steps[0]
    assert isinstance(step, Generate)
    assert (step.generator, step.outer, step.schema.names) == ("PosExplode", True, ["pos", "col"])
