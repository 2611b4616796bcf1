"""Texts of intervals that mix units: ``'1 month 2 days -3.5 seconds'``.

Source: Spark's ``IntervalUtils.stringToInterval``, ``UTF8String.trimAll``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from engine.expressions.times.civil import MICROS_PER_SECOND
from engine.expressions.whole_numbers import whole_number

INT: Final = 2**31
LONG: Final = 2**63
CalendarInterval = tuple[int, int, int]
"""Months, days and microseconds."""
_SPACE: Final = r"[\t-\r\x1c- ]"
_TRIMMED: Final = "".join(map(chr, (*range(33), 127)))
_PREFIX: Final = re.compile(rf"interval{_SPACE}")
_TERM: Final = re.compile(
    rf"{_SPACE}*(?P<sign>[+-]{_SPACE}*)?(?P<whole>[0-9]*)(?P<fraction>\.[0-9]{{0,9}})?{_SPACE}+"
    rf"(?P<unit>year|month|week|day|hour|minute|second|millisecond|microsecond)s?(?:{_SPACE}+|\Z)"
)
_MONTHS: Final = {"year": 12, "month": 1}
_DAYS: Final = {"week": 7, "day": 1}
_MICROS: Final = {
    "hour": 3_600 * MICROS_PER_SECOND,
    "minute": 60 * MICROS_PER_SECOND,
    "second": MICROS_PER_SECOND,
    "millisecond": 1_000,
    "microsecond": 1,
}


@lru_cache(1_024)
def interval_of(text: str) -> CalendarInterval | None:
    """The interval that a text is; None if it is none, or one that is too long."""
    text = text.strip(_TRIMMED).lower()
    place = len("interval ") if _PREFIX.match(text) else 0
    months = days = micros = 0
    while place < len(text) or not place:
        term = _TERM.match(text, place)
        if term is None:
            return None
        place = term.end()
        sign, whole, fraction, unit = term["sign"], term["whole"], term["fraction"], term["unit"]
        # A point alone is a number behind a sign, or behind digits.
        is_number = whole or (fraction is not None and (sign or len(fraction) > 1))
        number = whole_number(whole or "0")
        if not is_number or number >= LONG or (fraction is not None and unit != "second"):
            return None
        part = int((fraction or ".")[1:].ljust(9, "0")) // 1_000
        if sign and sign[0] == "-":
            number, part = -number, -part
        months += number * _MONTHS.get(unit, 0)
        days += number * _DAYS.get(unit, 0)
        # Each sum has to fit, and so does what is added.
        added = number * _MICROS.get(unit, 0)
        if not (_fits(added, LONG) and _fits(micros + added, LONG)):
            return None
        micros += added + part
        if not (_fits(months, INT) and _fits(days, INT) and _fits(micros, LONG)):
            return None
    return months, days, micros


def _fits(number: int, limit: int) -> bool:
    return -limit <= number < limit
