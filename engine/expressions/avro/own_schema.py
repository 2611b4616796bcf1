"""The schema that Spark writes by where none is given.

Source: ``SchemaConverters.toAvroType`` of Spark.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from engine.expressions.avro.schemas import AvroField, AvroSchemaError, AvroType
from engine.expressions.types import sql_name

_OWN: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "boolean", pa.int8(): "int", pa.int16(): "int", pa.int32(): "int",
    pa.int64(): "long", pa.float32(): "float", pa.float64(): "double", pa.string(): "string",
    pa.binary(): "bytes", pa.date32(): "int",
}  # fmt: skip


def schema_of(dtype: pa.DataType, name: str, around: str = "") -> AvroType:
    """Of values that are never NULL, in no depth.

    :param name: of a record, or of the fixed type of a DECIMAL; ``around`` its namespace.
    :raises AvroSchemaError: there is none.
    """
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
        fields = [AvroField(each.name, schema_of(each.type, each.name, within)) for each in dtype]
        return AvroType("record", within, fields)
    if pa.types.is_map(dtype) and pa.types.is_string(dtype.key_type):
        return AvroType("map", items=schema_of(dtype.item_type, name, around))
    if pa.types.is_list(dtype):
        return AvroType("array", items=schema_of(dtype.value_type, name, around))
    raise AvroSchemaError(f"a column of {sql_name(dtype)} cannot be written without a schema")
