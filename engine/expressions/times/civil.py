"""The proleptic Gregorian calendar on arrays: days since 1970-01-01 ↔ year, month, day.

Spark's dates are days as 32-bit integers, about ±5.8 million years, far more than NumPy's or
Arrow's own calendar functions take. Everything here is exact for all of them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

DAYS_PER_ERA: Final = 146_097  # 400 years, after which the calendar repeats, week days included
_EPOCH_FROM_MARCH_0000: Final = 719_468
_CUMULATIVE_DAYS: Final = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334])
_MONTH_LENGTHS: Final = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])

MICROS_PER_SECOND: Final = 1_000_000
MICROS_PER_DAY: Final = 86_400 * MICROS_PER_SECOND


def from_days(days: Any) -> tuple[Ints, Ints, Ints]:
    """Year, month (1-12), day of month. Years before 1 are 0, -1, ..."""
    # Years are counted from March: the leap day is then the last day of its year.
    shifted = np.asarray(days, np.int64) + _EPOCH_FROM_MARCH_0000
    era, in_era = np.divmod(shifted, DAYS_PER_ERA)
    year_in_era = (in_era - in_era // 1_460 + in_era // 36_524 - in_era // 146_096) // 365
    in_year = in_era - (365 * year_in_era + year_in_era // 4 - year_in_era // 100)
    month_from_march = (5 * in_year + 2) // 153
    day = in_year - (153 * month_from_march + 2) // 5 + 1
    month = np.where(month_from_march < 10, month_from_march + 3, month_from_march - 9)
    return era * 400 + year_in_era + (month <= 2), month, day


def to_days(year: Any, month: Any, day: Any) -> Ints:
    """The inverse of :func:`from_days`; the values must form a date."""
    month = np.asarray(month, np.int64)
    era, year_in_era = np.divmod(np.asarray(year, np.int64) - (month <= 2), 400)
    month_from_march = (month + 9) % 12
    in_year = (153 * month_from_march + 2) // 5 + np.asarray(day, np.int64) - 1
    in_era = year_in_era * 365 + year_in_era // 4 - year_in_era // 100 + in_year
    return np.asarray(era * DAYS_PER_ERA + in_era - _EPOCH_FROM_MARCH_0000, np.int64)


def days_or_none(year: int, month: int, day: int) -> int | None:
    """As :func:`to_days`, for one date; None if it is none."""
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    if day > 28 and day > int(month_length(year, month)):
        return None
    era, year_in_era = divmod(year - (month <= 2), 400)
    in_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    in_era = year_in_era * 365 + year_in_era // 4 - year_in_era // 100 + in_year
    return era * DAYS_PER_ERA + in_era - _EPOCH_FROM_MARCH_0000


def is_leap(year: Any) -> npt.NDArray[np.bool_]:
    """Whether the year has a February 29."""
    year = np.asarray(year, np.int64)
    return np.asarray((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)))


def month_length(year: Any, month: Any) -> Ints:
    """How many days the month has; months outside of 1-12 count as January."""
    month = np.asarray(month, np.int64)
    index = np.where((month >= 1) & (month <= 12), month - 1, 0)
    return np.asarray(_MONTH_LENGTHS[index] + ((month == 2) & is_leap(year)), np.int64)


def is_date(year: Any, month: Any, day: Any) -> npt.NDArray[np.bool_]:
    """Whether the three form a date."""
    month, day = np.asarray(month, np.int64), np.asarray(day, np.int64)
    in_year = (month >= 1) & (month <= 12)
    return np.asarray(in_year & (day >= 1) & (day <= month_length(year, month)))


def day_of_year(days: Any) -> Ints:
    """1 to 366."""
    year, month, day = from_days(days)
    return np.asarray(_CUMULATIVE_DAYS[month - 1] + day + ((month > 2) & is_leap(year)), np.int64)


def weekday(days: Any) -> Ints:
    """0 is Monday, 6 is Sunday."""
    return np.asarray((np.asarray(days, np.int64) + 3) % 7, np.int64)


def iso_week(days: Any) -> tuple[Ints, Ints]:
    """Year and week (1-53) of ISO 8601: weeks start on Monday, week 1 has the first Thursday."""
    thursday = np.asarray(days, np.int64) - weekday(days) + 3
    return from_days(thursday)[0], (day_of_year(thursday) - 1) // 7 + 1


def plus_months(days: Any, months: Any) -> Ints:
    """The same day of another month, or that month's last day if it is shorter."""
    year, month, day = from_days(days)
    total = year * 12 + (month - 1) + np.asarray(months, np.int64)
    year, month = total // 12, total % 12 + 1
    return to_days(year, month, np.minimum(day, month_length(year, month)))
