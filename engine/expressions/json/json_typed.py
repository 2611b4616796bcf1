"""Flat JSON records of plain types straight to columns: the fast way in front of ``from_json``.

:mod:`msgspec` reads a text by its schema, and Arrow makes columns of what it has read. A text is
taken only if both read it as Jackson and Spark do; the rows of all others are told, and are read
the exact way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.buffers import values_of
from engine.expressions.few_values import array_of
from engine.expressions.json.jackson import may_be_too_much
from engine.expressions.json.json_columns import moments
from engine.expressions.record_times import RecordTimes
from engine.expressions.types import TIMESTAMP_NTZ, is_integral

_Decode = Callable[[str], Any]
_FEW: Final = 4
"""Records that are built faster field by field."""


class TypedRecords:
    """Reads records of one schema.

    :param dtype: a struct, of which :meth:`fit` knows that it can be read so.
    :param times: how dates and timestamps are read.
    """

    def __init__(self, dtype: pa.StructType, times: RecordTimes) -> None:
        hints = {field.name: _hint(field.type, times) | None for field in dtype}
        self._decode: _Decode = msgspec.json.Decoder(
            TypedDict("Record", hints, total=False)  # type: ignore[operator]
        ).decode
        self._dtype = dtype
        self._times = times
        self._doubles = [i for i, f in enumerate(dtype) if pa.types.is_float64(f.type)]
        self._moments = [i for i, f in enumerate(dtype) if _is_moment(f.type)]
        texts = [f.with_type(pa.string()) if _is_moment(f.type) else f for f in dtype]
        self._as_read = pa.struct(texts)
        self._fields = texts

    @staticmethod
    def fit(dtype: pa.DataType, times: RecordTimes) -> bool:
        """Whether a schema can be read so."""
        return (
            pa.types.is_struct(dtype)
            and dtype.num_fields > 0
            and all(field.name.isascii() for field in dtype)  # msgspec finds others by chance
            and all(_hint(field.type, times) is not None for field in dtype)
        )

    def read(self, texts: Sequence[str | None]) -> tuple[pa.StructArray, list[int]]:
        """The records, and the rows that have to be read in another way, which are NULL."""
        decode, odd = self._decode, set[int]()
        values: list[Any] = []
        has_minus = False
        for row, text in enumerate(texts):
            value = None
            if text is not None:
                has_minus = has_minus or "-" in text
                try:
                    if may_be_too_much(text):
                        raise ValueError
                    value = decode(text)
                except (msgspec.MsgspecError, ValueError, RecursionError):
                    odd.add(row)
            values.append(value)
        records = self._of_few(values) or pa.array(values, self._as_read)
        for index in self._doubles if has_minus else ():
            # Of -0 Jackson makes a whole number, so that no sign is left.
            found = values_of(records.field(index))
            odd.update(np.flatnonzero((found == 0) & np.signbit(found)).tolist())
        if self._moments:
            records = self._with_moments(records, odd)
        return records, sorted(odd)

    def _of_few(self, values: list[Any]) -> pa.StructArray | None:
        """Few records, of which each has all fields."""
        if len(values) > _FEW:
            return None
        columns = []
        for field in self._fields:
            column = [value.get(field.name) for value in values if value]
            if len(column) < len(values) or None in column:
                return None
            columns.append(array_of(column, field.type))
        return pa.Array.from_buffers(self._as_read, len(values), [None], 0, children=columns)

    def _with_moments(self, records: pa.StructArray, odd: set[int]) -> pa.StructArray:
        columns = records.flatten()
        for index in self._moments:
            texts = columns[index]
            columns[index] = moments(texts, self._dtype[index].type, self._times)
            if columns[index].null_count > texts.null_count:
                unread = pc.and_(columns[index].is_null(), texts.is_valid())
                odd.update(pc.indices_nonzero(unread).to_pylist())
        return pa.StructArray.from_arrays(columns, fields=list(self._dtype), mask=records.is_null())


def _is_moment(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_date32(dtype) or pa.types.is_timestamp(dtype))


def _hint(dtype: pa.DataType, times: RecordTimes) -> Any:
    """What msgspec is to read; None if there is nothing like it."""
    if pa.types.is_boolean(dtype):
        return bool
    if is_integral(dtype):
        half = 2 ** (dtype.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-half, le=half - 1)]
    if pa.types.is_float64(dtype):
        return float
    if pa.types.is_string(dtype):
        return str
    if pa.types.is_date32(dtype):
        return str if times.dates is None else None
    if pa.types.is_timestamp(dtype):
        pattern = times.local_timestamps if dtype == TIMESTAMP_NTZ else times.timestamps
        return str if pattern is None else None
    return None
