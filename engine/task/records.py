"""A row of a batch as people read it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa


def as_json(batch: pa.RecordBatch, position: int) -> str:
    """The row at a position, as JSON. Of several columns with the same name, each but the first has
    its position behind it."""
    row: dict[str, Any] = {}
    for index, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        row[f"{name} #{index}" if name in row else name] = _plain(column[position])
    return json.dumps(row, default=str, ensure_ascii=False)


def _plain(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):  # a date beyond the year 9999, which Spark allows
        try:
            return value.cast(pa.string()).as_py()
        except pa.ArrowException:
            return f"a {value.type} that cannot be shown"
