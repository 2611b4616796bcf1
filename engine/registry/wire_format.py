"""What stands before a record: which schema it was written by.

::

    byte 0        0
    bytes 1 to 4  the schema's id in the registry, big-endian
    Protobuf      which message of the schema it is: how many indexes, and the indexes, each a
                  zigzag varint; the first message alone is the one byte 0
    the rest      the record

Source: Confluent, "Schema Registry, Wire format".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MAGIC: Final = 0
HEADER: Final = 5
"""So many bytes come before the record, or before a message's indexes."""
_INDEXES_MAX: Final = 100
"""Messages are not nested as deep as that."""


def schema_id(framed: bytes) -> int:
    """The id.

    :raises ValueError: it is no record of this format.
    """
    if len(framed) < HEADER or framed[0] != _MAGIC:
        raise ValueError(
            f"it has no schema id: it begins with {framed[:HEADER].hex(' ') or 'nothing'}, and not "
            "with a byte 0 and four of an id"
        )
    return int.from_bytes(framed[1:HEADER], "big")


def header(id: int) -> bytes:
    """What comes before a record of this schema."""
    return bytes((_MAGIC,)) + id.to_bytes(4, "big")


def indexes(framed: bytes) -> tuple[tuple[int, ...], int]:
    """Of a record of Protobuf: which message it is, as the way to it from the top of its file; and
    where it begins.

    :raises ValueError: they are cut off, or are none.
    """
    count, at = _varint(framed, HEADER)
    if not 0 <= count <= _INDEXES_MAX:
        raise ValueError(f"it says that it has {count} message indexes")
    found = []
    for _ in range(count):
        index, at = _varint(framed, at)
        found.append(index)
    return tuple(found) or (0,), at


def indexes_header(way: Sequence[int]) -> bytes:
    """The reverse of :func:`indexes`."""
    if tuple(way) == (0,):
        return b"\0"
    return b"".join(_zigzag(number) for number in (len(way), *way))


def _varint(octets: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(octets) and shift <= 35:
        number |= (octets[at] & 0x7F) << shift
        at, shift, more = at + 1, shift + 7, octets[at] & 0x80
        if not more:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError("its message indexes are cut off")


def _zigzag(number: int) -> bytes:
    rest, octets = number << 1, bytearray()
    while rest > 0x7F:
        octets.append(rest & 0x7F | 0x80)
        rest >>= 7
    octets.append(rest)
    return bytes(octets)
