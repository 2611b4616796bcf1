"""What a table has lost, and what is only away.

A file that is not found is lost if the table is there without it. Behind a mount that is away
nothing of a table is found.
"""

from __future__ import annotations

from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import FileScanTask, TableProperties
from pyiceberg.table.metadata import TableMetadata

from engine.errors import OffsetOutOfRangeError, SourceError, SourceUnavailableError
from engine.sinks.iceberg.contents import has_files
from engine.sources.iceberg.snapshots import OWNER


def check_there(io: FileIO, root: str, where: str) -> None:
    """:raises SourceUnavailableError: nothing is at this place of the table."""
    if has_files(io, root) is False:
        raise SourceUnavailableError(
            f"{OWNER}: the table {where} is not there: nothing is found below {root}.",
            hint="See that its storage is mounted, wherever tasks run.",
        )


def file_error(
    io: FileIO, metadata: TableMetadata, where: str, task: FileScanTask, cause: OSError
) -> SourceError:
    """What it means that a file of a task was not found."""
    for file in (task.file, *task.delete_files):
        path = file.file_path
        root = _root(metadata, path)
        try:
            check_there(io, root, where)
            is_lost = not io.new_input(path).exists()
            check_there(io, root, where)  # it may have gone away in between
        except OSError as exc:
            return unreadable(where, path, exc)
        except SourceUnavailableError as exc:
            return exc
        if is_lost:
            return OffsetOutOfRangeError(
                f"{OWNER}: {path} of the table {where} is gone: it was removed before its rows "
                "were read.",
                hint="They are lost to this query. Start it with a checkpoint of its own, or keep "
                "snapshots for longer: history.expire.max-snapshot-age-ms.",
            )
    return SourceUnavailableError(
        f"{OWNER}: {task.file.file_path} of the table {where} was away, and is there again: {cause}"
    )


def unreadable(where: str, path: str, cause: OSError) -> SourceUnavailableError:
    """The storage does not give a file."""
    return SourceUnavailableError(
        f"{OWNER}: {path} of the table {where} cannot be read: {cause}",
        hint="See that its storage can be reached.",
    )


def _root(metadata: TableMetadata, path: str) -> str:
    """What holds a file: where the table has its data, the table, or else the file's folder."""
    data = metadata.properties.get(TableProperties.WRITE_DATA_PATH)
    for root in (data, metadata.location):
        if root is not None and _place(path).startswith(f"{_place(root).rstrip('/')}/"):
            return root
    return path.rpartition("/")[0]


def _place(location: str) -> str:
    """However its scheme is written."""
    return PyArrowFileIO.parse_location(location)[2]
