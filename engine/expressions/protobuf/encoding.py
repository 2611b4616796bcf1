"""Columns as messages of Protobuf, column by column: a message is the bytes of its fields.

Source: ``ProtobufSerializer`` of Spark; ``DynamicMessage`` of Protobuf's Java library, which writes
fields in the order of their numbers, and leaves out what is zero where nobody could tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import TransformError
from engine.expressions.java_errors import java_error
from engine.expressions.lists import Lists
from engine.expressions.protobuf import wire
from engine.expressions.protobuf.messages import UnsupportedMessageError, syntax_of
from engine.expressions.protobuf.writers import head, unfit, write_default, writer
from engine.expressions.vectors import to_list

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

Octets = Sequence[bytes | None]
Encode = Callable[[pa.Array], Octets]


class Encoding:
    """How columns are written.

    :param names: of the types of fields, by their numbers.
    :param minds_case: names of fields go together only in the same case.
    """

    def __init__(self, names: dict[int, str], *, minds_case: bool) -> None:
        self._names = names
        self._minds_case = minds_case

    def message(self, dtype: pa.StructType, descriptor: Descriptor) -> Encode:
        """None is written for NULL.

        :raises UnsupportedMessageError: they do not go together.
        """
        syntax_of(descriptor)
        fields = [self._field_of(descriptor, column.name) for column in dtype]
        places = {field.number: place for place, field in enumerate(fields)}
        if len(places) < len(fields):
            raise UnsupportedMessageError(f"two columns are one field of {descriptor.full_name}")
        required = [field for field in descriptor.fields if field.is_required]
        for field in required:
            if field.number not in places:
                raise UnsupportedMessageError(f"the field {field.full_name} has no value")
        parts = [
            self._part(column.type, field) for column, field in zip(dtype, fields, strict=True)
        ]
        order = [place for _, place in sorted(places.items())]
        needed = [(field.name, places[field.number]) for field in required]
        rivals = _rivals(fields)

        def write(array: pa.StructArray) -> Octets:
            valid = array.is_valid()
            known = array.filter(valid)
            columns = [list(part(pc.struct_field(known, [at]))) for at, part in enumerate(parts)]
            rows = []
            for at in range(len(known)):
                row = [column[at] for column in columns]
                if missing := [name for name, place in needed if row[place] is None]:
                    raise _uninitialized(missing)
                lost = {
                    earlier
                    for earlier, later in rivals
                    if row[earlier] is not None and row[later] is not None
                }
                rows.append(b"".join(row[place] or b"" for place in order if place not in lost))
            found = iter(rows)
            return [next(found) if ok else None for ok in valid.to_pylist()]

        return write

    def _field_of(self, descriptor: Descriptor, name: str) -> FieldDescriptor:
        found = [
            each
            for each in descriptor.fields
            if each.name == name or (not self._minds_case and each.name.lower() == name.lower())
        ]
        if len(found) != 1:
            many = "more than one field" if found else "no field"
            raise UnsupportedMessageError(f"{descriptor.full_name} has {many} {name}")
        return found[0]

    def _part(self, dtype: pa.DataType, field: FieldDescriptor) -> Encode:
        """With its tag; None where the field is not set."""
        if self._names[field.type] == "group":
            raise UnsupportedMessageError(f"the group {field.full_name} is not supported")
        if pa.types.is_null(dtype):
            absent = self._absent(field)
            return lambda array: [absent] * len(array)
        if pa.types.is_map(dtype) and field.is_repeated and _is_map(field):
            return self._entries(dtype, field)
        if pa.types.is_list(dtype) != field.is_repeated or _is_map(field):
            raise unfit(dtype, field)
        if field.is_repeated:
            return self._repeated(dtype.value_type, field)
        return self._singular(dtype, field)

    def _absent(self, field: FieldDescriptor) -> bytes | None:
        """What is written for NULL."""
        if not field.is_required or field.message_type is not None:
            return None
        kind = self._names[field.type]
        return head(field, kind) + write_default(field, kind)

    def _singular(self, dtype: pa.DataType, field: FieldDescriptor) -> Encode:
        encode, absent = self._with_tag(dtype, field), self._absent(field)
        if field.has_presence or pa.types.is_binary(dtype):  # Java finds no bytes equal to others
            return lambda array: [absent if each is None else each for each in encode(array)]
        kind = self._names[field.type]
        zero = head(field, kind) + write_default(field, kind)
        return lambda array: [b"" if each == zero else each for each in encode(array)]

    def _with_tag(self, dtype: pa.DataType, field: FieldDescriptor) -> Encode:
        encode, before = self._one(dtype, field), head(field, self._names[field.type])
        return lambda array: [None if each is None else before + each for each in encode(array)]

    def _repeated(self, dtype: pa.DataType, field: FieldDescriptor) -> Encode:
        encode, before = self._one(dtype, field), head(field, self._names[field.type])
        packed = wire.tag(field.number, wire.LENGTH) if field.is_packed else b""

        def joined(items: Octets) -> bytes:
            if None in items:
                raise java_error(
                    "java.lang.NullPointerException", hint="No item of an array may be NULL."
                )
            if packed and items:
                return packed + wire.write_length(b"".join(each or b"" for each in items))
            return b"".join(before + each for each in items if each is not None)

        return lambda array: _grouped(Lists.of(array), encode, joined)

    def _entries(self, dtype: pa.MapType, field: FieldDescriptor) -> Encode:
        key, value = field.message_type.fields
        of_key = self._with_tag(dtype.key_type, key)
        of_value = self._with_tag(dtype.item_type, value)
        before, kind = wire.tag(field.number, wire.LENGTH), self._names[value.type]
        of_null = None
        if value.message_type is None:
            of_null = head(value, kind) + write_default(value, kind)

        def written(items: pa.StructArray) -> Octets:
            keys = of_key(pc.struct_field(items, [0]))
            values = of_value(pc.struct_field(items, [1]))
            if of_null is None and None in values:
                raise java_error(
                    "java.lang.UnsupportedOperationException",
                    "FieldDescriptor.getDefaultValue() called on an embedded message field.",
                )
            return [
                before + wire.write_length((key or b"") + (value or of_null or b""))
                for key, value in zip(keys, values, strict=True)
            ]

        return lambda array: _grouped(
            Lists.of(array), written, lambda entries: b"".join(each or b"" for each in entries)
        )

    def _one(self, dtype: pa.DataType, field: FieldDescriptor) -> Encode:
        """Without a tag."""
        if pa.types.is_struct(dtype) and field.message_type is not None:
            message = self.message(dtype, field.message_type)
            return lambda array: [
                None if octets is None else wire.write_length(octets) for octets in message(array)
            ]
        write = writer(dtype, field, self._names[field.type])
        return lambda array: [None if value is None else write(value) for value in to_list(array)]


def _rivals(fields: list[FieldDescriptor]) -> list[tuple[int, int]]:
    """Pairs of places in one oneof: if both are set, the later one counts."""
    return [
        (earlier, later)
        for later, field in enumerate(fields)
        for earlier in range(later)
        if field.containing_oneof is not None
        and fields[earlier].number in {each.number for each in field.containing_oneof.fields}
    ]


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _grouped(lists: Lists, encode: Encode, joined: Callable[[Octets], bytes]) -> Octets:
    """What is written for the items of each row."""
    items, found = encode(lists.items), list[bytes | None]()
    at = 0
    for length, valid in zip(lists.lengths.tolist(), lists.valid.tolist(), strict=True):
        found.append(joined(items[at : at + length]) if valid else None)
        at += length
    return found


def _uninitialized(names: list[str]) -> TransformError:
    return java_error(
        "org.sparkproject.spark_protobuf.protobuf.UninitializedMessageException",
        f"Message missing required fields: {', '.join(names)}",
    )
