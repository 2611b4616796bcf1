"""Avro's binary encoding of single values, as Java reads and writes it.

Readers take a record and a position, and return the value and the position behind it. What is
malformed raises :data:`MALFORMED`; so does a record that ends too early.

Source: Avro 1.12, "Binary Encoding"; its ``BinaryDecoder``, which is strict about how many bytes a
number has, and takes every byte but 1 for false.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from engine.expressions.varints import varint

Read = Callable[[bytes, int], tuple[Any, int]]
MALFORMED: Final = (ValueError, IndexError, struct.error)
_INT_BYTES, _LONG_BYTES = 5, 10
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_TEXT_BYTES_MAX: Final = 2**31 - 9
_NO_BYTES_ITEMS_MAX: Final = 2**24


def read_null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] == 1, at + 1


def read_int(data: bytes, at: int) -> tuple[int, int]:
    return _read_varint(data, at, _INT_BYTES, 0xFFFFFFFF)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:  # most of them
        return (byte >> 1) ^ -(byte & 1), at + 1
    return _read_varint(data, at, _LONG_BYTES, 0xFFFFFFFFFFFFFFFF)


def _read_varint(data: bytes, at: int, bytes_max: int, mask: int) -> tuple[int, int]:
    number = 0
    for index in range(bytes_max):
        byte = data[at + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            number &= mask
            return (number >> 1) ^ -(number & 1), at + index + 1
    raise ValueError("a number has too many bytes")


def read_float(data: bytes, at: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(data, at)[0], at + 4


def read_double(data: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = read_long(data, at)
    if not 0 <= length <= _TEXT_BYTES_MAX:
        raise ValueError(f"a length is {length}")
    return part(data, at, length)


def read_fixed(size: int) -> Read:
    """Of so many bytes."""
    return lambda data, at: part(data, at, size)


def read_count(data: bytes, at: int) -> tuple[int, int]:
    """How many items the next block of an array or of a map has; 0 for its end."""
    count, at = read_long(data, at)
    if count < 0:  # then the block's length follows
        _, at = read_long(data, at)
        count = -count
    return count, at


def check_count(count: int, data: bytes, at: int) -> None:
    """Items may have no bytes; a malformed record can tell of any number of them."""
    if count > max(len(data) - at, _NO_BYTES_ITEMS_MAX):
        raise ValueError(f"an array has {count} items")


def union(branches: Sequence[Read]) -> Read:
    """One of these, whose number is written before it."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = read_int(data, at)
        if index < 0:
            raise ValueError(f"there is no branch {index}")
        return branches[index](data, at)

    return read


def part(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    """So many bytes."""
    end = at + length
    if end > len(data):
        raise ValueError("the record ends too early")
    return data[at:end], end


PRIMITIVE: Final[Mapping[str, Read]] = {
    "null": read_null,
    "boolean": read_boolean,
    "int": read_int,
    "long": read_long,
    "float": read_float,
    "double": read_double,
    "bytes": read_bytes,
    "string": read_bytes,
}


def write_long(number: int) -> bytes:
    """An int, or a long."""
    return varint(number << 1 ^ number >> 63)


def write_bytes(octets: bytes) -> bytes:
    return write_long(len(octets)) + octets


def write_boolean(value: bool) -> bytes:
    return b"\1" if value else b"\0"


write_float: Final = _FLOAT.pack
write_double: Final = _DOUBLE.pack
