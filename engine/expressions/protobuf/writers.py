"""Single values of columns as Protobuf's bytes.

Source: ``ProtobufSerializer`` of Spark; ``wrappers.proto``, ``timestamp.proto`` of Protobuf.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.expressions.ansi import failure
from engine.expressions.java_errors import arithmetic_exception
from engine.expressions.protobuf import wire
from engine.expressions.protobuf.conversions import WRAPPED
from engine.expressions.protobuf.messages import UnsupportedMessageError
from engine.expressions.types import sql_name

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor

Write = Callable[[Any], bytes]
_INTS: Final = ("int32", "sint32", "uint32", "fixed32", "sfixed32")
_WRAPPED: Final[dict[pa.DataType, tuple[str, ...]]] = {
    pa.bool_(): ("bool",),
    pa.int32(): ("int32", "uint32"),
    pa.int64(): ("int64", "uint64"),
    pa.float32(): ("float",),
    pa.float64(): ("double",),
    pa.string(): ("string",),
    pa.binary(): ("bytes",),
}
"""Types of columns → types of the field of a message that has one alone."""
_KINDS: Final[dict[pa.DataType, tuple[str, ...]]] = {
    **_WRAPPED,
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.date32()), _INTS),
    pa.int64(): ("int64", "sint64", "uint64", "fixed64", "sfixed64", "uint32"),
}
"""Types of columns → types of fields."""
_UNSIGNED_LONG: Final = pa.decimal128(20, 0)
_LONGS: Final = range(-(2**63), 2**63)
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_LENGTH_KINDS: Final = ("string", "bytes", "message")


def head(field: FieldDescriptor, kind: str) -> bytes:
    """What is written before a value.

    :param kind: the name of the field's type.
    """
    way = wire.LENGTH if kind in _LENGTH_KINDS else wire.READERS[kind][0]
    return wire.tag(field.number, way)


def write_default(field: FieldDescriptor, kind: str) -> bytes:
    """The default of a field that is no message."""
    found = field.default_value
    return wire.WRITERS[kind](found.encode() if kind == "string" else found)


def writer(dtype: pa.DataType, field: FieldDescriptor, kind: str) -> Write:
    """Writes what :func:`engine.expressions.vectors.to_list` has of a column.

    :raises UnsupportedMessageError: it does not go into the field.
    """
    if kind in _KINDS.get(dtype, ()):
        write = wire.WRITERS[kind]
        return (lambda text: write(text.encode())) if kind == "string" else write
    if dtype == _UNSIGNED_LONG and kind == "uint64":
        return _unsigned_long
    if kind == "enum" and pa.types.is_string(dtype):
        zeros = [each for each in field.enum_type.values if each.number == field.default_value]
        if len(zeros) > 1 and not field.has_presence:  # Java leaves out but the first of them
            raise UnsupportedMessageError(
                f"{field.enum_type.full_name}, which has several names for what {field.full_name}"
                " has by default, is not supported: write numbers"
            )
        return _of_enum(field, {each.name: each.number for each in field.enum_type.values})
    if kind == "enum" and dtype == pa.int32():
        return _of_enum(field, {each.number: each.number for each in field.enum_type.values})
    if kind == "message":
        full_name = field.message_type.full_name
        if WRAPPED.get(full_name) in _WRAPPED.get(dtype, ()):
            return _wrapped(WRAPPED[full_name])
        if pa.types.is_timestamp(dtype) and dtype.tz is not None and full_name == _TIMESTAMP:
            return _timestamp
    raise unfit(dtype, field)


def unfit(dtype: pa.DataType, field: FieldDescriptor) -> UnsupportedMessageError:
    return UnsupportedMessageError(
        f"a column of {sql_name(dtype)} does not go into the field {field.full_name}"
    )


def _unsigned_long(number: Decimal) -> bytes:
    value = int(number)
    if value not in _LONGS:
        raise arithmetic_exception("BigInteger out of long range")
    return wire.write_varint(value)


def _of_enum(field: FieldDescriptor, numbers: dict[Any, int]) -> Write:
    known = {value: wire.write_varint(number) for value, number in numbers.items()}

    def write(value: Any) -> bytes:
        if value not in known:
            raise failure(
                "CANNOT_CONVERT_SQL_VALUE_TO_PROTOBUF_ENUM_TYPE",
                f"{value!r} is no value of the enum {field.enum_type.full_name}.",
            )
        return known[value]

    return write


def _wrapped(kind: str) -> Write:
    write, way = wire.WRITERS[kind], wire.READERS.get(kind, (wire.LENGTH,))[0]
    before = wire.tag(1, way)
    zeros = {"bool": False, "string": "", "bytes": b""}
    zero = zeros.get(kind, 0)

    def message(value: Any) -> bytes:
        octets = write(value.encode() if kind == "string" else value)
        is_zero = octets == write(zero.encode() if isinstance(zero, str) else zero)
        return wire.write_length(b"" if is_zero else before + octets)

    return message


def _timestamp(micros: int) -> bytes:
    """In milliseconds; before 1970, both parts are negative."""
    millis = micros // 1_000
    seconds, rest = divmod(abs(millis), 1_000)
    if millis < 0:
        seconds, rest = -seconds, -rest
    parts = ((1, seconds), (2, rest * 1_000_000))
    return wire.write_length(
        b"".join(
            wire.tag(number, wire.VARINT) + wire.write_varint(part)
            for number, part in parts
            if part
        )
    )
