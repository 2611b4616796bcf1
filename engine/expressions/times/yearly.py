"""Changes of the clock that come back every year, as far as tables of a zone need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.expressions.times import civil
from engine.expressions.times.civil import Ints

SECONDS_PER_DAY: Final = 86_400
_YEARS: Final = 403
"""More than the 400 after which the calendar repeats."""


@dataclass(frozen=True)
class YearlyChange:
    """One change a year.

    :param month: 1 to 12.
    :param day: of the month; a negative one counts from its end, -1 is the last day.
    :param weekday: 0 is Monday. With a positive day, the first of its kind from there on; with a
        negative one, the last until there. None: the day itself.
    :param second: when on that day, in seconds of UTC; may lie outside of it.
    :param offset: from UTC from then on, in seconds.
    """

    month: int
    day: int
    weekday: int | None
    second: int
    offset: int

    def instants(self, years: Ints) -> Ints:
        """In seconds since 1970."""
        first = civil.to_days(years, self.month, 1)
        if self.day > 0:
            days = first + self.day - 1
            if self.weekday is not None:
                days = days + (self.weekday - civil.weekday(days)) % 7
        else:
            days = first + civil.month_length(years, self.month) + self.day
            if self.weekday is not None:
                days = days - (civil.weekday(days) - self.weekday) % 7
        return np.asarray(days * SECONDS_PER_DAY + self.second, np.int64)


def repeated(changes: Sequence[YearlyChange], since: int) -> tuple[Ints, Ints]:
    """The changes behind an instant (seconds since 1970), for more than 400 years: instants, and
    the offsets from then on."""
    first = int(civil.from_days(since // SECONDS_PER_DAY)[0])
    years = np.arange(first, first + _YEARS)
    times = np.concatenate([change.instants(years) for change in changes])
    offsets = np.repeat([change.offset for change in changes], len(years))
    order = np.argsort(times)
    order = order[times[order] > since]
    return times[order], offsets[order]
