"""Time zones as ``java.time`` understands them: instants ↔ local date-times, on arrays.

A local time in a gap (clocks go forward) is moved later by the length of the gap; one in an overlap
(clocks go back) means the earlier instant. Local mean times before standard time keep their
seconds. Rules that repeat every year hold for ever, as in Java.

Zones come from the ``tzdata`` package; Java brings its own copy of the same database. They may be
of different releases, and Java keeps what it knew of some zones before 1970 that IANA has merged.

Source: RFC 9636 (TZif); ``java.time.ZoneId.of``, ``ZoneRules``, ``ZonedDateTime.ofLocal``;
Spark's ``DateTimeUtils.getZoneId``.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
import struct
from typing import Any, Final

import numpy as np

from engine.expressions import civil
from engine.expressions.civil import MICROS_PER_DAY, MICROS_PER_SECOND, Ints

_ERA: Final = civil.DAYS_PER_ERA * MICROS_PER_DAY
_SHORT_IDS: Final = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
_OFFSET: Final = re.compile(
    r"(?P<sign>[+-])(?:(?P<h>\d\d?)|(?P<hh>\d\d):?(?P<mm>\d\d)|(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)"
    r"|(?P<H2>\d\d)(?P<M2>\d\d)(?P<S2>\d\d))"
)
_REGION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")


class Zone:
    """One zone. All times are microseconds since 1970-01-01T00:00:00, UTC or local.

    :param name: the id in full, as Java prints it.
    :param transitions: the instants at which the offset changes, ascending.
    :param offsets: offset from UTC before the first, between, and after the last transition.
    :param repeats: the last 400 years of transitions repeat for ever.
    """

    def __init__(self, name: str, transitions: Ints, offsets: Ints, repeats: bool = False) -> None:
        self.name = name
        self._transitions = transitions
        self._offsets = offsets
        # Until this local time the offset before the transition counts, in gaps and overlaps alike.
        self._walls = transitions + np.maximum(offsets[:-1], offsets[1:])
        self._horizon = int(transitions[-1]) - MICROS_PER_DAY if repeats else None

    def offset_at(self, utc: Any) -> Ints:
        """The offset from UTC at these instants."""
        found = np.searchsorted(self._transitions, self._folded(utc), "right")
        return np.asarray(self._offsets[found])

    def to_local(self, utc: Any) -> Ints:
        """What a clock on the wall shows at these instants."""
        utc = np.asarray(utc, np.int64)
        return utc + self.offset_at(utc)

    def to_utc(self, local: Any, preferred_offset: Ints | None = None) -> Ints:
        """The instants at which the clock shows this.

        :param preferred_offset: taken instead of the earlier one in an overlap, where valid.
        """
        local = np.asarray(local, np.int64)
        found = np.searchsorted(self._walls, self._folded(local), "right")
        utc = local - self._offsets[found]
        if preferred_offset is not None:
            preferred = local - preferred_offset
            utc = np.where(self.offset_at(preferred) == preferred_offset, preferred, utc)
        return utc

    def start_of_day(self, days: Any) -> Ints:
        """The first instant of these dates (days since 1970-01-01), which a gap may delay."""
        local = np.asarray(days, np.int64) * MICROS_PER_DAY
        folded = self._folded(local)
        found = np.searchsorted(self._walls, folded, "right")
        utc = local - self._offsets[found]
        if len(self._transitions) == 0:
            return utc
        following = np.minimum(found, len(self._transitions) - 1)
        in_gap = (found == following) & (utc - local + folded > self._transitions[following])
        return np.where(in_gap, self._transitions[following] + local - folded, utc)

    def plus_days(self, utc: Any, days: Any) -> Ints:
        """The same local time some days later, by ``ZonedDateTime.plusDays``."""
        offset = self.offset_at(utc)
        return self.to_utc(np.asarray(utc, np.int64) + offset + days * MICROS_PER_DAY, offset)

    def _folded(self, micros: Any) -> Ints:
        """Times beyond the table moved back by whole 400 years, into its repeating part."""
        micros = np.asarray(micros, np.int64)
        if self._horizon is None:
            return micros
        beyond = np.maximum(micros - self._horizon, 0)
        return micros - -(-beyond // _ERA) * _ERA


@functools.lru_cache(maxsize=None)
def zone(name: str) -> Zone:
    """The zone of an id as Spark accepts it: ``Europe/Berlin``, ``+01:00``, ``UTC+1``, ``Z``, ...

    :raises ValueError: there is no such zone.
    """
    # Older Sparks knew +h:mm and +hh:m, so newer ones still do.
    text = re.sub(r"(\+|-)(\d):", r"\g<1>0\2:", name, count=1)
    text = re.sub(r"(\+|-)(\d\d):(\d)$", r"\1\2:0\3", text, count=1)
    text = _SHORT_IDS.get(text, text)
    if text == "Z":
        return _fixed("Z", 0)
    if text[:1] in ("+", "-"):
        return _fixed(*_parse_offset(text, name))
    for prefix in ("UTC", "GMT", "UT"):
        if text == prefix:
            return _fixed(prefix, 0)
        if text.startswith((prefix + "+", prefix + "-")):
            label, offset = _parse_offset(text[len(prefix) :], name)
            return _fixed(prefix if label == "Z" else prefix + label, offset)
    return _region(text, name)


def is_zone(name: str) -> bool:
    """Whether :func:`zone` knows this id."""
    try:
        zone(name)
    except ValueError:
        return False
    return True


def _fixed(name: str, seconds: int) -> Zone:
    no_transitions = np.array([], np.int64)
    return Zone(name, no_transitions, np.array([seconds * MICROS_PER_SECOND], np.int64))


def _parse_offset(text: str, name: str) -> tuple[str, int]:
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise ValueError(f"unknown time zone {name!r}")
    hours = int(match["h"] or match["hh"] or match["H"] or match["H2"])
    minutes = int(match["mm"] or match["M"] or match["M2"] or 0)
    seconds = int(match["S"] or match["S2"] or 0)
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > 18 * 3600:
        raise ValueError(f"unknown time zone {name!r}")
    return offset_text(-total if match["sign"] == "-" else total), (
        -total if match["sign"] == "-" else total
    )


def offset_text(seconds: int) -> str:
    """As ``ZoneOffset.getId``: ``Z``, ``+01:00``, ``-00:53:28``."""
    if seconds == 0:
        return "Z"
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{rest:02}" if rest else text


def _region(text: str, name: str) -> Zone:
    if _REGION.fullmatch(text) is None or text == "Factory":
        raise ValueError(f"unknown time zone {name!r}")
    resource = importlib.resources.files("tzdata").joinpath("zoneinfo", *text.split("/"))
    try:
        data = resource.read_bytes()
    except (OSError, ValueError):
        raise ValueError(f"unknown time zone {name!r}") from None
    if not data.startswith(b"TZif"):
        raise ValueError(f"unknown time zone {name!r}")
    return _parse_tzif(text, data)


def _parse_tzif(name: str, data: bytes) -> Zone:
    """Read version 2 or later of the format: a first block in 32 bits, which is skipped, one in
    64 bits, and a footer with the rule for the time after the last transition."""
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
        later_times, later_offsets = rule.transitions(since)
        times = np.concatenate([times, later_times])
        offsets = np.concatenate([offsets, later_offsets])
    changes = np.flatnonzero(np.diff(offsets))
    times, offsets = times[changes], np.concatenate([offsets[:1], offsets[changes + 1]])
    repeats = rule is not None and len(times) > 0
    return Zone(name, times * MICROS_PER_SECOND, offsets * MICROS_PER_SECOND, repeats)


class _PosixRule:
    """Summer time that repeats every year, e.g. ``CET-1CEST,M3.5.0,M10.5.0/3``."""

    _NAME = r"(?:<[^>]+>|[A-Za-z]+)"
    _TIME = r"[+-]?\d+(?::\d+(?::\d+)?)?"
    _PATTERN = re.compile(
        rf"{_NAME}({_TIME}){_NAME}({_TIME})?"
        rf",M(\d+)\.(\d)\.(\d)(?:/({_TIME}))?,M(\d+)\.(\d)\.(\d)(?:/({_TIME}))?"
    )

    def __init__(self, match: re.Match[str]) -> None:
        standard, summer = match[1], match[2]
        self._standard = -_seconds(standard)
        self._summer = -_seconds(summer) if summer else self._standard + 3600
        self._start = tuple(int(match[i]) for i in (3, 4, 5)) + (_seconds(match[6] or "2"),)
        self._end = tuple(int(match[i]) for i in (7, 8, 9)) + (_seconds(match[10] or "2"),)

    @classmethod
    def parse(cls, text: str) -> _PosixRule | None:
        """None where the offset stays what it is."""
        match = cls._PATTERN.fullmatch(text)
        if match is None:
            if "," in text:
                raise ValueError(f"unknown form of a time zone rule: {text}")
            return None
        return cls(match)

    def transitions(self, since: int) -> tuple[Ints, Ints]:
        """Instants in seconds, and the offsets after them, for more than 400 years."""
        first = int(civil.from_days(since // 86_400)[0])
        years = np.arange(first, first + 403)
        starts = self._instants(years, self._start, self._standard)
        ends = self._instants(years, self._end, self._summer)
        times = np.concatenate([starts, ends])
        offsets = np.repeat([self._summer, self._standard], len(years))
        order = np.argsort(times)
        order = order[times[order] > since]
        return times[order], offsets[order]

    @staticmethod
    def _instants(years: Ints, rule: tuple[int, ...], offset_before: int) -> Ints:
        month, week, day, time = rule
        # Week 5 means the last one of the month. Days of the week count from Sunday.
        month_start = civil.to_days(years, month, 1)
        first = month_start + (day - (civil.weekday(month_start) + 1) % 7) % 7
        chosen = first + (week - 1) * 7
        too_late = chosen >= month_start + civil.month_length(years, month)
        chosen = np.where(too_late, chosen - 7, chosen)
        return np.asarray(chosen * 86_400 + time - offset_before, np.int64)


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")] + [0, 0]
    return sign * (parts[0] * 3600 + parts[1] * 60 + parts[2])
