"""Time zones: gaps, overlaps, local mean time, the far future, and ids."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from engine.expressions.times.zones import is_zone, offset_text, zone

_UTC = datetime.timezone.utc
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=_UTC)
_HOUR = 3_600_000_000


def micros(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=_UTC)
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


def to_utc(name: str, local: str) -> int:
    return int(zone(name).to_utc(micros(local))[0])


def test_a_time_in_a_gap_moves_by_its_length() -> None:
    assert to_utc("Europe/Berlin", "2024-03-31T02:30:00") == micros("2024-03-31T01:30:00")
    assert to_utc("Australia/Lord_Howe", "2024-10-06T02:10:00") == micros("2024-10-05T15:40:00")


def test_a_time_in_an_overlap_is_the_earlier_one_unless_another_is_preferred() -> None:
    local = micros("2024-10-27T02:30:00")
    berlin = zone("Europe/Berlin")
    day, in_day = divmod(local, 24 * _HOUR)
    assert berlin.to_utc(local)[0] == micros("2024-10-27T00:30:00")
    assert berlin.instants(day, in_day, _HOUR)[0] == micros("2024-10-27T01:30:00")
    assert berlin.instants(day, in_day, 5 * _HOUR)[0] == micros("2024-10-27T00:30:00")


def test_local_mean_time_has_seconds() -> None:
    assert to_utc("Europe/Berlin", "1800-01-01T00:53:28") == micros("1800-01-01T00:00:00")


def test_a_day_can_start_late() -> None:
    toronto = zone("America/Toronto")
    day = micros("1919-03-31T00:00:00") // (24 * _HOUR)
    assert toronto.to_local(toronto.start_of_day(day)[0])[0] == micros("1919-03-31T00:30:00")
    assert zone("UTC").start_of_day(day)[0] == day * 24 * _HOUR


@pytest.mark.parametrize("year", [2037, 2038, 2500, 5000, 9999])
def test_summer_time_goes_on_for_ever(year: int) -> None:
    assert zone("Europe/Berlin").offset_at(micros(f"{year}-07-01T00:00:00")) == 2 * _HOUR
    assert zone("Europe/Berlin").offset_at(micros(f"{year}-12-01T00:00:00")) == _HOUR
    assert zone("Australia/Lord_Howe").offset_at(micros(f"{year}-01-01T00:00:00")) == 11 * _HOUR


def test_local_and_back_is_the_same_instant_outside_of_overlaps() -> None:
    instants = np.arange(micros("1850-01-01T00:00:00"), micros("2600-01-01T00:00:00"), 10**13)
    for name in ("Europe/Berlin", "America/New_York", "Africa/Casablanca", "Pacific/Apia"):
        there = zone(name)
        back, fits = there.instants(*there.local_parts(instants), there.offset_at(instants))
        assert fits.all()
        assert (back == instants).all(), name


_LAST, _FIRST = np.int64(2**63 - 1), np.int64(-(2**63))


@pytest.mark.parametrize("name", ["Asia/Tokyo", "America/New_York", "Europe/Berlin"])
def test_the_first_and_the_last_instants_have_local_times(name: str) -> None:
    there = zone(name)
    for instant in (_FIRST, _FIRST + 1, np.int64(0), _LAST - _HOUR, _LAST):
        days, in_day = there.local_parts(instant)
        offset = int(there.offset_at(instant))
        assert int(days) * 24 * _HOUR + int(in_day) == int(instant) + offset
        assert there.instants(days, in_day, there.offset_at(instant)) == (instant, True)
        assert there.to_local(instant)[1] == (-(2**63) <= int(instant) + offset < 2**63)


def test_what_is_out_of_range_is_told() -> None:
    tokyo, new_york = zone("Asia/Tokyo"), zone("America/New_York")
    assert not tokyo.to_utc(_FIRST)[1]
    assert not new_york.to_utc(_LAST)[1]
    assert not tokyo.start_of_day(tokyo.local_parts(_FIRST)[0])[1]
    assert tokyo.start_of_day(tokyo.local_parts(_LAST)[0])[1]
    assert not tokyo.later(_LAST, 1, 0)[1]
    assert tokyo.later(_LAST, 1, -25 * _HOUR) == (_LAST - _HOUR, True)
    assert not tokyo.instants(10**12, 0)[1]


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("Z", 0), ("UTC", 0), ("GMT", 0), ("+1", 3600), ("+01", 3600), ("+0130", 5400),
        ("-01:30", -5400), ("+1:30", 5400), ("+01:5", 3900), ("UTC+2", 7200), ("GMT-03:00", -10800),
        ("UT+1", 3600), ("+01:02:03", 3723), ("EST", -18000), ("Etc/GMT+5", -18000),
        ("+18:00", 64800),
    ],
)  # fmt: skip
def test_ids_of_fixed_offsets(name: str, offset: int) -> None:
    assert zone(name).offset_at(0) == offset * 1_000_000


@pytest.mark.parametrize(
    "name", ["", "Europe", "europe/berlin", "Nowhere/At_All", "+19:00", "+1:2:3", "../zones", "+"]
)
def test_unknown_ids(name: str) -> None:
    assert not is_zone(name)


def test_offsets_as_java_writes_them() -> None:
    assert [offset_text(s) for s in (0, 3600, -5400, 3208)] == [
        "Z",
        "+01:00",
        "-01:30",
        "+00:53:28",
    ]
