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
    """``1 file``, ``1,234 files``."""
    return f"{how_many:,} {what}{'' if how_many == 1 else 's'}"


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
