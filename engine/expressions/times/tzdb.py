"""``tzdb.dat``, the time zones of a Java: when the offset of each zone changes.

::

    1 "TZDB"
    versions      count, texts: one in all files so far
    ids           count, texts
    rules         count, each its length and its bytes
    for each version: count, and as often a number of an id and of its rules

Counts, lengths and numbers have 16 bits; texts have their length in front. Rules of a zone:

::

    1
    standard time count, instants, one offset more
    wall time     count, instants, one offset more: before the first, between, after the last
    yearly        count, changes that go on for ever

Source: ``java.time.zone.TzdbZoneRulesProvider``, ``Ser``, ``ZoneRules``,
``ZoneOffsetTransitionRule``.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from engine.expressions.times.civil import Ints
from engine.expressions.times.yearly import YearlyChange, repeated

_QUARTER: Final = 900
_FIRST_QUARTER: Final = -4_575_744_000
"""1825-01-01, in seconds since 1970: from there, instants are counted in quarters of an hour."""
_UTC, _WALL, _STANDARD = range(3)
"""What clock tells the time of a yearly change."""


class _Input:
    """Java's ``DataInput`` over bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, form: str) -> int:
        """One number by a format of :mod:`struct`, big-endian."""
        return self.numbers(form, 1)[0]

    def numbers(self, form: str, count: int) -> tuple[int, ...]:
        layout = struct.Struct(f">{count}{form}")
        found = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return found

    def bytes(self) -> bytes:
        length = self.number("H")
        self._position += length
        return self._data[self._position - length : self._position]

    def text(self) -> str:
        return self.bytes().decode("ascii")

    def offset(self) -> int:
        """Seconds from UTC."""
        quarters = self.number("b")
        return self.number("i") if quarters == 127 else quarters * _QUARTER

    def instant(self) -> int:
        """Seconds since 1970."""
        high = self.number("B")
        if high == 255:
            return self.number("q")
        return ((high << 16) + self.number("H")) * _QUARTER + _FIRST_QUARTER

    def changes(self) -> tuple[list[int], list[int]]:
        """Instants, and the offsets before, between and behind them."""
        count = self.number("i")
        instants = [self.instant() for _ in range(count)]
        return instants, [self.offset() for _ in range(count + 1)]

    def yearly(self) -> YearlyChange:
        """One change that comes back every year."""
        bits = self.number("I")
        hour, clock = bits >> 14 & 31, bits >> 12 & 3
        standard_byte, before_byte, after_byte = bits >> 4 & 255, bits >> 2 & 3, bits & 3
        second = self.number("i") if hour == 31 else hour * 3600
        standard = self.number("i") if standard_byte == 255 else (standard_byte - 128) * _QUARTER
        before = self.number("i") if before_byte == 3 else standard + before_byte * 1800
        after = self.number("i") if after_byte == 3 else standard + after_byte * 1800
        weekday = (bits >> 19 & 7) - 1
        return YearlyChange(
            month=bits >> 28,
            day=(bits >> 22 & 63) - 32,
            weekday=weekday if weekday >= 0 else None,
            second=second - {_UTC: 0, _WALL: before, _STANDARD: standard}[clock],
            offset=after,
        )


def read_tzdb(data: bytes) -> tuple[str, dict[str, bytes]]:
    """The newest version in a file, and the rules of each zone in it.

    :raises ValueError: it is no such file.
    """
    source = _Input(data)
    try:
        if source.number("B") != 1 or source.text() != "TZDB":
            raise ValueError("it does not begin as a time zone database")
        versions = [source.text() for _ in range(source.number("H"))]
        ids = [source.text() for _ in range(source.number("H"))]
        rules = [source.bytes() for _ in range(source.number("H"))]
        zones: dict[str, bytes] = {}
        for _ in versions:
            pairs = [source.numbers("H", 2) for _ in range(source.number("H"))]
            zones = {ids[zone]: rules[number] for zone, number in pairs}
        return versions[-1], zones
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"it is cut off or damaged: {error}") from error


def read_rules(data: bytes) -> tuple[Ints, Ints, bool]:
    """Transitions (seconds since 1970), the offsets before, between and after them (seconds), and
    whether the last 400 years repeat."""
    source = _Input(data)
    if (kind := source.number("b")) != 1:
        raise ValueError(f"rules of the unknown kind {kind}")
    source.changes()  # of standard time, which is what no clock shows
    instants, walls = source.changes()
    yearly = [source.yearly() for _ in range(source.number("b"))]
    times, offsets = np.array(instants, np.int64), np.array(walls, np.int64)
    if yearly:
        later_times, later_offsets = repeated(yearly, instants[-1])
        times = np.concatenate([times, later_times])
        offsets = np.concatenate([offsets, later_offsets])
    return times, offsets, bool(yearly)
