"""How the pages spell numbers and times."""

from __future__ import annotations

import time
from typing import Any, Final

from engine.base.moments import iso_timestamp

NOTHING = "\N{EN DASH}"
_TURNS: Final = {
    code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
"""What says in which direction the text behind it is read, by its escape."""


def finalized(value: Any) -> Any:
    """A name, or an error, that would turn the text behind it round is shown with what it says of
    the direction. What a template has escaped itself stays as it is."""
    return value.translate(_TURNS) if type(value) is str else value


def number(value: float | None, digits: int = 0) -> str:
    """``1,234.5``; a dash for None."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def duration(seconds: float | None) -> str:
    """The two largest units: ``3 d 4 h``, ``2 min 5 s``, ``0.4 s``."""
    if seconds is None:
        return NOTHING
    if seconds < 10:
        return f"{seconds:.1f} s"
    left, parts = int(seconds), []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def ago(at_ms: float | None) -> str:
    """How long ago a time was, given in milliseconds since 1970."""
    return NOTHING if at_ms is None else duration(max(0.0, time.time() - at_ms / 1000))


def moment(at_ms: float | None) -> str:
    """``2026-01-31 23:59:59 UTC``."""
    if at_ms is None:
        return NOTHING
    return f"{iso_timestamp(round(at_ms))[:-5].replace('T', ' ')} UTC"


def size(count: float | None) -> str:
    """``1.5 kB``, ``20 MB``; a dash for None."""
    if count is None:
        return NOTHING
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.1f} {unit}" if count < 10 and unit != "B" else f"{count:,.0f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
