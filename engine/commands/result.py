"""What a command gives back, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.base.moments import iso_timestamp
from engine.base.text_tables import cell
from engine.base.text_tables import format_table as format_table

DONE, FAILED, WRONG_USE = 0, 1, 2
"""Exit codes: as asked; it failed; the arguments, the specification or the machine are wrong."""


@dataclass(frozen=True)
class Result:
    """:param data: the JSON object that ``--json`` prints.
    :param text: what is printed otherwise; may be empty.
    :param exit_code: one of the codes above.
    :param error: why it failed, for standard error.
    """

    data: Mapping[str, Any]
    text: str
    exit_code: int = DONE
    error: Exception | None = None


def format_pairs(pairs: Mapping[str, Any]) -> str:
    """One ``name  value`` per line; those that are None are left out."""
    shown = {key: cell(value)[0] for key, value in pairs.items() if value is not None}
    width = max(map(len, shown), default=0)
    return "\n".join(f"{key.ljust(width)}  {value}" for key, value in shown.items())


def format_time(ms: int | float | None) -> str | None:
    """ISO 8601 in UTC, to the millisecond; None stays None."""
    return None if ms is None else iso_timestamp(round(ms))


def format_bytes(size: int) -> str:
    """``1.5 MiB``."""
    amount, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:,.0f} {unit}" if unit == "bytes" else f"{amount:,.1f} {unit}"
