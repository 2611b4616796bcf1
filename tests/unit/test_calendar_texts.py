"""Texts of intervals that mix units; Spark is asked in tests/spark/test_windows_of_rows.py."""

from __future__ import annotations

import pytest

from engine.expressions.times.calendar_texts import interval_of

SECOND = 1_000_000


TEXTS: list[tuple[str, tuple[int, int, int] | None]] = [
        ("2 minutes", (0, 0, 120 * SECOND)),
        ("\x01 INTERVAL 1 Month -2 weeks\t3 days 4 hours ", (1, -11, 14_400 * SECOND)),
        ("-1.5 seconds + 2 millisecond 3 microseconds", (0, 0, -1_497_997)),
        (".5 second", (0, 0, 500_000)),
        ("- 1.0000019 second", (0, 0, -1_000_001)),
        ("+. second", (0, 0, 0)),
        ("1. seconds", (0, 0, SECOND)),
        ("178956970 years 7 months", (2**31 - 1, 0, 0)),
        ("9223372036854775807 microseconds", (0, 0, 2**63 - 1)),
        *(
            (text, None)
            for text in (
                "", "interval", "intervals 1 day", "interval1 day", "1", "1 day 2", "day", "1day",
                "1 days1 hour", "1 dayss", "1.5 days", "1.5 milliseconds", ". second", "--1 day",
                "1.0000000001 seconds", "1 nanosecond", "2147483648 days", "1 day x", "1 d",
                "178956970 years 8 months", "9223372036854775808 microseconds", "1,5 seconds",
                "9223372036854775807 hours", "١ day", "1\u00a0day", "1 day 2147483647 days",
            )
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "interval"), TEXTS)
def test_what_a_text_is(text: str, interval: tuple[int, int, int] | None) -> None:
    assert interval_of(text) == interval
