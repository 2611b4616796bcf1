"""Aggregate functions, folded: what ``df.observe`` computes over the rows of an epoch.

Each task folds its batches into a state of a few bytes, the driver merges the states of all tasks
in their order, and makes the values.

==========  ====================================================================================
function    state
==========  ====================================================================================
Count       how many rows have a value for every argument
Sum         the exact sum, as ``int`` or ``Decimal``; for floating numbers a ``float``, added up
            row by row as Spark does it; None before the first value
Average     such a sum, of whole numbers a ``float`` as well, and the count
Min, Max    the value as a ``pyarrow.Scalar``; NaN is larger than all numbers
==========  ====================================================================================

A sum of whole numbers that is too large only in between is none that fails: in Spark that depends
on the order of rows.

Source: Spark's ``Sum``, ``Average``, ``Count``, ``Min``, ``Max``.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions import ansi
from engine.expressions.datum import to_scalar
from engine.expressions.decimals import EXACT, arithmetic, fit
from engine.expressions.tree import Expr
from engine.pipeline.stateful import Aggregate

State = Any
FUNCTIONS: Final = ("Count", "Sum", "Average", "Min", "Max")
_DIGITS_MAX: Final = 38
_LONG: Final = 1 << 63
_COUNTED: Final = pa.decimal128(20, 0)
"""A BIGINT as Spark divides by it."""


def initial(aggregate: Aggregate) -> State:
    """Of no rows."""
    return {"Count": 0, "Average": (None, 0)}.get(aggregate.function)


def updated(aggregate: Aggregate, state: State, columns: Sequence[pa.Array], rows: int) -> State:
    """The state with so many more rows.

    :param columns: the arguments' values in these rows.
    """
    if aggregate.function == "Count":
        return state + _count(columns, rows)
    (column,) = columns
    values = column.drop_null()
    if aggregate.function == "Average":
        total, count = state
        return _plus(aggregate, total, values), count + len(values)
    if aggregate.function == "Sum":
        return _plus(aggregate, state, values)
    return _extreme(
        aggregate.function, [values] if state is None else [pa.repeat(state, 1), values]
    )


def merged(aggregate: Aggregate, states: Sequence[State]) -> State:
    """The state of all their rows."""
    if aggregate.function == "Count":
        return sum(states)
    if aggregate.function == "Average":
        return _total([total for total, _ in states]), sum(count for _, count in states)
    if aggregate.function == "Sum":
        return _total(states)
    known = [pa.repeat(state, 1) for state in states if state is not None]
    return _extreme(aggregate.function, known) if known else None


def value(aggregate: Aggregate, state: State) -> pa.Scalar:
    """What the function returns.

    :raises TransformError: a sum does not fit its type, in ANSI mode.
    """
    dtype, ansi_mode = aggregate.dtype, aggregate.eval_mode == "ANSI"
    if aggregate.function == "Average":
        return _average(aggregate, *state)
    if aggregate.function != "Sum" or state is None:
        return state if isinstance(state, pa.Scalar) else pa.scalar(state, dtype)
    if isinstance(state, Decimal):
        return pa.scalar(fit(state, dtype, ansi_mode), dtype)
    if isinstance(state, int) and not -_LONG <= state < _LONG:
        if ansi_mode:
            raise ansi.arithmetic_overflow(dtype, "try_sum")
        if aggregate.eval_mode == "TRY":
            return pa.scalar(None, dtype)
        state = (state + _LONG) % (2 * _LONG) - _LONG
    return pa.scalar(state, dtype)


def _average(aggregate: Aggregate, total: Any, count: int) -> pa.Scalar:
    dtype, mode = aggregate.dtype, aggregate.eval_mode
    if not isinstance(total, Decimal):
        return pa.scalar(None if total is None else total / count, dtype)
    (argument,) = aggregate.arguments
    digits = min(argument.dtype.precision + 10, _DIGITS_MAX)
    summed = pa.decimal128(digits, argument.dtype.scale)
    dividend = fit(total, summed, mode == "ANSI")
    sides = Expr("Column", (), summed), Expr("Column", (), _COUNTED)
    divide = arithmetic(Expr("Divide", sides, dtype, True, {"eval_mode": mode}))
    return to_scalar(divide(pa.scalar(dividend, summed), pa.scalar(Decimal(count), _COUNTED)))


def _count(columns: Sequence[pa.Array], rows: int) -> int:
    nulls = [column.is_null() for column in columns if column.null_count]
    if not nulls:
        return rows
    missing = nulls[0]
    for each in nulls[1:]:
        missing = pc.or_(missing, each)
    return rows - int(missing.true_count)


def _plus(aggregate: Aggregate, total: Any, values: pa.Array) -> Any:
    if not len(values):
        return total
    if pa.types.is_decimal(values.type):
        wide = values.cast(pa.decimal256(76, values.type.scale))
        return EXACT.add(total or Decimal(0), pc.sum(wide).as_py())
    if pa.types.is_integer(values.type) and aggregate.function == "Sum":
        whole = values.to_numpy(zero_copy_only=False).astype(np.int64)
        high, low = whole >> 32, whole & 0xFFFFFFFF  # neither of whose sums overflows
        return (total or 0) + (int(high.sum()) << 32) + int(low.sum())
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
    # One after the other: numpy's own sum adds up in pairs, and has other last digits.
    return float(np.cumsum(np.concatenate([[total or 0.0], numbers]))[-1])


def _total(sums: Sequence[Any]) -> Any:
    known = [each for each in sums if each is not None]
    if not known:
        return None
    total = known[0]
    for each in known[1:]:
        total = EXACT.add(total, each) if isinstance(each, Decimal) else total + each
    return total


def _extreme(function: str, parts: Sequence[pa.Array]) -> pa.Scalar | None:
    values = pa.concat_arrays(parts)
    if not len(values):
        return None
    if pa.types.is_floating(values.type):
        numbers = values.filter(pc.invert(pc.is_nan(values)))
        has_nan = len(numbers) < len(values)
        if not len(numbers) or (has_nan and function == "Max"):
            return pa.scalar(float("nan"), values.type)
        values = numbers
    return pc.max(values) if function == "Max" else pc.min(values)
