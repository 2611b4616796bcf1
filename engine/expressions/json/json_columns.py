"""Parsed JSON values to Arrow columns, a column at a time.

First for values just as :mod:`json` has parsed them: the rows whose values do not fit the schema
are noted. Then, with those rows replaced by what :mod:`engine.expressions.json.json_records` made
of them, for good.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.casts.parse_times import string_to_date, string_to_timestamp
from engine.expressions.casts.rules import Casting
from engine.expressions.json.jackson import Number, as_utf8
from engine.expressions.json.json_records import BadValueError, decimal_of, float32_of, float64_of
from engine.expressions.json.json_writing import written
from engine.expressions.record_times import RecordTimes
from engine.expressions.types import TIMESTAMP_NTZ, is_integral

_BASE64: Final = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_NUMBERS: Final = {float, int, Number}
_LOCAL_TIME: Final = (
    r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?\z"
)


class Builder:
    """Builds columns.

    :param times: how dates and timestamps are read.
    :param irregular: the rows whose values do not fit are added here, and their values are NULL;
        None if all values are known to fit.
    """

    def __init__(self, times: RecordTimes, irregular: set[int] | None) -> None:
        self._times = times
        self._irregular = irregular

    def build(self, values: list[Any], dtype: pa.DataType, rows: Sequence[int]) -> pa.Array:
        """An array of ``dtype``.

        :param rows: for each value the row of the batch that it comes from.
        """
        accepted = self._accepted(dtype) | {type(None)}
        fitting = values
        if not set(map(type, values)) <= accepted:
            fitting = [value if type(value) in accepted else None for value in values]
        if pa.types.is_struct(dtype):
            array = self._structs(fitting, dtype, rows)
        elif pa.types.is_map(dtype):
            array = self._maps(fitting, dtype, rows)
        elif pa.types.is_list(dtype):
            array = self._lists(fitting, dtype, rows)
        else:
            array = self._atoms(fitting, dtype)
        if self._irregular is not None and array.null_count > values.count(None):
            nulls = array.is_null().to_pylist()
            self._irregular.update(
                row
                for row, value, null in zip(rows, values, nulls, strict=True)
                if null and value is not None
            )
        return array

    def _accepted(self, dtype: pa.DataType) -> set[type]:
        final = self._irregular is None
        if pa.types.is_struct(dtype):
            return {dict}
        if pa.types.is_map(dtype):
            return {dict, list} if final else {dict}
        if pa.types.is_list(dtype):
            return {list}
        if pa.types.is_string(dtype):
            return {str, int, bool, float, Number}
        if pa.types.is_boolean(dtype):
            return {bool}
        if is_integral(dtype):
            return {int}
        if pa.types.is_floating(dtype):
            return _NUMBERS
        if pa.types.is_decimal(dtype):
            return {*_NUMBERS, Decimal}
        if pa.types.is_binary(dtype):
            return {str, bytes} if final else {str}
        # Dates and timestamps that were read again are numbers of days or microseconds.
        return {str, int} if final else {str}

    def _structs(
        self, values: list[Any], dtype: pa.StructType, rows: Sequence[int]
    ) -> pa.StructArray:
        children = []
        for field in dtype:
            name = field.name
            column = [None if value is None else value.get(name) for value in values]
            children.append(self.build(column, field.type, rows))
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(dtype), mask=mask)

    def _lists(self, values: list[Any], dtype: pa.ListType, rows: Sequence[int]) -> pa.ListArray:
        items, item_rows = _flat(values, rows)
        inner = self.build(items, dtype.value_type, item_rows)
        return pa.ListArray.from_arrays(_offsets(values), inner, type=dtype)

    def _maps(self, values: list[Any], dtype: pa.MapType, rows: Sequence[int]) -> pa.MapArray:
        pairs = [list(v.items()) if isinstance(v, dict) else v for v in values]
        flat, item_rows = _flat(pairs, rows)
        keys = self.build([key for key, _ in flat], dtype.key_type, item_rows)
        if keys.null_count:  # in rows that will be read again
            keys = keys.fill_null("")
        items = self.build([item for _, item in flat], dtype.item_type, item_rows)
        return pa.MapArray.from_arrays(_offsets(pairs), keys, items).cast(dtype)

    def _atoms(self, values: list[Any], dtype: pa.DataType) -> pa.Array:
        if pa.types.is_date32(dtype) or pa.types.is_timestamp(dtype):
            return self._moments(values, dtype)
        if pa.types.is_binary(dtype):
            return pa.array(_each(_binary, values), dtype)
        if pa.types.is_string(dtype):
            return _strings(values)
        if is_integral(dtype):
            return _integers(values, dtype)
        if pa.types.is_float64(dtype) and int in set(map(type, values)):
            values = _each(float64_of, values)
        elif pa.types.is_float32(dtype):
            values = _each(float32_of, values)
        elif pa.types.is_decimal(dtype):
            values = _each(lambda value: decimal_of(value, dtype), values)
        return pa.array(values, dtype)

    def _moments(self, values: list[Any], dtype: pa.DataType) -> pa.Array:
        """Dates and timestamps."""
        is_date, is_local = pa.types.is_date32(dtype), dtype == TIMESTAMP_NTZ
        times, storage = self._times, pa.int32() if is_date else pa.int64()
        numbers = [v if isinstance(v, int) else None for v in values]
        texts = [v if isinstance(v, str) else None for v in values]
        by_pattern = (
            (times.dates, times.date) if is_date
            else (times.local_timestamps, times.local_timestamp) if is_local
            else (times.timestamps, times.timestamp)
        )  # fmt: skip
        if by_pattern[0] is not None:
            found = _each(by_pattern[1], texts)
            both = [n if f is None else f for n, f in zip(numbers, found, strict=True)]
            return pa.array(both, storage).view(dtype)
        result = moments(_strings(texts), dtype, times)
        if int not in set(map(type, values)):
            return result
        return pc.coalesce(pa.array(numbers, storage), result.view(storage)).view(dtype)


def moments(texts: pa.Array, dtype: pa.DataType, times: RecordTimes) -> pa.Array:
    """Dates or timestamps of texts, without a pattern; NULL if the text is none, or unusual."""
    if dtype == TIMESTAMP_NTZ:
        # Unlike a cast, from_json does not take a text that names a zone.
        is_plain = pc.match_substring_regex(texts, _LOCAL_TIME)
        texts = pc.if_else(is_plain, texts, pa.scalar(None, pa.string()))
    casting = Casting(pa.string(), dtype, "LEGACY", times.zone.name)
    convert = string_to_date if pa.types.is_date32(dtype) else string_to_timestamp
    return convert(casting)(texts)


def _binary(value: str | bytes) -> bytes:
    """Base64, if it is ordinary.

    :raises BadValueError: it is not.
    """
    if isinstance(value, bytes):
        return value
    if _BASE64.fullmatch(value) is None:
        raise BadValueError
    return base64.b64decode(value)


def _flat(values: list[Any], rows: Sequence[int]) -> tuple[list[Any], list[int]]:
    items = [item for value in values if value is not None for item in value]
    item_rows = [
        row for row, value in zip(rows, values, strict=True) if value is not None for _ in value
    ]
    return items, item_rows


def _offsets(values: list[Any]) -> pa.Array:
    """Where each list starts, NULL where there is none, and the end."""
    offsets: list[int | None] = []
    position = 0
    for value in values:
        offsets.append(None if value is None else position)
        position += 0 if value is None else len(value)
    return pa.array([*offsets, position], pa.int32())


def _integers(values: list[Any], dtype: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, dtype)
    except (pa.ArrowInvalid, OverflowError):
        half = 2 ** (dtype.bit_width - 1)
        inside = [v if v is not None and -half <= v < half else None for v in values]
        return pa.array(inside, dtype)


def _strings(values: list[Any]) -> pa.Array:
    """What is no text is written as JSON."""
    if not set(map(type, values)) <= {str, type(None)}:
        values = [v if v is None or isinstance(v, str) else written(v) for v in values]
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:  # half of a surrogate pair
        whole = [v if v is None or v == as_utf8(v) else None for v in values]
        return pa.array(whole, pa.string())


def _each(function: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [None if value is None else _or_none(function, value) for value in values]


def _or_none(function: Callable[[Any], Any], value: Any) -> Any:
    try:
        return function(value)
    except BadValueError:
        return None
