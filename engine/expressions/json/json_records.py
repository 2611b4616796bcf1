"""One JSON record by all of Spark's rules: what fits the schema is kept, the rest is NULL.

- A text that is malformed outside of structs, arrays and maps inside is NULL in every field.
- A field whose value does not fit, or is malformed inside, is NULL, and reading goes on from where
  Jackson then is. So with the fields of structs inside; but an array or a map with an unfit item is
  NULL as a whole.
- Of fields of the same name, the last one that fits counts.

Source: ``JacksonParser`` of Spark.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.casts.parse_numbers import big_decimal
from engine.expressions.decimals import EXACT
from engine.expressions.java_characters import DIGIT
from engine.expressions.json.jackson import (
    END_ARRAY,
    END_OBJECT,
    FALSE,
    FLOAT,
    INT,
    NAME,
    NULL,
    SPARK,
    START_ARRAY,
    START_OBJECT,
    STRING,
    TRUE,
    Features,
    JsonError,
    JsonParser,
    Number,
    as_utf8,
)
from engine.expressions.json.json_writing import written
from engine.expressions.record_times import RecordTimes
from engine.expressions.times import civil
from engine.expressions.times.civil import MICROS_PER_SECOND
from engine.expressions.types import TIMESTAMP_NTZ, is_integral
from engine.expressions.whole_numbers import whole_number

_NUMBER_NAMES: Final = {"NaN", "+INF", "-INF", "Infinity", "+Infinity", "-Infinity"}
_WHOLE: Final = re.compile(rf"[+-]?{DIGIT}+")
_GREGORIAN_START: Final = -141_427  # 1582-10-15


class BadValueError(ValueError):
    """A value does not fit its type."""


class _PartialValue(Exception):
    """A struct, an array or a map of which some parts do not fit."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class RecordReader:
    """Reads records into values that fit: numbers in range, dates as days, timestamps as
    microseconds, structs as dicts, maps as lists of pairs.

    :param times: how dates and timestamps are read.
    """

    def __init__(self, times: RecordTimes, features: Features = SPARK) -> None:
        self._times = times
        self._features = features

    def read(self, text: str, dtype: pa.DataType) -> tuple[Any, bool]:
        """The value, and whether everything in it did fit."""
        try:
            return self._root(JsonParser(text, self._features), dtype), True
        except _PartialValue as partial:
            return partial.value, False
        except (JsonError, BadValueError):
            return ({} if pa.types.is_struct(dtype) else None), False

    def _root(self, parser: JsonParser, dtype: pa.DataType) -> Any:
        token = parser.next()
        if token == NULL:
            raise BadValueError
        is_list_of_structs = pa.types.is_list(dtype) and pa.types.is_struct(dtype.value_type)
        if is_list_of_structs and token == START_OBJECT:
            try:
                return [self._struct(parser, dtype.value_type)]
            except _PartialValue as partial:
                raise _PartialValue([partial.value]) from None
        return self._convert(parser, dtype)

    def _convert(self, parser: JsonParser, dtype: pa.DataType) -> Any:
        token = parser.next() if parser.token == NAME else parser.token
        if token in (None, NULL):
            return None
        if token == START_OBJECT and pa.types.is_struct(dtype):
            return self._struct(parser, dtype)
        if token == START_OBJECT and pa.types.is_map(dtype):
            return self._map(parser, dtype.item_type)
        if token == START_ARRAY and pa.types.is_list(dtype) and not pa.types.is_map(dtype):
            return self._array(parser, dtype.value_type)
        if pa.types.is_string(dtype):
            return as_utf8(parser.value) if token == STRING else written(parser.tree())
        if token in (TRUE, FALSE) and pa.types.is_boolean(dtype):
            return token == TRUE
        if token == STRING and pa.types.is_binary(dtype):
            return parser.binary()
        if token in (STRING, INT, FLOAT):
            return self._number_or_time(parser.value, dtype)
        raise BadValueError

    def _struct(self, parser: JsonParser, dtype: pa.StructType) -> dict[str, Any]:
        types = {field.name: field.type for field in dtype}
        result: dict[str, Any] = {}
        is_whole = True
        while parser.next() not in (None, END_OBJECT):
            name = parser.name
            if name is None or name not in types:
                parser.skip_children()
                continue
            try:
                result[name] = self._convert(parser, types[name])
            except _PartialValue as partial:
                is_whole, result[name] = False, partial.value
            except (BadValueError, JsonError):
                is_whole = False
                parser.skip_children()
        if not is_whole:
            raise _PartialValue(result)
        return result

    def _array(self, parser: JsonParser, dtype: pa.DataType) -> list[Any]:
        items: list[Any] = []
        is_whole = True
        while parser.next() not in (None, END_ARRAY):
            try:
                items.append(self._convert(parser, dtype))
            except _PartialValue as partial:
                is_whole = False
                items.append(partial.value)
        if not is_whole:
            raise _PartialValue(items)
        return items

    def _map(self, parser: JsonParser, dtype: pa.DataType) -> list[tuple[str, Any]]:
        items: list[tuple[str, Any]] = []
        is_whole, fits = True, True
        while parser.next() not in (None, END_OBJECT):
            name = as_utf8(parser.name or "")
            try:
                items.append((name, self._convert(parser, dtype)))
            except _PartialValue as partial:
                is_whole = False
                items.append((name, partial.value))
            except (BadValueError, JsonError):
                # Unlike an array, a map is read to its end.
                fits = False
                parser.skip_children()
        if not fits:
            raise BadValueError
        if not is_whole:
            raise _PartialValue(items)
        return items

    def _number_or_time(self, value: Any, dtype: pa.DataType) -> Any:
        if is_integral(dtype):
            return _integral(value, dtype)
        if pa.types.is_float64(dtype):
            return float64_of(self._number(value))
        if pa.types.is_float32(dtype):
            return float32_of(self._number(value))
        if pa.types.is_decimal(dtype):
            return decimal_of(value, dtype)
        if pa.types.is_date32(dtype):
            return self._date(value)
        if pa.types.is_timestamp(dtype):
            return self._timestamp(value, dtype)
        raise BadValueError

    def _timestamp(self, value: Any, dtype: pa.DataType) -> int:
        if isinstance(value, int) and dtype != TIMESTAMP_NTZ:
            if -(2**63) <= value < 2**63:
                # The product wraps around.
                return (value * MICROS_PER_SECOND + 2**63) % 2**64 - 2**63
        elif isinstance(value, str):
            is_local = dtype == TIMESTAMP_NTZ
            read = self._times.local_timestamp if is_local else self._times.timestamp
            micros = read(value)
            if micros is not None:
                return micros
        raise BadValueError

    def _date(self, value: Any) -> int:
        if not isinstance(value, str):
            raise BadValueError
        days = self._times.date(value)
        if days is not None:
            return days
        if self._times.dates is not None:
            raise BadValueError
        # Spark 1.5 wrote days since 1970, by the calendar in use at the time.
        days = whole_of(value, 2**31)
        return days if days >= _GREGORIAN_START else _from_julian(days)

    def _number(self, value: Any) -> Any:
        """Of a FLOAT or DOUBLE, which may be a name in quotes."""
        if isinstance(value, str) and not self._features.names_of_numbers:
            raise BadValueError
        return value


def _integral(value: Any, dtype: pa.DataType) -> int:
    half = 2 ** (dtype.bit_width - 1)
    # Jackson takes a byte without its sign as well.
    high = 256 if dtype == pa.int8() else half
    if not isinstance(value, int) or not -half <= value < high:
        raise BadValueError
    return value - 256 if value >= half else value


def whole_of(text: str, half: int) -> int:
    """As Java's ``parseInt``, which reads the digits of all scripts.

    :param half: the least number that is too large.
    :raises BadValueError: it is no such number.
    """
    if _WHOLE.fullmatch(text) is None:
        raise BadValueError
    number = whole_number(text)
    if not -half <= number < half:
        raise BadValueError
    return number


def float64_of(value: Any) -> float:
    """A DOUBLE; infinite if too large.

    :raises BadValueError: it is a text that is not one of the names of infinity.
    """
    if isinstance(value, str):
        if value not in _NUMBER_NAMES:
            raise BadValueError
        return float(value.replace("INF", "Infinity"))
    if not isinstance(value, (int, float)):
        raise BadValueError
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def float32_of(value: Any) -> float:
    """The FLOAT nearest to what was written, not to the DOUBLE nearest to it.

    :raises BadValueError: as :func:`float64_of`.
    """
    wide = float64_of(value)
    with np.errstate(all="ignore"):
        near = np.float32(wide)
        written_exactly = value.text if isinstance(value, Number) else value
        if not np.isfinite(near) or isinstance(value, str) or wide == 0:
            return float(near)  # what is 0 may have an exponent that no fraction can hold
        exact = Fraction(written_exactly)
        others = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)]
        best = min(
            (c for c in (near, *others) if np.isfinite(c)),
            key=lambda c: (abs(Fraction(float(c)) - exact), c != near),
        )
    return float(best) if best != 0 else float(near)


def decimal_of(value: Any, dtype: pa.DataType) -> Decimal:
    """Rounded half up to the type's scale.

    :raises BadValueError: it is no number, or has too many digits.
    """
    if isinstance(value, Decimal):
        return value
    text = value.text if isinstance(value, Number) else str(value).replace(",", "")
    number = None if isinstance(value, bool) else big_decimal(text)
    if number is None:
        raise BadValueError
    try:
        rounded = number.quantize(Decimal(1).scaleb(-dtype.scale), ROUND_HALF_UP, EXACT)
    except InvalidOperation:
        raise BadValueError from None
    if len(rounded.as_tuple().digits) > dtype.precision:
        raise BadValueError
    return rounded


def _from_julian(days: int) -> int:
    """The same date of the Gregorian calendar."""
    cycle, in_cycle = divmod(days + 719_470, 1_461)  # since March 1 of the year 0
    year_in_cycle = min(in_cycle // 365, 3)
    in_year = in_cycle - year_in_cycle * 365
    month_from_march = (5 * in_year + 2) // 153
    day = in_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = cycle * 4 + year_in_cycle + (month <= 2)
    return int(civil.to_days(year, month, day))
