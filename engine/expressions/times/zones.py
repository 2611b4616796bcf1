"""Time zones as ``java.time`` understands them: instants ↔ local date-times, on arrays.

A local time in a gap (clocks go forward) is moved later by the length of the gap; one in an overlap
(clocks go back) means the earlier instant. Local mean times before standard time keep their
seconds. Rules that repeat every year hold for ever, as in Java. In the first and the last hours of
all timestamps (the years -290308 and 294247), local times do not fit into 64 bits: so they are days
and a time of day, or come with a mask of those that fit, as :func:`on_numpy` takes it.

Where the rules of a zone come from: :mod:`engine.expressions.times.zone_rules`.

Source: ``java.time.ZoneId.of``, ``ZoneRules``, ``ZonedDateTime.ofLocal``;
Spark's ``DateTimeUtils.getZoneId``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from engine.expressions.times import civil
from engine.expressions.times.civil import MICROS_PER_DAY, MICROS_PER_SECOND, Ints
from engine.expressions.times.zone_rules import cached_by_rules, rules

Checked: TypeAlias = tuple[Any, Any]
"""Microseconds, and a mask of those that are inside of 64 bits."""
ERA: Final = civil.DAYS_PER_ERA * MICROS_PER_DAY
"""400 years, after which calendar and clocks repeat, in microseconds."""
_DAYS_MAX: Final = 2**63 // MICROS_PER_DAY + 3
"""No date further away from 1970 has an instant that is a timestamp."""
_OFFSET: Final = re.compile(
    r"(?P<sign>[+-])(?:(?P<h>\d\d?)|(?P<hh>\d\d):?(?P<mm>\d\d)|(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)"
    r"|(?P<H2>\d\d)(?P<M2>\d\d)(?P<S2>\d\d))",
    re.ASCII,
)


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

    def local_parts(self, utc: Any) -> tuple[Ints, Ints]:
        """The date that a calendar shows at these instants (days since 1970-01-01), and the
        microseconds since midnight on the clock."""
        days, in_day = np.divmod(np.asarray(utc, np.int64), MICROS_PER_DAY)
        more, in_day = np.divmod(in_day + self.offset_at(utc), MICROS_PER_DAY)
        return np.asarray(days + more), np.asarray(in_day)

    def to_local(self, utc: Any) -> Checked:
        """What a clock on the wall shows at these instants, and whether that is in range."""
        utc = np.asarray(utc, np.int64)
        return plus(utc, self.offset_at(utc))

    def to_utc(self, local: Any) -> Checked:
        """The instants at which the clock shows this, and whether they are in range."""
        local = np.asarray(local, np.int64)
        return plus(local, -self._earlier_offset(local))

    def instants(self, days: Any, in_day: Any, preferred_offset: Ints | None = None) -> Checked:
        """As :meth:`to_utc`, of a date and of microseconds since its midnight, which may be beyond
        the range of timestamps.

        :param preferred_offset: taken instead of the earlier one in an overlap, where valid.
        """
        return _moved_inside(
            lambda near: self._utc(near * MICROS_PER_DAY + in_day, preferred_offset), days
        )

    def start_of_day(self, days: Any) -> Checked:
        """The first instant of these dates (days since 1970-01-01), which a gap may delay, and
        whether it is in range."""
        return _moved_inside(self._start_of_day, days)

    def later(self, utc: Any, days: Any, micros: Any) -> Checked:
        """First the same local time some days later, by ``ZonedDateTime.plusDays``, then the
        instant so many microseconds later."""
        date, in_day = self.local_parts(utc)
        offset = self.offset_at(utc)
        return _moved_inside(
            lambda near: self._utc(near * MICROS_PER_DAY + in_day, offset), date + days, micros
        )

    def _utc(self, local: Ints, preferred_offset: Ints | None = None) -> Ints:
        utc = local - self._earlier_offset(local)
        if preferred_offset is not None:
            preferred = local - preferred_offset
            utc = np.where(self.offset_at(preferred) == preferred_offset, preferred, utc)
        return np.asarray(utc)

    def _earlier_offset(self, local: Ints) -> Ints:
        found = np.searchsorted(self._walls, self._folded(local), "right")
        return np.asarray(self._offsets[found])

    def _start_of_day(self, days: Ints) -> Ints:
        local = days * MICROS_PER_DAY
        folded = self._folded(local)
        found = np.searchsorted(self._walls, folded, "right")
        utc = local - self._offsets[found]
        if len(self._transitions) == 0:
            return np.asarray(utc)
        following = np.minimum(found, len(self._transitions) - 1)
        in_gap = (found == following) & (utc - local + folded > self._transitions[following])
        return np.asarray(np.where(in_gap, self._transitions[following] + local - folded, utc))

    def _folded(self, micros: Any) -> Ints:
        """Times beyond the table moved back by whole 400 years, into its repeating part."""
        micros = np.asarray(micros, np.int64)
        if self._horizon is None:
            return np.asarray(micros)
        beyond = np.maximum(micros, self._horizon) - self._horizon
        return np.asarray(micros - -(-beyond // ERA) * ERA)


def plus(left: Any, right: Any) -> Checked:
    """The sum, and whether it is inside of 64 bits."""
    with np.errstate(over="ignore"):
        total = left + right
    return total, ((left ^ total) & (right ^ total)) >= 0


def _moved_inside(function: Callable[[Ints], Ints], days: Any, more: Any = 0) -> Checked:
    """Instants of dates, and whether they are in range. Those at its ends are computed 400 years
    closer to 1970, where all clocks show the same.

    :param function: of days since 1970-01-01; returns microseconds.
    :param more: microseconds to add, which may lead out of range or back.
    """
    days = np.asarray(days, np.int64)
    reachable = np.abs(days) <= _DAYS_MAX
    eras = np.where(np.abs(days) > _DAYS_MAX - 7, np.sign(days), 0)
    near = np.where(reachable, days - eras * civil.DAYS_PER_ERA, 0)
    moved, near_fits = plus(function(near), more)
    micros, fits = plus(moved, eras * ERA)
    return micros, fits & near_fits & reachable


@cached_by_rules
def zone(name: str) -> Zone:
    """The zone of an id as Spark accepts it: ``Europe/Berlin``, ``+01:00``, ``UTC+1``, ``Z``, ...

    :raises ValueError: there is no such zone.
    """
    # Older Sparks knew +h:mm and +hh:m, so newer ones still do.
    text = re.sub(r"(\+|-)(\d):", r"\g<1>0\2:", name, count=1)
    text = re.sub(r"(\+|-)(\d\d):(\d)$", r"\1\2:0\3", text, count=1)
    text = rules().short_ids.get(text, text)
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
    table = rules().table(text)
    if table is None:
        raise ValueError(f"unknown time zone {name!r}")
    transitions, offsets, repeats = table
    return Zone(text, transitions * MICROS_PER_SECOND, offsets * MICROS_PER_SECOND, repeats)
