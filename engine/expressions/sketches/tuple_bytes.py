"""Tuple sketches as they are stored: compact, or with room for more hashes (*updatable*).

==== ==============================================================
byte
==== ==============================================================
0    length of this preamble in 8 bytes: 1 to 3
1    version: 3
2    family: 9
3    1: compact
5    flags: 2 read-only, 4 empty, 8 compact
6-7  hash of the seed
8-11 number of hashes, if the preamble is longer than 1; else it is 1
16   theta, if the preamble is longer than 2
==== ==============================================================

Then each hash with its summary: a number, and in one byte how it was made of several. Hashes are in
the order of the table in which they were: open addressing, see :class:`Table`.

Source: ``CompactSketch.java``, ``QuickSelectSketch.java`` of datasketches-java (``tuple``),
``SerializerDeserializer.java``, ``HashOperations.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from engine.expressions.sketches.memory import (
    Memory,
    as_byte,
    as_long,
    bad_argument,
    negative_size,
)
from engine.expressions.sketches.theta_sketches import MOST, SEED_HASH
from engine.expressions.sketches.tuple_sketches import TupleSketch
from engine.expressions.sketches.tuple_summaries import (
    MODES,
    NOTHING,
    Entries,
    Kind,
    Summary,
    no_summary,
)
from engine.expressions.sketches.tuple_tables import StoredTable


def read_tuple(data: bytes, kind: Kind) -> TupleSketch:
    """What the bytes say.

    :raises SketchError: they are no tuple sketch.
    """
    memory = Memory(data)
    longs, version = memory.unsigned(0), memory.unsigned(1)
    if not 1 <= longs <= 3:
        raise bad_argument(f"Possible corruption: Invalid PreambleLongs value: {longs}")
    updatable = memory.unsigned(3) == 0
    most = 2 if updatable else 3
    if most < version < 128:
        raise bad_argument(f"Unsupported serial version. Expected: {most}, actual: {version}")
    if updatable:
        return _read_updatable(memory, longs, kind)
    if memory.unsigned(3) != 1:
        raise bad_argument(f"Sketch Type mismatch: {memory.unsigned(3)}")
    if version != 3:
        return _read_old(memory, version, kind)
    if memory.unsigned(5) & 4:
        return TupleSketch(MOST, [], empty=True)
    count = 1 if longs == 1 else memory.int32(8)
    theta = memory.int64(16) if longs > 2 else MOST
    return TupleSketch(theta, list(_read_entries(memory, longs * 8, count, kind)))


def _read_entries(memory: Memory, at: int, count: int, kind: Kind) -> Iterable[tuple[int, Summary]]:
    if count < 0:
        raise bad_argument(f"A sketch cannot have {count} hashes.")
    for _ in range(count):
        yield memory.int64(at), _read_summary(memory, at + 8, kind)
        at += 8 + kind.size


def _read_summary(memory: Memory, at: int, kind: Kind) -> Summary:
    value, mode = struct.unpack(f"{kind.form}B", memory.some(at, kind.size))
    if mode >= len(MODES):
        raise bad_argument(f"Summaries are not made by mode {mode}.")
    return Summary(value, MODES[mode])


def _read_old(memory: Memory, version: int, kind: Kind) -> TupleSketch:
    """Version 2 has flags in byte 4: 2 empty, 4 has hashes, 8 has a theta, which is next. Then the
    number of hashes, these, and their summaries. Version 1 names the class of the summaries."""
    flags, at = memory.unsigned(4), 5
    if flags & 1:
        raise bad_argument("Byte order mismatch")
    theta = MOST
    if flags & 8:
        theta, at = memory.int64(at), at + 8
    entries: Entries = []
    if flags & 4:
        named = as_byte(memory.unsigned(at)) if version == 1 else 0
        at += version == 1
        count, at = memory.int32(at), at + 4 + named
        hashes = memory.longs(at, count).tolist() if count else ()
        places = range(at + count * 8, at + count * (8 + kind.size), kind.size)
        entries = [
            (value, _read_summary(memory, place, kind))
            for value, place in zip(hashes, places, strict=True)
        ]
    return TupleSketch(theta, entries, bool(flags & 2))


def _read_updatable(memory: Memory, longs: int, kind: Kind) -> TupleSketch:
    """Flags are in byte 4: 2 a float follows, which part of all hashes it takes; 4 empty, 8 has
    hashes, 16 has a theta. The size of its table is in byte 6, as a power of two. From byte 8 on
    there are that part, theta, the number of hashes, and each with its summary."""
    memory.some(0, longs * 8)
    flags, lg_size, at = memory.unsigned(4), memory.unsigned(6), 8
    if flags & 1:
        raise bad_argument("Endian byte order mismatch")
    theta = MOST
    if flags & 2:
        theta, at = as_long(float(MOST) * memory.float32(at)), at + 4
    if flags & 16:
        theta, at = memory.int64(at), at + 8
    count = 0
    if flags & 8:
        count, at = memory.int32(at), at + 4
    if lg_size & 31 == 31:  # as Java shifts
        raise negative_size(-(2**31))
    table = StoredTable(lg_size & 31, lg_size & 63)
    for value, summary in _read_entries(memory, at, max(count, 0), kind):
        table.put(value, summary)
    entries = table.entries()
    entries += [NOTHING] * (count - len(entries))
    return TupleSketch(theta, entries, bool(flags & 4), table)


def write_tuple(theta: int, entries: Entries, kind: Kind, *, empty: bool) -> bytes:
    """The bytes of a sketch with these hashes.

    :raises SketchError: it lacks some.
    """
    if NOTHING in entries:
        raise no_summary("toByteArray", "this.summaryArr_[i]")
    estimating = theta < MOST and not empty
    single = len(entries) == 1 and not estimating
    longs = 1 if empty or single else 3 if estimating else 2
    start = bytes((longs, 3, 9, 1, 0, 0x0E if empty else 0x0A)) + SEED_HASH.to_bytes(2, "little")
    if longs > 1:
        start += struct.pack("<ii", len(entries), 0)
    if longs > 2:
        start += struct.pack("<q", theta)
    form = struct.Struct(f"<q{kind.form[1]}B")
    packed = (form.pack(h, each.value, MODES.index(each.mode)) for h, each in entries)
    return start + b"".join(packed)
