"""Theta sketches in the compact form in which they are stored: hashes below a bound, ``theta``.

==== ============================================================
byte
==== ============================================================
0    length of this preamble in 8 bytes: 1 to 3
1    version: 3, or 4 for compressed hashes; before 2015 1 or 2
2    family: 3
3    version 4: bits per hash
4    version 4: bytes of the number of hashes
5    flags: 2 read-only, 4 empty, 8 compact, 16 ordered, 32 single
6-7  hash of the seed
8-11 number of hashes, if the preamble is longer than 1
12   1.0f
16   theta, if the preamble is longer than 2
==== ============================================================

Hashes are 64 bits each, above 0. Version 4 has theta, if any, in byte 8, then the number of hashes,
then their differences, each in so many bits, high bits first.

Source: ``CompactSketch.java``, ``CompactOperations.java``, ``ForwardCompatibility.java`` of
datasketches-java.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from engine.expressions.sketches.memory import (
    Longs,
    Memory,
    as_int,
    bad_argument,
    bad_state,
    family,
    index_out_of_bounds,
    negative_size,
)
from engine.expressions.sketches.theta_sketches import (
    MOST,
    SEED_HASH,
    AnyThetaSketch,
    StoredThetaSketch,
    ThetaSketch,
)

_READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 2, 4, 8, 16, 32
_ONE: Final = struct.pack("<f", 1)


def read_theta(data: bytes) -> AnyThetaSketch:
    """What the bytes say.

    :raises SketchError: they are no compact sketch.
    """
    memory = Memory(data)
    version, kind = memory.unsigned(1), family(memory.unsigned(2))
    assert kind == "COMPACT"
    if version == 4:
        return _read_compressed(memory)
    if version == 3:
        return _read_plain(memory)
    if version in (1, 2):
        return _read_old(memory, version)
    raise bad_argument(f"Corrupted: Serialization Version {version} not recognized.")


def _read_plain(memory: Memory) -> AnyThetaSketch:
    longs, flags = memory.unsigned(0) & 0x3F, memory.unsigned(5)
    if flags & _EMPTY:
        if memory.int64(0) & 0xEB0000FFFFFF != 0x0A0000030301:
            raise bad_argument("Input Memory does not match required Preamble.")
        return _empty()
    seed_hash = memory.short(6)
    if flags & _SINGLE or (longs == 1 and flags & 0x1F == _READ_ONLY | _COMPACT | _ORDERED):
        return _single(memory.int64(8), seed_hash)
    if not flags & _COMPACT:
        raise bad_argument("Corrupted: COMPACT family sketch image must have compact flag set")
    if not flags & _READ_ONLY:
        raise bad_argument("Corrupted: COMPACT family sketch image must have Read-Only flag set")
    return StoredThetaSketch(memory, longs, seed_hash, bool(flags & _ORDERED))


def _read_compressed(memory: Memory) -> ThetaSketch:
    longs, flags, bits = memory.unsigned(0) & 0x3F, memory.unsigned(5), memory.unsigned(3)
    count_bytes, seed_hash = memory.unsigned(4), memory.short(6)
    at = 16 if longs > 1 else 8
    theta = memory.int64(8) if longs > 1 else MOST
    count = _int32(memory.some(at, count_bytes))
    if count < 0:
        raise negative_size(count)
    if bits == 0 and 0 < count < 8:
        raise index_out_of_bounds(0)
    if count >= 8 and not 1 <= bits <= 63:
        raise bad_argument(f"wrong number of bits in unpackBitsBlock8: {bits}")
    packed = memory.some(at + count_bytes, (count * bits + 7) // 8)
    ones = np.unpackbits(np.frombuffer(packed, np.uint8), count=count * bits)
    weights = np.uint64(1) << np.arange(min(bits, 64), dtype=np.uint64)[::-1]
    differences = ones.reshape(count, bits)[:, -64:].astype(np.uint64) @ weights
    hashes: Longs = np.cumsum(differences, dtype=np.uint64).view(np.int64)
    if not flags & _EMPTY:
        return ThetaSketch(theta, seed_hash, hashes)
    if count:
        raise bad_state("Illegal State: Empty=true and Current Count != 0.")
    return ThetaSketch(MOST, seed_hash, hashes, empty=True, bounded=theta < MOST)


def _int32(data: bytes) -> int:
    """A number of few bytes; of more the further ones go into the same 32 bits, as Java shifts."""
    number = 0
    for place, byte in enumerate(data):
        number |= byte << place % 4 * 8
    return as_int(number)


def _read_old(memory: Memory, version: int) -> ThetaSketch:
    """Versions 1 and 2 are always ordered; the first of them has no hash of its seed."""
    longs = memory.unsigned(0) & 0x3F
    if version == 1 and longs != 3:
        raise bad_argument(f"PreLongs must be 3 for SerVer 1: {longs}")
    if longs not in (1, 2, 3):
        raise bad_argument(f"PreLongs must be 1,2, or 3: {longs}")
    seed_hash = SEED_HASH if version == 1 else memory.short(6)
    if version == 2:
        _expect(memory, longs * 8)
    count = memory.int32(8) if longs > 1 else 0
    theta = memory.int64(16) if longs > 2 else MOST
    if (count == 0 and theta == MOST) or (version == 1 and len(memory.data) <= 24):
        return _empty()
    _expect(memory, as_int((count + longs) * 8))
    if count == 1 and theta == MOST:
        return _single(memory.int64(longs * 8), seed_hash)
    if count < 0:
        raise negative_size(count)
    hashes = memory.longs(longs * 8, count)
    return ThetaSketch(theta, seed_hash, hashes)


def _expect(memory: Memory, needed: int) -> None:
    """There are so many bytes."""
    if needed > len(memory.data):
        raise bad_argument(
            f"Input Memory or byte[] size is too small: Required Bytes: {needed},"
            f" bytesIn: {len(memory.data)}"
        )


def _empty() -> ThetaSketch:
    return ThetaSketch(MOST, 0, np.zeros(0, np.int64), empty=True)


def _single(value: int, seed_hash: int) -> ThetaSketch:
    return ThetaSketch(MOST, seed_hash, np.array([value], np.int64), single=True)


def write_empty(seed_hash: int = 0, *, bounded: bool = False) -> bytes:
    """The bytes of a sketch of nothing.

    :param bounded: with a theta, which says nothing.
    """
    flags = _READ_ONLY | _EMPTY | _COMPACT | _ORDERED
    start = struct.pack("<6BH", 3 if bounded else 1, 3, 3, 0, 0, flags, seed_hash)
    return start + (bytes(4) + _ONE + struct.pack("<q", MOST) if bounded else b"")


def write_theta(theta: int, hashes: Longs, *, empty: bool, seed_hash: int = SEED_HASH) -> bytes:
    """The bytes of a sketch with these hashes, which ascend; compressed if there are several."""
    if empty:
        return write_empty()
    count, whole = len(hashes), theta == MOST
    flags = _READ_ONLY | _COMPACT | _ORDERED
    seed = seed_hash.to_bytes(2, "little")
    if whole and count <= 1:
        flags |= _SINGLE if count else 0
        return bytes((1, 3, 3, 0, 0, flags)) + seed + hashes.astype("<i8").tobytes()
    bound = theta.to_bytes(8, "little", signed=True)
    if count == 0:
        return bytes((3, 3, 3, 0, 0, flags)) + seed + bytes(4) + _ONE + bound
    differences = np.diff(hashes, prepend=0).view(np.uint64)
    bits = int(np.bitwise_or.reduce(differences)).bit_length()
    if bits in (0, 64) and count >= 8:  # they do not ascend
        raise bad_argument(f"wrong number of bits in packBitsBlock8: {bits}")
    count_bytes = (count.bit_length() + 7) // 8
    places = np.arange(bits, dtype=np.uint64)[::-1]
    ones = (differences[:, None] >> places) & np.uint64(1)
    return (
        bytes((1 if whole else 2, 4, 3, bits, count_bytes, flags))
        + seed
        + (b"" if whole else bound)
        + count.to_bytes(count_bytes, "little")
        + np.packbits(ones.astype(np.uint8)).tobytes()
    )
