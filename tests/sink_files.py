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
    return [row[column] for row in committed_rows(folder, column)]


def committed_rows(folder: Path, *columns: str) -> list[dict[str, Any]]:
    """The rows of such files, as they are at one moment."""
    files = FileSinkLog(open_storage(str(folder / FOLDER))).files()
    paths = (each.path.removeprefix("file://") for each in files)
    return [row for path in paths for row in pq.read_table(path, columns=list(columns)).to_pylist()]


def letters_in(folder: Path) -> list[dict[str, Any]]:
    """The dead letters of committed epochs, or the rows of any JSON files."""
    return [
        json.loads(line)
        for file in FileSinkLog(open_storage(str(folder / FOLDER))).files()
        for line in Path(file.path.removeprefix("file://")).read_text().splitlines()
    ]
