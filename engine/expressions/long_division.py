"""Arrow's decimals, divided exactly: rounded to fewer places, or by each other.

Arrow divides in digits of 32 bits and guesses each from the first ones of what is left and of the
divisor. Where these are equal the guess may come out far too small, and the quotient is any number.
That takes a digit of the quotient that is (nearly) the largest one: rare, but the same for the same
numbers. Divisors of one digit need no guess. So

* places are cut off few at a time, by divisors of one digit;
* other quotients are verified by what they leave of the dividend, and those that are wrong are
  computed row by row.

Source: Arrow's ``DecimalDivide`` (``rhat`` is cut off to 32 bits); Knuth, volume 2, algorithm D,
where it is not.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.registry import Datum

ARROW_DIGITS_MAX: Final = 76
"""Of Arrow's longest decimals."""
_LONG: Final = 1 << 32
_SHORT_DIGITS: Final = 9
"""Whatever has no more is less than that."""
_WHOLE: Final = pa.decimal256(ARROW_DIGITS_MAX - 1, 0)
_FACTOR: Final = pa.decimal256(ARROW_DIGITS_MAX // 2 - 1, 0)
"""Arrow asks types, not values, whether a result has room: whatever 256 bits hold has these types,
so that products of two factors, and differences of whole numbers, are computed."""


def rounded(values: pa.Array, scale: int) -> pa.Array:
    """Half up, that is away from zero.

    :param values: decimal256 with more places than ``scale``.
    :return: of :data:`ARROW_DIGITS_MAX` digits.
    """
    more = values.type.scale - scale
    units = values.view(_WHOLE)
    half = pa.scalar(Decimal(5 * 10 ** (more - 1)), _WHOLE)
    is_negative = pc.less(units, pa.scalar(Decimal(0), _WHOLE))
    units = pc.add(units, pc.if_else(is_negative, pc.negate(half), half))
    while more:
        places = min(more, _SHORT_DIGITS)
        cut = units.view(pa.decimal256(ARROW_DIGITS_MAX, places))
        units, more = cut.cast(pa.decimal256(ARROW_DIGITS_MAX, 0), safe=False), more - places
    return units.view(pa.decimal256(ARROW_DIGITS_MAX, scale))


def quotients(left: Datum, right: Datum) -> pa.Array:
    """What ``pc.divide`` promises: cut off behind the places that it gives to these types.

    :param left: decimal256; ``right`` as well, and not zero. At most one is a Scalar. No more than
        :data:`ARROW_DIGITS_MAX` digits are needed for the dividend with the places of the result.
    """
    found = pc.divide(left, right)
    if not _has_long(right):
        return found
    dividend = left.cast(pa.decimal256(ARROW_DIGITS_MAX, found.type.scale + right.type.scale))
    dividends, divisors = (_units(each, len(found)) for each in (dividend, right))
    product = pc.multiply(pc.abs(found.view(_FACTOR)), pc.abs(divisors.view(_FACTOR)))
    rest = pc.subtract(pc.abs(dividends), product.view(_WHOLE))
    is_right = pc.and_(
        pc.greater_equal(rest, pa.scalar(Decimal(0), rest.type)), pc.less(rest, pc.abs(divisors))
    )
    if pc.all(is_right).as_py() is not False:
        return found
    wrong = pc.invert(is_right.fill_null(True))
    exact = [
        Decimal(_quotient(int(dividends[row].as_py()), int(divisors[row].as_py())))
        for row in np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
    ]
    units = pa.array(exact, pa.decimal256(ARROW_DIGITS_MAX, 0))
    return pc.replace_with_mask(found, wrong, units.view(found.type))


def _has_long(divisors: Datum) -> bool:
    """Whether one of them has more than 32 bits."""
    dtype = divisors.type
    if dtype.precision <= _SHORT_DIGITS:
        return False
    long = pc.greater_equal(pc.abs(divisors), pa.scalar(Decimal(_LONG).scaleb(-dtype.scale), dtype))
    return bool(long.as_py() if isinstance(long, pa.Scalar) else pc.any(long).as_py())


def _units(values: Any, length: int) -> pa.Array:
    column = pa.repeat(values, length) if isinstance(values, pa.Scalar) else values
    return column.view(_WHOLE)


def _quotient(dividend: int, divisor: int) -> int:
    """Towards zero."""
    size = abs(dividend) // abs(divisor)
    return size if (dividend < 0) == (divisor < 0) else -size
