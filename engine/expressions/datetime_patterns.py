"""Patterns of dates and times, e.g. ``yyyy-MM-dd HH:mm:ss``: read once, used to print and to parse.

Known letters: ``y M L d D Q q H h K k m s S a E X x Z V`` with their usual counts, quoted text, and
an optional section at the end. Everything else is refused (:class:`UnsupportedPatternError`), as
are patterns for parsing whose numbers run into each other without a fixed width.

As in Spark: names are English, ``y`` is the year and not that of the era (year 0 exists, and those
before it are negative), years beyond 9999 have a plus sign, what a text does not say is
taken from 1970-01-01 00:00:00, and a fraction may be shorter than its pattern.

Source: Spark's ``DateTimeFormatterHelper``; ``java.time.format.DateTimeFormatterBuilder`` with
``ResolverStyle.STRICT``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from engine.expressions import civil
from engine.expressions.civil import MICROS_PER_DAY, MICROS_PER_SECOND
from engine.expressions.dates import MONTHS, WEEKDAYS, YEAR_MAX
from engine.expressions.java_errors import long_overflow
from engine.expressions.timestamps import in_days_range
from engine.expressions.zones import Zone

_QUARTERS: Final = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")


class UnsupportedPatternError(ValueError):
    """Why a pattern is not understood here."""


@dataclass(frozen=True)
class Token:
    """A run of one letter, or a text (``letter`` is empty), or a bracket."""

    letter: str
    count: int
    text: str = ""


@functools.lru_cache
def tokens(pattern: str) -> tuple[Token, ...]:
    """Split a pattern.

    :raises UnsupportedPatternError: it has characters that are reserved, or an open quote.
    """
    return tuple(_tokens(pattern))


def _tokens(pattern: str) -> Iterator[Token]:
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char.isascii() and char.isalpha():
            count = len(pattern) - position - len(pattern[position:].lstrip(char))
            yield Token(char, count)
            position += count
        elif char == "'":
            match = re.compile(r"'((?:[^']|'')*)'").match(pattern, position)
            if match is None:
                raise _refusal(pattern, "a quote is not closed")
            yield Token("", 0, match[1].replace("''", "'") or "'")
            position = match.end()
        elif char in "{}#":
            raise _refusal(pattern, f"{char!r} is reserved")
        else:
            yield Token(char if char in "[]" else "", 0, char)
            position += 1


def _refusal(pattern: str, reason: str) -> UnsupportedPatternError:
    return UnsupportedPatternError(f"the date-time pattern {pattern!r} is not supported: {reason}")


class Moments:
    """The fields of many timestamps in one zone; each is computed when it is first asked for.

    :param micros: instants.
    """

    def __init__(self, micros: Any, zone: Zone) -> None:
        self.zone = zone
        self._micros = micros

    @functools.cached_property
    def offset_seconds(self) -> Any:
        return self.zone.offset_at(self._micros) // MICROS_PER_SECOND

    @functools.cached_property
    def _local(self) -> Any:
        return self._micros + self.zone.offset_at(self._micros)

    @functools.cached_property
    def days(self) -> Any:
        return self._local // MICROS_PER_DAY

    @functools.cached_property
    def date(self) -> tuple[Any, Any, Any]:
        return civil.from_days(self.days)

    def of_day(self, unit: int) -> Any:
        """Whole units of so many microseconds since midnight."""
        return self._local % MICROS_PER_DAY // unit


_Field = Callable[[Moments], Any]


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
    for token in tokens(pattern):
        if token.letter in ("[", "]"):
            # Whatever is optional is there when printing.
            depth += 1 if token.letter == "[" else -1
            if depth < 0:
                raise _refusal(pattern, "a bracket is not open")
        elif not token.letter:
            template += token.text.replace("%", "%%")
        else:
            form, column = _printed(token, pattern)
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


def _printed(token: Token, pattern: str) -> tuple[str, Callable[[Moments], Any]]:
    """A conversion for Python's ``%`` and the values for it."""
    letter, count = token.letter, token.count
    if letter == "y" and count <= 6:
        if count == 2:
            return "%02d", lambda moments: np.abs(moments.date[0]) % 100
        return "%s", lambda moments: [_year_text(y, count) for y in moments.date[0].tolist()]
    if letter in "MLQq" and letter and count in (3, 4):
        names = MONTHS if letter in "ML" else _QUARTERS
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
    raise _refusal(pattern, f"{letter * count!r} is not known")


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


_NUMBER_ANY: Final = "[0-9]{1,19}"
_PARSED: Final = {
    ("y", 1): ("year", "-?[0-9]{1,19}"), ("y", 2): ("short_year", "[0-9]{2}"),
    ("y", 4): ("year", r"[0-9]{4}|\+[0-9]{5,19}|-[0-9]{4,19}"),
    ("S", 1): ("fraction", ""),
    ("a", 1): ("half", "AM|PM"),
    ("X", 1): ("offset", "Z|[+-][0-9]{2}(?:[0-9]{2})?"), ("X", 2): ("offset", "Z|[+-][0-9]{4}"),
    ("X", 3): ("offset", "Z|[+-][0-9]{2}:[0-9]{2}"),
    ("x", 1): ("offset", "[+-][0-9]{2}(?:[0-9]{2})?"), ("x", 2): ("offset", "[+-][0-9]{4}"),
    ("x", 3): ("offset", "[+-][0-9]{2}:[0-9]{2}"),
    ("Z", 1): ("offset", "[+-][0-9]{4}"), ("Z", 2): ("offset", "[+-][0-9]{4}"),
    ("Z", 3): ("offset", "[+-][0-9]{4}"),
}  # fmt: skip
_PARSED_NUMBERS: Final = {
    "M": "month", "L": "month", "d": "day", "H": "hour", "k": "clock_hour", "K": "half_hour",
    "h": "half_clock_hour", "m": "minute", "s": "second",
}  # fmt: skip
_HOURS: Final = {"hour", "clock_hour", "half_hour", "half_clock_hour"}


class TextParser:
    """Reads texts of one pattern.

    :raises UnsupportedPatternError: the pattern is not understood.
    """

    def __init__(self, pattern: str) -> None:
        self._fields: list[str] = []
        self._pattern = pattern
        self._regex = re.compile(self._translated(), re.IGNORECASE)
        fields = set(self._fields)
        if len(fields) < len(self._fields) or {"year", "short_year"} <= fields:
            raise _refusal(pattern, "it has a field twice")
        if len(fields & _HOURS) > 1:
            raise _refusal(pattern, "it has the hour twice")
        if "half" in fields and not fields & {"half_hour", "half_clock_hour"}:
            raise _refusal(pattern, "'a' needs an 'h'")

    def parse(self, text: str) -> tuple[int, int | None] | None:
        """What the clock on the wall shows, in microseconds since 1970, and the offset from UTC in
        seconds, if the text names one.

        :return: None if the text does not follow the pattern.
        :raises TransformError: the time is further away than timestamps reach.
        """
        match = self._regex.fullmatch(text)
        if match is None:
            return None
        found = {name: value for name, value in match.groupdict().items() if value is not None}
        days, in_day = _date(found), _time(found)
        offset = _offset(found["offset"]) if "offset" in found else None
        if days is None or in_day is None or (offset is None and "offset" in found):
            return None
        if not in_days_range(days):
            raise long_overflow()
        return days * MICROS_PER_DAY + in_day, offset

    def _translated(self) -> str:
        regex, open_sections, closed = "", 0, False
        previous_is_open = False
        for token in tokens(self._pattern):
            if closed and token.letter != "]":
                raise _refusal(self._pattern, "only the end may be optional")
            if token.letter == "[":
                regex, open_sections, previous_is_open = regex + "(?:", open_sections + 1, False
            elif token.letter == "]":
                regex, open_sections, closed = regex + ")?", open_sections - 1, True
                if open_sections < 0:
                    raise _refusal(self._pattern, "a bracket is not open")
            elif not token.letter:
                if not token.text.isascii():
                    raise _refusal(self._pattern, "its text is not ASCII")
                regex += re.escape(token.text)
                previous_is_open = False
            else:
                name, form = self._form(token)
                variable = token.count == 1 and name not in ("half", "offset")
                if previous_is_open and not form.startswith(("[+-]", "Z|", "AM", "Jan")):
                    raise _refusal(self._pattern, "a number follows one without a fixed width")
                previous_is_open = variable or name == "fraction"
                self._fields.append(name)
                regex += f"(?P<{name}>{form})"
        return regex + ")?" * open_sections

    def _form(self, token: Token) -> tuple[str, str]:
        letter, count = token.letter, token.count
        if letter == "S" and count <= 9:
            return "fraction", f"[0-9]{{1,{count}}}"
        if letter in "ML" and count in (3, 4):
            names = MONTHS if count == 4 else tuple(name[:3] for name in MONTHS)
            return "month_name", "|".join(names)
        if letter in _PARSED_NUMBERS and count <= 2:
            return _PARSED_NUMBERS[letter], _NUMBER_ANY if count == 1 else "[0-9]{2}"
        if (letter, count) in _PARSED and letter != "S":
            return _PARSED[letter, count]
        raise _refusal(self._pattern, f"{letter * count!r} cannot be parsed here")


def _date(found: dict[str, str]) -> int | None:
    year = int(found.get("year", 1970))
    if abs(year) > YEAR_MAX or (year == 0 and found["year"].startswith("-")):
        return None
    if "short_year" in found:
        year = 2000 + int(found["short_year"])
    month = int(found.get("month", 1))
    if "month_name" in found:
        month = _MONTH_NUMBERS[found["month_name"][:3].upper()]
    day = int(found.get("day", 1))
    return civil.days_or_none(year, month, day)


_MONTH_NUMBERS: Final = {name[:3].upper(): number for number, name in enumerate(MONTHS, 1)}


def _time(found: dict[str, str]) -> int | None:
    hour = _hour_of(found)
    minute, second = int(found.get("minute", 0)), int(found.get("second", 0))
    if hour is None or minute > 59 or second > 59:
        return None
    micros = int(found.get("fraction", "0").ljust(6, "0")[:6])
    return ((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND + micros


def _hour_of(found: dict[str, str]) -> int | None:
    """0 to 23, None if out of range."""
    if "half_hour" in found or "half_clock_hour" in found:
        half = int(found.get("half_hour", found.get("half_clock_hour", "0")))
        low, high = (0, 11) if "half_hour" in found else (1, 12)
        afternoon = found.get("half", "AM").upper() == "PM"
        return half % 12 + 12 * afternoon if low <= half <= high else None
    if "clock_hour" in found:
        clock = int(found["clock_hour"])
        return clock % 24 if 1 <= clock <= 24 else None
    hour = int(found.get("hour", 0))
    return hour if hour <= 23 else None


def _offset(text: str) -> int | None:
    """Seconds; None if out of range."""
    if text in "Zz":
        return 0
    digits = text[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        return None
    return (hours * 60 + minutes) * (-60 if text[0] == "-" else 60)
