"""Dates and timestamps plus ``make_interval(...)``; Spark is asked in tests/parity."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import TransformError
from engine.expressions.compile import compile_expression, unsupported
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP

_DAYS_IN_400_YEARS = 146_097
_Parts = tuple[int, int, int, int, int, int, Decimal]


def _parts(*given: int, seconds: str = "0") -> _Parts:
    years, months, weeks, days, hours, minutes = (*given, *(0,) * (6 - len(given)))
    return years, months, weeks, days, hours, minutes, Decimal(seconds)


def _later(dtype: pa.DataType, start: Any, parts: _Parts, **params: Any) -> Any:
    types = [dtype, *[pa.int32()] * 6, pa.decimal128(18, 6)]
    columns = tuple(
        Expr("Column", (), each, True, {"ordinal": at, "name": str(at)})
        for at, each in enumerate(types)
    )
    given = {
        "fail_on_error": True,
        "negated": False,
        "negation_fails": True,
        "time_zone_id": "Europe/Berlin",
        "ansi_enabled": True,
        **params,
    }
    expr = Expr("MadeIntervalLater", columns, dtype, True, given)
    assert unsupported(expr) == []
    arrays = [pa.array([value], each) for value, each in zip((start, *parts), types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, [str(at) for at in range(len(arrays))])
    return compile_expression(expr)(batch).to_pylist()[0]


def _utc(*when: int) -> datetime:
    return datetime(*when, tzinfo=timezone.utc)


def test_months_then_days_then_the_rest() -> None:
    parts = _parts(0, 1, 0, 1, 1, seconds="0.5")
    assert _later(TIMESTAMP, _utc(2024, 1, 31), parts) == _utc(2024, 3, 1, 1, 0, 0, 500_000)
    back = _later(TIMESTAMP, _utc(2024, 4, 1), _parts(0, 1, 0, 1), negated=True)
    assert back == _utc(2024, 2, 29, 1)  # by the clock on the wall, which has been put forward


def test_what_lies_between_may_be_no_timestamp() -> None:
    parts = _parts(300_000, 0, 0, -750 * _DAYS_IN_400_YEARS)
    assert _later(TIMESTAMP, _utc(2024, 7, 1), parts) == _utc(2024, 7, 1)
    assert _later(TIMESTAMP, _utc(2024, 7, 1), parts, negated=True) == _utc(2024, 7, 1)


def test_dates() -> None:
    leap = date(2024, 2, 29)
    assert _later(pa.date32(), leap, _parts(1, 0, 1)) == date(2025, 3, 7)
    hours = _parts(0, 0, 0, 0, 25)
    assert _later(pa.date32(), leap, hours, ansi_enabled=False) == date(2024, 3, 1)


@pytest.mark.parametrize(
    ("dtype", "parts", "params", "why"),
    [
        (pa.date32(), _parts(0, 0, 0, 0, 1), {}, "INVALID_INTERVAL_WITH_MICROSECONDS_ADDITION"),
        (pa.date32(), _parts(0, 0, 0, 2**31 - 1), {}, "ARITHMETIC_OVERFLOW"),
        (TIMESTAMP, _parts(2**31 - 1), {}, "ARITHMETIC_OVERFLOW"),
        (TIMESTAMP, _parts(0, -(2**31)), {"negated": True}, "ARITHMETIC_OVERFLOW"),
        (TIMESTAMP, _parts(300_000), {}, "long overflow"),
    ],
)
def test_overflow(dtype: pa.DataType, parts: _Parts, params: dict[str, Any], why: str) -> None:
    start = date(2024, 1, 1) if pa.types.is_date32(dtype) else _utc(2024, 1, 1)
    with pytest.raises(TransformError, match=why):
        _later(dtype, start, parts, **params)


def test_parts_that_fit_no_interval_are_null_if_tried() -> None:
    assert _later(TIMESTAMP, _utc(2024, 1, 1), _parts(2**31 - 1), fail_on_error=False) is None
