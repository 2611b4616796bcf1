"""Protobuf: messages to Arrow and back, by a descriptor of one's own.

Fields go by their numbers, so a message is read without the schema that it was written by: what
is new in it is passed over. Types are those of Spark's ``from_protobuf`` with its options
``upcast.unsigned.ints`` (``uint32`` is BIGINT, ``uint64`` DECIMAL(20,0)) and
``emit.default.values``: only what can tell that it is not there is NULL then.
``google.protobuf.Timestamp`` is TIMESTAMP.

Source: Protobuf, "Encoding" and "Field Presence"; Spark's ProtobufDeserializer.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from engine.errors import ConfigError
from engine.expressions.protobuf_messages import DescriptorSet
from engine.expressions.types import TIMESTAMP
from engine.registry.wire_format import header, indexes, indexes_header, schema_id

KIND: Final = "PROTOBUF"
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND: Final = timedelta(microseconds=1)
_TYPES: Final[dict[int, pa.DataType]] = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}


class MessageType:
    """A message of a descriptor set. Picklable.

    :param descriptors: as of :class:`engine.expressions.protobuf_messages.DescriptorSet`.
    :param name: of the message, with its package or, if that is unique, without.
    :raises ConfigError: there is no such message.
    """

    def __init__(self, descriptors: bytes, name: str) -> None:
        self._descriptors, self._name = descriptors, name
        self.descriptor: Descriptor = DescriptorSet(descriptors).message(name)
        self.make: Any = message_factory.GetMessageClass(self.descriptor)
        self.way = _way(self.descriptor)

    def __reduce__(self) -> Any:
        return MessageType, (self._descriptors, self._name)

    @cached_property
    def dtype(self) -> pa.DataType:
        """:raises ConfigError: a message contains itself."""
        return _struct(self.descriptor, ())


class ProtobufDecoder:
    """Messages as values. Picklable."""

    def __init__(self, message: MessageType) -> None:
        self._message = message

    def __call__(self, framed: pa.Array) -> pa.Array:
        """:raises ValueError: one of them cannot be read; says why."""
        values = [None if each is None else self._value(each) for each in framed.to_pylist()]
        return pa.array(values, self._message.dtype)

    def _value(self, framed: bytes) -> Any:
        message = self._message
        id = schema_id(framed)
        way, at = indexes(framed)
        if way != message.way:
            raise ValueError(
                f"it is the message at {list(way)} of schema {id}, and "
                f"{message.descriptor.full_name} is at {list(message.way)}"
            )
        try:
            return _read(message.make.FromString(framed[at:]))
        except DecodeError as exc:
            raise ValueError(f"it is no {message.descriptor.full_name}: {exc}") from exc


class ProtobufEncoder:
    """Values as messages. Picklable."""

    def __init__(self, id: int, message: MessageType) -> None:
        self._id, self._message = id, message
        self._header = header(id) + indexes_header(message.way)

    def __call__(self, values: pa.Array) -> pa.Array:
        """:raises ValueError: one of them does not fit; says why."""
        rows = values.to_pylist(maps_as_pydicts="strict")
        return pa.array([None if row is None else self._framed(row) for row in rows], pa.binary())

    def _framed(self, row: Any) -> bytes:
        message = self._message.make()
        try:
            _write(message, row)
        except (TypeError, AttributeError, KeyError) as exc:
            name = self._message.descriptor.full_name
            raise ValueError(f"it cannot be a {name}: {type(exc).__name__}: {exc}") from exc
        content: bytes = message.SerializeToString(deterministic=True)
        return self._header + content


def _way(descriptor: Descriptor) -> tuple[int, ...]:
    """How a message is found in its file: its place, in that of the message around it."""
    around = descriptor.containing_type
    names = (
        list(descriptor.file.message_types_by_name)
        if around is None
        else [each.name for each in around.nested_types]
    )
    return (*(() if around is None else _way(around)), names.index(descriptor.name))


def _struct(descriptor: Descriptor, inside: tuple[str, ...]) -> pa.DataType:
    if descriptor.full_name == _TIMESTAMP:
        return TIMESTAMP
    if descriptor.full_name in inside:
        raise ConfigError(
            f"A column cannot have the type of the message {descriptor.full_name}, which contains "
            "itself.",
            hint="Read by a descriptor of your own that leaves that field out.",
        )
    around = (*inside, descriptor.full_name)
    return pa.struct([pa.field(each.name, _field(each, around)) for each in descriptor.fields])


def _field(field: FieldDescriptor, inside: tuple[str, ...]) -> pa.DataType:
    if _is_map(field):
        key, value = field.message_type.fields
        return pa.map_(
            pa.field("key", _one(key, inside), False), pa.field("value", _one(value, inside))
        )
    one = _one(field, inside)
    return pa.list_(pa.field("element", one)) if field.is_repeated else one


def _one(field: FieldDescriptor, inside: tuple[str, ...]) -> pa.DataType:
    if field.message_type is not None:
        return _struct(field.message_type, inside)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()
    return _TYPES[field.cpp_type]


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _read(message: Any) -> Any:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _TIMESTAMP:
        return message.seconds * 1_000_000 + message.nanos // 1_000
    row: dict[str, Any] = {}
    for field in descriptor.fields:
        if field.has_presence and not message.HasField(field.name):
            row[field.name] = None
            continue
        found = getattr(message, field.name)
        if _is_map(field):
            value = field.message_type.fields[1]
            row[field.name] = [(key, _plain(value, each)) for key, each in found.items()]
        elif field.is_repeated:
            row[field.name] = [_plain(field, each) for each in found]
        else:
            row[field.name] = _plain(field, found)
    return row


def _plain(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _read(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name  # of a newer schema
    return Decimal(value) if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 else value


def _write(message: Any, row: Any) -> None:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _TIMESTAMP:
        micros = (row - _EPOCH) // _MICROSECOND
        message.seconds, message.nanos = micros // 1_000_000, micros % 1_000_000 * 1_000
        return
    for name, value in row.items():
        field = descriptor.fields_by_name.get(name)
        if field is None:
            raise KeyError(f"{descriptor.full_name} has no field {name}")
        if value is not None:
            _set(message, field, value)


def _set(message: Any, field: FieldDescriptor, value: Any) -> None:
    if _is_map(field):
        entries, item = getattr(message, field.name), field.message_type.fields[1]
        for key, each in value.items():
            if item.message_type is not None:
                _write(entries[key], each)
            else:
                entries[key] = _scalar(item, each)
    elif field.is_repeated:
        entries = getattr(message, field.name)
        for each in value:
            if field.message_type is not None:
                _write(entries.add(), each)
            else:
                entries.append(_scalar(field, each))
    elif field.message_type is not None:
        part = getattr(message, field.name)
        part.SetInParent()
        _write(part, value)
    else:
        setattr(message, field.name, _scalar(field, value))


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise KeyError(f"{field.enum_type.full_name} has no value {value}")
        return known.number
    return int(value) if isinstance(value, Decimal) else value
