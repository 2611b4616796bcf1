"""Whose time zones a process goes by; the file of a Java's."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from engine.expressions.times import zone_rules
from engine.expressions.times.tzdb import read_rules, read_tzdb
from engine.expressions.times.zone_rules import JavaRules, PackageRules, go_by
from engine.expressions.times.zones import is_zone, zone

_DAY = 86_400


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def database(rules: bytes, version: str = "2099z") -> bytes:
    """Of a Java, with one zone."""
    counted = (1).to_bytes(2, "big")
    link = counted + (0).to_bytes(2, "big") * 2
    sized = len(rules).to_bytes(2, "big") + rules
    return (
        b"\x01" + text("TZDB") + counted + text(version)
        + counted + text("Moon/Crater") + counted + sized + link
    )  # fmt: skip


def offset(seconds: int) -> bytes:
    return b"\x7f" + seconds.to_bytes(4, "big", signed=True)


def changes(*instants: int, offsets: tuple[int, ...]) -> bytes:
    times = b"".join(b"\xff" + instant.to_bytes(8, "big", signed=True) for instant in instants)
    return len(instants).to_bytes(4, "big") + times + b"".join(map(offset, offsets))


def yearly(month: int, day: int, weekday: int, hour: int, clock: int, to: int) -> bytes:
    """At standard time 0, in summer an hour more."""
    bits = month << 28 | day + 32 << 22 | weekday << 19 | hour << 14 | clock << 12
    return (bits | 128 << 4 | (2 - to) << 2 | to).to_bytes(4, "big")


ONCE = b"\x01" + changes(offsets=(0,)) + changes(0, offsets=(-1234, 3600)) + b"\x00"
FOR_EVER = (
    b"\x01" + changes(offsets=(0,)) + changes(0, offsets=(-1234, 0)) + b"\x02"
    + yearly(3, -1, 7, 1, 0, 2) + yearly(10, 8, 7, 24, 1, 0)
)  # fmt: skip
"""Since 1970 the clock goes forward on the last Sunday of March, 1:00 UTC, and back at the end of
the second Sunday of October on the clock."""


def java(rules: bytes) -> JavaRules:
    return JavaRules("2099z", (("MST", "Moon/Crater"),), zlib.compress(database(rules)))


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = zone_rules.rules()
    yield
    go_by(before)


def test_a_database_of_java_is_read() -> None:
    version, zones = read_tzdb(database(ONCE))
    assert (version, list(zones)) == ("2099z", ["Moon/Crater"])
    times, offsets, repeats = read_rules(zones["Moon/Crater"])
    assert (times.tolist(), offsets.tolist(), repeats) == ([0], [-1234, 3600], False)


def test_yearly_changes_go_on() -> None:
    times, offsets, repeats = read_rules(FOR_EVER)
    assert repeats
    assert offsets[:4].tolist() == [-1234, 0, 3600, 0]
    march, october = np.datetime64("1970-03-29T01:00:00"), np.datetime64("1970-10-11T23:00:00")
    assert times[1:3].tolist() == [march.astype(int), october.astype(int)]
    assert len(times) > 800


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x02" + database(ONCE)[1:], database(ONCE)[:-3]])
def test_what_is_no_database_is_told(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it (is|does)"):
        read_tzdb(data)


def test_a_process_goes_by_the_rules_that_it_is_given() -> None:
    go_by(PackageRules())
    assert zone("MST").offset_at(0) == -7 * 3600 * 10**6
    assert not is_zone("Moon/Crater")
    go_by(pickle.loads(pickle.dumps(java(ONCE))))
    assert zone("Moon/Crater").offset_at(-1) == -1234 * 10**6
    assert zone("MST").offset_at(0) == 3600 * 10**6
    assert zone("UTC+2").offset_at(0) == 7200 * 10**6
    assert not is_zone("Europe/Berlin")
    go_by(java(FOR_EVER))
    assert zone("Moon/Crater").offset_at(0) == 0
