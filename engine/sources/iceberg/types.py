"""A table's columns as the engine has them.

Source: Spark's TypeToSparkType.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from engine.errors import ConfigError
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ
from engine.sources.iceberg.snapshots import OWNER

_PRIMITIVES: Final[dict[type[IcebergType], pa.DataType]] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    FixedType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: TIMESTAMP_NTZ,
    TimestamptzType: TIMESTAMP,
}


def arrow_of(schema: Schema) -> pa.Schema:
    """:raises ConfigError: a column has a type that the engine does not have."""
    fields = []
    for field in schema.fields:
        try:
            fields.append(pa.field(field.name, _arrow(field.field_type)))
        except TypeError as exc:
            raise ConfigError(
                f"{OWNER}: the column {field.name} has the type {exc}, which is not read here.",
                hint="Read the table with Spark's own format iceberg.",
            ) from None
    return pa.schema(fields)


def _arrow(kind: IcebergType) -> pa.DataType:
    """:raises TypeError: there is none; its name."""
    if isinstance(kind, StructType):
        return pa.struct([pa.field(each.name, _arrow(each.field_type)) for each in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(_arrow(kind.element_type))
    if isinstance(kind, MapType):
        return pa.map_(_arrow(kind.key_type), _arrow(kind.value_type))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    found = _PRIMITIVES.get(type(kind))
    if found is None:
        raise TypeError(str(kind))
    return found
