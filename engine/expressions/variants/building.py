"""Builds a VARIANT as Spark does: values one after the other, a header when its values are there.

Source: ``VariantBuilder`` of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import pairwise
from typing import Any

from engine.expressions.json.jackson import as_utf8
from engine.expressions.variants.encoding import (
    SIZE_MAX,
    VERSION,
    Piece,
    array_header,
    java_order,
    numbers,
    object_header,
    width_of,
)
from engine.expressions.variants.variant_errors import duplicate_key

Octets = tuple[bytes, bytes]
"""A value and its metadata."""

Field = tuple[str, int, int]
"""A name, its number, and where its value begins."""


class Event(Enum):
    """What comes next in a value that is told from its beginning to its end."""

    OBJECT = "an object begins"
    ARRAY = "an array begins"
    NAME = "the name of the next value"
    END = "an object or an array ends"
    SCALAR = "a value"


Events = Iterable[tuple[Event, Any]]
"""With the name, or the :data:`Piece` of a scalar."""


class SizeError(ValueError):
    """There are more bytes than a VARIANT may have."""


class VariantBuilder:
    """Builds one value.

    :param keeps_last: of several values of a name the last one is kept; else they are an error.
    """

    def __init__(self, keeps_last: bool = False) -> None:
        self._octets = bytearray()
        self._ids: dict[str, int] = {}
        self._keeps_last = keeps_last

    @property
    def position(self) -> int:
        """How many bytes have been written."""
        return len(self._octets)

    def add(self, piece: Piece) -> None:
        """Write a scalar.

        :raises SizeError: there is no room.
        """
        octets, reserve = piece
        self._reserve(reserve)
        self._octets += octets

    def id_of(self, name: str) -> int:
        """The number of a name, which is known from now on."""
        return self._ids.setdefault(name, len(self._ids))

    def close_array(self, start: int, offsets: list[int]) -> None:
        """Put the header before the items that have been written since.

        :param start: the position before the first one.
        :param offsets: where each begins, from there.
        :raises SizeError: there is no room.
        """
        self._insert(start, array_header(offsets, self.position - start))

    def close_object(self, start: int, fields: list[Field]) -> None:
        """Put the header before the values that have been written since.

        :param start: the position before the first one.
        :raises SizeError: there is no room.
        :raises TransformError: a name occurs twice.
        """
        fields = sorted(fields, key=lambda field: java_order(field[0]))
        for (name, *_), (following, *_) in pairwise(fields):
            if name == following:
                if not self._keeps_last:
                    raise duplicate_key(name)
                fields = self._without_duplicates(start, fields)
                break
        ids, offsets = [number for _, number, _ in fields], [offset for _, _, offset in fields]
        self._insert(start, object_header(ids, offsets, self.position - start))

    def _without_duplicates(self, start: int, fields: list[Field]) -> list[Field]:
        """Only the last value of each name; values move up in their order."""
        begins = sorted(offset for _, _, offset in fields)
        ends = dict(zip(begins, [*begins[1:], self.position - start], strict=True))
        last = {name: offset for name, _, offset in fields}  # those of a name are in their order
        values = bytes(self._octets[start:])
        del self._octets[start:]
        moved: dict[int, int] = {}
        for offset in sorted(last.values()):
            moved[offset] = self.position - start
            self._octets += values[offset : ends[offset]]
        ids = {name: number for name, number, _ in fields}
        return [(name, ids[name], moved[offset]) for name, offset in last.items()]

    def _insert(self, start: int, header: bytes) -> None:
        self._reserve(len(header))
        self._octets[start:start] = header

    def _reserve(self, size: int) -> None:
        if len(self._octets) + size > SIZE_MAX:
            raise SizeError

    def result(self) -> Octets:
        """The value, and the metadata.

        :raises SizeError: there are too many names.
        """
        names = [as_utf8(name).encode() for name in self._ids]
        size = sum(map(len, names))
        width = width_of(max(size, len(names)))
        if max(size, len(names), 1 + (len(names) + 2) * width + size) > SIZE_MAX:
            raise SizeError
        offsets = [0]
        for name in names:
            offsets.append(offsets[-1] + len(name))
        head = bytes([VERSION | (width - 1) << 6]) + len(names).to_bytes(width, "little")
        return bytes(self._octets), head + numbers(offsets, width) + b"".join(names)


def append(builder: VariantBuilder, events: Events) -> None:
    """Write one whole value, however deep it is.

    :raises SizeError: there is no room.
    :raises TransformError: a name occurs twice in an object.
    """
    opened: list[tuple[bool, int, list[Any]]] = []  # an object? its start, its fields or offsets
    name = ""
    for event, what in events:
        if event is Event.END:
            is_object, start, parts = opened.pop()
            (builder.close_object if is_object else builder.close_array)(start, parts)
            continue
        if event is Event.NAME:
            name = what
            continue
        if opened:
            is_object, start, parts = opened[-1]
            offset = builder.position - start
            parts.append((name, builder.id_of(name), offset) if is_object else offset)
        if event is Event.SCALAR:
            builder.add(what)
        else:
            opened.append((event is Event.OBJECT, builder.position, []))
