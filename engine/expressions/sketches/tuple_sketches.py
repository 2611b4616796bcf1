"""Tuple sketches: theta sketches whose hashes have a number each, its *summary*.

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
``HashOperations.java``, ``DoubleSummary.java``, ``IntegerSummary.java``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from engine.expressions.sketches.memory import Memory, bad_argument
from engine.expressions.sketches.theta_sketches import MOST, SEED_HASH

MODES: Final = ("sum", "min", "max", "alwaysone")
_INT_MOST: Final = 2**31 - 1


@dataclass(frozen=True)
class Summary:
    """A number, and how it was made of several.

    :param mode: sum, min, max or alwaysone.
    """

    value: Any
    mode: str


Entries = list[tuple[int, Summary]]


@dataclass(frozen=True)
class Kind:
    """Summaries of a type.

    :param form: of the number, as :mod:`struct` writes it.
    :param first: by mode, what others are added to.
    """

    form: str
    first: dict[str, Any]

    @property
    def size(self) -> int:
        """Bytes of one that is stored."""
        return struct.calcsize(self.form) + 1

    def made(self, mode: str, *summaries: Summary) -> Summary:
        """A new one of these."""
        value = self.first[mode]
        for summary in summaries:
            value = self._updated(mode, value, summary.value)
        return Summary(value, mode)

    def _updated(self, mode: str, value: Any, other: Any) -> Any:
        if mode == "sum":
            total = value + other
            return total if self.form == "<d" else (total + 2**31) % 2**32 - 2**31
        if mode == "min":
            return min(value, other)
        if mode == "max":
            return max(value, other)
        return self.first[mode]


DOUBLE: Final = Kind("<d", {"sum": 0.0, "min": math.inf, "max": -math.inf, "alwaysone": 1.0})
INTEGER: Final = Kind("<i", {"sum": 0, "min": _INT_MOST, "max": -_INT_MOST - 1, "alwaysone": 1})


@dataclass(frozen=True)
class TupleSketch:
    """One of them.

    :param entries: hashes and summaries, in the order in which they are stored.
    """

    theta: int
    entries: Entries
    empty: bool = False

    @property
    def estimating(self) -> bool:
        """It does not hold all hashes there were."""
        return self.theta < MOST and not self.empty

    @property
    def bound(self) -> int:
        """Theta, which of an empty sketch says nothing."""
        return MOST if self.empty else self.theta

    def valid(self) -> Entries:
        """Without what is no hash."""
        return [entry for entry in self.entries if entry[0] > 0]


def read_tuple(data: bytes, kind: Kind) -> TupleSketch:
    """What the bytes say.

    :raises SketchError: they are no compact tuple sketch.
    """
    memory = Memory(data)
    longs, version = memory.unsigned(0), memory.unsigned(1)
    if not 1 <= longs <= 3:
        raise bad_argument(f"Possible corruption: Invalid PreambleLongs value: {longs}")
    if 3 < version < 128:
        raise bad_argument(f"Unsupported serial version. Expected: 3, actual: {version}")
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
        named = memory.unsigned(at) if version == 1 else 0
        at += version == 1
        count, at = memory.int32(at), at + 4 + named
        hashes = memory.longs(at, count).tolist()
        places = range(at + count * 8, at + count * (8 + kind.size), kind.size)
        entries = [
            (value, _read_summary(memory, place, kind))
            for value, place in zip(hashes, places, strict=True)
        ]
    return TupleSketch(theta, entries, bool(flags & 2))


def write_tuple(theta: int, entries: Entries, kind: Kind, *, empty: bool) -> bytes:
    """The bytes of a sketch with these hashes."""
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
