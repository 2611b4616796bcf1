"""What a table's log tells of a file, so that readers may pass it over.

JSON: ``{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":7},"nullCount":{"id":0}}``. A bound
that cannot be told exactly is left out: a reader then reads the file.

Source: Delta's PROTOCOL.md, per-file statistics.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

COLUMNS_MAX: Final = 32
"""So many columns have statistics: Delta's ``dataSkippingNumIndexedCols``."""
TEXT_MAX: Final = 32
"""A longer text is no upper bound, and so many of its characters are a lower one."""
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


class Statistics:
    """Of one file, as its rows are written.

    :param schema: its columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = 0
        self._columns = {
            field.name: _Column(field.type)
            for field in schema
            if not pa.types.is_struct(field.type)  # their counts would be those of their fields
        }
        for name in list(self._columns)[COLUMNS_MAX:]:
            del self._columns[name]

    def add(self, table: pa.Table) -> None:
        """Rows that were written."""
        self._rows += table.num_rows
        for name, column in self._columns.items():
            column.add(table.column(name))

    def to_json(self) -> str:
        """See the module."""
        told = {name: column.bounds() for name, column in self._columns.items()}
        return _ENCODER.encode(
            {
                "numRecords": self._rows,
                "minValues": {name: low for name, (low, _) in told.items() if low is not None},
                "maxValues": {name: high for name, (_, high) in told.items() if high is not None},
                "nullCount": {name: column.nulls for name, column in self._columns.items()},
            }
        ).decode()


class _Column:
    def __init__(self, dtype: pa.DataType) -> None:
        self.nulls = 0
        self._type = dtype
        self._has_bounds = _is_ordered(dtype)
        self._low: Any = None
        self._high: Any = None

    def add(self, column: pa.ChunkedArray) -> None:
        self.nulls += column.null_count
        if not self._has_bounds:
            return
        if pa.types.is_floating(self._type) and pc.any(pc.is_nan(column)).as_py():
            # Greater than all others to a reader, and passed over by what finds the greatest.
            self._has_bounds = False
            return
        found = pc.min_max(column)
        if found["min"].is_valid:
            low, high = _comparable(found["min"]), _comparable(found["max"])
            self._low = low if self._low is None else min(self._low, low)
            self._high = high if self._high is None else max(self._high, high)

    def bounds(self) -> tuple[Any, Any]:
        """The lowest and the highest value as JSON has them; None for one that cannot be told."""
        if not self._has_bounds or self._low is None:
            return None, None
        if not pa.types.is_string(self._type):
            return _told(self._type, self._low), _told(self._type, self._high)
        return _text(self._low)[0], _text(self._high)[1]


def _is_ordered(dtype: pa.DataType) -> bool:
    kinds = pa.types
    return bool(
        kinds.is_integer(dtype)
        or kinds.is_floating(dtype)
        or kinds.is_decimal(dtype)
        or kinds.is_date32(dtype)
        or kinds.is_timestamp(dtype)
        or kinds.is_string(dtype)
    )


def _comparable(value: pa.Scalar) -> Any:
    """Without the limits of Python's dates and texts."""
    if pa.types.is_string(value.type):
        return value.as_buffer().to_pybytes()  # in the order of UTF-8, which is Spark's
    if pa.types.is_date32(value.type) or pa.types.is_timestamp(value.type):
        return value.value
    return value.as_py()


def _told(dtype: pa.DataType, value: Any) -> Any:
    try:
        if pa.types.is_date32(dtype):
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        if pa.types.is_timestamp(dtype):
            moment = datetime(1970, 1, 1) + timedelta(microseconds=value)
            return moment.isoformat(timespec="microseconds") + ("Z" if dtype.tz else "")
    except OverflowError:  # before the year 1, or behind 9999
        return None
    if pa.types.is_floating(dtype) and value in (float("inf"), float("-inf")):
        return None
    return value


def _text(octets: bytes) -> tuple[str | None, str | None]:
    """A text that is not greater than this, and one that is not less."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        return None, None
    return text[:TEXT_MAX], text if len(text) <= TEXT_MAX else None
