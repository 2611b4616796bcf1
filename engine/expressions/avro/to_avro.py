"""``to_avro``: columns as records of Avro, where Spark has its package spark-avro.

Without a schema Spark writes by one of its own, in which what may be NULL is a union; and whether
a column may be, it asks when its optimizer has seen the filters below. So a schema has to be given
wherever that matters.

Source: ``CatalystDataToAvro`` of Spark.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from engine.expressions.avro.encoding import Encode, Encoding
from engine.expressions.avro.from_avro import ancient_fails, avro_type
from engine.expressions.avro.own_schema import schema_of
from engine.expressions.avro.schemas import AvroSchemaError
from engine.expressions.options import OptionError, refused_for
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import of_columns

REBASE_IN_WRITE: Final = "spark.sql.avro.datetimeRebaseModeInWrite"
CASE_SENSITIVE: Final = "spark.sql.caseSensitive"
_ROOT: Final = "topLevelRecord"


def _encode(expr: Expr) -> Encode:
    """:raises OptionError: it is not supported."""
    (child,), text = expr.children, expr.params["json_format_schema"]
    if text is None and _may_have_nulls(child):
        raise OptionError(
            "what Spark writes without a schema depends on what its optimizer knows of NULL: give"
            " the schema as the second argument"
        )
    fails = ancient_fails(expr.params[REBASE_IN_WRITE])
    encoding = Encoding(
        ancient_fails=fails, minds_case=expr.params[CASE_SENSITIVE].lower() == "true"
    )
    try:
        schema = schema_of(child.dtype, _ROOT) if text is None else avro_type(text)
        if pa.types.is_struct(child.dtype) and len(schema.values) > 1:
            raise AvroSchemaError("a struct is not written as a union, but as a record")
        return encoding.of(child.dtype, schema)
    except AvroSchemaError as error:
        raise OptionError(str(error)) from None


def _may_have_nulls(expr: Expr) -> bool:
    return expr.nullable or any(_has_nulls(field) for field in _inner(expr.dtype))


def _has_nulls(field: pa.Field) -> bool:
    return field.nullable or any(_has_nulls(each) for each in _inner(field.type))


def _inner(dtype: pa.DataType) -> list[pa.Field]:
    return [dtype.field(index) for index in range(dtype.num_fields)]


@strict(
    "CatalystDataToAvro",
    can_fail=always,
    supports=refused_for(_encode),
    loop=True,
    reads=("json_format_schema", REBASE_IN_WRITE, CASE_SENSITIVE),
)
def to_avro(expr: Expr, context: Context) -> ValueFunction:
    """One record per value."""
    encode = _encode(expr)
    return of_columns(lambda array: pa.array(_known(array, encode), pa.binary()))


def _known(array: pa.Array, encode: Encode) -> list[bytes | None]:
    """NULL stays NULL, also where the schema has a ``null`` for it."""
    valid = array.is_valid()
    octets = iter(encode(array.filter(valid)))
    return [next(octets) if ok else None for ok in valid.to_pylist()]
