"""Texts to timestamps by a pattern.

Letters: ``G y M L d H h K k m s S a X x Z``; the end may be optional. As in Spark, what a text does
not say is taken from 1970-01-01 00:00:00, letter case does not matter, and a fraction may be
shorter than its pattern. A number takes all digits that there are, but for those of the numbers of
fixed width right behind it: ``yyyyMMddHHmmss`` is read, ``yyyyMMdd[HH]`` never has an hour.

Source: Spark's ``DateTimeFormatterHelper`` and ``Iso8601TimestampFormatter``;
``java.time.format.DateTimeFormatterBuilder`` with ``ResolverStyle.STRICT``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from engine.expressions.times import civil
from engine.expressions.times.civil import MICROS_PER_SECOND
from engine.expressions.times.dates import MONTHS, YEAR_MAX
from engine.expressions.times.datetime_patterns import ERAS, Token, refusal, tokens

_NUMBER_ANY: Final = "[0-9]{1,19}"
_PARSED: Final = {
    ("y", 1): ("year", "-?[0-9]{1,19}"), ("y", 2): ("short_year", "[0-9]{2}"),
    ("y", 4): ("year", r"[0-9]{4}|\+[0-9]{5,19}|-[0-9]{4,19}"),
    ("S", 1): ("fraction", ""),
    ("a", 1): ("half", "AM|PM"),
    **{("G", count): ("era", "|".join(ERAS[count == 4])) for count in range(1, 5)},
    ("X", 1): ("offset", "Z|[+-][0-9]{2}(?:[0-9]{2})?"), ("X", 2): ("offset", "Z|[+-][0-9]{4}"),
    ("X", 3): ("offset", "Z|[+-][0-9]{2}:[0-9]{2}"),
    ("x", 1): ("offset", r"\+00|(?!\+00)[+-][0-9]{2}(?:[0-9]{2})?"),  # +0000 is +00 and more
    ("x", 2): ("offset", "[+-][0-9]{4}"), ("x", 3): ("offset", "[+-][0-9]{2}:[0-9]{2}"),
    ("Z", 1): ("offset", "[+-][0-9]{4}"), ("Z", 2): ("offset", "[+-][0-9]{4}"),
    ("Z", 3): ("offset", "[+-][0-9]{4}"),
}  # fmt: skip
_PARSED_NUMBERS: Final = {
    "M": "month", "L": "month", "d": "day", "H": "hour", "k": "clock_hour", "K": "half_hour",
    "h": "half_clock_hour", "m": "minute", "s": "second",
}  # fmt: skip
_NUMBERS: Final = frozenset({"y", *_PARSED_NUMBERS})
_WIDTH_MAX: Final = {"S": 1, **dict.fromkeys(_NUMBERS, 2)}
"""Up to so many letters they are a number of fixed width, or an open one."""
_OFFSET_MAX: Final = 18 * 60 * 60
_HOURS_OF_DAY: Final = {"hour", "clock_hour"}
_HOURS: Final = {*_HOURS_OF_DAY, "half_hour", "half_clock_hour"}


class TextParser:
    """Reads texts of one pattern.

    :raises UnsupportedPatternError: the pattern is not understood.
    """

    def __init__(self, pattern: str) -> None:
        self._fields: list[str] = []
        self._pattern = pattern
        regex = self._translated()
        fields = set(self._fields)
        if len(fields) < len(self._fields) or {"year", "short_year"} <= fields:
            raise refusal(pattern, "it has a field twice")
        if len(fields & _HOURS) > 1:
            raise refusal(pattern, "it has the hour twice")
        if "half" in fields and not fields & {"half_hour", "half_clock_hour"}:
            raise refusal(pattern, "'a' needs an 'h'")
        self._regex = re.compile(regex, re.IGNORECASE)

    def parse(self, text: str, *, of_zone: bool) -> tuple[int, int, int | None] | None:
        """What calendar and clock show: days since 1970, microseconds since midnight, and the
        offset from UTC in microseconds, if the text names one.

        :param of_zone: whether the offset is that of a zone, of which none has more than 18 hours.
        :return: None if the text does not follow the pattern.
        """
        match = self._regex.fullmatch(text)
        if match is None:
            return None
        found = {name: value for name, value in match.groupdict().items() if value is not None}
        days, in_day = _date(found, of_era="era" in self._fields), _time(found)
        offset = _offset(found["offset"]) if "offset" in found else None
        if days is None or in_day is None or (offset is None and "offset" in found):
            return None
        if (of_zone or _is_moment(found)) and abs(offset or 0) > _OFFSET_MAX:
            return None
        return days, in_day, None if offset is None else offset * MICROS_PER_SECOND

    def parse_days(self, text: str) -> int | None:
        """The date that a text names, in days since 1970.

        :return: None if the text does not follow the pattern, or if there is no such DATE.
        """
        found = self.parse(text, of_zone=False)
        return found[0] if found is not None and -(2**31) <= found[0] < 2**31 else None

    def _translated(self) -> str:
        regex, open_sections, closed = "", 0, False
        every = tokens(self._pattern)
        for place, token in enumerate(every):
            if closed and token.letter != "]":
                raise refusal(self._pattern, "only the end may be optional")
            if token.letter == "[":
                regex, open_sections = regex + "(?:", open_sections + 1
            elif token.letter == "]":
                regex, open_sections, closed = regex + ")?", open_sections - 1, True
                if open_sections < 0:
                    raise refusal(self._pattern, "a bracket is not open")
            elif not token.letter:
                if not token.text.isascii():
                    raise refusal(self._pattern, "its text is not ASCII")
                regex += re.escape(token.text)
            else:
                name, form = self._form(token)
                self._fields.append(name)
                if name == "fraction":  # gives no digit back
                    regex += f"(?=(?P<{name}>{form}))(?P={name})"
                else:
                    regex += f"(?P<{name}>{form})"
                if _is_open(token):
                    regex += f"(?=[0-9]{{{_width_behind(every[place + 1 :])}}}(?![0-9]))"
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
        raise refusal(self._pattern, f"{letter * count!r} cannot be parsed here")


def _is_open(token: Token) -> bool:
    """Whether it is a number of as many digits as there are."""
    widths = (1, 4) if token.letter == "y" else (1,)
    return token.letter in _NUMBERS and token.count in widths


def _width_behind(behind: Sequence[Token]) -> int:
    """How many digits an open number leaves to those of fixed width right behind it; none if there
    is another open one behind these, which so gets nothing."""
    width = 0
    for token in behind:
        if _is_open(token):
            return 0
        if not 0 < token.count <= _WIDTH_MAX.get(token.letter, 0):
            break
        width += token.count
    return width


def _is_moment(found: Mapping[str, str]) -> bool:
    """Whether there is a whole date as well as an hour, which Java then puts together with the
    offset."""
    date = ({"year", "short_year"}, {"month", "month_name"}, {"day"})
    hours = _HOURS if "half" in found else _HOURS_OF_DAY  # of a half that is not told they are none
    return all(names & found.keys() for names in (*date, hours))


def _date(found: dict[str, str], *, of_era: bool) -> int | None:
    """:param of_era: years are those of an era: without it they say nothing."""
    year = int(found.get("year", 1970))
    if abs(year) > YEAR_MAX or (year == 0 and found["year"].startswith("-")):
        return None
    if "short_year" in found:
        year = 2000 + int(found["short_year"])
    if of_era and {"year", "short_year"} & set(found):
        if year < 1:
            return None
        if "era" not in found:
            year = 1970
        elif found["era"][0] in "Bb":
            year = 1 - year
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
    if minutes > 59 or hours > 23:
        return None
    return (hours * 60 + minutes) * (-60 if text[0] == "-" else 60)
