"""Tables and figures for people."""

from __future__ import annotations

from typing import Any

import pytest

from engine.base.text_tables import count
from engine.commands.result import format_bytes, format_pairs, format_table, format_time


def test_a_counted_noun() -> None:
    told = [count(n, noun) for noun in ("entry", "day") for n in (0, 1, 1234)]
    assert told == ["0 entries", "1 entry", "1,234 entries", "0 days", "1 day", "1,234 days"]


def test_a_table() -> None:
    rows: list[list[Any]] = [[1, 12_345, 0.5, "yes", True], [20, None, None, "well", False]]
    assert format_table(["epoch", "rows", "p50 ms", "note", "ok"], rows).splitlines() == [
        "epoch    rows  p50 ms  note  ok",
        "-----  ------  ------  ----  ---",
        "    1  12,345    0.50  yes   yes",
        "   20       -       -  well  no",
    ]


def test_a_table_without_rows() -> None:
    assert format_table(["a", "bc"], []) == "a  bc\n-  --"


def test_pairs_leave_out_what_is_not_there() -> None:
    assert format_pairs({"query": "q", "error": None, "epoch": 1_000}) == "query  q\nepoch  1,000"
    assert format_pairs({}) == ""


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")],
)
def test_bytes(size: int, shown: str) -> None:
    assert format_bytes(size) == shown


def test_times() -> None:
    assert format_time(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert format_time(None) is None
