"""What a message of Protobuf has, as what a column has.

Structs become dictionaries; maps become pairs, in the order of the message, where a key may be
there twice.

Source: ``ProtobufDeserializer``, ``SchemaConverters`` of Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from engine.expressions.protobuf import wire
from engine.expressions.protobuf.messages import Field, Messages, Tree, UnsupportedMessageError

Convert = Callable[[Any], Any]
WRAPPED: Final = {
    "google.protobuf.BoolValue": "bool",
    "google.protobuf.Int32Value": "int32",
    "google.protobuf.UInt32Value": "uint32",
    "google.protobuf.Int64Value": "int64",
    "google.protobuf.UInt64Value": "uint64",
    "google.protobuf.StringValue": "string",
    "google.protobuf.BytesValue": "bytes",
    "google.protobuf.FloatValue": "float",
    "google.protobuf.DoubleValue": "double",
}
"""Messages of a single value → the type of their field."""
_LONG_BITS: Final = 64


class Conversion:
    """From trees to what columns have.

    :param emits_defaults: the option ``emit.default.values``.
    :param minds_case: names of fields go together only in the same case.
    """

    def __init__(self, *, emits_defaults: bool, minds_case: bool) -> None:
        self._emits_defaults = emits_defaults
        self._minds_case = minds_case

    def of(self, messages: Messages, dtype: pa.DataType) -> Convert:
        """
        :raises UnsupportedMessageError: the column has a type that is not supported.
        """
        if not self._minds_case:
            counts = Counter(name.lower() for name in messages.by_name)
            if twice := [name for name, count in counts.items() if count > 1]:
                raise UnsupportedMessageError(
                    f"{messages.full_name} has the field {twice[0]} in more than one case: set"
                    " spark.sql.caseSensitive"
                )
        parts = []
        for each in dtype:
            field = messages.by_name.get(each.name)
            if field is not None:  # else it stands in a struct that would be empty
                parts.append((each.name, field, self._of_field(field, each)))

        def struct(tree: Tree) -> dict[str, Any]:
            row = {}
            for name, field, convert in parts:
                value = self._value(tree, field)
                row[name] = None if value is None else convert(value)
            return row

        return struct

    def _value(self, tree: Tree, field: Field) -> Any:
        if field.repeated:
            return tree.get(field.number, ())
        value = tree.get(field.number)
        if value is None and (
            field.has_default or (self._emits_defaults and not field.has_presence)
        ):
            return field.default
        return value

    def _of_field(self, field: Field, column: pa.Field) -> Convert:
        dtype = column.type
        if not field.repeated:
            return self._of_one(field, column)
        if field.message is not None and field.message.is_entry and pa.types.is_map(dtype):
            return self._of_entries(field.message, dtype)
        if not pa.types.is_list(dtype):
            raise UnsupportedMessageError(f"the repeated field {field.name} is no array")
        one = self._of_one(field, dtype.value_field)
        return lambda values: [one(value) for value in values]

    def _of_entries(self, entry: Messages, dtype: pa.MapType) -> Convert:
        key, value = entry.by_name["key"], entry.by_name["value"]
        of_key = self._of_one(key, dtype.key_field)
        of_value = self._of_one(value, dtype.item_field)
        empty: Any = {} if value.message else value.default

        def entries(trees: list[Tree]) -> list[tuple[Any, Any]]:
            return [
                (of_key(tree.get(key.number, key.default)), of_value(tree.get(value.number, empty)))
                for tree in trees
            ]

        return entries

    def _of_one(self, field: Field, column: pa.Field) -> Convert:
        dtype = column.type
        if field.message is not None:
            return self._of_message(field.message, column)
        if field.kind == "enum":
            if pa.types.is_integer(dtype):
                return _itself
            unknown = f"UNKNOWN_ENUM_VALUE_{field.enum}_"
            return lambda number: field.symbols.get(number, f"{unknown}{number}")
        if pa.types.is_decimal(dtype):
            return Decimal
        if dtype == pa.int32():
            return lambda number: wire.signed(number, 32)
        if dtype == pa.int64() and field.kind in ("uint64", "fixed64"):
            return lambda number: wire.signed(number, _LONG_BITS)
        return _itself

    def _of_message(self, message: Messages, column: pa.Field) -> Convert:
        dtype = column.type
        if pa.types.is_struct(dtype):
            return self.of(message, dtype)
        if pa.types.is_timestamp(dtype) or pa.types.is_duration(dtype):
            return _micros(message)
        value = message.by_name.get("value")
        kind = WRAPPED.get(message.full_name)
        if value is None or value.repeated or value.kind != kind or len(message.fields) != 1:
            raise UnsupportedMessageError(
                f"the message {message.full_name} as a {dtype} is not supported"
            )
        if not column.nullable and not self._emits_defaults:
            raise UnsupportedMessageError(
                f"{message.full_name} in an array or a map, where Spark's type has no NULL for what"
                " is zero, is not supported: set the option emit.default.values, too"
            )
        convert, wrapped = self._of_one(value, column), value

        def unwrapped(tree: Tree) -> Any:
            found = self._value(tree, wrapped)
            return None if found is None else convert(found)

        return unwrapped


def _micros(message: Messages) -> Convert:
    """Of a ``Timestamp``, or of a ``Duration``: as Java's arithmetic has it."""
    seconds, nanos = message.by_name["seconds"], message.by_name["nanos"]
    if seconds.wire != wire.VARINT or [seconds.kind, nanos.kind] != ["int64", "int32"]:
        raise UnsupportedMessageError(f"the fields of {message.full_name} are of other types")

    def convert(tree: Tree) -> int:
        millis = wire.signed(tree.get(seconds.number, seconds.default) * 1_000, _LONG_BITS)
        micros = millis * 1_000
        if wire.signed(micros, _LONG_BITS) != micros:
            raise ValueError("long overflow")
        rest = tree.get(nanos.number, nanos.default)
        rest = rest // 1_000 if rest >= 0 else -(-rest // 1_000)
        return wire.signed(micros + rest, _LONG_BITS)

    return convert


def _itself(value: Any) -> Any:
    return value
