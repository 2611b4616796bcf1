"""What flows between kernels: an Arrow Array, or a Scalar that stands for a column of equal values.

Helpers that every family of kernels needs: constants, rows that are asked for, Arrays from Scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.malformed import value_of, with_bytes
from engine.expressions.registry import KERNELS, Datum, Evaluator
from engine.expressions.row_context import Veiled
from engine.expressions.tree import NONDETERMINISTIC, Expr


def constant(expr: Expr) -> pa.Scalar | None:
    """The value of a literal, null included; None for everything else.

    Factories see folded trees: whatever Spark calls foldable has become a literal.

    :raises TypeError: its value is of another type.
    :raises pa.ArrowException: likewise.
    """
    if expr.op != "Literal":
        return None
    value, dtype = expr.params["value"], expr.dtype
    if isinstance(value, pa.Scalar):
        return value
    is_nested = pa.types.is_nested(dtype)
    if isinstance(value, str) and is_nested:  # Arrow would make an array of its characters
        raise TypeError(f"a text is no value of the type {dtype}")
    if is_nested or (isinstance(value, bytes) and pa.types.is_string(dtype)):
        # Of texts that are no UTF-8, Arrow takes only the bytes.
        return pa.array([value], with_bytes(dtype)).cast(dtype, safe=False)[0]
    return pa.scalar(value, dtype)


def constant_value(expr: Expr) -> Any:
    """The Python value of a literal; None for a null literal and for everything else. A text that
    is no UTF-8 is as Java reads it."""
    scalar = constant(expr)
    return None if scalar is None else value_of(scalar)


def may_raise(expr: Expr) -> bool:
    """Whether evaluating this tree may raise for some values."""
    return any(KERNELS[node.op].can_fail(node) for node in expr.walk())


def to_array(datum: Datum, num_rows: int, dtype: pa.DataType) -> pa.Array:
    """The datum as an Array of ``num_rows`` values of exactly ``dtype``.

    :raises TypeError: the datum has another type. A null of no type is fine, and so is a nested
        type that differs only in which of its fields may be null.
    """
    if isinstance(datum, pa.Scalar):
        if not datum.is_valid or not num_rows:  # Arrow repeats no list zero times
            return pa.nulls(num_rows, dtype)
        datum = pa.repeat(datum, num_rows)
    if datum.type == dtype:
        return datum
    if pa.types.is_null(datum.type):
        return pa.nulls(num_rows, dtype)
    if pa.types.is_nested(dtype):
        return _with_fields_of(dtype, datum)
    raise TypeError(f"a kernel returned {datum.type} where {dtype} was due")


def _with_fields_of(dtype: pa.DataType, array: pa.Array) -> pa.Array:
    if pa.types.is_struct(dtype):
        # Arrow's own cast minds the nulls below null structs.
        fields = list(dtype)
        if not fields:
            return array
        children = [
            to_array(array.field(index), len(array), field.type)
            for index, field in enumerate(fields)
        ]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    inner = dtype.value_type if pa.types.is_list(dtype) else dtype.field(0).type
    values = to_array(array.values, len(array.values), inner)
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(
        dtype, len(array), buffers, array.null_count, array.offset, children=[values]
    )


def to_scalar(datum: Datum) -> pa.Scalar:
    """The only value of a datum of one row."""
    return datum if isinstance(datum, pa.Scalar) else datum[0]


def evaluate_where(
    evaluator: Evaluator, batch: pa.RecordBatch, mask: pa.Array, dtype: pa.DataType
) -> pa.Array:
    """Evaluate only on the rows where ``mask`` is true: an Array of all rows, null elsewhere.

    A branch that no row takes is not evaluated at all, so it raises nothing.
    """
    selected = mask.true_count
    if selected == 0:
        return pa.nulls(batch.num_rows, dtype)
    if selected == batch.num_rows:
        return to_array(evaluator(batch), batch.num_rows, dtype)
    part = batch.filter(mask)
    values = to_array(evaluator(part), part.num_rows, dtype)
    return values.take(_positions(mask))


def _positions(mask: pa.Array) -> pa.Array:
    """For each row its index among the selected ones, null for the others."""
    chosen = pc.fill_null(mask, False)
    running = pc.subtract(pc.cumulative_sum(chosen.cast(pa.int32())), 1)
    return pc.if_else(chosen, running, pa.scalar(None, pa.int32()))


def is_harmless(expr: Expr) -> bool:
    """Whether a tree may be evaluated on rows that do not count as well: it raises nothing, and
    cannot tell."""
    return not may_raise(expr) and not any(minds_rows(node) for node in expr.walk())


def minds_rows(node: Expr) -> bool:
    """Whether it can be told on which rows a node was evaluated, even if it raises nothing: by the
    random values that it has drawn, or by the memory that it needs."""
    return node.op in NONDETERMINISTIC or KERNELS[node.op].unbounded


def only_where(expr: Expr, evaluator: Evaluator) -> Callable[[Any, pa.Array | None], Datum]:
    """``evaluate(batch, mask)`` for whoever will not look at the other rows of the result, whose
    values say nothing. The mask has no nulls; None is all rows.

    What is harmless, and cheap, is evaluated on all rows: to choose some costs more.
    """
    if is_harmless(expr) and not any(KERNELS[node.op].loop for node in expr.walk()):
        return lambda batch, mask: evaluator(batch)

    def evaluate(batch: Any, mask: pa.Array | None) -> Datum:
        if mask is None:
            return evaluator(batch)
        if not isinstance(batch, Veiled):
            return evaluate_where(evaluator, batch, mask, expr.dtype)
        veiled = batch.where(mask)
        return evaluator(veiled) if veiled.counts else pa.scalar(None, expr.dtype)

    return evaluate
