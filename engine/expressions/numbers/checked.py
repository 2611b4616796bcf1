"""What ANSI arithmetic checks, of long columns at once: whether any row overflows, or divides by
zero. Nobody looks at single rows unless there is such a one."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions import ansi
from engine.expressions.buffers import LONG, room, valid_of, values_of, with_nulls_of
from engine.expressions.registry import Datum
from engine.expressions.vectors import from_numpy

_LONGER: Final = 50_000
"""Rows from which on looking at all values before is cheaper than Arrow's check of each, which
takes little for one column without nulls."""


def of_long(
    exact: Callable[[int, int], int],
    function: Callable[..., Any],
    dtype: pa.DataType,
    left: Datum,
    right: Datum,
) -> pa.Array | None:
    """``left op right`` of a long column at least, if no row can overflow: by the least and the
    largest values of both, which is where the result has its own.

    :param exact: ``+``, ``-`` or ``*`` of Python's integers.
    :param function: the same of NumPy's arrays.
    :return: None where a row may overflow, and for what is not worth it.
    """
    if isinstance(left, pa.Array) and len(left) < LONG:
        return None
    columns = [side for side in (left, right) if isinstance(side, pa.Array)]
    if not columns or len(columns[0]) < LONG or not all(map(_is_valid, (left, right))):
        return None
    with_nulls = [column for column in columns if column.null_count]
    if len(columns) == 1 and not with_nulls and len(columns[0]) < _LONGER:
        return None
    ends = _ends(exact, left, right)
    limit = 1 << (dtype.bit_width - 1)
    if min(ends) < -limit or max(ends) >= limit:
        return None
    if len(with_nulls) == 2:  # Arrow has a function of the same name, which puts nulls together
        return getattr(pc, function.__name__)(left, right)
    operands = [_operand(side) for side in (left, right)]
    values = function(*operands, out=room(len(columns[0]), dtype.to_pandas_dtype()))
    return with_nulls_of((with_nulls or columns)[0], values, dtype)


def _ends(exact: Callable[[int, int], int], left: Datum, right: Datum) -> list[int]:
    """Among which the least and the largest result are, those that may be beyond the type."""
    if isinstance(right, pa.Scalar) and exact is not operator.mul:
        by, values = exact(0, right.as_py()), values_of(left)
        return [by + int(values.max() if by > 0 else values.min())]
    return [exact(a, b) for a in _bounds(left) for b in _bounds(right)]


def _is_valid(side: Datum) -> bool:
    return isinstance(side, pa.Array) or side.is_valid


def _operand(side: Datum) -> Any:
    return side.as_py() if isinstance(side, pa.Scalar) else values_of(side)


def _bounds(value: Datum) -> tuple[int, int]:
    """The least and the largest integer, or what is beyond them in the slots of nulls."""
    if isinstance(value, pa.Scalar):
        return value.as_py(), value.as_py()
    values = values_of(value)
    return int(values.min()), int(values.max())


def quotient(left: Datum, right: Datum) -> Datum:
    """Of doubles.

    :raises TransformError: a divisor is 0 where neither side is NULL.
    """
    if isinstance(left, pa.Array) and isinstance(right, pa.Array) and len(left) >= LONG:
        divisor, valid = values_of(right), valid_of(left) & valid_of(right)
        if np.any((divisor == 0) & valid):
            raise ansi.divide_by_zero()
        with np.errstate(all="ignore"):
            result = np.divide(values_of(left), divisor, out=room(len(left), divisor.dtype))
        return from_numpy(result, valid, right.type)
    try:
        return pc.divide_checked(left, right)
    except pa.ArrowInvalid:
        raise ansi.divide_by_zero() from None
