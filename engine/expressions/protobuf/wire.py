"""Protobuf's wire format, as Java reads and writes it.

Whatever is malformed, or ends too early, raises :data:`MALFORMED`.

Source: Protobuf, "Encoding"; ``CodedInputStream`` of its Java library.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from engine.expressions.varints import varint

MALFORMED: Final = (ValueError, IndexError, struct.error)
VARINT, FIXED_64, LENGTH, START_GROUP, END_GROUP, FIXED_32 = range(6)
_DEPTH_MAX: Final = 100
_VARINT_BYTES: Final = 10
_MASK_32: Final = 0xFFFFFFFF
_MASK_64: Final = 0xFFFFFFFFFFFFFFFF
Read = Callable[[bytes, int, int], tuple[Any, int]]
"""From record, position and end of the message: a value, and the position behind it."""


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """64 bits without a sign; the highest is set if there are ten bytes, whatever the tenth is."""
    number = 0
    for index in range(_VARINT_BYTES):
        if at + index >= end:
            break
        byte = data[at + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if index == _VARINT_BYTES - 1:
                number = number & _MASK_64 | 1 << 63
            return number, at + index + 1
    raise ValueError("a number is cut off, or has too many bytes")


def read_tag(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """A field's number, how its value is written, and the position behind."""
    tag, at = read_varint(data, at, end)
    number, kind = (tag & _MASK_32) >> 3, tag & 7
    if number == 0:
        raise ValueError("a field has the number 0")
    return number, kind, at


def read_length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where a value begins, and where it ends."""
    length, at = read_varint(data, at, end)
    length &= _MASK_32
    if at + length > end:
        raise ValueError("a value is cut off")
    return at, at + length


def signed(number: int, bits: int) -> int:
    """The lowest bits of a number, the first of them its sign."""
    half = 1 << (bits - 1)
    return ((number + half) & ((1 << bits) - 1)) - half


def skip(data: bytes, at: int, end: int, number: int, kind: int, depth: int) -> int:
    """The position behind a value that nobody knows.

    :param depth: how many messages and groups are around it.
    """
    if kind == VARINT:
        return read_varint(data, at, end)[1]
    if kind == LENGTH:
        return read_length(data, at, end)[1]
    if kind in (FIXED_32, FIXED_64):
        at += 4 if kind == FIXED_32 else 8
        if at > end:
            raise ValueError("a number is cut off")
        return at
    if kind != START_GROUP:
        raise ValueError(f"a field is written in the way {kind}")
    check_depth(depth + 1)
    while True:
        inner, inner_kind, at = read_tag(data, at, end)
        if inner_kind == END_GROUP:
            if inner != number:
                raise ValueError("a group ends that has not begun")
            return at
        at = skip(data, at, end, inner, inner_kind, depth + 1)


def check_depth(depth: int) -> None:
    """:raises ValueError: messages are nested too deep."""
    if depth > _DEPTH_MAX:
        raise ValueError("messages are nested too deep")


def _varint_as(convert: Callable[[int], Any]) -> Read:
    def read(data: bytes, at: int, end: int) -> tuple[Any, int]:
        number, at = read_varint(data, at, end)
        return convert(number), at

    return read


def _packed_as(form: str, size: int) -> Read:
    unpack = struct.Struct(form).unpack_from

    def read(data: bytes, at: int, end: int) -> tuple[Any, int]:
        if at + size > end:
            raise ValueError("a number is cut off")
        return unpack(data, at)[0], at + size

    return read


def _zigzag(bits: int) -> Callable[[int], int]:
    mask = (1 << bits) - 1
    return lambda number: ((number & mask) >> 1) ^ -(number & 1)


READERS: Final[dict[str, tuple[int, Read]]] = {
    "int32": (VARINT, _varint_as(lambda number: signed(number, 32))),
    "int64": (VARINT, _varint_as(lambda number: signed(number, 64))),
    "uint32": (VARINT, _varint_as(lambda number: number & _MASK_32)),
    "uint64": (VARINT, read_varint),
    "sint32": (VARINT, _varint_as(_zigzag(32))),
    "sint64": (VARINT, _varint_as(_zigzag(64))),
    "bool": (VARINT, _varint_as(bool)),
    "enum": (VARINT, _varint_as(lambda number: signed(number, 32))),
    "fixed32": (FIXED_32, _packed_as("<I", 4)),
    "sfixed32": (FIXED_32, _packed_as("<i", 4)),
    "float": (FIXED_32, _packed_as("<f", 4)),
    "fixed64": (FIXED_64, _packed_as("<Q", 8)),
    "sfixed64": (FIXED_64, _packed_as("<q", 8)),
    "double": (FIXED_64, _packed_as("<d", 8)),
}
"""Numbers, by the names of their types: how they are written, and what reads them."""


def write_varint(number: int) -> bytes:
    """64 bits, with a sign or without."""
    return varint(number & _MASK_64)


def write_length(octets: bytes) -> bytes:
    return write_varint(len(octets)) + octets


def tag(number: int, kind: int) -> bytes:
    return write_varint(number << 3 | kind)


WRITERS: Final[dict[str, Callable[[Any], bytes]]] = {
    **dict.fromkeys(("int32", "int64", "uint64", "bool", "enum"), write_varint),
    "uint32": lambda number: write_varint(number & _MASK_32),
    "sint32": lambda number: write_varint((number << 1 ^ number >> 31) & _MASK_32),
    "sint64": lambda number: write_varint(number << 1 ^ number >> 63),
    "fixed32": lambda number: struct.pack("<I", number & _MASK_32),
    "sfixed32": struct.Struct("<i").pack,
    "float": struct.Struct("<f").pack,
    "fixed64": lambda number: struct.pack("<Q", number & _MASK_64),
    "sfixed64": struct.Struct("<q").pack,
    "double": struct.Struct("<d").pack,
    "string": write_length,
    "bytes": write_length,
}
