"""Functions that take a lambda are Spark's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from engine.errors import TransformError
from engine.expressions.compile import compile_expression
from engine.expressions.registry import Context
from engine.expressions.releases import has
from engine.plan.catalyst import scala_seq
from engine.plan.catalyst_expressions import ExpressionReader
from tests.spark.edges import collections
from tests.spark.expressions import assert_parity, read_expressions
from tests.spark.values import plain_values

pytestmark = pytest.mark.spark

_ARRAYS = [
    "transform(a, v -> v + 1)", "transform(a, (v, p) -> v * p + i)", "transform(a, v -> 1)",
    "transform(s, v -> concat(v, k))", "transform(n, v -> transform(v, w -> w + size(v) + i))",
    "transform(n, v -> size(v))", "transform(st, v -> v.x)", "size(transform(a, v -> null))",
    "transform(a, v -> array(v, i))", "transform(a, v -> 10 / v)",
    "transform(a, v -> exists(b, w -> w = v))", "transform(array(1, 2, 3), v -> v + i)",
    "transform(a, (v, p) -> if(p = 0, i, v))", "transform(a, v -> if(v > 1, 1 / (v - 2), v))",
    "filter(a, v -> v > 1)", "filter(a, v -> v > i)", "filter(a, (v, p) -> p % 2 = 0)",
    "filter(s, v -> v is null)", "filter(st, v -> v.x = 2)", "filter(a, v -> null)",
    "filter(a, v -> true)", "filter(a, v -> v in (1, i, 3))",
    "exists(a, v -> v = 3)", "exists(a, v -> v is null)", "exists(a, v -> 1 / (v - 1) > 0)",
    "exists(n, v -> exists(v, w -> w = 1))", "exists(a, v -> null)", "exists(a, v -> i > 0)",
    "forall(a, v -> v > 0)", "forall(a, v -> v is not null)", "forall(a, v -> 1 / (v - 3) > 0)",
    "forall(n, v -> forall(v, w -> w = 1))", "forall(a, v -> null)",
    "zip_with(a, b, (v, w) -> v + w)", "zip_with(a, s, (v, w) -> struct(v, w, i))",
    "zip_with(a, b, (v, w) -> coalesce(v, w))", "zip_with(a, array(10 div i), (v, w) -> v)",
    "transform(a, v -> transform(b, w -> transform(array(v, w), z -> z + v * w + i)))",
]  # fmt: skip
_AGGREGATES = [
    "aggregate(a, 0, (acc, v) -> acc + v)", "aggregate(a, 0, (acc, v) -> acc + coalesce(v, 0))",
    "aggregate(a, 0L, (acc, v) -> acc + v * i, acc -> acc * 10)",
    "aggregate(s, '', (acc, v) -> concat(acc, v), acc -> upper(acc))",
    "aggregate(d, 0.0D, (acc, v) -> acc + v)", "aggregate(a, 1, (acc, v) -> int(10 div v))",
    "aggregate(a, named_struct('s', 0L, 'n', 0L), (acc, v) ->"
    " named_struct('s', acc.s + coalesce(v, 0), 'n', acc.n + 1), acc -> acc.s / acc.n)",
    "aggregate(a, array(0), (acc, v) -> array_append(acc, coalesce(v, 7)))",
    "aggregate(a, array(cast(null as int)), (acc, v) -> array_append(acc, v))",
    "aggregate(a, int(1 div i), (acc, v) -> acc + v)",
    "reduce(a, i, (acc, v) -> greatest(acc, v))",
    "aggregate(n, 0, (acc, v) -> acc + aggregate(v, i, (p, q) -> p + q))",
    "aggregate(a, cast(0 as decimal(20,2)), (acc, v) -> cast(acc + v as decimal(20,2)))",
]  # fmt: skip
_OF_NULL_IN_STEPS = [
    "aggregate(a, array(0L), (acc, v) -> array_append(acc, v))",
    "aggregate(a, array(0L), (acc, v) -> array_append(acc, v), x -> transform(x, y -> y IS NULL))",
    "aggregate(a, array(array(0L)), (acc, v) -> concat(acc, array(array(v))))",
    "aggregate(a, map(1L, 0L), (acc, v) -> map(1L, v, 2L, acc[1L]))",
    "aggregate(a, named_struct('f', 0L, 'g', 0L), (acc, v) -> named_struct('f', v, 'g', acc.f))",
    "aggregate(a, named_struct('f', 0L, 'g', true), (acc, v) ->"
    " named_struct('f', v, 'g', acc.f IS NULL), acc -> (acc.g, acc.f IS NULL))",
    "aggregate(filter(a, v -> v > 1), array(0L), (acc, v) -> array_append(acc, v))",
]  # fmt: skip
_COMPARATORS = [
    "array_sort(a, (p, q) -> case when p < q then 1 when p > q then -1 else 0 end)",
    "array_sort(array(null, i), (p, q) -> q - p)", "array_sort(a, (p, q) -> q - p)",
    "array_sort(s, (p, q) -> length(p) - length(q))",
    "array_sort(filter(s, w -> w is not null), (p, q) -> length(q) - length(p))",
    "array_sort(st, (p, q) -> coalesce(p.x, 0) - coalesce(q.x, 0) + i - i)",
    "array_sort(a, (p, q) -> 1)", "array_sort(a, (p, q) -> int(10 div (p - q)))",
    "array_sort(d, (p, q) -> if(p < q, -1, 1))",
    "array_sort(sequence(1, 40), (p, q) -> (p * 7) % 11 - (q * 7) % 11 + i - i)",
]  # fmt: skip
_MAPS = [
    "map_filter(m, (p, v) -> v > 1)", "map_filter(m, (p, v) -> p = 'a' or v is null)",
    "map_zip_with(m, map('a', 10, coalesce(k, 'q'), 20), (p, v, w) -> coalesce(v, 0) + w)",
    "map_zip_with(m, map('a', i), (p, v, w) -> concat(p, ':', v, ':', w))",
    "map_zip_with(m, map(k, 20), (p, v, w) -> w)", "map_zip_with(md, md, (p, v, w) -> v + w)",
    "transform_keys(m, (p, v) -> concat(p, 'x'))", "transform_keys(m, (p, v) -> v)",
    "transform_keys(m, (p, v) -> 1)", "transform_values(m, (p, v) -> v + i)",
    "transform_values(m, (p, v) -> p)", "size(transform_values(m, (p, v) -> p))",
    "transform_keys(map('a', x), (p, v) -> v)", "map_filter(md, (p, v) -> p > 0)",
    "transform_values(m, (p, v) -> exists(a, w -> w = v))",
]  # fmt: skip


@pytest.mark.parametrize(
    "expressions",
    [_ARRAYS, _AGGREGATES, _COMPARATORS, _MAPS],
    ids=["arrays", "aggregates", "comparators", "maps"],
)
def test_higher_order_functions(spark: SparkSession, expressions: list[str]) -> None:
    assert_parity(spark, collections(), expressions)


def test_lambdas_and_fields_made_in_python(spark: SparkSession) -> None:
    """The DataFrame API names its variables itself, and changes fields of structs."""
    frame = spark.createDataFrame(collections().select(["a", "n", "i", "st"]))
    selected = frame.select(
        F.transform("n", lambda v: F.transform(v, lambda w: w + F.size(v) + F.col("i"))),
        F.aggregate("a", F.lit(0), lambda acc, v: acc + F.coalesce(v, "i")),
        F.array_sort("a", lambda p, q: F.coalesce(q, F.lit(0)) - F.coalesce(p, F.lit(0))),
        F.get("st", 0).withField("x", F.col("i") + 1).withField("z", F.col("i")),
        F.get("st", 0).dropFields("x"),
        F.filter("a", lambda v, p: p < F.col("i")),
    )
    project = selected._jdf.queryExecution().analyzed()
    output = scala_seq(project.child().output())
    columns = {a.exprId().id(): (i, a.name()) for i, a in enumerate(output)}
    problems: list[str] = []
    reader = ExpressionReader(spark.sparkContext._gateway, columns, Context(), problems)
    trees = [reader.read(node) for node in scala_seq(project.projectList())]
    assert not problems
    batch = collections().select(["a", "n", "i", "st"]).combine_chunks().to_batches()[0]
    theirs = selected.toArrow()
    for index, tree in enumerate(trees):
        mine = compile_expression(tree)(batch)
        assert plain_values(mine) == plain_values(theirs.column(index))


def test_a_start_value_that_cannot_hold_null(spark: SparkSession) -> None:
    """Before 4.3 Spark reads a 0 where there is a NULL that the type of the start value does not
    know of."""
    table = pa.table({"a": [[1, None, 2], [], None, [3]]})
    frame = spark.createDataFrame(table)
    text = "aggregate(a, array(0L), (acc, v) -> array_append(acc, v))"
    if has(spark.version, "4.3.0"):
        assert frame.selectExpr(text).collect()[0][0] == [0, 1, None, 2]
        assert_parity(spark, table, _OF_NULL_IN_STEPS)
        return
    assert frame.selectExpr(text).collect()[0][0] == [0, 1, 0, 2]
    (tree,), problems = read_expressions(frame, [text])
    assert not problems
    with pytest.raises(TransformError, match="made a NULL inside of a ARRAY<BIGINT>"):
        compile_expression(tree)(table.to_batches()[0])


def test_a_contradictory_comparator_of_a_long_array(spark: SparkSession) -> None:
    table = pa.table({"a": [list(range(40))]})
    frame = spark.createDataFrame(table)
    (tree,), _ = read_expressions(frame, ["array_sort(a, (p, q) -> int(1 - (p * q) % 3))"])
    with pytest.raises(TransformError, match="contradicts itself for an array of 40 items"):
        compile_expression(tree)(table.to_batches()[0])
