"""Reads values out of VARIANT, with Spark's checks of what may be malformed.

Source: ``Variant`` and ``VariantUtil`` of Spark.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID as Uuid

from engine.expressions.decimals import EXACT
from engine.expressions.java_utf8 import decoded
from engine.expressions.variants import encoding
from engine.expressions.variants.building import Event, Events
from engine.expressions.variants.encoding import ARRAY, OBJECT, PRIMITIVE, SHORT_TEXT, java_order
from engine.expressions.variants.variant_errors import (
    constructed_too_large,
    malformed,
    out_of_bounds,
    unknown_primitive,
)

_INT32_MAX: Final = 2**31 - 1
_SEARCHED_IN_ORDER: Final = 32
"""An object with so many values is searched as an ordered one."""
VERSION_MASK: Final = 0x0F


class Kind(Enum):
    """What a value is."""

    OBJECT = "object"
    ARRAY = "array"
    NULL = "null"
    BOOLEAN = "boolean"
    LONG = "long"
    STRING = "string"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    FLOAT = "float"
    BINARY = "binary"
    UUID = "uuid"


_PRIMITIVES: Final = {
    encoding.NULL: Kind.NULL,
    **dict.fromkeys((encoding.TRUE, encoding.FALSE), Kind.BOOLEAN),
    **dict.fromkeys((encoding.INT1, encoding.INT2, encoding.INT4, encoding.INT8), Kind.LONG),
    encoding.DOUBLE: Kind.DOUBLE,
    **dict.fromkeys(encoding.DECIMAL_DIGITS, Kind.DECIMAL),
    encoding.DATE: Kind.DATE,
    encoding.TIMESTAMP: Kind.TIMESTAMP,
    encoding.TIMESTAMP_NTZ: Kind.TIMESTAMP_NTZ,
    encoding.FLOAT: Kind.FLOAT,
    encoding.BINARY: Kind.BINARY,
    encoding.LONG_TEXT: Kind.STRING,
    encoding.UUID: Kind.UUID,
}
_KINDS: Final = {SHORT_TEXT: Kind.STRING, OBJECT: Kind.OBJECT, ARRAY: Kind.ARRAY}


class Metadata:
    """The names that the objects of a value have.

    :raises TransformError: it is of another version, or too large.
    """

    def __init__(self, octets: bytes) -> None:
        if not octets or octets[0] & VERSION_MASK != encoding.VERSION:
            raise malformed()
        if len(octets) > encoding.SIZE_MAX:
            raise constructed_too_large()
        self._octets = octets
        self._width = (octets[0] >> 6) + 1
        self._names: dict[int, str] = {}

    def name(self, number: int) -> str:
        """The name of that number.

        :raises TransformError: there is none.
        """
        if number not in self._names:
            self._names[number] = self._read(number)
        return self._names[number]

    def _read(self, number: int) -> str:
        octets, width = self._octets, self._width
        count = unsigned(octets, 1, width)
        if number >= count:
            raise malformed()
        first = 1 + (count + 2) * width
        start = unsigned(octets, 1 + (number + 1) * width, width)
        end = unsigned(octets, 1 + (number + 2) * width, width)
        if start > end:
            raise malformed()
        _check(octets, first + end - 1)
        return decoded(octets[first + start : first + end])


class Variant(NamedTuple):
    """A value within the bytes of one that has it.

    :param position: of its first byte.
    """

    octets: bytes
    metadata: Metadata
    position: int

    @staticmethod
    def of(octets: bytes, metadata: Metadata) -> Variant:
        """The outermost value.

        :raises TransformError: it is too large.
        """
        if len(octets) > encoding.SIZE_MAX:
            raise constructed_too_large()
        return Variant(octets, metadata, 0)

    @property
    def kind(self) -> Kind:
        """:raises TransformError: there is nothing, or of a type that is not known."""
        low, high = self._first()
        if low != PRIMITIVE:
            return _KINDS[low]
        if high not in _PRIMITIVES:
            raise unknown_primitive(high)
        return _PRIMITIVES[high]

    def _first(self) -> tuple[int, int]:
        _check(self.octets, self.position)
        first = self.octets[self.position]
        return first & 3, first >> 2

    def scalar(self) -> Any:
        """The value of what is neither an object nor an array: bool, int, str, float,
        :class:`Decimal` without zeros at its end, bytes, None; times as days or microseconds; an
        UUID as its text.

        :raises TransformError: it is malformed.
        """
        return _SCALARS[self.kind](self)

    def size(self) -> int:
        """How many bytes it has.

        :raises TransformError: it is malformed.
        """
        low, high = self._first()
        if low == SHORT_TEXT:
            return 1 + high
        if low in (OBJECT, ARRAY):
            layout = self._layout()
            end = layout.offsets + layout.length * layout.width
            return layout.data - self.position + unsigned(self.octets, end, layout.width)
        if high in (encoding.BINARY, encoding.LONG_TEXT):
            return 5 + unsigned(self.octets, self.position + 1, 4)
        if high not in encoding.SIZES:
            raise unknown_primitive(high)
        return encoding.SIZES[high]

    def own(self) -> bytes:
        """Its bytes.

        :raises TransformError: there are less than it should have.
        """
        end = self.position + self.size()
        _check(self.octets, end - 1)
        return self.octets[self.position : end]

    def _layout(self) -> _Layout:
        low, high = self._first()
        is_object = low == OBJECT
        count_width = 4 if high >> (4 if is_object else 2) & 1 else 1
        count = unsigned(self.octets, self.position + 1, count_width)
        id_width = (high >> 2 & 3) + 1 if is_object else 0
        width = (high & 3) + 1
        ids = self.position + 1 + count_width
        offsets = ids + count * id_width
        return _Layout(count, id_width, width, ids, offsets, offsets + (count + 1) * width)

    def items(self) -> Iterator[Variant]:
        """The items of an array.

        :raises TransformError: it is malformed.
        """
        layout = self._layout()
        for index in range(layout.length):
            yield self._at(layout, index)

    def item(self, index: int) -> Variant | None:
        """An item of an array; None if there is none."""
        layout = self._layout()
        return self._at(layout, index) if index < layout.length else None

    def fields(self) -> Iterator[tuple[str, Variant]]:
        """Names and values of an object.

        :raises TransformError: it is malformed.
        """
        layout = self._layout()
        for index in range(layout.length):
            number = unsigned(self.octets, layout.ids + index * layout.id_width, layout.id_width)
            value = self._at(layout, index)
            yield self.metadata.name(number), value

    def field(self, name: str) -> Variant | None:
        """The value of that name in an object; None if there is none."""
        layout = self._layout()
        if layout.length < _SEARCHED_IN_ORDER:
            for index in range(layout.length):
                if self._name(layout, index) == name:
                    return self._at(layout, index)
            return None
        low, high, wanted = 0, layout.length - 1, java_order(name)
        while low <= high:
            middle = (low + high) // 2
            found = java_order(self._name(layout, middle))
            if found == wanted:
                return self._at(layout, middle)
            low, high = (middle + 1, high) if found < wanted else (low, middle - 1)
        return None

    def _name(self, layout: _Layout, index: int) -> str:
        at = layout.ids + index * layout.id_width
        return self.metadata.name(unsigned(self.octets, at, layout.id_width))

    def _at(self, layout: _Layout, index: int) -> Variant:
        offset = unsigned(self.octets, layout.offsets + index * layout.width, layout.width)
        return Variant(self.octets, self.metadata, layout.data + offset)


class _Layout(NamedTuple):
    """Of an object or an array: how many values it has, and where what is.

    :param width: of offsets.
    """

    length: int
    id_width: int
    width: int
    ids: int
    offsets: int
    data: int


def events_of(variant: Variant) -> Events:
    """A value from its beginning to its end, however deep it is. Scalars are not looked into.

    :raises TransformError: it is malformed.
    """
    opened: list[Iterator[tuple[str | None, Variant]]] = []
    present = variant
    while True:
        low = present._first()[0]
        if low == OBJECT:
            yield Event.OBJECT, None
            opened.append(iter(present.fields()))
        elif low == ARRAY:
            yield Event.ARRAY, None
            opened.append((None, item) for item in present.items())
        else:
            octets = present.own()
            yield Event.SCALAR, (octets, len(octets))
        while opened:
            following = next(opened[-1], None)
            if following is not None:
                name, present = following
                if name is not None:
                    yield Event.NAME, name
                break
            opened.pop()
            yield Event.END, None
        else:
            return


def unsigned(octets: bytes, position: int, width: int) -> int:
    """A number from 0 to the largest of Java's ``int``.

    :raises TransformError: there is none.
    """
    if position < 0 or position + width > len(octets):
        raise malformed()
    number = int.from_bytes(octets[position : position + width], "little")
    if number > _INT32_MAX:
        raise malformed()
    return number


def _check(octets: bytes, position: int) -> None:
    if position < 0 or position >= len(octets):
        raise malformed()


def _part(octets: bytes, start: int, size: int) -> bytes:
    _check(octets, start + size - 1)
    return octets[start : start + size]


def _whole(variant: Variant) -> int:
    size = encoding.SIZES[variant.octets[variant.position] >> 2] - 1
    return int.from_bytes(_part(variant.octets, variant.position + 1, size), "little", signed=True)


def _text(variant: Variant) -> str:
    return decoded(_sized(variant))


def _sized(variant: Variant) -> bytes:
    low, high = variant._first()
    if low == SHORT_TEXT:
        return _part(variant.octets, variant.position + 1, high)
    size = unsigned(variant.octets, variant.position + 1, 4)
    return _part(variant.octets, variant.position + 5, size)


def _decimal(variant: Variant) -> Decimal:
    octets, position = variant.octets, variant.position
    kind = octets[position] >> 2
    if position + 1 >= len(octets):
        raise out_of_bounds(position + 1, len(octets))
    scale, width = octets[position + 1], encoding.DECIMAL_WIDTHS[kind]
    unscaled = int.from_bytes(_part(octets, position + 2, width), "little", signed=True)
    if max(len(str(abs(unscaled))), scale) > encoding.DECIMAL_DIGITS[kind]:
        raise malformed()
    return Decimal(unscaled).scaleb(-scale, EXACT).normalize(EXACT)


_SCALARS: Final[dict[Kind, Any]] = {
    Kind.NULL: lambda variant: None,
    Kind.BOOLEAN: lambda variant: variant.octets[variant.position] >> 2 == encoding.TRUE,
    **dict.fromkeys((Kind.LONG, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ), _whole),
    Kind.STRING: _text,
    Kind.DOUBLE: lambda variant: struct.unpack(
        "<d", _part(variant.octets, variant.position + 1, 8)
    )[0],
    Kind.FLOAT: lambda variant: struct.unpack("<f", _part(variant.octets, variant.position + 1, 4))[
        0
    ],
    Kind.DECIMAL: _decimal,
    Kind.BINARY: _sized,
    Kind.UUID: lambda variant: str(Uuid(bytes=_part(variant.octets, variant.position + 1, 16))),
}
