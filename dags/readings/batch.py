"""A batch job over a complete day: from the input alone, what the query has written, to the row.

It reads what the query has read, and needs no Spark.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from engine.checkpoint.storage.opening import open_storage
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog

Row = tuple[datetime, str, int, int]
"""The start of an hour, a sensor, how many readings it had and what they come to."""


def compare_day(input_path: str, output_path: str, epoch: int, end: datetime) -> dict[str, Any]:
    """Compare the day before ``end``, in what was committed up to ``epoch``.

    :return: ``start`` and ``end`` of the day, ``rows``, ``readings``, and ``equal``.
    :raises AssertionError: they differ; says how many rows are only in one of the two.
    """
    start = end - timedelta(days=1)
    expected = Counter(_counted(Path(input_path), start, end))
    found = Counter(_committed(output_path, epoch, start, end))
    missing, surplus = (expected - found).total(), (found - expected).total()
    if missing or surplus:
        raise AssertionError(
            f"{missing} of {expected.total()} rows are not in the query's output, and {surplus} "
            "are there that the batch does not have. Readings that came later than the watermark "
            "allows are left out by the query: it counts them."
        )
    return {
        "start": start.isoformat(),
        "end": end.isoformat(),
        "rows": expected.total(),
        "readings": sum(row[2] * count for row, count in expected.items()),
        "equal": True,
    }


def _counted(folder: Path, start: datetime, end: datetime) -> list[Row]:
    groups: dict[tuple[datetime, str], list[int]] = defaultdict(list)
    for file in sorted(folder.glob("*.json")):
        for line in file.read_text().splitlines():
            reading = json.loads(line)
            at = datetime.fromisoformat(reading["at"].replace("Z", "+00:00"))
            if start <= at < end:
                hour = at.replace(minute=0, second=0, microsecond=0)
                groups[hour, reading["sensor"]].append(reading["value"])
    return [(*key, len(values), sum(values)) for key, values in groups.items()]


def _committed(output_path: str, epoch: int, start: datetime, end: datetime) -> list[Row]:
    import pyarrow.parquet as pq

    rows: list[Row] = []
    for file in FileSinkLog(open_storage(f"{output_path}/{FOLDER}")).files(up_to=epoch):
        for row in pq.read_table(file.path).to_pylist():
            if start <= row["hour"] < end:
                rows.append((row["hour"], row["sensor"], row["readings"], row["total"]))
    return rows
