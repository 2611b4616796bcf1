"""Dates and timestamps in records of JSON and CSV.

Without a pattern they are read as casts do it, and, what they do not understand, as Spark 2.0 did:
without any ``GMT`` in them. With a pattern, they follow it or are malformed.

Source: ``DateFormatter`` and ``TimestampFormatter`` of Spark as ``JacksonParser`` and
``UnivocityParser`` use them; ``DateTimeUtils.cleanLegacyTimestampStr``.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from engine.expressions.casts.parse_times import parse_date, parse_timestamp
from engine.expressions.record_patterns import RecordPatterns
from engine.expressions.times.datetime_parsing import TextParser
from engine.expressions.times.zones import Zone, zone


class RecordTimes(RecordPatterns):
    """How they are read. Timestamps without a zone are in ``zone``."""

    def check(self) -> None:
        _ = self._dates, self._timestamps, self._local_timestamps

    @cached_property
    def _dates(self) -> TextParser | None:
        return None if self.dates is None else TextParser(self.dates)

    @cached_property
    def _timestamps(self) -> TextParser | None:
        return None if self.timestamps is None else TextParser(self.timestamps)

    @cached_property
    def _local_timestamps(self) -> TextParser | None:
        return None if self.local_timestamps is None else TextParser(self.local_timestamps)

    def date(self, text: str) -> int | None:
        """Days since 1970; None if it is no date."""
        if self._dates is not None:
            return self._dates.parse_days(text)
        days = parse_date(text)
        return days if days is not None or "GMT" not in text else parse_date(_cleaned(text))

    def timestamp(self, text: str) -> int | None:
        """Microseconds since 1970; None if it is no timestamp."""
        if self._timestamps is not None:
            parsed = self._timestamps.parse(text, of_zone=True)
            if parsed is None:
                return None
            days, in_day, offset = parsed
            if offset is not None:
                return _instant(_UTC, days, in_day - offset)
            return _instant(self.zone, days, in_day)
        micros = parse_timestamp(text, self.zone)
        if micros is not None or "GMT" not in text:
            return micros
        return parse_timestamp(_cleaned(text), self.zone)

    def local_timestamp(self, text: str) -> int | None:
        """Microseconds since 1970 on a clock; None if it is none, or names a zone."""
        if self._local_timestamps is not None:
            parsed = self._local_timestamps.parse(text, of_zone=False)
            if parsed is None or parsed[2] is not None:
                return None
            return _instant(_UTC, *parsed[:2])
        in_utc, elsewhere = parse_timestamp(text, _UTC), parse_timestamp(text, _ELSEWHERE)
        # With a zone of its own it is the same instant for every default one.
        return None if in_utc == elsewhere else parse_timestamp(text, None)


def _instant(local_zone: Zone, days: int, in_day: int) -> int | None:
    """Microseconds since 1970; None if that is too far away, which is no reason to fail here."""
    micros, fits = local_zone.instants(np.int64(days), np.int64(in_day))
    return int(micros) if np.all(fits) else None


def _cleaned(text: str) -> str:
    return text.replace("GMT", "")


_UTC, _ELSEWHERE = zone("UTC"), zone("+01:00")
