"""Files of the time zone database: when the offset of one zone changes.

::

    header and data in 32 bits      skipped
    header and data in 64 bits      transitions, kinds of local time, names
    \\n rule \\n                     for the time after the last transition

Source: RFC 9636 (TZif), version 2 and later; POSIX ``TZ``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

import numpy as np

from engine.expressions.times.civil import Ints
from engine.expressions.times.yearly import YearlyChange, repeated


def read_tzif(data: bytes) -> tuple[Ints, Ints, bool]:
    """Transitions (seconds since 1970), the offsets before, between and after them (seconds), and
    whether the last 400 years repeat."""
    header = struct.Struct(">4sc15x6I")
    _, _, isut, isstd, leap, time, kind, char = header.unpack_from(data)
    position = header.size + time * 5 + kind * 6 + char + leap * 8 + isstd + isut
    _, _, isut, isstd, leap, time, kind, char = header.unpack_from(data, position)
    position += header.size
    times = np.frombuffer(data, ">i8", time, position).astype(np.int64)
    kinds = np.frombuffer(data, np.uint8, time, position + time * 8)
    kinds_at = position + time * 9
    by_kind = [struct.unpack_from(">i", data, kinds_at + index * 6)[0] for index in range(kind)]
    position = kinds_at + kind * 6 + char + leap * 12 + isstd + isut
    footer = data[position:].strip(b"\n").decode("ascii")
    offsets = np.array([by_kind[0], *(by_kind[index] for index in kinds)], np.int64)
    rule = _PosixRule.parse(footer)
    if rule is not None:
        since = int(times[-1]) if len(times) else -(2**40)
        later_times, later_offsets = repeated(rule.changes, since)
        times = np.concatenate([times, later_times])
        offsets = np.concatenate([offsets, later_offsets])
    changes = np.flatnonzero(np.diff(offsets))
    times, offsets = times[changes], np.concatenate([offsets[:1], offsets[changes + 1]])
    return times, offsets, rule is not None and len(times) > 0


class _PosixRule:
    """Summer time that repeats every year, e.g. ``CET-1CEST,M3.5.0,M10.5.0/3``."""

    _NAME = r"(?:<[^>]+>|[A-Za-z]+)"
    _TIME = r"[+-]?\d+(?::\d+(?::\d+)?)?"
    _PATTERN = re.compile(
        rf"{_NAME}({_TIME}){_NAME}({_TIME})?"
        rf",M(\d+)\.(\d)\.(\d)(?:/({_TIME}))?,M(\d+)\.(\d)\.(\d)(?:/({_TIME}))?"
    )

    def __init__(self, match: re.Match[str]) -> None:
        standard = -_seconds(match[1])
        summer = -_seconds(match[2]) if match[2] else standard + 3600
        self.changes = (
            _change(match.group(3, 4, 5, 6), standard, summer),
            _change(match.group(7, 8, 9, 10), summer, standard),
        )

    @classmethod
    def parse(cls, text: str) -> _PosixRule | None:
        """None where the offset stays what it is."""
        match = cls._PATTERN.fullmatch(text)
        if match is None:
            if "," in text:
                raise ValueError(f"unknown form of a time zone rule: {text}")
            return None
        return cls(match)


def _change(texts: Sequence[str | None], before: int, after: int) -> YearlyChange:
    """Of month, week, day of the week and time. Week 5 means the last one of the month; days of
    the week count from Sunday."""
    month, week, day = (int(text or 0) for text in texts[:3])
    return YearlyChange(
        month=month,
        day=-1 if week == 5 else 1 + (week - 1) * 7,
        weekday=(day - 1) % 7,
        second=_seconds(texts[3] or "2") - before,
        offset=after,
    )


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")] + [0, 0]
    return sign * (parts[0] * 3600 + parts[1] * 60 + parts[2])
