"""Values of the user's state: as the user gives and gets them, as they are kept, and in Arrow.

What the user gives passes PySpark's ``toInternal`` and then what the JVM makes of it
(:mod:`engine.functions.pickled_results`): what does not fit the declared type is NULL. It is *kept*
as a tuple of what Arrow's ``to_pylist`` would return for it, times and dates as whole numbers, so
that a value reads the same whether it was restored from a snapshot or not. What the user gets is
what PySpark's ``fromInternal`` makes of that.

Source: ``StatefulProcessorApiClient._serialize_to_bytes``, Spark's ``PythonSQLUtils.toJVMRow`` and
``toPyRow``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import Row, StructType

from engine.errors import StateTooLargeError, TransformError
from engine.expressions.types import schema_from_spark
from engine.functions.pickled_results import java_string, taker

Kept = tuple[Any, ...]
"""One value, see the module."""

LATEST_MS: Final = (1 << 63) - 1
"""The greatest moment that a table can have."""
_EXACT: Final[dict[pa.DataType, type]] = {
    pa.float64(): float,
    pa.bool_(): bool,
    pa.binary(): bytes,
}
"""Types that are kept as they are given."""


class Codec:
    """For values of one schema.

    :param schema: as the JSON of a ``StructType``.
    """

    def __init__(self, schema: str) -> None:
        parsed = json.loads(schema)
        self.schema = StructType.fromJson(parsed)
        self.dtype = pa.struct([field.with_nullable(True) for field in schema_from_spark(parsed)])
        self._types = [field.type for field in self.dtype]
        self._fits = [_fits(dtype) for dtype in self._types]
        self._takers = [taker(dtype) for dtype in self._types]
        self._rounded = [i for i, dtype in enumerate(self._types) if _has_float32(dtype)]
        self._outer = [_outer(dtype) for dtype in self._types]
        self._is_plain = not any(self._outer) and not any(
            field.dataType.needConversion() for field in self.schema
        )

    def take(self, given: Any) -> Kept:
        """What is kept of a value that the user gives: a tuple, a Row or a list.

        :raises TransformError: it has another number of fields.
        """
        if isinstance(given, tuple) and len(given) == len(self._fits):
            for value, fits in zip(given, self._fits, strict=True):
                if value is not None and not (fits is not None and fits(value)):
                    break
            else:
                return tuple(given)
        return self._take_slowly(given)

    def _take_slowly(self, given: Any) -> Kept:
        internal = StatefulProcessorApiClient._serialize_to_bytes(
            _UNPICKLED,  # type: ignore[arg-type]  # the method uses nothing else of a client
            self.schema,
            given,
        )
        if len(internal) != len(self._takers):
            raise TransformError(
                "Input row doesn't have expected number of values required by the schema. "
                f"{len(self._takers)} fields are required while {len(internal)} values are "
                "provided."
            )
        values: list[Any] = [
            take(value) for take, value in zip(self._takers, internal, strict=True)
        ]
        for index in self._rounded:
            (values[index],) = _plain(pa.array([values[index]], self._types[index])).to_pylist()
        return tuple(values)

    def give(self, kept: Kept) -> Row:
        """The value as a Row."""
        if not self._is_plain:
            kept = tuple(
                value if value is None or outer is None else outer(value)
                for value, outer in zip(kept, self._outer, strict=True)
            )
        return self.schema.fromInternal(kept)

    def give_tuple(self, kept: Kept) -> tuple[Any, ...]:
        """The value as a tuple."""
        return kept if self._is_plain else tuple(self.give(kept))

    def to_arrow(self, rows: Sequence[Kept | None]) -> pa.StructArray:
        """A column of values; None is NULL."""
        if not self._types:
            return pa.array([None if row is None else {} for row in rows], self.dtype)
        arrays = [
            one_array([None if row is None else row[index] for row in rows], dtype)
            for index, dtype in enumerate(self._types)
        ]
        missing = pa.array([row is None for row in rows], pa.bool_())
        return pa.StructArray.from_arrays(arrays, fields=list(self.dtype), mask=missing)

    def from_arrow(self, column: pa.StructArray) -> list[Kept | None]:
        """The inverse of :meth:`to_arrow`."""
        present = column.is_valid().to_pylist()
        columns = [_plain(child).to_pylist() for child in column.flatten()]
        rows = zip(*columns, strict=True) if columns else iter([()] * len(column))
        return [row if valid else None for row, valid in zip(rows, present, strict=True)]


def one_array(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """Of Arrow's.

    :raises StateTooLargeError: there is more in them than fits one.
    """
    made = pa.array(values, dtype)
    if isinstance(made, pa.ChunkedArray):
        raise StateTooLargeError(f"{len(values)} values of type {dtype} take more than 2**31 bytes")
    return made


class _Unpickled:
    """In place of PySpark's pickler: the object itself."""

    def dumps(self, obj: Any) -> Any:
        return obj

    @property
    def pickleSer(self) -> _Unpickled:
        return self


_UNPICKLED: Final = _Unpickled()


def plain_type(dtype: pa.DataType) -> pa.DataType:
    """The type with whole numbers in place of times, dates and durations."""
    if pa.types.is_timestamp(dtype) or pa.types.is_duration(dtype):
        return pa.int64()
    if pa.types.is_date32(dtype):
        return pa.int32()
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(plain_type(field.type)) for field in dtype])
    if pa.types.is_map(dtype):
        return pa.map_(
            dtype.key_field.with_type(plain_type(dtype.key_type)),
            dtype.item_field.with_type(plain_type(dtype.item_type)),
        )
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(plain_type(dtype.value_type)))
    return dtype


def _plain(column: pa.Array) -> pa.Array:
    dtype = plain_type(column.type)
    return column if dtype == column.type else column.cast(dtype)


def _fits(dtype: pa.DataType) -> Callable[[Any], bool] | None:
    """Whether a value is kept as it is given; None: that cannot be told quickly."""
    if pa.types.is_integer(dtype):
        end = 1 << (dtype.bit_width - 1)
        return lambda value: type(value) is int and -end <= value < end
    if pa.types.is_string(dtype):
        return lambda value: type(value) is str and (value.isascii() or java_string(value) == value)
    kind = _EXACT.get(dtype)
    return None if kind is None else lambda value: type(value) is kind


def _has_float32(dtype: pa.DataType) -> bool:
    if pa.types.is_float32(dtype):
        return True
    return any(_has_float32(dtype.field(index).type) for index in range(dtype.num_fields))


def _outer(dtype: pa.DataType) -> Callable[[Any], Any] | None:
    """From what is kept of a nested value to what ``fromInternal`` takes, a new object each time;
    None: it is the same."""
    if pa.types.is_struct(dtype):
        fields = [(field.name, _outer_or_same(field.type)) for field in dtype]
        return lambda value: tuple(outer(value[name]) for name, outer in fields)
    if pa.types.is_map(dtype):
        key, item = _outer_or_same(dtype.key_type), _outer_or_same(dtype.item_type)
        return lambda value: {key(k): item(v) for k, v in value}
    if pa.types.is_list(dtype):
        element = _outer_or_same(dtype.value_type)
        return lambda value: [element(each) for each in value]
    return None


def _outer_or_same(dtype: pa.DataType) -> Callable[[Any], Any]:
    outer = _outer(dtype)
    if outer is None:
        return lambda value: value
    return lambda value: None if value is None else outer(value)
