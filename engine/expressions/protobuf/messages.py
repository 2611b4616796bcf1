"""Messages of Protobuf as trees of Python values, by the numbers of their fields.

A tree has what was written: repeated fields are lists, messages are trees again. Numbers are as
they are written, those of enums too.

Source: ``DynamicMessage``, ``MessageReflection`` of Protobuf's Java library.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from engine.expressions.java_utf8 import decoded
from engine.expressions.protobuf import wire

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

Tree = dict[int, Any]


class UnsupportedMessageError(ValueError):
    """Why a message cannot be read or written here."""


class Field:
    """How one field is read.

    :param kind: the name of its type.
    :param legacy: it is of proto2, to which all enums are closed.
    :param strict_text: a text that is no UTF-8 makes the message a malformed one.
    """

    def __init__(
        self, field: FieldDescriptor, kind: str, *, legacy: bool, strict_text: bool
    ) -> None:
        self.name: str = field.name
        self.number: int = field.number
        self.kind = kind
        self.repeated = bool(field.is_repeated)
        self.required = bool(field.is_required)
        self.has_presence = bool(field.has_presence)
        self.rivals: list[int] = []
        if field.containing_oneof is not None:
            numbers = [each.number for each in field.containing_oneof.fields]
            self.rivals = [number for number in numbers if number != field.number]
        self.symbols: dict[int, str] = {}
        self.closed = False
        if field.enum_type is not None:
            self.enum = field.enum_type.name
            self.symbols = symbols_of(field)
            self.closed = legacy or bool(field.enum_type.is_closed)
        self.strict_text = strict_text
        self.message: Messages | None = None
        number = wire.READERS.get(kind)
        self.wire, self.read = number or (wire.LENGTH, self._read_octets)
        self.packable = self.repeated and number is not None
        is_value = kind != "message" and not self.repeated
        self.default: Any = field.default_value if is_value else None
        self.has_default = is_value and bool(field.has_default_value)

    def _read_octets(self, data: bytes, at: int, end: int) -> tuple[Any, int]:
        at, end = wire.read_length(data, at, end)
        octets = data[at:end]
        if self.kind == "string":
            return (octets.decode() if self.strict_text else decoded(octets)), end
        return octets, end

    def is_zero(self, value: Any) -> bool:
        """Whether a value says nothing where fields cannot tell whether they are there."""
        zero = bool(value == self.default)
        return zero and not (isinstance(value, float) and math.copysign(1.0, value) < 0)


class Messages:
    """Reads messages of one type.

    :param names: of the types of fields, by their numbers.
    :param known: those of all types that have been met, by their full names.
    :raises UnsupportedMessageError: there are fields that are not supported.
    """

    def __init__(
        self, descriptor: Descriptor, names: dict[int, str], known: dict[str, Messages]
    ) -> None:
        known[descriptor.full_name] = self
        self.name: str = descriptor.name
        self.full_name: str = descriptor.full_name
        self.is_entry = bool(descriptor.GetOptions().map_entry)
        syntax = syntax_of(descriptor)
        checks = bool(descriptor.file.GetOptions().java_string_check_utf8)
        strict = syntax == "proto3" or self.is_entry or checks
        self.fields: dict[int, Field] = {}
        for each in descriptor.fields:
            kind = names[each.type]
            if kind == "group":
                raise UnsupportedMessageError(f"the group {each.full_name} is not supported")
            field = Field(each, kind, legacy=syntax == "proto2", strict_text=strict)
            self.fields[field.number] = field
            if each.message_type is not None:
                inner = each.message_type
                field.message = known.get(inner.full_name) or Messages(inner, names, known)
        self.by_name = {field.name: field for field in self.fields.values()}
        self._required = [field.number for field in self.fields.values() if field.required]

    def read(self, data: bytes) -> Tree:
        """A whole message.

        :raises ValueError: it is malformed, or a field is written otherwise than it is known; and
            others, see :data:`engine.expressions.protobuf.wire.MALFORMED`.
        """
        tree: Tree = {}
        self._merge(tree, data, 0, len(data), 0)
        self._check_required(tree)
        return tree

    def _merge(self, tree: Tree, data: bytes, at: int, end: int, depth: int) -> None:
        wire.check_depth(depth)
        while at < end:
            number, kind, at = wire.read_tag(data, at, end)
            field = self.fields.get(number)
            if field is not None and kind == field.wire and not field.message:
                value, at = field.read(data, at, end)
                self._put(tree, field, value, depth)
            elif field is not None and kind == wire.LENGTH and field.message:
                at, inner_end = wire.read_length(data, at, end)
                inner: Tree = {}
                if field.repeated:
                    tree.setdefault(number, []).append(inner)
                else:
                    self._choose(tree, field)
                    inner = tree.setdefault(number, inner)
                field.message._merge(inner, data, at, inner_end, depth + 1)
                at = inner_end
            elif field is not None and field.packable and kind == wire.LENGTH:
                at, inner_end = wire.read_length(data, at, end)
                while at < inner_end:
                    value, at = field.read(data, at, inner_end)
                    self._put(tree, field, value, depth)
            else:
                at = wire.skip(data, at, end, number, kind, depth)
                if depth == 0 and field is not None:
                    raise ValueError(f"the field {field.name} is written as another type")

    def _put(self, tree: Tree, field: Field, value: Any, depth: int) -> None:
        if field.closed and value not in field.symbols:
            if depth == 0:
                raise ValueError(f"the field {field.name} has an unknown value")
        elif field.repeated:
            tree.setdefault(field.number, []).append(value)
        else:
            self._choose(tree, field)
            if not field.has_presence and field.is_zero(value):
                tree.pop(field.number, None)
            else:
                tree[field.number] = value

    @staticmethod
    def _choose(tree: Tree, field: Field) -> None:
        """Of a oneof the last one counts."""
        for number in field.rivals:
            tree.pop(number, None)

    def _check_required(self, tree: Tree) -> None:
        if any(number not in tree for number in self._required):
            raise ValueError(f"a required field of {self.full_name} is missing")
        for number, field in self.fields.items():
            found = tree.get(number, {} if self.is_entry else None)
            if field.message is not None and found is not None:
                for each in found if field.repeated else (found,):
                    field.message._check_required(each)


def symbols_of(field: FieldDescriptor) -> dict[int, str]:
    """Of an enum: of several that have a number, the first counts."""
    found: dict[int, str] = {}
    for each in field.enum_type.values:
        found.setdefault(each.number, each.name)
    return found


def syntax_of(descriptor: Descriptor) -> str:
    """Of the file that a message is in.

    :raises UnsupportedMessageError: it is one of the editions that came after proto3.
    """
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto()
    descriptor.file.CopyToProto(file)
    if file.syntax not in ("", "proto2", "proto3"):
        raise UnsupportedMessageError(
            f"the file {file.name} has the syntax {file.syntax}, which is not supported"
        )
    return str(file.syntax or "proto2")
