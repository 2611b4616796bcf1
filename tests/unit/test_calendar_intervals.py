"""Timestamps plus intervals that mix units; Spark is asked in tests/parity and tests/spark."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from engine.expressions.compile import compile_expression, unsupported
from engine.expressions.times.calendar_intervals import CALENDAR
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP

NOON = datetime(2026, 3, 28, 12, tzinfo=timezone.utc)


PARAMS = {"null_safe": True, "time_zone_id": "Europe/Berlin"}
COLUMNS = tuple(
    Expr("Column", (), dtype, True, {"ordinal": at, "name": str(at)})
    for at, dtype in enumerate((TIMESTAMP, CALENDAR))
)


def later(starts: list[datetime | None], texts: list[str | None]) -> Any:
    columns = [
        Expr("Column", (), dtype, True, {"ordinal": at, "name": str(at)})
        for at, dtype in enumerate((TIMESTAMP, pa.string()))
    ]
    interval = Expr("CalendarIntervalOfText", (columns[1],), CALENDAR, True)
    expr = Expr("CalendarIntervalLater", (columns[0], interval), TIMESTAMP, True, PARAMS)
    assert unsupported(expr) == []
    arrays = [pa.array(starts, TIMESTAMP), pa.array(texts, pa.string())]
    return compile_expression(expr)(pa.RecordBatch.from_arrays(arrays, ["0", "1"])).to_pylist()


def test_an_interval_may_be_null_in_all_its_parts() -> None:
    """As a conditional makes it where no branch has one."""
    for length in (1, 3):
        ends = pa.array([*[None] * (length - 1), {"months": 0, "days": 0, "micros": 7}], CALENDAR)
        intervals = [ends.take(pa.array([0] * (length - 1) + [None], pa.int64())), ends]
        for interval in intervals:
            expr = Expr("CalendarIntervalLater", COLUMNS, TIMESTAMP, True, PARAMS)
            starts = pa.array([NOON] * length, TIMESTAMP)
            batch = pa.RecordBatch.from_arrays([starts, interval], ["0", "1"])
            found = compile_expression(expr)(batch).to_pylist()
            wanted = [
                None if i is None else NOON.replace(microsecond=7) for i in interval.to_pylist()
            ]
            assert found == wanted


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("90 minutes", NOON.replace(hour=13, minute=30)),
        ("1 day", NOON.replace(day=29, hour=11)),  # by the clock on the wall
        ("24 hours", NOON.replace(day=29)),
    ],
)
def test_what_is_null_leaves_the_others_as_they_are(text: str, result: datetime) -> None:
    found = later([NOON, None, NOON, None, NOON], [text, text, None, None, "no interval"])
    assert found == [result, None, None, None, None]
    assert later([None, NOON], [text, None]) == [None, None]
    assert later([], []) == []
