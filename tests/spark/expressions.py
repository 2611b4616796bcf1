"""Parity: the same SQL expressions in real Spark and in our kernels, row for row.

``assert_parity(spark, table, ["a + 1", "upper(s)"])`` evaluates every expression over every row of
the Arrow table on both sides, with ANSI mode on and off, and compares result type, values (NaN
equals NaN, 0.0 differs from -0.0) and, for rows that raise, Spark's error class. All differences
are listed in one AssertionError.

One Spark query evaluates all expressions at once; a row for which our side raises is taken out of
it (by CASE, which Spark evaluates lazily) and evaluated alone: by Spark's interpreter, and if that
has another error, by what Spark compiles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from engine.expressions.registry import Context
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr
from engine.expressions.types import schema_to_spark
from engine.plan.catalyst import scala_seq
from engine.plan.catalyst_expressions import ExpressionReader
from engine.plan.spark_rules import optimized
from tests.spark.analyzed import Analyzed
from tests.spark.few_rows import compare_in_python
from tests.spark.interpreted import CONF, ErrorsOfSpark
from tests.spark.our_side import OurResult, evaluate, plain_errors
from tests.spark.values import error_class, normalized, plain_values, same

_ROW = "__row"
_CAUSE_MAX = 600
"""So much of a cause is told."""
_Errors = Callable[[list[int]], Iterator[tuple[int, str | None]]]


def assert_parity(
    spark: SparkSession,
    table: pa.Table,
    expressions: Sequence[str],
    *,
    ansi: Sequence[bool] = (True, False),
    timezone: str = "UTC",
) -> None:
    """Compare Spark and our kernels on every row of ``table`` for every SQL expression.

    :param table: the input; its column names may be used in the expressions.
    :param ansi: the values of ``spark.sql.ansi.enabled`` to compare under.
    :param timezone: the session's time zone.
    """
    differences: list[str] = []
    for mode in ansi:
        conf = {
            "spark.sql.ansi.enabled": str(mode).lower(),
            "spark.sql.session.timeZone": timezone,
            **CONF,
        }
        with configured(spark, conf):
            found = compare(spark, table, expressions, timezone)
        differences += [f"ansi={mode}: {difference.text}" for difference in found]
    if differences:
        shown = "\n".join(differences[:40])
        raise AssertionError(f"{len(differences)} differences from Spark:\n{shown}")


@dataclass(frozen=True)
class Difference:
    """Where Spark and we disagree.

    :param row: its number in the input; None if it is not about a row.
    :param unsupported: our side refuses the expression.
    """

    expression: str
    text: str
    row: int | None = None
    unsupported: bool = False


def compare(
    spark: SparkSession,
    table: pa.Table,
    expressions: Sequence[str],
    timezone: str = "UTC",
    ulps: Sequence[int] | None = None,
    *,
    exact_math: bool = True,
) -> list[Difference]:
    """The differences under the session's present configuration.

    :param ulps: for each expression, by how many units in the last place a result may differ.
    :param exact_math: the option of that name.
    """
    analyzed = Analyzed.of(frame_of(spark, table), expressions)
    read = list(read_analyzed(analyzed, range(len(expressions)), timezone))
    problems = [problem for _, found in read for problem in found]
    if problems:
        return [Difference("", f"unsupported: {text}", None, True) for text in problems]
    asked = [
        Asked(number, text, tree, tolerance)
        for number, (text, (tree, _), tolerance) in enumerate(
            zip(expressions, read, ulps or [0] * len(expressions), strict=True)
        )
    ]
    return compare_trees(analyzed, table, asked, timezone, exact_math=exact_math)


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A local DataFrame of these rows, which are numbered in a last column."""
    numbered = table.append_column(_ROW, pa.array(range(table.num_rows), pa.int32()))
    return spark.createDataFrame(numbered, StructType.fromJson(schema_to_spark(numbered.schema)))


@dataclass(frozen=True)
class Asked:
    """An expression that has been read.

    :param number: of it in Spark, see :class:`Analyzed`.
    :param ulps: by how many units in the last place a result may differ.
    """

    number: int
    text: str
    tree: Expr
    ulps: int = 0


def compare_trees(
    analyzed: Analyzed,
    table: pa.Table,
    asked: Sequence[Asked],
    timezone: str = "UTC",
    *,
    sliced: bool = False,
    exact_math: bool = True,
    compiled: bool = False,
) -> list[Difference]:
    """The differences of expressions that have been read.

    :param analyzed: over what :func:`frame_of` made of the table.
    :param sliced: our side gets the rows as the end of a longer batch.
    :param compiled: errors are those of what Spark compiles. Else of what it interprets, which is
        quicker; where one differs from ours, what Spark compiles decides.
    """
    table = table.combine_chunks()
    longer = pa.concat_tables([table, table]).combine_chunks() if sliced else table
    (batch,) = longer.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    batch = batch.slice(longer.num_rows - table.num_rows)
    context = Context(timezone, exact_math=exact_math)
    rows = Rows(batch.num_rows, batch.column)  # as in a task
    with plain_errors():
        ours = [evaluate(each.tree, rows, context, each.ulps) for each in asked]
    for result in ours:
        compare_in_python(result, rows, context)
    theirs = _values_or_failures(analyzed, asked, ours)
    errors = ErrorsOfSpark(
        analyzed, [e.number for e, r in zip(asked, ours, strict=True) if r.errors]
    )
    differences: list[Difference] = []
    for each, result, values in zip(asked, ours, theirs, strict=True):
        spark_errors = partial(_spark_errors, errors, each.number, compiled)
        in_queries = partial(_errors_in_queries, errors, each.number, result)
        in_queries = spark_errors if compiled else in_queries
        differences += _compare_errors(in_queries, each.text, result, table)
        if isinstance(values, str):
            raising = list(_rows_that_raise_in_spark_only(spark_errors, each.text, result, table))
            why = f"{each.text}: no row explains why Spark fails: {values}"
            differences += raising or [Difference(each.text, why)]
        else:
            differences += _compare_values(each.text, result, values, table, each.ulps)
    return differences


def _values_or_failures(
    analyzed: Analyzed, asked: Sequence[Asked], ours: list[OurResult]
) -> list[pa.ChunkedArray | str]:
    """For each expression its values in Spark; why Spark fails if some row raises there only."""
    try:
        values = _spark_values(analyzed, asked, ours)
    except (PySparkException, Py4JJavaError) as error:
        if len(asked) == 1:
            return [_why(error)]
        half = len(asked) // 2
        parts = (slice(0, half), slice(half, None))
        return [
            each
            for part in parts
            for each in _values_or_failures(analyzed, asked[part], ours[part])
        ]
    return list(values.columns[: len(asked)])


def _why(error: Exception) -> str:
    """Its first line, and those of its causes."""
    first, *others = str(error).splitlines()
    causes = [each for each in others if each.startswith((": ", "Caused by: "))]
    return " ".join(each[:_CAUSE_MAX] for each in (first, *causes))


def read_expressions(
    frame: DataFrame, expressions: Sequence[str], timezone: str = "UTC"
) -> tuple[list[Expr], list[str]]:
    """The trees of SQL expressions over the columns of ``frame``, and what cannot be evaluated."""
    read = list(read_each(frame, expressions, timezone))
    return [tree for tree, _ in read], [problem for _, problems in read for problem in problems]


def read_each(
    frame: DataFrame,
    expressions: Sequence[str],
    timezone: str = "UTC",
) -> Iterator[tuple[Expr, list[str]]]:
    """For each SQL expression its tree, and why it cannot be evaluated."""
    analyzed = Analyzed.of(frame, expressions)
    return read_analyzed(analyzed, range(len(expressions)), timezone)


def read_analyzed(
    analyzed: Analyzed,
    numbers: Collection[int],
    timezone: str = "UTC",
    nodes: Callable[[Any], Iterator[Any]] = scala_seq,
) -> Iterator[tuple[Expr, list[str]]]:
    """For each of these expressions its tree, and why it cannot be evaluated.

    :param nodes: makes what is read of the objects of a Scala sequence.
    """
    project = optimized(analyzed.spark, analyzed.plan(numbers))
    output = nodes(project.child().output())
    columns = {a.exprId().id(): (i, a.name()) for i, a in enumerate(output)}
    gateway = analyzed.spark.sparkContext._gateway
    problems: list[str] = []
    reader = ExpressionReader(gateway, columns, Context(timezone), problems)
    for node, _ in zip(nodes(project.projectList()), numbers, strict=False):
        known = len(problems)
        yield reader.read(node), problems[known:]


@contextmanager
def configured(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    """The session with other settings, for a while."""
    before = {key: spark.conf.get(key, None) for key in conf}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            spark.conf.set(key, old) if old is not None else spark.conf.unset(key)


def _spark_values(analyzed: Analyzed, asked: Sequence[Asked], ours: list[OurResult]) -> pa.Table:
    without = {each.number: result.errors for each, result in zip(asked, ours, strict=True)}
    selected: Any = analyzed.rows([each.number for each in asked], without)
    # Not toArrow: it refuses a NULL where Spark itself is wrong about what can be NULL.
    batches = selected._collect_as_arrow(empty_list_if_zero_records=False)
    return pa.Table.from_batches(batches).sort_by(_ROW)


def _compare_values(
    text: str, result: OurResult, column: pa.ChunkedArray, table: pa.Table, ulps: int
) -> Iterator[Difference]:
    theirs_type = normalized(column.type)
    if theirs_type != normalized(result.expr.dtype):
        here = result.expr.dtype
        yield Difference(text, f"{text}: type is {theirs_type} in Spark, {here} here")
        return
    for row, (theirs, mine) in enumerate(zip(plain_values(column), result.values, strict=True)):
        if row not in result.errors and not same(theirs, mine, ulps):
            what = f"is {theirs!r} in Spark, {mine!r} here"
            yield Difference(text, f"{text}: {_input(text, table, row)} {what}", row)


def _compare_errors(
    spark_errors: _Errors, text: str, result: OurResult, table: pa.Table
) -> Iterator[Difference]:
    for row, theirs in spark_errors(list(result.errors)):
        mine = result.errors[row]
        if theirs != mine:
            what = f"raises {theirs} in Spark, {mine} here"
            yield Difference(text, f"{text}: {_input(text, table, row)} {what}", row)


def _rows_that_raise_in_spark_only(
    spark_errors: _Errors, text: str, result: OurResult, table: pa.Table
) -> Iterator[Difference]:
    rows = [row for row in range(table.num_rows) if row not in result.errors]
    for row, theirs in spark_errors(rows):
        if theirs is not None:
            mine = result.values[row]
            what = f"raises {theirs} in Spark, is {mine!r} here"
            yield Difference(text, f"{text}: {_input(text, table, row)} {what}", row)


def _errors_in_queries(
    errors: ErrorsOfSpark, number: int, result: OurResult, rows: list[int]
) -> Iterator[tuple[int, str | None]]:
    """The error class in Spark: of what it interprets, and where that is not ours, of what it
    compiles, as it does in queries."""
    found = dict(_spark_errors(errors, number, False, rows))
    others = [row for row in rows if found[row] != result.errors.get(row)]
    return iter((found | dict(_spark_errors(errors, number, True, others))).items())


def _spark_errors(
    errors: ErrorsOfSpark, number: int, compiled: bool, rows: list[int]
) -> Iterator[tuple[int, str | None]]:
    """For each of the rows the error class in Spark, or None."""
    for row, condition in zip(rows, errors.of(number, rows, compiled=compiled), strict=True):
        yield row, condition and error_class(f"[{condition}]")


def _input(text: str, table: pa.Table, row: int) -> str:
    part = table.slice(row, 1)
    used = set(re.findall(r"\w+", text)) & set(part.column_names)
    values = {name: plain_values(part[name])[0] for name in part.column_names if name in used}
    return str(values)[:300]
