"""The rows of the day, and what is to come of them: twice, as expressions of Spark and by NumPy.

Row ``v`` happens ``v`` steps after midnight, and its key comes again and again. One in 997 tells a
time 12 minutes before that, which the watermark's hour allows; of ten hours one in 9,973 tells one
of 12 hours before, and is late. That the watermark is so far by then takes a day that is long
enough: on a short one nothing is late.

Counts: in an hour each key comes once or twice. Sessions: a key comes three times within minutes,
and again two hours later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column
from pyspark.sql import functions as F

Ints = npt.NDArray[np.int64]

BEGAN_US = 1_800_000_000_000_000
"""A full hour, to the window's origin; the day begins here."""
HOUR_US = 3_600_000_000
GAP_US = HOUR_US // 6
HOURS = 24
_PRIME = 2_147_483_647
_LATE_HOURS = 12


@dataclass(frozen=True)
class Sums:
    """What is kept of results that end in the same hour: how many, of how many rows, and a sum that
    any other key, time or count would change."""

    results: int = 0
    rows: int = 0
    mixed: int = 0

    def __add__(self, other: Sums) -> Sums:
        mixed = (self.mixed + other.mixed) % (1 << 64)
        return Sums(self.results + other.results, self.rows + other.rows, mixed)


def sums_of(keys: Ints, starts: Ints, ends: Ints, counts: Ints) -> dict[int, Sums]:
    """By the hour in which they end; of one that ends at three it is the third.

    :param starts: microseconds since 1970; ``ends``: likewise.
    """
    with np.errstate(over="ignore"):
        mixed = _stirred(keys.astype(np.uint64))
        for column in (starts, ends, counts):
            mixed = _stirred(mixed + column.astype(np.uint64))
        hours = -((BEGAN_US - ends) // HOUR_US)
        found = {}
        for hour in np.unique(hours).tolist():
            of = hours == hour
            found[hour] = Sums(int(of.sum()), int(counts[of].sum()), int(mixed[of].sum()))
    return found


def _stirred(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    numbers = numbers * np.uint64(0x9E3779B97F4A7C15)
    return numbers ^ (numbers >> np.uint64(29))


@dataclass(frozen=True)
class Rows:
    """
    :param keys: how many there are; a multiple of 10,000.
    :param some_late: whether some are late.
    """

    keys: int
    some_late: bool

    @property
    def of_an_hour(self) -> int:
        return self.keys * 3 // 2

    @property
    def step_us(self) -> int:
        return HOUR_US // self.of_an_hour

    @property
    def _block(self) -> int:
        """So many rows before a key of a session comes again: four minutes."""
        return self.of_an_hour // 15

    @property
    def _back(self) -> int:
        return self.of_an_hour // 5

    @property
    def _late(self) -> int:
        return _LATE_HOURS * self.of_an_hour

    @property
    def _late_ones(self) -> tuple[int, int]:
        """Some rows from the first to before the last."""
        first = self._late + self.of_an_hour
        return first, first + self.some_late * 10 * self.of_an_hour

    # -- for Spark --------------------------------------------------------------------------------

    def at(self) -> Column:
        """When a row says that it happened."""
        value = F.col("value")
        first, last = self._late_ones
        is_late = (value % 9_973 == 3) & (value >= first) & (value < last)
        back = F.when(is_late, self._late).when(value % 997 == 7, self._back).otherwise(0)
        return F.timestamp_micros((value - back) * self.step_us + BEGAN_US)

    def counted_key(self) -> Column:
        return F.expr(f"value * {_PRIME} % {self.keys}")

    def session_key(self) -> Column:
        block = self._block
        visit = f"(value DIV {3 * block} * {block} + value % {block})"
        return F.expr(f"{visit} * {_PRIME} % {self.keys}")

    # -- by NumPy ---------------------------------------------------------------------------------

    def counts(self, hour: int) -> dict[int, Sums]:
        """The counts of the window that ends with an hour of the day."""
        last = hour * self.of_an_hour
        values = np.arange(max(0, last - self.of_an_hour), last + self._back)
        at, _ = self._told(values)
        start_us, end_us = BEGAN_US + (hour - 1) * HOUR_US, BEGAN_US + hour * HOUR_US
        values = values[(at >= start_us) & (at < end_us)]
        counts = np.bincount(values * _PRIME % self.keys, minlength=self.keys)
        keys = np.flatnonzero(counts)
        starts, ends = (np.full(len(keys), each) for each in (start_us, end_us))
        return sums_of(keys, starts, ends, counts[keys])

    def sessions(self) -> Iterator[dict[int, Sums]]:
        """Those that end on the day, in parts; and some that begin on it and end behind it."""
        for first in range(0, HOURS * self.of_an_hour + self._back, 3 * self._block):
            values = np.arange(first, first + 3 * self._block)
            at, counts = self._told(values)
            visits = (values // (3 * self._block) * self._block + values % self._block)[counts]
            keys, at = visits * _PRIME % self.keys, at[counts]
            order = np.lexsort((at, keys))
            keys, at = keys[order], at[order]
            opens = np.ones(len(keys), bool)
            opens[1:] = (keys[1:] != keys[:-1]) | (at[1:] > at[:-1] + GAP_US)
            firsts = np.flatnonzero(opens)
            lasts = np.append(firsts[1:], len(keys)) - 1
            yield sums_of(keys[firsts], at[firsts], at[lasts] + GAP_US, lasts - firsts + 1)

    def _told(self, values: Ints) -> tuple[Ints, Any]:
        """The times that rows tell, and which of them are not late."""
        first, last = self._late_ones
        is_late = (values % 9_973 == 3) & (values >= first) & (values < last)
        back = np.where(is_late, self._late, np.where(values % 997 == 7, self._back, 0))
        return (values - back) * self.step_us + BEGAN_US, ~is_late
