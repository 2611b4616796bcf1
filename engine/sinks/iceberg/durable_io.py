"""Files of a table that stay, also on a local disk: what Iceberg's client writes there it does not
synchronise, and a catalog that does would name a file which a power failure has emptied.

Given to Iceberg's client as ``py-io-impl``. Other places it reaches as ever.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from engine.base import durable as disk


class DurableFileIO(PyArrowFileIO):
    """See the module."""

    def new_output(self, location: str) -> PyArrowFile:
        path = local_path_of(location)
        file = super().new_output(location)
        if path is None:
            return file
        return _LocalFile(file.location, str(path), file._filesystem)


class _LocalFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> Any:
        path = Path(self._path)
        disk.make_folder(path.parent)
        if overwrite:
            path.unlink(missing_ok=True)
        return _LocalStream(disk.create(path), path)


class _LocalStream:
    """:class:`pyiceberg.io.OutputStream`, and a file of Python's to Arrow."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        if self._file.closed:
            return
        disk.sync(self._file)
        self._file.close()
        disk.sync_folder(self._path.parent)

    def __enter__(self) -> _LocalStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def local_path_of(location: str) -> Path | None:
    """The path of a location on a local or mounted disk; None of others."""
    scheme, _, path = PyArrowFileIO.parse_location(location)
    return Path(path) if scheme == "file" else None
