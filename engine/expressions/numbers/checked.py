"""What ANSI arithmetic checks, of long columns at once: whether any row overflows, or divides by
zero. Nobody looks at single rows unless there is such a one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions import ansi
from engine.expressions.buffers import LONG, room, valid_of, values_of
from engine.expressions.registry import Datum
from engine.expressions.vectors import from_numpy


def surely_fits(exact: Callable[[int, int], int], limit: int, left: Datum, right: Datum) -> bool:
    """Whether no row of ``left op right`` can overflow, by the least and largest values of both.

    :param exact: ``+``, ``-`` or ``*`` of Python's integers: the extremes are where theirs are.
    :param limit: of the type, exclusive; ``-limit`` is its least value.
    :return: False as well where Arrow's check of each row is cheaper than this.
    """
    if isinstance(left, pa.Array) and len(left) < LONG:
        return False
    columns = [side for side in (left, right) if isinstance(side, pa.Array)]
    if not columns or len(columns[0]) < LONG:
        return False
    if len(columns) == 1 and columns[0].null_count == 0:
        return False
    ends = [exact(a, b) for a in _bounds(left) for b in _bounds(right)]
    return bool(ends) and -limit <= min(ends) and max(ends) < limit


def _bounds(value: Datum) -> tuple[int, ...]:
    """The least and the largest integer, or what is beyond them in the slots of nulls."""
    if isinstance(value, pa.Scalar):
        return (value.as_py(),) if value.is_valid else ()
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
