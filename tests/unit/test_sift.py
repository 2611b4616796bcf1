"""The few that fail among many are found, and nothing else is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.sift import sift
from engine.errors import (
    BadRecordError,
    ConfigError,
    ContinuousError,
    SourceError,
    SourceUnavailableError,
    TransformError,
)


@given(st.integers(0, 60), st.sets(st.integers(0, 59)))
def test_everything_but_the_bad_items_comes_out_in_order(count: int, bad: set[int]) -> None:
    def attempt(start: int, stop: int) -> list[int]:
        items = list(range(start, stop))
        if bad.intersection(items):
            raise ValueError(min(bad.intersection(items)))
        return items

    pieces, failures = sift(count, attempt, (ValueError,))
    assert [item for piece in pieces for item in piece] == [n for n in range(count) if n not in bad]
    assert [(position, exc.args[0]) for position, exc in failures] == [
        (n, n) for n in range(count) if n in bad
    ]


def test_few_bad_ones_cost_few_attempts() -> None:
    attempts = 0

    def attempt(start: int, stop: int) -> None:
        nonlocal attempts
        attempts += 1
        if start <= 700 < stop:
            raise ValueError

    sift(1_024, attempt, (ValueError,))
    assert attempts <= 2 * 11


@pytest.mark.parametrize("kind", [SourceUnavailableError, SourceError, ConfigError])
def test_an_outage_is_no_items_fault(kind: type[ContinuousError]) -> None:
    """Else all records that come while it lasts would be left out as bad ones."""

    def attempt(start: int, stop: int) -> None:
        raise kind("the registry is away")

    with pytest.raises(kind):
        sift(4, attempt, (Exception,))


@pytest.mark.parametrize("kind", [TransformError, BadRecordError])
def test_what_the_engine_says_of_an_item_is(kind: type[ContinuousError]) -> None:
    def attempt(start: int, stop: int) -> None:
        raise kind("not a number")

    _, bad = sift(2, attempt, (Exception,))
    assert [position for position, _ in bad] == [0, 1]


def test_other_errors_are_not_swallowed() -> None:
    def attempt(start: int, stop: int) -> None:
        raise KeyError(start)

    try:
        sift(4, attempt, (ValueError,))
    except KeyError:
        return
    raise AssertionError
