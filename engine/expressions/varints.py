"""Numbers of as many bytes as they need, seven bits in each: those of Avro and of Protobuf."""

from __future__ import annotations


def varint(rest: int) -> bytes:
    """:param rest: not negative; the lowest bits come first."""
    if rest < 0x80:
        return bytes((rest,))
    octets = bytearray()
    while rest > 0x7F:
        octets.append(rest & 0x7F | 0x80)
        rest >>= 7
    octets.append(rest)
    return bytes(octets)
