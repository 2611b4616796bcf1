"""What Spark's optimizer changes for all to see, an error mostly: it comes, or does not come, in
Spark and here alike."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.errors import TransformError
from engine.pipeline.pipeline import Filter, Project, StaticJoin
from engine.plan.planner import plan_query
from tests.spark.expressions import configured
from tests.spark.queries import Query, compare_tables, ours, stream_of, table_of
from tests.spark.values import error_class

pytestmark = pytest.mark.spark

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
# What divides by x raises at the first row: where other rows raise something else, Spark, which
# computes one row after the other, and the engine, which computes all of a batch, tell the same.
ROWS = pa.table(
    {
        "x": pa.array([0, 1, 3], pa.int32()),
        "l": pa.array([[], [1, 2], [7]], pa.list_(pa.int32())),
        "s": pa.array(["a", "1", "İ"], pa.string()),
    }
)
TABLE = pa.table({"k": pa.array([1, 3], pa.int32()), "v": pa.array(["a", "b"], pa.string())})
PREDICATES = [
    "SELECT * FROM (SELECT x, explode(l) e FROM t) WHERE 1 / x > 0",
    "SELECT * FROM (SELECT s, explode(l) e FROM t) WHERE raise_error(s) IS NULL",
    "SELECT x, e FROM t LATERAL VIEW explode(l) AS e WHERE e > 0 AND 1 / x > 0",
    "SELECT * FROM (SELECT * FROM (SELECT x, explode(l) e FROM t) WHERE e > 0) WHERE 1 / x > 0",
    "SELECT * FROM (SELECT x, x + 1 AS y, explode(l) e FROM t) WHERE 1 / (y - 1) > 0",
    "SELECT * FROM t JOIN d ON t.x = d.k WHERE 1 / x > 0",
    "SELECT * FROM t JOIN d ON t.x = d.k WHERE raise_error(s) IS NULL",
    "SELECT * FROM t LEFT SEMI JOIN d ON t.x = d.k WHERE CAST(s AS INT) > 0",
    "SELECT * FROM t LEFT JOIN d ON t.x = d.k AND 1 / x > 0",
]
"""Predicates that may raise, and where Spark computes them: it may move them before what drops or
multiplies rows."""
PLANS = [
    # A filter keeps rows away from what is computed in front of it.
    "SELECT * FROM (SELECT x + 1 AS z, 1 / x AS y FROM t) WHERE z > 1",
    "WITH c AS (SELECT x + 1 AS z, 1 / x AS y FROM t) SELECT * FROM c WHERE z > 1",
    "SELECT * FROM (SELECT x, 1 / x AS y FROM t) WHERE x > 0 AND y > 0",
    "SELECT * FROM (SELECT x, 1 / x AS y FROM t) WHERE y > 0 AND x > 0",
    "SELECT * FROM (SELECT x, y, explode(l) e FROM (SELECT x, 1 / x AS y, l FROM t))",
    "SELECT * FROM (SELECT y, explode(l) e FROM (SELECT 1 / x AS y, array_remove(l, 7) l FROM t))",
    "SELECT x, y, e FROM (SELECT x, 1 / x AS y, l FROM t) LATERAL VIEW OUTER explode(l) AS e",
    "SELECT * FROM (SELECT x, y, e FROM (SELECT x, 1 / x AS y, l FROM t)"
    " LATERAL VIEW posexplode(l) AS p, e) WHERE e > 0",
    "FROM t |> SELECT x + 1 AS z, 1 / x AS y |> WHERE z > 1 |> EXTEND z + 1 AS w |> DROP y",
    "FROM t |> JOIN d ON x = k |> WHERE 1 / x > 0 |> SET v = upper(v) |> AS q |> SELECT q.v, x",
    # A projection is computed where its result is used.
    "SELECT if(x > 0, y, 0) FROM (SELECT x, 1 / x AS y FROM t)",
    "SELECT if(x > 0, y, y * 2) FROM (SELECT x, 1 / x AS y FROM t)",
    "SELECT if(x > 0, y, 0), if(x > 0, y, 1) FROM (SELECT x, 1 / x AS y FROM t)",
    "SELECT x FROM (SELECT x, 1 / x AS y FROM t)",
    # Constants decide.
    "SELECT * FROM t WHERE 1 / x > 0 AND length('a') = 2",
    "SELECT if(length('a') = 1, x, y) FROM (SELECT x, 1 / x AS y FROM t)",
]
EXPRESSIONS = [
    "array(x, 1 / x)[2]",
    "array(x, 1 / x)[0]",
    "named_struct('f', x, 'g', 1 / x).f",
    "array(named_struct('f', x, 'g', 1 / x))[0].f",
    "map('a', x)['b']",
    "map('a', x, 'b', 1 / x)['a']",
    "map(x, 1, 3, 2)[x]",
    "if(1 / x > 0, 1, 1)",
    "CASE WHEN 1 / x > 0 THEN 1 ELSE 1 END",
    "1 / x + NULL",
    "coalesce(1, 1 / x)",
    "1 / x > 0 AND false",
    "1 / x > 0 OR true",
    "1 / x > 0 AND NULL",
    "upper(lower(s))",
    "lower(upper(s))",
    "CAST(CAST(16777216 + x AS FLOAT) AS DOUBLE)",
    "(x + -2147483648) + 2147483647",
    "from_json(to_json(named_struct('a', 1 / x)), 'a DOUBLE')",
    "nvl(array(x)[3], 5)",
    "1 / x IS NULL AND 1 / x IS NOT NULL",
    "x = x AND 1 / x <=> 1 / x",
    "unix_seconds(timestamp_seconds(x))",
    "array(x, 1 / x)[1 + 1]",
    "array(x, 1 / x)[length('')]",
    "1 / x > 0 AND 1 = 2",
    "1 / x > 0 AND x > CAST(NULL AS INT)",
    "1 / x + CAST(NULL AS DOUBLE)",
    "1 / x > bigint(NULL) * 3",
    "if(1 / x > 0 OR 'a' < 'b', 1, 2)",
    "if(x > 0, 1 div 0, 2)",
    # Others stand for these, which are NULL if a part is.
    "1 / x + length(aes_decrypt(binary(s), binary(s), NULL, 'PKCS'))",
    "1 / x + length(aes_decrypt(binary(s), binary(s), CAST(NULL AS STRING), s))",
    "1 / x + length(encode(s, NULL))",
    "1 / x + regexp_count(s, NULL)",
    "1 / x + length(left(s, CAST(NULL AS INT)))",
    "1 / x + length(split_part(s, NULL, x))",
    "1 / x + length(url_decode(encode(s, NULL)))",
    "1 / x + length(nvl(s, NULL))",
    "1 / x + nullif(x, NULL)",
    "1 / x + length(mask(s, NULL))",
    "1 / x + length(nullif(current_database(), current_schema()))",
    "1 / x + weekday(try_cast('T10:00' AS TIMESTAMP_NTZ))",
    "array(x, x)[day(array_max(array(TIMESTAMP'2024-10-05 13:43:21')))]",
    "array(x, x)[day(date_trunc('DAY', TIMESTAMP'2024-10-05 13:43:21'))]",
    "1 / x + weekday(try_cast('now' AS TIMESTAMP_NTZ)) * 0",
    # No value of the narrow type is such a number.
    "CAST(TINYINT(-125 - x) - 3Y AS DOUBLE) = -2e24D",
    "CAST(-TINYINT(-125 - x) AS INT) < 1000",
    "CAST(-TINYINT(-125 - x) AS INT) <=> 1000",
    "CAST(-TINYINT(-125 - x) AS INT) IN (1000, 2000)",
    "nullif(-2e24D, CAST(-TINYINT(-125 - x) AS DOUBLE))",
    "nullif(1000, -TINYINT(-125 - x))",
]


def _in_spark(spark: SparkSession, query: Query) -> pa.Table | str:
    try:
        frame: Any = query(table_of(spark, ROWS))
        # Not toArrow: it refuses a NULL where Spark itself is wrong about what can be NULL.
        return pa.Table.from_batches(frame._collect_as_arrow(empty_list_if_zero_records=False))
    except (PySparkException, Py4JJavaError) as error:
        return error_class(str(error))


def _here(spark: SparkSession, query: Query) -> pa.Table | str:
    try:
        return ours(spark, ROWS, query)
    except TransformError as error:
        return error_class(error.message)


def assert_alike(spark: SparkSession, text: str, *excluded: str) -> None:
    """Both give the same rows, or raise the same error.

    :param excluded: rules, beside the one that would compute local rows before all others.
    """

    def query(rows: DataFrame) -> DataFrame:
        rows.createOrReplaceTempView("t")
        return spark.sql(text)

    table_of(spark, TABLE).createOrReplaceTempView("d")
    rules = ",".join(f"{_OPTIMIZER}.{rule}" for rule in ("ConvertToLocalRelation", *excluded))
    conf = {
        "spark.sql.optimizer.excludedRules": rules,
        "spark.sql.leafNodeDefaultParallelism": "1",  # which row is the first is not left to chance
    }
    with configured(spark, conf):
        theirs, mine = _in_spark(spark, query), _here(spark, query)
    if isinstance(theirs, str) or isinstance(mine, str):
        assert (theirs if isinstance(theirs, str) else theirs.to_pylist()) == (
            mine if isinstance(mine, str) else mine.to_pylist()
        )
    else:
        assert compare_tables(theirs, mine) == []


@pytest.mark.parametrize("text", PREDICATES)
def test_a_predicate_that_may_raise_is_above_explode_and_joins_where_spark_has_it(
    spark: SparkSession, text: str
) -> None:
    assert_alike(spark, text)


@pytest.mark.parametrize("text", PLANS)
def test_plans(spark: SparkSession, text: str) -> None:
    assert_alike(spark, text)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions(spark: SparkSession, text: str) -> None:
    assert_alike(spark, f"SELECT {text} AS found FROM t")


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    "text",
    [
        "try_multiply(2147483647, x) * x",
        "x * try_multiply(x, 2147483647) * 2",
        "try_add(x, 2147483647) + x",
        "try_subtract(x, -2147483647) + x + 1",
        "if(x > 1, try_add(try_add(x, 2147483647), 1), x)",
        "try_add(DATE'2020-01-31', x) + x",
    ],
)
def test_sums_that_are_tried_are_parts_of_others(spark: SparkSession, text: str, ansi: str) -> None:
    with configured(spark, {"spark.sql.ansi.enabled": ansi}):
        assert_alike(spark, f"SELECT {text} AS found FROM t")


def test_a_rule_that_the_session_excludes_is_not_run(spark: SparkSession) -> None:
    assert_alike(spark, "SELECT if(1 / x > 0, 1, 1) AS found FROM t", "SimplifyConditionals")


def test_what_others_stand_for_is_no_null_by_itself_if_that_rule_is_excluded(
    spark: SparkSession,
) -> None:
    text = "SELECT 1 / x + length(encode(s, NULL)) AS found FROM t"
    assert_alike(spark, text, "NullPropagation", "NullDownPropagation")


def test_the_zone_of_the_session_is_a_constant(spark: SparkSession) -> None:
    nothing = "if(current_timezone() = 'nowhere', 1, NULL)"
    assert_alike(spark, f"SELECT 1 / x + {nothing} AS found FROM t")


def test_what_the_day_decides_is_no_constant(spark: SparkSession) -> None:
    stream_of(spark, ROWS.schema).createOrReplaceTempView("t")
    for text in ("CAST('10:00' AS TIMESTAMP)", "now()"):
        query = f"SELECT {text} > TIMESTAMP '2020-01-01' AS found FROM t"
        (pipeline,) = plan_query(spark.sql(query))
        (step,) = pipeline.steps
        assert isinstance(step, Project)
        assert {"Cast", "Now", "CurrentTimestamp"} & {each.op for each in step.columns[0].walk()}


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("cast", ["to_timestamp('now')", "CAST(left('now', 3) AS TIMESTAMP)"])
def test_a_moment_that_a_text_names_is_no_null(spark: SparkSession, cast: str, ansi: str) -> None:
    with configured(spark, {"spark.sql.ansi.enabled": ansi}):
        assert_alike(spark, f"SELECT {cast} > DATE'2020-01-01' OR CAST(NULL AS BOOLEAN) FROM t")


def test_the_present_time_does_not_move_to_the_table(spark: SparkSession) -> None:
    table_of(spark, TABLE).createOrReplaceTempView("d")
    stream_of(spark, ROWS.schema).createOrReplaceTempView("t")
    text = "SELECT * FROM t JOIN d ON t.x = d.k WHERE length(current_date()) = 1 + k AND x > 2"
    steps = plan_query(spark.sql(text))[0].steps
    (join,) = (step for step in steps if isinstance(step, StaticJoin))
    assert join.table.num_rows == TABLE.num_rows
    told = [step for step in steps if isinstance(step, Filter)]
    assert any(node.op == "CurrentDate" for step in told for node in step.condition.walk())
