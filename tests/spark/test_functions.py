"""Python functions of every kind: the same rows as in Spark, and errors that name the function."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf, pandas_udf, udf

from engine.errors import TransformError, UnsupportedQueryError
from engine.pipeline.pipeline import EvalPython
from engine.plan.planner import plan_query
from engine.task.transform import compile_steps
from tests.spark.expressions import configured
from tests.spark.queries import Query, assert_same_query, ours, stream_of, table_of

pytestmark = pytest.mark.spark

INSTANTS = [datetime(2024, 3, 10, 1, 59, tzinfo=timezone.utc), None] * 4
TABLE = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "x": pa.array([1.5, None, math.nan, -0.0, 2.0, 3.5, math.inf, 1e300], pa.float64()),
        "s": pa.array(["a", None, "", "ß", "😀", "long text", "0", "b"], pa.string()),
        "b": pa.array([b"a", None, b"", b"\0", b"x", b"y", b"z", b"w"], pa.binary()),
        "t": pa.array(INSTANTS, pa.timestamp("us", tz="UTC")),
        "d": pa.array([Decimal("1.50"), None] * 4, pa.decimal128(10, 2)),
        "p": pa.array([{"k": 1, "v": "one"}, {"k": None, "v": "none"}] * 4),
        "l": pa.array([[1, 2], [], None, [None, 3]] * 2, pa.list_(pa.int64())),
        "m": pa.array([[("a", 1)], None] * 4, pa.map_(pa.string(), pa.int64())),
    }
)


@pytest.fixture(params=[False, True], ids=["pickled", "arrow"])
def use_arrow(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_many_functions_in_one_projection(spark: SparkSession, use_arrow: bool) -> None:
    plus = udf(lambda a, b: None if a is None else a + b, "double", useArrow=use_arrow)
    shout = udf(lambda s: s and s.upper(), "string", useArrow=use_arrow)
    nothing = udf(lambda: 7, "int", useArrow=use_arrow)
    assert_same_query(
        spark,
        TABLE,
        lambda df: df.select(
            plus("x", "id"),
            shout("s").alias("S"),
            nothing(),
            "id",
            shout(F.concat("s", F.lit("!"))),
        ),
    )


def test_values_of_every_type_pass_through(spark: SparkSession, use_arrow: bool) -> None:
    def same_as(kind: str) -> Any:
        return udf(lambda value: value, kind, useArrow=use_arrow)

    kinds = {name: TABLE_TYPES[name] for name in TABLE.column_names}
    assert_same_query(
        spark, TABLE, lambda df: df.select(*[same_as(t)(n).alias(n) for n, t in kinds.items()])
    )


TABLE_TYPES = {
    "id": "bigint",
    "x": "double",
    "s": "string",
    "b": "binary",
    "t": "timestamp",
    "d": "decimal(10,2)",
    "p": "struct<k: bigint, v: string>",
    "l": "array<bigint>",
    "m": "map<string, bigint>",
}
RESULTS: dict[str, Any] = {
    "int": 3,
    "wide": 1 << 40,
    "too wide": 1 << 70,
    "text": "12",
    "float": 2.5,
    "nan": math.nan,
    "true": True,
    "none": None,
    "bytes": b"ab",
    "decimal": Decimal("12.345"),
    "list": [1, None, 2],
    "tuple": (1, "x"),
    "dict": {"k": 5, "v": "five"},
    "instant": datetime(2024, 2, 29, 12, 30),
}


REFUSED_MAX = 2  # a failing query takes Spark a second
KINDS = [*TABLE_TYPES.values(), "boolean", "tinyint", "float", "date"]


@pytest.mark.parametrize("result", RESULTS)
def test_declared_types_are_enforced_as_in_spark(
    spark: SparkSession, use_arrow: bool, result: str
) -> None:
    """What we return Spark must return, in one query; what raises here must raise there."""
    value = RESULTS[result]
    table = TABLE.select(["id"]).slice(0, 1)
    good: list[Any] = []
    refused: list[Any] = []
    for kind in KINDS:
        function = udf(lambda _: value, kind, useArrow=use_arrow)
        column = function("id").alias(kind)
        try:
            ours(spark, table, lambda df, column=column: df.select(column))
        except TransformError as error:
            if "a STRING was declared" in str(error):
                continue  # Java's description of an object is not worth having
            refused.append(column)
        else:
            good.append(column)
    assert_same_query(spark, table, lambda df: df.select(*good))
    for column in refused[:REFUSED_MAX]:
        with pytest.raises(PySparkException):
            table_of(spark, table).select(column).collect()


def test_chains_hand_on_the_raw_result(spark: SparkSession, use_arrow: bool) -> None:
    text = udf(lambda value: str(value), "int", useArrow=use_arrow)
    kind = udf(lambda value: type(value).__name__, "string", useArrow=use_arrow)
    rows = assert_same_query(spark, TABLE, lambda df: df.select(kind(text("id")).alias("kind")))
    assert rows[0] == {"kind": "str"}


def test_functions_of_other_kinds_see_the_declared_type(spark: SparkSession) -> None:
    text = udf(lambda value: str(value), "string", useArrow=False)
    length = pandas_udf(lambda s: s.str.len().astype("int64"), "bigint")
    double = arrow_udf(lambda a: pc.multiply(a, 2), "bigint")
    assert_same_query(
        spark, TABLE, lambda df: df.select(double(length(text("id"))), text(double("id")), "s")
    )


def test_functions_in_a_filter(spark: SparkSession, use_arrow: bool) -> None:
    odd = udf(lambda value: value % 2 == 1, "boolean", useArrow=use_arrow)
    query: Query = lambda df: df.where(odd("id") & F.col("s").isNotNull())  # noqa: E731
    assert [row["id"] for row in assert_same_query(spark, TABLE, query)] == [3, 5, 7]


def test_a_filter_beside_a_function_goes_first(spark: SparkSession, use_arrow: bool) -> None:
    inverse = udf(lambda value: 1 / value, "double", useArrow=use_arrow)
    assert_same_query(spark, TABLE, lambda df: df.where((inverse("id") < 0.5) & (F.col("id") > 0)))
    assert_same_query(spark, TABLE, lambda df: df.withColumn("i", inverse("id")).where("id > 0"))


def test_a_branch_that_is_not_taken_is_evaluated(spark: SparkSession, use_arrow: bool) -> None:
    inverse = udf(lambda value: 1 / value, "double", useArrow=use_arrow)
    query: Query = lambda df: df.select(F.when(F.col("id") > 0, inverse("id")))  # noqa: E731
    with pytest.raises(PySparkException, match="ZeroDivisionError"):
        query(table_of(spark, TABLE)).toArrow()
    with pytest.raises(TransformError, match="ZeroDivisionError"):
        ours(spark, TABLE, query)


def test_structs_and_named_arguments(spark: SparkSession, use_arrow: bool) -> None:
    point = udf(
        lambda p, scale: {"k": (p.k or 0) * scale, "v": p["v"]},
        "struct<k: bigint, v: string>",
        useArrow=use_arrow,
    )
    query: Query = lambda df: df.select(point(scale=F.lit(3), p="p").alias("q")).select("q.*")  # noqa: E731
    assert assert_same_query(spark, TABLE, query)[0] == {"k": 3, "v": "one"}


def test_pandas_and_arrow_functions(spark: SparkSession) -> None:
    @pandas_udf("double")
    def plus(a: pd.Series, b: pd.Series) -> pd.Series:
        return a + b

    @pandas_udf("struct<n: bigint, z: string>")
    def fields(p: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"n": p["k"].fillna(0).astype("int64"), "z": p["v"] + "!"})

    @pandas_udf("timestamp")
    def later(t: pd.Series) -> pd.Series:
        return t + pd.Timedelta(hours=1)

    @arrow_udf("string")
    def upper(s: pa.Array) -> pa.Array:
        return pc.utf8_upper(s)

    for zone in ("UTC", "America/Los_Angeles"):
        with configured(spark, {"spark.sql.session.timeZone": zone}):
            assert_same_query(
                spark,
                TABLE,
                lambda df: df.select(
                    plus("x", "id"),
                    fields("p").alias("f"),
                    later("t"),
                    upper("s"),
                    upper(upper("s")),
                ),
            )


def test_iterator_functions(spark: SparkSession) -> None:
    @pandas_udf("bigint")
    def doubled(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for batch in batches:
            yield batch * 2

    @pandas_udf("bigint")
    def added(batches: Iterator[tuple[pd.Series, pd.Series]]) -> Iterator[pd.Series]:
        for left, right in batches:
            yield left + right

    @arrow_udf("bigint")
    def at_the_end(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield pa.concat_arrays([pc.add(batch, 1) for batch in batches])

    assert_same_query(
        spark,
        TABLE,
        lambda df: df.select(doubled("id"), added("id", "id"), at_the_end("id"), "s").where(
            "s > ''"
        ),
    )
    assert_same_query(spark, TABLE, lambda df: df.where(doubled(doubled("id")) > 8))


def test_map_in_arrow_and_in_pandas(spark: SparkSession) -> None:
    def twice(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            yield batch.slice(0, 0)
            yield batch

    def frames(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in batches:
            yield frame[frame.id % 2 == 0].assign(n=frame.s.str.len())[["n", "id"]]

    plain = TABLE.select(["id", "s", "t", "p", "l"])
    for zone in ("UTC", "Asia/Kolkata"):
        with configured(spark, {"spark.sql.session.timeZone": zone}):
            assert_same_query(spark, plain, lambda df: df.mapInArrow(twice, df.schema))
            assert_same_query(
                spark,
                plain,
                lambda df: (
                    df.mapInPandas(frames, "id bigint, n double")
                    .where("id > 2")
                    .selectExpr("n + id")
                ),
            )


def test_a_map_that_returns_other_types(spark: SparkSession) -> None:
    def texts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"id": batch["id"].cast(pa.string())})

    query: Query = lambda df: df.mapInArrow(texts, "id bigint")  # noqa: E731
    with pytest.raises(PySparkException):
        query(table_of(spark, TABLE)).toArrow()
    with pytest.raises(TransformError, match=r"ARROW_TYPE_MISMATCH.*texts"):
        ours(spark, TABLE, query)


def test_each_batch_is_seen_as_it_arrives(spark: SparkSession) -> None:
    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    double = pandas_udf(lambda s: s * 2, "bigint")
    stream = stream_of(spark, TABLE.schema)
    (pipeline,) = plan_query(
        stream.mapInArrow(passed, stream.schema).select(double("id").alias("v"))
    )
    log: list[str] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in TABLE.to_batches(max_chunksize=4):
            log.append("in")
            yield batch

    for _ in compile_steps(pipeline).stream(batches()):
        log.append("out")
    assert log == ["in", "out", "in", "out"]


def test_an_error_names_the_function_and_its_line(spark: SparkSession, use_arrow: bool) -> None:
    def parse(value: int) -> int:
        raise ValueError(f"cannot parse {value}")

    function = udf(parse, "int", useArrow=use_arrow)
    with pytest.raises(TransformError) as caught:
        ours(spark, TABLE, lambda df: df.select(function("id")))
    message = str(caught.value)
    assert message.startswith("The Python function parse failed in parse (test_functions.py, line ")
    assert message.endswith("ValueError: cannot parse 0")


def test_equal_calls_of_deterministic_functions_are_made_once(spark: SparkSession) -> None:
    def calls(df: DataFrame) -> int:
        (step,) = [each for each in plan_query(df)[0].steps if isinstance(each, EvalPython)]
        return len(step.functions)

    stream = stream_of(spark, TABLE.schema)
    function = udf(lambda value: value, "bigint")
    assert calls(stream.select(function("id"), function("id") + 1)) == 1
    free = function.asNondeterministic()
    assert calls(stream.select(free("id"), free("id") + 1)) == 2


def test_broadcast_variables_and_large_functions(spark: SparkSession, use_arrow: bool) -> None:
    names = spark.sparkContext.broadcast({0: "zero", 3: "three"})
    small = udf(lambda value: names.value.get(value), "string", useArrow=use_arrow)
    ballast = bytes(range(256)) * 8192  # two megabytes: Spark ships the function as a broadcast
    large = udf(lambda value: len(ballast) + value, "bigint", useArrow=use_arrow)
    assert_same_query(spark, TABLE, lambda df: df.select(small("id"), large("id")))


def test_large_batches_are_sliced_as_spark_does(spark: SparkSession) -> None:
    size = pandas_udf(lambda s: pd.Series([len(s)] * len(s)), "bigint")
    table = pa.table({"id": pa.array(range(10), pa.int64())})
    with configured(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "4"}):
        result = ours(spark, table, lambda df: df.select(size("id").alias("n")), rows=10)
    assert result["n"].to_pylist() == [4] * 8 + [2] * 2


def test_the_wrong_number_of_results(spark: SparkSession) -> None:
    short = pandas_udf(lambda s: s.iloc[1:], "bigint")

    @arrow_udf("bigint")
    def lost(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in batches:
            yield batch.slice(1)

    for function in (short, lost):
        with pytest.raises(TransformError, match="MISMATCH"):
            ours(spark, TABLE, lambda df, f=function: df.select(f("id")))


def test_aggregates_of_pandas_are_refused(spark: SparkSession) -> None:
    @pandas_udf("double")
    def mean(x: pd.Series) -> float:
        return float(x.mean())

    with pytest.raises(UnsupportedQueryError, match="the aggregate mean"):
        plan_query(stream_of(spark, TABLE.schema).groupBy("id").agg(mean("x")))


def test_a_call_in_what_has_two_forms_is_made_once(spark: SparkSession) -> None:
    draw = udf(lambda n: n, "bigint").asNondeterministic()
    df = stream_of(spark, pa.schema([("n", pa.int64())])).select(
        F.nvl(draw("n"), F.lit(0)), F.ifnull(F.col("n"), draw("n")), draw("n")
    )
    steps = [step for step in plan_query(df)[0].steps if isinstance(step, EvalPython)]
    assert sum(len(step.functions) for step in steps) == 3
