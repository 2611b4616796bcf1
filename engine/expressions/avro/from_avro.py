"""``from_avro``: records of Avro as columns, where Spark has its package spark-avro.

Options: ``mode`` (``FAILFAST``, the default, or ``PERMISSIVE``, which makes NULL of what cannot be
read: of a record NULL in all its fields), ``avroSchema`` (what is read as, where records were
written by another schema), ``datetimeRebaseMode`` (``CORRECTED`` or ``EXCEPTION``),
``recursiveFieldMaxDepth``, ``enableStableIdentifiersForUnionType`` and
``stableIdentifierPrefixForUnionType``, which are in the type of the column.

Source: ``AvroDataToCatalyst``, ``AvroOptions`` of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.avro.binary import MALFORMED, Read
from engine.expressions.avro.decoding import Decoding
from engine.expressions.avro.schemas import AvroSchemaError, AvroType, parse, walk
from engine.expressions.java_errors import java_error
from engine.expressions.malformed import with_bytes
from engine.expressions.options import OptionError, Options, may_fail_fast, refused_for
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import of_columns

REBASE_IN_READ: Final = "spark.sql.avro.datetimeRebaseModeInRead"
_KNOWN: Final = {
    "mode",
    "avroschema",
    "datetimerebasemode",
    "recursivefieldmaxdepth",
    "enablestableidentifiersforuniontype",
    "stableidentifierprefixforuniontype",
}
_BAD: Final = object()


def avro_type(text: str) -> AvroType:
    """:raises OptionError: the schema cannot be used."""
    try:
        return parse(text)
    except AvroSchemaError as error:
        raise OptionError(str(error)) from None


def ancient_fails(mode: str) -> bool:
    """Of a mode to rebase by, whether days and times that it is about fail.

    :raises OptionError: they would be changed.
    """
    if mode.upper() not in ("CORRECTED", "EXCEPTION"):
        raise OptionError(f"the mode {mode} to rebase dates and times by is not supported")
    return mode.upper() == "EXCEPTION"


_MODE: Final = "FAILFAST"


@dataclass(frozen=True)
class _Reading:
    """How the records of a column are read."""

    fails_fast: bool
    read: Read
    null_is: Any
    """What a column has whose type is a union, and a record ``null``."""


def _reading(expr: Expr) -> _Reading:
    """:raises OptionError: it is not supported."""
    options = Options(expr.params["options"], _KNOWN)
    fails_fast = options.fails_fast(_MODE)
    writer = avro_type(expr.params["json_format_schema"])
    other = options.given("avroSchema".lower())
    reader = writer if other is None else avro_type(other)
    if reader is not writer and any("aliases" in each.attributes for each in walk(reader)):
        raise OptionError("aliases in the option avroSchema are not supported")
    if any("avro.java.string" in each.attributes for each in walk(reader)):
        raise OptionError("the attribute avro.java.string is not supported")
    of_many = reader.kind != "record" and [each.kind for each in reader.values] != ["record"]
    if pa.types.is_struct(expr.dtype) and of_many:
        raise OptionError("a schema that is a union of many is not supported")
    fails = ancient_fails(options.text("datetimeRebaseMode".lower(), expr.params[REBASE_IN_READ]))
    try:
        read = Decoding(ancient_fails=fails).of(writer, reader, expr.dtype)
    except AvroSchemaError as error:
        raise OptionError(str(error)) from None
    return _Reading(fails_fast, read, _null_is(reader, expr.dtype))


def _null_is(reader: AvroType, dtype: pa.DataType) -> Any:
    """Java makes zero of what is not there; a text that is not there fails."""
    if len(reader.values) != 1 or pa.types.is_null(dtype):
        return None
    if pa.types.is_boolean(dtype):
        return False
    if pa.types.is_floating(dtype):
        return 0.0
    is_number = pa.types.is_integer(dtype) or pa.types.is_temporal(dtype)
    return 0 if is_number else _BAD


@strict(
    "AvroDataToCatalyst",
    can_fail=may_fail_fast(_MODE),
    supports=refused_for(_reading),
    loop=True,
    reads=("json_format_schema", "options", REBASE_IN_READ),
)
def from_avro(expr: Expr, context: Context) -> ValueFunction:
    """One value of the schema's type per record."""
    reading, dtype = _reading(expr), expr.dtype
    bad: Any = {} if pa.types.is_struct(dtype) else None

    def value(record: bytes | None) -> Any:
        if record is None:
            return None
        try:
            found, _ = reading.read(record, 0)
            if found is None and reading.null_is is not None:
                found = reading.null_is
                if found is _BAD:
                    raise ValueError("it is null")
        except MALFORMED:
            if reading.fails_fast:
                raise _malformed(record) from None
            return bad
        return found

    return of_columns(lambda array: _column([value(each) for each in array.to_pylist()], dtype))


def _column(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """Texts in them are bytes, which need not be UTF-8."""
    as_bytes = with_bytes(dtype)
    array = pa.array(values, as_bytes)
    return array if as_bytes == dtype else array.cast(dtype, safe=False)


def _malformed(record: bytes) -> TransformError:
    return java_error(
        "org.apache.spark.SparkException",
        "Malformed records are detected in record parsing. Current parse Mode: FAILFAST. To process"
        " malformed records as null result, try setting the option 'mode' as 'PERMISSIVE'.",
    )
