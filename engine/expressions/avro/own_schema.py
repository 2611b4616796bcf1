"""The schema that Spark writes by where none is given.

Source: ``SchemaConverters.toAvroType`` of Spark.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from engine.expressions.avro.schemas import NULL, AvroField, AvroSchemaError, AvroType
from engine.expressions.types import DAY_TIME_INTERVAL, YEAR_MONTH_INTERVAL, sql_name


def schema_of(dtype: pa.DataType, nullable: bool, name: str, around: str) -> AvroType:
    """What Spark writes by where no schema is given.

    :param name: of a record, or of the fixed type of a DECIMAL; ``around`` its namespace.
    :raises AvroSchemaError: there is none.
    """
    found = _schema_of(dtype, name, around)
    if nullable and found.kind != NULL:
        return AvroType("union", branches=(found, AvroType(NULL)))
    return found


_OWN: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "boolean", pa.int8(): "int", pa.int16(): "int", pa.int32(): "int",
    pa.int64(): "long", pa.float32(): "float", pa.float64(): "double", pa.string(): "string",
    pa.binary(): "bytes", pa.date32(): "int", pa.null(): NULL, DAY_TIME_INTERVAL: "long",
    YEAR_MONTH_INTERVAL: "int",
}  # fmt: skip


def _schema_of(dtype: pa.DataType, name: str, around: str) -> AvroType:
    if dtype in _OWN:
        return AvroType(_OWN[dtype])
    if pa.types.is_timestamp(dtype):
        logical = "local-timestamp-micros" if dtype.tz is None else "timestamp-micros"
        return AvroType("long", attributes={"logicalType": logical})
    if pa.types.is_decimal(dtype):
        said = {"logicalType": "decimal", "precision": dtype.precision, "scale": dtype.scale}
        size = next(size for size in range(1, 17) if 10**dtype.precision <= 1 << (8 * size - 1))
        return AvroType("fixed", f"{around}.{name}.fixed", size=size, attributes=said)
    if pa.types.is_struct(dtype):
        within = f"{around}.{name}" if around else name
        fields = [
            AvroField(each.name, schema_of(each.type, each.nullable, each.name, within))
            for each in dtype
        ]
        return AvroType("record", within, fields)
    if pa.types.is_map(dtype) and pa.types.is_string(dtype.key_type):
        item = dtype.item_field
        return AvroType("map", items=schema_of(item.type, item.nullable, name, around))
    if pa.types.is_list(dtype):
        item = dtype.value_field
        return AvroType("array", items=schema_of(item.type, item.nullable, name, around))
    raise AvroSchemaError(f"a column of {sql_name(dtype)} cannot be written without a schema")
