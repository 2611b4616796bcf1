"""Rows that steps with state have left out as too late, as dead letters: the option
``onLateRecord``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from engine.base.moments import iso_timestamp
from engine.sinks.letters import SCHEMA
from engine.state.contract import LateRows
from engine.task.records import as_json

_ROWS_MAX = 1 << 12
"""Of a batch."""


def late_letters(late: Iterable[LateRows], epoch: int, source: str) -> Iterator[pa.RecordBatch]:
    """A letter for each row, made as it is asked for.

    :param source: names the task.
    """
    for stage, watermark_ms, rows in late:
        watermark = iso_timestamp(watermark_ms)
        error = f"LATE: it is behind the watermark {watermark} of {stage}."
        for start in range(0, rows.num_rows, _ROWS_MAX):
            part = rows.slice(start, _ROWS_MAX)
            letters = [
                {
                    "epoch": epoch,
                    "partition": None,
                    "source": source,
                    "offset": None,
                    "record": as_json(part, position),
                    "error": error,
                    "operator": stage,
                    "watermark": watermark,
                }
                for position in range(part.num_rows)
            ]
            yield pa.RecordBatch.from_pylist(letters, schema=SCHEMA)
