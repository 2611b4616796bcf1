"""VARIANT in bytes: a value, and metadata with the names that its objects have.

======== =================== ==================================================================
low bits a value is          high bits, and what follows
======== =================== ==================================================================
0        primitive           one of the types below; its bytes, lowest first
1        a short text        its size; UTF-8
2        an object           widths; count; numbers of names, by the order of the names; offsets
3        an array            widths; count; offsets
======== =================== ==================================================================

An object has its values in the order in which they were written. The first byte of metadata is the
version and the width of offsets; count, offsets and names follow.

Source: Spark's ``VariantUtil`` and ``VariantBuilder``; ``VariantEncoding.md`` of parquet-format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

PRIMITIVE, SHORT_TEXT, OBJECT, ARRAY = range(4)
NULL, TRUE, FALSE, INT1, INT2, INT4, INT8, DOUBLE = range(8)
DECIMAL4, DECIMAL8, DECIMAL16, DATE, TIMESTAMP, TIMESTAMP_NTZ, FLOAT, BINARY = range(8, 16)
LONG_TEXT: Final = 16
UUID: Final = 20

VERSION: Final = 1
SIZE_MAX: Final = 128 * 1024 * 1024
"""Bytes of a value, and of its metadata: Spark's limit wherever it is not testing itself."""
SHORT_TEXT_MAX: Final = 63
DECIMAL_DIGITS: Final = {DECIMAL4: 9, DECIMAL8: 18, DECIMAL16: 38}
DECIMAL_WIDTHS: Final = {DECIMAL4: 4, DECIMAL8: 8, DECIMAL16: 16}
SIZES: Final = {
    **dict.fromkeys((NULL, TRUE, FALSE), 1),
    INT1: 2,
    INT2: 3,
    DECIMAL4: 6,
    DECIMAL8: 10,
    DECIMAL16: 18,
    UUID: 17,
    **dict.fromkeys((INT4, DATE, FLOAT), 5),
    **dict.fromkeys((INT8, DOUBLE, TIMESTAMP, TIMESTAMP_NTZ), 9),
}
"""How many bytes primitive values have, with the first one."""

_BYTE: Final = struct.Struct("<Bb").pack
_SHORT: Final = struct.Struct("<Bh").pack
_INT: Final = struct.Struct("<Bi").pack
_LONG: Final = struct.Struct("<Bq").pack
_FLOAT: Final = struct.Struct("<Bf").pack
_DOUBLE: Final = struct.Struct("<Bd").pack
_SIZE: Final = struct.Struct("<BI").pack
_WHOLE_RESERVE: Final = 9
_DECIMAL_RESERVE: Final = 18

Piece = tuple[bytes, int]
"""Bytes of a value, and how many Spark looks for room for."""

NULL_PIECE: Final[Piece] = (bytes([NULL << 2]), 1)
_TRUTHS: Final[dict[bool, Piece]] = {
    True: (bytes([TRUE << 2]), 1),
    False: (bytes([FALSE << 2]), 1),
}


def truth(value: bool) -> Piece:
    """A BOOLEAN."""
    return _TRUTHS[value]


def whole(number: int) -> Piece:
    """A whole number of up to 64 bits, in as few bytes as it needs."""
    if -0x80 <= number <= 0x7F:
        return _BYTE(INT1 << 2, number), _WHOLE_RESERVE
    if -0x8000 <= number <= 0x7FFF:
        return _SHORT(INT2 << 2, number), _WHOLE_RESERVE
    if -0x8000_0000 <= number <= 0x7FFF_FFFF:
        return _INT(INT4 << 2, number), _WHOLE_RESERVE
    return _LONG(INT8 << 2, number), _WHOLE_RESERVE


_NAN: Final = float("nan")


def double(number: float) -> Piece:
    """A DOUBLE; NaN as Java writes it."""
    return _DOUBLE(DOUBLE << 2, _NAN if number != number else number), 9


def single(number: float) -> Piece:
    """A FLOAT."""
    return _FLOAT(FLOAT << 2, _NAN if number != number else number), 5


def decimal(unscaled: int, scale: int) -> Piece | None:
    """A DECIMAL, in as few bytes as it needs; None if it has too many digits."""
    digits = max(scale, len(str(abs(unscaled))))
    for kind, digits_max in DECIMAL_DIGITS.items():
        if digits <= digits_max:
            number = unscaled.to_bytes(DECIMAL_WIDTHS[kind], "little", signed=True)
            return bytes([kind << 2, scale]) + number, _DECIMAL_RESERVE
    return None


def date(days: int) -> Piece:
    """Days since 1970."""
    return _INT(DATE << 2, days), 5


def timestamp(micros: int) -> Piece:
    """Microseconds since 1970, of an instant."""
    return _LONG(TIMESTAMP << 2, micros), 9


def timestamp_ntz(micros: int) -> Piece:
    """Microseconds since 1970, of a local time."""
    return _LONG(TIMESTAMP_NTZ << 2, micros), 9


def text(octets: bytes) -> Piece:
    """A text in UTF-8."""
    size = len(octets)
    if size > SHORT_TEXT_MAX:
        return _SIZE(LONG_TEXT << 2, size) + octets, size + 5
    return bytes([size << 2 | SHORT_TEXT]) + octets, size + 1


def binary(octets: bytes) -> Piece:
    """A BINARY."""
    return _SIZE(BINARY << 2, len(octets)) + octets, len(octets) + 5


def width_of(number: int) -> int:
    """Of numbers up to this one, in bytes."""
    if number <= 0xFF:
        return 1
    if number <= 0xFFFF:
        return 2
    return 3 if number <= 0xFF_FFFF else 4


def array_header(offsets: list[int], size: int) -> bytes:
    """What stands before the items.

    :param size: of all items, in bytes.
    """
    many, count = _count(len(offsets))
    width = width_of(size)
    first = bytes([many << 4 | (width - 1) << 2 | ARRAY])
    return first + count + numbers([*offsets, size], width)


def object_header(ids: list[int], offsets: list[int], size: int) -> bytes:
    """What stands before the values.

    :param ids: the numbers of the names.
    :param size: of all values, in bytes.
    """
    many, count = _count(len(ids))
    id_width, width = width_of(max(ids, default=0)), width_of(size)
    first = bytes([many << 6 | (id_width - 1) << 4 | (width - 1) << 2 | OBJECT])
    return first + count + numbers(ids, id_width) + numbers([*offsets, size], width)


def _count(count: int) -> tuple[bool, bytes]:
    many = count > 0xFF
    return many, count.to_bytes(4 if many else 1, "little")


def numbers(values: Iterable[int], width: int) -> bytes:
    """Numbers of so many bytes each."""
    if width == 1:
        return bytes(values)
    return b"".join([value.to_bytes(width, "little") for value in values])


def java_order(name: str) -> bytes:
    """By what ``String.compareTo`` goes: units of UTF-16."""
    return name.encode("utf-16-be", "surrogatepass")
