"""A table of text, as ``DataFrame.show`` lays it out.

Source: Spark's ``Dataset.showString``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import pyarrow as pa

from engine.sinks.shown_texts import shown_texts

_ESCAPED = str.maketrans(
    {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b", "\v": "\\v", "\a": "\\a"}
)
_WIDTH_MIN = 3


def show_text(table: pa.Table, num_rows: int, width: int, session_timezone: str) -> str:
    """The first rows of a table, ending with a line break if all rows are shown.

    :param width: cut values to so many characters, and align them right; 0: neither.
    """
    columns = []
    # Of a table without columns Arrow slices more rows than there are.
    shown = table.slice(0, min(num_rows, table.num_rows))
    for name, column in zip(table.column_names, shown.columns, strict=True):
        cells = shown_texts(column.combine_chunks(), session_timezone)
        columns.append([_cut(cell, width) for cell in [name, *cells]])
    widths = [max(_WIDTH_MIN, *map(_half_widths, cells)) for cells in columns]
    rule = "+" + "+".join("-" * each for each in widths) + "+"
    rows = zip(*columns, strict=True) if columns else [()] * (shown.num_rows + 1)
    header, *body = [_line(row, widths, right=width > 0) for row in rows]
    lines = [rule, header, rule, *body, rule]
    if table.num_rows > num_rows:
        lines.append(f"only showing top {num_rows} row{'' if num_rows == 1 else 's'}")
        return "\n".join(lines)
    return "\n".join(lines) + "\n"


def _cut(text: str, width: int) -> str:
    text = text.translate(_ESCAPED)
    if not 0 < width < len(text):
        return text
    return text[:width] if width < 4 else text[: width - 3] + "..."


def _line(cells: Sequence[str], widths: Sequence[int], *, right: bool) -> str:
    padded = []
    for cell, width in zip(cells, widths, strict=True):
        blank = " " * (width - _half_widths(cell))
        padded.append(blank + cell if right else cell + blank)
    return "|" + "|".join(padded) + "|"


def _half_widths(text: str) -> int:
    """The width in columns of a terminal: East Asian characters take two."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
