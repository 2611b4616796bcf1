"""Casts from STRING to dates and timestamps.

::

    date       [+-]yyyy[-[m]m[-[d]d[( |T)anything]]]
    timestamp  [+-]yyyy[-[m]m[-[d]d[( |T)time]]]   or   [T]time (of today)
    time       [h]h[:[m]m[:[s]s[.fraction][zone]]]

A year has 4 to 7 digits in a date, 4 to 6 in a timestamp. What is below a microsecond is cut off.

Source: ``SparkDateTimeUtils.stringToDate`` and ``parseTimestampString``.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.casts.parse_numbers import BLANKS, JAVA_BLANKS
from engine.expressions.casts.rules import Casting, Convert, conversion
from engine.expressions.times import civil, current_time
from engine.expressions.times.civil import MICROS_PER_DAY, MICROS_PER_SECOND
from engine.expressions.times.zones import Zone, zone
from engine.expressions.vectors import on_numpy

_DATE: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<year>[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})"
    r"(?:-(?P<day>[0-9]{1,2})(?:[ T].*)?)?)?",
    re.DOTALL,
)
_CLOCK: Final = (
    r"(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})"
    r"(?:\.(?P<fraction>[0-9]*)(?P<zone>[^0-9].*)?|(?P<zone_at_once>[^0-9.].*))?)?)?"
)
_TIMESTAMP: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<year>[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})"
    r"(?:-(?P<day>[0-9]{1,2})(?:[ T](?P<hour>[0-9]{1,2})" + _CLOCK + r")?)?)?",
    re.DOTALL,
)
_TIME: Final = re.compile(
    r"(?:T(?P<late>[0-9]{1,2})|(?P<hour>[0-9]{1,2})(?=:))" + _CLOCK, re.DOTALL
)
_EASY_DATE: Final = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_EASY_TIMESTAMP: Final = (
    r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?\z"
)
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


def parse_date(text: str) -> int | None:
    """Days since 1970; None if it is no date."""
    match = _DATE.fullmatch(text.strip(BLANKS))
    days = None if match is None else _days(match)
    return days if days is not None and -_INT_MAX - 1 <= days <= _INT_MAX else None


def _days(match: re.Match[str]) -> int | None:
    year = int(match["year"]) * (-1 if match["sign"] == "-" else 1)
    month, day = int(match["month"] or 1), int(match["day"] or 1)
    return int(civil.to_days(year, month, day)) if civil.is_date(year, month, day) else None


def parse_timestamp(text: str, default: Zone | None) -> int | None:
    """Microseconds since 1970; None if it is no timestamp.

    :param default: the zone of texts that name none; None to read local date-times, for which a
        zone is checked and then ignored, and which always have a date.
    """
    text = text.strip(BLANKS)
    match = _TIMESTAMP.fullmatch(text)
    has_date = match is not None
    if match is None:
        match = _TIME.fullmatch(text)
    if match is None or (default is None and not has_date):
        return None
    micros = _micros_of_day(match, match["hour"] or ("0" if has_date else match["late"]))
    where = default
    zone_name = match["zone"] or match["zone_at_once"]
    if zone_name is not None:
        try:
            where = zone(zone_name.strip(JAVA_BLANKS))
        except ValueError:
            return None
    if has_date:
        days = _days(match)
    else:
        assert where is not None
        days = int(where.local_parts(current_time.batch_micros())[0])
    if days is None or micros is None:
        return None
    if default is None or where is None:
        local = days * MICROS_PER_DAY + micros
        return local if -_LONG_MAX - 1 <= local <= _LONG_MAX else None
    instant, fits = where.instants(days, micros)
    return int(instant) if fits else None


def _micros_of_day(match: re.Match[str], hour_text: str) -> int | None:
    hour, minute, second = int(hour_text), int(match["minute"] or 0), int(match["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int(f"{match['fraction'] or ''}000000"[:6])
    return (hour * 3600 + minute * 60 + second) * MICROS_PER_SECOND + fraction


@conversion(("string", "date"))
def string_to_date(casting: Casting) -> Convert:
    """Anything else is malformed."""
    per_value = casting.per_value(parse_date)

    def convert(array: pa.Array) -> pa.Array:
        if pc.all(pc.match_substring_regex(array, _EASY_DATE)).as_py() is not False:
            try:
                return array.cast(pa.date32())
            except pa.ArrowInvalid:
                return per_value(array)
        return per_value(array)

    return convert


@conversion(("string", "timestamp"), ("string", "timestamp_ntz"))
def string_to_timestamp(casting: Casting) -> Convert:
    """Anything else is malformed."""
    where = casting.zone if casting.target.tz else None
    per_value = casting.per_value(lambda text: parse_timestamp(text, where))

    def convert(array: pa.Array) -> pa.Array:
        if pc.all(pc.match_substring_regex(array, _EASY_TIMESTAMP)).as_py() is not False:
            try:
                local = array.cast(pa.timestamp("us"))
            except pa.ArrowInvalid:
                return per_value(array)
            return local if where is None else on_numpy(where.to_utc, casting.target, local)
        return per_value(array)

    return convert
