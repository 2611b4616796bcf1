"""What of a record of Avro is not read is passed over.

Java has less to say against it than when it reads: a negative length is none.

Source: ``skipBytes``, ``skipArray`` of Avro's ``BinaryDecoder``; ``SkipParser``.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.expressions.avro import binary
from engine.expressions.avro.binary import Read
from engine.expressions.avro.schemas import AvroType


def passing_over(writer: AvroType) -> Read:
    """Reads over a value, and returns nothing of it."""
    if writer.kind == "union":
        return binary.union([passing_over(branch) for branch in writer.branches])
    if writer.kind == "record":
        return _sequence([passing_over(field.type) for field in writer.fields])
    if writer.kind == "array":
        return _blocks(passing_over(writer.part))
    if writer.kind == "map":
        return _blocks(_sequence([_skip_bytes, passing_over(writer.part)]))
    if writer.kind == "fixed":
        return binary.read_fixed(writer.size)
    if writer.kind in ("bytes", "string"):
        return _skip_bytes
    return binary.read_int if writer.kind == "enum" else binary.PRIMITIVE[writer.kind]


def _skip_bytes(data: bytes, at: int) -> tuple[None, int]:
    length, at = binary.read_long(data, at)
    if length > 0:
        _, at = binary.part(data, at, length)
    return None, at


def _sequence(parts: Sequence[Read]) -> Read:
    def sequence(data: bytes, at: int) -> tuple[None, int]:
        for part in parts:
            _, at = part(data, at)
        return None, at

    return sequence


def _blocks(item: Read) -> Read:
    def blocks(data: bytes, at: int) -> tuple[None, int]:
        count, at = binary.read_long(data, at)
        while count:
            if count < 0:  # then the block's length follows
                _, at = _skip_bytes(data, at)
            else:
                binary.check_count(count, data, at)
                for _ in range(count):
                    _, at = item(data, at)
            count, at = binary.read_long(data, at)
        return None, at

    return blocks
