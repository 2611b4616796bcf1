"""What a reader of a files sink sees: the files that its log names, and no others. A task that was
killed leaves files that are never committed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from engine.checkpoint.storage.opening import open_storage
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog


def committed(folder: Path, column: str) -> list[Any]:
    """The values of a column of Parquet files below a folder of this machine."""
    files = FileSinkLog(open_storage(str(folder / FOLDER))).files()
    tables = (pq.read_table(each.path.removeprefix("file://")) for each in files)
    return [value for table in tables for value in table[column].to_pylist()]


def letters_in(folder: Path) -> list[dict[str, Any]]:
    """The dead letters of committed epochs, or the rows of any JSON files."""
    return [
        json.loads(line)
        for file in FileSinkLog(open_storage(str(folder / FOLDER))).files()
        for line in Path(file.path.removeprefix("file://")).read_text().splitlines()
    ]
