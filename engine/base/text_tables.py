"""Tables of text, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def format_table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of text: numbers to the right, None as a dash, whole numbers with thousands."""
    cells = [[cell(value) for value in row] for row in rows]
    columns = []
    for index, header in enumerate(headers):
        below = [row[index] for row in cells]
        width = max(len(text) for text, _ in [(header, False), *below])
        to_the_right = bool(below) and all(right for _, right in below)
        head = header.rjust(width) if to_the_right else header.ljust(width)
        body = [text.rjust(width) if right else text.ljust(width) for text, right in below]
        columns.append([head, "-" * width, *body])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def count(how_many: int, what: str) -> str:
    """``1 file``, ``1,234 files``; ``2 entries``."""
    if how_many == 1:
        return f"1 {what}"
    ends_in_ies = what.endswith("y") and what[-2] not in "aeiou"
    return f"{how_many:,} {what[:-1]}ies" if ends_in_ies else f"{how_many:,} {what}s"


def have(how_many: int) -> str:
    """What goes on behind :func:`count`: ``1 task has``, ``2 tasks have``."""
    return "has" if how_many == 1 else "have"


def are(how_many: int) -> str:
    """Likewise: ``1 task is``, ``2 tasks are``."""
    return "is" if how_many == 1 else "are"


def cell(value: Any) -> tuple[str, bool]:
    """The text of a value, and whether it belongs to the right."""
    if value is None:
        return "-", True
    if isinstance(value, bool):
        return ("yes" if value else "no"), False
    if isinstance(value, int):
        return f"{value:,}", True
    if isinstance(value, float):
        return f"{value:,.2f}", True
    return str(value), False
