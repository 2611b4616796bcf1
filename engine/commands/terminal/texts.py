"""Numbers as the terminal shows them; and series drawn over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from engine.commands.result import format_bytes
from engine.history.view import HistoryView

UNKNOWN: Final = "-"


def printable(text: str) -> str:
    """Names are other people's: what a terminal would obey, or could not encode, by its escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """The same of a text of several lines: errors and reasons are other people's, too."""
    return "\n".join(printable(line) for line in text.expandtabs().split("\n"))


def short(value: float | int | None) -> str:
    """``1.2 M``; whole below a thousand, unless it is small."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:,.1f} {unit}"
    return f"{value:.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.2f}"


def duration(seconds: float | None) -> str:
    """``12 s``, ``3 min``, ``2.5 h``, ``4.0 d``."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return f"{max(seconds, 0):.0f} s"
    for unit, size, limit in (("min", 60, 3600), ("h", 3600, 86_400)):
        if seconds < limit:
            return f"{seconds / size:.{0 if unit == 'min' else 1}f} {unit}"
    return f"{seconds / 86_400:.1f} d"


def with_unit(value: float | int | None, unit: str) -> str:
    """A value of a series."""
    if value is None:
        return UNKNOWN
    if unit == "bytes":
        return format_bytes(int(value))
    if unit == "ms" and value >= 1000:
        return f"{value / 1000:,.1f} s"
    return f"{short(value)} {unit}"


def columns(
    view: HistoryView, name: str, from_ms: int, until_ms: int, count: int
) -> list[float | None]:
    """A series over a time, in columns of equal width: each has the largest value of the points
    that reach into it; None where there are none."""
    width_ms = (until_ms - from_ms) / count
    drawn: list[float | None] = [None] * count
    values: Sequence[float | int | None] = view.series[name].values
    for start_ms, length_ms, value in zip(view.starts_ms, view.lengths_ms, values, strict=True):
        if value is None or start_ms + length_ms <= from_ms or start_ms >= until_ms:
            continue
        first = max(0, int((start_ms - from_ms) / width_ms))
        last = min(count - 1, max(first, int((start_ms + length_ms - 1 - from_ms) / width_ms)))
        for index in range(min(first, last), last + 1):
            known = drawn[index]
            drawn[index] = float(value) if known is None else max(known, float(value))
    return drawn
