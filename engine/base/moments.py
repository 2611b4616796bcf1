"""Moments as texts, in UTC: of any year, for an event time is whatever a record says. Python's own
``datetime`` ends with the year 9999."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Final

_CYCLE_YEARS: Final = 400
"""The calendar is the same again after so many years."""
_CYCLE_MS: Final = 146_097 * 86_400_000
_FIRST_MS: Final = -62_135_596_800_000
"""The beginning of the year 1."""
_END_MS: Final = 253_402_300_800_000
"""The end of the year 9999, exclusive."""
_MOMENT: Final = re.compile(r"([+-]?\d{4,})(-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{3})Z")


def iso_timestamp(wall_ms: int) -> str:
    """Spark's spelling: ``2026-01-31T23:59:59.123Z``; of far years ``+58856-12-31T...`` and
    ``-0001-12-31T...``, the year 0 being ``0000``."""
    is_far = not _FIRST_MS <= wall_ms < _END_MS
    cycles = (wall_ms - _FIRST_MS) // _CYCLE_MS - 1 if is_far else 0  # to the years 401 to 800
    seconds, thousandths = divmod(wall_ms - cycles * _CYCLE_MS, 1000)
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    year = moment.year + cycles * _CYCLE_YEARS
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{moment:%m-%dT%H:%M:%S}.{thousandths:03}Z"


def wall_ms_of(text: str) -> int:
    """The milliseconds since 1970 of what :func:`iso_timestamp` has written.

    :raises ValueError: it is something else.
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no moment as 2026-01-31T23:59:59.123Z")
    cycles, year = divmod(int(found[1]), _CYCLE_YEARS)
    within = datetime.fromisoformat(f"{year + _CYCLE_YEARS:04}{found[2]}+00:00")
    seconds = round(within.timestamp()) + (cycles - 1) * (_CYCLE_MS // 1000)
    return seconds * 1000 + int(found[3])
