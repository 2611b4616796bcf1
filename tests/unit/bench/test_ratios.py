"""Ratios, not times, are compared with what was published."""

from __future__ import annotations

import pytest

from bench.cases import CASES, Case
from bench.publishing.measurements import Row
from bench.publishing.ratios import Place, changes, not_published, ratios

RATES = Case(("engine", "spark"), "rates", compares=True, more_is_better=True)
TIMES = Case(("engine", "spark", "peer"), "times", compares=True)
ALONE = Case(("10 rows",), "alone", by_yardstick=True, more_is_better=("rows/s",))


def row(yardstick: float | None = None, **figures: float) -> Row:
    return Row(figures, yardstick=yardstick)


def test_more_is_better_or_less_is() -> None:
    fast = {"engine": row(x=200.0), "spark": row(x=50.0)}
    assert ratios(RATES, fast) == {Place("engine", "x", "spark"): 4.0}
    assert ratios(TIMES, fast) == {Place("engine", "x", "spark"): 0.25}


def test_what_is_not_there_or_zero_or_a_single_event_has_no_ratio() -> None:
    rows = {"engine": row(p50=1.0, p99=2.0, max=9.0), "spark": row(p50=0.0, p99=4.0, max=1.0)}
    rows["peer"] = Row(missing="no wheel")
    assert ratios(TIMES, rows) == {Place("engine", "p99", "spark"): 2.0}
    assert ratios(TIMES, {"spark": row(p50=1.0)}) == {}


def test_a_slower_machine_has_the_same_ratio_to_the_yardstick() -> None:
    name = {"10 rows": row(0.1, **{"rows/s": 1000.0, "us": 50.0})}
    twice_as_slow = {"10 rows": row(0.2, **{"rows/s": 500.0, "us": 100.0})}
    assert ratios(ALONE, name) == ratios(ALONE, twice_as_slow)
    assert len(ratios(ALONE, name)) == 2


def test_what_fell_by_more_than_a_fifth_is_told() -> None:
    published = {"engine": row(x=100.0, y=100.0), "spark": row(x=50.0, y=50.0)}
    now = {"engine": row(x=78.0, y=82.0), "spark": row(x=50.0, y=50.0)}
    found = list(changes("rates", RATES, published, now))
    assert [(each.place.figure, each.has_fallen) for each in found] == [("x", True), ("y", False)]
    assert str(found[0]) == "rates: engine to spark in x: 1.56, published 2 (-22%)"


def test_a_faster_machine_hides_nothing() -> None:
    published = {"engine": row(x=100.0), "spark": row(x=50.0)}
    now = {"engine": row(x=150.0), "spark": row(x=100.0)}
    assert [each.has_fallen for each in changes("rates", RATES, published, now)] == [True]


def test_what_was_never_published_is_named() -> None:
    now = {"engine": row(x=100.0), "spark": row(x=50.0)}
    assert not_published(RATES, {}, now) == [Place("engine", "x", "spark")]
    assert not_published(RATES, now, now) == []


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_case_that_compares_has_somebody_to_compare_with(name: str) -> None:
    assert not CASES[name].compares or len(CASES[name].engines) > 1
