"""A row of a batch as people read it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from engine.base.shown_values import shown_value


def as_json(batch: pa.RecordBatch, position: int) -> str:
    """The row at a position, as JSON. Of several columns with the same name, each but the first has
    its position behind it."""
    row: dict[str, Any] = {}
    for index, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        row[f"{name} #{index}" if name in row else name] = shown_value(column[position])
    return json.dumps(row, default=str, ensure_ascii=False)
