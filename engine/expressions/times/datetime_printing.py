"""Timestamps to text by a pattern.

Letters: ``G y M L d D Q q H h K k m s S a E X x Z V``. As in Spark, names are English, ``y`` is the
year and not that of the era (year 0 exists, and those before it are negative) without a ``G``,
and years beyond 9999 have a plus sign.

Source: Spark's ``DateTimeFormatterHelper``; ``java.time.format.DateTimeFormatterBuilder``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from engine.expressions.times import civil
from engine.expressions.times.civil import MICROS_PER_SECOND
from engine.expressions.times.dates import MONTHS, WEEKDAYS
from engine.expressions.times.datetime_patterns import ERAS, Token, refusal, tokens
from engine.expressions.times.zones import Zone

_QUARTERS: Final = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")


class Moments:
    """The fields of many timestamps in one zone; each is computed when it is first asked for.

    :param micros: instants.
    """

    def __init__(self, micros: Any, zone: Zone) -> None:
        self.zone = zone
        self._micros = micros

    @classmethod
    def midnights(cls, days: Any, zone: Zone) -> Moments:
        """Of days, also of those that no timestamp reaches.

        :param zone: one that is as far from UTC at any time.
        """
        moments = cls(np.zeros(len(days), np.int64), zone)
        moments._parts = days.astype(np.int64), np.zeros(len(days), np.int64)
        return moments

    @functools.cached_property
    def offset_seconds(self) -> Any:
        return self.zone.offset_at(self._micros) // MICROS_PER_SECOND

    @functools.cached_property
    def _parts(self) -> tuple[Any, Any]:
        return self.zone.local_parts(self._micros)

    @property
    def days(self) -> Any:
        return self._parts[0]

    @functools.cached_property
    def date(self) -> tuple[Any, Any, Any]:
        return civil.from_days(self.days)

    def of_day(self, unit: int) -> Any:
        """Whole units of so many microseconds since midnight."""
        return self._parts[1] // unit


_Field = Callable[[Moments], Any]


def _year(moments: Moments) -> Any:
    return moments.date[0]


def _year_of_era(moments: Moments) -> Any:
    years = _year(moments)
    return np.where(years < 1, 1 - years, years)


def _hour(moments: Moments) -> Any:
    return moments.of_day(3_600 * MICROS_PER_SECOND)


_NUMBERS: Final[dict[str, _Field]] = {
    "M": lambda moments: moments.date[1],
    "L": lambda moments: moments.date[1],
    "d": lambda moments: moments.date[2],
    "D": lambda moments: civil.day_of_year(moments.days),
    "Q": lambda moments: (moments.date[1] + 2) // 3,
    "q": lambda moments: (moments.date[1] + 2) // 3,
    "H": _hour,
    "k": lambda moments: (_hour(moments) - 1) % 24 + 1,
    "K": lambda moments: _hour(moments) % 12,
    "h": lambda moments: (_hour(moments) - 1) % 12 + 1,
    "m": lambda moments: moments.of_day(60 * MICROS_PER_SECOND) % 60,
    "s": lambda moments: moments.of_day(MICROS_PER_SECOND) % 60,
}


def printer(pattern: str) -> Callable[[Moments], list[str]]:
    """How to print with this pattern.

    :raises UnsupportedPatternError: it is not understood.
    """
    depth = 0
    template, columns = "", []
    of_era = any(token.letter == "G" for token in tokens(pattern))
    for token in tokens(pattern):
        if token.letter in ("[", "]"):
            # Whatever is optional is there when printing.
            depth += 1 if token.letter == "[" else -1
            if depth < 0:
                raise refusal(pattern, "a bracket is not open")
        elif not token.letter:
            template += token.text.replace("%", "%%")
        else:
            form, column = _printed(token, pattern, of_era)
            template += form
            columns.append(column)
    if not columns:
        text = template % ()
        return lambda moments: [text] * len(moments.days)

    def render(moments: Moments) -> list[str]:
        values = [column(moments) for column in columns]
        lists = [v if isinstance(v, list) else v.tolist() for v in values]
        return [template % row for row in zip(*lists, strict=True)]

    return render


def _printed(token: Token, pattern: str, of_era: bool) -> tuple[str, Callable[[Moments], Any]]:
    """A conversion for Python's ``%`` and the values for it."""
    letter, count = token.letter, token.count
    if letter == "y" and count <= 6:
        years = _year_of_era if of_era else _year
        if count == 2:
            return "%02d", lambda moments: np.abs(years(moments)) % 100
        return "%s", lambda moments: [_year_text(y, count) for y in years(moments).tolist()]
    if letter == "G" and count <= 4:
        before, since = ERAS[count == 4]
        return "%s", lambda moments: np.where(_year(moments) < 1, before, since)
    if letter in "MLQq" and letter and count in (3, 4):
        names: tuple[str, ...] = MONTHS if letter in "ML" else _QUARTERS
        if count == 3:
            names = tuple(n[:3] for n in MONTHS) if letter in "ML" else ("Q1", "Q2", "Q3", "Q4")
        field = _NUMBERS[letter]
        return "%s", lambda moments: [names[n - 1] for n in field(moments).tolist()]
    if letter == "E" and count <= 4:
        days = WEEKDAYS if count == 4 else tuple(name[:3] for name in WEEKDAYS)
        return "%s", lambda moments: [days[n] for n in civil.weekday(moments.days).tolist()]
    if letter == "a" and count == 1:
        return "%s", lambda moments: np.where(_hour(moments) < 12, "AM", "PM")
    if letter == "S" and count <= 9:
        unit, zeros = 10 ** max(6 - count, 0), "0" * max(count - 6, 0)
        form = f"%0{min(count, 6)}d{zeros}"
        return form, lambda moments: moments.of_day(1) % MICROS_PER_SECOND // unit
    if letter in _NUMBERS and (count <= 2 or (letter == "D" and count == 3)):
        if letter == "D" and count == 2:
            return "%02d", _NUMBERS[letter]
        return ("%d" if count == 1 else f"%0{count}d"), _NUMBERS[letter]
    if letter in "xXZ" and _offset_form(letter, count):
        return "%s", lambda moments: [
            _offset_text(seconds, letter, count) for seconds in moments.offset_seconds.tolist()
        ]
    if letter == "V" and count == 2:
        return "%s", lambda moments: [moments.zone.name] * len(moments.days)
    raise refusal(pattern, f"{letter * count!r} is not known")


def _year_text(year: int, count: int) -> str:
    sign = "-" if year < 0 else "+" if count >= 4 and year >= 10**count else ""
    return f"{sign}{abs(year):0{count}d}"


def _offset_form(letter: str, count: int) -> bool:
    return count <= 3 if letter in "xX" else count <= 3 and letter == "Z"


def _offset_text(seconds: int, letter: str, count: int) -> str:
    """Seconds of the offset are not printed."""
    minutes = abs(seconds) // 60
    if letter == "X" and seconds == 0:
        return "Z"
    sign = "-" if seconds < 0 and minutes else "+"
    hours, rest = divmod(minutes, 60)
    if letter == "Z" or count == 2:
        return f"{sign}{hours:02}{rest:02}"
    if count == 3:
        return f"{sign}{hours:02}:{rest:02}"
    return f"{sign}{hours:02}{rest:02}" if rest else f"{sign}{hours:02}"
