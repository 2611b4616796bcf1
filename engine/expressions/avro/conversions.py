"""What a record of Avro has, as what a column has.

Source: ``AvroDeserializer`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from engine.expressions.avro.schemas import AvroField, AvroSchemaError, AvroType
from engine.expressions.decimals import EXACT
from engine.expressions.types import DAY_TIME_INTERVAL, YEAR_MONTH_INTERVAL

Convert = Callable[[Any], Any]
FIRST_MODERN_DAY: Final = -141_427
"""15 October 1582: earlier days have other numbers in the hybrid calendar."""
FIRST_MODERN_MICROS: Final = -2_208_988_800_000_000
"""1900: earlier times may be others, by local mean time."""
_DIGITS_OF_LONG: Final = 18
_LONG: Final = 2**63


def conversion(reader: AvroType, dtype: pa.DataType, ancient_fails: bool) -> Convert:
    """What it returns raises ValueError for a value that no column can have.

    :param ancient_fails: as of :class:`engine.expressions.avro.decoding.Decoding`.
    :raises AvroSchemaError: it is not supported.
    """
    if pa.types.is_decimal(dtype):
        if reader.kind not in ("bytes", "fixed"):
            raise AvroSchemaError(f"a DECIMAL in a {reader.kind} is not supported")
        return _decimal(dtype.precision, dtype.scale)
    if pa.types.is_timestamp(dtype):
        millis = reader.logical in ("timestamp-millis", "local-timestamp-millis")
        return _micros(1_000 if millis else 1, ancient_fails and dtype.tz is not None)
    if dtype in (DAY_TIME_INTERVAL, YEAR_MONTH_INTERVAL):
        raise AvroSchemaError("intervals are not supported")
    if pa.types.is_date32(dtype) and ancient_fails:
        return _modern_day
    return itself


def default_of(field: AvroField, dtype: pa.DataType, ancient_fails: bool) -> Any:
    """What a reader has for a field that is not written.

    :raises AvroSchemaError: it is not supported.
    """
    json = field.default
    refused = AvroSchemaError(f"the default {json!r} of the field {field.name} is not supported")
    kind = next((each for each in field.type.values), field.type)
    if json is None and field.type.nullable:
        return None
    if json in ([], {}) and kind.kind in ("array", "map"):
        return []
    if field.type.kind == "union" and len(field.type.values) != 1:
        raise refused
    if kind.kind == "enum" and json in kind.symbols:
        return json.encode()
    for kinds, types, value in _DEFAULTS:
        if kind.kind in kinds and type(json) in types:
            try:
                return conversion(kind, dtype, ancient_fails)(value(json))
            except ValueError:
                raise refused from None
    raise refused


def itself(value: Any) -> Any:
    """As it is."""
    return value


_DEFAULTS: Final[tuple[tuple[tuple[str, ...], tuple[type, ...], Convert], ...]] = (
    (("string",), (str,), str.encode),
    (("bytes", "fixed"), (str,), lambda text: text.encode("latin-1")),
    (("boolean",), (bool,), itself),
    (("int", "long"), (int,), itself),
    (("float", "double"), (int, float), float),
)
"""Kinds of types, what JSON has for them, and what that means."""


def _decimal(precision: int, scale: int) -> Convert:
    limit = 10**precision

    def convert(octets: bytes) -> Decimal:
        if not octets:
            raise ValueError("a number has no bytes")
        unscaled = int.from_bytes(octets, "big", signed=True)
        if precision <= _DIGITS_OF_LONG:
            unscaled = (unscaled + _LONG) % (2 * _LONG) - _LONG
        if not -limit < unscaled < limit:
            raise ValueError(f"a number has more than {precision} digits")
        return Decimal(unscaled).scaleb(-scale, EXACT)

    return convert


def _modern_day(day: int) -> int:
    if day < FIRST_MODERN_DAY:
        raise ValueError("a date before 1582-10-15")
    return day


def _micros(factor: int, ancient_fails: bool) -> Convert:
    def convert(number: int) -> int:
        micros = number * factor
        if not -_LONG <= micros < _LONG:
            raise ValueError("long overflow")
        if ancient_fails and micros < FIRST_MODERN_MICROS:
            raise ValueError("a timestamp before 1900")
        return micros

    return convert
