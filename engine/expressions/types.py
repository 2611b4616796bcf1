"""Spark's data types and Arrow's, both ways.

============== ============================ =============
Spark (JSON)   Arrow                        Spark (SQL)
============== ============================ =============
boolean        bool                         BOOLEAN
byte           int8                         TINYINT
short          int16                        SMALLINT
integer        int32                        INT
long           int64                        BIGINT
float          float32                      FLOAT
double         float64                      DOUBLE
decimal(p,s)   decimal128(p, s)             DECIMAL(p,s)
string         string                       STRING
binary         binary                       BINARY
date           date32                       DATE
timestamp      timestamp[us, tz=UTC]        TIMESTAMP
timestamp_ntz  timestamp[us]                TIMESTAMP_NTZ
void           null                         VOID
variant        struct of two binaries       VARIANT
array          list<element>                ARRAY<...>
map            map<key, value>              MAP<..., ...>
struct         struct                       STRUCT<...>
interval day.. duration[us]                 INTERVAL ...
interval year. month_day_nano_interval      INTERVAL ...
============== ============================ =============

Intervals are for use inside of expressions (``ts + INTERVAL 1 DAY``).

A TIMESTAMP is an instant: its Arrow zone is always UTC, whatever the session's zone.

A VARIANT is what PySpark makes of it: a struct that metadata of a field tells from others. Arrow
finds two types equal whatever their metadata, so ask :func:`is_variant`.

Source: ``org.apache.spark.sql.types.DataType.json`` and ``.sql``.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ: Final = pa.timestamp("us")
DAY_TIME_INTERVAL: Final = pa.duration("us")
YEAR_MONTH_INTERVAL: Final = pa.month_day_nano_interval()
VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)

_ATOMIC: Final[dict[str, tuple[pa.DataType, str]]] = {
    "boolean": (pa.bool_(), "BOOLEAN"),
    "byte": (pa.int8(), "TINYINT"),
    "short": (pa.int16(), "SMALLINT"),
    "integer": (pa.int32(), "INT"),
    "long": (pa.int64(), "BIGINT"),
    "float": (pa.float32(), "FLOAT"),
    "double": (pa.float64(), "DOUBLE"),
    "string": (pa.string(), "STRING"),
    "binary": (pa.binary(), "BINARY"),
    "date": (pa.date32(), "DATE"),
    "timestamp": (TIMESTAMP, "TIMESTAMP"),
    "timestamp_ntz": (TIMESTAMP_NTZ, "TIMESTAMP_NTZ"),
    "void": (pa.null(), "VOID"),
    "interval day to second": (DAY_TIME_INTERVAL, "INTERVAL DAY TO SECOND"),
    "interval year to month": (YEAR_MONTH_INTERVAL, "INTERVAL YEAR TO MONTH"),
}
_BY_ARROW: Final = {arrow: (name, sql) for name, (arrow, sql) in _ATOMIC.items()}
_DAY_TIME: Final = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")
_YEAR_MONTH: Final = re.compile(r"interval (year|month)( to month)?")
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")

_INSTEAD: Final = {
    "time": "use TIMESTAMP_NTZ, or microseconds since midnight as BIGINT",
    "interval": "use make_ym_interval or make_dt_interval, which have one kind of units each",
    **dict.fromkeys(("geometry", "geography"), "keep WKB as BINARY"),
}
"""Names of types that have no place in the engine, without what is in brackets → what has."""

_INTERVALS: Final = re.compile(r'"interval (\w+)(?: to (\w+))?"')
_FIELDS: Final = ("year", "month", "day", "hour", "minute", "second")


class UnsupportedTypeError(ValueError):
    """A data type that has no place in the engine."""


def from_spark_json(text: str) -> pa.DataType:
    """The Arrow type of the text that ``DataType.json()`` returns, e.g. ``'"long"'``.

    :raises UnsupportedTypeError: calendar intervals, user-defined types and the like.
    """
    return from_spark(json.loads(text))


def from_spark(value: Any) -> pa.DataType:
    """The Arrow type of a parsed ``DataType.json()``: a name, or a dict for a nested type.

    :raises UnsupportedTypeError: calendar intervals, user-defined types and the like.
    """
    if isinstance(value, str):
        if value == "variant":
            return VARIANT
        if value in _ATOMIC:
            return _ATOMIC[value][0]
        if match := _DECIMAL.fullmatch(value):
            return pa.decimal128(int(match[1]), int(match[2]))
        if _DAY_TIME.fullmatch(value):
            return DAY_TIME_INTERVAL
        if _YEAR_MONTH.fullmatch(value):
            return YEAR_MONTH_INTERVAL
        instead = _INSTEAD.get(value.partition("(")[0])
        advice = f": {instead}" if instead else ""
        raise UnsupportedTypeError(f"the data type {value} is not supported{advice}")
    kind = value["type"]
    if kind == "struct":
        return pa.struct(schema_from_spark(value))
    if kind == "array":
        element = from_spark(value["elementType"])
        return pa.list_(_nullable_if(value["containsNull"], "element", element))
    if kind == "map":
        item = _nullable_if(value["valueContainsNull"], "value", from_spark(value["valueType"]))
        key = from_spark(value["keyType"])
        if pa.types.is_null(key):
            raise UnsupportedTypeError("a map without a type of keys is not supported: cast it")
        return pa.map_(pa.field("key", key, False), item)
    raise UnsupportedTypeError(f"the data type {kind} is not supported")


def cuts_intervals(source: str, target: str) -> bool:
    """Whether an interval somewhere in ``target`` ends with a larger unit than in ``source``.

    Arrow has one type for INTERVAL DAY and INTERVAL DAY TO SECOND.

    :param source: the JSON of a data type.
    :param target: that of another one with the same Arrow type.
    """
    ends = (
        [_FIELDS.index(last or only) for only, last in _INTERVALS.findall(text)]
        for text in (source, target)
    )
    return any(new < old for old, new in zip(*ends, strict=False))


def _nullable_if(nullable: bool, name: str, dtype: pa.DataType) -> pa.Field:
    """A field; of type VOID it can only be NULL, even where Spark says otherwise: ``array()``,
    ``map_entries(NULL)``."""
    return pa.field(name, dtype, nullable or pa.types.is_null(dtype))


def schema_from_spark(value: Any) -> pa.Schema:
    """The Arrow schema of a parsed ``StructType.json()``."""
    return pa.schema(
        [_nullable_if(f["nullable"], f["name"], from_spark(f["type"])) for f in value["fields"]]
    )


def to_spark(dtype: pa.DataType) -> Any:
    """The inverse of :func:`from_spark`: what ``json.loads(DataType.json())`` would return.

    :raises UnsupportedTypeError: Spark has no such type, or the engine does not use it.
    """
    if is_variant(dtype):
        return "variant"
    if dtype in _BY_ARROW:
        return _BY_ARROW[dtype][0]
    if pa.types.is_decimal128(dtype):
        return f"decimal({dtype.precision},{dtype.scale})"
    if pa.types.is_struct(dtype):
        return schema_to_spark(pa.schema(list(dtype)))
    if pa.types.is_map(dtype):
        return {
            "type": "map",
            "keyType": to_spark(dtype.key_type),
            "valueType": to_spark(dtype.item_type),
            "valueContainsNull": dtype.item_field.nullable,
        }
    if pa.types.is_list(dtype):
        return {
            "type": "array",
            "elementType": to_spark(dtype.value_type),
            "containsNull": dtype.value_field.nullable,
        }
    raise UnsupportedTypeError(f"Arrow's {dtype} has no counterpart in Spark")


def schema_to_spark(schema: pa.Schema) -> dict[str, Any]:
    """What ``json.loads(StructType.json())`` would return for this schema."""
    fields = [
        {"name": f.name, "type": to_spark(f.type), "nullable": f.nullable, "metadata": {}}
        for f in schema
    ]
    return {"type": "struct", "fields": fields}


def sql_name(dtype: pa.DataType) -> str:
    """The name in Spark's SQL and error messages, e.g. ``BIGINT``."""
    if is_variant(dtype):
        return "VARIANT"
    if dtype in _BY_ARROW:
        return _BY_ARROW[dtype][1]
    if pa.types.is_decimal128(dtype):
        return f"DECIMAL({dtype.precision},{dtype.scale})"
    if pa.types.is_struct(dtype):
        fields = ", ".join(
            f"{f.name}: {sql_name(f.type)}{'' if f.nullable else ' NOT NULL'}" for f in dtype
        )
        return f"STRUCT<{fields}>"
    if pa.types.is_map(dtype):
        return f"MAP<{sql_name(dtype.key_type)}, {sql_name(dtype.item_type)}>"
    if pa.types.is_list(dtype):
        return f"ARRAY<{sql_name(dtype.value_type)}>"
    raise UnsupportedTypeError(f"Arrow's {dtype} has no counterpart in Spark")


def months_value(months: int) -> tuple[int, int, int]:
    """A value of ``YEAR_MONTH_INTERVAL``, as Arrow takes it."""
    return months, 0, 0  # months, days, nanoseconds


def is_integral(dtype: pa.DataType) -> bool:
    """TINYINT, SMALLINT, INT or BIGINT."""
    return bool(pa.types.is_signed_integer(dtype))


def is_variant(dtype: pa.DataType) -> bool:
    """Whether it is VARIANT, and not another STRUCT with such fields."""
    return bool(dtype.equals(VARIANT, check_metadata=True))


def nullable_inside(dtype: pa.DataType) -> pa.DataType:
    """The type, where all fields may be NULL but the keys of maps."""
    if pa.types.is_map(dtype):
        key = dtype.key_field.with_type(nullable_inside(dtype.key_type))
        return pa.map_(key, _may_be_null(dtype.item_field))
    if pa.types.is_list(dtype):
        return pa.list_(_may_be_null(dtype.value_field))
    if pa.types.is_struct(dtype):
        return pa.struct([_may_be_null(field) for field in dtype])
    return dtype


def _may_be_null(field: pa.Field) -> pa.Field:
    return field.with_type(nullable_inside(field.type)).with_nullable(True)


def has_variant(dtype: pa.DataType) -> bool:
    """Whether it is VARIANT, or there is one inside."""
    if is_variant(dtype):
        return True
    return any(has_variant(dtype.field(index).type) for index in range(dtype.num_fields))
