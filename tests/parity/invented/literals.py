"""Random literals of any type, as SQL."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from pyspark.sql import types as t

from tests.parity.columns import COLUMNS
from tests.parity.invented.columns import fitting_decimals

_EPOCH: Final = datetime(1970, 1, 1)
_MICROS_MIN: Final = (datetime.min - _EPOCH) // timedelta(microseconds=1)
_MICROS_MAX: Final = (datetime.max - _EPOCH) // timedelta(microseconds=1)
_NULL_SHARE: Final = 0.15
_DRAWN_AS: Final[Mapping[type[t.DataType], str]] = {
    t.BooleanType: "t", t.ByteType: "b", t.ShortType: "h", t.IntegerType: "i", t.LongType: "l",
    t.FloatType: "f", t.DoubleType: "d", t.StringType: "s", t.BinaryType: "bin", t.DateType: "dt",
    t.TimestampType: "ts", t.TimestampNTZType: "ntz",
}  # fmt: skip
"""The column whose values a literal of the type has."""
_VARIANTS: Final = ("null", "1", "-2.5", '"text"', "true", '{"a": {"b": 1}, "c": [1, "x"]}', "[]")


def literal(rng: random.Random, dtype: t.DataType) -> str:
    """A literal, sometimes a typed NULL."""
    if isinstance(dtype, t.NullType):
        return "NULL"
    return null(dtype) if rng.random() < _NULL_SHARE else _value(rng, dtype)


def null(dtype: t.DataType) -> str:
    """A NULL of the type."""
    if isinstance(dtype, t.NullType):
        return "NULL"
    return f"CAST(NULL AS {dtype.simpleString()})"


def _value(rng: random.Random, dtype: t.DataType) -> str:
    """One that is not NULL, at the top at least."""
    if isinstance(dtype, t.ArrayType):
        items = [literal(rng, dtype.elementType) for _ in range(rng.randint(0, 3))]
        array = f"array({', '.join(items)})"
        return array if items else f"CAST({array} AS {dtype.simpleString()})"
    if isinstance(dtype, t.MapType):
        if rng.random() < 0.3:
            return f"CAST(map() AS {dtype.simpleString()})"
        return f"map({_value(rng, dtype.keyType)}, {literal(rng, dtype.valueType)})"
    if isinstance(dtype, t.StructType):
        fields = [f"'{field.name}', {literal(rng, field.dataType)}" for field in dtype.fields]
        return f"named_struct({', '.join(fields)})"
    if isinstance(dtype, t.DayTimeIntervalType):
        return f"INTERVAL '{rng.choice(['0', '1', '-3', '400'])}' DAY"
    if isinstance(dtype, t.YearMonthIntervalType):
        return f"INTERVAL '{rng.choice(['0', '1', '-13', '400'])}' MONTH"
    if isinstance(dtype, t.DecimalType):
        precision = rng.choice([dtype.precision, 1, 18, 38])
        scale = dtype.scale if precision == dtype.precision else rng.choice([0, precision])
        return f"{_present(rng, fitting_decimals(precision, scale)):f}BD"
    if isinstance(dtype, t.VariantType):
        return f"parse_json('{rng.choice(_VARIANTS)}')"
    value = _present(rng, COLUMNS[_DRAWN_AS[type(dtype)]][1])
    return _WRITTEN[type(dtype)](value)


def _present(rng: random.Random, draw: Callable[[random.Random], Any]) -> Any:
    while (value := draw(rng)) is None:
        pass
    return value


def _floating(sql: str, suffix: str) -> Callable[[float], str]:
    def written(value: float) -> str:
        if math.isfinite(value):
            return f"{value!r}{suffix}"
        return f"CAST('{value!r}' AS {sql})"

    return written


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\x00", "\\0")
    return "'" + escaped.replace("\n", "\\n").replace("\r", "\\r") + "'"


def _moment(sql: str, zone: str) -> Callable[[int], str]:
    def written(micros: int) -> str:
        kept = min(max(micros, _MICROS_MIN), _MICROS_MAX)
        return f"{sql}'{(_EPOCH + timedelta(microseconds=kept)).isoformat(' ')}{zone}'"

    return written


_WRITTEN: Final[Mapping[type[t.DataType], Callable[[Any], str]]] = {
    t.BooleanType: lambda value: str(value).lower(),
    t.ByteType: "{}Y".format,
    t.ShortType: "{}S".format,
    t.IntegerType: str,
    t.LongType: "{}L".format,
    t.FloatType: _floating("FLOAT", "F"),
    t.DoubleType: _floating("DOUBLE", "D"),
    t.StringType: _text,
    t.BinaryType: lambda value: f"X'{value.hex()}'",
    t.DateType: lambda days: f"DATE'{(_EPOCH + timedelta(days=days)).date().isoformat()}'",
    t.TimestampType: _moment("TIMESTAMP", "Z"),
    t.TimestampNTZType: _moment("TIMESTAMP_NTZ", ""),
}
