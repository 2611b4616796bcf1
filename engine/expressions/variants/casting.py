"""VARIANT into columns of other types.

A value that has no counterpart in the type is NULL or an error. Of an object, a STRUCT gets the
fields that it has; names are compared as they are. A text, a number, a time is cast as by
``TRY_CAST`` from the type that it has.

Source: ``VariantGet.cast`` of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.casts.rules import Casting, converter, kind
from engine.expressions.decimals import EXACT
from engine.expressions.lists import Lists, entries
from engine.expressions.times.zones import Zone
from engine.expressions.types import (
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_variant,
    sql_name,
)
from engine.expressions.variants.building import Octets, SizeError, VariantBuilder, append
from engine.expressions.variants.columns import array_of
from engine.expressions.variants.encoding import SIZE_MAX
from engine.expressions.variants.reading import Kind, Variant, events_of
from engine.expressions.variants.variant_errors import invalid_cast, too_large
from engine.expressions.variants.variant_texts import json_of

Variants = Sequence[Variant | None]

TYPES: Final = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.LONG: pa.int64(),
    Kind.STRING: pa.string(),
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.TIMESTAMP_NTZ: TIMESTAMP_NTZ,
    Kind.FLOAT: pa.float32(),
    Kind.BINARY: pa.binary(),
}
_NUMBERS: Final = {"integral", "floating", "decimal"}
_CASTABLE: Final = {
    "boolean": _NUMBERS,
    **dict.fromkeys(("integral", "floating", "decimal"), _NUMBERS | {"boolean", "timestamp"}),
    "string": _NUMBERS | {"boolean", "binary", "date", "timestamp", "timestamp_ntz"},
    "date": {"timestamp", "timestamp_ntz"},
    "timestamp": _NUMBERS | {"date", "timestamp_ntz"},
    "timestamp_ntz": {"date", "timestamp"},
    "binary": set[str](),
}
"""Kinds of types beside STRING and their own that values are cast to: ``Cast.canAnsiCast``."""
_MICROS: Final = 1_000_000
_INT64: Final = range(-(2**63), 2**63)


@dataclass(frozen=True)
class VariantCast:
    """How values become others.

    :param fails: a value that has no counterpart raises; else it is NULL.
    :param zone_name: where dates and times without a zone are.
    :param reads_any_zero: see :func:`.casts.rules.reads_any_zero`.
    """

    fails: bool
    zone_name: str
    zone: Zone
    reads_any_zero: bool

    def column(self, variants: Variants, dtype: pa.DataType) -> pa.Array:
        """The values as a column of this type.

        :raises TransformError: a value has no counterpart, or is malformed.
        """
        if is_variant(dtype):
            return array_of([None if each is None else copied(each) for each in variants])
        variants = [None if each is None or each.kind is Kind.NULL else each for each in variants]
        if pa.types.is_list(dtype):
            return self._lists(self._of(Kind.ARRAY, variants, dtype), dtype)
        if pa.types.is_map(dtype):
            return self._maps(self._of(Kind.OBJECT, variants, dtype), dtype)
        if pa.types.is_struct(dtype):
            return self._structs(self._of(Kind.OBJECT, variants, dtype), dtype)
        return self._scalars(variants, dtype)

    def _refused(self, variant: Variant, dtype: pa.DataType) -> None:
        if self.fails:
            raise invalid_cast(json_of(variant, self.zone), sql_name(dtype))

    def _of(self, wanted: Kind, variants: Variants, dtype: pa.DataType) -> Variants:
        """Those of that kind; NULL for the others."""
        kept: list[Variant | None] = []
        for each in variants:
            if each is not None and each.kind is not wanted:
                self._refused(each, dtype)
                each = None
            kept.append(each)
        return kept

    def _lists(self, variants: Variants, dtype: pa.DataType) -> pa.Array:
        rows = [[] if each is None else list(each.items()) for each in variants]
        items = self.column([item for row in rows for item in row], dtype.value_type)
        return _listed(items, rows, variants).array(dtype)

    def _maps(self, variants: Variants, dtype: pa.DataType) -> pa.Array:
        rows = [[] if each is None else list(each.fields()) for each in variants]
        keys = pa.array([name for row in rows for name, _ in row], pa.string())
        values = self.column([value for row in rows for _, value in row], dtype.item_type)
        return _listed(entries(keys, values), rows, variants).array(dtype)

    def _structs(self, variants: Variants, dtype: pa.DataType) -> pa.Array:
        places = {field.name: index for index, field in enumerate(dtype)}
        columns: list[list[Variant | None]] = [[None] * len(variants) for _ in dtype]
        for row, each in enumerate(variants):
            for name, value in () if each is None else each.fields():
                if name in places:
                    columns[places[name]][row] = value
        missing = pa.array([each is None for each in variants], pa.bool_())
        if not columns:
            empty: list[Any] = [None if each is None else {} for each in variants]
            return pa.array(empty, dtype)
        arrays = [
            self.column(column, field.type) for column, field in zip(columns, dtype, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(dtype), mask=missing)

    def _scalars(self, variants: Variants, dtype: pa.DataType) -> pa.Array:
        """Values that have the same type are cast together."""
        groups: dict[Any, list[int]] = {}
        values: list[Any] = []
        for row, each in enumerate(variants):
            value, source = (None, None) if each is None else self._value(each, dtype)
            values.append(value)
            if source is not None:
                groups.setdefault(source, []).append(row)
            elif each is not None:
                self._refused(each, dtype)
        parts = [pa.nulls(1, dtype)]
        places = np.zeros(len(variants), np.int64)
        following = 1
        for source, rows in groups.items():
            part = self._cast([values[row] for row in rows], source, dtype)
            if part.null_count:
                for row, known in zip(rows, part.is_valid().to_pylist(), strict=True):
                    each = variants[row]
                    if not known and each is not None:
                        self._refused(each, dtype)
            parts.append(part)
            places[rows] = np.arange(following, following + len(rows))
            following += len(rows)
        return pa.concat_arrays(parts).take(pa.array(places))

    def _value(self, variant: Variant, dtype: pa.DataType) -> tuple[Any, pa.DataType | None]:
        """A value and its type; no type if it has no counterpart."""
        found = variant.kind
        if found in (Kind.OBJECT, Kind.ARRAY):
            if not pa.types.is_string(dtype):
                return None, None
            return json_of(variant, self.zone), pa.string()
        value = variant.scalar()
        if found is Kind.UUID:
            return (value, pa.string()) if pa.types.is_string(dtype) else (None, None)
        source = decimal_type(value) if found is Kind.DECIMAL else TYPES[found]
        before, after = kind(source), kind(dtype)
        castable = after in ("string", before) or after in _CASTABLE[before]
        return (value, source) if castable else (None, None)

    def _cast(self, values: list[Any], source: pa.DataType, dtype: pa.DataType) -> pa.Array:
        """NULL for what has no counterpart."""
        if dtype == TIMESTAMP and kind(source) in ("integral", "decimal"):
            return pa.array([_instant(value) for value in values], pa.int64()).view(dtype)
        storage = pa.int64() if pa.types.is_timestamp(source) else source
        storage = pa.int32() if pa.types.is_date32(source) else storage
        array = pa.array(values, storage)
        if storage != source:
            array = array.view(source)
        if source == dtype:
            return array
        # Of decimals, Spark keeps none here as a BIGINT.
        casting = Casting(source, dtype, "TRY", self.zone_name, False, self.reads_any_zero)
        return converter(casting)(array)


def decimal_type(value: Decimal) -> pa.DataType:
    """The narrowest type of a value without zeros at its end."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    return pa.decimal128(max(len(digits) + max(exponent, 0), scale), scale)


def _instant(seconds: int | Decimal) -> int | None:
    """Microseconds; None if they do not fit into 64 bits."""
    micros = int(EXACT.multiply(Decimal(seconds), Decimal(_MICROS)))
    return micros if micros in _INT64 else None


def _listed(items: pa.Array, rows: Sequence[Sequence[Any]], variants: Variants) -> Lists:
    lengths = np.array([len(row) for row in rows], np.int64)
    return Lists(items, lengths, np.array([each is not None for each in variants], np.bool_))


def copied(variant: Variant) -> Octets:
    """The value alone, with metadata that has no names but its own.

    :raises TransformError: it is malformed.
    """
    builder = VariantBuilder()
    try:
        append(builder, events_of(variant))
        return builder.result()
    except SizeError:
        raise too_large(SIZE_MAX, "variant_get") from None
