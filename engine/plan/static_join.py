"""Joins of the stream with a table: the table is read once, when the query starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.base.text_tables import count
from engine.errors import ConfigError
from engine.expressions.compile import compile_expression, to_array
from engine.expressions.registry import Context
from engine.expressions.times.current_time import NotConstantError, constant_only
from engine.expressions.tree import Expr
from engine.expressions.types import schema_from_spark
from engine.pipeline.optimizer import conjuncts, moved, ordinals
from engine.pipeline.pipeline import Filter, StaticJoin
from engine.plan.catalyst import scala_seq, simple_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EQUALITIES: Final = {"EqualTo": False, "EqualNullSafe": True}
_KINDS: Final = {
    ("INNER", True): "inner",
    ("INNER", False): "inner",
    ("CROSS", True): "inner",
    ("CROSS", False): "inner",
    ("LEFT OUTER", True): "outer",
    ("RIGHT OUTER", False): "outer",
    ("LEFT SEMI", True): "semi",
    ("LEFT ANTI", True): "anti",
    ("LEFT SINGLE", True): "single",
    ("EXISTENCE", True): "existence",
}


def join_name(join_type: Any) -> str:
    """Spark's name of a join type, e.g. ``LEFT OUTER``."""
    if simple_name(join_type) == "ExistenceJoin":  # which has no SQL
        return "EXISTENCE"
    return str(join_type.sql()).upper()


def join_kind(name: str, *, stream_is_left: bool) -> str | None:
    """What a join is, seen from the stream; None if it needs to know the end of the stream.

    :param name: see :func:`join_name`.
    """
    return _KINDS.get((name, stream_is_left))


def static_table(spark: SparkSession, plan: Any, bytes_max: int) -> pa.RecordBatch:
    """The rows of an analyzed plan.

    :raises ConfigError: they need more memory than ``bytes_max``.
    """
    from pyspark.sql import DataFrame

    jvm: Any = spark._jvm
    refresh(plan)
    # Of a plan behind the optimizer a second analysis would refuse what that has put in: the window
    # without an order that a LIMIT of a subquery becomes, for one.
    plan.setAnalyzed()
    dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return collected(DataFrame(dataset, spark), bytes_max)


def refresh(plan: Any) -> None:
    """Forget the lists of directories' files, which Spark keeps with a plan."""
    plan.refresh()
    for each in scala_seq(plan.subqueriesAll()):
        each.refresh()


def collected(frame: DataFrame, bytes_max: int) -> pa.RecordBatch:
    """The rows of a static DataFrame; see :func:`static_table`."""
    table = _arrow_table(frame)
    if table.nbytes > bytes_max:
        raise ConfigError(
            f"The static side of a join has {count(table.num_rows, 'row')} and "
            f"{table.nbytes} bytes; {bytes_max} bytes are allowed.",
            hint="Select fewer columns or rows of it, or raise the option staticSideMaxBytes: each "
            "task holds a copy.",
        )
    schema = schema_from_spark(frame.schema.jsonValue())
    loose = schema_from_spark(frame.schema.toNullable().jsonValue())
    arrays = [
        to_array(column.combine_chunks().cast(kept.type), table.num_rows, field.type)
        for column, kept, field in zip(table.columns, loose, schema, strict=True)
    ]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * table.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _arrow_table(frame: DataFrame) -> pa.Table:
    """PySpark refuses a NULL of a struct whose fields have none: then types say less."""
    try:
        return frame.toArrow()
    except pa.ArrowInvalid:
        return frame.to(frame.schema.toNullable()).toArrow()


def static_join(
    kind: str,
    condition: Expr | None,
    table: pa.RecordBatch,
    width: int,
    context: Context,
    problems: list[str],
    *,
    null_aware: bool = True,
    signed_zeros: bool = False,
) -> tuple[list[Filter], StaticJoin]:
    """The steps for a condition over the stream's ``width`` columns and the table's behind them.

    As in Spark, conditions on one side keep rows away from the keys: filters in front of the join
    do it for the stream, where a row without a match is dropped; the table is filtered here.

    :param null_aware: whether Spark looks up ``NOT IN`` in a hash table
        (``spark.sql.optimizeNullAwareAntiJoin``).
    :param signed_zeros: whether it tells 0.0 from -0.0 there, as releases before 4.2.1 do.
    """
    guards: list[Filter] = []
    parts: list[Expr] = []
    for part in [] if condition is None or problems else conjuncts(condition):
        places = ordinals(part)
        if kind in ("inner", "semi") and all(place < width for place in places):
            guards.append(Filter(part))
            continue
        of_table = places and min(places) >= width
        mask = _of_table(part, table, width, context) if of_table else None
        if mask is None:
            parts.append(part)
        else:
            table = table.filter(pc.fill_null(mask, False))
    by_bits = False
    if kind == "anti" and len(parts) == 1 and null_aware:
        found = _not_in(parts[0], table, width, context)
        if found is not None:
            guard, equality = found
            guards.append(guard)
            parts, by_bits = [equality], signed_zeros
    keys: list[Expr] = []
    table_keys: list[pa.Array] = []
    null_safe: list[bool] = []
    others: list[Expr] = []
    for part in parts:
        sides = _sides(part, width)
        key = None if sides is None else _of_table(sides[1], table, width, context)
        if sides is None or key is None:
            others.append(part)
            continue
        keys.append(sides[0])
        table_keys.append(key)
        null_safe.append(_EQUALITIES[part.op])
    residual = None
    for part in others:
        residual = part if residual is None else Expr("And", (residual, part), pa.bool_())
    return guards, StaticJoin(
        kind, tuple(keys), tuple(table_keys), tuple(null_safe), residual, table, width, by_bits
    )


def _not_in(
    part: Expr, table: pa.RecordBatch, width: int, context: Context
) -> tuple[Filter, Expr] | None:
    """``x NOT IN (table)``, of which Spark makes ``a = b OR (a = b) IS NULL``, without a look at
    each pair: a filter in front of an anti join, and its condition. NULL is as good as a match.

    Source: Spark's ``ExtractSingleColumnNullAwareAntiJoin``, ``BroadcastHashJoinExec``.
    """
    equality = part.children[0] if part.op == "Or" else part
    null = Expr("IsNull", (equality,), pa.bool_(), False)
    if equality.op != "EqualTo" or part.children[1:] != (null,):
        return None
    sides = _sides(equality, width)
    keys = None if sides is None else _of_table(sides[1], table, width, context)
    if sides is None or keys is None or not table.num_rows:
        return None
    if keys.null_count:
        return Filter(Expr("Literal", (), pa.bool_(), False, {"value": False})), equality
    return Filter(Expr("IsNotNull", sides[:1], pa.bool_(), False)), equality


def _of_table(expr: Expr, table: pa.RecordBatch, width: int, context: Context) -> pa.Array | None:
    """What an expression over the table's columns, behind ``width`` others, is for its rows; None
    if it depends on what time it is."""
    if not table.num_rows:  # an expression that raises has no row to raise for
        return pa.nulls(0, expr.dtype)
    own = moved(expr, {ordinal: ordinal - width for ordinal in ordinals(expr)})
    try:
        with constant_only():
            return to_array(compile_expression(own, context)(table), table.num_rows, own.dtype)
    except NotConstantError:
        return None


def _sides(part: Expr, width: int) -> tuple[Expr, Expr] | None:
    """An equality's side over the stream and its side over the table; None if it is none."""
    if part.op not in _EQUALITIES:
        return None
    left, right = part.children
    if ordinals(left) and min(ordinals(left)) >= width:
        left, right = right, left
    of_stream, of_table = ordinals(left), ordinals(right)
    if not of_stream or not of_table or max(of_stream) >= width or min(of_table) < width:
        return None
    hashable = left.dtype == right.dtype and not (
        pa.types.is_nested(left.dtype) or pa.types.is_null(left.dtype)
    )
    return (left, right) if hashable else None
